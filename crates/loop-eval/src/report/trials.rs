//! The tables of trials for people: several models, or several runs of each case.

use std::fmt::Write as _;

use loop_core::types::PicoUsd;

use crate::eval::{
    BaselineComparison, CaseResult, ComparedConfiguration, ConfigurationSummary, FALSE_ALARMS, Share,
};

/// How many failures are listed.
const MAX_FAILURES: usize = 20;
/// The most cases that are listed as fallen for each configuration.
const MAX_FALLEN: usize = 5;

/// The numbers of each configuration, then its cases side by side, then the failures.
pub fn trials_table(results: &[CaseResult], configurations: &[ConfigurationSummary]) -> String {
    let mut text = format!(
        "{:>11} {:>8} {:<17} {:>11} {:>11} {:>7} {:>7}\n",
        "passed", "rate", "95 % interval", "cost", "cost a run", "p50 ms", "p95 ms"
    );
    for one in configurations {
        let (cost, a_run) = costs(one);
        let (name, passed, rate) = (&one.name, counted(one.passed), percent(one.rate));
        let _ = writeln!(
            text,
            "{name}\n{passed:>11} {rate:>8} {:<17} {cost:>11} {a_run:>11} {:>7} {:>7}\n  stopped: {}",
            interval(one),
            one.wall_ms_median,
            one.wall_ms_p95,
            reasons(one)
        );
    }
    for one in configurations.iter().filter(|one| one.unknown_costs > 0) {
        let _ = writeln!(text, "{}: the cost of {} runs is unknown", one.name, one.unknown_costs);
    }
    text.push('\n');
    cases(&mut text, configurations);
    failures(&mut text, results);
    text
}

/// The cost of all runs of a configuration, and of one.
pub(super) fn costs(one: &ConfigurationSummary) -> (String, String) {
    match one.cost_usd_per_run {
        None => ("unknown".to_owned(), "unknown".to_owned()),
        Some(a_run) => (usd(one.cost_usd), usd(a_run)),
    }
}

fn usd(cost: f64) -> String {
    // Sums of exact amounts: a micro-dollar is 1 000 000 pico-dollars.
    PicoUsd((cost * 1e6).round() as u64 * 1_000_000).to_string()
}

/// A share of runs, for example `18 of 20`.
pub(super) fn counted(share: Share) -> String {
    format!("{} of {}", share.part, share.of)
}

/// A rate, for example `87.5 %`.
pub(super) fn percent(rate: f64) -> String {
    format!("{:.1} %", rate * 100.0)
}

/// A configuration's interval.
pub(super) fn interval(one: &ConfigurationSummary) -> String {
    format!("{} to {}", percent(one.low), percent(one.high))
}

/// Why a configuration's runs stopped, the most frequent reason first.
pub(super) fn reasons(one: &ConfigurationSummary) -> String {
    let counts = one.stop_reasons.iter().map(|count| format!("{} {}", count.reason, count.runs));
    let mut counts: Vec<String> = counts.collect();
    if one.not_run > 0 {
        counts.push(format!("not run {}", one.not_run));
    }
    counts.join(", ")
}

/// The cases of all configurations side by side. With many configurations, numbers are the column heads.
fn cases(text: &mut String, configurations: &[ConfigurationSummary]) {
    let Some(first) = configurations.first() else { return };
    let wide = first.cases.iter().map(|case| case.case_id.chars().count()).max().unwrap_or_default().max(4);
    let fits = (80_usize.saturating_sub(wide) / "    passed ".len()).max(1);
    for (nth, part) in configurations.chunks(fits).enumerate() {
        let _ = write!(text, "{:<wide$}", "case");
        for at in (nth * fits + 1..).take(part.len()) {
            let head = if configurations.len() == 1 { "passed".to_owned() } else { format!("({at})") };
            let _ = write!(text, "  {head:>9}");
        }
        text.push('\n');
        for (at, case) in first.cases.iter().enumerate() {
            let _ = write!(text, "{:<wide$}", case.case_id);
            for one in part {
                let passed = one.cases.get(at).map_or_else(String::new, |case| match case.passed.of {
                    0 => "not run".to_owned(),
                    _ => counted(case.passed),
                });
                let _ = write!(text, "  {passed:>9}");
            }
            text.push('\n');
        }
    }
    if configurations.len() > 1 {
        for (at, one) in configurations.iter().enumerate() {
            let _ = writeln!(text, "({}) {}", at + 1, one.name);
        }
    }
}

fn failures(text: &mut String, results: &[CaseResult]) {
    let failed = failure_groups(results);
    if failed.is_empty() {
        return;
    }
    text.push('\n');
    for (result, runs) in failed.iter().take(MAX_FAILURES) {
        let configuration = match result.configuration.as_str() {
            "" => String::new(),
            name => format!(" [{name}]"),
        };
        let often = if *runs > 1 { format!(", {runs} runs") } else { String::new() };
        let _ = writeln!(text, "FAIL {}{configuration}{often}", result.case_id);
        for failure in &result.failures {
            let _ = writeln!(text, "       {failure}");
        }
    }
    if failed.len() > MAX_FAILURES {
        let _ = writeln!(text, "{} more failures; --json and --html have them", failed.len() - MAX_FAILURES);
    }
}

/// The runs that did not pass. Runs of a case that failed in the same way are one, with their number.
pub(super) fn failure_groups(results: &[CaseResult]) -> Vec<(&CaseResult, u32)> {
    let mut groups: Vec<(&CaseResult, u32)> = Vec::new();
    for result in results.iter().filter(|result| !result.passed) {
        let is_same = |(other, _): &&mut (&CaseResult, u32)| {
            (&other.configuration, &other.case_id, &other.file)
                == (&result.configuration, &result.case_id, &result.file)
                && (&other.failures, &other.stop_reason) == (&result.failures, &result.stop_reason)
        };
        match groups.iter_mut().find(is_same) {
            Some((_, runs)) => *runs += 1,
            None => groups.push((result, 1)),
        }
    }
    groups
}

/// The comparison with a baseline, line by line.
pub fn baseline_table(baseline: &BaselineComparison) -> String {
    let mut text = format!("\nbaseline {}\n", baseline.file);
    for one in &baseline.configurations {
        let verdict = if one.regressed { "REGRESSION" } else { "no regression" };
        let _ = writeln!(text, "  {}: {verdict}", one.configuration);
        for line in compared(one) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for line in left_out(baseline) {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// A comparison in words.
pub(super) fn compared(one: &ComparedConfiguration) -> Vec<String> {
    let with = if one.against == one.configuration {
        String::new()
    } else {
        format!(" (compared with {})", one.against)
    };
    let mut lines = vec![
        format!(
            "{} of {} runs passed, {} of {} in the baseline{with}; {} cases",
            one.passed, one.runs, one.passed_before, one.runs_before, one.cases
        ),
        format!(
            "difference {:+.1} points (95 % interval {:+.1} to {:+.1}); p = {}, a regression at {} or less",
            one.difference * 100.0,
            one.difference_low * 100.0,
            one.difference_high * 100.0,
            probability(one.p_value),
            probability(one.level)
        ),
    ];
    for case in one.fallen.iter().take(MAX_FALLEN) {
        let alone = if case.regressed { ", a regression by itself" } else { "" };
        lines.push(format!(
            "fell: {} {} of {}, {} of {} in the baseline; p = {}{alone}",
            case.case,
            case.passed,
            case.runs,
            case.passed_before,
            case.runs_before,
            probability(case.p_value)
        ));
    }
    if one.fallen.len() > MAX_FALLEN {
        lines.push(format!("{} more cases fell", one.fallen.len() - MAX_FALLEN));
    }
    lines
}

fn probability(p: f64) -> String {
    if p > 0.0 && p < 0.0001 { "less than 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// What was not compared, and why, a line each.
pub(super) fn left_out(baseline: &BaselineComparison) -> Vec<String> {
    let of = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("not compared, {what}: {}", names.join(", ")))
    };
    let lines = [
        of("changed since the baseline", &baseline.changed_cases),
        of("cases that the baseline does not have", &baseline.new_cases),
        of("cases of the baseline that were not run", &baseline.missing_cases),
        of("configurations that the baseline does not have", &baseline.new_configurations),
        of("configurations of the baseline that were not run", &baseline.missing_configurations),
    ];
    lines.into_iter().flatten().collect()
}

/// How the level of a comparison is explained.
pub(super) fn rule() -> String {
    format!(
        "A regression is a fall that chance alone explains in at most {} of comparisons: an exact test that compares each \
         case with itself, on all cases together and on each alone.",
        percent(FALSE_ALARMS)
    )
}
