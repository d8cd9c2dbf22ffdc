//! A runner: spec, tools, models and prompts put together. It serves any number of runs.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use loop_core::run::{History, Overridden, Program};
use loop_core::secrets::Secrets;
use loop_core::spec::{GateSettings, ProtocolSpec};
use loop_core::types::RunId;
use loop_core::{Event, EventKind, Run, RunSpec, WorkItem};
use loop_journal::shared::SharedBudgets;
use loop_journal::{Entry, Header, Journal, MemoryJournal, Recorded};
use loop_llm::http::holds_url_secret;
use loop_llm::{ChatModel, Message};
use loop_prompts::{Prompts, Thread};
use loop_tools::{Credentials, Registry};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::drive::check::Validator;
use crate::drive::conversation::OfferedTools;
use crate::drive::driver::opening::Clock;
use crate::drive::driver::sharing::Sharing;
use crate::drive::driver::{Driver, Opening, Pace};
use crate::drive::handle::{ReadyRun, Remote};
use crate::drive::hooks::{Hooks, StatusBefore};
use crate::drive::model::Models;
use crate::drive::parts::{RunParts, read_history};
use crate::drive::save::Saver;
use crate::drive::start_error::StartError;
use crate::drive::taint::{doubts_of, requested_of, taint_of, user_texts_of};
use crate::watch::events::Events;
use crate::watch::observer::{Observed, Observer, Watcher};
use crate::watch::sink;
use crate::watch::trace::TraceSampler;
use crate::watch::uses::ToolUses;

/// Runs work items, one after another or in parallel. Clones share everything.
#[derive(Clone)]
pub struct Runner {
    parts: Arc<RunParts>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("domain", &self.parts.spec.domain)
            .field("tools", &self.parts.registry)
            .finish()
    }
}

impl Runner {
    /// A runner with these tools and models, the built-in prompts and a journal in memory.
    ///
    /// The spec's list of tools is taken from the registry. If it has a cost limit and the price of its base model is
    /// unknown, a run does not start: [`StartError::CostWithoutPrice`].
    pub fn new(spec: RunSpec, registry: Registry, models: Models) -> Self {
        let spec = Arc::new(RunSpec { tools: registry.specs(), save: false, ..spec });
        let parts = RunParts {
            offered: OfferedTools::of(&registry, &spec),
            rules: Arc::default(),
            in_place: Vec::new(),
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
            program: loop_journal::versions::own(),
            watchers: Vec::new(),
            sampler: None,
            hooks: Hooks::default(),
            approver: None,
            called_by: None,
            said: Arc::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// The same runner with other prompts.
    pub fn with_prompts(self, prompts: Arc<Prompts>) -> Self {
        self.with(|parts| parts.prompts = prompts)
    }

    /// The same runner with credentials for its tools.
    pub fn with_credentials(self, credentials: Arc<Credentials>) -> Self {
        let values = credentials.names().filter_map(|name| credentials.get(name));
        let secrets = Secrets::of(values);
        self.with_secrets(&secrets).with(|parts| parts.credentials = credentials)
    }

    /// The same runner with more secrets. They are masked wherever they come from (a tool, a work item, a person, a
    /// model), before a run reads them: nothing that is journaled, shown, saved or sent to a model has one. The
    /// credentials of its models and tools are masked without this.
    pub fn with_secrets(self, secrets: &Secrets) -> Self {
        self.with(|parts| parts.secrets.extend(secrets))
    }

    /// The secrets that are masked in all its runs.
    pub fn secrets(&self) -> &Secrets {
        &self.parts.secrets
    }

    /// The same runner with an approver. Actions that need a person wait for an answer, which the program gives through
    /// the handle or the stream of the run.
    pub fn with_people(self) -> Self {
        self.with(|parts| {
            let gate = GateSettings { people: true, ..parts.spec.gate.clone() };
            parts.spec = Arc::new(RunSpec { gate, ..(*parts.spec).clone() });
        })
    }

    /// The same runner, leaving a run where it is as soon as it waits for people and nothing else: no process has to
    /// stay until they answer. [`Handle::driven`](crate::run::Handle::driven) returns whether the run ended or was
    /// left, and [`resume_with`](Self::resume_with) continues it. This setting does not add an approver: see
    /// [`with_people`](Self::with_people).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, models::{ModelSpec, Models, Scripted}, people::PersonAnswer, run::EventKind, spec::SectionSpec, tools::{Effect, Registry}};
    /// # use loop_runtime::{WorkItem, run::DriveResult, tools::{ToolDeclaration, ToolResult}};
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
    /// let DriveResult::Waiting(waiting) = runner.run(item).start().await?.driven().await else {
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

    /// The same runner, whose limit of messages counts those of a run alone, and not those that it continues from. Use
    /// it for a conversation with a person, who may continue as long as they like. The limit then stops only a single
    /// run that has too many.
    pub fn counting_own_messages(self) -> Self {
        self.with(|parts| parts.counts_own = true)
    }

    /// The same runner with a text that its journal keeps with each run, from which a program that continues the run
    /// can build the same runner. This crate does not read the text.
    pub fn with_origin(self, origin: impl Into<Arc<str>>) -> Self {
        self.with(|parts| parts.origin = Some(origin.into()))
    }

    /// The same runner, whose runs record these settings as given by the caller in place of the domain's. A value that
    /// has a URL with a credential is withheld.
    pub fn with_overridden(self, overridden: impl IntoIterator<Item = Overridden>) -> Self {
        let kept = |setting: Overridden| match holds_url_secret(&setting.value) {
            true => Overridden { value: WITHHELD.into(), ..setting },
            false => setting,
        };
        self.with(|parts| parts.overridden = overridden.into_iter().map(kept).collect())
    }

    /// The same runner under another program's name and revision, which decide what it records and which runs it
    /// continues. For tests of upgrades.
    #[doc(hidden)]
    pub fn acting_as(self, program: Program) -> Self {
        self.with(|parts| parts.program = program)
    }

    /// The same runner with another journal.
    pub fn with_journal(self, journal: Arc<dyn Journal>) -> Self {
        self.with(|parts| parts.journal = journal)
    }

    /// The same runner, whose runs share these budgets: each model call is reserved in all of them before it is sent. A
    /// run whose next call they do not cover ends with
    /// [`StopReason::SharedBudgetExceeded`](crate::StopReason::SharedBudgetExceeded), after its final pass if that is
    /// covered. The price of each model has to be known.
    pub fn with_shared_budgets(self, shared: SharedBudgets) -> Self {
        self.with(|parts| parts.shared = Some(shared).filter(|shared| !shared.is_empty()))
    }

    /// The budgets that its runs share. `None`: they share none.
    pub fn shared_budgets(&self) -> Option<&SharedBudgets> {
        self.parts.shared.as_ref()
    }

    /// The same runner, which saves its outcomes.
    pub fn with_saver(self, saver: Arc<dyn Saver>) -> Self {
        self.with(|parts| {
            parts.secrets.extend(&saver.secrets());
            parts.saver = Some(saver);
            parts.spec = Arc::new(RunSpec { save: true, ..(*parts.spec).clone() });
        })
    }

    /// The same runner with this time limit for saving an outcome, all tries together. Default: 30 seconds.
    pub fn with_save_limit(self, limit: Duration) -> Self {
        self.with(|parts| parts.save_limit = limit)
    }

    /// The same runner with hooks: they are notified when a run waits for a person, ends or fails. Their messages need
    /// a journal with an outbox, such as [`StoredJournal`](loop_journal::StoredJournal); any other drops them.
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        self.with(|parts| parts.hooks = hooks)
    }

    /// Its hooks.
    pub fn hooks(&self) -> &Hooks {
        &self.parts.hooks
    }

    /// The same runner with answers and instructions for called runs that wait for people. Such a run receives them as
    /// soon as the run that called it is resumed.
    pub fn having_said(self, said: impl IntoIterator<Item = (RunId, Vec<EventKind>)>) -> Self {
        self.with(|parts| parts.said = Arc::new(Mutex::new(said.into_iter().collect())))
    }

    /// The same runner with these validators. In this order they check each output that matches its schema, or the
    /// document before a run ends as confident.
    pub fn with_validators(self, validators: impl IntoIterator<Item = Arc<dyn Validator>>) -> Self {
        self.with(|parts| {
            parts.validators = validators.into_iter().collect();
            if matches!(parts.spec.protocol, ProtocolSpec::Document(_)) {
                let validators = parts.validators.iter().map(|it| it.name().into()).collect();
                let gate = GateSettings { validators, ..parts.spec.gate.clone() };
                parts.spec = Arc::new(RunSpec { gate, ..(*parts.spec).clone() });
            }
        })
    }

    /// The same runner with an observer, which receives what happens in all its runs on a thread of its own and can
    /// neither slow nor break one; one that is [in place](Observer::is_in_place) is called on the run's own task.
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
    /// // The run does not wait for its observers. A program that needs every event observed waits here.
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
        // It changes nothing of the spec, so what follows from that stays.
        let (names, rules) = (self.parts.names(), Arc::clone(&self.parts.rules));
        self.with(|parts| {
            (parts.names, parts.rules) = (names.into(), rules);
            match observer.is_in_place() {
                true => parts.in_place.push(observer),
                false => parts.watchers.push(Arc::new(Watcher::new(observer))),
            }
        })
    }

    /// What each observer with a thread has received so far, in the order in which they were added.
    pub fn observed(&self) -> Vec<Observed> {
        self.parts.watchers.iter().map(|watcher| watcher.observed()).collect()
    }

    /// Waits until all observers have received what has happened so far. It waits forever for an observer that never
    /// returns, so use a timeout.
    pub async fn observers_caught_up(&self) {
        for watcher in &self.parts.watchers {
            watcher.caught_up().await;
        }
    }

    /// The spec of its runs, with the tools of its registry.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.parts.spec
    }

    /// What its tools declare, as canonical JSON: the manifest that the journal has of each run.
    pub fn manifest(&self) -> &Arc<str> {
        self.parts.registry.manifest()
    }

    pub(crate) fn parts(&self) -> &Arc<RunParts> {
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
        let messages = parts.new_messages(StatusBefore::default(), &run);
        let writer = parts.journal.create_announcing(&header, &opened, messages).await?;
        Ok(Opening::of_new(run, writer, opened, history))
    }

    /// Whether a run was begun for this item in this domain. The caller and the trace may differ.
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
        opening.apply(stated.into_iter().map(|kind| sink::kind(&self.parts.secrets, kind)))?;
        Ok(opening)
    }

    /// All messages of a conversation up to the end of this recorded run, so that another run can continue from them.
    ///
    /// # Errors
    /// If the messages before the run cannot be read.
    pub fn messages_of(&self, run: &Run) -> Result<Vec<Message>, StartError> {
        let own = Thread::whole(&self.parts.prompts, run);
        Ok(read_history(run.started())?.iter().cloned().chain(own).collect())
    }

    /// A run that is ready to be taken up again.
    pub(crate) async fn reopen(&self, run: &RunId) -> Result<Opening, StartError> {
        let (recorded, writer) = self.parts.journal.resume(run).await?;
        let (mut state, by) = loop_journal::versions::taken_over(run, &recorded, &self.parts.program)?;
        self.parts.check_unchanged(state.started(), Some(&recorded.manifest))?;
        self.parts.models.resumes(run.as_str(), &recorded.entries);
        let before = StatusBefore::of(&state);
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

    pub(crate) fn begin(&self, opening: Opening, pace: Pace, cancel: Option<&CancellationToken>) -> ReadyRun {
        let (id, started) = (opening.run.id().clone(), Arc::clone(opening.run.started_shared()));
        let (driver, events, remote) = self.driver(opening, pace, cancel);
        ReadyRun { id, started, remote, events, driving: driver.drive().boxed() }
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

    /// Checks that no newer program has driven a run. [`resume`](Self::resume) checks that as well.
    ///
    /// # Errors
    /// If a newer one has.
    pub fn check_version(&self, run: &RunId, recorded: &Recorded) -> Result<(), StartError> {
        Ok(loop_journal::versions::not_newer(run, recorded, &self.parts.program).map(drop)?)
    }

    /// The same runner, whose runs are traced as the sampler decides: their model calls and tool calls receive a span
    /// of their own ([`SpanId::of_call`](loop_core::types::SpanId::of_call)) in the submitter's trace, or in one of the run.
    /// The runner does not record the spans: an [`Observer`](crate::observe::Observer) does. Without a sampler, calls
    /// receive the submitter's span as it was given.
    pub fn with_tracing(self, sampler: Arc<dyn TraceSampler>) -> Self {
        self.with(|parts| parts.sampler = Some(sampler))
    }

    /// The same runner with every model replaced by what `change` makes of it. A model that serves several tiers is
    /// changed once and still serves all of them, so that a scripted model keeps one list.
    pub fn with_changed_models(
        self,
        mut change: impl FnMut(Arc<dyn ChatModel>) -> Arc<dyn ChatModel>,
    ) -> Self {
        self.with(|parts| {
            let Models { selector, base, escalated, fallback } = parts.models.clone();
            let mut changed: Vec<(Arc<dyn ChatModel>, Arc<dyn ChatModel>)> = Vec::new();
            let mut of = |model: Arc<dyn ChatModel>| {
                let known = changed.iter().find(|(before, _)| Arc::ptr_eq(before, &model));
                if let Some((_, after)) = known {
                    return Arc::clone(after);
                }
                let after = change(Arc::clone(&model));
                changed.push((model, Arc::clone(&after)));
                after
            };
            parts.models = Models {
                selector: of(selector),
                base: of(base),
                escalated: of(escalated),
                fallback: of(fallback),
            };
        })
    }

    pub(crate) fn with(self, change: impl FnOnce(&mut RunParts)) -> Self {
        let shared = &self.parts;
        let mut parts = RunParts {
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
            rules: Arc::default(),
            in_place: shared.in_place.clone(),
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
            approver: shared.approver.clone(),
            called_by: shared.called_by.clone(),
            said: Arc::clone(&shared.said),
        };
        change(&mut parts);
        Self { parts: Arc::new(parts) }
    }
}

/// The messages before a run as they are recorded; nothing where there are none.
fn written(history: &[Message], parts: &RunParts) -> Result<Option<History>, StartError> {
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

/// What is in place of a setting that holds a credential.
const WITHHELD: &str = "(withheld: it holds a credential)";
/// How long saving may take where nothing else is said.
const SAVE_LIMIT: Duration = Duration::from_secs(30);
