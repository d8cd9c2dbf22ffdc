//! Charts of runs over time, and by domain and model: counts, outcomes, cost and duration. Each bar has its numbers as
//! text.

use std::collections::BTreeMap;

use loop_core::types::{Cost, PicoUsd};
use maud::{Markup, html};

use super::tally::{Durations, RunSums, RunTally, TallyKey};
use crate::pages::run::{cost, look_of};
use crate::pages::text::{day, duration, grouped, heads, t};

/// The most days, and the most pairs of domain and model.
const MAX_DAYS: usize = 31;
const MAX_PAIRS: usize = 20;
/// The most domains with a colour of their own.
const COLOURS: usize = 5;

/// Runs that are shown as one bar.
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

/// The rows of the charts: their names and their runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Charts {
    domains: Vec<String>,
    /// By day, the newest first.
    days: Vec<(Vec<String>, Group)>,
    /// By domain and model, the most runs first.
    pairs: Vec<(Vec<String>, Group)>,
}

impl Group {
    fn add(&mut self, key: &TallyKey, kind: &RunSums) {
        self.runs += kind.runs;
        self.ended += if key.state == "ended" { kind.runs } else { 0 };
        *self.outcomes.entry(key.outcome.clone()).or_default() += kind.runs;
        self.cost.known = self.cost.known.plus(kind.cost.known);
        self.cost.unknown_calls = self.cost.unknown_calls.saturating_add(kind.cost.unknown_calls);
        let of_domain = self.by_domain.entry(key.domain.clone()).or_default();
        *of_domain = of_domain.saturating_add(kind.cost.known.0);
        self.durations.add(&kind.durations);
    }

    /// The share of answered runs among those that have ended.
    fn answered(&self) -> String {
        let answered = self.outcomes.get("answered").copied().unwrap_or_default();
        let share = (answered * 100 + self.ended / 2).checked_div(self.ended);
        share.map_or_else(|| "–".to_owned(), |share| format!("{share} %"))
    }

    fn longest(&self) -> u64 {
        self.durations.percentile(95).unwrap_or_default()
    }
}

impl Charts {
    pub(super) fn of(runs: &RunTally, domains: &[String]) -> Self {
        let mut days: BTreeMap<u64, Group> = BTreeMap::new();
        let mut pairs: BTreeMap<Vec<String>, Group> = BTreeMap::new();
        for (key, kind) in runs.kinds() {
            days.entry(key.day).or_default().add(key, kind);
            pairs.entry(vec![key.domain.clone(), key.model.clone()]).or_default().add(key, kind);
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(_, group)| std::cmp::Reverse(group.runs));
        pairs.truncate(MAX_PAIRS);
        let named = |(at, group): (u64, Group)| (vec![day(at.saturating_mul(DAY_MS))], group);
        let days = days.into_iter().rev().take(MAX_DAYS).map(named).collect();
        Self { domains: domains.to_vec(), days, pairs }
    }

    pub(super) fn html(&self) -> Markup {
        html! {
            section aria-labelledby="days-title" {
                h2 #days-title { "Over time" }
                p.legend {
                    "The newest " (MAX_DAYS) " days with runs. Outcomes: "
                    @for (look, name) in [("good", "answered"), ("warn", "partial or waiting"), ("bad", "failed or refused"), ("plain", "other")] {
                        span { i.{ "o-" (look) } {} (name) }
                    }
                    "Cost by domain: "
                    @for domain in &self.domains { span { i.{ "c-" (self.colour(domain)) } {} (t(domain)) } }
                    "Duration: " span { i.k-model {} "p50" } span { i.k-wait {} "p95" }
                }
                (self.table("Runs by day", &["day"], &self.days))
            }
            section aria-labelledby="pairs-title" {
                h2 #pairs-title { "By domain and model" }
                (self.table("Runs by domain and model", &["domain", "model"], &self.pairs))
            }
        }
    }

    fn colour(&self, domain: &str) -> usize {
        self.domains.iter().position(|it| it == domain).map_or(0, |at| at % COLOURS)
    }

    fn table(&self, title: &str, names: &[&str], rows: &[(Vec<String>, Group)]) -> Markup {
        let of = ["#runs", "outcomes", "#answered", "#cost", "by domain", "#p50", "#p95", "duration"];
        let costliest = rows.iter().map(|(_, group)| group.cost.known.0).max().unwrap_or(0).max(1);
        let longest = rows.iter().map(|(_, group)| group.longest()).max().unwrap_or(0).max(1);
        html! {
            div.wide tabindex="0" role="region" aria-label=(title) {
                table.bars.trend {
                    (heads(&[names, &of].concat()))
                    tbody { @for (names, group) in rows { tr {
                        @for (at, name) in names.iter().enumerate() {
                            @if at == 0 { th.w scope="row" { (t(name)) } } @else { td { (t(name)) } }
                        }
                        (group.begin_html())
                        td.n { (cost(&group.cost)) }
                        td.bar { (group.domains_html(costliest, &|domain| self.colour(domain))) }
                        (group.durations_html(longest))
                    } } }
                }
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

/// A bar with stacked parts, each with its class and its amount. `whole` is the amount of the full width.
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
