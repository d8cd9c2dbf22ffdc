//! One pass over a piece of evidence: which of the wanted values it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::absence::{stem, unaccented};
use crate::chunk::{folded, readable, with_folded};
use crate::date::{Day, Time, Timestamp};
use crate::decimal::Decimal;
use crate::field::{FieldName, FieldNames, NameWords};
use crate::formula::Formula;
use crate::json::Json;
use crate::known::Known;
use crate::mates::Mates;
use crate::priced::{currencies_written, currency_named};
use crate::span;
use crate::stems::Stems;
use crate::table::{self, Tables};
use crate::unit::Unit;
use crate::value::{Measured, Reads, Value, values};
use crate::wanted::{Exactness, TextSearch, Wanted};
use crate::word::{TextWord, text_words};
use loop_core::types::{Evidence, Locale, Status, WorkItem};

/// What the sentence of a value says that matters for finding it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Whether it names a sum.
    pub(crate) names_sum: bool,
    /// Whether it names an average.
    pub(crate) names_average: bool,
    /// Whether it names a count.
    pub(crate) names_count: bool,
    /// Its words, shortened to their stems.
    pub(crate) stems: Arc<Stems>,
    /// Whether it is the first number of `3 of 12`.
    pub(crate) is_part: bool,
    /// The unit of a rate: `kWh` of `24 pence per kWh`.
    pub(crate) rate: Option<Unit>,
    /// The number of its sentence.
    pub(crate) sentence: usize,
    /// The unit of the value.
    pub(crate) unit: Option<Unit>,
    /// The currency of the value.
    pub(crate) currency: Option<&'static str>,
    /// The stem of the noun behind the number.
    pub(crate) noun: Option<Box<str>>,
}

/// Which computations over records the values of a document can need at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Computations {
    /// A whole number without a unit.
    pub(crate) counts: bool,
    /// An amount of a sentence that names a sum.
    pub(crate) sums: bool,
    /// An amount of a sentence that names an average.
    pub(crate) averages: bool,
    /// An amount of money.
    pub(crate) money: bool,
    /// A duration.
    pub(crate) spans: bool,
}

/// What is looked for, and by what each value may be computed.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) asked: Computations,
    /// The amounts of sentences that name a sum, for the sums of the records that they name.
    pub(crate) summed: Vec<usize>,
    pub(crate) wanted: Wanted,
    /// By the number of the value.
    pub(crate) contexts: Vec<Context>,
    /// Stems of what a sentence says is absent, with the number of the statement. Without a noun: the empty stem.
    pub(crate) absent: BTreeMap<Box<str>, Vec<usize>>,
    pub(crate) first_year: Option<i32>,
    /// The run's offset from UTC, in minutes.
    pub(crate) clock: i32,
    pub(crate) locale: Locale,
}

/// What was found in one piece of evidence: the numbers of the values, and how each was computed. `None`: copied.
pub(crate) type Hits = BTreeMap<usize, Option<Formula>>;

/// What was found in a piece of evidence.
pub(super) struct Looked {
    pub(super) hits: Hits,
    pub(super) mates: Mates,
    /// The values whose number it has with another unit.
    pub(super) other_units: BTreeSet<usize>,
}

/// Looks through an observation.
pub(super) fn evidence(query: &Query, names: &mut FieldNames, evidence: &Evidence) -> Looked {
    let mut scan = Scan::new(query, names);
    let observation = &evidence.observation;
    if observation.status == Status::Empty {
        scan.all_absent();
    }
    scan.named_in = &observation.data;
    if query.asked.money {
        scan.currencies = currencies(evidence);
    }
    scan.text(&observation.summary, None);
    match observation.data.as_text() {
        Some(text) => {
            scan.lines(text);
            scan.table(text);
            if query.asked.spans {
                for seconds in span::between_lines(text, query.locale) {
                    scan.span(seconds, "lines");
                }
            }
            if *text != observation.markdown {
                scan.text(&observation.markdown, None);
            }
        }
        None => {
            if let Some(data) = Json::read(&observation.data) {
                if matches!(&data, Json::Array(elements) if elements.is_empty()) {
                    scan.all_absent();
                }
                let name = scan.field_name(&evidence.tool);
                scan.json(&data, &name, None);
            }
            scan.text(&observation.markdown, None);
        }
    }
    scan.finished()
}

/// The currencies that an observation names.
pub(crate) fn currencies(evidence: &Evidence) -> Vec<&'static str> {
    let observation = &evidence.observation;
    let mut found = currencies_written(&observation.data);
    for text in [&observation.summary, &observation.markdown] {
        found.extend(currencies_written(text));
    }
    found
}

/// Looks through the work item.
pub(crate) fn item(query: &Query, names: &mut FieldNames, item: &WorkItem) -> Hits {
    let mut scan = Scan::new(query, names);
    for text in [&item.id, &item.title, &item.full] {
        scan.text(text, None);
    }
    if let Some(data @ (Json::Object(_) | Json::Array(_))) = Json::read(&item.full) {
        let name = scan.field_name(&item.kind);
        scan.json(&data, &name, None);
    }
    scan.finished().hits
}

pub(super) struct Scan<'a> {
    pub(super) query: &'a Query,
    names: &'a mut FieldNames,
    pub(super) search: TextSearch,
    /// The same in the names of fields, which are no part of the texts beneath them.
    pub(super) name_search: TextSearch,
    /// The number of the text that is looked through.
    pub(super) field: usize,
    /// How many of the next words a negation is about.
    pub(super) negated: usize,
    /// The currency that the record names.
    pub(super) currency: Option<Unit>,
    /// The text whose currency is that of all amounts without one, where it names only one.
    named_in: &'a str,
    /// The one currency that the text names, once it was asked for. `Some(None)`: it names none, or several.
    named: Option<Option<Unit>>,
    /// All currencies that it names: a number without a unit is not one of another.
    pub(super) currencies: Vec<&'static str>,
    /// Whether the record itself names it.
    pub(super) is_own_currency: bool,
    /// The unit of the rate that the field has: of `pence_per_kwh`.
    pub(super) rate: Option<Unit>,
    /// The names of the fields above the value, the outermost first.
    pub(super) path: Vec<Arc<FieldName>>,
    pub(super) hits: Hits,
    /// The days that were looked for.
    days: BTreeSet<Day>,
    /// The last of them: records of one day follow each other, and an instant names its day more than once.
    last_day: Option<Day>,
    /// Whether each value of a day is found, and not only the first one.
    pub(super) each_day: bool,
    /// What was found as a number without a unit only.
    bare: BTreeSet<usize>,
    /// What has the number of an amount of the observation, and another unit than it.
    other_units: BTreeSet<usize>,
    /// The values of the records.
    pub(super) mates: Mates,
}

impl<'a> Scan<'a> {
    pub(super) fn new(query: &'a Query, names: &'a mut FieldNames) -> Self {
        Self {
            query,
            names,
            search: TextSearch::default(),
            name_search: TextSearch::default(),
            field: 0,
            negated: 0,
            currency: None,
            named_in: "",
            named: None,
            currencies: Vec::new(),
            is_own_currency: false,
            rate: None,
            path: Vec::new(),
            hits: Hits::new(),
            days: BTreeSet::new(),
            last_day: None,
            each_day: false,
            bare: BTreeSet::new(),
            other_units: BTreeSet::new(),
            mates: Mates::default(),
        }
    }

    pub(super) fn hit(hits: &mut Hits, number: usize, formula: Option<Formula>) {
        match hits.entry(number) {
            std::collections::btree_map::Entry::Vacant(free) => _ = free.insert(formula),
            // A copy is worth more than a computation.
            std::collections::btree_map::Entry::Occupied(mut known) if formula.is_none() => {
                _ = known.insert(None)
            }
            std::collections::btree_map::Entry::Occupied(_) => {}
        }
    }

    /// What was found since the last call.
    pub(super) fn take_hits(&mut self) -> Hits {
        self.days.clear();
        self.last_day = None;
        std::mem::take(&mut self.hits)
    }

    /// The text whose only currency is that of amounts without one.
    pub(super) fn names_currency_in(&mut self, text: &'a str) {
        self.named_in = text;
    }

    /// The currency of an amount without one: the record's, else the only one of the observation.
    pub(super) fn currency(&mut self) -> Option<Unit> {
        if self.currency.is_some() {
            return self.currency.clone();
        }
        self.named.get_or_insert_with(|| currency_named(self.named_in)).clone()
    }

    /// What was found. A number without a unit is not `42 PB` where the observation has `42 GB`.
    fn finished(mut self) -> Looked {
        for number in self.bare.intersection(&self.other_units) {
            self.hits.remove(number);
        }
        Looked { hits: self.hits, mates: self.mates.finished(), other_units: self.other_units }
    }

    fn all_absent(&mut self) {
        for number in self.query.absent.values().flatten() {
            Self::hit(&mut self.hits, *number, None);
        }
    }

    pub(super) fn absent(&mut self, stem: &str) {
        // German joins nouns: `keine Anästhesiekapazität`.
        if self.query.locale == Locale::De && stem.len() > 10 {
            let ends =
                self.query.absent.iter().filter(|(noun, _)| noun.len() > 5 && stem.ends_with(&***noun));
            for number in ends.flat_map(|(_, numbers)| numbers) {
                Self::hit(&mut self.hits, *number, None);
            }
        }
        // A field is `fixed_in` where a sentence has `no fix`.
        let of_verb = stem.strip_suffix("ed").filter(|verb| verb.len() > 2);
        for stem in std::iter::once(stem).chain(of_verb) {
            for number in self.query.absent.get(stem).into_iter().flatten() {
                Self::hit(&mut self.hits, *number, None);
            }
        }
    }

    /// The words of a field's name are absent, because its value says so.
    pub(super) fn absent_field(&mut self, name: &FieldName) {
        if self.query.absent.is_empty() {
            return;
        }
        for stem in &name.stems {
            self.absent(stem);
        }
    }

    pub(super) fn field_name(&mut self, name: &str) -> Arc<FieldName> {
        self.names.get(name, self.query)
    }

    /// A text that may have tables: the numbers of a column whose name says a unit are not without one.
    fn table(&mut self, text: &str) {
        let Tables { lists, measured } = table::tables(text);
        match measured.is_empty() {
            true => self.text(text, None),
            false => {
                self.field += 1;
                self.words(&readable(text));
                let mut rest = text.to_owned();
                for range in measured {
                    let blank = " ".repeat(range.len());
                    rest.replace_range(range, &blank);
                }
                self.measures(&readable(&rest), None);
            }
        }
        let name = self.field_name("");
        for rows in lists {
            self.json(&Json::Array(rows), &name, None);
        }
    }

    pub(super) fn text(&mut self, text: &str, unit: Option<&Unit>) {
        self.field += 1;
        let text = readable(text);
        self.words(&text);
        self.measures(&text, unit);
    }

    /// The name of a field.
    pub(super) fn name(&mut self, name: &FieldName) {
        match name.words {
            NameWords::Wanted => {
                std::mem::swap(&mut self.search, &mut self.name_search);
                self.words(&name.spaced);
                std::mem::swap(&mut self.search, &mut self.name_search);
            }
            NameWords::Others => self.name_search.interrupt(),
            NameWords::None => {}
        }
        for found in &name.found {
            self.measure(&found.value, None);
        }
    }

    fn measures(&mut self, text: &str, unit: Option<&Unit>) {
        // Most texts of evidence with a day are an instant and nothing else.
        if let Some(instant) = Timestamp::alone(text, self.query.locale) {
            for (day, time) in instant.readings(self.query.clock) {
                if let Some(day) = day {
                    self.day_of_year(day);
                }
                if let Some(time) = time {
                    self.time(time);
                }
            }
            return;
        }
        let all = values(text, self.query.locale, self.query.clock, Reads::Measures);
        // Most texts have no value at all.
        let is_long = !all.is_empty() && text.contains('\n');
        if is_long {
            self.mates.begin_list();
        }
        let mut end = 0;
        for found in &all {
            // Each line of a text is a record.
            if is_long && found.range.start >= end {
                if end > 0 {
                    self.mates.end();
                }
                self.mates.begin();
                let rest = text.get(found.range.start..).unwrap_or_default();
                end = found.range.start + rest.find('\n').unwrap_or(rest.len()).max(1);
            }
            self.measure(&found.value, unit);
        }
        if end > 0 {
            self.mates.end();
        }
        if is_long {
            self.mates.end_list();
        }
    }

    /// An amount, a day or a time of a text.
    pub(super) fn measure(&mut self, value: &Value, unit: Option<&Unit>) {
        match value {
            Value::Amount { number, measured, other, .. } => {
                let own = match measured {
                    Measured::Unit(unit) => Some(unit),
                    Measured::Nothing => unit,
                    Measured::Noun(_) => None,
                };
                self.amount(number.amount, own);
                if own.is_none() && number.amount.to_whole().is_some_and(|whole| whole >= 1_000_000) {
                    self.amount(number.amount, Some(&Unit::BYTES));
                }
                if let Some(other) = other {
                    self.amount(**other, own);
                }
            }
            Value::Day(day) => self.day_of_year(*day),
            Value::Time(time) => self.time(*time),
            // Only documents have them.
            Value::RelativeDay(_) | Value::Text { .. } => {}
        }
    }

    /// What of the words of a name has to be looked up.
    pub(super) fn words_of_name(query: &Query, spaced: &str) -> NameWords {
        let is_wanted = |it: TextWord<'_>| {
            query.wanted.may_have(&it) || !query.absent.is_empty() && OF_NEGATION.has(&folded(it.word))
        };
        match text_words(spaced).next() {
            None => NameWords::None,
            Some(_) if text_words(spaced).any(is_wanted) => NameWords::Wanted,
            Some(_) => NameWords::Others,
        }
    }

    pub(super) fn words(&mut self, text: &str) {
        if !self.query.wanted.has_texts() && self.query.absent.is_empty() {
            return;
        }
        let (wanted, field) = (&self.query.wanted, self.field);
        let (hits, search) = (&mut self.hits, &mut self.search);
        wanted.known_words(text, |it| match it {
            None => search.interrupt(),
            Some(it) => with_folded(it.word, |word| {
                let found = |number: usize, _| Self::hit(hits, number, None);
                search.word(wanted, word, (field, it.range.start), it.is_glued(), found);
            }),
        });
        self.hashes(text);
        if self.query.absent.is_empty() {
            return;
        }
        for it in text_words(text) {
            let word = folded(it.word);
            if OF_NEGATION.has(&word) {
                self.negated = 5;
            } else if self.negated > 0 {
                self.negated -= 1;
                self.absent(stem(&unaccented(&word)));
            }
        }
        self.negated = 0;
    }

    /// The first digits of a hash, as people write it.
    fn hashes(&mut self, text: &str) {
        if !self.query.wanted.has_hashes() {
            return;
        }
        for it in text_words(text).filter(|it| it.word.len() > 7) {
            let hits = &mut self.hits;
            self.query.wanted.hash(&folded(it.word), |number| Self::hit(hits, number, None));
        }
    }

    pub(super) fn amount(&mut self, amount: Decimal, unit: Option<&Unit>) {
        self.mates.amount(amount, unit);
        // `-765.00` of an account is a payment of 765.00.
        if amount.is_negative() {
            self.amount(amount.absolute(), unit);
        }
        if let Some(unit) = unit {
            let (contexts, other_units) = (&self.query.contexts, &mut self.other_units);
            self.query.wanted.written(amount, |number| {
                let of_value = contexts.get(number).and_then(|context| context.unit.as_ref());
                if of_value.is_some_and(|own| own.dimension == unit.dimension && !own.is_size_of(unit)) {
                    other_units.insert(number);
                }
            });
        }
        let bare = &mut self.bare;
        let (hits, contexts, rate) = (&mut self.hits, &self.query.contexts, &self.rate);
        let currencies = &self.currencies;
        self.query.wanted.amount(amount, unit, |number, exactness| {
            let of_value = contexts.get(number).and_then(|context| context.currency);
            if of_value.is_some_and(|code| !currencies.is_empty() && !currencies.contains(&code)) {
                return;
            }
            let stated = contexts.get(number).and_then(|context| context.rate.as_ref());
            if rate.as_ref().zip(stated).is_some_and(|(rate, stated)| rate != stated) {
                return;
            }
            let formula = (exactness == Exactness::Rounded).then_some(Formula::Rounded);
            match unit {
                None if !hits.contains_key(&number) => _ = bare.insert(number),
                None => {}
                Some(_) => _ = bare.remove(&number),
            }
            Self::hit(hits, number, formula);
        });
    }

    /// A day, and the year that it names.
    fn day_of_year(&mut self, day: Day) {
        if let Some(year) = day.year {
            self.year(year);
        }
        self.day(day);
    }

    /// A day. Records have the same few days.
    pub(super) fn day(&mut self, day: Day) {
        self.mates.day(day);
        if self.last_day == Some(day) || !self.days.insert(day) {
            return;
        }
        self.last_day = Some(day);
        let hits = &mut self.hits;
        let each = self.each_day;
        self.query.wanted.day(day, self.query.first_year, each, |number| Self::hit(hits, number, None));
    }

    fn year(&mut self, year: i32) {
        let hits = &mut self.hits;
        self.query.wanted.year(year, |number| Self::hit(hits, number, None));
    }

    pub(super) fn time(&mut self, time: Time) {
        self.mates.time(time);
        let hits = &mut self.hits;
        self.query.wanted.time(time, |number| Self::hit(hits, number, None));
    }
}

static OF_NEGATION: LazyLock<Known> = LazyLock::new(|| Known::of(&[(NEGATIONS, 1)]));

/// Words of evidence that negate the few words behind them.
const NEGATIONS: &[&str] = &[
    "no", "not", "none", "without", "missing", "0", "kein", "keine", "nicht", "aucun", "aucune", "ohne",
    "sin", "sans", "ningún", "ninguna",
];

/// The one word for a state that systems and people name in several.
pub(crate) fn same(stem: &str) -> &str {
    const GOOD: &[&str] = &["pass", "succ", "erfolg", "réuss", "complet", "green", "aprob"];
    const BAD: &[&str] = &["fail", "fehlgeschlag", "échou", "échec", "error", "fall"];
    let begins = |words: &[&str]| words.iter().any(|word| stem.starts_with(word));
    match () {
        () if begins(GOOD) || stem == "ok" => "success",
        () if begins(BAD) => "failed",
        () => stem,
    }
}
