//! Runs over time, and by domain and model: how many, how they ended, what they cost, how long they took. Each bar has its
//! numbers as text.

use std::collections::BTreeMap;

use loop_core::types::{Cost, PicoUsd};
use maud::{Markup, html};

use super::tally::{Durations, RunTally, Tallied, TallyKey};
use crate::pages::run::{cost, look_of};
use crate::pages::text::{day, duration, grouped, heads, t};

/// How many days, and how many pairs of domain and model are shown.
const MAX_DAYS: usize = 31;
const MAX_PAIRS: usize = 20;
/// How many domains have a colour of their own.
const COLOURS: usize = 5;

/// Runs that are shown together.
#[derive(Clone, Debug, Default)]
struct Group {
    runs: u64,
    ended: u64,
    outcomes: BTreeMap<String, u64>,
    cost: Cost,
    /// What they cost by domain, in pico-dollars.
    by_domain: BTreeMap<String, u64>,
    durations: Durations,
}

/// What the charts show.
#[derive(Clone, Debug, Default)]
pub(super) struct Charts {
    domains: Vec<String>,
    /// By day, the newest first.
    days: Vec<(u64, Group)>,
    /// By domain and model, the most runs first.
    pairs: Vec<((String, String), Group)>,
    /// How many days and pairs are left out.
    more: [usize; 2],
}

impl Group {
    fn add(&mut self, key: &TallyKey, kind: &Tallied) {
        self.runs += kind.runs;
        self.ended += if key.state == "ended" { kind.runs } else { 0 };
        *self.outcomes.entry(key.outcome.clone()).or_default() += kind.runs;
        self.cost.known = self.cost.known.plus(kind.cost.known);
        self.cost.unknown_calls = self.cost.unknown_calls.saturating_add(kind.cost.unknown_calls);
        let of_domain = self.by_domain.entry(key.domain.clone()).or_default();
        *of_domain = of_domain.saturating_add(kind.cost.known.0);
        self.durations.add(&kind.durations);
    }

    /// The share of those that have ended which were answered.
    fn answered(&self) -> String {
        let answered = self.outcomes.get("answered").copied().unwrap_or_default();
        if self.ended == 0 {
            "–".to_owned()
        } else {
            format!("{} %", (answered * 100 + self.ended / 2) / self.ended)
        }
    }

    fn longest(&self) -> u64 {
        self.durations.percentile(95).unwrap_or_default()
    }
}

impl Charts {
    pub(super) fn of(runs: &RunTally, domains: &[String]) -> Self {
        let mut days: BTreeMap<u64, Group> = BTreeMap::new();
        let mut pairs: BTreeMap<(String, String), Group> = BTreeMap::new();
        for (key, kind) in runs.kinds() {
            days.entry(key.day).or_default().add(key, kind);
            pairs.entry((key.domain.clone(), key.model.clone())).or_default().add(key, kind);
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(_, group)| std::cmp::Reverse(group.runs));
        let more = [days.len().saturating_sub(MAX_DAYS), pairs.len().saturating_sub(MAX_PAIRS)];
        pairs.truncate(MAX_PAIRS);
        let days = days.into_iter().rev().take(MAX_DAYS).collect();
        Self { domains: domains.to_vec(), days, pairs, more }
    }

    pub(super) fn html(&self) -> Markup {
        let colour =
            |domain: &str| self.domains.iter().position(|it| it == domain).map_or(0, |at| at % COLOURS);
        let costliest = largest(self.days.iter().map(|(_, group)| group.cost.known.0));
        let longest = |groups: &mut dyn Iterator<Item = &Group>| largest(groups.map(Group::longest));
        let by_day = longest(&mut self.days.iter().map(|(_, group)| group));
        let by_pair = longest(&mut self.pairs.iter().map(|(_, group)| group));
        html! {
            section aria-labelledby="days-title" {
                h2 #days-title { "Over time" }
                p.legend {
                    "Cost by domain: " @for domain in &self.domains { span { i.{ "c-" (colour(domain)) } {} (t(domain)) } }
                    "Duration: " span { i.k-model {} "p50" } span { i.k-wait {} "p95" }
                }
                div.wide tabindex="0" role="region" aria-label="Runs by day" {
                    table.bars.trend {
                        (heads(&["day", "#runs", "outcomes", "#answered", "#cost", "by domain", "#p50", "#p95", "duration"]))
                        tbody { @for (at, group) in &self.days { tr {
                            th.w scope="row" { (day(at.saturating_mul(DAY_MS))) }
                            (group.begin_html())
                            td.n { (cost(&group.cost)) }
                            td.bar { (group.domains_html(costliest, &colour)) }
                            (group.durations_html(by_day))
                        } } }
                    }
                }
                @if self.more[0] > 0 { p.rest { "… " (self.more[0]) " earlier days are left out here: `loopgate runs --json` has their runs" } }
            }
            section aria-labelledby="pairs-title" {
                h2 #pairs-title { "By domain and model" }
                div.wide tabindex="0" role="region" aria-label="Runs by domain and model" {
                    table.bars.trend {
                        (heads(&["domain", "model", "#runs", "outcomes", "#answered", "#cost", "#p50", "#p95", "duration"]))
                        tbody { @for ((domain, model), group) in &self.pairs { tr {
                            th.w scope="row" { (t(domain)) }
                            td { @if model.is_empty() { span.quiet { "unknown" } } @else { (t(model)) } }
                            (group.begin_html())
                            td.n { (cost(&group.cost)) }
                            (group.durations_html(by_pair))
                        } } }
                    }
                }
                @if self.more[1] > 0 { p.rest { "… " (self.more[1]) " more are left out here: filter by domain" } }
            }
        }
    }
}

impl Group {
    fn begin_html(&self) -> Markup {
        let named =
            |(name, count): (&String, &u64)| format!("{} {}", grouped(*count), name.replace('_', " "));
        let text = self.outcomes.iter().map(named).collect::<Vec<_>>().join(", ");
        let parts = self.outcomes.iter().map(|(name, count)| (format!("o-{}", look_of(name)), *count));
        html! {
            td.n { (grouped(self.runs)) }
            td.bar { (stacked(parts, self.runs.max(1))) span.sr { (t(&text)) } }
            td.n { (self.answered()) }
        }
    }

    fn domains_html(&self, largest: u64, colour: &dyn Fn(&str) -> usize) -> Markup {
        let named = |(domain, cost): (&String, &u64)| format!("{domain} {}", PicoUsd(*cost));
        let text = self.by_domain.iter().map(named).collect::<Vec<_>>().join(", ");
        let parts = self.by_domain.iter().map(|(domain, cost)| (format!("c-{}", colour(domain)), *cost));
        html! { (stacked(parts, largest)) span.sr { (t(&text)) } }
    }

    fn durations_html(&self, longest: u64) -> Markup {
        let [p50, p95] = [50, 95].map(|nth| self.durations.percentile(nth));
        let shown = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), duration);
        let (half, rest) = (p50.unwrap_or_default(), self.longest().saturating_sub(p50.unwrap_or_default()));
        let parts = [("k-model".to_owned(), half), ("k-wait".to_owned(), rest)];
        html! {
            td.n { (shown(p50)) }
            td.n { (shown(p95)) }
            td.bar { (stacked(parts.into_iter(), longest)) }
        }
    }
}

/// Milliseconds of a day.
pub(super) const DAY_MS: u64 = 86_400_000;

fn largest(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.max().unwrap_or(0).max(1)
}

/// A bar of parts that follow each other, each with its class and its amount; `whole` is as wide as the bar.
pub(super) fn stacked(parts: impl Iterator<Item = (String, u64)>, whole: u64) -> Markup {
    let scaled = |amount: u64| (u128::from(amount) * 1_000 / u128::from(whole)) as u64;
    let mut end = 0_u64;
    let parts = parts.map(|(class, amount)| {
        let from = scaled(end);
        end = end.saturating_add(amount);
        (class, from, scaled(end).saturating_sub(from))
    });
    html! {
        svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (class, from, width) in parts { rect.(class) x=(from) y="0" width=(width) height="12" {} }
        }
    }
}
