//! A loop put together: spec, tools, models, prompts, journal. It serves any number of runs.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use loop_core::policy::{forbids, is_forbidden};
use loop_core::{
    Change, CommandKey, Event, EventKind, Facts, GateSettings, History, NotTakenOver, Overridden, Phase,
    PicoUsd, Program, Provenance, Purpose, Rejected, Run, RunId, RunSpec, Slot, SpecNames, Started, WorkItem,
};
use loop_llm::{Message, Secrets, holds_url_secret};
use loop_prompts::{Dialogue, Prompts, Thread};
use loop_tools::{Credentials, Registry};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::callbacks::Callbacks;
use crate::conversation::{self, Conversation, Offered, Rules};
use crate::driver::sharing::Sharing;
use crate::driver::{Clock, Driver, Ended, Opening, Pace};
use crate::events::Events;
use crate::fresh::nonce;
use crate::handle::Remote;
use crate::hooks::{Before, HookMessage, Hooks};
use crate::journal::{Entry, Header, Journal, JournalError, MemoryJournal, Recorded};
use crate::model::Models;
use crate::observer::{Observed, Observer, Watcher};
use crate::replay::{Replay, ReplayDepth, replay_with};
use crate::save::Saver;
use crate::shared::SharedBudgets;
use crate::sink;
use crate::taint::{doubts_of, requested_of, taint_of, user_texts_of};
use crate::trace::TraceSampler;
use crate::uses::ToolUses;
use crate::validate::Validator;
use crate::versions;

/// Everything that a driver needs beside the run.
pub(crate) struct Parts {
    pub(crate) spec: Arc<RunSpec>,
    /// The names of the spec, once a run has begun.
    names: OnceLock<SpecNames>,
    pub(crate) registry: Registry,
    pub(crate) models: Models,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) credentials: Arc<Credentials>,
    /// What no run reads, journals, shows or sends to a model: see `sink`.
    pub(crate) secrets: Secrets,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) saver: Option<Arc<dyn Saver>>,
    /// The tools as models see them.
    pub(crate) offered: Offered,
    pub(crate) rules: Rules,
    pub(crate) callbacks: Arc<Callbacks>,
    /// What an output is compared with, beside its schema.
    pub(crate) validators: Arc<[Arc<dyn Validator>]>,
    /// The budgets that all its runs share. `None`: they share none.
    pub(crate) shared: Option<SharedBudgets>,
    /// Whether a run that waits for people is left alone.
    pub(crate) leaves: bool,
    /// How long saving may take, all its tries together.
    pub(crate) save_limit: Duration,
    /// Whether the limit of messages counts those of a run alone.
    pub(crate) counts_own: bool,
    origin: Option<Arc<str>>,
    overridden: Vec<Overridden>,
    /// The program as the record of its runs names it.
    pub(crate) program: Program,
    pub(crate) watchers: Vec<Arc<Watcher>>,
    /// Which runs are traced. `None`: none has spans of its own.
    pub(crate) sampler: Option<Arc<dyn TraceSampler>>,
    pub(crate) hooks: Hooks,
}

/// A run that is ready to be driven.
pub(crate) struct Begun {
    pub(crate) id: RunId,
    pub(crate) started: Arc<Started>,
    pub(crate) remote: Remote,
    pub(crate) events: Events,
    pub(crate) driving: BoxFuture<'static, Ended>,
}

/// Runs work items, one after another or in parallel. Clones share everything.
#[derive(Clone)]
pub struct Runner {
    parts: Arc<Parts>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("domain", &self.parts.spec.domain)
            .field("tools", &self.parts.registry)
            .finish()
    }
}

/// Why a run could not begin, or could not be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A stored entry does not follow from the ones before it.
    #[error("entry {seq} of run {run} does not follow from the ones before it: {rejected}")]
    Broken {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// What is wrong.
        rejected: Rejected,
    },
    /// An entry is missing, or one is there twice.
    #[error(
        "run {run} has entry {found} where entry {expected} belongs; restore the journal from a copy, or keep what is whole with `loopgate verify {run} --salvage`"
    )]
    Sequence {
        /// The run.
        run: RunId,
        /// The sequence number that follows from the entries before it.
        expected: u64,
        /// The sequence number of the entry that is there.
        found: u64,
    },
    /// What was decided then is not what is decided now.
    #[error(
        "entry {seq} of run {run} was decided otherwise by the program that wrote it, {by}; this is {own}; use that version of loopgate"
    )]
    Decided {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// The program that wrote it.
        by: Box<Program>,
        /// This program.
        own: Box<Program>,
    },
    /// A newer program has driven the run.
    #[error(
        "run {run} was driven by {by}, which is newer than this {own}; resume it with that version of loopgate"
    )]
    NewerProgram {
        /// The run.
        run: RunId,
        /// The program that drove it last.
        by: Box<Program>,
        /// This program.
        own: Box<Program>,
    },
    /// A durable engine drives the run, and the journal follows it.
    #[error(
        "run {run} is driven by {engine}, and its workers continue it; use --ingress URL with `loopgate engine status`, `engine stop`, `approve`, `deny`, `answer` and `tell`"
    )]
    OnEngine {
        /// The run.
        run: RunId,
        /// The engine.
        engine: Arc<str>,
    },
    /// The request's key belongs to a run of something else.
    #[error(
        "the key `{key}` belongs to run {run}, which is of another domain or another work item; give this request a key of its own"
    )]
    OtherRequest {
        /// The caller's key.
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// The request's key belongs to a run that was imported, for which this journal does not vouch.
    #[error(
        "run {run} of the key `{key}` was imported and is not this journal's own; use another key, or delete the run with `loopgate journal prune`"
    )]
    ImportedRequest {
        /// The caller's key.
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// The messages that the run would continue cannot be used.
    #[error("the messages before the run: {message}")]
    History {
        /// What is wrong with them.
        message: String,
    },
    /// The work item, or the message, is blank.
    #[error("the {kind} is blank, so there is nothing to work on; give it a text")]
    Blank {
        /// The word for such an item, for example `ticket` or `message`.
        kind: Arc<str>,
    },
    /// The spec has a cost limit, and the price of its model is unknown, so the limit could not be kept.
    #[error(
        "the price of `{model}` is unknown, so the limit of {limit} for a run cannot be kept; give the price with ModelSpec::with_price, or set limits.cost to None"
    )]
    CostWithoutPrice {
        /// The limit, in pico-dollars.
        limit: PicoUsd,
        /// The model, by the provider's name for it.
        model: Arc<str>,
    },
    /// The limits of cost and tokens do not pay for the first pass. Nothing was journaled or spent.
    #[error(
        "the limits do not pay for the first pass, so nothing was started; the smallest that work are {}",
        changes(.least)
    )]
    FirstPassUnpaid {
        /// The limits, each with the smallest value that works.
        least: Vec<Change>,
    },
    /// The run shares a budget, and the price of a model is unknown, so the budget could not be kept.
    #[error(
        "the price of `{model}` is unknown, so the budget that runs share cannot be kept; set the price of the model, or leave the budget out"
    )]
    SharedBudgetWithoutPrice {
        /// The model, by the provider's name for it.
        model: Arc<str>,
    },
    /// An answer or instruction of a person does not count.
    #[error("run {run}: {rejected}")]
    Refused {
        /// The run.
        run: RunId,
        /// Why it does not.
        rejected: Rejected,
    },
    /// A fork cannot begin after this entry.
    #[error("run {run} cannot be forked after entry {entry}: {why}; {}", forkable(*last))]
    NotForked {
        /// The run that was to be forked.
        run: RunId,
        /// The sequence number of the entry.
        entry: u64,
        /// Why not.
        why: NotTakenOver,
        /// The last entry up to this one after which a fork can begin. `None`: there is none.
        last: Option<u64>,
    },
    /// A run has no such entry.
    #[error("run {run} has no entry {entry}: the last one is {last}")]
    NoEntry {
        /// The run.
        run: RunId,
        /// The sequence number that was named.
        entry: u64,
        /// The sequence number of its last entry.
        last: u64,
    },
    /// A run cannot be retried, or what is left of it cannot be continued.
    #[error("run {run}: {why}; {}", instead(why))]
    NotTakenOver {
        /// The run.
        run: RunId,
        /// Why not.
        why: NotTakenOver,
    },
    /// The tools, prompts or settings are not the ones that the run was started with.
    #[error("run {run} was started with other {what}{}; resume it with the domain as it was", named(tools))]
    Changed {
        /// The run.
        run: RunId,
        /// What differs: `tools`, `settings` or `prompts`.
        what: &'static str,
        /// The names of the tools whose declaration or definition differs. Empty if the tools are the same.
        tools: Vec<String>,
    },
}

impl Runner {
    /// A loop over these tools and models, with the built-in prompts and a journal in memory.
    ///
    /// The spec's list of tools is taken from the registry. Where its limit of money could not be kept, since the price of
    /// its base model is unknown, a run does not start: [`StartError::CostWithoutPrice`].
    pub fn new(spec: RunSpec, registry: Registry, models: Models) -> Self {
        let spec = Arc::new(RunSpec { tools: registry.specs(), save: false, ..spec });
        let parts = Parts {
            offered: Offered::of(&registry, &spec),
            rules: Rules::default(),
            callbacks: Arc::default(),
            validators: Arc::new([]),
            names: OnceLock::new(),
            secrets: models.secrets(),
            spec,
            registry,
            models,
            prompts: Arc::new(Prompts::builtin()),
            credentials: Arc::new(Credentials::none()),
            journal: Arc::new(MemoryJournal::new()),
            saver: None,
            save_limit: SAVE_LIMIT,
            leaves: false,
            shared: None,
            counts_own: false,
            origin: None,
            overridden: Vec::new(),
            program: versions::own(),
            watchers: Vec::new(),
            sampler: None,
            hooks: Hooks::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// The same loop with other prompts.
    pub fn with_prompts(self, prompts: Arc<Prompts>) -> Self {
        self.with(|parts| parts.prompts = prompts)
    }

    /// The same loop with credentials for its tools.
    pub fn with_credentials(self, credentials: Arc<Credentials>) -> Self {
        let values = credentials.names().filter_map(|name| credentials.get(name));
        let secrets = Secrets::of(values);
        self.with_secrets(&secrets).with(|parts| parts.credentials = credentials)
    }

    /// The same loop with more secrets. They are masked wherever they come from (a tool, a work item, a person, a model),
    /// before a run reads them: nothing that is journaled, shown, saved or sent to a model holds one. The credentials of its
    /// models and tools are among them already.
    pub fn with_secrets(self, secrets: &Secrets) -> Self {
        self.with(|parts| parts.secrets.extend(secrets))
    }

    /// What is masked in all its runs.
    pub fn secrets(&self) -> &Secrets {
        &self.parts.secrets
    }

    /// The same loop with somebody who answers when an action needs a person's consent: through the handle, or the
    /// stream, of the run.
    pub fn with_people(self) -> Self {
        self.with(|parts| {
            let gate = GateSettings { people: true, ..parts.spec.gate.clone() };
            parts.spec = Arc::new(RunSpec { gate, ..(*parts.spec).clone() });
        })
    }

    /// The same loop, leaving a run where it is as soon as it waits for people and nothing else: nobody needs to be there
    /// until they answer. [`Handle::driven`](crate::run::Handle::driven) tells which it was, and [`resume_with`](Self::resume_with) goes on. It says
    /// nothing about whether there are people: see [`with_people`](Self::with_people).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, models::{ModelSpec, Models, Scripted}, people::PersonAnswer, run::EventKind, spec::SectionSpec, tools::{Effect, Registry}};
    /// # use loop_runtime::{WorkItem, run::Driven, tools::{ToolDeclaration, ToolResult}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let reboot = ToolDeclaration::new("reboot").description("Reboots it.").effect(Effect::WriteKeyed);
    /// # let tools = Registry::builder().tool_fn(reboot, |_, _, _| async move {
    /// #     ToolResult::ok("reboot", "rebooted", "It is rebooted.", serde_json::json!({}))
    /// # }).build()?;
    /// # let spec = RunSpec::conversation("help", ModelSpec::new("scripted", "s"));
    /// # let model = Scripted::from_json(r#"{"version": 1, "replies": [
    /// #     {"calls": [{"id": "c", "name": "reboot", "arguments": "{}"}]}, {"text": "Done."}]}"#)?;
    /// # let runner = Runner::new(spec, tools, Models::one(Arc::new(model)));
    /// # let item = WorkItem::new("T-1", "ticket", "It hangs", "Reboot it.");
    /// let runner = runner.with_people().leave_when_waiting();
    /// let Driven::Waiting(waiting) = runner.run(item).start().await?.driven().await else {
    ///     return Err("nothing was asked".into());
    /// };
    /// let requested = &waiting.requested[0];
    /// println!("may {} run with {}?", requested.tool, requested.parameters);
    /// // Another day, in another process:
    /// let (key, binding) = (requested.key, Some(requested.binding));
    /// let yes = EventKind::PersonAnswered { key, answer: PersonAnswer::Approved, binding };
    /// let outcome = runner.resume_with(&waiting.outcome.run, [yes]).await?;
    /// assert_eq!(outcome.answer.as_deref(), Some("Done."));
    /// # Ok(())
    /// # }
    /// ```
    pub fn leave_when_waiting(self) -> Self {
        self.with(|parts| parts.leaves = true)
    }

    /// The same loop, whose limit of messages counts those of a run alone, and not those that it continues from: for a
    /// conversation with a person, who continues as long as they like. The limit is there for a run that does (S1-39).
    pub fn counting_own_messages(self) -> Self {
        self.with(|parts| parts.counts_own = true)
    }

    /// The same loop with a text that its journal keeps beside each run: how whoever continues one can put the same
    /// loop together. It is read by nobody here.
    pub fn with_origin(self, origin: impl Into<Arc<str>>) -> Self {
        self.with(|parts| parts.origin = Some(origin.into()))
    }

    /// The same loop, whose runs name the settings that were given in place of those of its domain. A value that holds an
    /// address with a credential in it is not kept.
    pub fn with_overridden(self, overridden: impl IntoIterator<Item = Overridden>) -> Self {
        let kept = |setting: Overridden| match holds_url_secret(&setting.value) {
            true => Overridden { value: WITHHELD.into(), ..setting },
            false => setting,
        };
        self.with(|parts| parts.overridden = overridden.into_iter().map(kept).collect())
    }

    /// The same loop as another program would run it: what it records of its runs, and which runs it continues. For tests
    /// of versions in flight.
    #[doc(hidden)]
    pub fn acting_as(self, program: Program) -> Self {
        self.with(|parts| parts.program = program)
    }

    /// The same loop writing to another journal.
    pub fn with_journal(self, journal: Arc<dyn Journal>) -> Self {
        self.with(|parts| parts.journal = journal)
    }

    /// The same loop, whose runs share these budgets: each model call is reserved in all of them before it is sent. A run
    /// whose next call they do not cover ends with [`StopReason::SharedBudgetExceeded`](crate::StopReason::SharedBudgetExceeded),
    /// after its final pass if that is covered. The price of each model has to be known.
    pub fn with_shared_budgets(self, shared: SharedBudgets) -> Self {
        self.with(|parts| parts.shared = Some(shared).filter(|shared| !shared.is_empty()))
    }

    /// The budgets that its runs share. `None`: they share none.
    pub fn shared_budgets(&self) -> Option<&SharedBudgets> {
        self.parts.shared.as_ref()
    }

    /// The same loop saving its outcomes.
    pub fn with_saver(self, saver: Arc<dyn Saver>) -> Self {
        self.with(|parts| {
            parts.secrets.extend(&saver.secrets());
            parts.saver = Some(saver);
            parts.spec = Arc::new(RunSpec { save: true, ..(*parts.spec).clone() });
        })
    }

    /// The same loop, whose saving takes no longer than this, all its tries together: 30 seconds unless it is set.
    pub fn with_save_limit(self, limit: Duration) -> Self {
        self.with(|parts| parts.save_limit = limit)
    }

    /// The same loop with hooks: they are told when a run waits for a person, ends or fails. Their messages need a journal with
    /// an outbox, such as [`StoredJournal`](crate::journal::StoredJournal); any other keeps none.
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        self.with(|parts| parts.hooks = hooks)
    }

    /// Its hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.parts.hooks
    }

    /// The same loop with callbacks, which are called on the run's own task.
    pub fn with_callbacks(self, callbacks: Callbacks) -> Self {
        self.with(|parts| parts.callbacks = Arc::new(callbacks))
    }

    /// The same loop, holding each output against these validators once it fits its schema, in this order.
    pub fn with_validators(self, validators: impl IntoIterator<Item = Arc<dyn Validator>>) -> Self {
        self.with(|parts| parts.validators = validators.into_iter().collect())
    }

    /// The same loop with an observer, who hears what happens in all its runs on a thread of its own and can neither
    /// slow nor break one.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, observe::RunEvent, run::RunId, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
    /// let runner = runner.with_observer(Arc::new(|run: &RunId, event: &RunEvent| {
    ///     if let RunEvent::Recorded(entry) = event {
    ///         println!("{run}: {}", entry.event.kind.name());
    ///     }
    /// }));
    /// let outcome = runner.run(item).await?;
    /// // The run does not wait for its observers; a program that wants all of them heard does.
    /// runner.observers_caught_up().await;
    /// assert_eq!(runner.observed()[0].panics, 0);
    /// # assert_eq!((outcome.totals.passes, runner.observed()[0].lost), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the system gives no thread.
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        self.with(|parts| parts.watchers.push(Arc::new(Watcher::new(observer))))
    }

    /// What each observer heard so far, in the order in which they were added.
    pub fn observed(&self) -> Vec<Observed> {
        self.parts.watchers.iter().map(|watcher| watcher.observed()).collect()
    }

    /// Waits until all observers have heard what has happened so far. With one that never returns this never ends:
    /// bound it.
    pub async fn observers_caught_up(&self) {
        for watcher in &self.parts.watchers {
            watcher.caught_up().await;
        }
    }

    /// What it runs by.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.parts.spec
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// Its journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.parts.journal
    }

    /// A run that is ready to begin: with an item, and with the messages before it where there are any.
    pub(crate) async fn open(&self, item: WorkItem, history: Vec<Message>) -> Result<Opening, StartError> {
        self.open_keyed(item, history, None, None).await
    }

    /// The same, under the caller's request key, and with an id that was given out before.
    pub(crate) async fn open_keyed(
        &self,
        item: WorkItem,
        history: Vec<Message>,
        request_key: Option<Arc<str>>,
        id: Option<RunId>,
    ) -> Result<Opening, StartError> {
        if history.is_empty() && item.is_blank() {
            return Err(StartError::Blank { kind: item.kind });
        }
        let spec = &self.parts.spec;
        self.parts.check_price()?;
        let secrets = &self.parts.secrets;
        let (item, history) = (sink::item(secrets, item), sink::messages(secrets, history));
        let history: Arc<[Message]> = history.into();
        let id = id.unwrap_or_else(Self::new_id);
        let parts = &self.parts;
        let facts = parts.facts(written(&history, parts)?);
        let header = Header { request_key, ..parts.header(&id, &facts, &item) };
        let (run, event, notes) = Run::start_named(id, Arc::clone(spec), parts.names(), item, facts);
        parts.check_first_pass(&run, Arc::clone(&history))?;
        let opened = Arc::new(Entry { seq: 0, event, notes });
        let messages = parts.new_messages(Before::default(), &run);
        let writer = parts.journal.create_announcing(&header, &opened, messages).await?;
        Ok(Opening::of_new(run, writer, opened, history))
    }

    /// Whether a run was begun for this item, in this domain. Who asks for it, and under which trace, may differ.
    pub fn is_same_request(&self, run: &Run, item: WorkItem) -> bool {
        let plain = |item: WorkItem| WorkItem { caller: None, trace: None, traceparent: None, ..item };
        let item = plain(sink::item(&self.parts.secrets, item));
        run.spec().domain == self.parts.spec.domain && plain(run.started().item.clone()) == item
    }

    /// The same as [`reopen`](Self::reopen), with what people say to the run as soon as it is driven.
    pub(crate) async fn reopen_with(
        &self,
        run: &RunId,
        stated: impl IntoIterator<Item = EventKind>,
    ) -> Result<Opening, StartError> {
        let mut opening = self.reopen(run).await?;
        opening.hear(stated.into_iter().map(|kind| sink::kind(&self.parts.secrets, kind)))?;
        Ok(opening)
    }

    /// Everything that was said in a conversation up to the end of this recorded run, as another run of it continues from.
    ///
    /// # Errors
    /// If the messages before the run cannot be read.
    pub fn messages_of(&self, run: &Run) -> Result<Vec<Message>, StartError> {
        let own = Thread::whole(&self.parts.prompts, run).into_iter().map(conversation::message);
        Ok(read_history(run.started())?.iter().cloned().chain(own).collect())
    }

    /// A run that is ready to be taken up again.
    pub(crate) async fn reopen(&self, run: &RunId) -> Result<Opening, StartError> {
        let (recorded, writer) = self.parts.journal.resume(run).await?;
        let (mut state, by) = versions::taken_over(run, &recorded, &self.parts.program)?;
        self.parts.check_unchanged(state.started(), Some(&recorded.manifest))?;
        let before = Before::of(&state);
        // Wall time that went backwards must not take the run's time back.
        let base = recorded.now().max(state.now());
        let mut first = Vec::new();
        let event = Event { at: base, kind: EventKind::Resumed { away_ms: base.since(state.now()), by } };
        if let Ok(notes) = state.apply(&event) {
            first.push((event, notes));
        }
        let clock = Clock { origin: Instant::now(), base };
        let seq = recorded.entries.len() as u64;
        let mut uses = ToolUses::default();
        recorded.entries.iter().for_each(|entry| uses.hear(entry, &recorded.spec));
        let history = read_history(state.started())?;
        let shared = Sharing::after(&recorded.entries);
        let earlier = if self.parts.watchers.is_empty() { Vec::new() } else { recorded.entries };
        Ok(Opening {
            run: state,
            writer,
            seq,
            opened: None,
            clock,
            first,
            uses,
            history,
            before,
            earlier,
            shared,
        })
    }

    /// Replays a recorded run: its decisions, its prompts with the templates of this loop, and its reads with the tools of
    /// this loop, as far as `depth` says. Nothing is journaled, no model is called, and no tool that changes something.
    ///
    /// # Errors
    /// If the entries do not begin with the start of a run under the recorded spec.
    pub async fn replay(
        &self,
        run: &RunId,
        recorded: &Recorded,
        depth: ReplayDepth,
    ) -> Result<Replay, StartError> {
        replay_with(&self.parts, run, recorded, depth).await
    }

    pub(crate) fn begin(&self, opening: Opening, pace: Pace, cancel: Option<&CancellationToken>) -> Begun {
        let (id, started) = (opening.run.id().clone(), Arc::clone(opening.run.started_shared()));
        let (driver, events, remote) = self.driver(opening, pace, cancel);
        Begun { id, started, remote, events, driving: driver.drive().boxed() }
    }

    pub(crate) fn driver(
        &self,
        opening: Opening,
        pace: Pace,
        cancel: Option<&CancellationToken>,
    ) -> (Box<Driver>, Events, Remote) {
        let id = opening.run.id().clone();
        let (control, controls) = mpsc::unbounded_channel();
        let (feed, events) = match pace {
            Pace::Own => Events::queue(),
            Pace::InStep => Events::in_step(),
        };
        for watcher in &self.parts.watchers {
            watcher.tell(|observer| observer.drives(&opening.run, &opening.earlier));
        }
        let watching = self.parts.watchers.iter().map(|watcher| watcher.feed(&id));
        let feeds = std::iter::once(feed).chain(watching).collect();
        let driver = Driver::new(Arc::clone(&self.parts), opening, controls, feeds, pace);
        let driver = match cancel {
            Some(cancel) => driver.until(cancel),
            None => driver,
        };
        (Box::new(driver), events, Remote::new(control))
    }

    pub(crate) fn with(self, change: impl FnOnce(&mut Parts)) -> Self {
        let shared = &self.parts;
        let mut parts = Parts {
            spec: Arc::clone(&shared.spec),
            names: OnceLock::new(),
            registry: shared.registry.clone(),
            models: shared.models.clone(),
            prompts: Arc::clone(&shared.prompts),
            credentials: Arc::clone(&shared.credentials),
            secrets: shared.secrets.clone(),
            journal: Arc::clone(&shared.journal),
            saver: shared.saver.clone(),
            save_limit: shared.save_limit,
            offered: shared.offered.clone(),
            // Like the names they follow from what may change.
            rules: Rules::default(),
            callbacks: Arc::clone(&shared.callbacks),
            validators: Arc::clone(&shared.validators),
            shared: shared.shared.clone(),
            leaves: shared.leaves,
            counts_own: shared.counts_own,
            origin: shared.origin.clone(),
            overridden: shared.overridden.clone(),
            program: shared.program.clone(),
            watchers: shared.watchers.clone(),
            sampler: shared.sampler.clone(),
            hooks: shared.hooks.clone(),
        };
        change(&mut parts);
        Self { parts: Arc::new(parts) }
    }
}

impl Parts {
    /// The digests of the spec.
    pub(crate) fn names(&self) -> SpecNames {
        *self.names.get_or_init(|| SpecNames::of(&self.spec))
    }

    /// An error if the spec has a cost limit that an unknown price makes void.
    pub(crate) fn check_price(&self) -> Result<(), StartError> {
        let model = || Arc::clone(&self.spec.models.base.model);
        if self.shared.is_some() && self.spec.models.base.price.is_none() {
            return Err(StartError::SharedBudgetWithoutPrice { model: model() });
        }
        let unpriced = self.spec.unpriced_limit();
        unpriced.map_or(Ok(()), |limit| Err(StartError::CostWithoutPrice { limit, model: model() }))
    }

    /// An error if the limits of a run that is about to begin do not pay for its first pass.
    pub(crate) fn check_first_pass(&self, run: &Run, history: Arc<[Message]>) -> Result<(), StartError> {
        let limits = &run.spec().limits;
        if limits.cost.is_none() && limits.tokens.is_none() {
            return Ok(());
        }
        let main = CommandKey::new(1, Slot::Main);
        let (select, main) = match run.spec().protocol.properties().answers_every_call {
            true => {
                let mut said = Conversation::new(&self.rules, &self.prompts, run, &self.offered, history);
                (None, Some(said.grow(&self.prompts, run, main).0))
            }
            false => {
                let mut dialogue = Dialogue::default();
                let mut size = |key| Some(dialogue.prompt(&self.prompts, run, key)?.size);
                let selects = matches!(run.phase(), Phase::Calling { purpose: Purpose::Select, .. });
                let select = selects.then(|| size(CommandKey::new(0, Slot::Select))).flatten();
                (select, size(main))
            }
        };
        let least = main.map_or_else(Vec::new, |main| run.first_pass_unpaid(select, main));
        if least.is_empty() { Ok(()) } else { Err(StartError::FirstPassUnpaid { least }) }
    }

    /// What a run that begins now is started with.
    pub(crate) fn facts(&self, history: Option<History>) -> Facts {
        Facts {
            unix_ms: unix_ms(),
            nonce: nonce(),
            prompts: self.prompts.hash(),
            tools: self.registry.manifest_hash(),
            history,
            provenance: self.provenance(),
        }
    }

    /// What the journal stores besides the entries of a run that begins now.
    pub(crate) fn header(&self, run: &RunId, facts: &Facts, item: &WorkItem) -> Header {
        self.header_of(run, facts.unix_ms, item)
    }

    /// The same, of a run that began at this time.
    pub(crate) fn header_of(&self, run: &RunId, unix_ms: u64, item: &WorkItem) -> Header {
        Header {
            run: run.clone(),
            unix_ms,
            item: Arc::clone(&item.id),
            title: Arc::clone(&item.title),
            spec: Arc::clone(&self.spec),
            manifest_hash: self.registry.manifest_hash(),
            manifest: Arc::clone(self.registry.manifest()),
            origin: self.origin.clone().map(|mut origin| {
                sink::json(&self.secrets, &mut origin);
                origin
            }),
            request_key: None,
        }
    }

    /// The messages of hooks about what is new of a run.
    pub(crate) fn new_messages(&self, before: Before, run: &Run) -> Vec<HookMessage> {
        self.hooks.messages(before, run, run.started().unix_ms_at(run.now()))
    }

    fn provenance(&self) -> Provenance {
        let kept = |setting: &Overridden| {
            let value = self.secrets.mask(&setting.value);
            Overridden { setting: Arc::clone(&setting.setting), value: (*value).into() }
        };
        Provenance {
            program: Arc::clone(&self.program.name),
            decisions: self.program.decisions,
            overridden: self.overridden.iter().map(kept).collect(),
            prices: loop_llm::prices::origin().into(),
            engine: "".into(),
        }
    }
}

impl Opening {
    /// Lets the run hear what people say, as soon as it is driven.
    pub(crate) fn hear(&mut self, stated: impl IntoIterator<Item = EventKind>) -> Result<(), StartError> {
        for kind in stated {
            let event = Event { at: self.run.now().max(self.clock.base), kind };
            let run = self.run.id().clone();
            let refused = |rejected| StartError::Refused { run, rejected };
            let notes = self.run.apply(&event).map_err(refused)?;
            self.first.push((event, notes));
        }
        Ok(())
    }
}

/// Changes of settings, as a domain file has them.
fn changes(changes: &[Change]) -> String {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    changes.join(" and ")
}

/// Where a fork can begin, for a sentence.
fn forkable(last: Option<u64>) -> String {
    match last {
        Some(last) => format!("the last entry before it that can be forked is {last}"),
        None => "no entry before it can be forked".to_owned(),
    }
}

/// What can be done instead of taking a run over.
fn instead(why: &NotTakenOver) -> &'static str {
    match why {
        NotTakenOver::NotOver => "resume it, or fork it",
        NotTakenOver::NoDocument => "fork it: a fork continues the conversation from an entry",
        NotTakenOver::Fixed => "nothing is left to continue; retry it or fork it",
        _ => "take the domain and the settings that it was begun with",
    }
}

/// The names of tools behind a sentence.
fn named(tools: &[String]) -> String {
    if tools.is_empty() { String::new() } else { format!(" ({})", tools.join(", ")) }
}

/// Whether a model is told of a tool: what never runs is not offered.
pub(crate) fn is_offered(spec: &RunSpec, tool: &str) -> bool {
    let known = spec.tools.iter().find(|known| *known.name == *tool);
    let is_forbidden = known.map_or_else(|| forbids(spec, tool), |tool| is_forbidden(spec, tool));
    spec.protocol.is_output(tool) || spec.limits.tool_calls > 0 && !is_forbidden
}

/// The messages before a run as they are recorded; nothing where there are none.
fn written(history: &[Message], parts: &Parts) -> Result<Option<History>, StartError> {
    if history.is_empty() {
        return Ok(None);
    }
    let count = |message: &Message| match message {
        Message::Tool { results } => results.len(),
        Message::User { .. } | Message::Assistant(_) | Message::Operator { .. } => 1,
    };
    let json =
        serde_json::to_string(history).map_err(|error| StartError::History { message: error.to_string() })?;
    Ok(Some(History {
        messages: u32::try_from(history.iter().map(count).sum::<usize>()).unwrap_or(u32::MAX),
        // What is to be answered is the run's own.
        counted: parts.counts_own.then_some(1),
        bytes: history.iter().map(|message| message.bytes() as u64).sum(),
        json: json.into(),
        taint: taint_of(history, &parts.spec),
        doubts: doubts_of(history, &parts.spec),
        requested: requested_of(history, &parts.spec),
        user_texts: user_texts_of(history, &parts.spec),
    }))
}

/// The messages before a run that was recorded.
pub(crate) fn read_history(started: &Started) -> Result<Arc<[Message]>, StartError> {
    match &started.history {
        None => Ok(Arc::new([])),
        Some(history) => serde_json::from_str::<Vec<Message>>(&history.json)
            .map(Arc::from)
            .map_err(|error| StartError::History { message: error.to_string() }),
    }
}

/// What is in place of a setting that holds a credential.
const WITHHELD: &str = "(withheld: it holds a credential)";
/// How long saving may take where nothing else is said.
const SAVE_LIMIT: Duration = Duration::from_secs(30);

fn unix_ms() -> u64 {
    crate::journal::unix_ms(std::time::SystemTime::now())
}
