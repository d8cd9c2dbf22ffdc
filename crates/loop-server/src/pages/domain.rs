//! The pages of a server's domains: the goal, the tools and their policy, the limits, and what is left of the budgets.

use loop_core::RunSpec;
use loop_core::spec::ModelSpec;
use loop_core::types::Tier;
use loop_inspect::policy_in_words;
use loop_inspect::report::price_in_words;
use maud::{Markup, html};

use super::begin::CostBound;
use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, grouped, heads, t};

/// What the caller may do in a domain besides reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct MayDo {
    pub(super) begin: bool,
    pub(super) read: bool,
}

impl MayDo {
    fn links(self, name: &str) -> Markup {
        html! {
            @if self.begin { a href={ "/new?domain=" (encoded(name)) } { "Begin a run" } }
            @if self.begin && self.read { " · " }
            @if self.read { a href={ "/?domain=" (encoded(name)) } { "Runs" } }
        }
    }
}

/// A domain in the list: its name, its goal, its limits, and how many of its runs are open.
pub(super) struct DomainRow {
    pub(super) name: String,
    pub(super) goal: String,
    pub(super) limits: String,
    pub(super) open: String,
    pub(super) may: MayDo,
}

/// The list of domains.
pub(super) fn domains(rows: &[DomainRow]) -> String {
    let content = html! {
        h1 { "Domains" }
        @if rows.is_empty() { p.empty { "No domain is served here, or none that you see." } }
        @for row in rows {
            section.part {
                h2 { a href={ "/domains/" (encoded(&row.name)) } { (t(&row.name)) } }
                @if !row.goal.is_empty() { p { (t(&row.goal)) } }
                p.quiet { (t(&row.limits)) " · " (row.open) }
                p { (row.may.links(&row.name)) }
            }
        }
    };
    shell::page(PagePlace::Server, "Domains", &content)
}

/// The page of one domain.
pub(super) fn domain(spec: &RunSpec, row: &DomainRow, bound: &CostBound) -> String {
    let parts = [
        ("tools", "Tools and policy", tools(spec)),
        ("limits", "Limits", limits(row, bound)),
        ("models", "Models", models(spec)),
        (
            "budget",
            "Cost and budgets",
            html! {
                (bound.html())
                @if bound.budgets.is_empty() { p.quiet { "No budget of a day or a month applies to you here." } }
            },
        ),
    ];
    let content = html! {
        h1 { (t(&row.name)) }
        @if !row.goal.is_empty() { p.lead { (t(&row.goal)) } }
        p { (row.open) }
        p { (row.may.links(&row.name)) }
        @for (id, title, part) in &parts {
            section.part aria-labelledby=(id) { h2 id=(id) { (title) } (part) }
        }
    };
    shell::page(PagePlace::Server, &format!("Domain {}", row.name), &content)
}

/// The tools: what each may do, and its exceptions.
fn tools(spec: &RunSpec) -> Markup {
    let (rules, tools) = policy_in_words(spec);
    let own = tools.iter().scan("", |last, [name, ..]| {
        *last = if name.is_empty() { *last } else { name.as_str() };
        Some(*last)
    });
    html! {
        ul { @for rule in &rules { li { (t(rule)) } } }
        @if !tools.is_empty() {
            div.wide { table.stack {
                (heads(&["Tool", "Effect, or when", "May run", "Why"]))
                tbody { @for (own, [name, effect, may, why]) in own.zip(&tools) { tr {
                    th scope="row" {
                        code.quiet[name.is_empty()] { (t(own)) }
                        @if let Some(tool) = spec.tool(name).filter(|tool| !tool.description.is_empty()) {
                            div.quiet { (t(&cut(&tool.description, MAX_DESCRIPTION).text)) }
                        }
                    }
                    td data-label="Effect, or when" { (t(effect)) }
                    td data-label="May run" { (t(may)) }
                    td data-label="Why" { (t(why)) }
                } } }
            } }
        }
    }
}

fn limits(row: &DomainRow, bound: &CostBound) -> Markup {
    html! {
        p { (t(&row.limits)) }
        p { "A run uses at most:" }
        ul {
            @for (name, value) in bound.plan.at_most.in_words(grouped) { li { (name) ": " strong { (t(&value)) } } }
        }
        p { "If each pass uses the most that it may, these limits bind, in this order:" }
        ol { @for fit in &bound.plan.passes_that_fit { li { code { (fit.setting) } " " (fit.in_words()) } } }
    }
}

fn models(spec: &RunSpec) -> Markup {
    let own = [
        (Tier::Base, Some(&spec.models.base)),
        (Tier::Selector, spec.models.selector.as_ref()),
        (Tier::Escalated, spec.models.escalated.as_ref()),
        (Tier::Fallback, spec.models.fallback.as_ref()),
    ];
    let own = own.into_iter().filter_map(|(tier, model)| Some((tier, model?)));
    html! {
        div.wide { table.stack {
            (heads(&["Tier", "Model", "Price", "#Context"]))
            tbody { @for (tier, model) in own { tr {
                th scope="row" { (tier.name()) }
                td data-label="Model" { code { (t(&model.provider)) "/" (t(&model.model)) } }
                td data-label="Price" { (price(model)) }
                td.n data-label="Context" { (counted(model.context_tokens, "token", "tokens")) }
            } } }
        } }
    }
}

fn price(model: &ModelSpec) -> String {
    match &model.price {
        None => "not known".to_owned(),
        Some(price) if price.is_free() => "free".to_owned(),
        Some(price) => price_in_words(price),
    }
}

/// The most bytes of a tool's description.
const MAX_DESCRIPTION: usize = 400;
