//! The filter and the order of the list of runs.

use std::collections::BTreeSet;

use loop_core::types::{PicoUsd, RunId};
use loop_inspect::listed::ListedRun;

use super::tally::day_of;
use crate::pages::text::cut;

/// A filter of the list of runs. A run must match every field.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct RunsFilter {
    /// The domain's name. Empty: any.
    pub domain: String,
    /// A class of stops, a stop reason or a state, such as `waiting`. Empty: any.
    pub outcome: String,
    /// A stop reason. Empty: any.
    pub reason: String,
    /// The name of the base model at its provider. Empty: any.
    pub model: String,
    /// The confidence of the last pass. Empty: any.
    pub confidence: String,
    /// A tag. Empty: any.
    pub tag: String,
    /// A part of the run's id, the item's id or its title, in any case of letters. Empty: any.
    pub text: String,
    /// Words of the document or the evidence of a run that has ended. Empty: any.
    pub words: String,
    /// Runs that cost this many US dollars or more. Empty: any.
    pub cost: String,
    /// Runs that took this many seconds or more. Empty: any.
    pub seconds: String,
    /// Runs that began on this day or later, as `2026-11-26` (UTC). Empty: any.
    pub since: String,
    /// The order: `oldest`, `cost`, `duration` or `confidence`, the largest first. Anything else: the newest first.
    pub sort: String,
}

/// A filter, parsed for matching.
#[derive(Clone, Debug, Default)]
pub(super) struct ParsedFilter {
    text: String,
    since: Option<u64>,
    cost: Option<PicoUsd>,
    duration_ms: Option<u64>,
    /// The results of the search. `None`: the filter has no search.
    found: Option<BTreeSet<RunId>>,
}

impl RunsFilter {
    /// The parsed filter, and what of it is not valid.
    pub(super) fn wanted(&self, found: Option<BTreeSet<RunId>>) -> (ParsedFilter, Option<String>) {
        let day: Result<jiff::civil::Date, _> = self.since.trim().parse();
        let since = day.ok().and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let since =
            since.map(|day| day_of(u64::try_from(day.timestamp().as_millisecond()).unwrap_or_default()));
        let cost = self.cost.trim().parse().ok();
        let seconds = self.seconds.trim().parse().ok().filter(|seconds: &f64| *seconds >= 0.0);
        let given = [
            (since.is_some(), "Since", &self.since, "2026-11-26"),
            (cost.is_some(), "Cost", &self.cost, "0.05"),
            (seconds.is_some(), "Seconds", &self.seconds, "30"),
        ];
        let wrong = given.into_iter().find(|(is_read, _, text, _)| !is_read && !text.trim().is_empty());
        let wrong = wrong.map(|(_, name, text, example)| {
            format!("{name}: `{}` is left out; write it as {example}", cut(text, 40).text)
        });
        let duration_ms = seconds.map(|seconds| (seconds * 1_000.0) as u64);
        (ParsedFilter { text: self.text.to_lowercase(), since, cost, duration_ms, found }, wrong)
    }

    pub(super) fn fits(&self, run: &ListedRun, wanted: &ParsedFilter) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let may_be = |wanted: &str, value: &Option<String>| is(wanted, value.as_deref().unwrap_or_default());
        let holds = |value: &str| value.to_lowercase().contains(&wanted.text);
        is(&self.domain, &run.domain)
            && (self.outcome.is_empty()
                || self.outcome == run.outcome()
                || self.outcome == run.state.name()
                || run.reason.as_ref() == Some(&self.outcome))
            && may_be(&self.reason, &run.reason)
            && may_be(&self.model, &run.model)
            && may_be(&self.confidence, &run.confidence)
            && (self.tag.is_empty() || run.tags.contains(&self.tag))
            && wanted.since.is_none_or(|since| day_of(run.started_unix_ms) >= since)
            && wanted.cost.is_none_or(|cost| run.cost.pico_usd >= cost.0)
            && wanted.duration_ms.is_none_or(|least| run.duration_ms.is_some_and(|took| took >= least))
            && (wanted.text.is_empty() || holds(&run.run) || holds(&run.item) || holds(&run.title))
            && wanted.found.as_ref().is_none_or(|found| found.contains(&RunId::new(run.run.as_str())))
    }

    /// Whether every run matches.
    pub(super) fn fits_all(&self) -> bool {
        Self { sort: String::new(), ..self.clone() } == Self::default()
    }

    /// The filter as a query string.
    pub(super) fn query(&self) -> String {
        let all = [
            ("domain", &self.domain),
            ("outcome", &self.outcome),
            ("reason", &self.reason),
            ("model", &self.model),
            ("confidence", &self.confidence),
            ("tag", &self.tag),
            ("text", &self.text),
            ("words", &self.words),
            ("cost", &self.cost),
            ("seconds", &self.seconds),
            ("since", &self.since),
            ("sort", &self.sort),
        ];
        let given = all.iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
    }

    /// The URL of the list with this filter.
    pub(super) fn address(&self) -> String {
        let query = self.query();
        if query.is_empty() { "/".to_owned() } else { format!("/?{query}") }
    }

    /// The sort key of a run, largest first. Runs with the same key are sorted by their start.
    pub(super) fn sort_key(&self, run: &ListedRun) -> u64 {
        match self.sort.as_str() {
            "oldest" => !run.started_unix_ms,
            "cost" => run.cost.pico_usd,
            "duration" => run.duration_ms.map_or(0, |ms| ms.saturating_add(1)),
            "confidence" => match run.confidence.as_deref() {
                Some("high") => 3,
                Some("medium") => 2,
                Some(_) => 1,
                None => 0,
            },
            _ => 0,
        }
    }

    /// Whether the list begins with the newest run.
    pub(super) fn is_by_time(&self) -> bool {
        !["oldest", "cost", "duration", "confidence"].contains(&self.sort.as_str())
    }
}

/// A text, percent-encoded for a query string.
pub(in crate::pages) fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
