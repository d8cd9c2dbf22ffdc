//! The form that begins a run: the work item in fields or in a file, and what the run may cost at most.

mod fields;

use loop_core::types::PicoUsd;
use loop_inspect::Plan;
use loop_runtime::budget::{SharedBudget, Span, Taken};
use maud::{Markup, html};

use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{grouped, t};
use super::{CutText, Notice};
pub(super) use fields::{Field, fields, fill, item, take};

/// The form of one domain.
pub(super) struct BeginPage {
    pub(super) domain: String,
    pub(super) goal: String,
    /// The word for a work item.
    pub(super) kind: String,
    pub(super) fields: Vec<Field>,
    /// The id of a recorded item that fills the form and does not hold its id itself. Empty: none.
    pub(super) id: String,
    /// What is wrong with the file that was chosen. `None`: nothing, or there was none.
    pub(super) file_error: Option<String>,
    pub(super) max_bytes: u64,
    /// What is wrong besides, or what was done.
    pub(super) notices: Vec<Notice>,
    /// A run that was begun before: its page, if the caller may read it.
    pub(super) begun: Option<String>,
    /// A recorded item that cannot be put into the fields.
    pub(super) recorded: Option<CutText>,
    pub(super) bound: CostBound,
    /// The token against forged requests. It is the first field, so that no more is read before it is checked.
    pub(super) csrf: String,
    /// What makes the form one request, however often it is sent.
    pub(super) key: String,
    /// The other domains in which the caller may begin runs.
    pub(super) others: Vec<String>,
}

/// What a run may cost at most, and which budgets it counts against.
#[derive(Clone, Debug)]
pub(super) struct CostBound {
    pub(super) plan: Plan,
    pub(super) budgets: Vec<(SharedBudget, Taken)>,
}

impl CostBound {
    /// The most that a run costs, with what says so. `None`: it is not known.
    fn most(&self) -> Option<(PicoUsd, String)> {
        let at_most = &self.plan.at_most;
        let of_limit =
            at_most.cost_pico_usd.map(|cost| cost.saturating_sub(at_most.cost_over_limit_pico_usd));
        let of_limit = of_limit.map(|cost| (PicoUsd(cost), "as the limits of the domain say".to_owned()));
        let of_budgets =
            self.budgets.iter().map(|it| (left(it), format!("all that is left of {}", named(&it.0))));
        of_limit.into_iter().chain(of_budgets).min_by_key(|(cost, _)| *cost)
    }

    /// The most that a run costs, in words and dollars.
    pub(super) fn html(&self) -> Markup {
        html! {
            @match self.most() {
                Some((PicoUsd(0), why)) if self.budgets.iter().any(|it| left(it) == PicoUsd(0)) => p.notice.caution { "Nothing can be spent now: " (t(&why)) " is $0. A run that begins ends before its first call." }
                Some((PicoUsd(0), _)) => p { "A run costs " strong { "nothing" } ", as the limits and prices of the domain say." }
                Some((cost, why)) => p { "A run costs at most " strong { (cost.to_string()) } ", " (t(&why)) "." }
                None => p.notice.caution { "What a run costs at most is not known: a model has no known price, and there is no limit of cost." }
            }
            @if let Some((amounts, why)) = self.plan.at_most.worst_in_words(grouped) {
                p.quiet { "In the worst case " (amounts) ", if every call in flight when the limit is reached is billed for the whole context of its model: the cost mode " (t(&why)) "." }
            }
            @if !self.budgets.is_empty() {
                ul { @for it in &self.budgets {
                    li { (t(&named(&it.0))) ": " strong { (left(it).to_string()) } " of " (it.0.limit.to_string()) " is left"
                        @if it.1.reserved > PicoUsd(0) { ", with " (it.1.reserved.to_string()) " reserved for calls in flight" } }
                } }
            }
        }
    }
}

fn left((budget, taken): &(SharedBudget, Taken)) -> PicoUsd {
    PicoUsd(budget.limit.0.saturating_sub(taken.total().0))
}

/// A budget for people.
fn named(budget: &SharedBudget) -> String {
    match budget.span {
        Span::Day => format!("today's budget of {}", budget.of),
        Span::Month => format!("this month's budget of {}", budget.of),
        Span::Batch => format!("the budget of the batch {}", budget.of),
        Span::TokenDay => format!("today's budget of the token {}", budget.of),
    }
}

/// The form.
pub(super) fn begin(page: &BeginPage) -> String {
    let file = page.file_error.as_ref();
    let content = html! {
        h1 { "Begin a run of " (t(&page.domain)) }
        p.lead { (t(&page.goal)) " " a href={ "/domains/" (encoded(&page.domain)) } { "About this domain" } }
        @for notice in &page.notices {
            p.notice.bad[!notice.is_good] role="status" {
                (t(&notice.text))
                @if let Some(run) = page.begun.as_ref().filter(|_| notice.is_good) { " " a href={ "/runs/" (encoded(run)) } { "Open it" } }
            }
        }
        @if let Some(recorded) = &page.recorded {
            p.notice.caution { "The item of that run is not put into the fields, for it does not have the form that the domain asks for now. This is what was recorded:" }
            pre tabindex="0" { (t(&recorded.text)) }
        }
        form.decide method="post" action="/new" enctype="multipart/form-data" {
            input type="hidden" name="csrf" value=(page.csrf);
            input type="hidden" name="domain" value=(page.domain);
            input type="hidden" name="key" value=(page.key);
            @if !page.id.is_empty() { input type="hidden" name="id" value=(page.id); }
            h2 { "Work item" span.quiet { " (" (t(&page.kind)) ")" } }
            @for (at, field) in page.fields.iter().enumerate() { (field.html(at)) }
            label for="file" { "A file in place of the fields" }
            p.quiet #file-hint { "JSON or Markdown in UTF-8, of at most " (grouped(page.max_bytes)) " bytes. If you choose one, the fields above do not count." }
            input #file type="file" name="file" accept=".json,.md,.markdown,.txt,application/json,text/markdown,text/plain" aria-describedby=(if file.is_some() { "file-hint file-error" } else { "file-hint" });
            @if let Some(error) = file { p.error #file-error { (t(error)) } }
            h2 { "Cost" }
            (page.bound.html())
            div.buttons { button.primary type="submit" { "Begin the run" } }
        }
        @if !page.others.is_empty() {
            p { "Other domains: " @for (n, name) in page.others.iter().enumerate() {
                @if n > 0 { ", " } a href={ "/new?domain=" (encoded(name)) } { (t(name)) }
            } }
        }
    };
    shell::page(PagePlace::Server, &format!("Begin a run of {}", page.domain), &content)
}

/// The choice of a domain, where there are several.
pub(super) fn choose(domains: &[(String, String)]) -> String {
    let content = html! {
        h1 { "Begin a run" }
        p.lead { "Choose a domain." }
        ul.links { @for (name, goal) in domains {
            li { a href={ "/new?domain=" (encoded(name)) } { (t(name)) } @if !goal.is_empty() { ": " (t(goal)) } }
        } }
    };
    shell::page(PagePlace::Server, "Begin a run", &content)
}
