//! The gate: the decision after each pass, a pure function of [`GateInput`].

use std::sync::Arc;

use crate::gate::stop::{Certificate, Condition, Measure};
use crate::gate::stop_reason::StopReason;
use crate::reply::{Ending, RefusedBy};
use crate::spec::Setting;
use crate::spec::{Calibrated, CostMode, FINAL_PASS_MS, GateSettings, Limits, OwnReason, Stale, least_limit};
use crate::types::{Confidence, Evidence, Millis, PicoUsd, Totals, is_blank};

/// The input of the gate.
#[derive(Clone, Debug)]
pub(crate) struct GateInput<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) totals: &'a Totals,
    /// Milliseconds that count against the wall clock.
    pub(crate) elapsed_ms: u64,
    /// When a stop was requested, since the start of the run. `None`: none is requested.
    pub(crate) stop_requested: Option<Millis>,
    /// The confidence that the reply states.
    pub(crate) confidence: Confidence,
    /// The measured level by which the run ends in place of the stated one. `None`: the stated one counts.
    pub(crate) calibrated: Option<Calibrated>,
    pub(crate) refused: Option<&'a RefusedBy>,
    pub(crate) escalated: Option<&'a Arc<str>>,
    pub(crate) candidates: Candidates,
    /// The first question that the reply asks a person. `None`: it asks none.
    pub(crate) question: Option<&'a Arc<str>>,
    pub(crate) settings: &'a GateSettings,
    /// What the domain requires and is missing.
    pub(crate) missing: &'a [Arc<str>],
    /// Whether an owed effect was neither done nor denied nor expired. A confident end waits for it.
    pub(crate) owes_effect: bool,
    /// The gate's view of earlier passes.
    pub(crate) history: History,
    /// The end that the reply states, for native calls. `None`: the protocol states confidence.
    pub(crate) native: Option<NativeReply<'a>>,
    /// Denials that end the run, and open breakers.
    pub(crate) trouble: EndConditions,
    /// The condition that the reply was cut at its output limit. `None`: it was not.
    pub(crate) cut: Option<Condition>,
    /// Whether limits of passes and model calls are checked before a call and not after it.
    pub(crate) acts_last: bool,
}

/// Denials that end the run, and open breakers.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndConditions {
    /// A call of the reply was denied or invalid, and the setting ends the run for it.
    pub(crate) denied: Option<Condition>,
    /// Too many calls in a row were denied, unknown or invalid.
    pub(crate) opened: Option<Condition>,
    /// The reply calls a tool whose breaker is open.
    pub(crate) broken: Option<Condition>,
}

/// The gate's view of a reply with native calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeReply<'a> {
    /// What the reply ends.
    pub(crate) ending: &'a Ending,
    /// The number of passes of the attempt so far, and its limit. `None`: the protocol has no outputs.
    pub(crate) attempt: Option<(u32, u32)>,
    /// Whether an output is premature: a demanded tool has no result, and the reply's other calls cannot return it.
    pub(crate) lacks: bool,
}

/// The gate's view of earlier passes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    /// The pass after which it decides, from 1.
    pub(crate) pass: u32,
    /// The confidence of the pass before. `None`: the two are not comparable.
    pub(crate) before: Option<Confidence>,
    /// Whether this pass saw new evidence.
    pub(crate) fresh: bool,
    /// How many passes in a row returned neither new evidence nor a changed section.
    pub(crate) idle: u32,
    /// Whether the confidence was low in the last `gate.escalate_after` passes and there is a model to escalate to.
    pub(crate) may_escalate: bool,
    /// Whether a pass to revise the answer can be granted.
    pub(crate) may_revise: bool,
    /// Whether only the time reserved for a final pass is left.
    pub(crate) is_out_of_time: bool,
}

/// The decision after a pass.
#[derive(Clone, Debug)]
pub(crate) enum Ruling {
    /// Stop, for the reason in the certificate.
    Stop(Certificate),
    /// Another pass, to complete what is missing. No action runs before it, unless each call needs a result.
    Revise,
    /// The admitted actions run.
    Act {
        /// Whether the next pass is the escalated model's.
        escalate: bool,
    },
    /// The admitted actions run, then this output is validated.
    Validate(Arc<str>),
}

/// The number of required and recommended actions by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    pub(crate) all: u32,
    pub(crate) run: u32,
    /// The protocol handles them itself.
    pub(crate) kept: u32,
    pub(crate) needs_person: u32,
    pub(crate) denied: u32,
    pub(crate) over_limit: u32,
    /// They name no tool or have invalid arguments, and the model has not read so yet: the next pass reads it.
    pub(crate) unheard: u32,
    /// The `required` ones of those.
    pub(crate) unheard_required: u32,
}

/// The conditions of reached limits. They are also checked before the first call.
pub(crate) fn limits_reached(limits: &Limits, totals: &Totals, elapsed_ms: u64) -> Vec<Condition> {
    let mut reached = Vec::new();
    // What the next call needs is not known here, so a limit of cost, tokens or time that would do for it cannot be named.
    // After the spend any amount that is left does.
    let is_known = limits.cost_mode == CostMode::After;
    let known = |at: Condition| Condition { change: at.change.filter(|_| is_known), ..at };
    let Totals { passes, model_calls, .. } = *totals;
    if passes >= limits.passes {
        let to = passes.saturating_add(1);
        reached.push(Condition::at_limit(StopReason::MaxPasses, passes, limits.passes, Setting::Passes, to));
    }
    let spent = totals.cost.known;
    if let Some(limit) = limits.cost.filter(|limit| spent >= *limit) {
        let to = spent.plus(PicoUsd(1));
        reached.push(known(Condition::at_limit(StopReason::BudgetExceeded, spent, limit, Setting::Cost, to)));
    }
    let used = totals.usage.total();
    if let Some(limit) = limits.tokens.filter(|limit| used >= *limit) {
        let to = used.saturating_add(1);
        reached.push(known(Condition::at_limit(StopReason::TokenLimit, used, limit, Setting::Tokens, to)));
    }
    if model_calls >= limits.model_calls {
        let (limit, to) = (limits.model_calls, model_calls.saturating_add(1));
        let setting = Setting::ModelCalls;
        reached.push(Condition::at_limit(StopReason::MaxModelCalls, model_calls, limit, setting, to));
    }
    if elapsed_ms >= limits.wall_ms {
        let reached_at = Condition::new(StopReason::Timeout, Measure::Millis(elapsed_ms));
        reached.push(reached_at.threshold(Measure::Millis(limits.wall_ms)));
    }
    reached
}

/// Splits reached limits into those that end the run now and those that only forbid another call. Where the last
/// permitted pass acts, the limits of passes and model calls are of the second kind.
pub(crate) fn split(mut reached: Vec<Condition>, acts_last: bool) -> (Vec<Condition>, Vec<Condition>) {
    let is_next = |limit: &mut Condition| {
        acts_last && matches!(limit.reason, StopReason::MaxPasses | StopReason::MaxModelCalls)
    };
    let next = reached.extract_if(.., is_next).collect();
    (reached, next)
}

/// The condition that only the time reserved for a final pass is left.
pub(crate) fn over_time(limits: &Limits, elapsed_ms: u64) -> Condition {
    let to = Measure::Millis(least_limit(elapsed_ms.saturating_add(1), FINAL_PASS_MS));
    Condition::new(StopReason::Timeout, Measure::NextTime { elapsed_ms, held_ms: limits.final_pass_ms() })
        .threshold(Measure::Millis(limits.wall_ms))
        .change(Setting::WallMs, to)
}

/// The condition of a confident answer without everything that the domain requires.
pub(crate) fn evidence_missing(missing: Vec<Arc<str>>) -> Condition {
    let value = Measure::Names(missing);
    Condition::new(StopReason::EvidenceMissing, value)
}

/// The condition that a reply is invalid, where the setting ends the run for it.
pub(crate) fn not_valid(what: Arc<str>) -> Condition {
    Condition::new(StopReason::Refused, Measure::Text(what))
        .change(Setting::OnInvalid, Measure::Text("feed_back".into()))
}

/// The condition that the spec has tools and permits no tool call.
pub(crate) fn no_tool_calls() -> Condition {
    Condition::at_limit(StopReason::MaxToolCalls, 0_u32, 0_u32, Setting::ToolCalls, 1_u32)
}

/// The condition that the model submitted before there was an output.
pub(crate) fn submit_before_output() -> Condition {
    let value = Measure::Text("the reply submits, and there is no output yet".into());
    Condition::new(StopReason::SubmitBeforeOutput, value)
}

impl GateInput<'_> {
    /// Whether an action is left to run, to ask an approver about, or to tell the model about: that it names no tool or
    /// has invalid arguments.
    fn is_open(&self) -> bool {
        let asks = if self.settings.people { self.candidates.needs_person } else { 0 };
        let tells = if self.trouble.opened.is_none() { self.candidates.unheard } else { 0 };
        self.candidates.run + asks + tells > 0
    }

    /// The confidence by which the run ends: the measured one, else the stated one.
    ///
    /// What compares passes with each other, such as stale confidence, compares what they state. So a lowered level only
    /// takes an end as `confident` away.
    fn counted(&self) -> Confidence {
        self.calibrated.map_or(self.confidence, |it| it.measured)
    }

    /// Stops if a condition is true, else the admitted actions run. Limits that only forbid another call, and a cut
    /// reply, do not stop the run by themselves. At a stop they are appended to the conditions.
    fn rule(&self, conditions: Vec<Condition>, before_next: Vec<Condition>, escalate: bool) -> Ruling {
        if conditions.is_empty() {
            return Ruling::Act { escalate };
        }
        let conditions = conditions.into_iter().chain(before_next).chain(self.cut.clone());
        Certificate::of(conditions).map_or(Ruling::Act { escalate }, Ruling::Stop)
    }
}

/// Why no action is left to run, or why that does not matter. Empty if the run continues.
fn nothing_left(view: &GateInput<'_>) -> Vec<Condition> {
    let candidates = view.candidates;
    let is_open = view.is_open();
    let is_high = view.counted() == Confidence::High;
    let has_all = is_high && view.missing.is_empty();
    let is_final = view.settings.high_is_final && has_all;
    let is_owing = view.owes_effect || candidates.unheard_required > 0;
    let is_answered = is_final || has_all && !is_owing;
    if is_open && !is_final {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(why) = view.refused {
        found.push(refusal(why));
    }
    found.extend(view.escalated.map(escalation));
    if !is_open {
        found.extend(view.trouble.opened.clone());
        found.extend(view.trouble.broken.clone());
    }
    if candidates.needs_person > 0 && !is_open {
        found.push(nobody_to_ask(view));
    }
    let confidence = view.calibrated.map_or(Measure::Confidence(view.confidence), Measure::Calibrated);
    let high = Measure::Confidence(Confidence::High);
    if is_answered {
        let confident = Condition::new(StopReason::Confident, confidence.clone()).threshold(high.clone());
        found.push(confident.change_if(is_open, Setting::HighIsFinal, Measure::Text("false".into())));
    } else if is_high && !view.missing.is_empty() {
        found.push(evidence_missing(view.missing.to_vec()));
    }
    if candidates.all > 0 && candidates.denied == candidates.all {
        found.push(Condition::new(StopReason::PolicyBlocked, Measure::Count(candidates.denied.into())));
    }
    if candidates.over_limit > 0 && !is_open {
        found.push(no_tool_calls_left(view));
    }
    if found.is_empty() {
        found.push(Condition::new(StopReason::NoNewActions, confidence).threshold(high));
    }
    found
}

/// The same for native calls: the end that the reply states, or why none of its calls can run. The result of a call
/// that cannot run says so, and the model continues from it.
fn native_end(view: &GateInput<'_>, native: NativeReply<'_>) -> Vec<Condition> {
    let candidates = view.candidates;
    let mut found = Vec::new();
    if !view.is_open() {
        found.extend(view.refused.map(refusal));
        found.extend(view.escalated.map(escalation));
    }
    match native.ending {
        Ending::Output(_) if native.lacks => found.push(evidence_missing(view.missing.to_vec())),
        Ending::None | Ending::Output(_) => {}
        // With other settings a blank reply is retried and does not arrive here.
        Ending::Answer(text) if is_blank(text) => found.push(not_valid("the answer is blank".into())),
        Ending::Answer(_) if view.missing.is_empty() => {
            let value = Measure::Text("the reply calls no tool".into());
            found.push(Condition::new(StopReason::Completed, value));
        }
        Ending::Answer(_) => found.push(evidence_missing(view.missing.to_vec())),
        Ending::Cut(_) => found.extend(view.cut.clone()),
        Ending::Invalid(why) => {
            found.push(Condition::new(StopReason::InvalidResponse, Measure::Text(Arc::clone(why))))
        }
        Ending::SubmitBeforeOutput => found.push(submit_before_output()),
    }
    let idle = view.history.idle;
    if !view.is_open() && candidates.kept == 0 {
        found.extend(view.trouble.opened.clone());
        // The model reads once that the breaker of a tool is open.
        found.extend(view.trouble.broken.clone().filter(|_| idle > 1));
    }
    if candidates.needs_person > 0 && !view.is_open() {
        found.push(nobody_to_ask(view));
    }
    if candidates.over_limit > 0 && !view.is_open() {
        found.push(no_tool_calls_left(view));
    }
    if view.settings.no_progress > 0 && idle >= view.settings.no_progress {
        if candidates.denied == candidates.all && candidates.all > 0 {
            found.push(Condition::new(StopReason::PolicyBlocked, Measure::Count(candidates.denied.into())));
        }
        found.push(no_progress(view.settings, idle));
    }
    found
}

/// The condition that the model hands the work to a person.
fn escalation(why: &Arc<str>) -> Condition {
    Condition::new(StopReason::NeedsHuman, Measure::Text(Arc::clone(why)))
}

/// The condition that what is left needs an approver, and none can be asked. No setting makes an approver available.
fn nobody_to_ask(view: &GateInput<'_>) -> Condition {
    let count = || Measure::Count(view.candidates.needs_person.into());
    let value = view.question.map_or_else(count, |question| Measure::Question(Arc::clone(question)));
    Condition::new(StopReason::NeedsHuman, value)
}

/// The condition that the work was refused.
fn refusal(refused: &RefusedBy) -> Condition {
    let value = match refused {
        RefusedBy::ByModel(why) => Measure::Text(Arc::clone(why)),
        RefusedBy::ByFilter => Measure::ContentFilter,
    };
    Condition::new(StopReason::Refused, value)
}

/// The condition that the passes of an attempt are used up. `None`: they are not.
fn attempt_over(native: NativeReply<'_>) -> Option<Condition> {
    let (passes, limit) = native.attempt.filter(|(passes, limit)| passes >= limit)?;
    let to = passes.saturating_add(1);
    Some(Condition::at_limit(StopReason::MaxPasses, passes, limit, Setting::PassesPerAttempt, to))
}

/// The condition that tool calls are requested and none is left.
fn no_tool_calls_left(view: &GateInput<'_>) -> Condition {
    let (calls, limit) = (view.totals.tool_calls, view.limits.tool_calls);
    Condition::at_limit(StopReason::MaxToolCalls, calls, limit, Setting::ToolCalls, u64::from(calls) + 1)
}

/// The condition that this many passes in a row returned nothing new.
fn no_progress(settings: &GateSettings, idle: u32) -> Condition {
    let to = idle.saturating_add(1);
    Condition::at_limit(StopReason::NoProgress, idle, settings.no_progress, Setting::NoProgress, to)
}

/// Why the run ends although actions could run: they would not help.
fn stuck(view: &GateInput<'_>, history: History) -> Vec<Condition> {
    let settings = view.settings;
    let mut found = Vec::new();
    if let Some(before) = history.before.filter(|_| history.pass >= STALE_FROM) {
        let (now, then) = (view.confidence.level(), before.level());
        let is_stale = match settings.stale {
            Stale::NotImproved => now <= then,
            Stale::Equal => now == then,
            Stale::Off => false,
        };
        if is_stale && !(settings.stale_unless_new_evidence && history.fresh) {
            // A lower confidence is stale under only one of the settings.
            let to = if now < then { Stale::Equal } else { Stale::Off };
            let stale = Condition::new(StopReason::StaleConfidence, Measure::Confidence(view.confidence));
            let stale = stale.threshold(Measure::Confidence(before));
            found.push(stale.change(Setting::Stale, Measure::Text(to.name().into())));
        }
    }
    if settings.no_progress > 0 && history.idle >= settings.no_progress {
        found.push(no_progress(settings, history.idle));
    }
    found
}

/// Decides what follows a pass. `cause` is the limit for which a final pass was made: it precedes all other conditions
/// except a requested stop.
pub(crate) fn decide(view: &GateInput<'_>, cause: Option<Condition>) -> Ruling {
    let is_final_pass = cause.is_some();
    let requested = view.stop_requested.map(manual_stop);
    let mut conditions: Vec<Condition> = requested.into_iter().chain(cause).collect();
    // Limits that only forbid another call do not stop this reply's calls.
    let reached = limits_reached(view.limits, view.totals, view.elapsed_ms);
    let (reached, before_next) = split(reached, view.acts_last);
    if let Some(NativeReply { ending: Ending::Output(output), lacks: false, .. }) = view.native
        && conditions.is_empty()
        && view.trouble.denied.is_none()
        && view.refused.is_none()
        && view.escalated.is_none()
    {
        // The output is paid for and validation is free. Limits apply again once it is rejected.
        return Ruling::Validate(Arc::clone(output));
    }
    // The attempt's own limit precedes the limit of all passes, since it is more specific.
    conditions.extend(view.native.and_then(attempt_over));
    conditions.extend(reached);
    if view.history.is_out_of_time && !is_final_pass {
        conditions.push(over_time(view.limits, view.elapsed_ms));
    }
    conditions.extend(view.trouble.denied.clone());
    let may_revise = conditions.is_empty() && before_next.is_empty() && view.history.may_revise;
    let revises =
        |end: &[Condition]| end.first().is_some_and(|end| end.reason == StopReason::EvidenceMissing);
    if let Some(native) = view.native {
        let end = native_end(view, native);
        if may_revise && revises(&end) {
            return Ruling::Revise;
        }
        // The reply of a final pass is always an answer, so that it does not complete the work.
        conditions
            .extend(end.into_iter().filter(|end| !is_final_pass || end.reason != StopReason::Completed));
        return view.rule(conditions, before_next, /*escalate*/ false);
    }
    let nothing_left = nothing_left(view);
    if may_revise && revises(&nothing_left) {
        return Ruling::Revise;
    }
    let escalate = nothing_left.is_empty() && before_next.is_empty() && view.history.may_escalate;
    conditions.extend(nothing_left);
    if view.is_open() && !escalate {
        conditions.extend(stuck(view, view.history));
    }
    view.rule(conditions, before_next, escalate)
}

/// The first pass whose confidence can be stale.
const STALE_FROM: u32 = 3;

/// The condition of a stop requested at `at`.
pub(crate) fn manual_stop(at: Millis) -> Condition {
    Condition::new(StopReason::ManualStop, Measure::Millis(at.0))
}

/// The condition of a stop reason that the domain declares, if one of these results meets it.
pub(crate) fn declared(reason: &OwnReason, settled: &[Evidence]) -> Option<Condition> {
    let fits = |it: &&Evidence| it.tool == reason.tool && it.observation.status == reason.status;
    let evidence = settled.iter().find(fits)?;
    let (class, says) = (reason.class, Arc::clone(&reason.says));
    Some(Condition::new(
        StopReason::Domain(reason.name),
        Measure::Declared { class, says, evidence: evidence.id },
    ))
}
