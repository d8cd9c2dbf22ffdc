//! The page of everything that waits for people, in all runs: each action, its target, its deadline, and how long it
//! has waited.

use std::sync::Arc;

use loop_core::Run;
use loop_runtime::journal::Recorded;
use loop_runtime::people::{PeopleReport, PersonRequest};
use loop_runtime::report::PersonRequestReport;
use maud::{Markup, html};

use super::run::anchor;
use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, duration, heads, t, when};

/// The most bytes of a description, a target or a title. The page of the decision shows all of it.
const MAX_TEXT: usize = 300;

/// An action that waits, as the list shows it.
#[derive(Clone, Debug)]
pub(super) struct PendingRow {
    run: String,
    /// Item and title.
    title: String,
    pub(super) domain: Arc<str>,
    anchor: String,
    /// The request without the parameters.
    report: PersonRequestReport,
    approvals: u32,
    approved: usize,
    /// When the person was asked, in milliseconds since 1970 (UTC).
    since_unix_ms: u64,
}

impl PendingRow {
    /// The pending requests of a run.
    pub(super) fn all(run: &Run, recorded: &Recorded) -> Vec<Self> {
        let item = &run.started().item;
        let people = PeopleReport::of(recorded);
        let row = |requested: PersonRequest| {
            let mut report = PersonRequestReport::new(run, &recorded.manifest, &requested);
            (report.parameters, report.origins) = (serde_json::Value::Null, Vec::new());
            let since = people.of_action(&requested.key).map(|record| record.requested_unix_ms);
            Self {
                run: run.id().to_string(),
                title: format!("{}: {}", item.id, item.title),
                domain: Arc::clone(&run.spec().domain),
                anchor: anchor(requested.key),
                report,
                approvals: requested.approvals,
                approved: requested.approvers.len(),
                since_unix_ms: since.unwrap_or(run.started().unix_ms),
            }
        };
        run.requested().into_iter().map(row).collect()
    }

    fn html(&self, now: u64, may_decide: bool) -> Markup {
        let PersonRequestReport { tool, effect, question, description, connects_to, until_unix_ms, .. } =
            &self.report;
        let verb = match (may_decide, question) {
            (false, _) => "Look at",
            (true, true) => "Answer",
            (true, false) => "Decide",
        };
        html! {
            tr {
                th scope="row" {
                    a href={ "/runs/" (encoded(&self.run)) "/approve#" (self.anchor) } { (verb) " " (t(tool)) }
                    " " span.pill.warn { @if *question { "a question" } @else { (t(effect)) } }
                    @if self.approvals > 1 { " " span.quiet { (self.approved) " of " (self.approvals) " approvals" } }
                }
                td data-label="does" { (short(description)) }
                td data-label="connects to" { @if let Some(place) = connects_to { code { (short(place)) } } }
                td data-label="deadline" {
                    @match *until_unix_ms {
                        Some(until) if until <= now => strong.bad { "over: " (when(until)) },
                        Some(until) => { (when(until)) " " span.quiet { "(in " (duration(until - now)) ")" } },
                        None => "none",
                    }
                }
                td data-label="waits for" { (duration(now.saturating_sub(self.since_unix_ms))) }
                td data-label="run" {
                    a href={ "/runs/" (encoded(&self.run)) } { (short(&self.title)) } " " span.quiet { (t(&self.domain)) }
                }
            }
        }
    }
}

fn short(text: &str) -> Markup {
    let cut = cut(text, MAX_TEXT);
    html! { (t(&cut.text)) @if cut.left_out > 0 { "…" } }
}

/// The page. `left_out`: the number of waiting runs that were not read. `may_decide`: whether the reader may decide in
/// this domain.
pub(super) fn pending(
    mut rows: Vec<PendingRow>,
    left_out: usize,
    now: u64,
    may_decide: &dyn Fn(&str) -> bool,
) -> String {
    // What ends first is first, and of what does not end the oldest.
    rows.sort_by_key(|row| (row.report.until_unix_ms.unwrap_or(u64::MAX), row.since_unix_ms));
    let content = html! {
        h1 { "Pending" }
        @if rows.is_empty() {
            p.empty { "Nothing waits for a person. " a href="/" { "All runs" } }
        } @else {
            p.lead { (counted(rows.len() as u64, "action waits", "actions wait")) " for a person. Without a decision before its deadline, an action is denied." }
            div.wide tabindex="0" role="region" aria-label="Table of actions that wait" {
                table.stack {
                    (heads(&["action", "what it does", "connects to", "deadline", "waits for", "run"]))
                    tbody { @for row in &rows { (row.html(now, may_decide(&row.domain))) } }
                }
            }
        }
        @if left_out > 0 {
            p { (counted(left_out as u64, "more run waits", "more runs wait")) "; " a href="/?outcome=waiting" { "the list of runs" } " has all of them." }
        }
    };
    shell::page(PagePlace::Server, "Pending", &content)
}
