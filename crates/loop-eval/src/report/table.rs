//! The table of results for people.

use std::fmt::Write as _;

use loop_core::types::PicoUsd;

use crate::eval::{CaseResult, Metrics, Share};

/// The characters of a line of 80 that are left for the names of a case and of its stop reason.
const NAMES: usize = 80 - "FAIL ".len() - "  passes tools again  tokens       cost     ms".len();

/// A line for each case with its failed expectations below it, and the metrics at the end.
pub fn table(results: &[CaseResult], metrics: &Metrics) -> String {
    let widest = |of: fn(&CaseResult) -> usize| results.iter().map(of).max().unwrap_or_default();
    let wide = widest(|result| result.stop_reason.chars().count()).max(7);
    let width =
        widest(|result| result.shown_id().chars().count()).clamp(4, NAMES.saturating_sub(wide).max(8));
    let mut text = format!(
        "     {:<width$} {:<wide$} {:>6} {:>5} {:>5} {:>7} {:>10} {:>6}\n",
        "case", "stopped", "passes", "tools", "again", "tokens", "cost", "ms"
    );
    for result in results {
        let mark = if result.passed { "ok  " } else { "FAIL" };
        let name = result.shown_id();
        // A longer name has a line for itself.
        let is_long = name.chars().count() > width;
        if is_long {
            let _ = writeln!(text, "{mark} {name}");
        }
        let (mark, name) = if is_long { ("", "") } else { (mark, &*name) };
        if result.error.is_some() {
            let _ = writeln!(text, "{mark:4} {name:<width$} could not be run");
        } else {
            let cost = result
                .cost_usd
                .map_or_else(|| "unknown".to_owned(), |_| PicoUsd(result.cost_pico_usd).to_string());
            let (passes, tools, again) = (result.passes, result.tool_calls, result.actions.repeated);
            let (stop, tokens, ms) = (&result.stop_reason, result.tokens, result.wall_ms);
            let _ = writeln!(
                text,
                "{mark:4} {name:<width$} {stop:<wide$} {passes:>6} {tools:>5} {again:>5} {tokens:>7} {cost:>10} {ms:>6}"
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

fn share(share: Share) -> String {
    match share.fraction() {
        None => "none".to_owned(),
        Some(fraction) => format!("{:.1} % ({} of {})", fraction * 100.0, share.part, share.of),
    }
}
