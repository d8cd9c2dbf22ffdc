//! The page of pending requests of a run: the complete parameters, the origin of each value, and the form that decides.

mod origin;

use std::collections::BTreeSet;

use loop_claims::Grounding;
use loop_core::run::PersonRequest;
use loop_core::types::{Approver, Millis, Scope};
use loop_core::{Run, policy};
use loop_runtime::report::{EffectPlanReport, PersonRequestReport};
use maud::{Markup, html};

use super::run::{anchor, plan_html};
use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, duration, grouped, t, when};

/// The page warns of a deadline when this many milliseconds are left.
const SOON_MS: u64 = 600_000;

/// The requests of a run that wait for a person, as their page shows them.
#[derive(Clone, Debug)]
pub struct ApprovePage {
    run: String,
    title: String,
    domain: String,
    scope: Vec<(&'static str, String)>,
    requests: Vec<Request>,
    plan: Option<EffectPlanReport>,
    /// Values in the document so far that the evidence contradicts, in order.
    contradicted: Vec<String>,
    /// What else the form needs.
    form: ApproveForm,
}

/// What the page needs besides the run.
#[derive(Clone, Debug, Default)]
pub struct ApproveForm {
    /// The CSRF token, for the hidden field `csrf`. Empty: nothing can be decided here, and there is no form.
    pub csrf: String,
    /// The account of the decision, as the door checked it, for example `token ada`. Empty: unknown.
    pub account: String,
    /// Whether these pages are read-only for every account, so that decisions are made on the command line.
    pub is_for_reading: bool,
    /// The result of the decision before. `None`: there was none.
    pub notice: Option<Notice>,
    /// Other runs that wait: id, item and title.
    pub others: Vec<(String, String)>,
}

/// The result of a decision, as a notice on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One sentence.
    pub text: String,
    /// Whether the decision counts.
    pub is_good: bool,
}

#[derive(Clone, Debug)]
struct Request {
    requested: PersonRequest,
    shown: policy::ShownArgs,
    /// The request as programs get it, with what the tool does and the origin of each value.
    report: PersonRequestReport,
    /// The deadline in milliseconds since 1970 (UTC), and how many are left. `None`: it has none.
    until: Option<(u64, u64)>,
}

impl ApprovePage {
    /// The pending requests of a run at this instant of its clock. `manifest` is that of its tools.
    pub fn of(run: &Run, manifest: &str, now: Millis, form: ApproveForm) -> Self {
        let started = run.started();
        let Scope { account, account_name, asset, person, item } = &started.item.scope;
        let all = [
            ("account", account),
            ("account name", account_name),
            ("asset", asset),
            ("person", person),
            ("item", item),
        ];
        let scope = all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.to_string())));
        let request = |requested: PersonRequest| Request {
            shown: policy::shown(&requested.parameters),
            report: PersonRequestReport::new(run, manifest, &requested),
            until: requested.deadline.map(|deadline| (started.unix_ms_at(deadline), deadline.since(now))),
            requested,
        };
        let claims = loop_claims::of_run(run);
        let contradicted = claims.iter().filter(|claim| claim.state == Grounding::Contradicted);
        let mut contradicted: Vec<String> = contradicted.map(|claim| claim.value.to_string()).collect();
        let mut known = BTreeSet::new();
        contradicted.retain(|value| known.insert(value.clone()));
        Self {
            contradicted,
            run: run.id().to_string(),
            title: format!("{} {}: {}", started.item.kind, started.item.id, started.item.title),
            domain: run.spec().domain.to_string(),
            scope: scope.collect(),
            requests: run.requested().into_iter().map(request).collect(),
            plan: EffectPlanReport::of(run),
            form,
        }
    }
}

impl ApprovePage {
    /// The values that the evidence contradicts, since the model that wrote them requests the action.
    fn doubts(&self) -> Markup {
        let count = self.contradicted.len();
        html! {
            @if count > 0 {
                p.notice.caution {
                    (counted(count as u64, "value of the document so far is", "values of the document so far are")) " contradicted: "
                    @for (n, value) in self.contradicted.iter().take(MAX_DOUBTS).enumerate() {
                        @if n > 0 { ", " } strong { (t(&cut(value, MAX_VALUE).text)) }
                    }
                    @if count > MAX_DOUBTS { " and " (count - MAX_DOUBTS) " more" }
                    ". " a href={ "/runs/" (encoded(&self.run)) "#document" } { "Read the document" }
                }
            }
        }
    }
}

/// The most contradicted values that are named, and the most bytes of each.
const MAX_DOUBTS: usize = 8;
const MAX_VALUE: usize = 80;

/// The page of the pending requests of a run.
pub fn approve(page: &ApprovePage) -> String {
    let content = html! {
        h1 { "Decide" }
        p.lead {
            a href={ "/runs/" (encoded(&page.run)) } { (t(&page.title)) } ", a run of " strong { (t(&page.domain)) }
        }
        @if let Some(notice) = &page.form.notice {
            p.notice.bad[!notice.is_good] role="status" { (t(&notice.text)) }
        }
        @if !page.scope.is_empty() {
            p { "What the item concerns, which a tool may use as well: "
                @for (n, (name, value)) in page.scope.iter().enumerate() {
                    @if n > 0 { ", " } (name) " " code { (t(value)) }
                }
            }
        }
        @if let Some(plan) = &page.plan { (plan_html(plan)) }
        @if page.requests.is_empty() { p { "Nothing waits in this run." } } @else { (page.doubts()) }
        @if page.requests.len() > 1 {
            p { (counted(page.requests.len() as u64, "action waits", "actions wait")) " in this run:" }
            ol { @for it in &page.requests {
                li { a href={ "#" (anchor(it.requested.key)) } { (t(&it.requested.tool)) " " (t(&it.requested.key.to_string())) } }
            } }
        }
        @for it in &page.requests { (it.html(page)) }
        @if !page.form.others.is_empty() {
            section.part aria-labelledby="others-title" {
                h2 #others-title { "What else waits" }
                ul { @for (run, title) in &page.form.others {
                    li { a href={ "/runs/" (encoded(run)) "/approve" } { (t(title)) } }
                } }
            }
        }
    };
    shell::page(PagePlace::Server, &format!("Decide: {}", page.title), &content)
}

impl Request {
    fn html(&self, page: &ApprovePage) -> Markup {
        let PersonRequest {
            key,
            id,
            tool,
            effect,
            reason,
            why,
            is_question,
            binding,
            approvals,
            approvers,
            ..
        } = &self.requested;
        let kind = if *is_question { "a question".to_owned() } else { format!("effect {}", effect.name()) };
        html! {
            section.part id=(anchor(*key)) aria-labelledby={ (anchor(*key)) "-title" } {
                h2 id={ (anchor(*key)) "-title" } { (t(tool)) " " span.pill.warn { (kind) } }
                @if !self.report.description.is_empty() { p { "What it does: " (t(&self.report.description)) } }
                @if let Some(place) = &self.report.connects_to { p { "It connects to " code { (t(place)) } } }
                p { "Asked because " (t(why)) "." }
                @if let Some(slot) = &self.report.slot { p { "It fits the plan: " code { (t(slot)) } } }
                @if !reason.is_empty() { p { "The model says: " (t(reason)) } }
                h3 { "Parameters" }
                pre.whole tabindex="0" { (t(&self.shown.text)) }
                p.quiet { (counted(self.shown.bytes, "byte", "bytes")) ", " (counted(self.shown.values, "value", "values")) ", action " code { (t(&key.to_string())) } ", which the model calls " code { (t(id)) } }
                @for warning in &self.shown.warnings { p.warn { strong { "Mind: " } (t(warning)) } }
                (origin::table(&self.report, &page.run))
                (approved_so_far(*approvals, approvers))
                @if let Some((until, 0)) = self.until {
                    p.notice.bad { "Its time was over at " (when(until)) ", which counts as a denial." }
                } @else {
                    @match self.until {
                        Some((until, left)) => p.warn[left < SOON_MS] { "Until " strong { (when(until)) } " (" (duration(left)) " left), then it counts as a denial." }
                        None => p { "It has no deadline: it waits until it is answered." }
                    }
                    @if page.form.csrf.is_empty() {
                        p.notice {
                            @if page.form.is_for_reading {
                                "These pages are for reading. Decide it with " code { "loopgate " (if *is_question { "answer" } else { "approve" }) " " (t(&page.run)) " " (t(&key.to_string())) }
                                " or " code { "loopgate deny " (t(&page.run)) " " (t(&key.to_string())) } "."
                            } @else {
                                "You may read this request and not decide it. The role " code { "approve" } " decides."
                            }
                        }
                    } @else {
                        form.decide method="post" action={ "/runs/" (encoded(&page.run)) "/approve" } {
                            input type="hidden" name="csrf" value=(t(&page.form.csrf));
                            input type="hidden" name="action" value=(t(&key.to_string()));
                            input type="hidden" name="binding" value=(binding.to_string());
                            @if !is_question {
                                // What Enter in the field below sends is not an approval.
                                button type="submit" name="decision" value="deny" hidden { "Deny" }
                            }
                            @let field = format!("{}-text", anchor(*key));
                            label for=(field) { @if *is_question { "Answer, or why not" } @else { "Why not" } }
                            input id=(field) type="text" name="text" autocomplete="off" aria-describedby={ (field) "-hint" };
                            p.quiet id={ (field) "-hint" } {
                                @if *is_question { "The model reads it." } @else { "For a denial; the model reads it. It may be empty." }
                            }
                            div.buttons {
                                @if *is_question {
                                    button.primary type="submit" name="decision" value="answer" { "Answer" }
                                } @else {
                                    button.primary type="submit" name="decision" value="approve" { "Approve " (t(tool)) }
                                }
                                button type="submit" name="decision" value="deny" { "Deny" }
                            }
                        }
                        p.quiet.keys hidden {
                            code { "a" } " leads to the button " @if *is_question { "Answer" } @else { "Approve" } ", " code { "d" } " to the field above it."
                        }
                        p.quiet {
                            @if !page.form.account.is_empty() { "It counts as given by " (t(&page.form.account)) ". " }
                            "Bound to " code { (binding.short()) } ": if tool, parameters, tools or policy become others, it does not count."
                        }
                    }
                }
            }
        }
    }
}

fn approved_so_far(approvals: u32, approvers: &[Approver]) -> Markup {
    html! {
        @if approvals > 1 {
            p {
                strong { (grouped(approvals.into())) " people" } " have to approve it; "
                (counted(approvers.len() as u64, "has", "have")) " so far."
            }
            @if !approvers.is_empty() { ul { @for by in approvers { li { "approved by " (t(&by.to_string())) } } } }
        }
    }
}
