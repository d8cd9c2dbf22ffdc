//! `loopgate show RUN --cache`: how much of each prompt was shared with the one before, and how much the provider read
//! from its cache.

use std::fmt::Write as _;

use loop_core::EventKind;
use loop_core::types::{Tier, Usage};
use loop_runtime::journal::Entry;

use crate::output::grouped;

/// A model request and its result.
struct Call {
    key: String,
    attempt: u32,
    tier: Tier,
    prompt_bytes: u64,
    shared_bytes: u64,
    end: End,
}

enum End {
    Open,
    /// The tokens, where the provider reported them.
    Instruction(Option<Usage>),
}

/// A table with a line for each request, and totals.
pub(crate) fn table(entries: &[Entry]) -> String {
    let calls = calls(entries);
    if calls.is_empty() {
        return "no request was made\n".to_owned();
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<16} {:<9} {:>10}  {:<24} {:>10} {:>10} {:>10}",
        "request", "tier", "bytes", "shared with the last one", "input", "from cache", "to cache"
    );
    let (mut total, mut reported) = (Usage::default(), 0_usize);
    for call in &calls {
        let name =
            if call.attempt > 1 { format!("{} try {}", call.key, call.attempt) } else { call.key.clone() };
        let shared =
            format!("{} ({})", grouped(call.shared_bytes), share(call.shared_bytes, call.prompt_bytes));
        let _ = write!(
            text,
            "{name:<16} {:<9} {:>10}  {shared:<24} ",
            call.tier.name(),
            grouped(call.prompt_bytes)
        );
        let _ = match &call.end {
            End::Instruction(Some(usage)) => {
                reported += 1;
                total = total.plus(usage);
                let written = usage.cache_write_short.saturating_add(usage.cache_write_long);
                let columns = [usage.total_input(), usage.cache_read, written].map(grouped);
                writeln!(text, "{:>10} {:>10} {:>10}", columns[0], columns[1], columns[2])
            }
            End::Instruction(None) => writeln!(text, "{:>32}", "the provider did not say"),
            End::Open => writeln!(text, "{:>32}", "not ended"),
        };
    }
    let (bytes, shared) = calls.iter().fold((0_u64, 0_u64), |(bytes, shared), call| {
        (bytes + call.prompt_bytes, shared + call.shared_bytes)
    });
    let _ = writeln!(
        text,
        "\n{} requests; {} of their bytes are a prefix that they share with the request before",
        calls.len(),
        share(shared, bytes)
    );
    if reported > 0 {
        let _ = writeln!(
            text,
            "{} of the input tokens of {reported} replies were read from the provider's cache",
            share(total.cache_read, total.total_input())
        );
    }
    text
}

fn calls(entries: &[Entry]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for entry in entries {
        match &entry.event.kind {
            EventKind::CallStarted { key, attempt, tier, prompt_bytes, shared_bytes, .. } => {
                calls.push(Call {
                    key: key.to_string(),
                    attempt: *attempt,
                    tier: *tier,
                    prompt_bytes: *prompt_bytes,
                    shared_bytes: *shared_bytes,
                    end: End::Open,
                })
            }
            EventKind::ModelReplied { key, attempt, reply } => {
                settle(&mut calls, &key.to_string(), *attempt, reply.usage)
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                settle(&mut calls, &key.to_string(), *attempt, failure.usage);
            }
            _ => {}
        }
    }
    calls
}

fn settle(calls: &mut [Call], key: &str, attempt: u32, usage: Option<Usage>) {
    if let Some(call) = calls.iter_mut().rev().find(|call| call.key == key && call.attempt == attempt) {
        call.end = End::Instruction(usage);
    }
}

fn share(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{percent} %")
}
