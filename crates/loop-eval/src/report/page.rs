//! The HTML page of an eval.

use super::EvalReport;
use super::reliability::reliability;
use super::trials::{compared, costs, counted, interval, left_out, percent, reasons, rule};
use crate::eval::{CaseCount, CaseResult, ConfigurationSummary, OWN_MODELS, Share};
use crate::interval::Interval;
use crate::page::{Page, PageCell, Picture};

/// The most runs that are shown with their transcript.
const MAX_RUNS: usize = 500;

/// The page of a report. The same report always gives the same page.
pub fn page(report: &EvalReport) -> String {
    written(report, "Eval").finish()
}

/// The content of the page without its head and end, under a title, for a server.
pub fn page_content(report: &EvalReport, title: &str) -> String {
    written(report, title).content().to_owned()
}

fn written(report: &EvalReport, title: &str) -> Page {
    let metrics = &report.metrics;
    let mut page = Page::new(title, "");
    let mut what = format!("{} of {} runs passed", metrics.passed, metrics.cases);
    if let Some(failed) = report.cases.iter().find(|result| !result.passed) {
        let why = failed.failures.first().map_or("", |line| line);
        what.push_str(&format!(
            "; {} did not, first {}: {why}",
            metrics.cases - metrics.passed,
            failed.name()
        ));
    }
    match &report.baseline {
        Some(baseline) if baseline.regressed => page.verdict("Regression against the baseline", false),
        Some(baseline) if baseline.configurations.is_empty() => {
            page.verdict("Nothing could be compared with the baseline", false);
        }
        Some(baseline) if !left_out(baseline).is_empty() => {
            page.verdict("No regression in what was compared with the baseline", report.is_good());
        }
        Some(_) => page.verdict("No regression against the baseline", report.is_good()),
        None => page.verdict(&what, report.is_good()),
    }
    if report.baseline.is_some() {
        page.paragraph(&what);
    }
    configurations(&mut page, &report.configurations);
    baseline(&mut page, report);
    let mut shown: Vec<&CaseResult> = report.cases.iter().collect();
    shown.sort_by_key(|result| result.passed);
    shown.truncate(MAX_RUNS);
    cases(&mut page, report, &shown);
    if let Some(calibration) = &report.calibration {
        reliability(&mut page, calibration);
    }
    all_metrics(&mut page, report);
    runs(&mut page, report, &shown);
    page
}

fn configurations(page: &mut Page, configurations: &[ConfigurationSummary]) {
    page.heading("Pass rates");
    let rows = configurations.iter().map(|one| {
        let whole = Interval { rate: one.rate, low: one.low, high: one.high };
        vec![
            PageCell::text(&one.name),
            PageCell::number(counted(one.passed)),
            PageCell::number(percent(one.rate)),
            PageCell::number(interval(one)),
            PageCell::picture(Picture::interval(&whole)),
        ]
    });
    page.table(&["configuration", "passed", "rate", "95 % interval", "from 0 % to 100 %"], rows);
    page.paragraph("The interval is Wilson's. It says what more runs of these cases would give, and nothing of other cases.");
    page.heading("Cost and time");
    let rows = configurations.iter().map(|one| {
        let (cost, a_run) = costs(one);
        let unknown = match one.unknown_costs {
            0 => String::new(),
            unknown => format!(" and {unknown} unknown"),
        };
        vec![
            PageCell::text(&one.name),
            PageCell::number(format!("{cost}{unknown}")),
            PageCell::number(a_run),
            PageCell::number(one.tokens),
            PageCell::number(one.wall_ms_median),
            PageCell::number(one.wall_ms_p95),
            PageCell::number(one.stored),
        ]
    });
    let heads = ["configuration", "cost", "cost a run", "tokens", "p50 ms", "p95 ms", "stored"];
    page.table(&heads, rows);
    page.paragraph("A stored result was made by an earlier command, with its cost and its time.");
    page.heading("Stop reasons");
    let rows = configurations.iter().map(|one| vec![PageCell::text(&one.name), PageCell::text(reasons(one))]);
    page.table(&["configuration", "stopped"], rows);
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

/// A matrix of cases and configurations. A cell leads to its first run that did not pass, or to its first.
fn cases(page: &mut Page, report: &EvalReport, shown: &[&CaseResult]) {
    let configurations = &report.configurations;
    let Some(first) = configurations.first() else { return };
    page.heading("Cases");
    page.only_bad_parts("Only cases and runs that did not pass");
    let names = configurations.iter().map(|one| one.name.as_str());
    let heads: Vec<&str> = std::iter::once("case").chain(names).collect();
    let cell = |one: &ConfigurationSummary, case: &CaseCount| {
        let is_run = |result: &CaseResult| {
            configuration(result) == one.name
                && result.case_id == case.case_id
                && result.file.display().to_string() == case.file
        };
        let text = match case.passed.of {
            0 => "not run".to_owned(),
            _ => counted(case.passed),
        };
        let is_good = case.passed.of > 0 && case.passed.part == case.passed.of;
        // Those that did not pass are the first.
        match shown.iter().position(|result| is_run(result)) {
            Some(part) => PageCell::link(text, part, is_good),
            None => PageCell::judged(text, is_good),
        }
    };
    let row = |(at, case): (usize, &CaseCount)| {
        let of = configurations
            .iter()
            .map(|one| one.cases.get(at).map_or(PageCell::text(""), |case| cell(one, case)));
        std::iter::once(PageCell::text(&case.case_id)).chain(of).collect()
    };
    page.table(&heads, first.cases.iter().enumerate().map(row));
}

fn configuration(result: &CaseResult) -> &str {
    match result.configuration.as_str() {
        "" => OWN_MODELS,
        name => name,
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
    page.table(
        &["metric", "value"],
        rows.map(|(what, value)| vec![PageCell::text(what), PageCell::text(value)]),
    );
}

/// Each run with its failed expectations and its transcript. Runs that did not pass come first.
fn runs(page: &mut Page, report: &EvalReport, shown: &[&CaseResult]) {
    page.heading("Runs");
    for (number, result) in shown.iter().enumerate() {
        let stopped = match &result.error {
            Some(_) => "could not be run",
            None => &result.stop_reason,
        };
        page.part(number, &format!("{}: {stopped}", result.name()), result.passed, |page| {
            page.list(&result.failures);
            let said = result.transcript.iter();
            page.table(
                &["who", "what"],
                said.map(|line| vec![PageCell::text(&line.by), PageCell::text(&line.text)]),
            );
            page.preformatted(&result.trace.join("\n"));
        });
    }
    if report.cases.len() > shown.len() {
        page.paragraph(&format!("{} more; --json has them.", report.cases.len() - shown.len()));
    }
}
