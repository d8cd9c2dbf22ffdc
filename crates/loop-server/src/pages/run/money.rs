//! The cost part of a run's page: what was spent, what is reserved for calls in flight and for the final pass, and the
//! limit.

use loop_core::run::PromptSize;
use loop_core::types::PicoUsd;
use loop_core::{EventKind, Note, Run};
use loop_runtime::journal::Entry;
use maud::{Markup, html};

use super::AppliedEntry;
use super::head::cost;
use super::shown::{PagePosition, none_if, nothing};
use crate::pages::span::Changing;
use crate::pages::text::{grouped, heads, t};

/// The width and the height of the chart.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 120.0;

#[derive(Debug, Default)]
pub(super) struct CostPart {
    lines: Vec<CostRow>,
    limit: Changing<Option<PicoUsd>>,
    /// What the announced call leaves for the final pass, computed on the state before it.
    held: PicoUsd,
    spent: Vec<CallCharge>,
}

/// The amounts after an event that changes them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CostRow {
    at: u64,
    what: String,
    spent: PicoUsd,
    spent_text: String,
    reserved: PicoUsd,
    held: PicoUsd,
    left: Option<PicoUsd>,
    is_priced: bool,
}

impl CostRow {
    fn total(&self) -> u64 {
        self.spent.0.saturating_add(self.reserved.0).saturating_add(self.held.0)
    }
}

/// A call that was charged.
#[derive(Debug)]
struct CallCharge {
    at: u64,
    key: String,
    attempt: u32,
    tier: &'static str,
    input: u64,
    output: u64,
    cached: u64,
    cost: Option<PicoUsd>,
}

impl CostPart {
    /// What an announced call leaves for the final pass.
    pub(super) fn before(&mut self, run: &Run, entry: &Entry) {
        if let EventKind::CallStarted { key, prompt_bytes, shared_bytes, .. } = &entry.event.kind {
            let size = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
            if let Ok(quote) = run.quote(key, size) {
                self.held = run.final_pass_reserve(key, &quote);
            }
        }
    }

    pub(super) fn see(&mut self, seen: &AppliedEntry<'_>) {
        let run = seen.run;
        for note in &seen.entry.notes {
            if let Note::CallCharged { key, attempt, tier, usage, cost } = note {
                self.spent.push(CallCharge {
                    at: seen.at,
                    key: key.to_string(),
                    attempt: *attempt,
                    tier: tier.name(),
                    input: usage.total_input(),
                    output: usage.total_output(),
                    cached: usage.cache_read,
                    cost: *cost,
                });
            }
        }
        for note in &seen.entry.notes {
            if let Note::LeaseCharged { key, used } = note {
                self.spent.push(CallCharge {
                    at: seen.at,
                    key: key.to_string(),
                    attempt: 1,
                    tier: "run",
                    input: used.usage.total_input(),
                    output: used.usage.total_output(),
                    cached: used.usage.cache_read,
                    cost: used.cost.total(),
                });
            }
        }
        let own = run.spec().limits.cost.map(|limit| limit.0);
        let shared = run.shared_limit().map(|limit| limit.0);
        let limit = own.into_iter().chain(shared).min().map(PicoUsd);
        self.limit.set(seen.at, limit);
        if run.outcome().is_some() {
            self.held = PicoUsd(0);
        }
        let reserve = run.reserved();
        let (spent, reserved) = (run.totals().cost, reserve.cost.unwrap_or_default());
        let line = CostRow {
            at: seen.at,
            what: seen.event.kind.name().replace('_', " "),
            spent: spent.known,
            spent_text: cost(&spent),
            reserved,
            held: self.held,
            left: limit
                .map(|limit| PicoUsd(limit.0.saturating_sub(spent.known.0).saturating_sub(reserved.0))),
            is_priced: reserve.cost.is_some(),
        };
        let same = |last: &CostRow| {
            (last.spent, last.reserved, last.held, last.is_priced)
                == (line.spent, line.reserved, line.held, line.is_priced)
        };
        if !self.lines.last().is_some_and(same) {
            self.lines.push(line);
        }
    }

    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        html! {
            @for (span, limit) in self.limit.iter() {
                p data-from=(span.from) data-until=[span.until] hidden[shown.hides(*span)] {
                    @match limit {
                        Some(limit) => { "Limit: " strong { (limit.to_string()) } "." }
                        None => { "There is no limit of cost." }
                    }
                }
            }
            @let first = self.lines.iter().find(|line| line.total() > 0).map(|line| line.at);
            (nothing(shown, first, "Nothing was spent or reserved."))
            @if let Some(unpriced) = self.lines.iter().find(|line| !line.is_priced) {
                p.notice data-from=(unpriced.at) hidden[shown.is_before(unpriced.at)] {
                    "The price of a model is not known, so its calls have no cost here."
                }
            }
            @if let Some(from) = first {
                div data-from=(from) hidden[shown.is_before(from)] { (self.picture(shown)) (self.table(shown)) }
            }
            (self.charges(shown))
        }
    }

    fn picture(&self, shown: &PagePosition) -> Markup {
        let largest = self.lines.iter().map(CostRow::total).max().unwrap_or(0);
        // A limit that is far away would press everything down to the ground.
        let limit = self.limit.last().copied().flatten().filter(|limit| limit.0 <= largest.saturating_mul(4));
        let largest = limit.map_or(largest, |limit| limit.0.max(largest)).max(1) as f64 * 1.05;
        let events = (shown.last + 1) as f64;
        let y = |amount: u64| HEIGHT - amount as f64 / largest * HEIGHT;
        let x = |at: u64| at as f64 / events * WIDTH;
        html! {
            p.legend {
                span { i.m-spent {} "spent" } span { i.m-reserved {} "reserved" }
                span { i.m-held {} "reserved for the final pass" } span { i.m-limit {} "limit, where it is near" }
            }
            svg.money viewBox="0 0 1000 122" preserveAspectRatio="none" role="img" aria-label="Money by event; the table below has the figures" {
                @for (n, line) in self.lines.iter().enumerate() {
                    @let next = self.lines.get(n + 1).map_or(shown.last + 1, |next| next.at);
                    @let (from, width) = (x(line.at), (x(next) - x(line.at)).max(1.0));
                    g data-from=(line.at) display=[none_if(shown.is_before(line.at))] {
                        (bar("m-spent", (from, width), y(0), y(line.spent.0)))
                        (bar("m-reserved", (from, width), y(line.spent.0), y(line.spent.plus(line.reserved).0)))
                        (bar("m-held", (from, width), y(line.spent.plus(line.reserved).0), y(line.total())))
                    }
                }
                @if let Some(limit) = limit {
                    @let at = format!("{:.1}", y(limit.0));
                    line.m-limit x1="0" x2="1000" y1=(at) y2=(at) {}
                }
            }
        }
    }

    fn table(&self, shown: &PagePosition) -> Markup {
        html! {
            details.more {
                summary { "Money by event" }
                div.wide tabindex="0" role="region" aria-label="Money by event" {
                    table {
                        (heads(&["#event", "what", "#spent", "#reserved", "#held back", "#left"]))
                        tbody {
                            @for line in &self.lines {
                                tr data-from=(line.at) hidden[shown.is_before(line.at)] {
                                    td.n { a href="#slider" data-at=(line.at) { (line.at) } }
                                    td { (line.what) }
                                    td.n { (line.spent_text) }
                                    td.n { @if line.is_priced { (line.reserved.to_string()) } @else { "unknown" } }
                                    td.n { (line.held.to_string()) }
                                    td.n { @match line.left { Some(left) => { (left.to_string()) }, None => { "no limit" } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn charges(&self, shown: &PagePosition) -> Markup {
        html! {
            @if let Some(from) = self.spent.first().map(|charge| charge.at) {
                details.more data-from=(from) hidden[shown.is_before(from)] {
                    summary { "Each model call with its tokens and its cost" }
                    div.wide tabindex="0" role="region" aria-label="Charges" {
                        table {
                            (heads(&["#event", "call", "tier", "#input", "#from cache", "#output", "#cost"]))
                            tbody {
                                @for it in &self.spent {
                                    tr data-from=(it.at) hidden[shown.is_before(it.at)] {
                                        td.n { (it.at) }
                                        th scope="row" { (t(&it.key)) @if it.attempt > 1 { ", try " (it.attempt) } }
                                        td { (it.tier) }
                                        td.n { (grouped(it.input)) }
                                        td.n { (grouped(it.cached)) }
                                        td.n { (grouped(it.output)) }
                                        td.n { @match it.cost { Some(cost) => { (cost.to_string()) }, None => { "unknown" } } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A bar of the chart between two heights.
fn bar(class: &str, (x, width): (f64, f64), from: f64, to: f64) -> Markup {
    let [x, width, to, height] = [x, width, to, from - to].map(|number| format!("{number:.1}"));
    html! {
        @if height != "0.0" { rect.(class) x=(x) y=(to) width=(width) height=(height) {} }
    }
}
