//! What may run, and what was run again: policy before effects, approvals, taint, and the rules of repeats.

use loop_core::gate::JudgedAction;
use loop_core::policy::Taint;
use loop_core::spec::{OnDuplicate, TaintRule, ToolSpec};
use loop_core::types::{Effect, Observation, Priority, Status};
use loop_core::{EventKind, Evidence, Note, Run, Verdict, policy};
use serde_json::Value;

use crate::edge::{Edge, work};
use crate::planned::is_planned;

type Result = std::result::Result<(), String>;

fn must(holds: bool, what: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { Err(what()) }
}

/// What a pass has read: the work item, the messages before the run, and what came of tools that were run before it,
/// also where they failed.
pub fn read_before(run: &Run, pass: u32) -> Taint {
    let before = run.started().history.as_ref().map_or(Taint::default(), |history| history.taint);
    let is_read = |evidence: &&Evidence| {
        let was_run =
            !matches!(evidence.observation.status, Status::Denied | Status::Duplicate | Status::Skipped);
        was_run && evidence.pass < pass
    };
    let read: Vec<_> = run.evidence().iter().filter(is_read).map(|evidence| &evidence.tool).collect();
    let any = |has: fn(&ToolSpec) -> bool| read.iter().any(|name| run.spec().tool(name).is_some_and(has));
    Taint {
        untrusted: before.untrusted
            || run.spec().gate.item_untrusted
            || any(|tool| tool.policy.returns_untrusted),
        private: before.private || any(|tool| tool.policy.reads_private),
    }
}

/// The verdicts of the step on calls that a reply asks for, each with its tool, where that changes something and policy
/// lets it run at all.
fn judged_effects<'a>(edge: &'a Edge<'_>) -> impl Iterator<Item = (&'a JudgedAction, &'a ToolSpec)> {
    let judges = matches!(edge.event.kind, EventKind::ModelReplied { .. }) && edge.was.past.stops == 0;
    let notes = if judges { edge.notes } else { &[] };
    notes.iter().filter_map(|note| match note {
        Note::ActionJudged(action) => {
            let spec = edge.after.spec();
            let tool = spec.tool(action.tool_name())?;
            let matters = !tool.effect.is_read()
                && !tool.policy.asks_person
                && !policy::is_forbidden(spec, tool)
                && action.action.priority != Priority::NiceToHave;
            matters.then_some((&**action, tool))
        }
        _ => None,
    })
}

/// K2, I-27: the verdict on an effect is by what the run has read, the messages before it and failed tools among that;
/// and nothing is kept from running for what it has not read.
pub fn what_was_read_is_judged(edge: &Edge<'_>) -> Result {
    let gate = &edge.after.spec().gate;
    if gate.taint == TaintRule::Off {
        return Ok(());
    }
    for (action, tool) in judged_effects(edge) {
        // G2: before the first pass nothing has an effect, and nobody is asked for one.
        if action.key.pass == 0 {
            let may_be = !matches!(action.verdict, Verdict::Run | Verdict::NeedsPerson { .. });
            must(may_be, || format!("{action:?} in the selection"))?;
            continue;
        }
        let read = read_before(edge.before, action.key.pass);
        let is_planned = is_planned(edge.after, action);
        let read = Taint { untrusted: read.untrusted && !is_planned, ..read };
        let leaks = read.untrusted && read.private && matches!(tool.effect, Effect::Egress | Effect::Exec);
        let fits = match &action.verdict {
            Verdict::Run => !read.untrusted,
            Verdict::NeedsPerson { why, .. } => {
                let says = |what: &str| why.as_deref().is_some_and(|why| why.contains(what));
                // T4: or it did happen already, or is asked for twice at once.
                let repeats =
                    says("the same call ran already") || says("the same call is in this reply already");
                let doubts = says("it may have happened already") || repeats;
                let asks = read.untrusted || !policy::approves(edge.after.spec(), &tool.name);
                (!leaks || gate.people) && (asks || doubts || !tool.policy.authority.is_empty())
            }
            Verdict::Denied { .. } => leaks || !tool.policy.authority.is_empty() || is_repeat(edge, action),
            Verdict::Duplicate { .. }
            | Verdict::OverLimit { .. }
            | Verdict::BreakerOpen { .. }
            | Verdict::OneAtATime
            | Verdict::Ended { .. }
            | Verdict::InvalidArguments { .. }
            | Verdict::UnknownTool { .. }
            | Verdict::Skipped
            | Verdict::Kept => true,
        };
        must(fits, || format!("{action:?} after {read:?} was read"))?;
    }
    Ok(())
}

/// Whether the policy denies repeats and the call was made before.
fn is_repeat(edge: &Edge<'_>, action: &JudgedAction) -> bool {
    let same = |other: &JudgedAction| {
        other.key != action.key && other.tool == action.tool && other.parameters == action.parameters
    };
    edge.after.spec().gate.on_duplicate == OnDuplicate::Deny
        && edge.after.actions().iter().any(|other| same(other))
}

/// K3, B6, S4-11: an effect runs unasked only for values that the work item, a person or a trusted tool gave; and what a
/// tool gives back after it was asked with it, in this run or in the messages before it, was not given by it.
pub fn an_effect_reaches_whom_was_named(edge: &Edge<'_>) -> Result {
    let run = edge.before;
    for (action, tool) in judged_effects(edge) {
        let [pointer] = tool.policy.authority.as_slice() else { continue };
        let parameters: Value = serde_json::from_str(&action.parameters).unwrap();
        let Some(value) = parameters.pointer(pointer).and_then(Value::as_str) else { continue };
        let says = |text: &str| text.contains(value);
        let item = &run.started().item;
        let user_texts = run.started().history.iter().flat_map(|it| &it.user_texts);
        let mut of_user = [&item.full, &item.title].into_iter().chain(user_texts);
        let by_item = !run.spec().gate.item_untrusted && of_user.any(|text| says(text));
        let by_person = run.instructions().iter().any(|instructions| says(&instructions.text));
        let by_policy = run.spec().gate.authorities.iter().any(|given| **given == *value);
        let requested_with =
            |pass: u32| run.evidence().iter().any(|other| other.pass <= pass && says(&other.parameters));
        let history = run.started().history.as_ref();
        let requested_before =
            history.is_some_and(|it| it.requested.iter().any(|parameters| says(parameters)));
        let by_tool = !requested_before
            && run.evidence().iter().any(|evidence| {
                let is_trusted =
                    run.spec().tool(&evidence.tool).is_some_and(|it| !it.policy.returns_untrusted);
                let instructions = is_trusted && evidence.observation.status == Status::Ok;
                instructions && says(&evidence.observation.data) && !requested_with(evidence.pass)
            });
        let given = by_item || by_person || by_policy || by_tool;
        let fits = match &action.verdict {
            Verdict::Run => given,
            Verdict::Denied { .. } => !given || read_before(run, action.key.pass).untrusted,
            Verdict::NeedsPerson { .. } => given || run.spec().gate.people,
            _ => true,
        };
        must(fits, || format!("{action:?}, and {value} was {}given", if given { "" } else { "not " }))?;
    }
    Ok(())
}

/// The reason that a contract gives which was planted in what the run reads.
pub const PLANTED: &str = "planted";

/// L13, K5: a contract that stands in what the run has read decides nothing where a reply repeats it, whether a tool said
/// it or failed with it, the item held it, or a person told it. Where it stands nowhere it is the model's own.
pub fn an_echo_decides_nothing(edge: &Edge<'_>) -> Result {
    let run = edge.before;
    let holds = |text: &str| text.contains(PLANTED);
    let observed = |it: &Observation| holds(&it.summary) || holds(it.text()) || holds(&it.data);
    let item = &run.started().item;
    let is_read = run.evidence().iter().any(|evidence| observed(&evidence.observation))
        || work(run).iter().filter_map(|work| work.observation.as_deref()).any(observed)
        || run.instructions().iter().any(|instructions| holds(&instructions.text))
        || holds(&item.full);
    for note in edge.notes {
        let Note::ReplyRead { reason, .. } = note else { continue };
        must(!is_read || !holds(reason), || "a contract that was read somewhere decides".to_owned())?;
    }
    // Nothing untrusted was read: such a block is taken for the model's own.
    if let EventKind::ModelReplied { reply, .. } = &edge.event.kind
        && holds(&reply.text)
        && !is_read
        && edge.was.past.stops == 0
        && edge.decision().is_some()
    {
        let counts = |note: &Note| matches!(note, Note::ReplyRead { reason, .. } if holds(reason));
        must(edge.notes.iter().any(counts), || "a contract of the model's own does not count".to_owned())?;
    }
    Ok(())
}
