//! People: asked after what may run has run; an approval counts once, silence is a no.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::action::Verdict;
use crate::canonical::digest;
use crate::event::PersonAnswer;
use crate::ids::{CommandKey, Digest, EvidenceId, Millis};
use crate::ledger::{Ledger, Standing};
use crate::note::Note;
use crate::observation::{Observation, Status};
use crate::run::{Batch, Phase, Rejected, Run, Work};

/// What a person told a run while it was on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Told {
    /// The first pass whose prompt holds it.
    pub from_pass: u32,
    /// What they said.
    pub text: Arc<str>,
}

impl Run {
    /// Names an action as a person sees it before they allow it: the run, the action's key, its tool and parameters,
    /// the tool manifest and the policy. Nothing for an action that there is not (K8).
    pub fn binding(&self, key: &CommandKey) -> Option<Digest> {
        let action = self.state.actions.iter().find(|action| action.key == *key)?;
        let started = &self.state.started;
        let what = json!([
            started.run,
            key.to_string(),
            action.tool_name(),
            action.parameters,
            started.tools,
            started.policy
        ]);
        Some(digest("approval", &what))
    }

    /// Keeps what a person says for the next pass whose call has not been announced.
    pub(super) fn told(&mut self, text: &Arc<str>) -> Result<(), Rejected> {
        if !self.state.phase.is_working() {
            return self.out_of_order("told");
        }
        let from_pass = self.state.passes.len() as u32 + 1;
        self.state.told.push(Told { from_pass, text: Arc::clone(text) });
        Ok(())
    }

    pub(super) fn person_answered(
        &mut self,
        key: &CommandKey,
        answer: &PersonAnswer,
        binding: Option<&Digest>,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let not_open = self.not_open("person_answered", key, 1);
        let bound = binding.is_none_or(|binding| self.binding(key).as_ref() == Some(binding));
        let Phase::WaitingForPerson { asks, .. } = &mut self.state.phase else {
            return self.out_of_order("person_answered");
        };
        let now = self.state.now;
        let asked = self.state.actions.iter().position(|action| action.key == *key);
        let open = asks
            .iter_mut()
            .filter(|_| bound)
            .find(|ask| Some(ask.action as usize) == asked && !ask.answered && now < ask.deadline);
        let (Some(ask), Some(action)) = (open, asked.and_then(|at| self.state.actions.get_mut(at))) else {
            return Err(not_open);
        };
        ask.answered = true;
        action.verdict = match answer {
            PersonAnswer::Approved | PersonAnswer::Answered { .. } => Verdict::Run,
            PersonAnswer::Denied { why } => Verdict::Denied { why: Arc::clone(why) },
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
        for ask in asks.iter_mut().filter(|ask| !ask.answered && ask.deadline <= self.state.now) {
            ask.answered = true;
            if let Some(action) = self.state.actions.get_mut(ask.action as usize) {
                action.verdict = Verdict::Denied { why: "nobody answered in time".into() };
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
        let asked: Vec<u32> = asks.iter().map(|ask| ask.action).collect();
        self.count_waiting(since);
        let mut batch = Batch::default();
        for index in asked {
            let evidence = EvidenceId((self.state.evidence.len() + batch.work.len()) as u32 + 1);
            let Some(action) = self.state.actions.get_mut(index as usize) else {
                continue;
            };
            action.evidence = Some(evidence);
            let tool = action.tool.as_deref().and_then(|name| self.spec.tool(name));
            let parameters = serde_json::from_str(&action.parameters).unwrap_or_default();
            let signature = Ledger::signature(action.tool_name(), &parameters);
            let tries = tool.map_or(1, |tool| tool.attempts);
            let (key, attempt) = match self.state.ledger.standing(&signature, tries) {
                Standing::Again { key, attempt } => (key, attempt),
                Standing::New | Standing::Done { .. } => (action.key, 1),
            };
            self.state.ledger.started(signature, key, attempt, evidence);
            let observation = match &action.verdict {
                Verdict::Denied { why } => {
                    self.state.ledger.settled(&signature, key, attempt, Status::Denied);
                    notes.push(Note::ActionSettled { key, evidence, status: Status::Denied });
                    Some(Observation::failed(Status::Denied, action.tool_name(), why))
                }
                Verdict::Run
                | Verdict::Kept
                | Verdict::UnknownTool { .. }
                | Verdict::InvalidArguments { .. }
                | Verdict::Duplicate { .. }
                | Verdict::Skipped
                | Verdict::NeedsPerson { .. }
                | Verdict::OverLimit { .. } => {
                    self.state.totals.tool_calls += 1;
                    None
                }
            };
            batch.work.push(Work {
                key,
                attempt,
                action: index,
                evidence,
                signature,
                announced: false,
                sub_call: None,
                observation,
            });
        }
        self.act(batch, notes);
    }

    /// Takes the time since `since` out of the wall clock: it was spent waiting for a person.
    pub(super) fn count_waiting(&mut self, since: Millis) {
        let waited = self.state.now.since(since);
        self.state.uncounted_ms = self.state.uncounted_ms.saturating_add(waited);
    }
}
