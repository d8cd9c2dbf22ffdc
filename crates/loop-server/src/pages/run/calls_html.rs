//! The timeline: a row for each attempt of a call, on one time axis, by pass.

use std::collections::BTreeMap;

use loop_core::types::Slot;
use maud::{Markup, html};

use super::calls::{CallLine, Callee, Calls, EventPoint};
use super::shown::{PagePosition, anchor, none_if, nothing};
use crate::pages::text::{duration, heads, t};

/// The length of the axis.
const WIDTH: f64 = 1_000.0;
/// The shortest visible bar.
const LEAST: f64 = 5.0;
/// The part of the axis that is divided evenly among the events, so that events of one instant are apart.
const EVEN: f64 = 0.2;

/// The position of each event on the axis. Time in which the run only waits for people is drawn short.
struct Axis {
    places: Vec<f64>,
}

impl Axis {
    fn of(calls: &Calls) -> Self {
        let events = calls.times.len();
        let mut busy = vec![0_i64; events + 1];
        for line in calls.lines.iter().filter(|line| line.callee != Callee::Person) {
            let end = line.end.as_ref().map_or(events as u64, |end| end.point.at);
            if let Some(from) = busy.get_mut(line.began.at as usize) {
                *from += 1;
            }
            if let Some(until) = busy.get_mut((end as usize).min(events)) {
                *until -= 1;
            }
        }
        let mut steps = Vec::with_capacity(events);
        let mut active = 0;
        for (at, pair) in calls.times.windows(2).enumerate() {
            active += busy.get(at).copied().unwrap_or_default();
            let [before, after] = pair else { continue };
            steps.push((after.since(*before), active > 0));
        }
        let worked: u64 = steps.iter().filter(|(_, busy)| *busy).map(|(ms, _)| ms).sum();
        let longest_idle = worked / 12 + 1;
        let length = |(ms, busy): &(u64, bool)| if *busy { *ms } else { (*ms).min(longest_idle) };
        let total: u64 = steps.iter().map(length).sum();
        let even = if total == 0 { 1.0 } else { EVEN };
        let count = steps.len().max(1) as f64;
        let mut places = vec![0.0];
        let mut place = 0.0;
        for step in &steps {
            let share = if total == 0 { 0.0 } else { length(step) as f64 / total as f64 };
            place += WIDTH * (even / count + (1.0 - even) * share);
            places.push(place);
        }
        Self { places }
    }

    fn place(&self, point: EventPoint) -> f64 {
        self.places.get(point.at as usize).copied().unwrap_or(WIDTH).min(WIDTH)
    }
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

impl Calls {
    pub(super) fn html(&self, shown: &PagePosition) -> Markup {
        let axis = Axis::of(self);
        // In the order in which they began, which is not that of their numbers where a call came late.
        let mut passes: Vec<(u32, Vec<&CallLine>)> = Vec::new();
        let mut places: BTreeMap<u32, usize> = BTreeMap::new();
        for line in &self.lines {
            let fresh = passes.len();
            let at = *places.entry(line.key.pass).or_insert(fresh);
            match passes.get_mut(at) {
                Some((_, lines)) => lines.push(line),
                None => passes.push((line.key.pass, vec![line])),
            }
        }
        html! {
            p.legend {
                @for callee in [Callee::Model, Callee::Tool, Callee::Person, Callee::Check] {
                    span { i.{ "k-" (callee.name()) } {} (callee.name()) }
                }
                span { i.k-wait {} "waited" } span { i.k-bad {} "failed" }
            }
            (nothing(shown, self.lines.iter().map(|line| line.began.at).min(), "Nothing was called."))
            @for (pass, lines) in &passes {
                @let from = lines.iter().map(|line| line.began.at).min().unwrap_or(0);
                @let began = lines.iter().map(|line| line.began.ms).min().unwrap_or_default();
                @let failed = lines.iter().filter_map(|line| line.end.as_ref()).filter(|end| !end.is_good).map(|end| end.point.at).min();
                details.pass data-from=(from) hidden[shown.is_before(from)] {
                    summary {
                        b { @if *pass == 0 { "Before the first pass" } @else { "Pass " (pass) } }
                        " " span.quiet { "from " (began.in_seconds()) " s" }
                        @if let Some(at) = failed { span data-from=(at) hidden[shown.is_before(at)] { " " span.pill.bad { "a call failed" } } }
                    }
                    table.calls {
                        caption { "Calls" }
                        (heads(&["call", "began", "took", "result", "on the axis of time"]))
                        tbody { @for line in lines { (self.row(line, &axis, shown)) } }
                    }
                }
            }
        }
    }

    fn row(&self, line: &CallLine, axis: &Axis, shown: &PagePosition) -> Markup {
        let began = line.began.at;
        let x = axis.place(line.began);
        let ends = line.end.as_ref().map(|end| (end, (axis.place(end.point) - x).max(LEAST)));
        let until = line.end.as_ref().map(|end| end.point.at);
        let kind = format!("k-{}", line.callee.name());
        let open_width = ends.as_ref().map_or(WIDTH - x, |(_, width)| *width).max(LEAST);
        let detail = match (line.callee, line.key.slot) {
            (Callee::Model, Slot::Main | Slot::Repair | Slot::Final | Slot::Select) => Some("p"),
            (Callee::Tool | Callee::Person, Slot::Action(_)) => Some("a"),
            _ => None,
        };
        html! {
            tr data-from=(began) hidden[shown.is_before(began)] {
                th scope="row" {
                    @match detail {
                        Some(part) => { a href={ "#" (part) (anchor(line.key)) } { (t(&line.name)) } }
                        None => { (t(&line.name)) }
                    }
                    " " span.quiet { (t(&line.key.to_string())) @if line.attempt > 1 { ", try " (line.attempt) } }
                }
                td.n { (line.began.ms.in_seconds()) " s" }
                td.n {
                    @if let Some(end) = &line.end {
                        span data-from=(end.point.at) hidden[shown.is_before(end.point.at)] {
                            (duration(end.point.ms.since(line.began.ms)))
                        }
                    }
                }
                td {
                    @if let Some(due) = line.due {
                        span.quiet { "waited " (duration(line.began.ms.since(due.ms))) ": " (line.waited) ". " }
                    }
                    span data-from=(began) data-until=[until] hidden[shown.is_before(began) || until.is_some_and(|until| shown.at >= until)] {
                        "in flight"
                    }
                    @if let Some(end) = &line.end {
                        span.bad[!end.is_good] data-from=(end.point.at) hidden[shown.is_before(end.point.at)] { (t(&end.result)) }
                    }
                }
                td.lane {
                    svg viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                        @if let Some(due) = line.due {
                            @let due = axis.place(due);
                            rect.k-wait x=(number(due)) y="4" width=(number((x - due).max(0.0))) height="4" {}
                        }
                        rect.open.(kind) data-from=(began) data-until=[until] display=[none_if(shown.is_before(began) || until.is_some_and(|until| shown.at >= until))]
                            x=(number(x)) y="1" width=(number(open_width)) height="10" {}
                        @if let Some((end, width)) = &ends {
                            rect.(kind).k-bad[!end.is_good] data-from=(end.point.at) display=[none_if(shown.is_before(end.point.at))]
                                x=(number(x.min(WIDTH - LEAST))) y="1" width=(number(*width)) height="10" {}
                        }
                    }
                }
            }
        }
    }
}
