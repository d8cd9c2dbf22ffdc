//! A run that an engine drives: results in, work and entries out, without a clock and without randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use loop_core::run::{CallModel, Started};
use loop_core::types::{CommandKey, Millis, RunId};
use loop_core::{Command, Event, EventKind, Note, Outcome, Rejected, Run, WorkItem};
use loop_journal::{Entry, Header, ReplayError};
use loop_llm::codec::Memory;
use loop_prompts::{Dialogue, Prompt};

use super::EngineRunError;
use super::message::{MessageReceipt, RunMessage};
use super::observers::DispatchedCall;
use super::status::EngineStatus;
use super::work::{End, EngineWork, Kind, ModelWork, SaveWork, Settlement, WorkKey, saving};
use crate::drive::check::CheckWork;
use crate::drive::controls::{self, EarlyAnswers, Handled};
use crate::drive::conversation::Conversation;
use crate::drive::hooks::{HookMessage, StatusBefore};
use crate::drive::model;
use crate::drive::parts::{RunParts, read_history};
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;
use crate::drive::tool::ToolWork;
use crate::watch::sink;
use crate::watch::trace::Spans;

/// A run that an engine drives. It takes results and messages, and returns the work to start and the entries to
/// journal.
pub struct EngineRun {
    parts: Arc<RunParts>,
    run: Run,
    header: Header,
    dialogue: Dialogue,
    /// The messages, where calls are native.
    conversation: Option<Conversation>,
    /// The prompt of the call that was announced last.
    prompt: Option<(WorkKey, Prompt)>,
    spans: Spans,
    /// What was started and has not settled.
    in_flight: BTreeSet<WorkKey>,
    /// What of it is lost.
    lost: BTreeSet<WorkKey>,
    /// What of it was requested to stop.
    aborted: BTreeSet<WorkKey>,
    answers: EarlyAnswers,
    /// When saving began.
    saves_since: Option<Millis>,
    /// The number of the next entry.
    seq: u64,
    pub(super) unwritten: Vec<Arc<Entry>>,
    /// Messages of hooks, each with the number of its entry.
    pub(super) messages: Vec<(u64, HookMessage)>,
    before: StatusBefore,
    /// Tool calls that observers have not heard of.
    pub(super) dispatched: BTreeMap<WorkKey, DispatchedCall>,
}

impl fmt::Debug for EngineRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRun")
            .field("run", self.run.id())
            .field("entries", &self.seq)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// The first event of a run that an engine drives: the only part that needs a clock and randomness. The engine
    /// records it, and every process that continues the run begins with it. It names the `engine`, so that nothing else
    /// continues the run from the journal.
    ///
    /// # Errors
    /// If the item is blank, a cost limit cannot be enforced, or the limits do not pay for the first pass.
    pub fn first_event(&self, engine: &str, id: RunId, item: WorkItem) -> Result<Event, StartError> {
        if item.is_blank() {
            return Err(StartError::Blank { kind: item.kind });
        }
        let parts = self.parts();
        parts.check_price()?;
        let item = sink::item(&parts.secrets, item);
        let mut facts = parts.facts(None);
        facts.provenance.engine = engine.into();
        let (run, event, _) = Run::start_named(id, Arc::clone(&parts.spec), parts.names(), item, facts);
        parts.check_first_pass(&run, Arc::default())?;
        Ok(event)
    }
}

/// The work that a run commands to start and to cancel.
#[derive(Debug, Default)]
#[must_use]
pub struct EngineStep {
    /// The work to start, in order.
    pub start: Vec<EngineWork>,
    /// The work in flight to cancel. It may still settle.
    pub abort: Vec<WorkKey>,
}

impl EngineRun {
    /// The run that begins with this event, which [`Runner::first_event`] has made here or elsewhere. `request_key` is the
    /// caller's idempotency key, for the journal.
    ///
    /// # Errors
    /// If the event is not the first one of a run, a newer program made it, or the tools, the settings or the prompts are not
    /// those of `runner`.
    pub fn open(
        runner: &Runner,
        first: Event,
        request_key: Option<Arc<str>>,
    ) -> Result<Self, EngineRunError> {
        let parts = Arc::clone(runner.parts());
        let EventKind::Started(started) = &first.kind else {
            let rejected = Rejected::NotTheStart(first.kind.name());
            return Err(
                StartError::from(ReplayError::Broken { run: RunId::new(""), seq: 0, rejected }).into()
            );
        };
        parts.check_unchanged(started, None)?;
        let id = started.run.clone();
        loop_journal::versions::begun_by_newer(&id, &first, &parts.program).map_err(StartError::from)?;
        let header = Header { request_key, ..header(&parts, started) };
        let history = read_history(started)?;
        let opened = Run::open(&first, Arc::clone(&parts.spec));
        let broken = |rejected| StartError::from(ReplayError::Broken { run: id, seq: 0, rejected });
        let (run, notes) = opened.map_err(broken)?;
        let has_messages = run.spec().protocol.properties().answers_every_call;
        let conversation = has_messages
            .then(|| Conversation::new(&parts.rules, &parts.prompts, &run, &parts.offered, history));
        let spans = Spans::of(parts.sampler.as_ref(), &run);
        let mut opened = Self {
            header,
            dialogue: Dialogue::default(),
            conversation,
            prompt: None,
            spans,
            in_flight: BTreeSet::new(),
            lost: BTreeSet::new(),
            aborted: BTreeSet::new(),
            answers: EarlyAnswers::new(),
            saves_since: None,
            seq: 0,
            unwritten: Vec::new(),
            messages: Vec::new(),
            before: StatusBefore::default(),
            dispatched: BTreeMap::new(),
            parts,
            run,
        };
        opened.record(first, notes);
        Ok(opened)
    }

    /// Its id.
    pub fn id(&self) -> &RunId {
        self.run.id()
    }

    /// The data of its first event.
    pub fn started(&self) -> &Started {
        self.run.started()
    }

    /// Whether the run is done: it commands nothing more.
    pub fn is_done(&self) -> bool {
        self.run.is_done()
    }

    /// How it ended. `None`: it has not.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.run.outcome().filter(|_| self.run.is_done())
    }

    /// The present status, for people.
    pub fn status(&self) -> EngineStatus {
        EngineStatus::of(&self.run, self.seq)
    }

    /// Whether something was started that has not settled.
    pub fn is_working(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// When [`deadline_reached`](Self::deadline_reached) is due, in milliseconds from the last event on, and the instant by
    /// the run's clock, which names it. `None`: nothing is waited for.
    pub fn deadline(&self) -> Option<(u64, Millis)> {
        let deadline = self.run.deadline()?;
        Some((deadline.since(self.run.now()), deadline))
    }

    /// Decides what to start and what to cancel. [Write](super::Projection::write) the entries before you start any of
    /// it.
    ///
    /// # Errors
    /// If the run refuses what it commands.
    pub fn step(&mut self) -> Result<EngineStep, EngineRunError> {
        let mut step = EngineStep::default();
        'decided: loop {
            for command in self.run.commands() {
                match command {
                    Command::CallModel(call) if self.is_in_flight(call.key, call.attempt) => {}
                    Command::CallModel(call) => match call.granted {
                        Some(granted) => step.start.extend(self.model_work(call, granted)),
                        None => {
                            self.announce(&call)?;
                            continue 'decided;
                        }
                    },
                    Command::RunTool(tool) if self.is_in_flight(tool.key, tool.attempt) => {}
                    Command::RunTool(tool) if tool.announced => {
                        let of = WorkKey { key: tool.key, attempt: tool.attempt };
                        if !self.parts.watchers.is_empty() {
                            let key = self.run.idempotency_key(&tool.key);
                            let dispatched = DispatchedCall { call: tool.clone(), key, at: self.run.now() };
                            self.dispatched.insert(of, dispatched);
                        }
                        let span = self.spans.of_call(self.run.id(), tool.key, tool.attempt);
                        let work = ToolWork::of(&self.run, tool, &self.parts.registry, span);
                        self.in_flight.insert(of);
                        step.start.push(EngineWork(Kind::Tool(Box::new(work))));
                    }
                    Command::RunTool(tool) => {
                        self.own(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt })?;
                        continue 'decided;
                    }
                    Command::Check(check) if self.is_in_flight(check.key, check.attempt) => {}
                    Command::Check(check) if check.announced => {
                        let of = WorkKey { key: check.key, attempt: check.attempt };
                        let span = self.spans.of_call(self.run.id(), check.key, check.attempt);
                        let work = CheckWork::of(&self.run, check, &self.parts.prompts, span);
                        self.in_flight.insert(of);
                        step.start.push(EngineWork(Kind::Check(Box::new(work))));
                    }
                    Command::Check(check) => {
                        self.own(EventKind::CheckStarted { key: check.key, attempt: check.attempt })?;
                        continue 'decided;
                    }
                    Command::AskPerson { key, .. } => {
                        let now = self.run.now();
                        let kind = controls::said_before(&self.run, now, &mut self.answers, key);
                        if let Some(kind) = kind {
                            self.own(kind)?;
                            continue 'decided;
                        }
                    }
                    Command::Abort { key, attempt } => self.abort(&mut step, WorkKey { key, attempt }),
                    Command::Save { attempt } if self.in_flight.contains(&saving(attempt)) => {}
                    Command::Save { attempt } => step.start.extend(self.save_work(attempt)),
                }
            }
            return Ok(step);
        }
    }

    /// Applies the result of a piece of work. A result that is too late changes nothing.
    ///
    /// # Errors
    /// If the run refuses what it commanded.
    pub fn settle(&mut self, settled: Settlement) -> Result<(), EngineRunError> {
        let Settlement { of, unix_ms, end } = settled;
        let at = self.at(unix_ms);
        match end {
            End::Lost => {
                if self.in_flight.contains(&of) {
                    self.lost.insert(of);
                }
            }
            End::Happened { mut kind, retry_ms } => {
                if self.in_flight.remove(&of) {
                    let retry_at = retry_ms.map(|delay| at.plus(delay));
                    match &mut *kind {
                        EventKind::ModelFailed { failure, .. } => failure.retry_at = retry_at,
                        EventKind::SaveFinished {
                            result: loop_core::run::SaveResult::Failed { retry_at: next, .. },
                            ..
                        } => *next = retry_at,
                        _ => {}
                    }
                    // After the time for settling a settlement is late, and the run refuses it.
                    self.tell(at, *kind).or_else(|rejected| match self.run.outcome() {
                        Some(_) => Ok(()),
                        None => Err(self.stuck(&rejected)),
                    })?;
                }
            }
        }
        // The run takes all of the batch for lost that has not settled, so the others are waited for.
        if !self.lost.is_empty() && self.lost.len() == self.in_flight.len() {
            self.resume(at)?;
        }
        Ok(())
    }

    /// Applies a message of a person at this time. Returns whether it counts, and otherwise why not, to be shown to
    /// that person.
    ///
    /// # Errors
    /// If the run refuses what it would take.
    pub fn hear(&mut self, unix_ms: u64, message: RunMessage) -> Result<MessageReceipt, EngineRunError> {
        let at = self.at(unix_ms);
        match controls::received(&self.run, at, &mut self.answers, message.into()) {
            Handled::Event(kind) => {
                self.tell(at, kind).map_err(|rejected| self.stuck(&rejected))?;
                Ok(MessageReceipt::Counts)
            }
            Handled::Kept => Ok(MessageReceipt::Kept),
            Handled::Refused(why) => Ok(MessageReceipt::Refused { why: why.to_string() }),
        }
    }

    /// Applies that the instant `deadline` has passed. A deadline that is no longer the run's changes nothing.
    ///
    /// # Errors
    /// If the run refuses its deadline.
    pub fn deadline_reached(&mut self, deadline: Millis) -> Result<(), EngineRunError> {
        if self.run.deadline() != Some(deadline) {
            return Ok(());
        }
        let at = self.run.now().max(deadline);
        self.tell(at, EventKind::DeadlineReached).map_err(|rejected| self.stuck(&rejected))
    }

    pub(super) fn state(&self) -> &Run {
        &self.run
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    fn is_in_flight(&self, key: CommandKey, attempt: u32) -> bool {
        self.in_flight.contains(&WorkKey { key, attempt })
    }

    fn abort(&mut self, step: &mut EngineStep, of: WorkKey) {
        if self.in_flight.contains(&of) && self.aborted.insert(of) {
            step.abort.push(of);
        }
    }

    /// The instant by the run's clock. Clocks of several machines differ, and the run's never goes back.
    fn at(&self, unix_ms: u64) -> Millis {
        Millis(unix_ms.saturating_sub(self.run.started().unix_ms)).max(self.run.now())
    }

    fn announce(&mut self, call: &CallModel) -> Result<(), EngineRunError> {
        let (key, attempt) = (call.key, call.attempt);
        let (size, prompt_hash) = match &mut self.conversation {
            Some(conversation) => conversation.grow(&self.parts.prompts, &self.run, key),
            None => {
                let Some(prompt) = self.dialogue.prompt(&self.parts.prompts, &self.run, key) else {
                    return Err(self.stuck(&format!("{key} has no prompt")));
                };
                let named = (prompt.size, prompt.hash());
                self.prompt = Some((WorkKey { key, attempt }, prompt));
                named
            }
        };
        let quoted = self.run.quote(&key, size);
        self.own(EventKind::announced(key, attempt, size, prompt_hash, quoted))
    }

    fn model_work(&mut self, call: CallModel, granted: u64) -> Option<EngineWork> {
        let of = WorkKey { key: call.key, attempt: call.attempt };
        let mut request = match &mut self.conversation {
            Some(conversation) => {
                conversation.be_ready(&self.parts.prompts, &self.run, call.key);
                let request =
                    model::native_request(&self.run, &call, granted, conversation, Memory::default());
                // The work is data, and the next request continues the same messages.
                conversation.take_back(request.messages.clone());
                request
            }
            None => {
                let announced = self.prompt.take().filter(|(announced, _)| *announced == of);
                let prompt = match announced {
                    Some((_, prompt)) => prompt,
                    None => self.dialogue.prompt(&self.parts.prompts, &self.run, call.key)?,
                };
                model::request(&self.run, &call, granted, &prompt, Memory::default())
            }
        };
        request.meta.traceparent = self.spans.of_call(self.run.id(), call.key, call.attempt);
        self.in_flight.insert(of);
        let CallModel { tier, timeout_ms, .. } = call;
        Some(EngineWork(Kind::Model(Box::new(ModelWork { of, tier, timeout_ms, request }))))
    }

    fn save_work(&mut self, attempt: u32) -> Option<EngineWork> {
        let outcome = self.run.outcome()?.clone();
        let now = self.run.now();
        let since = *self.saves_since.get_or_insert(now);
        let limit = u64::try_from(self.parts.save_limit.as_millis()).unwrap_or(u64::MAX);
        let left_ms = limit.saturating_sub(now.since(since));
        let started = self.run.started().clone();
        self.in_flight.insert(saving(attempt));
        Some(EngineWork(Kind::Save(Box::new(SaveWork { attempt, left_ms, started, outcome }))))
    }

    /// What is in flight is lost: the run decides what of it is repeated and what is in doubt, as after a restart.
    fn resume(&mut self, at: Millis) -> Result<(), EngineRunError> {
        self.lost.clear();
        self.in_flight.clear();
        if self.run.is_done() {
            return Ok(());
        }
        let away_ms = at.since(self.run.now());
        // Each process decides the whole run anew, so the entry cannot name one of them.
        let resumed = EventKind::Resumed { away_ms, by: None };
        self.tell(at, resumed).map_err(|rejected| self.stuck(&rejected))?;
        // A run that is resumed renders its prompts anew.
        self.dialogue = Dialogue::default();
        self.prompt = None;
        if self.conversation.is_some() {
            let history = read_history(self.run.started())?;
            let RunParts { rules, prompts, offered, .. } = &*self.parts;
            self.conversation = Some(Conversation::new(rules, prompts, &self.run, offered, history));
        }
        Ok(())
    }

    /// What the run itself does, at the instant of its last event.
    fn own(&mut self, kind: EventKind) -> Result<(), EngineRunError> {
        self.tell(self.run.now(), kind).map_err(|rejected| self.stuck(&rejected))
    }

    fn tell(&mut self, at: Millis, kind: EventKind) -> Result<(), Rejected> {
        let kind = sink::kind(&self.parts.secrets, kind);
        let event = Event { at: at.max(self.run.now()), kind };
        let notes = self.run.apply(&event)?;
        self.record(event, notes);
        Ok(())
    }

    fn record(&mut self, event: Event, notes: Vec<Note>) {
        let at = event.at;
        let seq = self.seq;
        self.unwritten.push(Arc::new(Entry { seq, event, notes }));
        self.seq += 1;
        if !self.parts.hooks.is_empty() {
            let unix_ms = self.run.started().unix_ms_at(at);
            let before = std::mem::replace(&mut self.before, StatusBefore::of(&self.run));
            let messages = self.parts.hooks.messages(before, &self.run, unix_ms);
            self.messages.extend(messages.into_iter().map(|message| (seq, message)));
        }
    }

    fn stuck(&self, message: &dyn fmt::Display) -> EngineRunError {
        EngineRunError::Stuck { run: self.run.id().clone(), message: message.to_string() }
    }
}

fn header(parts: &RunParts, started: &Started) -> Header {
    parts.header_of(&started.run, started.unix_ms, &started.item)
}
