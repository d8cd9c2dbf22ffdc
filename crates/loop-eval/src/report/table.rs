//! Results as a table for people.

use std::fmt::Write as _;

use loop_core::PicoUsd;

use crate::eval::{Ablation, CaseResult, Metrics, Share};

/// A line for each case, what was not as expected below it, and the metrics at the end.
pub fn table(results: &[CaseResult], metrics: &Metrics) -> String {
    let width =
        results.iter().map(|result| result.shown_id().chars().count()).max().unwrap_or_default().max(4);
    let mut text = format!(
        "     {:<width$}  {:<18} {:>6} {:>6} {:>6} {:>9} {:>12} {:>7}\n",
        "case", "stopped", "passes", "tools", "again", "tokens", "cost", "ms"
    );
    for result in results {
        let mark = if result.passed { "ok  " } else { "FAIL" };
        let name = result.shown_id();
        if result.error.is_some() {
            let _ = writeln!(text, "{mark} {name:<width$}  could not be run");
        } else {
            let cost = result
                .cost_usd
                .map_or_else(|| "unknown".to_owned(), |_| PicoUsd(result.cost_pico_usd).to_string());
            let (passes, tools, again) = (result.passes, result.tool_calls, result.actions.repeated);
            let (stop, tokens, ms) = (&result.stop_reason, result.tokens, result.wall_ms);
            let _ = writeln!(
                text,
                "{mark} {name:<width$}  {stop:<18} {passes:>6} {tools:>6} {again:>6} {tokens:>9} {cost:>12} {ms:>7}"
            );
        }
        for failure in &result.failures {
            let _ = writeln!(text, "       {failure}");
        }
    }
    text.push('\n');
    let mut line = |what: &str, value: String| {
        let _ = writeln!(text, "{what:<22} {value}");
    };
    line("passed", format!("{} of {}", metrics.passed, metrics.cases));
    line("completion", share(metrics.completion));
    line("correct stop reason", share(metrics.correct_stop_reason));
    line("invalid actions", share(metrics.invalid_actions));
    line("repeated actions", share(metrics.repeated_actions));
    line("escalation accuracy", share(metrics.escalation_accuracy));
    line("replay", share(metrics.replay));
    let unknown = match metrics.unknown_costs {
        0 => String::new(),
        n => format!(", {n} unknown"),
    };
    line("tokens", metrics.tokens.to_string());
    line("tool calls", metrics.tool_calls.to_string());
    line("cost", format!("${:.6}{unknown}", metrics.cost_usd));
    line(
        "latency",
        format!(
            "{} ms in the middle, {} ms at the 95th percentile",
            metrics.wall_ms_median, metrics.wall_ms_p95
        ),
    );
    text
}

/// What each guard did, and what its absence changed.
pub fn ablation_table(ablation: &Ablation) -> String {
    let mut text =
        format!("{:<16} {:>6} {:>6} {:>8}  {}\n", "guard", "fired", "cases", "changed", "what it does");
    for line in &ablation.guards {
        let (guard, fired, cases, changed) = (&line.guard, line.fired, line.fired_in, line.changed.len());
        let _ = writeln!(text, "{guard:<16} {fired:>6} {cases:>6} {changed:>8}  {}", line.does);
    }
    if !ablation.broken.is_empty() {
        let _ = writeln!(text, "\n{} could not be run:", ablation.broken.len());
        for broken in &ablation.broken {
            let _ = writeln!(text, "  {}: {}", broken.case_id, broken.error);
        }
    }
    let _ = writeln!(text, "\n{} cases. Without the guard:", ablation.cases);
    for line in &ablation.guards {
        for changed in &line.changed {
            let mut parts = Vec::new();
            let (with, without) = &changed.stop_reason;
            parts.push(if with == without { with.clone() } else { format!("{with} -> {without}") });
            let mut count = |what: &str, (with, without): (u32, u32)| {
                if with != without {
                    parts.push(format!("{with} -> {without} {what}"));
                }
            };
            count("passes", changed.passes_run);
            count("tool calls", changed.tool_calls);
            count("calls to models", changed.model_calls);
            let (with, without) = changed.cost_pico_usd;
            if with != without {
                parts.push(format!("{} -> {}", PicoUsd(with), PicoUsd(without)));
            }
            parts.push(if changed.passes { "still as expected" } else { "no longer as expected" }.to_owned());
            let _ = writeln!(text, "  {:<14} {}: {}", line.guard, changed.case_id, parts.join(", "));
        }
    }
    text
}

fn share(share: Share) -> String {
    match share.fraction() {
        None => "none".to_owned(),
        Some(fraction) => format!("{:.1} % ({} of {})", fraction * 100.0, share.part, share.of),
    }
}
