//! What a run owes to whoever pays for it: every condition that was true at the stop, every change of tier, the cost of
//! calls whose provider reports none, and how many calls a reply may ask for (P1, P4, P5).

use loop_core::gate::Measure;
use loop_core::reply::Reply;
use loop_core::run::Phase;
use loop_core::spec::CostMode;
use loop_core::types::{CallExtent, Confidence, PicoUsd, Slot, Tier, Usage};
use loop_core::{Certificate, EventKind, Note, Run, StopReason};

use crate::edge::{Edge, Ghost, call};

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

fn reasons(certificate: &Certificate) -> Vec<StopReason> {
    let also = certificate.also.iter().map(|condition| condition.reason);
    std::iter::once(certificate.reason()).chain(also).collect()
}

/// The limits that are reached by what was used, apart from time.
fn used_up(run: &Run) -> Vec<StopReason> {
    let (limits, totals) = (&run.spec().limits, run.totals());
    let money = limits.cost.is_some_and(|limit| totals.cost.known >= limit);
    let tokens = limits.tokens.is_some_and(|limit| totals.usage.total() >= limit);
    let reached = [
        (StopReason::MaxPasses, totals.passes >= limits.passes),
        (StopReason::BudgetExceeded, money),
        (StopReason::TokenLimit, tokens),
        (StopReason::MaxModelCalls, totals.model_calls >= limits.model_calls),
    ];
    reached.into_iter().filter(|(_, holds)| *holds).map(|(reason, _)| reason).collect()
}

/// I-10: every limit that is reached and every change of tier is in the certificate, when the reason is fixed and in the
/// outcome.
pub fn every_true_condition_is_told(edge: &Edge<'_>) -> Result {
    let stopped = edge.notes.iter().find_map(|note| match note {
        Note::Stopped { certificate } => Some(&**certificate),
        _ => None,
    });
    let changed = edge.was.after(edge).past.is_elsewhere;
    if let Some(stopped) = stopped {
        let reported = reasons(stopped);
        let late = edge.after.elapsed_ms() >= edge.after.spec().limits.wall_ms;
        must(!late || reported.contains(&StopReason::Timeout), || {
            format!("{reported:?} after the wall clock")
        })?;
        let says = reported.contains(&StopReason::TierChanged);
        must(says == changed, || format!("tiers changed: {changed}, told {reported:?}"))?;
        must(reported.first() != Some(&StopReason::TierChanged), || {
            "a change of tier stops nothing".to_owned()
        })?;
    }
    // What settles after the reason is fixed belongs to the outcome.
    let is_over = |run: &Run| matches!(run.phase(), Phase::Saving { .. } | Phase::Done { .. });
    let ended = edge.after.outcome().filter(|_| !is_over(edge.before)).map(|outcome| &outcome.stop);
    let Some(certificate) = ended.or(stopped) else { return Ok(()) };
    let reported = reasons(certificate);
    for reason in used_up(edge.after) {
        must(reported.contains(&reason), || format!("{reason} is true, told are {reported:?}"))?;
    }
    if let (Some(ended), Some(stopped)) = (ended, stopped) {
        let before = reasons(stopped);
        let more: Vec<_> = reasons(ended).into_iter().filter(|reason| !before.contains(reason)).collect();
        let fits =
            |reason: &StopReason| *reason == StopReason::InDoubt || used_up(edge.after).contains(reason);
        must(more.iter().all(fits), || format!("{more:?} was not true"))?;
    }
    Ok(())
}

/// P1: a cheaper model takes a call of the base model only by permission, and never says how sure the run is.
pub fn a_cheaper_tier_never_speaks_for_the_base_model(run: &Run, _: &Ghost) -> Result {
    let cheaper = run.passes().iter().filter(|pass| pass.tier == Tier::Selector);
    for pass in cheaper {
        must(run.spec().gate.cheaper_tier, || format!("pass {} is the cheaper model's", pass.pass))?;
        must(pass.confidence == Confidence::Unknown, || {
            format!("{:?} is a cheaper model's", pass.confidence)
        })?;
    }
    let in_flight = call(run).filter(|call| call.key.slot != Slot::Select);
    let tier = in_flight.and_then(|call| call.started).map(|started| started.tier);
    must(tier != Some(Tier::Selector) || run.spec().gate.cheaper_tier, || format!("{tier:?} is called"))
}

/// P5: a reply has no more verdicts than calls that it may ask for, and what was not read is counted.
pub fn replies_ask_for_so_many_calls(run: &Run, _: &Ghost) -> Result {
    let limit = run.spec().limits.requested_calls as usize;
    let of_pass = |pass: u32| run.actions().iter().filter(|action| action.key.pass == pass).count();
    for pass in 0..=run.passes().len() as u32 {
        must(of_pass(pass) <= limit, || format!("{} calls of pass {pass}", of_pass(pass)))?;
    }
    let unread: u32 = run.passes().iter().map(|pass| pass.unread_calls).sum();
    must(unread <= run.totals().unread_calls, || format!("{unread} of {:?}", run.totals()))
}

/// P4: what is charged where the provider reports nothing: three bytes a token of what came, the reserve where more may
/// have been generated, nothing where no model replied.
pub fn what_is_not_reported_is_estimated(edge: &Edge<'_>) -> Result {
    let (key, reported, bytes, extent) = match &edge.event.kind {
        EventKind::ModelReplied { key, reply, .. } => {
            (key, reply.usage, length(reply), reply.received.extent)
        }
        EventKind::ModelFailed { key, failure, .. } => {
            let partial = failure.partial.as_ref().map_or(0, |partial| partial.len() as u64);
            (key, failure.usage, failure.received.bytes.max(partial), failure.received.extent)
        }
        _ => return Ok(()),
    };
    let Some(started) = call(edge.before).filter(|call| call.key == *key).and_then(|call| call.started)
    else {
        return Ok(());
    };
    let Some((_, usage, cost)) = edge.charges().find(|(charged, ..)| charged == key) else {
        return Err(format!("{key} is not charged"));
    };
    if let Some(reported) = reported {
        let least = Usage { output: usage.output, estimated: usage.estimated, ..reported };
        let is_raised = usage.total_output() == bytes / 8 && usage.estimated;
        return must(usage == reported || usage == least && is_raised, || {
            format!("{usage:?} of {reported:?}")
        });
    }
    let reserve = started.reserve;
    let open = edge.after.spec().limits.cost_mode == CostMode::Strict || extent == CallExtent::Open;
    let came = bytes.div_ceil(3);
    let (input, output) = match extent {
        _ if open => (reserve.input_tokens, came.max(reserve.output_tokens)),
        CallExtent::NoReply if bytes == 0 => (0, 0),
        _ => (reserve.input_tokens, came),
    };
    let expected = Usage { input, output, estimated: true, ..Usage::default() };
    must(usage == expected, || {
        format!("{usage:?} is charged for {bytes} bytes, {expected:?} is documented")
    })?;
    let least = if open { reserve.cost.unwrap_or_default() } else { PicoUsd(0) };
    must(cost.is_none_or(|cost| cost >= least), || format!("{cost:?} is less than the reserve {least}"))
}

fn length(reply: &Reply) -> u64 {
    let calls: usize = reply.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    let reasoning = reply.reasoning.as_ref().map_or(0, |reasoning| reasoning.len());
    reply.received.bytes.max((reply.text.len() + calls + reasoning) as u64)
}

/// P1: what a certificate says of tiers is what was called.
pub fn tiers_are_told_as_they_were(edge: &Edge<'_>) -> Result {
    for note in edge.notes {
        let Note::Stopped { certificate } = note else { continue };
        let reported = certificate.also.iter().find(|condition| condition.reason == StopReason::TierChanged);
        let Some(Measure::Tiers(changes)) = reported.map(|condition| &condition.value) else { continue };
        let used = edge.after.passes().iter().map(|pass| pass.tier).filter(|tier| *tier != Tier::Base);
        for tier in used {
            must(changes.iter().any(|change| change.to == tier), || {
                format!("{tier:?} is not in {changes:?}")
            })?;
        }
    }
    Ok(())
}
