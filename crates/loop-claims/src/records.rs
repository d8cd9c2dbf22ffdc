//! Counts and sums of the records of a list, and of the lines of a text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::absence::{stem, unaccented};
use crate::chunk::folded;
use crate::decimal::{Decimal, Number};
use crate::field::FieldName;
use crate::formula::Formula;
use crate::json::{Json, Members, Written};
use crate::priced::{currency_in, is_price};
use crate::scan::{Computations, Context, Scan, same};
use crate::steps;
use crate::unit::Unit;
use crate::wanted::Exactness;
use loop_core::types::Locale;

/// Longer texts are no value by which records are counted.
const MAX_COUNTED: usize = 40;

/// Of a list with more kinds of records, each part that a sentence states must be named.
const MAX_KINDS: usize = 32;

/// How many of the names above a list say what its records are.
const MAX_PATH: usize = 3;

impl Scan<'_> {
    /// Counts and sums of records.
    pub(super) fn records(&mut self, elements: &[Json<'_>], field: &FieldName) {
        let asked = self.query.asked;
        if asked == Computations::default() {
            return;
        }
        let name = &*field.name;
        if asked.counts {
            let contexts = self.path.iter().rev().take(MAX_PATH).map(AsRef::as_ref).chain([field]);
            let names: BTreeSet<Box<str>> = contexts.flat_map(|it| it.stems.iter().cloned()).collect();
            self.counted(
                elements.len(),
                || name.to_owned(),
                |context| {
                    context.names_count || context.noun.as_ref().is_some_and(|noun| names.contains(noun))
                },
            );
        }
        let mut records = Records { asked, locale: self.query.locale, ..Records::default() };
        for element in elements {
            steps::count(1);
            match element {
                Json::Number(number) if asked.sums => {
                    records.add("", amount_of(number));
                }
                Json::Object(members) => records.read(members),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {}
            }
        }
        if asked.sums {
            self.named_sums(elements);
        }
        self.sums(&records, name);
        self.kinds(records.kinds, elements.len());
    }

    fn sums(&mut self, records: &Records<'_>, name: &str) {
        for (key, (sum, numbers)) in records.sums.iter().chain(&records.debits) {
            let Some(sum) = sum.filter(|_| *numbers > 1).map(Decimal::absolute) else { continue };
            let shown = if key.is_empty() { name } else { key };
            let field = self.field_name(shown);
            // A sum of cents is written in the unit.
            let (sum, own) = match field.minor {
                Some((power, code)) => (sum.over_power_of_ten(power), code.map(Unit::money)),
                None => (Some(sum), field.unit.clone()),
            };
            let Some(sum) = sum else { continue };
            let of_price = match own.is_none() && field.is_price {
                true => records.currency.clone().or_else(|| self.currency()),
                false => None,
            };
            let unit = own.as_ref().or(of_price.as_ref());
            let (hits, contexts) = (&mut self.hits, &self.query.contexts);
            self.query.wanted.amount(sum, unit, |number, exactness| {
                // `12.5 hours of overtime` names the column.
                let names_field = |context: &Context| {
                    !field.stems.is_empty() && field.stems.iter().all(|stem| context.stems.contains(stem))
                };
                let may_be =
                    contexts.get(number).is_some_and(|context| context.names_sum || names_field(context));
                if may_be && exactness == Exactness::Exact {
                    Self::hit(hits, number, Some(Formula::Sum { of: shown.into() }));
                }
            });
            let average = u64::try_from(*numbers).ok().and_then(|many| sum.quotient(Decimal::whole(many), 8));
            if let Some(average) = average.filter(|_| self.query.asked.averages) {
                let (hits, contexts) = (&mut self.hits, &self.query.contexts);
                self.query.wanted.amount(average, unit, |number, _| {
                    if contexts.get(number).is_some_and(|context| context.names_average) {
                        Self::hit(hits, number, Some(Formula::Average { of: shown.into() }));
                    }
                });
            }
        }
    }

    /// Sums over the records that a sentence names, by the words of a text in each.
    fn named_sums(&mut self, elements: &[Json<'_>]) {
        if self.query.summed.is_empty() || elements.len() < 2 {
            return;
        }
        let members = elements.iter().filter_map(Json::as_object);
        let labels: Vec<Vec<Vec<Box<str>>>> = members
            .clone()
            .map(|members| {
                let texts = members.iter().filter_map(|(_, value)| value.as_str()).take(MAX_LABELS);
                let texts =
                    texts.filter(|text| text.len() <= MAX_COUNTED && text.contains(char::is_alphabetic));
                texts.map(|text| words_of(&folded(text))).filter(|words| !words.is_empty()).collect()
            })
            .collect();
        let query = self.query;
        for number in &query.summed {
            let Some(context) = query.contexts.get(*number) else { continue };
            let is_named = |labels: &&Vec<Vec<Box<str>>>| {
                labels.iter().any(|words| words.iter().all(|word| context.stems.contains(word)))
            };
            let mut sums: BTreeMap<&str, (Option<Decimal>, usize)> = BTreeMap::new();
            for (members, _) in members.clone().zip(&labels).filter(|(_, labels)| is_named(labels)) {
                steps::count(1);
                for (key, value) in members.iter() {
                    let amount = match value {
                        Json::Number(number) => amount_of(number),
                        Json::String(text) => amount_in(text, query.locale),
                        _ => None,
                    };
                    if amount.is_some() {
                        let (sum, many) = sums.entry(key).or_insert((Some(Decimal::whole(0)), 0));
                        *sum = sum.zip(amount).and_then(|(sum, amount)| sum.plus(amount));
                        *many += 1;
                    }
                }
            }
            for (key, (sum, many)) in sums {
                let Some(sum) = sum.filter(|_| many > 1).map(Decimal::absolute) else { continue };
                let unit = self.field_name(key).unit.clone();
                let hits = &mut self.hits;
                query.wanted.amount(sum, unit.as_ref(), |found, exactness| {
                    if found == *number && exactness == Exactness::Exact {
                        Self::hit(hits, found, Some(Formula::Sum { of: key.into() }));
                    }
                });
            }
        }
    }

    /// Counts of the records of each kind in a list of so many.
    fn kinds(&mut self, kinds: BTreeMap<(&str, Cow<'_, str>), usize>, all: usize) {
        let words: Vec<Vec<Box<str>>> = kinds.keys().map(|(_, kind)| words_of(kind)).collect();
        let names = |words: &[Box<str>], context: &Context| {
            !words.is_empty() && words.iter().all(|word| context.stems.contains(word))
        };
        // `2 of 3 have it`: a part of the list for which the sentence has no word of the list.
        let is_unnamed = |context: &Context| {
            context.is_part && words.len() <= MAX_KINDS && !words.iter().any(|words| names(words, context))
        };
        for (((key, kind), count), words) in kinds.into_iter().zip(&words) {
            let shown = || format!("{key} = {kind}");
            self.counted(count, shown, |context| names(words, context) || is_unnamed(context));
            let shown = || format!("{key} is not {kind}");
            self.counted(all.saturating_sub(count), shown, is_unnamed);
        }
    }

    /// Counts the lines of a text that have the noun behind a number.
    pub(super) fn lines(&mut self, text: &str) {
        let contexts = &self.query.contexts;
        let nouns: BTreeSet<&str> = contexts.iter().filter_map(|it| it.noun.as_deref()).collect();
        if nouns.is_empty() {
            return;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            let folded = folded(line);
            let words = folded.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
            let of_line: BTreeSet<&str> =
                words.filter_map(|word| nouns.get(stem(&unaccented(word))).copied()).collect();
            for noun in of_line {
                *counts.entry(noun).or_default() += 1;
            }
        }
        for (noun, count) in counts {
            self.counted(
                count,
                || format!("lines with {noun}"),
                |context| context.noun.as_deref() == Some(noun),
            );
        }
    }

    fn counted(&mut self, count: usize, of: impl Fn() -> String, may_be: impl Fn(&Context) -> bool) {
        let Ok(count) = u64::try_from(count) else { return };
        let (hits, contexts) = (&mut self.hits, &self.query.contexts);
        self.query.wanted.amount(Decimal::whole(count), Some(&Unit::COUNT), |number, exactness| {
            if exactness == Exactness::Exact && contexts.get(number).is_some_and(&may_be) {
                Self::hit(hits, number, Some(Formula::Count { of: of().into() }));
            }
        });
    }
}

/// Of more texts of a record none is its name.
const MAX_LABELS: usize = 6;

/// The number of a cell: `-2,105.00`, `12.40 GB`.
fn amount_in(text: &str, locale: Locale) -> Option<Decimal> {
    if text.len() > MAX_COUNTED {
        return None;
    }
    let end = text.bytes().position(|byte| byte == b' ').unwrap_or(text.len());
    let digits = text.get(..end).filter(|digits| digits.as_bytes().last().is_some_and(u8::is_ascii_digit))?;
    Number::read(digits, locale).map(|number| number.amount)
}

fn amount_of(number: &Written) -> Option<Decimal> {
    Decimal::of_json(number.as_str())
}

/// The words of a value by which records are counted, shortened to their stems.
fn words_of(kind: &str) -> Vec<Box<str>> {
    kind.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .map(|word| same(stem(&unaccented(word))).into())
        .collect()
}

/// What the records of a list have: the numbers of each field, and the texts by which records are counted.
#[derive(Debug, Default)]
struct Records<'a> {
    asked: Computations,
    currency: Option<Unit>,
    locale: Locale,
    /// By field: the sum of the numbers below zero, which are payments in an account.
    debits: BTreeMap<&'a str, (Option<Decimal>, usize)>,
    sums: BTreeMap<&'a str, (Option<Decimal>, usize)>,
    kinds: BTreeMap<(&'a str, Cow<'a, str>), usize>,
}

impl<'a> Records<'a> {
    fn add(&mut self, key: &'a str, amount: Option<Decimal>) {
        let debits = amount.is_some_and(Decimal::is_negative).then_some(&mut self.debits);
        for sums in std::iter::once(&mut self.sums).chain(debits) {
            let (sum, numbers) = sums.entry(key).or_insert((Some(Decimal::whole(0)), 0));
            *sum = sum.zip(amount).and_then(|(sum, amount)| sum.plus(amount));
            *numbers += 1;
        }
    }

    fn kind(&mut self, key: &'a str, text: &'a str) {
        if self.asked.counts && text.len() <= MAX_COUNTED {
            *self.kinds.entry((key, folded(text))).or_default() += 1;
        }
    }

    fn read(&mut self, members: &'a Members<'_>) {
        let asks_sums = self.asked.sums;
        if asks_sums && self.currency.is_none() {
            self.currency = currency_in(members);
        }
        for (key, value) in members.iter() {
            match value {
                Json::Number(number) if asks_sums => self.add(key, amount_of(number)),
                Json::String(text) => {
                    if asks_sums && let Some(amount) = amount_in(text, self.locale) {
                        self.add(key, Some(amount));
                    }
                    self.kind(key, text);
                }
                Json::Bool(true) => self.kind(key, key),
                // `price: {amount, currency}`.
                Json::Object(inner) if asks_sums => {
                    self.currency = self.currency.take().or_else(|| currency_in(inner));
                    for (_, value) in inner.iter().filter(|(name, _)| is_price(name)) {
                        let number = match value {
                            Json::Number(number) => amount_of(number),
                            Json::String(text) if !text.is_empty() => Decimal::of_json(text),
                            _ => None,
                        };
                        if number.is_some() {
                            self.add(key, number);
                        }
                    }
                }
                // `licenses: [MIT]`.
                Json::Array(all) => all.iter().filter_map(Json::as_str).for_each(|text| self.kind(key, text)),
                Json::Number(_) | Json::Object(_) | Json::Bool(false) | Json::Null => {}
            }
        }
    }
}
