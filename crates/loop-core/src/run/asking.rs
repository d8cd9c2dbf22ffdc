//! People: asked after what may run has run; an approval counts once, silence is a no.

use std::sync::Arc;

use serde_json::json;

use crate::gate::{DeniedBy, JudgedAction, Verdict};
use crate::repeats::{CallFacts, Fingerprint, Rules};
use crate::run::event::PersonAnswer;
use crate::run::note::Note;
use crate::run::phase::{Ask, Batch, Phase, Purpose, Work};
use crate::run::{Rejected, Run};
use crate::types::{
    Arguments, CommandKey, Digest, Effect, Instruction, Millis, Observation, Status, digest, is_invisible,
};

/// An action that waits for a person, with all that they have to know to decide (K8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonRequest {
    /// Which action.
    pub key: CommandKey,
    /// The model's own name for it.
    pub id: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// What the tool does to the world.
    pub effect: Effect,
    /// What it would be run with: canonical JSON, exactly. Text that a model wrote: escape it before it is shown.
    pub parameters: Arguments,
    /// Why the model wants it, in its words.
    pub reason: Arc<str>,
    /// Why a person is asked.
    pub why: String,
    /// Whether it is a question, which takes an answer in place of a consent (S4-37).
    pub is_question: bool,
    /// Silence until then is a no.
    pub deadline: Millis,
    /// Names all of this; an answer that carries it counts for nothing else.
    pub binding: Digest,
}

/// Why what a person answered does not count (I-26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// No action of the run has this key.
    #[error("the run has no such action")]
    NoAction,
    /// It was decided without a person, or a person has decided already and the run has gone on.
    #[error("no person is asked about it: its verdict is `{verdict}`")]
    NotRequested {
        /// What was decided.
        verdict: &'static str,
    },
    /// It will be asked about once the other calls of its pass have ended.
    #[error("it is not asked about yet: other calls of its pass still run")]
    NotYet,
    /// A person has answered it; the run still waits for others.
    #[error("it has been answered already")]
    Answered,
    /// The time to answer it is over.
    #[error("its time is over: nobody answered within {limit_ms} ms, which counts as a no")]
    Expired {
        /// How long there was.
        limit_ms: u64,
    },
    /// What was answered has another tool, other arguments, another tool manifest or another policy.
    #[error("what was answered is something else: other arguments, tools or policy than the action has")]
    OtherBinding,
    /// It is a question, and a consent says nothing to it.
    #[error("it is a question: it takes an answer, or a denial")]
    IsQuestion,
    /// It is no question, and a text says nothing to it.
    #[error("it is no question: it takes an approval or a denial")]
    IsNoQuestion,
    /// Nothing was said.
    #[error("the answer is empty")]
    Empty,
}

impl Run {
    /// Names an action as a person sees it before they allow it: the run, the action's key, its tool and parameters,
    /// the tool manifest and the policy. Nothing for an action that there is not (K8).
    pub fn binding(&self, key: &CommandKey) -> Option<Digest> {
        self.action(key).map(|action| self.binding_of(action))
    }

    /// What waits for a person, in the order in which it was asked for.
    pub fn requested(&self) -> Vec<PersonRequest> {
        let Phase::WaitingForPerson { asks, .. } = &self.state.phase else {
            return Vec::new();
        };
        let open = asks.iter().filter(|ask| !ask.answered);
        open.filter_map(|ask| {
            let action = self.state.calls.actions.get(ask.action as usize)?;
            let tool = self.spec.tool(action.tool_name())?;
            Some(PersonRequest {
                key: action.key,
                id: Arc::clone(&action.action.id),
                tool: Arc::clone(&tool.name),
                effect: tool.effect,
                parameters: action.parameters.clone(),
                reason: Arc::clone(&action.action.reason),
                why: action.verdict.reason(),
                is_question: tool.policy.asks_person,
                deadline: ask.deadline,
                binding: self.binding_of(action),
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
        let action = self.action(key).ok_or(AnswerFault::NoAction)?;
        let ask = self.ask_of(key).ok_or_else(|| self.why_not_requested(action))?;
        if ask.answered {
            return Err(AnswerFault::Answered);
        }
        if at >= ask.deadline {
            return Err(AnswerFault::Expired { limit_ms: self.spec.limits.person_ms });
        }
        if binding.is_some_and(|binding| *binding != self.binding_of(action)) {
            return Err(AnswerFault::OtherBinding);
        }
        match (answer, self.is_question(action)) {
            (PersonAnswer::Approved, true) => Err(AnswerFault::IsQuestion),
            (PersonAnswer::Answered { .. }, false) => Err(AnswerFault::IsNoQuestion),
            (PersonAnswer::Answered { text }, true) if text.trim().is_empty() => Err(AnswerFault::Empty),
            (PersonAnswer::Answered { .. }, true)
            | (PersonAnswer::Approved, false)
            | (PersonAnswer::Denied { .. }, _) => Ok(()),
        }
    }

    /// What people told the run, in their order.
    pub fn instructions(&self) -> &[Instruction] {
        self.state.inbox.instructions()
    }

    /// What people told the run for this pass alone: what its prompt holds and no prompt before it did.
    pub fn instructions_for(&self, pass: u32) -> impl Iterator<Item = &Instruction> {
        self.state.inbox.instructions_for(pass).iter()
    }

    fn action(&self, key: &CommandKey) -> Option<&JudgedAction> {
        self.state.calls.action(key)
    }

    fn binding_of(&self, action: &JudgedAction) -> Digest {
        let started = &self.state.started;
        let what = json!([
            started.run,
            action.key.to_string(),
            action.tool_name(),
            action.parameters,
            started.tools,
            started.policy
        ]);
        digest("approval", &what)
    }

    fn ask_of(&self, key: &CommandKey) -> Option<&Ask> {
        let Phase::WaitingForPerson { asks, .. } = &self.state.phase else {
            return None;
        };
        let is_it = |ask: &&Ask| {
            self.state.calls.actions.get(ask.action as usize).is_some_and(|action| action.key == *key)
        };
        asks.iter().find(is_it)
    }

    fn why_not_requested(&self, action: &JudgedAction) -> AnswerFault {
        let waits = self.state.phase.batch().is_some_and(|batch| {
            let mut asks = batch.asks.iter().filter_map(|at| self.state.calls.actions.get(*at as usize));
            asks.any(|requested| requested.key == action.key)
        });
        if waits && self.state.phase.is_working() {
            AnswerFault::NotYet
        } else {
            AnswerFault::NotRequested { verdict: action.verdict.name() }
        }
    }

    fn is_question(&self, action: &JudgedAction) -> bool {
        self.spec.tool(action.tool_name()).is_some_and(|tool| tool.policy.asks_person)
    }

    /// Whether the run can be told this: a pass that could read it is still to come.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn takes_instruction(&self, text: &str) -> Result<(), Rejected> {
        let is_last = match &self.state.phase {
            // What the last call was tried with, it is tried with again.
            Phase::Calling { call, purpose: Purpose::Final { .. } } => {
                call.started.is_some() || call.attempt > 1
            }
            phase => !phase.is_working(),
        };
        if is_last {
            return self.out_of_order("instruction");
        }
        if text.trim().is_empty() { Err(Rejected::EmptyInstruction) } else { Ok(()) }
    }

    /// Keeps what a person says for the next pass whose call has not been announced: a prompt that was named already
    /// stays as it is.
    pub(super) fn take_instruction(&mut self, text: &Arc<str>) -> Result<(), Rejected> {
        self.takes_instruction(text)?;
        let announced = self.state.phase.main_call().is_some_and(|call| call.started.is_some());
        let from_pass = self.state.draft.passes.len() as u32 + 1 + u32::from(announced);
        if self.spec.protocol.properties().has_contract {
            self.state.knowledge.echoes.read(text);
        }
        self.state.inbox.keep(from_pass, text);
        Ok(())
    }

    pub(super) fn person_answered(
        &mut self,
        key: &CommandKey,
        answer: &PersonAnswer,
        binding: Option<&Digest>,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let answered = |why| Rejected::Answer { key: *key, why };
        self.may_answer(self.state.clock.now, key, answer, binding).map_err(answered)?;
        let Phase::WaitingForPerson { asks, .. } = &mut self.state.phase else {
            return self.out_of_order("person_answered");
        };
        // They stand in the order of their keys.
        let requested = self.state.calls.at(key);
        let open = asks.iter_mut().find(|ask| Some(ask.action as usize) == requested);
        let (Some(ask), Some(action)) = (open, requested.and_then(|at| self.state.calls.actions.get_mut(at)))
        else {
            return self.out_of_order("person_answered");
        };
        ask.answered = true;
        action.verdict = match answer {
            PersonAnswer::Approved => Verdict::Run,
            PersonAnswer::Answered { text } => {
                ask.answer = Some(Arc::clone(text));
                Verdict::Run
            }
            PersonAnswer::Denied { why } => Verdict::Denied { why: Arc::clone(why), by: DeniedBy::Person },
        };
        notes.push(Note::ActionJudged(action.clone()));
        self.asks_settled(notes);
        Ok(())
    }

    /// Takes silence as a no for every question whose time is over.
    pub(super) fn expire_asks(&mut self, notes: &mut Vec<Note>) {
        let Phase::WaitingForPerson { asks, .. } = &mut self.state.phase else {
            return;
        };
        for ask in asks.iter_mut().filter(|ask| !ask.answered && ask.deadline <= self.state.clock.now) {
            ask.answered = true;
            if let Some(action) = self.state.calls.actions.get_mut(ask.action as usize) {
                action.verdict =
                    Verdict::Denied { why: "nobody answered in time".into(), by: DeniedBy::Silence };
                notes.push(Note::ActionJudged(action.clone()));
            }
        }
        self.asks_settled(notes);
    }

    /// Once all are answered, what was approved runs and what was not is observed as denied; then comes the next
    /// pass.
    fn asks_settled(&mut self, notes: &mut Vec<Note>) {
        let Phase::WaitingForPerson { asks, since } = &self.state.phase else {
            return;
        };
        let since = *since;
        if asks.iter().any(|ask| !ask.answered) {
            return;
        }
        let requested: Vec<(u32, Option<Arc<str>>)> =
            asks.iter().map(|ask| (ask.action, ask.answer.clone())).collect();
        self.count_waiting(since);
        let batch = self.take_answers(requested, notes);
        self.act(batch, notes);
    }

    /// Makes a batch of actions that were answered, each with the answer to what is a question: what was approved is to be
    /// run, the rest has settled.
    pub(super) fn take_answers(
        &mut self,
        requested: Vec<(u32, Option<Arc<str>>)>,
        notes: &mut Vec<Note>,
    ) -> Batch {
        let mut batch = Batch::default();
        for (index, answer) in requested {
            let evidence = self.state.knowledge.next_id(batch.work.len());
            let Some(action) = self.state.calls.actions.get_mut(index as usize) else {
                continue;
            };
            action.evidence = Some(evidence);
            let Some(tool) = action.tool.as_deref().and_then(|name| self.spec.tool(name)) else {
                continue;
            };
            let parameters = action.parameters.value().cloned().unwrap_or_default();
            let rules = Rules::of_run(&self.spec);
            let fingerprint = Fingerprint::of(&CallFacts::of(tool, &parameters), &rules);
            let signature = fingerprint.signature();
            let (key, attempt) = self.state.calls.ledger.next_try(&signature).unwrap_or((action.key, 1));
            self.state.calls.ledger.started(&fingerprint, key, attempt, evidence);
            let observation = match (&action.verdict, answer) {
                (_, Some(text)) => {
                    notes.push(Note::ActionSettled { key, evidence, status: Status::Ok });
                    Some(answer_of(&text))
                }
                (Verdict::Denied { why, .. }, None) => {
                    notes.push(Note::ActionSettled { key, evidence, status: Status::Denied });
                    Some(Observation::failed(Status::Denied, action.tool_name(), why))
                }
                (
                    Verdict::Run
                    | Verdict::Kept
                    | Verdict::UnknownTool { .. }
                    | Verdict::InvalidArguments { .. }
                    | Verdict::Duplicate { .. }
                    | Verdict::Skipped
                    | Verdict::NeedsPerson { .. }
                    | Verdict::OverLimit { .. }
                    | Verdict::BreakerOpen { .. }
                    | Verdict::OneAtATime
                    | Verdict::Ended { .. },
                    None,
                ) => {
                    self.state.budget.totals.tool_calls += 1;
                    self.state.calls.ledger.allowed(&signature);
                    None
                }
            };
            if let Some(observation) =
                observation.as_ref().filter(|_| self.spec.protocol.properties().has_contract)
            {
                self.state.knowledge.echoes.read_observation(observation);
            }
            batch.work.push(Work {
                key,
                attempt,
                action: index,
                evidence,
                signature,
                announced: false,
                sub_call: None,
                observation,
                poll: None,
                lost: 0,
            });
        }
        batch
    }

    /// The questions that a person has answered while others wait, as a batch that has settled.
    pub(super) fn answers_so_far(&mut self, notes: &mut Vec<Note>) -> Option<Batch> {
        let Phase::WaitingForPerson { asks, .. } = &self.state.phase else {
            return None;
        };
        let answered = asks.iter().filter(|ask| ask.answer.is_some());
        let answered: Vec<_> = answered.map(|ask| (ask.action, ask.answer.clone())).collect();
        (!answered.is_empty()).then(|| self.take_answers(answered, notes))
    }

    /// Takes the time since `since` out of the wall clock: it was spent waiting for a person.
    pub(super) fn count_waiting(&mut self, since: Millis) {
        let waited = self.state.clock.now.since(since);
        self.state.clock.leave_out(waited);
    }
}

/// A person's answer as what its question returned: their words, and that they are a person's.
fn answer_of(text: &str) -> Observation {
    let is_plain = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c));
    let text: String = text.chars().filter(is_plain).collect();
    let data = json!({ "answer": text, "by": "person" });
    Observation::new(Status::Ok, "a person answered", text, data)
}
