//! The table of words: units, scales, currencies, months and the few words that a sentence is selected by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

#[expect(clippy::disallowed_types, reason = "it is looked up in, and never read in its order")]
pub(crate) type Index<K, V> = std::collections::HashMap<K, V>;

/// What a unit measures. Amounts of different dimensions are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Time,
    Percent,
    /// Any other, by its name in the table.
    Other(&'static str),
}

/// A unit of measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) dimension: Dimension,
    /// How many of the base unit of its dimension it is.
    pub(crate) factor: f64,
}

/// The words of `words.txt`, by what they mean. All are folded.
#[derive(Debug, Default)]
pub(crate) struct WordLists {
    pub(crate) units: Index<&'static str, Unit>,
    pub(crate) scales: Index<&'static str, f64>,
    pub(crate) currencies: Index<&'static str, &'static str>,
    pub(crate) months: Index<&'static str, u8>,
    pub(crate) numbers: Index<&'static str, f64>,
    pub(crate) about: BTreeSet<&'static str>,
    pub(crate) loose: BTreeSet<&'static str>,
    pub(crate) none: BTreeSet<&'static str>,
    pub(crate) absent: BTreeSet<&'static str>,
    pub(crate) titles: BTreeSet<&'static str>,
    pub(crate) plain: BTreeSet<&'static str>,
    pub(crate) zones: BTreeSet<&'static str>,
    pub(crate) exists: BTreeSet<&'static str>,
    pub(crate) modal: BTreeSet<&'static str>,
    /// The kind of action that a word claims to have happened.
    pub(crate) actions: Index<&'static str, &'static str>,
    /// The words of each kind of action, as tools are named and as results say it.
    pub(crate) names: BTreeMap<&'static str, Vec<&'static str>>,
}

pub(crate) static WORDS: LazyLock<WordLists> = LazyLock::new(|| {
    let mut words = WordLists::default();
    for line in include_str!("words.txt").lines() {
        words.read(line);
    }
    words
});

impl WordLists {
    /// Reads a line of the table. A line that it does not understand has no words, which a test finds.
    fn read(&mut self, line: &'static str) {
        let mut parts = line.split_whitespace();
        let Some(kind) = parts.next() else { return };
        let set = |set: &mut BTreeSet<&'static str>| set.extend(parts.clone());
        match kind {
            "about" => return set(&mut self.about),
            "loose" => return set(&mut self.loose),
            "none" => return set(&mut self.none),
            "absent" => return set(&mut self.absent),
            "title" => return set(&mut self.titles),
            "modal" => return set(&mut self.modal),
            "exists" => return set(&mut self.exists),
            "zone" => return set(&mut self.zones),
            "plain" => return set(&mut self.plain),
            _ => {}
        }
        let Some(first) = parts.next() else { return };
        let number = |text: &str| text.parse::<f64>().ok();
        match kind {
            "unit" => {
                let Some(factor) = parts.next().and_then(number) else { return };
                let dimension = match first {
                    "time" => Dimension::Time,
                    "percent" => Dimension::Percent,
                    name => Dimension::Other(name),
                };
                self.units.extend(parts.map(|word| (word, Unit { dimension, factor })));
            }
            "scale" => {
                let Some(factor) = number(first) else { return };
                self.scales.extend(parts.map(|word| (word, factor)));
            }
            "currency" => self.currencies.extend(parts.map(|word| (word, first))),
            "month" => {
                let Ok(month) = first.parse() else { return };
                self.months.extend(parts.map(|word| (word, month)));
            }
            "number" => {
                let Some(number) = number(first) else { return };
                self.numbers.extend(parts.map(|word| (word, number)));
            }
            "action" => {
                let all = || parts.clone().filter(|word| *word != "/");
                self.names.insert(first, all().collect());
                self.actions.extend(parts.clone().take_while(|word| *word != "/").map(|word| (word, first)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Folded;

    #[test]
    fn every_line_of_the_table_is_read_and_folded() {
        let text = include_str!("words.txt");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = WordLists::default();
            words.read(line);
            let WordLists {
                units,
                scales,
                currencies,
                months,
                numbers,
                about,
                loose,
                none,
                absent,
                titles,
                plain,
                zones,
                exists,
                modal,
                actions,
                names,
            } = &words;
            let sets = [about, loose, none, absent, titles, plain, zones, exists, modal].map(BTreeSet::len);
            let maps = [
                units.len(),
                scales.len(),
                currencies.len(),
                months.len(),
                numbers.len(),
                actions.len() + names.len(),
            ];
            assert!(sets.iter().chain(&maps).sum::<usize>() > 0, "no words in {line:?}");
            for word in line.split_whitespace().filter(|it| it.parse::<f64>().is_err()) {
                assert_eq!(Folded::of(word).text, word, "in {line:?}");
            }
        }
    }
}
