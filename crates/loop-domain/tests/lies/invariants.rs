//! What holds whatever a server says.

use std::collections::BTreeSet;

use loop_core::types::StopClass;
use loop_core::{Certificate, Outcome, StopReason};

use super::world::Shown;

/// The most bytes of an outcome as JSON: what runs of these limits can hold, with what they cite.
const MAX_REPORT: usize = 2_000_000;

/// What a provider reports is charged, whatever it is: docs/reference/domain-file.md says so.
const REPORTS_TOO_MUCH: [&str; 1] = ["usage-a-thousand-times"];
/// The most that a call without a report may be charged in these runs, in trillionths of a dollar: twice 2,048 tokens of
/// output and 256, and 20,000 of input.
const ONE_RESERVE: u64 = (4_352 * 4 + 20_000) * 1_000_000;

/// Each promise that the run broke, in a sentence.
pub(super) fn broken(shown: &Shown) -> Vec<String> {
    let mut broken = Vec::new();
    let mut check = |holds: bool, sentence: String| {
        if !holds {
            broken.push(sentence);
        }
    };
    let Shown { outcome, spec, .. } = shown;
    let (limits, totals) = (shown.limits(), &outcome.totals);
    check(totals.passes <= limits.passes, format!("{} passes", totals.passes));
    check(totals.model_calls <= limits.model_calls, format!("{} model calls", totals.model_calls));
    check(totals.tool_calls <= limits.tool_calls, format!("{} tool calls", totals.tool_calls));
    check(outcome.evidence.len() <= limits.tool_calls as usize, "more evidence than tool calls".to_owned());
    check(totals.wall_ms <= limits.wall_ms, format!("{} ms", totals.wall_ms));

    // Money: beyond the limit stands at most one call, at what it truly cost or at its reserve.
    if let (Some(cost), Some(limit)) = (totals.cost.total(), limits.cost)
        && !REPORTS_TOO_MUCH.contains(&shown.lie)
    {
        let max = limit.0 + shown.dearest().0 + ONE_RESERVE;
        check(cost.0 <= max, format!("{cost} of {limit}, and one call costs {}", shown.dearest()));
    }

    // Nothing that writes was permitted.
    let effects = outcome.stop.effects;
    check(effects.executed + effects.failed + effects.in_doubt == 0, format!("effects: {effects}"));
    for evidence in &outcome.evidence {
        let reads = spec.tool(&evidence.tool).is_some_and(|tool| tool.effect.is_read());
        let did = matches!(
            evidence.observation.status,
            loop_core::types::Status::Ok | loop_core::types::Status::Empty
        );
        check(reads || !did, format!("{} ran", evidence.tool));
    }

    // The certificate: each reason once, the class that follows, each limit that was reached.
    let reported: Vec<StopReason> = reasons(&outcome.stop).collect();
    let once: BTreeSet<StopReason> = reported.iter().copied().collect();
    check(once.len() == reported.len(), format!("a reason is told twice: {reported:?}"));
    let again = Certificate::new(outcome.stop.primary.clone(), outcome.stop.also.clone());
    check(again.class == outcome.stop.class, format!("class {:?}", outcome.stop.class));
    if !shown.waits {
        for (is_reached, reason) in [
            (totals.passes >= limits.passes, StopReason::MaxPasses),
            (totals.model_calls >= limits.model_calls, StopReason::MaxModelCalls),
            (reached_cost(shown), StopReason::BudgetExceeded),
        ] {
            check(
                !is_reached || once.contains(&reason),
                format!("{} was true and is not told", reason.name()),
            );
        }
    }
    check(
        outcome.stop.class != StopClass::Answered || has_answer(outcome),
        "it counts as answered, and there is no answer".to_owned(),
    );

    // Whatever is shown to people is text, and its size follows from the limits.
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    check(!shown.words.contains(is_control), format!("control characters in words: {:?}", shown.words));
    check(shown.words.len() < 8_000, format!("{} bytes of words", shown.words.len()));
    check(shown.report.len() < MAX_REPORT, format!("{} bytes of JSON", shown.report.len()));
    check(!shown.report.contains('\u{1b}'), "an escape in the JSON".to_owned());
    broken
}

fn reasons(certificate: &Certificate) -> impl Iterator<Item = StopReason> {
    std::iter::once(&certificate.primary).chain(&certificate.also).map(|condition| condition.reason)
}

fn reached_cost(shown: &Shown) -> bool {
    match (shown.outcome.totals.cost.total(), shown.limits().cost) {
        (Some(cost), Some(limit)) => cost >= limit,
        _ => false,
    }
}

/// Words that a reader can use: of a document some section's, of a conversation its answer's, or an output.
fn has_answer(outcome: &Outcome) -> bool {
    let visible = |text: &str| text.chars().any(char::is_alphanumeric);
    let texts = [outcome.answer.as_deref(), outcome.output.as_ref().map(|output| &*output.value)];
    visible(&outcome.document.to_markdown()) || texts.into_iter().flatten().any(visible)
}
