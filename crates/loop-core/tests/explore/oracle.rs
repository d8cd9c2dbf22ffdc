//! The gate a second time, from the words of its documentation: what it must decide after a pass (I-10).

use std::collections::BTreeSet;

use loop_core::gate::{Limit, WhyNotDone};
use loop_core::reply::FinishReason;
use loop_core::run::{CheckResult, CheckSubject, Checking, Decision, PassRecord, Phase, Purpose};
use loop_core::spec::{Cite, GroundingRule, OnInvalid, Stale};
use loop_core::types::{Confidence, Priority, Status, Tier};
use loop_core::{EventKind, Note, Run, RunSpec, StopReason, Verdict};

use crate::edge::Edge;
use crate::{native, owed};

/// What must follow a pass.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    Act {
        runs: u32,
        asks: u32,
        escalates: bool,
    },
    Revise,
    /// So many run, then the output is checked; or the document is.
    Check {
        runs: u32,
    },
    /// Only the time of a final pass is left, and one would bring something.
    FinalPass,
    /// The reasons in the gate's order.
    Stop(Vec<StopReason>),
}

/// What was asked for and mattered, by its verdict.
#[derive(Debug, Default)]
pub struct Requested {
    pub all: usize,
    pub run: u32,
    /// Taken by the protocol itself.
    pub kept: u32,
    pub person: u32,
    pub denied: usize,
    pub over: u32,
    /// Names no tool or cannot be read, and is not what the pass before was told.
    pub unheard: u32,
    /// The required ones of those.
    pub unheard_required: u32,
}

/// The gate decides after every pass that is read to its end, and as it is documented.
pub fn decides_as_documented(edge: &Edge<'_>) -> Result<(), String> {
    let Some(decision) = edge.decision() else {
        let read = edge.after.passes().len() > edge.before.passes().len();
        let owes = read
            && matches!(
                edge.before.phase(),
                Phase::Calling { purpose: Purpose::Main, .. }
                    | Phase::Calling { purpose: Purpose::Final { .. }, .. }
            );
        let repairs = matches!(edge.after.phase(), Phase::Calling { purpose: Purpose::Repair { .. }, .. });
        return if owes && !repairs { Err("a pass without a decision".to_owned()) } else { Ok(()) };
    };
    let decided = match decision {
        Decision::Act { runs, asks } => {
            let raised = |note: &Note| matches!(note, Note::TierChanged { to: Tier::Escalated, .. });
            Expected::Act { runs: *runs, asks: *asks, escalates: edge.notes.iter().any(raised) }
        }
        Decision::Revise { .. } => Expected::Revise,
        Decision::Check { runs } => Expected::Check { runs: *runs },
        Decision::FinalPass { .. } => Expected::FinalPass,
        Decision::Stop(certificate) => {
            let also = certificate.also.iter().map(|condition| condition.reason);
            Expected::Stop(std::iter::once(certificate.reason()).chain(also).collect())
        }
    };
    let is_native = edge.after.spec().protocol.properties().native_calls;
    let expected = if is_native { native::expected(edge, decision) } else { expected(edge, decision) };
    if decided == expected { Ok(()) } else { Err(format!("decided {decided:?}, documented {expected:?}")) }
}

fn expected(edge: &Edge<'_>, decision: &Decision) -> Expected {
    let (run, spec) = (edge.after, edge.after.spec());
    let (limits, gate, totals) = (&spec.limits, &spec.gate, run.totals());
    let passes = run.passes();
    let pass = passes.len() as u32;
    let confidence = passes.last().map_or(Confidence::Unknown, |pass| pass.confidence);
    let cause = match edge.before.phase() {
        Phase::Calling { purpose: Purpose::Final { cause }, .. } => Some(cause.reason),
        _ => None,
    };
    // 1: a stop that was asked for; then what a final pass was entered for.
    let requested_for = edge.before.is_stop_requested().then_some(StopReason::ManualStop);
    let mut reasons: Vec<StopReason> = requested_for.into_iter().chain(cause).collect();
    let mut add = |reason: StopReason, holds: bool| {
        if holds && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    // 2: the limits. Without a final pass those of passes and model calls are asked about before the next call.
    let next = if gate.final_pass { Vec::new() } else { forbids_the_next(run) };
    let is_last = |reason| gate.final_pass && forbids_the_next(run).contains(&reason);
    add(StopReason::MaxPasses, is_last(StopReason::MaxPasses));
    add(StopReason::BudgetExceeded, limits.cost.is_some_and(|limit| totals.cost.known >= limit));
    add(StopReason::TokenLimit, limits.tokens.is_some_and(|limit| totals.usage.total() >= limit));
    add(StopReason::MaxModelCalls, is_last(StopReason::MaxModelCalls));
    let held_ms = if cause.is_some() || !gate.final_pass { 0 } else { (limits.wall_ms / 4).min(30_000) };
    add(StopReason::Timeout, run.elapsed_ms() >= limits.wall_ms - held_ms);
    // A denial that ends the run.
    let says = edge.was.trouble.says(edge);
    add(StopReason::Refused, says.denial);
    let is_limited = !reasons.is_empty();
    let mut add = |reason: StopReason, holds: bool| {
        if holds && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    // 3 and 4: what is left to run.
    let requested = requested(edge, decision);
    let asks = if gate.people { requested.person } else { 0 };
    // Evals say what a stated level is worth where the run ends, and nowhere else.
    let counted = passes.last().map_or(Confidence::Unknown, |pass| worth(spec, pass));
    let has_all = counted == Confidence::High && missing(run) == 0;
    let is_final = gate.high_is_final && has_all;
    let owes = owed::owed(run).iter().any(|(_, why)| *why == WhyNotDone::NotAdmitted);
    let answered = is_final || has_all && !owes && requested.unheard_required == 0;
    let tells = if says.opened { 0 } else { requested.unheard };
    let is_open = requested.run + asks + tells > 0;
    let nothing_left = !is_open || is_final;
    if nothing_left {
        let (refused, hands_over) = statements(edge);
        let alone = requested.person > 0 && !is_open;
        let lacks = counted == Confidence::High && missing(run) > 0;
        let breaks = !is_open && (says.opened || says.broken.is_some());
        let first = !refused && !hands_over && !alone && !breaks && lacks;
        if first && !is_limited && next.is_empty() && (edge.was.repaired.len() as u32) < gate.revision_passes
        {
            return Expected::Revise;
        }
        let blocked = requested.all > 0 && requested.denied == requested.all;
        add(StopReason::Refused, refused);
        add(StopReason::NeedsHuman, hands_over || says.opened && !is_open);
        if let Some(reason) = says.broken {
            add(reason, !is_open);
        }
        add(StopReason::NeedsHuman, alone);
        add(StopReason::Confident, answered);
        add(StopReason::EvidenceMissing, lacks);
        add(StopReason::PolicyBlocked, blocked);
        let over = requested.over > 0 && !is_open;
        add(StopReason::MaxToolCalls, over);
        let other = refused || hands_over || breaks || alone || answered || lacks || blocked || over;
        add(StopReason::NoNewActions, !other);
    }
    // 5: confidence that stays low brings in the escalated model, once.
    let last = |count: u32| passes.len().checked_sub(count as usize).and_then(|from| passes.get(from..));
    let low = |passes: &[PassRecord]| passes.iter().all(|pass| level(pass.confidence) == 0);
    let escalates = spec.models.escalated.is_some()
        && edge.was.escalated.is_none()
        && edge.was.past.rerouted == 0
        && gate.escalate_after > 0
        && last(gate.escalate_after).is_some_and(low);
    // 6: confidence that does not rise, and passes that bring nothing.
    let escalates = escalates && !nothing_left && next.is_empty();
    if is_open && !escalates {
        let compared = pass >= 3 && compared_with(edge, pass);
        if let Some([before, _]) = last(2).filter(|_| compared) {
            let (now, then) = (level(confidence), level(before.confidence));
            let stale = match gate.stale {
                Stale::NotImproved => now <= then,
                Stale::Equal => now == then,
                Stale::Off => false,
            };
            let excused = gate.stale_unless_new_evidence && is_fresh(run, passes.len() - 1);
            add(StopReason::StaleConfidence, stale && !excused);
        }
        // Passes are counted from where another model, or another task, took over; not in its first pass.
        let from = edge.was.repaired.iter().max().copied().max(edge.was.escalated).unwrap_or(1) as usize - 1;
        let idle = |at: usize| !is_fresh(run, at) && passes[at].changed.is_empty();
        let first = passes.len().saturating_sub(gate.no_progress as usize);
        let counts = gate.no_progress > 0 && pass >= gate.no_progress && first >= from;
        add(StopReason::NoProgress, counts && compared_with(edge, pass) && (first..passes.len()).all(idle));
    }
    if reasons.is_empty() {
        return Expected::Act { runs: requested.run, asks, escalates };
    }
    reasons.extend(next);
    // A reply that was cut ends nothing, and is told where something else does.
    if edge.was.after(edge).cut {
        reasons.push(StopReason::OutputLimit);
    }
    // So does a call of another tier's model.
    if edge.was.past.is_elsewhere {
        reasons.push(StopReason::TierChanged);
    }
    let is_held_back = gate.final_pass && cause.is_none() && run.elapsed_ms() < limits.wall_ms;
    let finishes = reasons.first() == Some(&StopReason::Timeout) && is_held_back && final_pass_helps(run);
    if finishes { Expected::FinalPass } else { confirmed(edge, reasons) }
}

/// A confident end has to pass a check where the domain says so; where none can be made, it is none.
fn confirmed(edge: &Edge<'_>, mut reasons: Vec<StopReason>) -> Expected {
    let run = edge.after;
    let Some(at) = reasons.iter().position(|it| *it == StopReason::Confident) else {
        return Expected::Stop(reasons);
    };
    if !must_be_checked(run) {
        return Expected::Stop(reasons);
    }
    let first = reasons.first().copied().unwrap_or(StopReason::Confident);
    let stands = matches!(
        first,
        StopReason::ManualStop | StopReason::Refused | StopReason::NeedsHuman | StopReason::ToolFailure
    );
    if !stands && run.elapsed_ms() < run.spec().limits.wall_ms {
        return Expected::Check { runs: 0 };
    }
    reasons[at] = StopReason::EvidenceMissing;
    Expected::Stop(reasons)
}

/// Whether the document has to pass a check: by a validator, by the values of a section, or by a second model.
fn must_be_checked(run: &Run) -> bool {
    let (spec, gate) = (run.spec(), &run.spec().gate);
    let mut written = run.document().sections.iter().filter(|section| !section.body.trim().is_empty());
    let declared = |id: &str| spec.sections().iter().find(|declared| &*declared.id == id);
    let demands = |id: &str| {
        let rule = declared(id).and_then(|it| it.grounding).unwrap_or(gate.grounding);
        let asks = gate.second_opinion.is_some() && declared(id).is_some_and(|it| it.verify);
        rule == GroundingRule::Demand || asks
    };
    !gate.validators.is_empty() || written.any(|section| demands(&section.id))
}

/// Whether the document as it is has passed its check, where it must.
pub fn is_checked(run: &Run) -> bool {
    let last = run.checks().last();
    !must_be_checked(run)
        || last.is_some_and(|it| it.result == CheckResult::Passed && it.pass as usize == run.passes().len())
}

/// What follows the check of a document: it ends as was found if it passed, is revised where a lack may be, and else ends
/// without being confident. What comes too late counts only for what it cost. A check that is lost is made again, three
/// times in all.
pub fn a_check_is_followed(edge: &Edge<'_>) -> Result<(), String> {
    let Phase::Validating(checking) = edge.before.phase() else {
        let is_late = matches!(edge.event.kind, EventKind::Checked { .. });
        let reason = |run: &Run| match run.phase() {
            Phase::Stopping(stopping) => Some(stopping.certificate.reason()),
            _ => run.outcome().map(|outcome| outcome.stop.reason()),
        };
        let keeps = !is_late
            || reason(edge.before) == reason(edge.after) && edge.after.checks() == edge.before.checks();
        return if keeps { Ok(()) } else { Err("a late check changed the end".to_owned()) };
    };
    let Checking { attempt, about: CheckSubject::Document { cause, .. }, announced, .. } = checking else {
        return Ok(());
    };
    let (before, after) = (edge.before.checks().len(), edge.after.checks());
    let result = match &edge.event.kind {
        EventKind::Checked { result, .. } => Some(result),
        EventKind::Resumed { .. } if *announced && *attempt == 3 => after.get(before).map(|it| &it.result),
        EventKind::Resumed { .. } => {
            let again = *attempt + u32::from(*announced);
            let is_again = matches!(edge.after.phase(), Phase::Validating(next) if next.attempt == again);
            let stops = edge.before.is_stop_requested() && edge.after.outcome().is_some();
            return if is_again || stops {
                Ok(())
            } else {
                Err("a lost check was not made again".to_owned())
            };
        }
        _ => return Ok(()),
    };
    if after.len() != before + 1 || after.last().map(|it| &it.result) != result {
        return Err(format!("{result:?} was recorded as {:?}", after.get(before..)));
    }
    let (run, gate, pass) = (edge.after, &edge.after.spec().gate, edge.after.passes().len() as u32);
    let (limits, totals) = (&run.spec().limits, run.totals());
    let held_ms = if gate.final_pass { (limits.wall_ms / 4).min(30_000) } else { 0 };
    let may_revise = matches!(result, Some(CheckResult::Failed { .. }))
        && cause.is_none()
        && (edge.was.repaired.len() as u32) < gate.revision_passes
        && !edge.before.is_stop_requested()
        && forbids_the_next(run).is_empty()
        && limits.tokens.is_none_or(|limit| totals.usage.total() < limit)
        && limits.cost.is_none_or(|limit| totals.cost.known < limit)
        && run.elapsed_ms() + held_ms < limits.wall_ms;
    let revises = run.revisions(pass + 1).is_some();
    if revises != may_revise {
        return Err(format!("revised: {revises}, documented: {may_revise}"));
    }
    let Some(outcome) = run.outcome().filter(|_| !revises) else {
        return if revises { Ok(()) } else { Err("a checked run neither ends nor is revised".to_owned()) };
    };
    let mut all = std::iter::once(&outcome.stop.primary).chain(&outcome.stop.also);
    let is_confident = all.any(|it| it.reason == StopReason::Confident);
    match is_confident == (result == Some(&CheckResult::Passed)) {
        true => Ok(()),
        false => Err(format!("{result:?} ends as {:?}", outcome.stop.reason())),
    }
}

/// What the stated level of a pass is worth: documented in `docs/explanation/calibration.md`.
pub fn worth(spec: &RunSpec, pass: &PassRecord) -> Confidence {
    let Some(calibration) = &spec.gate.calibration else { return pass.confidence };
    let model = spec.model(pass.tier);
    let of =
        calibration.models.iter().find(|it| (&it.provider, &it.model) == (&model.provider, &model.model));
    let runs = match (of, pass.confidence) {
        (None, stated) | (_, stated @ Confidence::Unknown) => return stated,
        (Some(of), Confidence::Low) => of.low,
        (Some(of), Confidence::Medium) => of.medium,
        (Some(of), Confidence::High) => of.high,
    };
    let percent = 100 * runs.passed / runs.runs.max(1);
    let rate = if percent >= 80 {
        Confidence::High
    } else if percent >= 50 {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    // No alphabet raises a level.
    if runs.runs < 16 { pass.confidence } else { rate.min(pass.confidence) }
}

/// The limits that forbid another main call.
pub fn forbids_the_next(run: &Run) -> Vec<StopReason> {
    let (limits, totals) = (&run.spec().limits, run.totals());
    let passes = (totals.passes >= limits.passes).then_some(StopReason::MaxPasses);
    let calls = (totals.model_calls >= limits.model_calls).then_some(StopReason::MaxModelCalls);
    passes.into_iter().chain(calls).collect()
}

/// Whether a pass is held against the one before it.
fn compared_with(edge: &Edge<'_>, pass: u32) -> bool {
    edge.was.escalated != Some(pass) && !edge.was.repaired.contains(&pass)
}

/// Whether a required section is not there, or evidence waits that no pass has seen.
fn final_pass_helps(run: &Run) -> bool {
    let seen = run.passes().last().map_or(0, |pass| pass.evidence_seen as usize);
    let missing = |id: &str| !run.document().sections.iter().any(|section| &*section.id == id);
    run.evidence().len() > seen
        || run.spec().sections().iter().any(|wanted| wanted.required && missing(&wanted.id))
}

/// The verdicts before the decision. A stop turns what would have run into what was left undone.
pub fn requested(edge: &Edge<'_>, decision: &Decision) -> Requested {
    let mut requested = Requested::default();
    let judged = edge.notes.iter().take_while(|note| !matches!(note, Note::GateDecided { .. }));
    for note in judged {
        let Note::ActionJudged(action) = note else { continue };
        if action.action.priority == Priority::NiceToHave {
            continue;
        }
        requested.all += 1;
        match &action.verdict {
            Verdict::Run => requested.run += 1,
            // It would have run, had the run not ended.
            Verdict::Ended { .. } if matches!(decision, Decision::Stop(_) | Decision::FinalPass { .. }) => {
                requested.run += 1;
            }
            Verdict::OverLimit { limit: Limit::ToolCalls | Limit::Selected } => requested.over += 1,
            Verdict::NeedsPerson { .. } => requested.person += 1,
            Verdict::Denied { .. } => requested.denied += 1,
            Verdict::Kept => requested.kept += 1,
            Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => {
                let gate = &edge.after.spec().gate;
                let told = edge.before.actions().iter().any(|it| {
                    it.key.pass + 1 == action.key.pass
                        && (&it.action.tool, &it.action.parameters)
                            == (&action.action.tool, &action.action.parameters)
                        && matches!(
                            it.verdict,
                            Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. }
                        )
                });
                if !told && gate.on_invalid == OnInvalid::FeedBack {
                    requested.unheard += 1;
                    requested.unheard_required += u32::from(action.action.priority == Priority::Required);
                }
            }
            Verdict::Duplicate { .. }
            | Verdict::OverLimit { limit: Limit::OfTool { .. } }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. }
            | Verdict::Skipped => {}
        }
    }
    requested
}

/// Whether the reply refuses the work, and whether it hands it to a person.
fn statements(edge: &Edge<'_>) -> (bool, bool) {
    let (mut refused, mut hands_over) = (false, false);
    if let EventKind::ModelReplied { reply, .. } = &edge.event.kind {
        refused = matches!(reply.finish, FinishReason::Refusal | FinishReason::Filtered)
            || reply.text.contains("\"refuse\":");
        hands_over = reply.text.contains("\"escalate\":");
    }
    if let Phase::Calling { purpose: Purpose::Repair { proposal }, .. } = edge.before.phase() {
        refused |= proposal.refused.is_some();
        hands_over |= proposal.escalated.is_some();
    }
    (refused, hands_over)
}

/// How much the domain demands that is not there.
pub fn missing(run: &Run) -> usize {
    let spec = run.spec();
    let section = |id: &str| run.document().sections.iter().find(|section| &*section.id == id);
    let sections = spec.sections().iter().filter(|wanted| match section(&wanted.id) {
        None => wanted.required,
        Some(found) => match wanted.cite {
            Cite::No => false,
            Cite::Any => found.evidence.is_empty(),
            Cite::Evidence => found.evidence.iter().all(|id| id.0 == 0),
        },
    });
    let tools = spec.gate.required_tools.iter().filter(|name| {
        !run.evidence()
            .iter()
            .any(|evidence| evidence.tool == **name && evidence.observation.status == Status::Ok)
    });
    // T3: what is cited and does not exist is a fault in every section. No alphabet quotes such a bracket.
    let known = run.evidence().len() as u32;
    let cites = run.document().sections.iter().flat_map(|section| loop_core::reply::citations(&section.body));
    sections.count() + tools.count() + cites.filter(|id| id.0 > known).count()
}

/// Whether the prompt of the pass at this place showed evidence that no pass before had seen.
fn is_fresh(run: &Run, at: usize) -> bool {
    let seen = |at: usize| run.passes()[at].evidence_seen as usize;
    let from = if at == 0 { 0 } else { seen(at - 1) };
    let digests = |range: std::ops::Range<usize>| -> BTreeSet<_> {
        let usable = run.evidence()[range].iter().filter(|it| it.observation.status.is_citable());
        usable.map(|evidence| evidence.observation.digest).collect()
    };
    !digests(from..seen(at)).is_subset(&digests(0..from))
}

fn level(confidence: Confidence) -> u8 {
    match confidence {
        Confidence::Unknown | Confidence::Low => 0,
        Confidence::Medium => 1,
        Confidence::High => 2,
    }
}
