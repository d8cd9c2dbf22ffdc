//! Approvals and questions: a person is asked after all other calls of the pass have settled. An approval counts once,
//! and no answer is a denial.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::gate::{DeniedBy, JudgedAction, Verdict};
use crate::repeats::{CallFacts, Fingerprint, Rules};
use crate::run::calls::{Calls, Work};
use crate::run::event::{PersonAnswer, Started};
use crate::run::note::Note;
use crate::run::phase::{Ask, Batch, Phase, Purpose, Stage};
use crate::run::rejected::AnswerFault;
use crate::run::rest::RunParts;
use crate::spec::{RunSpec, ToolSpec};
use crate::types::{Approver, CommandKey, Digest, Millis, Observation, Slot, Status, cleaned, digest};

/// The data against which a person's answer is validated.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerContext<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) started: &'a Started,
    pub(super) calls: &'a Calls,
    /// The actions that a person is asked about now.
    pub(super) asks: &'a [Ask],
    /// Indices of the actions that a person will be asked about later.
    pub(super) later: &'a [u32],
}

impl AnswerContext<'_> {
    /// The index of the request that an answer settles.
    ///
    /// # Errors
    /// Why the answer does not count at the instant `at`.
    pub(super) fn answers(
        &self,
        at: Millis,
        key: &CommandKey,
        answer: &PersonAnswer,
        binding: Option<&Digest>,
    ) -> Result<usize, AnswerFault> {
        let place = self.open(at, key, binding);
        if let Err(fault) = place
            && fault != AnswerFault::NotYet
        {
            return Err(fault);
        }
        let tool = self.calls.action(key).and_then(|action| self.spec.tool(action.tool_name()));
        let people = self.spec.gate.approvals;
        match (answer, tool.is_some_and(|tool| tool.policy.asks_person)) {
            (PersonAnswer::Approved, false) if people > 1 => return Err(AnswerFault::Unnamed { people }),
            _ => fits(tool, answer)?,
        }
        // Last, so that an answer that is kept until then has nothing else against it.
        place
    }

    /// The index of the request that a known person approves.
    ///
    /// # Errors
    /// Why the approval does not count at the instant `at`.
    pub(super) fn approves(
        &self,
        at: Millis,
        key: &CommandKey,
        by: &Approver,
        binding: Option<&Digest>,
    ) -> Result<usize, AnswerFault> {
        let place = self.open(at, key, binding);
        if let Err(fault) = place
            && fault != AnswerFault::NotYet
        {
            return Err(fault);
        }
        let tool = self.calls.action(key).and_then(|action| self.spec.tool(action.tool_name()));
        fits(tool, &PersonAnswer::Approved)?;
        let people = self.spec.gate.approvals;
        if people > 1 && by.account.is_empty() {
            return Err(AnswerFault::Unnamed { people });
        }
        let place = place?;
        let mut approvers = self.asks.get(place).into_iter().flat_map(|ask| &ask.approvers);
        if people > 1 && approvers.any(|before| before.account == by.account) {
            return Err(AnswerFault::SamePerson { people });
        }
        Ok(place)
    }

    /// The index of the request about an action that is open at the instant `at`.
    fn open(&self, at: Millis, key: &CommandKey, binding: Option<&Digest>) -> Result<usize, AnswerFault> {
        let action = self.calls.action(key).ok_or(AnswerFault::NoAction)?;
        let is_other = binding.is_some_and(|binding| *binding != self.binding_of(action));
        let is_it = |index: u32| self.calls.actions.get(index as usize).is_some_and(|it| it.key == *key);
        let Some(place) = self.asks.iter().position(|ask| is_it(ask.action)) else {
            let waits = self.later.iter().any(|index| is_it(*index));
            let verdict = action.verdict.name();
            return Err(match waits {
                true if is_other => AnswerFault::OtherBinding,
                true => AnswerFault::NotYet,
                false => AnswerFault::NotRequested { verdict },
            });
        };
        let ask = self.asks.get(place).ok_or(AnswerFault::NoAction)?;
        if ask.answered {
            return Err(AnswerFault::Answered);
        }
        if let Some(limit_ms) = self.spec.limits.person_ms.filter(|_| ask.is_over(at)) {
            return Err(AnswerFault::Expired { limit_ms });
        }
        if is_other { Err(AnswerFault::OtherBinding) } else { Ok(place) }
    }

    pub(super) fn binding_of(&self, action: &JudgedAction) -> Digest {
        let started = self.started;
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
}

/// Whether the answer has the form that the request takes.
fn fits(tool: Option<&ToolSpec>, answer: &PersonAnswer) -> Result<(), AnswerFault> {
    match (answer, tool.is_some_and(|tool| tool.policy.asks_person)) {
        (PersonAnswer::Approved, true) => Err(AnswerFault::IsQuestion),
        (PersonAnswer::Answered { .. }, false) => Err(AnswerFault::IsNoQuestion),
        (PersonAnswer::Answered { text }, true) if text.trim().is_empty() => Err(AnswerFault::Empty),
        (PersonAnswer::Answered { .. }, true)
        | (PersonAnswer::Approved, false)
        | (PersonAnswer::Denied { .. }, _) => Ok(()),
    }
}

impl RunParts<'_> {
    /// Stores an instruction for the next pass whose call has not been announced. The digest of an announced prompt is
    /// journaled, so that prompt does not change.
    pub(super) fn take_instruction(&mut self, phase: &Phase, text: &Arc<str>) {
        let announced =
            matches!(phase, Phase::Calling { call, purpose: Purpose::Main } if call.started.is_some());
        let from_pass = self.draft.passes.len() as u32 + 1 + u32::from(announced);
        if self.spec.protocol.properties().has_contract {
            self.knowledge.echoes.read(text);
        }
        self.inbox.keep(from_pass, text);
    }

    /// Settles one request with a person's answer.
    pub(super) fn person_answered(
        &mut self,
        mut asks: Vec<Ask>,
        since: Millis,
        at: usize,
        answer: &PersonAnswer,
    ) -> Phase {
        if let Some(ask) = asks.get_mut(at) {
            let (verdict, text) = match answer {
                PersonAnswer::Approved => (Verdict::Run, None),
                PersonAnswer::Answered { text } => (Verdict::Run, Some(Arc::clone(text))),
                PersonAnswer::Denied { why } => {
                    (Verdict::Denied { why: Arc::clone(why), by: DeniedBy::Person }, None)
                }
            };
            ask.answer = text;
            self.decide(ask, verdict);
        }
        self.asks_settled(asks, since)
    }

    /// Takes the approval of a known person, which settles the request once enough people have approved it.
    pub(super) fn approved_by(
        &mut self,
        mut asks: Vec<Ask>,
        since: Millis,
        at: usize,
        by: &Approver,
    ) -> Phase {
        if let Some(ask) = asks.get_mut(at) {
            ask.approvers.push(by.clone());
            let enough =
                u32::try_from(ask.approvers.len()).is_ok_and(|people| people >= self.spec.gate.approvals);
            if enough {
                self.decide(ask, Verdict::Run);
            }
        }
        self.asks_settled(asks, since)
    }

    /// Denies every request whose time to answer is over.
    pub(super) fn expire_asks(&mut self, mut asks: Vec<Ask>, since: Millis) -> Phase {
        let now = self.clock.now;
        for ask in asks.iter_mut().filter(|ask| !ask.answered && ask.is_over(now)) {
            self.decide(
                ask,
                Verdict::Denied { why: "nobody answered in time".into(), by: DeniedBy::Silence },
            );
        }
        self.asks_settled(asks, since)
    }

    fn decide(&mut self, ask: &mut Ask, verdict: Verdict) {
        ask.answered = true;
        if let Some(action) = self.calls.actions.get_mut(ask.action as usize) {
            Arc::make_mut(action).verdict = verdict;
            self.notes.push(Note::ActionJudged(Arc::clone(action)));
        }
    }

    /// Once all requests are settled, runs the approved actions and records the denied ones as observations. The next
    /// pass follows.
    fn asks_settled(&mut self, asks: Vec<Ask>, since: Millis) -> Phase {
        if asks.iter().any(|ask| !ask.answered) {
            return Phase::WaitingForPerson { asks, since };
        }
        self.count_waiting(since);
        let batch = self.take_answers(asks);
        self.batch_settled(batch, Stage::Act)
    }

    /// The batch of the settled requests: approved actions are to run, answers and denials are settled observations.
    pub(super) fn take_answers(&mut self, asks: Vec<Ask>) -> Batch {
        let mut batch = Batch::default();
        for Ask { action: index, answer, .. } in asks {
            let evidence = self.knowledge.next_id(batch.work.len());
            let Some(action) = self.calls.actions.get_mut(index as usize) else { continue };
            let action = Arc::make_mut(action);
            action.evidence = Some(evidence);
            let Some(tool) = action.tool.as_deref().and_then(|name| self.spec.tool(name)) else { continue };
            let parameters = action.parameters.value().unwrap_or(&Value::Null);
            let rules = Rules::of_run(self.spec);
            let fingerprint = Fingerprint::of(&CallFacts::of(tool, parameters), &rules);
            let signature = fingerprint.signature();
            let (key, attempt) = self.calls.ledger.next_try(&signature).unwrap_or((action.key, 1));
            self.calls.ledger.started(&fingerprint, key, attempt, evidence);
            if action.verdict == Verdict::Run {
                self.knowledge.take_slot(action, key, Some(tool));
            }
            let observation = match (&action.verdict, answer) {
                (_, Some(text)) => {
                    self.notes.push(Note::ActionSettled { key, evidence, status: Status::Ok });
                    Some(answer_of(&text))
                }
                (Verdict::Denied { why, .. }, None) => {
                    self.notes.push(Note::ActionSettled { key, evidence, status: Status::Denied });
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
                    self.budget.totals.tool_calls += 1;
                    // The service may know the call by the key of the run that started it first.
                    if let Some(foreign) = self.calls.ledger.allowed(&signature) {
                        // Every try of one call keeps its key.
                        let is_first = attempt == 1 && !matches!(key.slot, Slot::Inherited(_));
                        if is_first || !self.calls.foreign.contains_key(&key) {
                            self.calls.foreign.insert(key, foreign);
                        }
                    }
                    None
                }
            };
            if let Some(observation) =
                observation.as_ref().filter(|_| self.spec.protocol.properties().has_contract)
            {
                self.knowledge.echoes.read_observation(observation);
            }
            batch.work.push(Work {
                key,
                attempt,
                action: index,
                evidence,
                signature,
                announced: false,
                sub_call: None,
                lease: None,
                waiting: None,
                observation: observation.map(Arc::new),
                poll: None,
                lost: 0,
            });
        }
        self.grant_leases(&mut batch);
        batch
    }

    /// Excludes the time since `since` from the wall clock, because the run waited for a person.
    pub(super) fn count_waiting(&mut self, since: Millis) {
        let waited = self.clock.now.since(since);
        self.clock.leave_out(waited);
    }
}

/// The observation of a question: the answer, marked as a person's.
fn answer_of(text: &str) -> Observation {
    let text = cleaned(text);
    let data = json!({ "answer": text, "by": "person" });
    Observation::new(Status::Ok, "a person answered", text, data)
}
