//! The form that begins a run: the work item in fields or as a file, and the most that the run may cost.

mod fields;

use std::path::Path;

use loop_core::WorkItem;
use loop_core::types::{PicoUsd, is_clean};
use loop_domain::Domain;
use loop_inspect::Plan;
use loop_runtime::budget::{BudgetUse, SharedBudget, Span};
use maud::{Markup, html};

use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{cut, grouped, t};
use super::{CutText, Notice};
use crate::engine::ServedDomain;
use fields::{Field, fields, fill, item};

pub(super) use fields::take;

/// The form of one domain.
#[derive(Default)]
pub(super) struct BeginPage {
    domain: String,
    goal: String,
    /// The word for a work item.
    kind: String,
    max_bytes: u64,
    pub(super) fields: Vec<Field>,
    /// The id of an item that does not contain one. Empty: none.
    pub(super) id: String,
    /// The error of the uploaded file. `None`: it is valid, or there is none.
    pub(super) file_error: Option<String>,
    /// Other errors, and the result of the form.
    pub(super) notices: Vec<Notice>,
    /// The run that the form began, if the caller may read its page.
    pub(super) begun: Option<String>,
    /// A recorded item that does not fit the fields.
    recorded: Option<CutText>,
    /// The CSRF token. It is the first field, so that nothing more is read before it is checked.
    pub(super) csrf: String,
    /// The idempotency key of the form, so that sending it twice begins one run.
    pub(super) key: String,
}

impl BeginPage {
    /// The empty form.
    pub(super) fn new(served: &ServedDomain) -> Self {
        let domain = &served.domain;
        Self {
            domain: served.name().to_string(),
            goal: domain.spec.goal.to_string(),
            kind: domain.item_kind().to_owned(),
            max_bytes: domain.item_bytes_max(),
            fields: fields(domain),
            ..Self::default()
        }
    }

    /// Fills the form from a recorded item.
    pub(super) fn fill(&mut self, domain: &Domain, item: &WorkItem) {
        match fill(&mut self.fields, domain, item) {
            true => self.id = plain(&item.id),
            false => self.recorded = Some(cut(&item.full, MAX_RECORDED)),
        }
    }

    /// The item in the file or in the fields, and the file's name. `None`: something is wrong, and the form says what.
    pub(super) fn item(&mut self, domain: &Domain, file: Option<(&str, &[u8])>) -> Option<(String, String)> {
        let Some((name, bytes)) = file else {
            let mut wrong = Vec::new();
            let item = item(&mut self.fields, domain.item_schema(), &mut wrong);
            self.notices.extend(wrong.into_iter().map(|text| Notice { text, is_good: false }));
            return Some((item?, String::new()));
        };
        let name = plain(Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or_default());
        let name = if name.trim().is_empty() { "file".to_owned() } else { name };
        let is_json = Path::new(&name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let is_object = |text: &str| text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let wrong = match std::str::from_utf8(bytes) {
            Ok(text) if is_json && !is_object(text) => {
                "it is not a JSON object; choose a file with one item, or a text as .md"
            }
            Ok(text) => return Some((text.to_owned(), name)),
            Err(_) => "it is not UTF-8 text; save it as JSON or Markdown in UTF-8",
        };
        self.file_error = Some(format!("{name}: {wrong}"));
        None
    }
}

/// A name in the form that the engine accepts.
fn plain(name: &str) -> String {
    name.chars().filter(|c| is_clean(*c) && !c.is_control()).take(MAX_NAME).collect()
}

/// The most characters of a file name.
const MAX_NAME: usize = 150;
/// The most bytes of a recorded item that are shown if it does not fit the form.
const MAX_RECORDED: usize = 64 * 1024;

/// The most that a run may cost, and the budgets that it counts against.
#[derive(Clone, Debug)]
pub(super) struct CostBound {
    pub(super) plan: Plan,
    pub(super) budgets: Vec<(SharedBudget, BudgetUse)>,
}

impl CostBound {
    /// The most that a run costs, and where that limit is from. `None`: unknown.
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

fn left((budget, taken): &(SharedBudget, BudgetUse)) -> PicoUsd {
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
pub(super) fn begin(page: &BeginPage, bound: &CostBound) -> String {
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
            (bound.html())
            div.buttons { button.primary type="submit" { "Begin the run" } }
        }
    };
    shell::page(PagePlace::Server, &format!("Begin a run of {}", page.domain), &content)
}

/// The page to select a domain, if there are several.
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
