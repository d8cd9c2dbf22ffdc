//! Drives a run in virtual time: a test says what happens, and the core's invariants are checked after each event.

use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::invariants::{Checker, Transition};
use loop_core::reply::Reply;
use loop_core::run::{
    CallModel, CheckResult, CheckWhat, NotTakenOver, Parent, PersonAnswer, Phase, PromptSize, RunTool,
    SaveResult, State, StopMode, Takeover,
};
use loop_core::spec::SpecNames;
use loop_core::types::{
    Approver, CommandKey, Digest, EvidenceId, Millis, ModelFailure, Observation, RunId, Status, SubCallUse,
};
use loop_core::{
    Command, Event, EventKind, Facts, Note, Outcome, Rejected, Run, RunSpec, StopReason, WorkItem,
};
use serde_json::{Value, json};

use crate::share::is_stored;
use crate::{DraftReply, NONCE, PROMPT, announced, found, is_sound, key, observed, reread, saved_at, text};

/// A run, its clock, and its journal with the state after every event.
#[derive(Clone, Debug)]
pub struct World {
    /// The run.
    pub run: Run,
    /// Milliseconds since its start, at which the next event happens.
    pub now: u64,
    /// The spec that it was started with.
    pub spec: Arc<RunSpec>,
    /// Each event with its notes and the state after it, the first event included.
    pub journal: Vec<(Event, Vec<Note>, State)>,
    /// Checks the core's invariants along the way.
    pub checker: Checker,
    /// Whether invariants are checked after each event.
    is_checked: bool,
}

impl World {
    /// The same without checks of invariants from here on, which read the whole run after each event. For long runs of
    /// which something else is measured.
    pub fn unchecked(self) -> Self {
        Self { is_checked: false, ..self }
    }

    /// Starts a run with this id at instant 0.
    #[track_caller]
    pub fn start(id: &str, spec: Arc<RunSpec>, item: WorkItem, facts: Facts) -> Self {
        let (run, first, notes) = Run::start(RunId::new(id), Arc::clone(&spec), item, facts);
        let (checker, violations) = Checker::start(&run, &notes);
        assert!(violations.is_empty(), "{violations:#?}");
        let journal = vec![(first, notes, run.state().clone())];
        let world = Self { now: 0, journal, run, spec, checker, is_checked: true };
        world.check_invariants();
        world
    }

    /// The world as it was after this many events, the first one included.
    ///
    /// # Panics
    /// There were fewer events, or `events` is 0.
    pub fn cut(&self, events: usize) -> Self {
        let journal = self.journal.get(..events).expect("there were as many events").to_vec();
        let ((first, ..), later) = journal.split_first().expect("the first event is kept");
        let (mut run, notes) =
            Run::open(first, Arc::clone(&self.spec)).expect("the first event opens the run");
        let (mut checker, _) = Checker::start(&run, &notes);
        for (event, ..) in later {
            let before = run.clone();
            let notes = run.apply(event).expect("what was accepted is accepted again");
            checker.step(&Transition { before: &before, event, notes: &notes, after: &run });
        }
        let now = run.now().0;
        Self { run, now, spec: Arc::clone(&self.spec), journal, checker, is_checked: self.is_checked }
    }

    /// The run after the first `length` events.
    #[track_caller]
    pub fn run_after(&self, length: usize) -> Run {
        let (_, _, state) = self.journal.get(length - 1).expect("the journal is as long as that");
        Run::restore(state.clone(), Arc::clone(&self.spec)).expect("a state of this run")
    }

    /// A fork that begins after the first `length` events, under another spec.
    ///
    /// # Errors
    /// The run cannot be forked there.
    #[track_caller]
    pub fn forked_under(&self, length: usize, spec: RunSpec) -> Result<Self, NotTakenOver> {
        let before = self.run_after(length);
        let later = self.journal.iter().skip(length).map(|(event, ..)| event);
        let parent = before.fork(length as u64, later)?;
        self.continued(&before, parent, "fork", spec)
    }

    /// A fork with the same spec.
    ///
    /// # Errors
    /// The run cannot be forked there.
    #[track_caller]
    pub fn forked(&self, length: usize) -> Result<Self, NotTakenOver> {
        self.forked_under(length, (*self.spec).clone())
    }

    /// A retry of the run, which must have ended.
    ///
    /// # Errors
    /// The run cannot be retried.
    #[track_caller]
    pub fn retried(&self) -> Result<Self, NotTakenOver> {
        let parent = self.run.retry(self.journal.len() as u64)?;
        self.continued(&self.run, parent, "retry", (*self.spec).clone())
    }

    /// A run with what can be salvaged of this one after the first `length` events.
    ///
    /// # Errors
    /// Nothing is left to continue.
    #[track_caller]
    pub fn salvaged(&self, length: usize, lost: bool) -> Result<Self, NotTakenOver> {
        let before = self.run_after(length);
        let parent = before.salvage(length as u64, lost)?;
        self.continued(&before, parent, "salvage", (*self.spec).clone())
    }

    #[track_caller]
    fn continued(&self, of: &Run, parent: Parent, id: &str, spec: RunSpec) -> Result<Self, NotTakenOver> {
        let spec = Arc::new(spec);
        let id = RunId::new(format!("{}/{id}", of.id()));
        let (names, before) = (SpecNames::of(&spec), of.started());
        let facts = Facts {
            unix_ms: before.unix_ms + 86_400_000,
            // A fork keeps the nonce of its parent, whatever it is given.
            nonce: if parent.how == Takeover::Retry { NONCE.into() } else { "n-other".into() },
            prompts: before.prompts,
            tools: before.tools,
            history: None,
            provenance: before.provenance.clone(),
        };
        let (run, first, notes) = Run::start_from(id, Arc::clone(&spec), names, of, parent, facts)?;
        let journal = vec![(first, notes.clone(), run.state().clone())];
        let (checker, violations) = Checker::start(&run, &notes);
        assert_eq!(violations, []);
        let world = Self { now: run.now().0, journal, run, spec, checker, is_checked: true };
        world.check_invariants();
        Ok(world)
    }

    /// Moves the clock, without an event.
    pub fn wait(mut self, ms: u64) -> Self {
        self.now += ms;
        self
    }

    /// Applies an event. It must be accepted.
    #[track_caller]
    pub fn apply(&mut self, kind: EventKind) -> Vec<Note> {
        match self.try_apply(kind.clone()) {
            Ok(notes) => notes,
            Err(rejected) => panic!("{rejected}\n{kind:?}\n{:?}", self.run.phase()),
        }
    }

    /// Applies an event, and checks that a rejected one changes nothing.
    #[track_caller]
    pub fn try_apply(&mut self, kind: EventKind) -> Result<Vec<Note>, Rejected> {
        let event = Event { at: Millis(self.now), kind };
        if !self.is_checked {
            let notes = self.run.apply(&event)?;
            self.journal.push((event, notes.clone(), self.run.state().clone()));
            return Ok(notes);
        }
        let before = self.run.clone();
        match self.run.apply(&event) {
            Ok(notes) => {
                let step = Transition { before: &before, event: &event, notes: &notes, after: &self.run };
                let violations = self.checker.step(&step);
                assert!(violations.is_empty(), "{violations:#?}\n{event:?}");
                self.journal.push((event, notes.clone(), self.run.state().clone()));
                self.check_invariants();
                Ok(notes)
            }
            Err(rejected) => {
                assert_eq!(self.run, before, "a rejected event changed the run: {event:?}");
                Err(rejected)
            }
        }
    }

    /// Applies an event that must be rejected.
    #[track_caller]
    pub fn rejects(mut self, kind: EventKind) -> Self {
        let name = kind.name();
        assert!(self.try_apply(kind).is_err(), "{name} was accepted while {}", self.run.phase().name());
        self
    }

    // ---- what is commanded ----

    /// The name of the phase.
    pub fn phase(&self) -> &'static str {
        self.run.phase().name()
    }

    /// Asserts the phase.
    #[track_caller]
    pub fn expect_phase(self, name: &str) -> Self {
        assert_eq!(self.phase(), name);
        self
    }

    /// The commanded model call. Apart from eager reads, nothing else may be commanded.
    #[track_caller]
    pub fn call(&self) -> CallModel {
        let mut commands = self.run.commands();
        let is_early =
            |command: &Command| matches!(command, Command::RunTool(_)) && !self.run.eager_reads().is_empty();
        commands.retain(|command| !is_early(command));
        match commands.as_slice() {
            [Command::CallModel(call)] => call.clone(),
            other => panic!("expected one call while {}, found {other:?}", self.phase()),
        }
    }

    /// Asserts the key and the attempt of the commanded call.
    #[track_caller]
    pub fn expect_call(self, key: &str, attempt: u32) -> Self {
        let call = self.call();
        assert_eq!((call.key.to_string().as_str(), call.attempt), (key, attempt));
        self
    }

    /// The commanded tools.
    pub fn tools(&self) -> Vec<RunTool> {
        self.run
            .commands()
            .into_iter()
            .filter_map(|command| match command {
                Command::RunTool(tool) => Some(tool),
                _ => None,
            })
            .collect()
    }

    /// Asserts the commanded tools, as `key#attempt tool`, in order.
    #[track_caller]
    pub fn expect_tools(self, expected: &[&str]) -> Self {
        let found: Vec<String> =
            self.tools().iter().map(|tool| format!("{}#{} {}", tool.key, tool.attempt, tool.tool)).collect();
        assert_eq!(found, expected);
        self
    }

    /// The keys of the actions that a person is asked about.
    pub fn asks(&self) -> Vec<String> {
        self.run
            .commands()
            .iter()
            .filter_map(|command| match command {
                Command::AskPerson { key, .. } => Some(key.to_string()),
                _ => None,
            })
            .collect()
    }

    /// The keys of the commands to cancel.
    pub fn aborts(&self) -> Vec<String> {
        self.run
            .commands()
            .iter()
            .filter_map(|command| match command {
                Command::Abort { key, .. } => Some(key.to_string()),
                _ => None,
            })
            .collect()
    }

    /// Asserts that nothing is commanded.
    #[track_caller]
    pub fn expect_nothing(self) -> Self {
        assert_eq!(self.run.commands(), []);
        self
    }

    /// The verdicts so far, by name.
    pub fn verdicts(&self) -> Vec<&'static str> {
        self.run.actions().iter().map(|action| action.verdict.name()).collect()
    }

    // ---- what happens ----

    /// Announces the commanded call with a prompt of this size, granted or refused.
    #[track_caller]
    pub fn announce(&mut self, prompt: PromptSize, prompt_hash: Digest) {
        let kind = announced(&self.run, &self.call(), prompt, prompt_hash);
        self.apply(kind);
    }

    /// Ends the call in flight with this reply.
    #[track_caller]
    pub fn answer(&mut self, reply: Reply) {
        let CallModel { key, attempt, .. } = self.call();
        self.apply(EventKind::ModelReplied { key, attempt, reply: reply.into() });
    }

    /// Ends the call in flight with this failure.
    #[track_caller]
    pub fn fail(&mut self, failure: ModelFailure) {
        let CallModel { key, attempt, .. } = self.call();
        self.apply(EventKind::ModelFailed { key, attempt, failure: failure.into() });
    }

    /// Ends a commanded tool call with this observation. A write is announced first.
    #[track_caller]
    pub fn finish(&mut self, key: &str, observation: Observation) {
        let commanded = self.tools().into_iter().find(|tool| tool.key.to_string() == key);
        let Some(RunTool { key, attempt, announced, .. }) = commanded else {
            panic!("{key} is not commanded: {:?}", self.run.commands())
        };
        if !announced {
            self.apply(EventKind::ToolStarted { key, attempt });
        }
        self.apply(EventKind::ToolFinished { key, attempt, observation: observation.into() });
    }

    /// Ends the commanded check with this result. A check that calls a model is announced first.
    #[track_caller]
    pub fn check(&mut self, result: CheckResult, used: Option<SubCallUse>) {
        let Phase::Validating(checking) = self.run.phase() else {
            panic!("nothing to check while {:?}", self.run.phase())
        };
        let (key, attempt) = (checking.key, checking.attempt);
        if !checking.announced {
            self.apply(EventKind::CheckStarted { key, attempt });
        }
        self.apply(EventKind::Checked { key, attempt, result, used: used.map(Box::new) });
    }

    /// As [`announce`](Self::announce), with the digest of the run's prompts.
    #[track_caller]
    pub fn started_with(mut self, prompt: PromptSize) -> Self {
        self.announce(prompt, self.run.started().prompts);
        self
    }

    /// Announces the commanded call.
    #[track_caller]
    pub fn started(self) -> Self {
        self.started_with(PROMPT)
    }

    /// Ends the call in flight with this draft.
    #[track_caller]
    pub fn answered(mut self, draft: &DraftReply) -> Self {
        self.answer(draft.reply());
        self
    }

    /// Announces the commanded call, and ends it with this draft.
    #[track_caller]
    pub fn replied(self, draft: &DraftReply) -> Self {
        self.started().answered(draft)
    }

    /// Ends the selection with these tools.
    #[track_caller]
    pub fn selected(self, selections: &[(&str, Value)]) -> Self {
        let selections: Vec<Value> = selections
            .iter()
            .map(|(tool, params)| json!({"tool": tool, "params": params, "reason": "r"}))
            .collect();
        self.expect_call("0/select", 1).replied(&text(&Value::Array(selections).to_string()))
    }

    /// Ends a cancelled tool call with a result.
    #[track_caller]
    pub fn finished_while_stopping(mut self, action: &str) -> Self {
        self.apply(EventKind::ToolFinished {
            key: key(action),
            attempt: 1,
            observation: found("late").into(),
        });
        self
    }

    /// Ends a cancelled tool call with this status.
    #[track_caller]
    pub fn finished_while_stopping_as(mut self, action: &str, status: Status) -> Self {
        self.apply(EventKind::ToolFinished {
            key: key(action),
            attempt: 1,
            observation: observed(status).into(),
        });
        self
    }

    /// Ends the commanded save with success.
    #[track_caller]
    pub fn saved_whatever(self) -> Self {
        match self.run.commands().as_slice() {
            [Command::Save { attempt }] => {
                let attempt = *attempt;
                self.saved(attempt, saved_at("x"))
            }
            other => panic!("expected a save, found {other:?}"),
        }
    }

    /// The announcement of a call that waited until this instant.
    #[track_caller]
    pub fn started_after_wait(mut self) -> EventKind {
        self.apply(EventKind::DeadlineReached);
        self.started().last().0.kind.clone()
    }

    /// Ends a model call with a reply after it was cancelled.
    #[track_caller]
    pub fn answered_while_stopping(mut self, call: &str, draft: &DraftReply) -> Self {
        self.apply(EventKind::ModelReplied { key: key(call), attempt: 1, reply: draft.reply().into() });
        self
    }

    /// Ends the call in flight with this failure.
    #[track_caller]
    pub fn failed(mut self, failure: ModelFailure) -> Self {
        self.fail(failure);
        self
    }

    /// Ends a commanded tool call with this observation. A write is announced first.
    #[track_caller]
    pub fn finished(mut self, key: &str, observation: Observation) -> Self {
        self.finish(key, observation);
        self
    }

    /// Ends every commanded tool call with a result.
    #[track_caller]
    pub fn all_finished(mut self) -> Self {
        for tool in self.tools() {
            self = self.finished(&tool.key.to_string(), found(&format!("result of {}", tool.key)));
        }
        self
    }

    /// Answers for a person about this action.
    #[track_caller]
    pub fn answered_by_person(mut self, action: &str, answer: PersonAnswer) -> Self {
        self.apply(EventKind::PersonAnswered { key: key(action), answer, binding: None });
        self
    }

    /// Requests a stop.
    #[track_caller]
    pub fn stop(mut self, how: StopMode) -> Self {
        self.apply(EventKind::StopRequested { how });
        self
    }

    /// Withdraws the request to stop.
    #[track_caller]
    pub fn withdrawn(mut self) -> Self {
        self.apply(EventKind::StopWithdrawn);
        self
    }

    /// The clock jumps to the run's deadline, and the deadline is reported.
    #[track_caller]
    pub fn deadline(mut self) -> Self {
        self.now = self.run.deadline().expect("a deadline").0.max(self.now);
        self.apply(EventKind::DeadlineReached);
        self
    }

    /// The driver is gone for `away_ms`, and another one continues.
    #[track_caller]
    pub fn resumed(mut self, away_ms: u64) -> Self {
        self.now += away_ms;
        self.apply(EventKind::Resumed { away_ms, by: None });
        self
    }

    /// A save ends like this.
    #[track_caller]
    pub fn saved(mut self, attempt: u32, result: SaveResult) -> Self {
        self.apply(EventKind::SaveFinished { attempt, result });
        self
    }

    /// Notes of the last event.
    pub fn notes(&self) -> &[Note] {
        &self.last().1
    }

    fn last(&self) -> &(Event, Vec<Note>, State) {
        self.journal.last().expect("the first event is there from the start")
    }

    /// Notes of all events.
    pub fn all_notes(&self) -> impl Iterator<Item = &Note> {
        self.journal.iter().flat_map(|(_, notes, _)| notes)
    }

    // ---- outputs and results ----

    /// What is to be checked, as `key#attempt value`, or `key#attempt pass n` of a document.
    pub fn to_check(&self) -> Option<String> {
        self.run.commands().iter().find_map(|command| match command {
            Command::Check(check) => Some(match &check.what {
                CheckWhat::Output(output) => format!("{}#{} {output}", check.key, check.attempt),
                CheckWhat::Document { pass } => format!("{}#{} pass {pass}", check.key, check.attempt),
            }),
            _ => None,
        })
    }

    /// This is to be checked.
    #[track_caller]
    pub fn expect_check(self, expected: &str) -> Self {
        assert_eq!(self.to_check().as_deref(), Some(expected), "while {:?}", self.run.phase());
        self
    }

    /// As [`check`](Self::check), without a model call.
    #[track_caller]
    pub fn checked(mut self, result: CheckResult) -> Self {
        self.check(result, None);
        self
    }

    /// What is left of an action: its verdict, and the status of its observation where it has one.
    pub fn results(&self) -> Vec<String> {
        let status = |id: EvidenceId| {
            let found = self.run.evidence().iter().find(|evidence| evidence.id == id);
            found.map_or("open", |evidence| evidence.observation.status.name())
        };
        let line = |action: &JudgedAction| match action.evidence {
            Some(id) => format!("{} {}", action.verdict.name(), status(id)),
            None => action.verdict.name().to_owned(),
        };
        self.run.actions().iter().map(|action| line(action)).collect()
    }

    // ---- the end ----

    /// What the run came to; it must be done.
    #[track_caller]
    pub fn outcome(&self) -> &Outcome {
        self.run.outcome().unwrap_or_else(|| panic!("no outcome while {:?}", self.run.phase()))
    }

    /// Done, for this reason; and the journal replays.
    #[track_caller]
    pub fn ends(self, reason: StopReason) -> Self {
        assert!(self.run.is_done(), "not done but {:?}", self.run.phase());
        assert_eq!(self.outcome().stop.reason(), reason, "{:?}", self.outcome().stop);
        assert_eq!((self.run.commands(), self.run.deadline()), (Vec::new(), None), "silence after the end");
        self.check_replay();
        self
    }

    /// All reasons that were true, the primary one first.
    pub fn reasons(&self) -> Vec<StopReason> {
        let stop = &self.outcome().stop;
        std::iter::once(&stop.primary).chain(&stop.also).map(|condition| condition.reason).collect()
    }

    /// Continues by itself: every call is answered with `draft`, every tool finds something, people agree.
    pub fn autopilot(mut self, draft: &DraftReply) -> Self {
        for _ in 0..200 {
            if self.run.is_done() {
                return self;
            }
            let Some(command) = self.run.commands().into_iter().next() else {
                self = self.deadline();
                continue;
            };
            match command {
                Command::CallModel(call) if call.granted.is_none() => self = self.started(),
                Command::CallModel(call) => {
                    let reply = if call.key.pass == 0 { text("[]") } else { draft.clone() };
                    self = self.answered(&reply);
                }
                Command::RunTool(tool) => self = self.finished(&tool.key.to_string(), found("auto")),
                Command::AskPerson { key, .. } if self.spec.gate.approvals > 1 => {
                    let by = self.next_approver(&key);
                    self.apply(EventKind::ApprovedBy { key, by, binding: None });
                }
                Command::AskPerson { key, .. } => {
                    self = self.answered_by_person(&key.to_string(), PersonAnswer::Approved);
                }
                Command::Check(_) => self = self.checked(CheckResult::Passed),
                Command::Abort { .. } => self = self.deadline(),
                Command::Save { attempt } => self = self.saved(attempt, saved_at("x")),
            }
        }
        panic!("not done after 200 steps: {:?}", self.run.phase());
    }

    /// An account that has not approved this action yet.
    pub fn next_approver(&self, key: &CommandKey) -> Approver {
        let requested = self.run.requested();
        let known =
            requested.iter().find(|request| request.key == *key).map_or(0, |request| request.approvers.len());
        Approver { account: format!("token {}", known + 1).into(), user: "".into(), claim: None }
    }

    // ---- invariants ----

    /// Checks what is true in every state, besides the invariants of the core.
    #[track_caller]
    pub fn check_invariants(&self) {
        let run = &self.run;
        assert_eq!(run.commands(), run.commands(), "commands are read, not taken");
        // I-5, and what holds of attempts.
        if let Err(what) = is_sound(run) {
            panic!("{what}");
        }
        // Every state survives a checkpoint. That a run is over is where most tests end, so that is always looked at.
        let is_drawn =
            |(event, notes, _): &(Event, Vec<Note>, State)| is_stored(self.journal.len(), event, notes);
        if !run.is_done() && !self.journal.last().is_none_or(is_drawn) {
            return;
        }
        let back = reread(run.state());
        assert_eq!(&back, run.state(), "the state reads back as it was written");
        assert_eq!(Run::restore(back, Arc::clone(&self.spec)).as_ref(), Ok(run));
    }

    /// The journal, written and read back, gives the same notes and the same state after every event (I-11).
    #[track_caller]
    pub fn check_replay(&self) {
        let mut journal = self.journal.iter();
        let (first, notes, state) = journal.next().expect("the first event is there from the start");
        let opened = Run::open(&reread(first), Arc::clone(&self.spec));
        let (mut run, opened) = opened.expect("the first event opens the run");
        assert_eq!((&opened, run.state()), (notes, state));
        for (n, (event, notes, state)) in journal.enumerate() {
            let is_stored = is_stored(n, event, notes);
            let replayed = if is_stored { run.apply(&reread(event)) } else { run.apply(event) };
            let replayed = replayed.expect("what was accepted is accepted again");
            let replayed = if is_stored { reread(&replayed) } else { replayed };
            assert_eq!((&replayed, run.state()), (notes, state));
        }
    }
}
