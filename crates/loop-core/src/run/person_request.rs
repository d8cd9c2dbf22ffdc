//! What a person is asked and what they are shown for it, read from the state alone.

use std::sync::Arc;

use crate::policy::{EffectPlan, RunSources};
use crate::run::acting::sources;
use crate::run::apply::{Run, State};
use crate::run::asking::AnswerContext;
use crate::run::event::PersonAnswer;
use crate::run::rejected::{AnswerFault, Rejected};
use crate::types::{Approver, Arguments, CommandKey, Digest, Effect, Instruction, Millis, RunId};

/// An action that waits for a person, with everything needed to decide on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonRequest {
    /// The run that asks: this one, or one that it called as a tool.
    pub run: RunId,
    /// The action's key. An answer names it.
    pub key: CommandKey,
    /// The model's own name for the call.
    pub id: Arc<str>,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The tool's effect.
    pub effect: Effect,
    /// The exact parameters that would run, as canonical JSON. A model wrote them, so escape them before showing.
    pub parameters: Arguments,
    /// The model's reason for the call, in its own words.
    pub reason: Arc<str>,
    /// Why an approver is needed.
    pub why: String,
    /// The index of the slot of the run's plan that it fits. `None`: it fits none, or there is no plan.
    pub slot: Option<u32>,
    /// Whether it is a question, which takes an answer instead of an approval.
    pub is_question: bool,
    /// When the time to answer ends, since the start of the run. No answer by then is a denial. `None`: it does not end.
    pub deadline: Option<Millis>,
    /// The same instant in milliseconds since 1970 (UTC).
    pub until_unix_ms: Option<u64>,
    /// The digest of tool, parameters, tool manifest and policy. An answer that carries it counts for this request
    /// alone.
    pub binding: Digest,
    /// How many people have to approve it; 1 for a question.
    pub approvals: u32,
    /// Who has approved it so far.
    pub approvers: Vec<Approver>,
}

impl PersonRequest {
    /// Whether the time to answer is over at this instant of the run's clock.
    pub fn is_over(&self, now: Millis) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

impl Run {
    /// The digest that binds an approval to an action: the run, the action's key, its tool and parameters, the tool
    /// manifest and the policy. `None`: the run has no action with this key.
    pub fn binding(&self, key: &CommandKey) -> Option<Digest> {
        self.state.calls.action(key).map(|action| self.asking().binding_of(action))
    }

    /// The open approval requests and questions, in request order.
    pub fn requested(&self) -> Vec<PersonRequest> {
        let asks = self.state.phase.asks();
        let open = asks.iter().filter(|ask| !ask.answered);
        open.filter_map(|ask| {
            let action = self.state.calls.actions.get(ask.action as usize)?;
            let tool = self.spec.tool(action.tool_name())?;
            Some(PersonRequest {
                run: self.id().clone(),
                key: action.key,
                id: Arc::clone(&action.action.id),
                tool: Arc::clone(&tool.name),
                effect: tool.effect,
                parameters: action.parameters.clone(),
                reason: Arc::clone(&action.action.reason),
                why: action.verdict.reason(),
                slot: action.slot,
                is_question: tool.policy.asks_person,
                deadline: ask.deadline,
                until_unix_ms: ask.deadline.map(|deadline| self.started().unix_ms_at(deadline)),
                binding: self.asking().binding_of(action),
                approvals: if tool.policy.asks_person { 1 } else { self.spec.gate.approvals },
                approvers: ask.approvers.clone(),
            })
        })
        .collect()
    }

    /// Whether an answer to an action would count at the instant `at`.
    ///
    /// # Errors
    /// Why it would not.
    pub fn may_answer(
        &self,
        at: Millis,
        key: &CommandKey,
        answer: &PersonAnswer,
        binding: Option<&Digest>,
    ) -> Result<(), AnswerFault> {
        self.asking().answers(at, key, answer, binding).map(|_| ())
    }

    /// Whether an approval of a known person would count at the instant `at`.
    ///
    /// # Errors
    /// Why it would not.
    pub fn may_approve(
        &self,
        at: Millis,
        key: &CommandKey,
        by: &Approver,
        binding: Option<&Digest>,
    ) -> Result<(), AnswerFault> {
        self.asking().approves(at, key, by, binding).map(|_| ())
    }

    /// The plan in force. `None`: there is none.
    pub fn plan(&self) -> Option<&EffectPlan> {
        self.state.knowledge.plan.as_ref()
    }

    /// The authorised sources of values that name a recipient or a target: the user's words and the results so far.
    pub fn sources(&self) -> RunSources<'_> {
        let State { started, knowledge, inbox, .. } = &self.state;
        sources(&self.spec, started, &knowledge.evidence, inbox)
    }

    /// The instructions of people, in order.
    pub fn instructions(&self) -> &[Instruction] {
        self.state.inbox.instructions()
    }

    /// The instructions that the prompt of this pass adds.
    pub fn instructions_for(&self, pass: u32) -> impl Iterator<Item = &Instruction> {
        self.state.inbox.instructions_for(pass).iter()
    }

    /// Whether the run accepts an instruction: a pass that could read it is still to come.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes_instruction(&self, text: &str) -> Result<(), Rejected> {
        let phase = &self.state.phase;
        if !phase.takes_instruction() {
            return Err(Rejected::OutOfOrder { event: "instruction", phase: phase.name() });
        }
        if text.trim().is_empty() { Err(Rejected::EmptyInstruction) } else { Ok(()) }
    }

    fn asking(&self) -> AnswerContext<'_> {
        let (state, phase) = (&self.state, &self.state.phase);
        let (asks, later) = (phase.asks(), phase.asks_later());
        AnswerContext { spec: &self.spec, started: &state.started, calls: &state.calls, asks, later }
    }
}
