//! Attempts at an output: begun, ended by an output, validated, begun again (S2-14).

use std::sync::Arc;

use crate::gate::{
    self, Certificate, Change, Condition, JudgedAction, Measure, StopReason, Verdict, manual_stop,
};
use crate::reply::Ending;
use crate::run::draft::{Attempt, AttemptState, Partial};
use crate::run::event::Validation;
use crate::run::model_calls::ATTEMPTS;
use crate::run::note::Note;
use crate::run::outcome::Rejection;
use crate::run::phase::Phase;
use crate::run::{Rejected, Run};
use crate::spec::Setting;
use crate::spec::{RepeatScope, Repeats};
use crate::types::{CommandKey, Evidence, EvidenceId, Slot, Status};

impl Run {
    /// The attempts at an output so far; none in other protocols.
    pub fn attempts(&self) -> &[Attempt] {
        &self.state.draft.attempts
    }

    /// Begins an attempt, where the protocol has some and none is open.
    pub(super) fn open_attempt(&mut self, notes: &mut Vec<Note>) {
        if self.spec.protocol.output().is_none() {
            return;
        }
        let is_open = |attempt: &Attempt| !matches!(attempt.state, AttemptState::Rejected(_));
        if self.state.draft.attempts.last().is_some_and(is_open) {
            return;
        }
        if self.spec.repeats() == Repeats::Reuse || self.spec.gate.scope == RepeatScope::Attempt {
            self.state.calls.ledger.new_scope();
        }
        let pass = self.state.draft.passes.len() as u32 + 1;
        self.state.draft.attempts.push(Attempt { from_pass: pass, output: None, state: AttemptState::Open });
        notes.push(Note::AttemptBegan { attempt: self.state.draft.attempts.len() as u32, pass });
    }

    /// The passes of the attempt so far, and how many it may take.
    pub(super) fn attempt_passes(&self) -> Option<(u32, u32)> {
        let limit = self.spec.protocol.output()?.passes_per_attempt;
        let before = self.state.draft.attempts.last()?.from_pass.saturating_sub(1);
        Some(((self.state.draft.passes.len() as u32).saturating_sub(before), limit))
    }

    /// Keeps what a reply ends with: an answer, or the last output.
    pub(super) fn take_ending(&mut self, ending: &Ending, last: Option<Arc<str>>) {
        if let Ending::Answer(text) | Ending::Cut(text) = ending
            && !text.is_empty()
        {
            self.state.draft.answer = Some(Arc::clone(text));
        }
        if let (Some(attempt), Some(last)) = (self.state.draft.attempts.last_mut(), last) {
            attempt.output = Some(last);
        }
    }

    /// Whether a call of the output tool was answered by its schema that it does not fit, or repeats one that was.
    pub(super) fn is_violation(&self, judged: &JudgedAction) -> bool {
        let settled = match &judged.verdict {
            Verdict::Duplicate { of, evidence: None, .. } => {
                self.state.knowledge.evidence.iter().rev().find(|evidence| evidence.key == *of)
            }
            Verdict::Duplicate { evidence: Some(id), .. } => self.evidence_of(*id),
            _ => judged.evidence.and_then(|id| self.evidence_of(id)),
        };
        settled.is_some_and(|evidence| evidence.observation.status == Status::InvalidInput)
    }

    /// Takes back an output whose tool has said that it does not fit: the last one before it stands again (S2-d2).
    /// `first` is where the evidence begins that has just come.
    pub(super) fn take_back_schema_violations(&mut self, first: usize) {
        let Some(output) = self.spec.protocol.output().filter(|output| output.submit.is_some()) else {
            return;
        };
        let is_violation = |evidence: &Evidence| {
            evidence.tool == output.tool && evidence.observation.status == Status::InvalidInput
        };
        let settled = self.state.knowledge.evidence.get(first..).unwrap_or_default();
        let Some(attempt) = self.state.draft.attempts.last() else { return };
        if !settled.iter().any(is_violation) {
            return;
        }
        let of_attempt = |action: &&JudgedAction| action.key.pass >= attempt.from_pass;
        let sound = self.state.calls.actions.iter().rev().take_while(of_attempt).find(|action| {
            action.tool.as_ref() == Some(&output.tool)
                && gate::counts(action, |judged| self.is_violation(judged))
        });
        let sound = sound.map(|action| Arc::clone(action.action.parameters.text()));
        if let Some(attempt) = self.state.draft.attempts.last_mut() {
            attempt.output = sound;
        }
    }

    /// Why the run ends where an attempt was submitted with an output that was taken back, and there is no other.
    pub(super) fn submitted_nothing(&self) -> Option<Certificate> {
        let is_nothing = |attempt: &&Attempt| attempt.state == AttemptState::Ends && attempt.output.is_none();
        self.state.draft.attempts.last().filter(is_nothing)?;
        let reached = gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms());
        Certificate::of(std::iter::once(gate::submit_before_output()).chain(reached))
    }

    /// Keeps what came of a reply that failed midway. It is no answer: one may still be asked for.
    pub(super) fn take_partial(&mut self, pass: u32, ending: &Ending) {
        if let Ending::Answer(text) | Ending::Cut(text) = ending {
            self.state.draft.partial = Some(Partial { pass, text: Arc::clone(text) });
        }
    }

    /// The output that is to be validated now, if an attempt has ended with one.
    pub(super) fn validates(&mut self) -> bool {
        let ended = self.state.draft.attempts.last().filter(|attempt| attempt.state == AttemptState::Ends);
        let Some(output) = ended.and_then(|attempt| attempt.output.clone()) else { return false };
        let key = CommandKey::new(self.state.draft.passes.len() as u32, Slot::Validate);
        self.state.phase = Phase::Validating { key, attempt: 1, output };
        true
    }

    pub(super) fn validated(
        &mut self,
        key: &CommandKey,
        attempt: u32,
        result: &Validation,
        notes: &mut Vec<Note>,
    ) -> Result<(), Rejected> {
        let Phase::Validating { key: open, attempt: tried, .. } = &self.state.phase else {
            return self.out_of_order("validated");
        };
        if open != key || *tried != attempt {
            return Err(self.not_open("validated", key, attempt));
        }
        let number = self.state.draft.attempts.len() as u32;
        let requested = self.state.inbox.stop_requested.map(manual_stop);
        let plain = |reason, value| Condition { reason, value, threshold: None, change: None };
        let ends = match result {
            Validation::Valid => {
                self.set_attempt(AttemptState::Valid);
                let missing = self.missing();
                let what = Measure::Text("the output is valid".into());
                Some(match missing.is_empty() {
                    true => plain(StopReason::Completed, what),
                    // A required tool was asked for beside the output, and returned nothing.
                    false => gate::evidence_missing(missing),
                })
            }
            Validation::Broken { by, message } => {
                let what = Measure::BrokenCheck(format!("{by}: {message}").into());
                Some(plain(StopReason::ToolFailure, what))
            }
            Validation::Invalid { by, message } => {
                let (by, message) = (Arc::clone(by), Arc::clone(message));
                notes.push(Note::OutputRejected {
                    attempt: number,
                    by: Arc::clone(&by),
                    message: Arc::clone(&message),
                });
                self.set_attempt(AttemptState::Rejected(Rejection { by, message }));
                self.no_attempt_left(number)
            }
        };
        let is_rejected = matches!(result, Validation::Invalid { .. });
        let reached = if is_rejected {
            gate::limits_reached(&self.spec.limits, &self.state.budget.totals, self.elapsed_ms())
        } else {
            Vec::new()
        };
        match Certificate::of(requested.into_iter().chain(ends).chain(reached)) {
            Some(certificate) => self.stop(certificate, notes),
            None => self.next_pass(notes),
        }
        Ok(())
    }

    /// A validation whose driver is gone is made once more.
    pub(super) fn lose_validation(&mut self, notes: &mut Vec<Note>) {
        let Phase::Validating { key, attempt, .. } = &mut self.state.phase else { return };
        notes.push(Note::Lost { key: *key, attempt: *attempt });
        if *attempt < ATTEMPTS {
            *attempt += 1;
            return;
        }
        let value = Measure::BrokenCheck(
            format!("validation: the program ended while it ran, {ATTEMPTS} times").into(),
        );
        let lost = Condition { reason: StopReason::ToolFailure, value, threshold: None, change: None };
        let requested = self.state.inbox.stop_requested.map(manual_stop);
        if let Some(certificate) = Certificate::of(requested.into_iter().chain([lost])) {
            self.stop(certificate, notes);
        }
    }

    fn evidence_of(&self, id: EvidenceId) -> Option<&Evidence> {
        self.state.knowledge.find(id)
    }

    fn set_attempt(&mut self, state: AttemptState) {
        if let Some(attempt) = self.state.draft.attempts.last_mut() {
            attempt.state = state;
        }
    }

    /// The condition that the last attempt has failed.
    fn no_attempt_left(&self, number: u32) -> Option<Condition> {
        let limit = self.spec.protocol.output().map_or(0, |output| output.attempts);
        let count = |n: u32| Measure::Count(n.into());
        let to = count(number.saturating_add(1));
        (number >= limit).then(|| Condition {
            reason: StopReason::MaxAttempts,
            value: count(number),
            threshold: Some(count(limit)),
            change: Some(Change { setting: Setting::Attempts, to }),
        })
    }
}
