//! The pages of stored evals: a list, and the report of each as `loopgate eval --html` writes it.

use loop_core::types::PicoUsd;
use loop_runtime::journal::evals::KeptEval;
use maud::{Markup, PreEscaped, html};

use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{grouped, heads, t, time};

/// The title of an eval in lists.
pub(super) fn title(eval: &KeptEval) -> String {
    format!("{}, {} UTC", eval.name, time(eval.unix_ms))
}

/// The page of all evals.
pub(super) fn list(kept: &[KeptEval]) -> String {
    let content = html! {
        h1 { "Evals" }
        @if kept.is_empty() {
            p.empty { "No eval is kept. " code { "loopgate eval PATH --keep NAME" } " keeps one in the journal." }
        } @else {
            div.wide tabindex="0" role="region" aria-label="Table of evals" {
                table.stack.list {
                    (heads(&["kept (UTC)", "name", "domains", "models", "#passed", "#rate", "#cost"]))
                    tbody { @for eval in kept { (row(eval)) } }
                }
            }
        }
    };
    shell::page(PagePlace::Server, "Evals", &content)
}

fn row(eval: &KeptEval) -> Markup {
    let KeptEval { id, name, unix_ms, domains, configurations, passed, runs, cost_pico_usd, unknown_costs } =
        eval;
    let rate = f64::from(*passed) * 100.0 / f64::from((*runs).max(1));
    html! {
        tr {
            td.w data-label="kept" { (time(*unix_ms)) }
            th scope="row" { a href={ "/evals/" (encoded(id)) } { (t(name)) } }
            td data-label="domains" { (t(&domains.join(", "))) }
            td data-label="models" { (t(&configurations.join(", "))) }
            td.n data-label="passed" { (grouped((*passed).into())) " of " (grouped((*runs).into())) }
            td.n data-label="rate" { (format!("{rate:.1} %")) }
            td.n data-label="cost" {
                (PicoUsd(*cost_pico_usd).to_string())
                @if *unknown_costs > 0 { " and " (grouped((*unknown_costs).into())) " unknown" }
            }
        }
    }
}

/// The page of an eval: its report, and the selection of a baseline.
pub(super) fn one(eval: &KeptEval, others: &[KeptEval], baseline: &str, report: String) -> String {
    let content = html! {
        p.lead { a href="/evals" { "Evals" } " · kept " (time(eval.unix_ms)) " UTC · " (t(&eval.domains.join(", "))) }
        @if !others.is_empty() {
            form.filters method="get" action={ "/evals/" (encoded(&eval.id)) } {
                div {
                    label for="f-baseline" { "Compare with" }
                    select #f-baseline name="baseline" {
                        option value="" selected[baseline.is_empty()] { "nothing" }
                        @for other in others {
                            option value=(t(&other.id)) selected[other.id == baseline] { (t(&title(other))) }
                        }
                    }
                }
                div { button type="submit" { "Compare" } }
            }
        }
        div.report { (PreEscaped(report)) }
    };
    shell::page(PagePlace::Server, &format!("Eval: {}", eval.name), &content)
}
