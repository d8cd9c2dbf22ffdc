//! Attempts at an output: begun, ended by an output, validated, rejected and begun again.

use std::sync::Arc;

use crate::gate::{self, Certificate, Condition, JudgedAction, Measure, StopReason};
use crate::run::apply::Run;
use crate::run::check::{Cause, CheckResult, CheckSubject, Lack};
use crate::run::draft::{Attempt, AttemptState};
use crate::run::note::Note;
use crate::run::outcome::Rejection;
use crate::run::phase::Phase;
use crate::run::rest::RunParts;
use crate::spec::{RepeatScope, Repeats, Setting};
use crate::types::{Evidence, Status};

impl Run {
    /// The attempts at an output so far. Empty in other protocols.
    pub fn attempts(&self) -> &[Attempt] {
        &self.state.draft.attempts
    }
}

impl RunParts<'_> {
    /// Begins an attempt if the protocol has outputs and no attempt is open.
    pub(super) fn open_attempt(&mut self) {
        if self.spec.protocol.output().is_none() {
            return;
        }
        let is_open = |attempt: &Attempt| !matches!(attempt.state, AttemptState::Rejected(_));
        if self.draft.attempts.last().is_some_and(is_open) {
            return;
        }
        if self.spec.repeats() == Repeats::Reuse || self.spec.gate.scope == RepeatScope::Attempt {
            self.calls.ledger.new_scope();
        }
        let pass = self.draft.passes.len() as u32 + 1;
        self.draft.attempts.push(Attempt { from_pass: pass, output: None, state: AttemptState::Open });
        self.notes.push(Note::AttemptBegan { attempt: self.draft.attempts.len() as u32, pass });
    }

    /// The number of passes of the attempt so far, and its limit. `None`: the protocol has no outputs.
    pub(super) fn attempt_passes(&self) -> Option<(u32, u32)> {
        let limit = self.spec.protocol.output()?.passes_per_attempt;
        let before = self.draft.attempts.last()?.from_pass.saturating_sub(1);
        Some(((self.draft.passes.len() as u32).saturating_sub(before), limit))
    }

    /// Takes back an output whose tool reported a schema violation. The last valid output before it counts again.
    /// `first` is the index of the first evidence that has just settled.
    pub(super) fn take_back_schema_violations(&mut self, first: usize) {
        let Some(output) = self.spec.protocol.output().filter(|output| output.submit.is_some()) else {
            return;
        };
        let is_violation = |evidence: &Evidence| {
            evidence.tool == output.tool && evidence.observation.status == Status::InvalidInput
        };
        let settled = self.knowledge.evidence.get(first..).unwrap_or_default();
        let Some(attempt) = self.draft.attempts.last() else { return };
        if !settled.iter().any(is_violation) {
            return;
        }
        let of_attempt = |action: &&Arc<JudgedAction>| action.key.pass >= attempt.from_pass;
        let sound = self.calls.actions.iter().rev().take_while(of_attempt).find(|action| {
            action.tool.as_ref() == Some(&output.tool)
                && gate::counts(action, |judged| self.knowledge.is_violation(judged))
        });
        let sound = sound.map(|action| Arc::clone(action.action.parameters.text()));
        if let Some(attempt) = self.draft.attempts.last_mut() {
            attempt.output = sound;
        }
    }

    /// The certificate of a run whose attempt was submitted without an output, because the output was taken back.
    /// `None`: the last attempt has an output, or was not submitted.
    pub(super) fn submitted_nothing(&self) -> Option<Certificate> {
        let is_nothing = |attempt: &&Attempt| attempt.state == AttemptState::Ends && attempt.output.is_none();
        self.draft.attempts.last().filter(is_nothing)?;
        Certificate::of(std::iter::once(gate::submit_before_output()).chain(self.limits_reached()))
    }

    /// The phase that validates an output, if an attempt has ended with one.
    pub(super) fn validation(&mut self) -> Option<Phase> {
        let ended = self.draft.attempts.last().filter(|attempt| attempt.state == AttemptState::Ends)?;
        let text = ended.output.clone()?;
        Some(self.check(1, CheckSubject::Output { text }))
    }

    /// Applies the check of an output.
    pub(super) fn output_checked(&mut self, result: &CheckResult) -> Phase {
        let number = self.draft.attempts.len() as u32;
        let mut reached = Vec::new();
        let ends = match result {
            CheckResult::Passed => {
                self.set_attempt(AttemptState::Valid);
                let missing = self.draft.missing(self.spec, self.knowledge, self.started);
                let what = Measure::Text("the output is valid".into());
                Some(match missing.is_empty() {
                    true => Condition::new(StopReason::Completed, what),
                    // A required tool was called in the same reply as the output, and returned nothing.
                    false => gate::evidence_missing(missing),
                })
            }
            CheckResult::Broken { by, message } => {
                let what = Measure::BrokenCheck(format!("{by}: {message}").into());
                Some(Condition::new(StopReason::ToolFailure, what))
            }
            CheckResult::Failed { lacks } => {
                let Rejection { by, message } = rejection(lacks);
                self.notes.push(Note::OutputRejected {
                    attempt: number,
                    by: Arc::clone(&by),
                    message: Arc::clone(&message),
                });
                self.set_attempt(AttemptState::Rejected(Rejection { by, message }));
                reached = self.limits_reached();
                self.no_attempt_left(number)
            }
        };
        let place = self.validating();
        match Certificate::of(self.requested_stop().into_iter().chain(ends).chain(reached)) {
            Some(certificate) => self.stop(place, certificate),
            None => self.next_pass(place),
        }
    }

    fn set_attempt(&mut self, state: AttemptState) {
        if let Some(attempt) = self.draft.attempts.last_mut() {
            attempt.state = state;
        }
    }

    /// The condition that the last permitted attempt has failed. `None`: another one is permitted.
    fn no_attempt_left(&self, number: u32) -> Option<Condition> {
        let limit = self.spec.protocol.output().map_or(0, |output| output.attempts);
        let to = number.saturating_add(1);
        (number >= limit)
            .then(|| Condition::at_limit(StopReason::MaxAttempts, number, limit, Setting::Attempts, to))
    }
}

/// Why an output is rejected: by the first checker that says so, with all that it says.
fn rejection(lacks: &[Lack]) -> Rejection {
    let said = lacks.iter().filter_map(|lack| match &lack.cause {
        Cause::Own { by, message } => Some((by, message)),
        Cause::Contradicted | Cause::WrongCitation | Cause::NoSuchEvidence => None,
    });
    let Some((by, _)) = said.clone().next() else {
        return Rejection { by: "check".into(), message: "it lacks something".into() };
    };
    let messages: Vec<&str> = said.filter(|(of, _)| *of == by).map(|(_, message)| &**message).collect();
    Rejection { by: Arc::clone(by), message: messages.join("\n").into() }
}
