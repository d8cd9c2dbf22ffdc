//! The page of an eval.

use super::EvalReport;
use super::trials::{compared, costs, counted, interval, left_out, percent, reasons, rule};
use crate::eval::{ConfigurationSummary, Share};
use crate::interval::Interval;
use crate::page::{Cell, Page, Picture};

/// How many runs that did not pass are listed.
const MAX_FAILURES: usize = 500;

/// The page of a report. The same report always gives the same page.
pub fn page(report: &EvalReport) -> String {
    let metrics = &report.metrics;
    let mut page = Page::new("Eval", "");
    let what = format!("{} of {} runs passed", metrics.passed, metrics.cases);
    match &report.baseline {
        Some(baseline) if baseline.regressed => page.verdict("Regression against the baseline", false),
        Some(_) => page.verdict("No regression against the baseline", report.is_good()),
        None => page.verdict(&what, report.is_good()),
    }
    if report.baseline.is_some() {
        page.paragraph(&what);
    }
    configurations(&mut page, &report.configurations);
    baseline(&mut page, report);
    cases(&mut page, &report.configurations);
    all_metrics(&mut page, report);
    failures(&mut page, report);
    page.finish()
}

fn configurations(page: &mut Page, configurations: &[ConfigurationSummary]) {
    page.heading("Configurations");
    let heads = [
        "configuration",
        "passed",
        "rate",
        "95 % interval",
        "0 % to 100 %",
        "cost",
        "cost a run",
        "p50 ms",
        "p95 ms",
        "stopped",
        "stored",
    ];
    let row = |one: &ConfigurationSummary| {
        let (cost, a_run) = costs(one);
        let unknown = match one.unknown_costs {
            0 => String::new(),
            unknown => format!(" and {unknown} unknown"),
        };
        let whole = Interval { rate: one.rate, low: one.low, high: one.high };
        vec![
            Cell::text(&one.name),
            Cell::number(counted(one.passed)),
            Cell::number(percent(one.rate)),
            Cell::number(interval(one)),
            Cell::picture(Picture::interval(&whole)),
            Cell::number(format!("{cost}{unknown}")),
            Cell::number(a_run),
            Cell::number(one.wall_ms_median),
            Cell::number(one.wall_ms_p95),
            Cell::text(reasons(one)),
            Cell::number(one.stored),
        ]
    };
    page.table(&heads, configurations.iter().map(row));
    page.paragraph(
        "The interval is Wilson's. It says what more runs of these cases would give, and nothing of other cases. A stored \
         result was made by an earlier command, with its cost and its time.",
    );
}

fn baseline(page: &mut Page, report: &EvalReport) {
    let Some(baseline) = &report.baseline else { return };
    page.heading("Baseline");
    page.paragraph(&format!("Compared with {}. {}", baseline.file, rule()));
    for one in &baseline.configurations {
        let verdict = if one.regressed { "regression" } else { "no regression" };
        page.verdict(&format!("{}: {verdict}", one.configuration), !one.regressed);
        page.list(compared(one));
    }
    page.list(left_out(baseline));
}

fn cases(page: &mut Page, configurations: &[ConfigurationSummary]) {
    let Some(first) = configurations.first() else { return };
    page.heading("Cases");
    let names = configurations.iter().map(|one| one.name.as_str());
    let heads: Vec<&str> = std::iter::once("case").chain(names).collect();
    let row = |(at, case): (usize, &crate::eval::CaseCount)| {
        let of = configurations
            .iter()
            .map(|one| one.cases.get(at).map_or(Cell::text(""), |case| passed(case.passed)));
        std::iter::once(Cell::text(&case.case_id)).chain(of).collect()
    };
    page.table(&heads, first.cases.iter().enumerate().map(row));
}

fn passed(share: Share) -> Cell {
    match share.of {
        0 => Cell::bad("not run"),
        _ => Cell::judged(counted(share), share.part == share.of),
    }
}

fn all_metrics(page: &mut Page, report: &EvalReport) {
    let metrics = &report.metrics;
    page.heading("Metrics of all runs");
    let share = |share: Share| match share.fraction() {
        Some(fraction) => format!("{} ({})", percent(fraction), counted(share)),
        None => "none".to_owned(),
    };
    let rows = [
        ("completion", share(metrics.completion)),
        ("correct stop reason", share(metrics.correct_stop_reason)),
        ("invalid actions", share(metrics.invalid_actions)),
        ("repeated actions", share(metrics.repeated_actions)),
        ("escalation accuracy", share(metrics.escalation_accuracy)),
        ("replay", share(metrics.replay)),
        ("tokens", metrics.tokens.to_string()),
        ("tool calls", metrics.tool_calls.to_string()),
    ];
    page.table(&["metric", "value"], rows.map(|(what, value)| vec![Cell::text(what), Cell::text(value)]));
}

fn failures(page: &mut Page, report: &EvalReport) {
    let failed: Vec<_> = report.cases.iter().filter(|result| !result.passed).collect();
    if failed.is_empty() {
        return;
    }
    page.heading("Runs that did not pass");
    let rows = failed.iter().take(MAX_FAILURES).map(|result| {
        let stopped = match &result.error {
            Some(_) => Cell::bad("could not be run"),
            None => Cell::text(&result.stop_reason),
        };
        vec![Cell::text(result.name()), stopped, Cell::text(result.failures.join("\n"))]
    });
    page.table(&["run", "stopped", "why"], rows);
    if failed.len() > MAX_FAILURES {
        page.paragraph(&format!("{} more; --json has them.", failed.len() - MAX_FAILURES));
    }
}
