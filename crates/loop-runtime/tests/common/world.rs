//! A world that does what a test says: tools that behave as they are asked to, models that play a list of replies,
//! journals that remember, fail or hang, and one log of who did what, in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use loop_core::reply::FinishReason;
use loop_core::spec::DefaultCall;
use loop_core::types::{Effect, FailureKind, RunId, Usage};
use loop_core::{EventKind, Note, Verdict};
use loop_llm::{ErrorPhase, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::{
    Outcome, RunSpec, Runner,
    journal::{
        Durability, Entry, Header, Journal, JournalError, MemoryJournal, Recorded, RunLine, RunWriter,
    },
    models::{ChatModel, Models},
    observe::{Events, RunEvent},
    report::Report,
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use loop_testkit::bare_draft;
use serde_json::{Value, json};
use tokio::time::Instant;

/// What happened, in order, with the milliseconds since the world began.
#[derive(Clone, Debug)]
pub struct Log {
    began: Instant,
    lines: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Log {
    pub fn new() -> Self {
        Self { began: Instant::now(), lines: Arc::default() }
    }

    pub fn say(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push((self.now(), line.into()));
    }

    pub fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    /// The first instant at which this was said.
    #[track_caller]
    pub fn at(&self, line: &str) -> u64 {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .find(|(_, activity)| activity == line)
            .unwrap_or_else(|| panic!("no `{line}` in {lines:#?}"))
            .0
    }

    pub fn count(&self, start: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|(_, line)| line.starts_with(start)).count()
    }
}

/// Says that something was dropped before it was through.
struct Guard {
    log: Log,
    name: String,
    through: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.through {
            self.log.say(format!("dropped {}", self.name));
        }
    }
}

/// The tool `look`: its parameter `target` says how it behaves: `ok-x`, `slow-500`, `fail`, `panic`, `hang`.
///
/// `change` does the same, and declares that it changes the world.
pub fn tools(log: &Log) -> Registry {
    tools_declared(log, |declaration| declaration)
}

/// The same tools, each with its declaration changed.
pub fn tools_declared(log: &Log, change: impl Fn(ToolDeclaration) -> ToolDeclaration) -> Registry {
    let declare = |name: &str, effect| {
        let declaration = ToolDeclaration::new(name)
            .description("Looks a thing up.")
            .schema(json!({"type": "object", "required": ["target"], "properties": {"target": {"type": "string"}}}))
            .effect(effect);
        change(declaration)
    };
    let behave = |name: &'static str| {
        let log = log.clone();
        move |parameters: Value, _: ToolContext, _| {
            let log = log.clone();
            async move {
                let target = parameters["target"].as_str().unwrap().to_owned();
                let tool = name;
                let name = format!("{tool}({target})");
                log.say(format!("tool {name}"));
                let mut guard = Guard { log: log.clone(), name: name.clone(), through: false };
                match target.split_once('-') {
                    Some(("slow", ms)) => {
                        tokio::time::sleep(Duration::from_millis(ms.parse().unwrap())).await
                    }
                    _ if target == "hang" => std::future::pending().await,
                    _ => {}
                }
                guard.through = true;
                assert!(target != "panic", "it went to pieces");
                log.say(format!("ended {name}"));
                if target == "fail" {
                    return ToolResult::failed(tool, "Look", "no such thing");
                }
                ToolResult::ok(
                    tool,
                    format!("saw {target}"),
                    format!("Saw {target}."),
                    json!({"target": target}),
                )
            }
        }
    };
    Registry::builder()
        .tool_fn(declare("look", Effect::Read), behave("look"))
        .tool_fn(declare("change", Effect::WriteIdempotent), behave("change"))
        .build()
        .unwrap()
}

/// What a model does with one call.
#[derive(Debug)]
pub struct Play {
    pub before_ms: u64,
    /// It fails before the first byte.
    pub refuses: Option<LlmError>,
    /// Pieces of text, each after a pause in milliseconds.
    pub pieces: Vec<(u64, String)>,
    pub end: End,
    pub usage: Option<Usage>,
}

#[derive(Clone, Debug)]
pub enum End {
    Finished,
    Fails(LlmError),
    /// Nothing more comes, and the stream stays open.
    Hangs,
    /// The stream ends without its end.
    Stops,
    Panics,
}

pub const USAGE: Usage = Usage {
    input: 1_000,
    cache_read: 0,
    cache_write_short: 0,
    cache_write_long: 0,
    output: 100,
    reasoning: 0,
    estimated: false,
};

pub fn says(text: impl Into<String>) -> Play {
    Play {
        before_ms: 0,
        refuses: None,
        pieces: vec![(0, text.into())],
        end: End::Finished,
        usage: Some(USAGE),
    }
}

pub fn refuses(kind: FailureKind) -> Play {
    Play { refuses: Some(LlmError::new(kind, ErrorPhase::Connect, "not today")), ..says("") }
}

impl Play {
    pub fn after(self, before_ms: u64) -> Self {
        Self { before_ms, ..self }
    }

    pub fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

/// A model that plays for each kind of call (`select`, `main`, `repair`, `final_pass`, `action-0`) a list of its own.
///
/// A list that is used up repeats nothing: the call fails.
#[derive(Debug)]
pub struct Stage {
    log: Log,
    plays: Mutex<Vec<(&'static str, VecDeque<Play>)>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Stage {
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), plays: Mutex::default(), requests: Mutex::default() }
    }

    pub fn on(self, slot: &'static str, plays: impl IntoIterator<Item = Play>) -> Self {
        self.plays.lock().unwrap().push((slot, plays.into_iter().collect()));
        self
    }

    pub fn requests(&self, slot: &str) -> Vec<ModelRequest> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| slot_of(request) == slot).cloned().collect()
    }
}

fn slot_of(request: &ModelRequest) -> &str {
    request.meta.key.rsplit('/').next().unwrap_or_default()
}

#[async_trait]
impl ChatModel for Stage {
    async fn stream(
        &self,
        request: &ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, LlmError>>, LlmError> {
        let slot = slot_of(request).to_owned();
        self.requests.lock().unwrap().push(request.clone());
        let name = format!("{slot} {}", request.meta.attempt);
        self.log.say(format!("model {name}"));
        let play = {
            let mut plays = self.plays.lock().unwrap();
            plays.iter_mut().find(|(of, _)| *of == slot).and_then(|(_, plays)| plays.pop_front())
        };
        let Some(play) = play else {
            let message = format!("no play for {slot}");
            return Err(LlmError::new(FailureKind::ScriptExhausted, ErrorPhase::Encode, message));
        };
        let guard = Guard { log: self.log.clone(), name: format!("model {name}"), through: false };
        tokio::time::sleep(Duration::from_millis(play.before_ms)).await;
        if let Some(error) = play.refuses {
            return Err(error);
        }
        let nonce = nonce_of(request);
        let whole: String = play.pieces.iter().map(|(_, text)| text.as_str()).collect();
        let pieces = play.pieces.into_iter().map({
            let nonce = nonce.clone();
            move |(pause, text)| (pause, text.replace("{{nonce}}", &nonce))
        });
        let pieces = futures::stream::iter(pieces.collect::<Vec<_>>()).then(|(pause, text)| async move {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            Ok(ModelEvent::TextDelta { text: text.into() })
        });
        let reply = ModelReply {
            finish: FinishReason::EndTurn,
            ..ModelReply::text(whole.replace("{{nonce}}", &nonce), play.usage)
        };
        let end = play.end;
        let end = futures::stream::once(async move {
            let mut guard = guard;
            match end {
                End::Finished => {
                    guard.through = true;
                    Some(Ok(ModelEvent::Finished(Box::new(reply))))
                }
                End::Fails(error) => {
                    guard.through = true;
                    Some(Err(error))
                }
                End::Hangs => std::future::pending().await,
                End::Stops => None,
                End::Panics => panic!("the client went to pieces"),
            }
        });
        Ok(pieces.chain(end.filter_map(|event| async move { event })).boxed())
    }
}

/// The nonce that the prompt names, wherever it does.
fn nonce_of(request: &ModelRequest) -> String {
    let texts = request.messages.iter().map(|message| message.text()).chain([&*request.system]);
    let whole = texts.collect::<Vec<_>>().join("\n");
    let named = whole.split("The nonce of this run is `").nth(1).and_then(|after| after.split('`').next());
    let quoted = whole.split("\"nonce\": \"").nth(1).and_then(|after| after.split('"').next());
    named.or(quoted).unwrap_or_default().to_owned()
}

/// A whole document, cited, with a contract.
pub fn answer(confidence: &str, actions: &[Value]) -> String {
    format!(
        "## 🔍 Situation\n\nThe backup failed.\n\n## 📋 Findings\n\nIt says so [E0].\n\n## ✅ Next steps\n\nWait [E0].\n\n{}",
        contract(confidence, actions)
    )
}

pub fn contract(confidence: &str, actions: &[Value]) -> String {
    bare_draft(confidence)
        .member("nonce", json!("{{nonce}}"))
        .member("ai_actions", json!(actions))
        .whole_text()
}

pub fn look(target: &str) -> Value {
    json!({"action_id": target, "action_type": "look", "reason": "to know", "parameters": {"target": target},
        "priority": "recommended"})
}

pub fn change(target: &str) -> Value {
    json!({"action_id": format!("c-{target}"), "action_type": "change", "reason": "to repair it",
        "parameters": {"target": target}, "priority": "required"})
}

pub fn selections(targets: &[&str]) -> String {
    let selections: Vec<Value> = targets
        .iter()
        .map(|target| json!({"tool": "look", "params": {"target": target}, "reason": "to know"}))
        .collect();
    Value::Array(selections).to_string()
}

/// The spec of the common domain, changed.
pub fn spec(change: impl FnOnce(&mut RunSpec)) -> RunSpec {
    let mut spec = super::spec();
    change(&mut spec);
    spec
}

/// A spec whose selector is not asked.
pub fn unselected() -> RunSpec {
    spec(|spec| spec.selection.enabled = false)
}

pub fn default_look(target: &str) -> DefaultCall {
    DefaultCall { tool: "look".into(), parameters: json!({"target": target}).to_string().into() }
}

pub fn runner(spec: RunSpec, log: &Log, stage: Stage) -> Runner {
    Runner::new(spec, tools(log), Models::one(Arc::new(stage)))
}

/// Everything that an observer saw, to the end.
pub async fn drained(mut events: Events) -> Vec<RunEvent> {
    let mut seen = Vec::new();
    while let Some(event) = events.recv().await {
        seen.push(event);
    }
    seen
}

/// All of an outcome but the run's name, and everything that was written down but the names and the wall time.
pub async fn reported(
    runner: &Runner,
    started: &loop_core::run::Started,
    outcome: &Outcome,
) -> (Value, String) {
    let mut report = serde_json::to_value(Report::new(started, outcome)).unwrap();
    report["run"] = Value::Null;
    without_instants(&mut report);
    let entries = runner.journal().read(&outcome.run).await.unwrap().entries;
    let entries = serde_json::to_string(&entries[1..]).unwrap().replace(&*started.nonce, "NONCE");
    // The nonce is in the prompts, so it shows in their hashes.
    let hashes =
        entries.split("\"prompt_hash\":\"").map(|part| part.split_once('"').map_or(part, |(_, rest)| rest));
    (report, hashes.collect())
}

/// Takes out what another run has another one of: its trace, and when it was.
fn without_instants(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !name.ends_with("unix_ms") && !name.ends_with("trace_id"));
            members.values_mut().for_each(without_instants);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_instants),
        _ => {}
    }
}

pub async fn notes(runner: &Runner, run: &RunId) -> Vec<Note> {
    let recorded = runner.journal().read(run).await.unwrap();
    recorded.entries.into_iter().flat_map(|entry| entry.notes).collect()
}

/// The header of the run that begins with this entry.
#[track_caller]
pub fn header_of(first: &Entry, spec: &Arc<RunSpec>, manifest: &Arc<str>) -> Header {
    let EventKind::Started(started) = &first.event.kind else { panic!("{first:?}") };
    Header {
        run: started.run.clone(),
        unix_ms: started.unix_ms,
        item: Arc::clone(&started.item.id),
        title: Arc::clone(&started.item.title),
        spec: Arc::clone(spec),
        manifest_hash: started.tools,
        manifest: Arc::clone(manifest),
        origin: None,
        request_key: None,
    }
}

/// A journal that holds the first entries of a run whose driver is gone.
pub async fn journal_of(recorded: &Recorded, entries: &[Entry]) -> Arc<MemoryJournal> {
    let journal = MemoryJournal::new();
    let header = header_of(&entries[0], &recorded.spec, &recorded.manifest);
    let mut writer = journal.create(&header, &Arc::new(entries[0].clone())).await.unwrap();
    for entry in &entries[1..] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    Arc::new(journal)
}

/// A journal in memory that says in the log what it wrote, takes its time, and may fail or hang.
#[derive(Clone, Debug)]
pub struct Watched {
    pub inner: MemoryJournal,
    log: Log,
    /// The number of the first entry that is not written.
    fails_at: Option<u64>,
    hangs_at: Option<u64>,
}

impl Watched {
    pub fn new(log: &Log) -> Self {
        Self { inner: MemoryJournal::new(), log: log.clone(), fails_at: None, hangs_at: None }
    }

    pub fn failing_at(self, seq: u64) -> Self {
        Self { fails_at: Some(seq), ..self }
    }

    pub fn hanging_at(self, seq: u64) -> Self {
        Self { hangs_at: Some(seq), ..self }
    }

    async fn admit(&self, entry: &Entry) -> Result<(), JournalError> {
        // What is started before this is through is started too early.
        tokio::time::sleep(Duration::from_millis(10)).await;
        if self.hangs_at.is_some_and(|at| entry.seq >= at) {
            std::future::pending::<()>().await;
        }
        if self.fails_at.is_some_and(|at| entry.seq >= at) {
            self.log.say(format!("refused {}", entry.seq));
            let message = "no space left on device".to_owned();
            return Err(JournalError::Storage { place: "a full disk".to_owned(), message });
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Writer {
    journal: Watched,
    inner: Box<dyn RunWriter>,
}

#[async_trait]
impl Journal for Watched {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        self.admit(first).await?;
        let inner = self.inner.create(header, first).await?;
        allowances(first).into_iter().for_each(|line| self.log.say(line));
        Ok(Box::new(Writer { journal: self.clone(), inner }))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let (recorded, inner) = self.inner.resume(run).await?;
        Ok((recorded, Box::new(Writer { journal: self.clone(), inner })))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        self.inner.read(run).await
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        self.inner.runs().await
    }
}

#[async_trait]
impl RunWriter for Writer {
    async fn append(&mut self, entry: &Arc<Entry>, durability: Durability) -> Result<(), JournalError> {
        self.journal.admit(entry).await?;
        self.inner.append(entry, durability).await?;
        for line in allowances(entry) {
            self.journal.log.say(line);
        }
        Ok(())
    }
}

/// What an entry allows to be started.
fn allowances(entry: &Entry) -> Vec<String> {
    let mut lines = vec![format!("wrote {} {}", entry.seq, entry.event.kind.name())];
    match &entry.event.kind {
        EventKind::CallStarted { key, attempt, .. } => {
            let slot = key.to_string();
            let slot = slot.rsplit('/').next().unwrap_or_default();
            lines.push(format!("may model {slot} {attempt}"));
        }
        EventKind::ToolStarted { key, .. } => lines.push(format!("announced {key}")),
        _ => {}
    }
    for note in &entry.notes {
        match note {
            Note::ActionJudged(judged) if judged.verdict == Verdict::Run => {
                let parameters: Value = serde_json::from_str(&judged.parameters).unwrap();
                let target = parameters["target"].as_str().unwrap_or_default();
                lines.push(format!("may tool {}({target})", judged.tool_name()));
            }
            Note::Stopped { .. } => lines.push("may save".to_owned()),
            _ => {}
        }
    }
    lines
}
