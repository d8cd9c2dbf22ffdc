//! The requested effects of a run: the calls of tools that do more than read, their results, and who decided about
//! each.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::spec::ToolSpec;
use loop_core::types::{Approver, CommandKey};
use loop_core::{Command, Evidence, Run};
use loop_runtime::journal::Recorded;
use loop_runtime::people::{ApproverReport, PeopleReport};
use loop_runtime::tools::connects_to;
use serde::Serialize;
use serde_json::Value;

use crate::called::CalledRun;

/// A requested call of a tool that does more than read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EffectRow {
    /// The run that a run of this report called, whose effect it is. `None`: it is of the run itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The action's key.
    pub action: CommandKey,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// What it may do, for example `write_keyed`.
    pub effect: &'static str,
    /// What the tool connects to. `None`: the domain does not say.
    pub target: Option<String>,
    /// The parameters, as the model wrote them. `None`: they are not JSON.
    pub parameters: Option<Value>,
    /// The result that may be cited, for example `E3`.
    pub evidence: Option<String>,
    /// What became of it, for example `executed` or `waiting`.
    pub state: String,
    /// Why it has its verdict, or who approved it.
    pub decided: String,
    /// When a person decided it, in milliseconds since 1970 (UTC).
    pub unix_ms: Option<u64>,
    /// What the tool reports.
    pub result: Option<Arc<str>>,
}

/// The requested effects of a run, followed by those of the runs that it called.
pub fn effects_of_all(state: &Run, recorded: &Recorded, called: &[CalledRun]) -> Vec<EffectRow> {
    let mut rows = effects(state, recorded);
    for CalledRun { run, recorded } in called {
        let below = state_of(recorded).map_or_else(Vec::new, |state| effects(&state, recorded));
        rows.extend(below.into_iter().map(|row| EffectRow { run: Some(run.to_string()), ..row }));
    }
    rows
}

/// The state of a run after the entries that can be applied in order. `None`: the first entry does not begin a run.
pub(crate) fn state_of(recorded: &Recorded) -> Option<Run> {
    let mut entries = recorded.entries.iter();
    let (mut state, _) = Run::open(&entries.next()?.event, Arc::clone(&recorded.spec)).ok()?;
    _ = entries.try_for_each(|entry| state.apply(&entry.event).map(drop));
    Some(state)
}

/// The requested effects, in the order of the run.
fn effects(state: &Run, recorded: &Recorded) -> Vec<EffectRow> {
    let people = PeopleReport::of(recorded);
    let begun: BTreeSet<CommandKey> = state.commands().into_iter().filter_map(announced).collect();
    let effect = |judged: &Arc<JudgedAction>| {
        let ended = state.effect_of(judged);
        // A call of a run counts what that run did, which has rows of its own.
        let is_own = |tool: &&ToolSpec| tool.policy.lease.is_none() && !ended.is_none();
        let tool = state.spec().tool(judged.tool_name()).filter(is_own)?;
        let requested = people.of_action(&judged.key);
        let approvers = requested.map_or(&[][..], |requested| requested.approvers.as_slice());
        let decided = match (approvers, requested.and_then(|requested| requested.answer.as_deref())) {
            ([], _) => decided(state, judged, &people),
            (_, Some("approved")) => approved_by(approvers),
            _ => format!("{}; before that {}", decided(state, judged, &people), approved_by(approvers)),
        };
        let ended = if begun.contains(&judged.key) { BEGUN.to_owned() } else { ended.to_string() };
        let result = judged.evidence.and_then(|id| Evidence::find(state.evidence(), id));
        Some(EffectRow {
            run: None,
            action: judged.key,
            tool: Arc::clone(&tool.name),
            effect: tool.effect.name(),
            target: connects_to(&recorded.manifest, &tool.name),
            parameters: judged.parameters.value().ok().cloned(),
            evidence: judged.evidence.map(|id| id.to_string()),
            // One effect is counted, so this is its state.
            state: ended.trim_start_matches("1 ").to_owned(),
            decided,
            unix_ms: requested.and_then(|requested| requested.answered_unix_ms),
            result: result.map(|it| Arc::clone(&it.observation.summary)),
        })
    };
    state.actions().iter().filter_map(effect).collect()
}

/// The state of an action without a recorded outcome: its tool still runs, or the driver was lost meanwhile.
const BEGUN: &str = "begun, its outcome is not recorded";

fn announced(command: Command) -> Option<CommandKey> {
    match command {
        Command::RunTool(tool) if tool.announced => Some(tool.key),
        _ => None,
    }
}

/// Why an action has its verdict, in words: by a person, where one decided.
pub fn decided(state: &Run, action: &JudgedAction, people: &PeopleReport) -> String {
    let why = action.reason(state.evidence());
    match people.of_action(&action.key).and_then(|requested| requested.answer.as_deref()) {
        Some("approved") => "a person approved it".to_owned(),
        Some("answered") => "a person answered it".to_owned(),
        Some("denied") => format!("a person denied it: {why}"),
        _ => why,
    }
}

/// Who approved an action, in words, as far as the journal has it.
pub fn approved_by(approvers: &[ApproverReport]) -> String {
    let one = |by: &ApproverReport| {
        let (account, user) = (by.account.as_str().into(), by.user.as_str().into());
        Approver { account, user, claim: by.unverified_claim.as_deref().map(Into::into) }.to_string()
    };
    let all: Vec<String> = approvers.iter().map(one).collect();
    if all.is_empty() { "approved".to_owned() } else { format!("approved by {}", all.join(" and ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_without_a_checked_account_says_so() {
        // U4: one that was given on the command line.
        let by = |account: &str, claim: Option<&str>| ApproverReport {
            account: account.to_owned(),
            user: String::new(),
            unverified_claim: claim.map(str::to_owned),
            unix_ms: 1,
        };
        let both = [by("token ci", None), by("", Some("Ada"))];
        let said = "approved by token ci and an unverified account as `Ada` (unverified)";
        assert_eq!((approved_by(&both), approved_by(&[])), (said.to_owned(), "approved".to_owned()));
    }
}
