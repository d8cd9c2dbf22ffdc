//! The page of a backtest: a scatter plot of recorded and new cost, and the runs as a table.

use loop_core::types::PicoUsd;
use loop_inspect::backtest::{BacktestReport, BacktestedRun, FindingKind, PolicyReport, RunUnderPolicy};
use maud::{Markup, html};

use super::runs::encoded;
use super::shell::{self, PagePlace};
use super::text::{counted, cut, duration, heads, t};

/// The size of the plot.
const EDGE: f64 = 400.0;
/// The most runs that are listed for each policy.
const MAX_ROWS: usize = 500;
const MAX_TEXT: usize = 200;

/// The page of a backtest.
pub fn backtest(report: &BacktestReport, place: PagePlace) -> String {
    let content = html! {
        h1 { "Backtest" }
        p.lead {
            (counted(report.recorded.runs.into(), "recorded run", "recorded runs")) ", cost "
            (PicoUsd(report.recorded.cost_pico_usd).to_string()) ". "
            (counted(report.not_tested.len() as u64, "run", "runs")) " could not be tested."
        }
        p.legend { @for kind in FindingKind::ALL { span { i.{ "f-" (kind.name()) } {} (meaning(kind)) } } }
        @for (at, policy) in report.policies.iter().enumerate() { (of_policy(report, at, policy, place)) }
        @if !report.not_tested.is_empty() {
            section.part aria-label="Not tested" {
                h2 { "Not tested" }
                ul { @for run in report.not_tested.iter().take(MAX_ROWS) { li { code { (t(&run.run)) } " " (t(&run.why)) } } }
            }
        }
    };
    shell::page(place, "Backtest", &content)
}

fn meaning(finding: FindingKind) -> &'static str {
    match finding {
        FindingKind::Same => "same",
        FindingKind::OtherReason => "same end, another reason",
        FindingKind::StopsEarlier => "stops earlier (exact)",
        FindingKind::FinalPass => "makes its final pass earlier (reply unknown)",
        FindingKind::Continues => "continues (unknown from there)",
        FindingKind::Differs => "differs (unknown from there)",
    }
}

/// What a run took as recorded and under the policy: its cost, or its time if nothing cost anything.
fn measures(run: &BacktestedRun, under: &RunUnderPolicy, by_time: bool) -> (u64, u64) {
    if by_time {
        return (run.wall_ms, under.wall_ms);
    }
    let most = under.more_at_most.as_ref().and_then(|more| more.cost_pico_usd).unwrap_or_default();
    (run.cost_pico_usd.unwrap_or_default(), under.cost_pico_usd.unwrap_or_default().saturating_add(most))
}

fn of_policy(report: &BacktestReport, at: usize, policy: &PolicyReport, place: PagePlace) -> Markup {
    let pairs: Vec<(usize, &BacktestedRun, &RunUnderPolicy)> =
        report.runs.iter().enumerate().filter_map(|(n, run)| Some((n, run, run.under.get(at)?))).collect();
    let by_time = pairs.iter().all(|(_, run, under)| measures(run, under, false) == (0, 0));
    let name = |amount: u64| if by_time { duration(amount) } else { PicoUsd(amount).to_string() };
    let largest = pairs
        .iter()
        .map(|(_, run, under)| {
            let (then, now) = measures(run, under, by_time);
            then.max(now)
        })
        .max()
        .unwrap_or(0)
        .max(1);
    let place_of = |amount: u64| amount as f64 / largest as f64 * (EDGE - 20.0) + 10.0;
    let what = if by_time { "time" } else { "cost" };
    html! {
        section.part aria-label=(t(&policy.name)) {
            h2 { (t(&policy.name)) }
            @if !policy.settings.is_empty() { pre tabindex="0" { (t(&policy.settings.join("\n"))) } }
            @for assumption in &policy.assumptions { p { "Assumed without effect on what the model writes: " (t(assumption)) "." } }
            p {
                "Saved in runs whose end is known: " strong { (PicoUsd(policy.saved_pico_usd).to_string()) } " and "
                strong { (duration(policy.saved_ms)) } ". The end of " (counted(policy.unknown.into(), "run", "runs")) " is not known."
            }
            @if let Some(labelled) = &policy.labelled { p { (labelled.in_words()) "." } }
            p {
                @for (n, count) in policy.findings.iter().filter(|count| count.runs > 0).enumerate() {
                    @if n > 0 { ", " }
                    (counted(count.runs.into(), "run", "runs")) " " i.dot.{ "f-" (count.finding.name()) } {} (meaning(count.finding))
                }
                "."
            }
            figure.scatter {
                svg viewBox="0 0 400 400" role="img" aria-label={ "Each run by its " (what) ": recorded to the right, under the policy upwards. The table has the figures." } {
                    line.axis x1="10" y1="390" x2="390" y2="390" {}
                    line.axis x1="10" y1="390" x2="10" y2="10" {}
                    line.axis x1="10" y1="390" x2="390" y2="10" stroke-dasharray="4 4" {}
                    @for (n, run, under) in pairs.iter().take(MAX_ROWS) {
                        @let (then, now) = measures(run, under, by_time);
                        a href={ "#r" (at) "-" (n) } tabindex="-1" {
                            ellipse.{ "f-" (under.finding.name()) } cx=(format!("{:.1}", place_of(then))) cy=(format!("{:.1}", EDGE - place_of(now))) rx="6" ry="6" {
                                title { (t(&cut(&run.item, MAX_TEXT).text)) ": " (name(then)) " recorded, " (name(now)) " under the policy, " (under.finding.name().replace('_', " ")) }
                            }
                        }
                    }
                }
                figcaption.quiet { "To the right: recorded " (what) ", up to " (name(largest)) ". Upwards: " (what) " under the policy, at most. On the dashed line nothing changes; a point leads to its run." }
            }
            div.wide tabindex="0" role="region" aria-label="Runs behind the points" {
                table {
                    caption { "The runs behind the points" }
                    (heads(&["run", "item", "finding", "#event", "what", "#recorded", "#under the policy"]))
                    tbody {
                        @for (n, run, under) in pairs.iter().take(MAX_ROWS) {
                            @let (then, now) = measures(run, under, by_time);
                            tr id={ "r" (at) "-" (n) } {
                                th.w scope="row" {
                                    @if place.is_server() {
                                        a href={ "/runs/" (encoded(&run.run)) @if let Some(entry) = under.entry { "?at=" (entry) } } { (t(run.run.get(..8).unwrap_or(&run.run))) }
                                    } @else { code { (t(&run.run)) } }
                                }
                                td { (t(&cut(&run.item, MAX_TEXT).text)) }
                                td { i.dot.{ "f-" (under.finding.name()) } {} (under.finding.name().replace('_', " ")) }
                                td.n { @if let Some(entry) = under.entry { (entry) } }
                                td { (t(&cut(&under.what, MAX_TEXT).text)) }
                                td.n { (name(then)) }
                                td.n { @if !under.exact && under.more_at_most.is_some() { "at most " } (name(now)) }
                            }
                        }
                    }
                }
            }
            @if pairs.len() > MAX_ROWS { p.rest { (pairs.len() - MAX_ROWS) " more runs are left out here: loopgate backtest --json has all of them" } }
        }
    }
}
