//! The driver: carries out a run's commands and tells it what happened.
//!
//! ```text
//! loop {
//!     cancel what is in flight and no longer commanded
//!     while a command is not in flight:
//!         calls and writes: announce (apply), read the commands again
//!         journal.append(all that was applied)      // durable
//!         tell observers
//!         start it
//!     wait for: a settlement, a request from outside, the deadline
//!     notes = run.apply(event)                      // decided; appended before anything is started or waited for
//! }
//! ```

pub(crate) mod announcing;
mod calling_back;
mod hooking;
pub(crate) mod opening;
mod remote;
mod saving;
pub(crate) mod sharing;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use loop_core::gate::{Condition, Measure};
use loop_core::run::{CallModel, Check, DroppedRead, NotEager, PersonRequest, RunTool, SaveState, StopMode};
use loop_core::types::{CommandKey, Lease, Millis, Slot, Taint, Tier};
use loop_core::{Certificate, Command, Event, EventKind, Note, Outcome, Rejected, Run, StopReason};
use loop_journal::{Durability, Entry, JournalError, RunWriter};
use loop_llm::Message;
use loop_llm::codec::Memory;
use loop_prompts::{Dialogue, Prompt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::drive::callee::{ChildCall, RunAsTool};
use crate::drive::check::CheckWork;
use crate::drive::controls::{self, EarlyAnswers};
use crate::drive::conversation::{self, Conversation};
use crate::drive::driver::opening::Clock;
pub(crate) use crate::drive::driver::opening::Opening;
use crate::drive::driver::sharing::Sharing;
use crate::drive::eager::EarlyCalls;
use crate::drive::hooks::{HookMessage, StatusBefore};
use crate::drive::model::{self, WorkEnd};
use crate::drive::parts::RunParts;
use crate::drive::save::SaveError;
use crate::drive::tool::{Dispatch, ToolWork};
use crate::watch::events::{Control, Feed, RunEvent};
use crate::watch::sink;
use crate::watch::steps::{InPlace, StepError};
use crate::watch::trace::Spans;
use crate::watch::uses::{ToolUse, ToolUses};
use crate::watch::waits::{CallEvent, OnEvent, Waits};

/// A run under way.
pub(crate) struct Driver {
    parts: Arc<RunParts>,
    run: Run,
    writer: Box<dyn RunWriter>,
    /// The number of the next entry.
    seq: u64,
    /// Entries that were applied and not journaled yet, and what they have to survive. Before they are journaled
    /// nothing is started, nothing is waited for and no listener is notified: what happened at one time, and the
    /// announcement that follows from it, share a commit.
    unwritten: Vec<Arc<Entry>>,
    /// Messages of hooks that are journaled with them.
    messages: Vec<HookMessage>,
    /// The run as its hooks know it.
    before: StatusBefore,
    deliveries: Vec<JoinHandle<()>>,
    durability: Durability,
    clock: Clock,
    /// The first entry of a run that was just opened: it is durable, and was not reported yet.
    opened: Option<Arc<Entry>>,
    first: Vec<(Event, Vec<Note>)>,
    dialogue: Dialogue,
    /// What is said where calls are native.
    conversation: Option<Conversation>,
    /// What encoders keep of the conversation, by the model that it is held with.
    memories: BTreeMap<Tier, Memory>,
    /// The rendered prompt of the call that is being announced.
    prompt: Option<(CommandKey, u32, Prompt)>,
    in_flight: BTreeMap<(CommandKey, u32), InFlight>,
    /// Calls that are complete in a reply that is still being received.
    early: EarlyCalls,
    /// How many tool calls were dispatched.
    dispatches: u64,
    tasks: FuturesUnordered<BoxFuture<'static, WorkEnd>>,
    controls: UnboundedReceiver<Control>,
    feeds: Vec<Feed>,
    /// Who polls a run that continues in step.
    listener: Option<Feed>,
    pace: Pace,
    in_place: InPlace,
    uses: ToolUses,
    /// What was asked in another process, and is looked at next.
    remote: Option<Box<(Arc<str>, EventKind)>>,
    /// What was said to questions before they were open.
    answers: EarlyAnswers,
    /// What runs below that wait ask people, by the action that called them.
    asked_below: BTreeMap<CommandKey, Vec<PersonRequest>>,
    /// Ends the run once it is cancelled; taken when that was heard.
    cancel: Option<CancellationToken>,
    /// Everyone who could ask for something is gone.
    deaf: bool,
    /// When saving ends, once it has begun.
    save_ends: Option<Instant>,
    /// What is reserved in the budgets that runs share.
    shared: Sharing,
    /// The spans that its calls receive.
    spans: Spans,
}

/// Something that was begun and has not settled.
struct InFlight {
    cancel: CancellationToken,
    /// When it is cut off; what has no such instant ends by itself.
    ends: Option<Instant>,
    /// Whether nothing is sent yet; of a call to a model.
    waits: Option<Arc<Waits>>,
    /// Stops a run that was called as a tool at its next gate.
    at_gate: Option<CancellationToken>,
    /// The number of its dispatch; 0 where it is not a tool. After an eager read was dropped, another call may go by
    /// its key and try.
    dispatch: u64,
}

impl InFlight {
    /// It ends by itself, or when it is cancelled.
    fn with(cancel: &CancellationToken) -> Self {
        Self { cancel: cancel.clone(), ends: None, waits: None, at_gate: None, dispatch: 0 }
    }
}

/// What there is when a run has ended.
#[derive(Debug)]
pub(crate) struct DriverEnd {
    pub(crate) outcome: Outcome,
    /// What the run has added to the messages before it; none for documents.
    pub(crate) messages: Vec<Message>,
    pub(crate) step_errors: Vec<StepError>,
    pub(crate) tools: Vec<ToolUse>,
    /// What a run waits for that was left; none of a run that is over.
    pub(crate) requested: Option<Vec<PersonRequest>>,
    /// What the run had read.
    pub(crate) taint: Taint,
}

/// Who decides how fast a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The run itself.
    Own,
    /// The caller that polls it: the run gives way after each recorded entry.
    InStep,
}

impl Driver {
    pub(crate) fn new(
        parts: Arc<RunParts>,
        opening: Opening,
        controls: UnboundedReceiver<Control>,
        feeds: Vec<Feed>,
        pace: Pace,
    ) -> Self {
        let Opening { run, writer, seq, opened, clock, first, uses, history, before, earlier: _, shared } =
            opening;
        let has_messages = run.spec().protocol.properties().answers_every_call;
        let conversation = has_messages
            .then(|| Conversation::new(&parts.rules, &parts.prompts, &run, &parts.offered, history));
        let early = EarlyCalls::new(run.spec());
        let spans = Spans::of(parts.sampler.as_ref(), &run);
        Self {
            spans,
            before,
            conversation,
            in_place: InPlace::new(parts.in_place.clone()),
            remote: None,
            answers: EarlyAnswers::new(),
            uses,
            parts,
            run,
            writer,
            seq,
            unwritten: Vec::new(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            durability: Durability::Committed,
            clock,
            opened,
            first,
            save_ends: None,
            shared,
            dialogue: Dialogue::default(),
            memories: BTreeMap::new(),
            prompt: None,
            early,
            dispatches: 0,
            in_flight: BTreeMap::new(),
            tasks: FuturesUnordered::new(),
            controls,
            listener: feeds.first().cloned().filter(|_| pace == Pace::InStep),
            feeds,
            pace,
            asked_below: BTreeMap::new(),
            cancel: None,
            deaf: false,
        }
    }

    /// The same driver, stopping its run at once when `cancel` is cancelled.
    pub(crate) fn until(self, cancel: &CancellationToken) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// Drives until the run is done. A journal that fails ends it with `storage_failed` and with all there is.
    pub(crate) async fn drive(mut self: Box<Self>) -> DriverEnd {
        let driven = self.drive_on().await;
        self.end(driven).await
    }

    async fn end(&mut self, driven: Result<(), Failure>) -> DriverEnd {
        for watcher in &self.parts.watchers {
            // Where the journal failed, entries that were applied are not reported.
            let next = if driven.is_ok() { self.seq } else { 0 };
            watcher.tell(|observer| observer.leaves(self.run.id(), next));
        }
        self.give_up_shared().await;
        // Each is bounded by its hook's limit.
        for delivery in self.deliveries.drain(..) {
            // One that panicked left its message where it was.
            _ = delivery.await;
        }
        let below = std::mem::take(&mut self.asked_below);
        let requested = (driven.is_ok() && self.is_waiting())
            .then(|| self.run.requested().into_iter().chain(below.into_values().flatten()).collect());
        let outcome = self.outcome_after(driven).await;
        let (prompts, run) = (&self.parts.prompts, &self.run);
        let messages = match &self.conversation {
            Some(_) => conversation::stored(prompts, run),
            None => Vec::new(),
        };
        let taint = self.run.taint();
        DriverEnd {
            outcome,
            messages,
            step_errors: self.in_place.errors(),
            tools: self.uses.all(),
            requested,
            taint,
        }
    }

    async fn outcome_after(&mut self, driven: Result<(), Failure>) -> Outcome {
        match driven {
            Ok(()) if self.is_waiting() => self.run.outcome_so_far(waiting(&self.run)),
            Ok(()) => match self.run.outcome() {
                Some(outcome) => outcome.clone(),
                None => self.abandoned("the run ended without an outcome"),
            },
            Err(error) => {
                self.in_flight.values().for_each(|begun| begun.cancel.cancel());
                let mut outcome = self.abandoned(&error.to_string());
                if self.run.spec().save && outcome.saved.is_none() {
                    self.forget_requests();
                    outcome.saved = Some(match self.save_unless_stopped(&outcome).await {
                        Ok(location) => SaveState::At { location },
                        Err(SaveError { message, .. }) => SaveState::Not { message },
                    });
                }
                outcome
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.run.waits_for_people()
    }

    /// Whether nothing is left to do here but to wait for people, which is left to others.
    fn may_leave(&self) -> bool {
        // The clock is read last: it is asked in each turn of the loop.
        self.parts.leaves
            && self.is_waiting()
            && self.tasks.is_empty()
            && self.run.deadline().is_none_or(|deadline| self.clock.now() < deadline)
    }

    /// Drives until the run is done, or waits and may be left.
    async fn drive_on(&mut self) -> Result<(), Failure> {
        if let Some(opened) = self.opened.take() {
            self.seq = opened.seq + 1;
            self.recorded(opened);
            self.rest().await;
            // The messages of the first entry were committed with it.
            if self.before != StatusBefore::default() {
                self.deliver();
            }
        } else {
            // What an earlier process did not deliver.
            self.deliver();
        }
        self.take_over_shared().await?;
        let first = std::mem::take(&mut self.first);
        let last = first.len().saturating_sub(1);
        for (at, (event, notes)) in first.into_iter().enumerate() {
            // The run is as it is behind the last of them.
            if !self.keep(event, notes, /*tells_hooks*/ at == last) {
                self.write_down().await?;
            }
        }
        while !self.run.is_done() {
            // Asked before each call, so that none is made once it is cancelled (S2-49).
            if self.cancel.take_if(|cancel| cancel.is_cancelled()).is_some() {
                self.stop_now().await?;
                continue;
            }
            if self.start_commands().await? {
                continue;
            }
            if self.start_early().await? {
                continue;
            }
            // What was said already is heard first.
            let mut stated = if self.may_leave() { self.controls.try_recv().ok() } else { None };
            if stated.is_none() && self.may_leave() {
                // From here on a sender learns that it comes too late. What was sent before that is handled first.
                self.controls.close();
                stated = self.controls.try_recv().ok();
                if stated.is_none() {
                    break;
                }
            }
            let deadline = self.run.deadline();
            let wake = deadline.map(|at| self.clock.instant(at));
            let ends = self.in_flight.values().filter_map(|begun| begun.ends).min();
            let first = wake.into_iter().chain(ends).chain(self.shared.asks_at()).min();
            let kind = tokio::select! {
                biased;
                // What follows is above.
                () = cancelled(self.cancel.as_ref()) => None,
                () = std::future::ready(()), if stated.is_some() => stated.and_then(|control| self.kind_of(control)),
                control = self.controls.recv(), if !self.deaf => match control {
                    Some(control) => self.kind_of(control),
                    None => { self.deaf = true; None }
                },
                Some(settled) = self.tasks.next(), if !self.tasks.is_empty() => self.settle(settled),
                () = self.early.arrives(), if self.early.is_on() => None,
                () = until(first) => match first == wake {
                    true => Some(EventKind::DeadlineReached),
                    false => { self.cut_off_late(); None }
                },
                // Nothing else is ready: what waits to be journaled need not wait for more.
                () = std::future::ready(()), if !self.unwritten.is_empty() => None,
            };
            let (kind, request) = match self.remote.take() {
                Some(asked) => (self.remote_kind(&asked).await?, Some(asked.0)),
                None => (kind, None),
            };
            let Some(kind) = kind else {
                self.write_down().await?;
                continue;
            };
            // A timer may wake a moment early by the run's clock, which counts whole milliseconds. A try to save that
            // is not made ends when it would have begun: its end does not reach the run before that time.
            let at = match (&kind, deadline) {
                (EventKind::DeadlineReached | EventKind::SaveFinished { .. }, Some(deadline)) => {
                    self.clock.now().max(deadline)
                }
                _ => self.clock.now(),
            };
            // Only a settlement that comes after the time for settling may be rejected: it is late, and counts for
            // nothing.
            let rejected = self.tell(at, kind).await?;
            if let (Some(_), Some(request)) = (&rejected, request) {
                self.writer.refuse(&request).await?;
            }
            debug_assert!(
                rejected.is_none() || self.run.outcome().is_some(),
                "the run refuses what happened: {rejected:?}"
            );
        }
        self.write_down().await?;
        Ok(())
    }

    /// Stops a run that is still at work.
    async fn stop_now(&mut self) -> Result<(), Failure> {
        match self.kind_of(Control::Stop(StopMode::Now)) {
            Some(kind @ EventKind::StopRequested { .. }) => self.tell_own(kind).await,
            // It is over, and only being saved.
            _ => Ok(()),
        }
    }

    /// Starts what is commanded and not in flight. True when the run changed and its commands must be read again.
    async fn start_commands(&mut self) -> Result<bool, Failure> {
        let commands = self.run.commands();
        self.shared.keep_wait(&commands);
        self.cancel_unwished(&commands);
        // A call that is announced next is journaled together with what it follows.
        if !self.unwritten.is_empty() && commands.iter().any(|command| self.would_start(command)) {
            self.write_down().await?;
            return Ok(true);
        }
        // The gate that a stop waits for may be minutes away behind a rate limit, for a call that was not sent yet.
        let is_stop_requested = self.run.is_stop_requested();
        self.in_flight
            .values()
            .filter_map(|begun| begun.waits.as_ref())
            .for_each(|it| it.stop(is_stop_requested));
        if is_stop_requested {
            self.in_flight.values().filter_map(|begun| begun.at_gate.as_ref()).for_each(|it| it.cancel());
        }
        for command in commands {
            match command {
                Command::CallModel(call) if self.is_in_flight(call.key, call.attempt) => {}
                Command::CallModel(call) => match call.granted {
                    Some(granted) => self.start_call(call, granted),
                    None if self.shared.waits() => {}
                    None => {
                        if self.announce(call).await? {
                            return Ok(true);
                        }
                    }
                },
                Command::RunTool(tool) if self.is_in_flight(tool.key, tool.attempt) => {}
                Command::RunTool(tool) if tool.announced => self.start_tool(tool).await?,
                Command::RunTool(tool) => {
                    let kind = EventKind::ToolStarted { key: tool.key, attempt: tool.attempt };
                    self.tell_own(kind).await?;
                    return Ok(true);
                }
                Command::Check(check) if self.is_in_flight(check.key, check.attempt) => {}
                Command::Check(check) if check.announced => self.start_check(check).await?,
                Command::Check(check) => {
                    let kind = EventKind::CheckStarted { key: check.key, attempt: check.attempt };
                    self.tell_own(kind).await?;
                    return Ok(true);
                }
                // An approver sees the question in the events and answers through the handle; some are quick.
                Command::AskPerson { key, .. } => {
                    let now = self.clock.now();
                    if let Some(kind) = controls::said_before(&self.run, now, &mut self.answers, key) {
                        self.tell_own(kind).await?;
                        return Ok(true);
                    }
                }
                // What is to be cut off is commanded no longer, so it was cancelled above.
                Command::Abort { .. } => {}
                Command::Save { attempt } => {
                    // Once a run at most but for retries, and the largest future of all.
                    Box::pin(self.save(attempt)).await?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether the next step on a command does something that was announced, or needs no announcement.
    fn would_start(&self, command: &Command) -> bool {
        match command {
            Command::CallModel(call) => call.granted.is_some() && !self.is_in_flight(call.key, call.attempt),
            Command::RunTool(tool) => tool.announced && !self.is_in_flight(tool.key, tool.attempt),
            Command::Check(check) => check.announced && !self.is_in_flight(check.key, check.attempt),
            Command::Abort { .. } => false,
            Command::AskPerson { .. } | Command::Save { .. } => true,
        }
    }

    /// Announces the next call of a reply that is still being received, if the core would admit it now. True when the
    /// run changed and its commands must be read again.
    async fn start_early(&mut self) -> Result<bool, Failure> {
        while let Some(next) = self.early.next() {
            let at = self.clock.now().max(self.run.now());
            let (mut name, mut arguments) = (Arc::clone(&next.name), next.arguments.clone());
            sink::mask_requested(&self.parts.secrets, &mut name, &mut arguments);
            match self.run.eager_read(at, next.call, &name, &arguments) {
                Ok(kind) => {
                    self.early.start();
                    self.tell_own_at(at, kind).await?;
                    return Ok(true);
                }
                Err(NotEager::Waits) => return Ok(false),
                Err(_) => self.early.refuse(),
            }
        }
        Ok(false)
    }

    fn is_in_flight(&self, key: CommandKey, attempt: u32) -> bool {
        self.in_flight.contains_key(&(key, attempt))
    }

    fn cancel_unwished(&self, commands: &[Command]) {
        for ((key, attempt), begun) in &self.in_flight {
            let commanded = commands.iter().any(|command| match command {
                Command::CallModel(call) => (call.key, call.attempt) == (*key, *attempt),
                Command::RunTool(tool) => (tool.key, tool.attempt) == (*key, *attempt),
                Command::Check(check) => (check.key, check.attempt) == (*key, *attempt),
                Command::Abort { .. } | Command::AskPerson { .. } | Command::Save { .. } => false,
            });
            if !commanded {
                begun.cancel.cancel();
            }
        }
    }

    /// Cuts off what has taken its whole time. How it ended is reported when it settles.
    fn cut_off_late(&mut self) {
        let now = Instant::now();
        for begun in self.in_flight.values_mut() {
            if begun.ends.take_if(|ends| *ends <= now).is_some() {
                begun.cancel.cancel();
            }
        }
    }

    fn start_call(&mut self, call: CallModel, granted: u64) {
        // What branches off never continues, and would only push out what does.
        let memory = match call.key.slot {
            Slot::Main | Slot::Final => self.memories.entry(call.tier).or_default().clone(),
            _ => Memory::default(),
        };
        let mut request = match &mut self.conversation {
            Some(conversation) => {
                conversation.be_ready(&self.parts.prompts, &self.run, call.key);
                model::native_request(&self.run, &call, granted, conversation, memory)
            }
            None => match self.rendered(&call) {
                Some(prompt) => model::request(&self.run, &call, granted, &prompt, memory),
                None => return,
            },
        };
        let token = CancellationToken::new();
        let client = Arc::clone(self.parts.models.of(call.tier));
        let hear = self.hear(call.key, call.attempt);
        let ends = Instant::now() + Duration::from_millis(call.timeout_ms);
        let waits = Arc::new(Waits::new(&token));
        let begun = InFlight { ends: Some(ends), waits: Some(Arc::clone(&waits)), ..InFlight::with(&token) };
        self.in_flight.insert((call.key, call.attempt), begun);
        request.meta.traceparent = self.spans.of_call(self.run.id(), call.key, call.attempt);
        request.secrets = self.parts.secrets.clone();
        let is_main = call.key.slot == Slot::Main;
        let early = self.early.collector((call.key, call.attempt)).filter(|_| is_main);
        let call = model::call(client, Box::new(request), call, ends, waits, hear, early);
        self.tasks.push(call.boxed());
    }

    /// The callback that receives what happens to one call, and tells the run's listeners.
    fn hear(&self, key: CommandKey, attempt: u32) -> OnEvent {
        let (feeds, secrets) = (self.feeds.clone(), self.parts.secrets.clone());
        Arc::new(move |received: CallEvent<'_>| {
            let event = match received {
                // Its pieces are masked where they come together.
                CallEvent::Text(text) => RunEvent::Text { key, attempt, text: Arc::clone(text) },
                CallEvent::Part(part) => RunEvent::Part { key, attempt, part },
                CallEvent::News(news) => RunEvent::Call { key, attempt, news: sink::news(&secrets, news) },
            };
            let Some((last, others)) = feeds.split_last() else { return };
            others.iter().for_each(|feed| feed.tell(event.clone()));
            last.tell(event);
        })
    }

    /// The prompt that was announced for a call; rendered again where it is not at hand.
    fn rendered(&mut self, call: &CallModel) -> Option<Prompt> {
        let rendered =
            self.prompt.take().filter(|(key, attempt, _)| (*key, *attempt) == (call.key, call.attempt));
        match rendered {
            Some((_, _, prompt)) => Some(prompt),
            None => self.dialogue.prompt(&self.parts.prompts, &self.run, call.key),
        }
    }

    async fn start_check(&mut self, mut command: Check) -> Result<(), Failure> {
        let (key, attempt) = (command.key, command.attempt);
        if command.sub_call.is_some() && !self.reserve_shared_sub_call(key, attempt).await? {
            command.sub_call = None;
        }
        let token = CancellationToken::new();
        self.in_flight.insert((key, attempt), InFlight::with(&token));
        let span = self.spans.of_call(self.run.id(), key, attempt);
        let work = CheckWork::of(&self.run, command, &self.parts.prompts, span);
        let hear = self.hear(key, attempt);
        self.tasks.push(work.run(Arc::clone(&self.parts), hear, token).boxed());
        Ok(())
    }

    /// Starts a run that is called as a tool. It takes its own time: its wall clock is part of its lease.
    fn start_run(&mut self, command: &RunTool, lease: Lease, tool: RunAsTool) {
        let (key, attempt) = (command.key, command.attempt);
        let (token, at_gate) = (CancellationToken::new(), CancellationToken::new());
        self.dispatches += 1;
        let dispatch = self.dispatches;
        let begun = InFlight { dispatch, at_gate: Some(at_gate.clone()), ..InFlight::with(&token) };
        self.in_flight.insert((key, attempt), begun);
        let span = self.spans.of_call(self.run.id(), key, attempt);
        let call = ChildCall::of(&self.run, command, lease, span);
        let call = tool.run(call, Arc::clone(&self.parts), token, at_gate);
        self.tasks.push(call.map(move |settled| WorkEnd { dispatch, ..settled }).boxed());
    }

    async fn start_tool(&mut self, mut command: RunTool) -> Result<(), Failure> {
        if self.in_place.is_needed() {
            self.call_back_first(&command);
        }
        if let Some((lease, tool)) =
            command.lease.zip(self.parts.registry.value::<RunAsTool>(&command.tool).cloned())
        {
            self.start_run(&command, lease, tool);
            return Ok(());
        }
        if command.sub_call.is_some() && !self.reserve_shared_sub_call(command.key, command.attempt).await? {
            command.sub_call = None;
        }
        let token = CancellationToken::new();
        self.dispatches += 1;
        let dispatch = self.dispatches;
        let begun = InFlight { dispatch, ..InFlight::with(&token) };
        self.in_flight.insert((command.key, command.attempt), begun);
        let model = self.parts.models.of(self.run.auxiliary_tier());
        let (key, attempt) = (command.key, command.attempt);
        // Only a question to a model is heard of.
        let hear = || self.hear(key, attempt);
        if !self.parts.watchers.is_empty() {
            let (at, key) = (self.clock.now(), self.run.idempotency_key(&key));
            for watcher in &self.parts.watchers {
                watcher.tell(|observer| observer.dispatches(self.run.id(), &command, &key, at));
            }
        }
        let span = self.spans.of_call(self.run.id(), key, attempt);
        let registry = &self.parts.registry;
        let work = ToolWork::of(&self.run, command, registry, span);
        let call = Dispatch::new(work, model, &self.parts.prompts, token, hear);
        let call = call.run(registry, &self.parts.credentials);
        self.tasks.push(call.map(move |settled| WorkEnd { dispatch, ..settled }).boxed());
        Ok(())
    }

    /// What the end of something in flight comes to; nothing where it is a read that was dropped.
    fn settle(&mut self, settled: WorkEnd) -> Option<EventKind> {
        let WorkEnd { mut kind, retry, messages, dispatch, asks } = settled;
        if let (Some(conversation), Some(messages)) = (&mut self.conversation, messages) {
            conversation.take_back(messages);
        }
        match &mut kind {
            EventKind::ToolFinished { key, attempt, .. } | EventKind::RunWaits { key, attempt, .. } => {
                let begun = self.in_flight.get(&(*key, *attempt));
                begun.filter(|begun| begun.dispatch == dispatch)?;
                self.in_flight.remove(&(*key, *attempt));
                match asks.is_empty() {
                    true => self.asked_below.remove(key),
                    false => self.asked_below.insert(*key, asks),
                };
            }
            EventKind::ModelReplied { key, attempt, .. } | EventKind::Checked { key, attempt, .. } => {
                self.in_flight.remove(&(*key, *attempt));
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.in_flight.remove(&(*key, *attempt));
                failure.retry_at = retry.map(|delay| self.after(delay));
            }
            _ => {}
        }
        Some(kind)
    }

    /// The event of a request from outside. `None`: it comes too late, or is kept until a person is asked.
    fn kind_of(&mut self, control: Control) -> Option<EventKind> {
        if let Control::Remote(asked) = control {
            self.remote = Some(asked);
            return None;
        }
        controls::received(&self.run, self.clock.now(), &mut self.answers, control).event()
    }

    fn after(&self, delay: Duration) -> Millis {
        self.clock.now().plus(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
    }

    /// Tells the run what the driver does on its command. Where the run rejects that, its command stays as it is, and
    /// granting it again would continue for ever.
    fn tell_own(&mut self, kind: EventKind) -> impl Future<Output = Result<(), Failure>> + Send {
        self.tell_own_at(self.clock.now(), kind)
    }

    fn tell_own_at(
        &mut self,
        at: Millis,
        kind: EventKind,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let name = kind.name();
        let telling = self.tell(at, kind);
        async move {
            match telling.await? {
                None => Ok(()),
                Some(rejected) => Err(Failure::Stuck(format!("the run refuses its own {name}: {rejected}"))),
            }
        }
    }

    /// First decided, then durable, then reported. What the run rejects changes nothing and is not recorded.
    ///
    /// It is decided at once. The future has what follows alone: with the event in it, and in the futures around it, each
    /// run would hold room for several events.
    fn tell(
        &mut self,
        at: Millis,
        kind: EventKind,
    ) -> impl Future<Output = Result<Option<Rejected>, Failure>> + Send {
        let decided = self.decide(at, kind);
        async move {
            match decided {
                Ok(true) => Ok(None),
                Ok(false) => self.write_down().await.map(|()| None),
                Err(rejected) => Ok(Some(rejected)),
            }
        }
    }

    /// Lets the run decide about an event, and keeps it for the journal. True if it is journaled with what follows.
    fn decide(&mut self, at: Millis, kind: EventKind) -> Result<bool, Rejected> {
        let kind = sink::kind(&self.parts.secrets, kind);
        let event = Event { at: at.max(self.run.now()), kind };
        let notes = self.run.apply(&event)?;
        self.cancel_dropped(&notes);
        Ok(self.keep(event, notes, /*tells_hooks*/ true))
    }

    /// Cancels the eager reads that were dropped. Their results count for nothing, whenever they come.
    fn cancel_dropped(&mut self, notes: &[Note]) {
        for note in notes {
            if let Note::ReadDropped(DroppedRead { key, attempt, finished: false, .. }) = note
                && let Some(begun) = self.in_flight.remove(&(*key, *attempt))
            {
                begun.cancel.cancel();
            }
        }
    }

    /// Keeps an entry until it is journaled. True if it is journaled with what follows, false if at once.
    fn keep(&mut self, event: Event, mut notes: Vec<Note>, tells_hooks: bool) -> bool {
        // Journals may keep them for long.
        notes.shrink_to_fit();
        let entry = Arc::new(Entry { seq: self.seq, event, notes });
        let durability = Durability::of(&entry.event.kind, &self.run);
        // Observers in place receive the run as it is after each entry.
        let waits = durability == Durability::Committed && !self.in_place.is_needed();
        self.seq += 1;
        self.durability = self.durability.max(durability);
        if tells_hooks {
            self.announce_to_hooks(entry.event.at);
        }
        self.unwritten.push(entry);
        waits
    }

    /// Journals what is not journaled yet, and tells of it.
    async fn write_down(&mut self) -> Result<(), Failure> {
        let mut entries = std::mem::take(&mut self.unwritten);
        let messages = std::mem::take(&mut self.messages);
        let tells = !messages.is_empty();
        if tells {
            self.writer.announce(messages);
        }
        let durability = std::mem::replace(&mut self.durability, Durability::Committed);
        let (written, failed) = match entries.as_slice() {
            [] => (0, None),
            [entry] => match self.writer.append(entry, durability).await {
                Ok(()) => (1, None),
                Err(error) => (0, Some(error)),
            },
            entries => match self.writer.append_all(entries, durability).await {
                Ok(()) => (entries.len(), None),
                Err((written, error)) => (written, Some(error)),
            },
        };
        // The last that was applied is taken back first.
        entries.drain(written..).rev().for_each(|entry| self.run.take_back(&entry.event.kind));
        let is_any = !entries.is_empty();
        let settled = self.settle_shared(&entries).await;
        entries.drain(..).for_each(|entry| self.recorded(entry));
        self.unwritten = entries;
        if is_any {
            self.rest().await;
        }
        if tells && failed.is_none() {
            self.deliver();
        }
        failed.map_or(settled, |error| Err(error.into()))
    }

    /// Tells of an entry that is durable.
    fn recorded(&mut self, entry: Arc<Entry>) {
        self.uses.hear(&entry, self.run.spec());
        if self.in_place.is_needed() {
            self.call_back(&entry);
        }
        self.feeds.retain(|feed| !feed.is_gone());
        for feed in &self.feeds {
            feed.tell(RunEvent::Recorded(Arc::clone(&entry)));
        }
    }

    /// Lets the listener receive what was recorded, where it decides how fast the run continues.
    async fn rest(&mut self) {
        if self.pace == Pace::InStep {
            let since = Instant::now();
            rest(self.listener.as_ref().is_none_or(Feed::is_gone)).await;
            // The rest is the listener's time, not the run's.
            self.clock.origin += since.elapsed();
        }
    }

    /// The outcome of a run that can be driven no further.
    fn abandoned(&self, message: &str) -> Outcome {
        let value = Measure::Text(message.into());
        let failed = Condition::new(StopReason::StorageFailed, value);
        let also = self.run.outcome().map(|outcome| outcome.stop.clone());
        let also =
            also.map_or_else(Vec::new, |stop| std::iter::once(stop.primary).chain(stop.also).collect());
        let mut outcome = self.run.outcome_so_far(Certificate::new(failed, also));
        match self.run.outcome() {
            Some(ended) => (outcome.totals, outcome.saved) = (ended.totals, ended.saved.clone()),
            None => outcome.totals.wall_ms = self.run.elapsed_ms(),
        }
        outcome
    }
}

/// Why a run that waits is left where it is.
fn waiting(run: &Run) -> Certificate {
    let value =
        Measure::Names(run.requested().iter().map(|requested| requested.key.to_string().into()).collect());
    let waits = Condition::new(StopReason::NeedsHuman, value);
    Certificate::new(waits, Vec::new())
}

/// Why a run can be driven no further.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run commands what it does not take.
    #[error("{0}")]
    Stuck(String),
}

/// Yields to the task that polls the run. A listener finds what was just reported, and polls again after it. Where no
/// listener polls, the run wakes itself (`wakes`).
fn rest(wakes: bool) -> impl Future<Output = ()> {
    let mut has_rested = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut has_rested, true) {
            return Poll::Ready(());
        }
        if wakes {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
}

/// Waits until `at`; for ever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}
