//! Counts and sums of the records of a list, and of the lines of a text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::claims::absence::stem;
use crate::claims::chunk::folded;
use crate::claims::decimal::Decimal;
use crate::claims::formula::Formula;
use crate::claims::priced::{currency_in, is_price};
use crate::claims::scan::{Context, Scan, same};
use crate::claims::unit::{Unit, minor_of_field};
use crate::claims::wanted::Exactness;
use crate::types::steps;

/// Longer texts are no value by which records are counted.
const MAX_COUNTED: usize = 40;

/// Of a list with more kinds of records, each part that a sentence states must be named.
const MAX_KINDS: usize = 32;

/// How many of the names above a list say what its records are.
const MAX_PATH: usize = 3;

impl Scan<'_> {
    /// Counts and sums of records.
    pub(super) fn records(&mut self, elements: &[Json], name: &str) {
        let all = self
            .path
            .iter()
            .rev()
            .take(MAX_PATH)
            .map(String::as_str)
            .chain([name])
            .collect::<Vec<_>>()
            .join(" ");
        let names: BTreeSet<Box<str>> = folded(&all)
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| word.len() > 2)
            .map(|word| stem(word).into())
            .collect();
        self.counted(elements.len(), name, |context| {
            context.names_count || context.noun.as_ref().is_some_and(|noun| names.contains(noun))
        });
        let mut sums: BTreeMap<&str, (Option<Decimal>, usize)> = BTreeMap::new();
        let mut kinds: BTreeMap<(&str, Box<str>), usize> = BTreeMap::new();
        let mut currency = self.currency.clone();
        for element in elements {
            steps::count(1);
            match element {
                Json::Number(number) => add(&mut sums, "", Decimal::of_json(&number.to_string())),
                Json::Object(members) => {
                    currency = currency.or_else(|| currency_in(members));
                    for (key, value) in members {
                        match value {
                            Json::Number(number) => {
                                add(&mut sums, key, Decimal::of_json(&number.to_string()))
                            }
                            Json::String(text) if text.len() <= MAX_COUNTED => {
                                if let Some(amount) = Decimal::of_json(text).filter(|_| !text.is_empty()) {
                                    add(&mut sums, key, Some(amount));
                                }
                                *kinds.entry((key, folded(text).into())).or_default() += 1;
                            }
                            Json::Bool(true) => *kinds.entry((key, folded(key).into())).or_default() += 1,
                            // `price: {amount, currency}`, and `licenses: [MIT]`.
                            Json::Object(inner) => {
                                currency = currency.or_else(|| currency_in(inner));
                                for (_, value) in inner.iter().filter(|(name, _)| is_price(name)) {
                                    let number = match value {
                                        Json::Number(number) => Decimal::of_json(&number.to_string()),
                                        Json::String(text) if !text.is_empty() => Decimal::of_json(text),
                                        _ => None,
                                    };
                                    if number.is_some() {
                                        add(&mut sums, key, number);
                                    }
                                }
                            }
                            Json::Array(all) => {
                                let texts = all.iter().filter_map(Json::as_str);
                                for text in texts.filter(|text| text.len() <= MAX_COUNTED) {
                                    *kinds.entry((key, folded(text).into())).or_default() += 1;
                                }
                            }
                            Json::String(_) | Json::Bool(false) | Json::Null => {}
                        }
                    }
                }
                Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) => {}
            }
        }
        for (key, (sum, numbers)) in sums {
            let Some(sum) = sum.filter(|_| numbers > 1) else { continue };
            let shown = if key.is_empty() { name } else { key };
            // A sum of cents is written in the unit.
            let minor = minor_of_field(shown);
            let sum = match minor {
                Some((power, _)) => sum.over_power_of_ten(power),
                None => Some(sum),
            };
            let Some(sum) = sum else { continue };
            let own = match minor {
                Some((_, code)) => code.map(Unit::money),
                None => Unit::of_field(shown),
            };
            let unit = own.as_ref().or(currency.as_ref().filter(|_| is_price(key)));
            let (hits, contexts) = (&mut self.hits, &self.query.contexts);
            self.query.wanted.amount(sum, unit, |number, exactness| {
                let may_be = contexts.get(number).is_some_and(|context| context.names_sum);
                if may_be && exactness == Exactness::Exact {
                    Self::hit(hits, number, Some(Formula::Sum { of: shown.into() }));
                }
            });
        }
        let words: Vec<Vec<Box<str>>> = kinds.keys().map(|(_, kind)| words_of(kind)).collect();
        let names = |words: &[Box<str>], context: &Context| {
            !words.is_empty() && words.iter().all(|word| context.stems.contains(word))
        };
        // `2 of 3 have it`: a part of the list for which the sentence has no word of the list.
        let is_unnamed = |context: &Context| {
            context.is_part && words.len() <= MAX_KINDS && !words.iter().any(|words| names(words, context))
        };
        for (((key, kind), count), words) in kinds.into_iter().zip(&words) {
            let shown = format!("{key} = {kind}");
            self.counted(count, &shown, |context| names(words, context) || is_unnamed(context));
            self.counted(elements.len().saturating_sub(count), &format!("{key} is not {kind}"), is_unnamed);
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
            let of_line: BTreeSet<&str> = words.filter_map(|word| nouns.get(stem(word)).copied()).collect();
            for noun in of_line {
                *counts.entry(noun).or_default() += 1;
            }
        }
        for (noun, count) in counts {
            self.counted(count, &format!("lines with {noun}"), |context| {
                context.noun.as_deref() == Some(noun)
            });
        }
    }

    fn counted(&mut self, count: usize, of: &str, may_be: impl Fn(&Context) -> bool) {
        let Ok(count) = u64::try_from(count) else { return };
        let (hits, contexts) = (&mut self.hits, &self.query.contexts);
        self.query.wanted.amount(Decimal::whole(count), Some(&Unit::COUNT), |number, exactness| {
            if exactness == Exactness::Exact && contexts.get(number).is_some_and(&may_be) {
                Self::hit(hits, number, Some(Formula::Count { of: of.into() }));
            }
        });
    }
}

/// The words of a value by which records are counted, shortened to their stems.
fn words_of(kind: &str) -> Vec<Box<str>> {
    kind.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .map(|word| same(stem(word)).into())
        .collect()
}

fn add<'a>(sums: &mut BTreeMap<&'a str, (Option<Decimal>, usize)>, key: &'a str, amount: Option<Decimal>) {
    let (sum, numbers) = sums.entry(key).or_insert((Some(Decimal::whole(0)), 0));
    *sum = sum.zip(amount).and_then(|(sum, amount)| sum.plus(amount));
    *numbers += 1;
}
