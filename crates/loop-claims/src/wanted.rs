//! The values of a document, ordered so that each value of a text is looked up once.

use std::collections::BTreeMap;

use crate::date::{Day, Time};
use crate::decimal::Decimal;
use crate::filter::Filter;
use crate::lists::{List, Lists};
use crate::steps;
use crate::unit::{Dimension, Unit};
use crate::value::{Measured, Value, ValueKind};
use crate::word::{TextWord, Vocabulary, known_words};

/// Longer texts are compared by their first words.
const MAX_WORDS: usize = 40;

/// More equal values of a document are not looked for, so that each value of a text finds at most so many.
pub(crate) const MAX_SAME: usize = 256;

/// Of a number with fewer significant digits it is not said that it is rounded, unless the text says so.
const SIGNIFICANT: usize = 3;

/// The same where the text says that it is rounded.
const SIGNIFICANT_ABOUT: usize = 2;

/// How many digits of a hash people write.
const HASH: std::ops::RangeInclusive<usize> = 7..=12;

/// Which amounts a lookup compares with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    /// All amounts: the evidence names no unit.
    Any,
    /// Amounts without a unit: the evidence has one.
    Bare,
    Of(Dimension),
}

/// How an amount was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exactness {
    Exact,
    Rounded,
}

/// Amounts, each with the values that it is.
type Amounts = BTreeMap<Decimal, List>;

/// The amounts of one side.
#[derive(Debug, Default)]
struct OfSide {
    exact: Amounts,
    /// Those that are rounded, by the factor of the unit and the digits after the point, in this order.
    rounded: Vec<((u64, i32), Amounts)>,
}

/// The values that are one day.
#[derive(Debug, Default)]
struct OfDay {
    /// The first of those that name the day itself.
    first: Option<usize>,
    stated: List,
    /// Those that name it from the start of the run.
    relative: List,
}

/// What is looked for. Each value has a number.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// There are few.
    sides: Vec<(Side, OfSide)>,
    days: BTreeMap<Day, OfDay>,
    times: BTreeMap<Time, List>,
    /// Short hexadecimal ids, which may be the begin of a hash.
    hashes: BTreeMap<Box<str>, Vec<usize>>,
    /// Amounts with a unit, by the number as written.
    written: Amounts,
    /// Numbers that may be years.
    years: BTreeMap<i32, List>,
    /// Which amounts the maps have.
    known: Filter,
    /// The numbers of the values.
    lists: Lists,
    /// The tree of words; the first node is the root.
    nodes: Vec<Node>,
    /// The words of the texts.
    vocabulary: Vocabulary,
    /// How often each relative day is in the document.
    relative: BTreeMap<i64, usize>,
    /// How many texts have no words.
    without_words: usize,
}

#[derive(Debug, Default)]
struct Node {
    next: BTreeMap<Box<str>, usize>,
    /// The texts that end here.
    ends: List,
    /// The same of those that may be spread over two fields.
    spread_ends: List,
    /// How many values are this text, without those of which it is another form.
    same: usize,
}

/// What the hashes of amounts with a unit are made with, for those as they are written.
const WRITTEN: u64 = u64::MAX;

/// The same for the amounts of a side: for the exact ones with 0, for the rounded ones with the factor of the unit.
fn salt(side: usize, factor: u64) -> u64 {
    u64::try_from(side).unwrap_or(0).wrapping_mul(0x9e37_79b9).wrapping_add(factor)
}

impl Wanted {
    /// Adds a value under a number, unless there are very many that equal it. `first_day` is the day of the run's start.
    /// Whether it is looked for.
    pub(crate) fn add(&mut self, number: usize, value: &Value, first_day: Option<i64>) -> bool {
        if self.same(value) >= MAX_SAME {
            return false;
        }
        match value {
            Value::Amount { number: read, measured, other: _, is_about } => {
                let least = if *is_about { SIGNIFICANT_ABOUT } else { SIGNIFICANT };
                // `2.3` is as exact as it was written.
                let rounds =
                    read.significant >= least || read.places > 0 && read.significant >= SIGNIFICANT_ABOUT;
                // `until the end of 2026` is in the date of a record.
                let year = read.amount.to_whole().and_then(|year| i32::try_from(year).ok());
                if let Some(year) =
                    year.filter(|year| (1900..=2200).contains(year) && *measured == Measured::Nothing)
                {
                    self.lists.add(self.years.entry(year).or_default(), number);
                }
                let places = rounds.then_some(read.places);
                self.add_amount(number, Side::Any, read.amount, 1, places);
                match measured {
                    Measured::Nothing | Measured::Noun(_) => {
                        self.add_amount(number, Side::Bare, read.amount, 1, places);
                    }
                    Measured::Unit(unit) => {
                        self.known.add(read.amount.hash(WRITTEN));
                        self.lists.add(self.written.entry(read.amount).or_default(), number);
                        for (dimension, factor) in unit.factors() {
                            self.add_amount(number, Side::Of(dimension), read.amount, factor, places);
                        }
                    }
                }
            }
            Value::Day(day) => {
                let of_day = self.days.entry(*day).or_default();
                of_day.first.get_or_insert(number);
                self.lists.add(&mut of_day.stated, number);
            }
            Value::RelativeDay(days) => {
                *self.relative.entry(*days).or_default() += 1;
                if *days == 0 {
                    // A field may be `completed_today`.
                    self.add_words(number, &["today".into()], false);
                }
                if let Some(day) = first_day.and_then(|first| Day::of_unix_days(first.checked_add(*days)?)) {
                    self.lists.add(&mut self.days.entry(day).or_default().relative, number);
                }
            }
            Value::Time(time) => self.lists.add(self.times.entry(*time).or_default(), number),
            Value::Text { kind, words, also } => {
                let is_spread = *kind == ValueKind::Name;
                if let ([word], ValueKind::Id) = (words.as_slice(), *kind)
                    && HASH.contains(&word.len())
                    && word.bytes().all(|byte| byte.is_ascii_hexdigit())
                {
                    self.hashes.entry(word.clone()).or_default().push(number);
                }
                match self.add_words(number, words, is_spread) {
                    Some(node) => node.same += 1,
                    None => self.without_words += 1,
                }
                if let Some(also) = also {
                    self.add_words(number, also, is_spread);
                }
                if let ([first, last], true) = (words.as_slice(), is_spread) {
                    // A record has the last name first.
                    self.add_words(number, &[last.clone(), first.clone()], is_spread);
                }
            }
        }
        true
    }

    /// How many values that were added equal this one: those that the same value of a text can find.
    fn same(&self, value: &Value) -> usize {
        match value {
            Value::Amount { number, .. } => {
                let any = self.sides.iter().find(|(side, _)| *side == Side::Any);
                any.and_then(|(_, of_side)| of_side.exact.get(&number.amount)).map_or(0, |list| list.len())
            }
            Value::Day(day) => self.days.get(day).map_or(0, |of_day| of_day.stated.len()),
            Value::RelativeDay(days) => self.relative.get(days).copied().unwrap_or(0),
            Value::Time(time) => self.times.get(time).map_or(0, |list| list.len()),
            Value::Text { words, .. } if words.is_empty() => self.without_words,
            Value::Text { words, .. } => {
                let next = |at: usize, word: &str| self.nodes.get(at)?.next.get(word).copied();
                let node = words.iter().take(MAX_WORDS).map(AsRef::as_ref).try_fold(0, next);
                node.and_then(|at| self.nodes.get(at)).map_or(0, |node| node.same)
            }
        }
    }

    /// Adds an amount to a side; so many units of which are one of it. `places`: the digits behind the point, if it may be
    /// rounded.
    fn add_amount(&mut self, number: usize, side: Side, amount: Decimal, factor: u64, places: Option<i32>) {
        let at = self.sides.iter().position(|(known, _)| *known == side).unwrap_or_else(|| {
            self.sides.push((side, OfSide::default()));
            self.sides.len() - 1
        });
        let Some((_, of_side)) = self.sides.get_mut(at) else { return };
        if let Some(base) = amount.times(factor) {
            self.known.add(base.hash(salt(at, 0)));
            self.lists.add(of_side.exact.entry(base).or_default(), number);
        }
        if let Some(places) = places {
            let level = (factor, places);
            let place = of_side.rounded.binary_search_by_key(&level, |(level, _)| *level);
            let place = place.unwrap_or_else(|place| {
                of_side.rounded.insert(place, (level, Amounts::new()));
                place
            });
            self.known.add(amount.hash(salt(at, factor)));
            if let Some((_, amounts)) = of_side.rounded.get_mut(place) {
                self.lists.add(amounts.entry(amount).or_default(), number);
            }
        }
    }

    /// Texts that say the same in words, such as `five working days`. The first word is in the vocabulary of few documents.
    pub(crate) fn add_in_words(&mut self, number: usize, name: &str, units: &[&str]) {
        for unit in units {
            for between in ["", "business", "working", "calendar"] {
                let words: Vec<Box<str>> = [name, between, unit]
                    .into_iter()
                    .filter(|word| !word.is_empty())
                    .map(Into::into)
                    .collect();
                self.add_words(number, &words, false);
            }
        }
    }

    /// Adds a text, and returns where it ends. `None`: it has no words.
    fn add_words(&mut self, number: usize, words: &[Box<str>], is_spread: bool) -> Option<&mut Node> {
        if words.is_empty() {
            return None;
        }
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for word in words.iter().take(MAX_WORDS) {
            self.vocabulary.add(word);
            let fresh = self.nodes.len();
            let node = self.nodes.get_mut(at)?;
            at = match node.next.get(word) {
                Some(known) => *known,
                None => *node.next.entry(word.clone()).or_insert(fresh),
            };
            if at == fresh {
                self.nodes.push(Node::default());
            }
        }
        let node = self.nodes.get_mut(at)?;
        self.lists.add(if is_spread { &mut node.spread_ends } else { &mut node.ends }, number);
        Some(node)
    }

    /// Calls `found` with each wanted amount that equals this one, or is what it is rounded to.
    pub(crate) fn amount(
        &self,
        amount: Decimal,
        unit: Option<&Unit>,
        mut found: impl FnMut(usize, Exactness),
    ) {
        match unit {
            None => {
                self.look_up(Side::Any, amount, &mut found);
                // A share such as 0.42 is written as 42 %.
                if !amount.is_negative()
                    && amount.to_whole().is_none()
                    && let Some(percent) = amount.times(100)
                    && percent.rounded(0).and_then(Decimal::to_whole).is_some_and(|whole| whole <= 100)
                {
                    self.look_up(Side::Of(Dimension::Percent), percent, &mut found);
                }
            }
            Some(unit) => {
                for (dimension, base) in unit.in_base(amount) {
                    self.look_up(Side::Of(dimension), base, &mut found);
                }
                self.look_up(Side::Bare, amount, &mut found);
            }
        }
    }

    fn look_up(&self, side: Side, base: Decimal, found: &mut impl FnMut(usize, Exactness)) {
        steps::count(1);
        let Some(at) = self.sides.iter().position(|(known, _)| *known == side) else { return };
        let Some((_, of_side)) = self.sides.get(at) else { return };
        self.look_in(&of_side.exact, base, salt(at, 0), |number| {
            steps::count(1);
            found(number, Exactness::Exact);
        });
        for ((factor, places), amounts) in &of_side.rounded {
            if let Some(rounded) = base.divided(*factor, *places) {
                self.look_in(amounts, rounded, salt(at, *factor), |number| found(number, Exactness::Rounded));
            }
        }
    }

    fn look_in(&self, amounts: &Amounts, amount: Decimal, salt: u64, found: impl FnMut(usize)) {
        if self.known.may_have(amount.hash(salt)) {
            self.call(amounts.get(&amount), found);
        }
    }

    /// Calls `found` with each number of a list.
    fn call(&self, list: Option<&List>, found: impl FnMut(usize)) {
        if let Some(list) = list {
            self.lists.of(*list).for_each(found);
        }
    }

    /// Calls `found` with each wanted day that is this one. Of those that name the day itself and so are found together, with the
    /// first one if not `each`. `first_year` is the year of the run's start.
    pub(crate) fn day(&self, day: Day, first_year: Option<i32>, each: bool, mut found: impl FnMut(usize)) {
        // A text that names no month may mean any.
        if day.month == 0 {
            let same = self.days.iter().filter(|(other, _)| other.day == day.day);
            same.for_each(|(_, of_day)| match each {
                true => self.lists.of(of_day.stated).for_each(&mut found),
                false => of_day.first.into_iter().for_each(&mut found),
            });
            return;
        }
        let exact = Day { year: day.year.or(first_year), ..day };
        for day in [exact, Day { year: None, ..day }, Day { year: None, month: 0, ..day }] {
            let Some(of_day) = self.days.get(&day) else { continue };
            match each {
                true => self.lists.of(of_day.stated).for_each(&mut found),
                false => of_day.first.into_iter().for_each(&mut found),
            }
            self.lists.of(of_day.relative).for_each(&mut found);
        }
    }

    /// The first of the values that are found together with this one of this number.
    pub(crate) fn first_of(&self, number: usize, value: &Value) -> usize {
        match value {
            Value::Day(day) => self.days.get(day).and_then(|of_day| of_day.first).unwrap_or(number),
            _ => number,
        }
    }

    /// Calls `found` with each wanted amount that is written with this number, in any unit.
    pub(crate) fn written(&self, amount: Decimal, found: impl FnMut(usize)) {
        self.look_in(&self.written, amount, WRITTEN, found);
    }

    /// Calls `found` with each wanted number that is this year.
    pub(crate) fn year(&self, year: i32, found: impl FnMut(usize)) {
        self.call(self.years.get(&year), found);
    }

    /// Calls `found` with each wanted time that is this one, with or without its seconds.
    pub(crate) fn time(&self, time: Time, mut found: impl FnMut(usize)) {
        let whole = Time { seconds: None, ..time };
        let as_written = time.seconds.map(|_| time);
        for time in as_written.into_iter().chain([whole]) {
            self.call(self.times.get(&time), &mut found);
        }
    }

    /// Whether a word as it is written may be one of a wanted text.
    #[inline]
    pub(super) fn may_have(&self, word: &TextWord<'_>) -> bool {
        self.vocabulary.may_have(word)
    }

    /// Calls `each` with each word of a text that may be one of a wanted text, and with `None` for each other word.
    #[inline]
    pub(super) fn known_words<'a>(&self, text: &'a str, each: impl FnMut(Option<TextWord<'a>>)) {
        known_words(text, &self.vocabulary, each);
    }

    /// Whether there are ids that may be the begin of a hash.
    pub(crate) fn has_hashes(&self) -> bool {
        !self.hashes.is_empty()
    }

    /// Calls `found` with each wanted id that a folded word begins with, where the word is a hash.
    pub(crate) fn hash(&self, word: &str, mut found: impl FnMut(usize)) {
        if !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return;
        }
        for length in HASH {
            let short = word.get(..length).and_then(|short| self.hashes.get(short));
            short.into_iter().flatten().for_each(|number| found(*number));
        }
    }

    pub(crate) fn has_texts(&self) -> bool {
        !self.nodes.is_empty()
    }
}

/// Goes through the words of an observation, and finds the wanted texts in them.
#[derive(Debug, Default)]
pub(crate) struct TextSearch {
    /// Where the texts are that have begun: the node, and field and place of the first word.
    open: Vec<(usize, usize, usize)>,
    kept: Vec<(usize, usize, usize)>,
}

impl TextSearch {
    /// A word that no text has.
    pub(crate) fn interrupt(&mut self) {
        steps::count(1);
        self.open.clear();
    }

    /// The next word. `field` is the number of the text that it is in, and `at` is where it begins there. `is_glued`: whether a
    /// dash is between it and the word before, and the word after. A text neither begins nor ends there: `web-1` is not in
    /// `web-1-old`. Calls `found` with each text that ends here, and where it begins.
    pub(crate) fn word(
        &mut self,
        wanted: &Wanted,
        word: &str,
        (field, at): (usize, usize),
        is_glued: (bool, bool),
        mut found: impl FnMut(usize, usize),
    ) {
        if !is_glued.0 {
            self.open.push((0, field, at));
        }
        self.kept.clear();
        for (node, first_field, begin) in self.open.drain(..) {
            steps::count(1);
            let Some(next) = wanted.nodes.get(node).and_then(|node| node.next.get(word)) else { continue };
            let Some(node) = wanted.nodes.get(*next) else { continue };
            let is_within = first_field == field;
            if is_within && !is_glued.1 {
                wanted.lists.of(node.ends).for_each(|number| found(number, begin));
            }
            if (is_within || first_field + 1 == field) && !is_glued.1 {
                wanted.lists.of(node.spread_ends).for_each(|number| found(number, begin));
            }
            if !node.next.is_empty() {
                self.kept.push((*next, first_field, begin));
            }
        }
        std::mem::swap(&mut self.open, &mut self.kept);
    }
}
