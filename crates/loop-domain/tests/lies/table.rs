//! The table of what runs come to. A row holds for the protocols that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use loop_core::StopReason;
use loop_llm::codec::Api;

use super::world::Shown;

/// What a run came to, as the table says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    /// The reason of the stop.
    stop: String,
    /// The other conditions that were true, in their order.
    also: String,
    class: String,
    exit: u8,
    /// The cost beside what the replies of the server truly cost.
    cost: String,
}

impl Row {
    pub(super) fn of(shown: &Shown) -> Self {
        let stop = &shown.outcome.stop;
        let also: Vec<&str> = stop.also.iter().map(|condition| name(&condition.reason)).collect();
        Self {
            stop: name(&stop.primary.reason).to_owned(),
            also: if also.is_empty() { "-".to_owned() } else { also.join("+") },
            class: stop.class.name().to_owned(),
            exit: stop.class.exit_code(),
            cost: cost(shown),
        }
    }

    fn parse(text: &str) -> Self {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [stop, also, class, exit, cost] = parts.as_slice() else { panic!("a row of five words: {text}") };
        let owned = |text: &&str| (*text).to_owned();
        Self {
            stop: owned(stop),
            also: owned(also),
            class: owned(class),
            exit: exit.parse().unwrap(),
            cost: owned(cost),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.stop, self.also, self.class, self.exit, self.cost)
    }
}

fn name(reason: &StopReason) -> &str {
    reason.name()
}

/// The cost in the words of the table: `none`, `exact`, or how far below or above the truth, in classes.
fn cost(shown: &Shown) -> String {
    let Some(cost) = shown.outcome.totals.cost.total() else { return "unknown".to_owned() };
    let (cost, truth) = (cost.0, shown.truth().0);
    let word = match (cost, truth) {
        (0, _) => "none",
        (cost, truth) if cost == truth => "exact",
        (_, 0) => "beyond",
        (cost, truth) if cost < truth / 2 => "below-half",
        (cost, truth) if cost < truth => "below",
        (cost, truth) if cost <= truth.saturating_mul(4) => "above",
        (cost, truth) if cost <= truth.saturating_mul(20) => "above-4x",
        _ => "above-20x",
    };
    word.to_owned()
}

/// Rows by behaviour and world, each with its protocols.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table {
    rows: BTreeMap<(String, String), BTreeMap<&'static str, Row>>,
}

impl Table {
    pub(super) fn of(seen: &BTreeMap<(&str, &str), BTreeMap<Api, Row>>) -> Self {
        let of =
            |rows: &BTreeMap<Api, Row>| rows.iter().map(|(api, row)| (api.name(), row.clone())).collect();
        let owned = |(lie, world): &(&str, &str)| ((*lie).to_owned(), (*world).to_owned());
        Self { rows: seen.iter().map(|(place, rows)| (owned(place), of(rows))).collect() }
    }

    pub(super) fn read(file: &str) -> Self {
        let text = std::fs::read_to_string(path(file)).unwrap();
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let mut words = line.splitn(4, char::is_whitespace);
            let mut next = || words.next().unwrap_or_else(|| panic!("too short: {line}")).to_owned();
            let (lie, world, apis, row) = (next(), next(), next(), next());
            let row = Row::parse(&row);
            let rows = table.rows.entry((lie, world)).or_default();
            for api in Api::ALL.iter().map(|api| api.name()) {
                if apis == "all" || apis.split(',').any(|name| name == api) {
                    assert!(rows.insert(api, row.clone()).is_none(), "given twice: {line}");
                }
            }
        }
        table
    }

    /// What differs from this table, and from what is known to differ, a line each.
    pub(super) fn differences(&self, known: &Self, found: &Self, all: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for (place @ (lie, world), rows) in &found.rows {
            for (api, row) in rows {
                let expected = self.rows.get(place).and_then(|rows| rows.get(api));
                let known = known.rows.get(place).and_then(|rows| rows.get(api));
                if expected == Some(row) && known.is_some() {
                    wrong.push(format!("{lie} in {world} over {api}: it holds now; take it out of {KNOWN}"));
                } else if expected != Some(row) && known != Some(row) {
                    let expected = expected.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                    wrong.push(format!("{lie} in {world} over {api}: expected {expected}; found {row}"));
                }
            }
        }
        for (place @ (lie, world), rows) in self.rows.iter().filter(|_| all) {
            for api in rows.keys() {
                if found.rows.get(place).is_none_or(|rows| !rows.contains_key(api)) {
                    wrong.push(format!(
                        "{lie} in {world} over {api}: it is in the table, and no run showed it"
                    ));
                }
            }
        }
        wrong
    }

    pub(super) fn write(&self) {
        let mut text = HEAD.to_owned();
        for ((lie, world), rows) in &self.rows {
            let mut by_row: Vec<(&Row, Vec<&str>)> = Vec::new();
            for (api, row) in rows {
                match by_row.iter_mut().find(|(known, _)| *known == row) {
                    Some((_, apis)) => apis.push(api),
                    None => by_row.push((row, vec![api])),
                }
            }
            for (row, apis) in by_row {
                let apis = if apis.len() == Api::ALL.len() { "all".to_owned() } else { apis.join(",") };
                text.push_str(&format!("{lie} {world} {apis} {row}\n"));
            }
        }
        std::fs::write(path(EXPECTED), text).unwrap();
    }
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lies").join(file)
}

/// What must hold.
pub(super) const EXPECTED: &str = "expected.txt";
/// What is found in place of a row that does not hold yet.
pub(super) const KNOWN: &str = "known.txt";

const HEAD: &str = "\
# What a run comes to under each named behaviour: docs/reference/testing.md explains the columns.
# behaviour world protocols stop also class exit cost
";
