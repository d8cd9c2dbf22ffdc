//! A driver in virtual time, without a runtime: it speaks the domain and checks the invariants at every step.

#![allow(dead_code)]

pub mod native;
pub mod walk;

use std::sync::Arc;

use loop_core::{
    ArgSpec, CallModel, Command, CommandKey, Confidence, CostMode, DefaultCall, Digest, DocumentSpec, Effect,
    Event, EventKind, Facts, FinishReason, GateSettings, Limits, Millis, ModelFailure, ModelSpec, ModelSpecs,
    NonceMode, Note, Observation, Outcome, PersonAnswer, Phase, PicoUsd, Price, PromptSize, ProtocolSpec,
    Refusal, Rejected, Reply, Run, RunId, RunSpec, RunTool, SPEC_VERSION, SaveResult, Scope, SectionSpec,
    Selection, Stale, State, Status, StopMode, StopReason, Tier, ToolCall, ToolSpec, Usage, Validation,
    Verdict, WorkItem,
};
use serde_json::{Value, json};

/// So many random cases of a property, or as many times that as `LOOPGATE_PROPERTIES` says. `cargo xtask test` fixes
/// their seed; `cargo xtask explore` tries many more, and others each time.
#[expect(clippy::disallowed_methods, reason = "how much a test tries is no input of a run")]
pub fn cases(count: u32) -> proptest::prelude::ProptestConfig {
    let times = std::env::var("LOOPGATE_PROPERTIES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    proptest::prelude::ProptestConfig::with_cases(count * times)
}

/// The nonce of every run here.
pub const NONCE: &str = "n-7f3a";

/// A run to be: a small help desk with four tools, no selector and default limits.
pub fn run() -> Setup {
    Setup { spec: spec(), item: item() }
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub spec: RunSpec,
    pub item: WorkItem,
}

impl Setup {
    /// Changes anything of the spec.
    pub fn with(mut self, change: impl FnOnce(&mut RunSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.spec.limits);
        self
    }

    /// Asks a selector first; `defaults` run when it fails.
    pub fn selector(mut self, defaults: &[(&str, Value)]) -> Self {
        let defaults = defaults
            .iter()
            .map(|(tool, parameters)| DefaultCall {
                tool: (*tool).into(),
                parameters: parameters.to_string().into(),
            })
            .collect();
        self.spec.selection = Selection { enabled: true, defaults };
        self
    }

    /// Nothing but the limits ends it while something is left to run.
    pub fn patient(mut self) -> Self {
        self.spec.gate.stale = Stale::Off;
        self.spec.gate.no_progress = 0;
        self
    }

    /// Money and tokens are checked after the spend, as S0 does.
    pub fn checked_after(mut self) -> Self {
        self.spec.limits.cost_mode = CostMode::After;
        self
    }

    /// Nobody repairs an answer that lacks what is demanded.
    pub fn unrevised(mut self) -> Self {
        self.spec.gate.revision_passes = 0;
        self
    }

    /// A dearer model for runs whose confidence stays low.
    pub fn escalating(mut self) -> Self {
        let price = Price::flat(1_000_000, 4_000_000);
        self.spec.models.escalated = Some(model(Some(price)));
        self
    }

    /// Another route, twice as dear as the base model.
    pub fn with_fallback(mut self) -> Self {
        self.spec.models.fallback = Some(model(Some(Price::flat(200_000, 800_000))));
        self
    }

    /// Somebody answers when an action needs consent.
    pub fn people(mut self) -> Self {
        self.spec.gate.people = true;
        self
    }

    pub fn saving(mut self) -> Self {
        self.spec.save = true;
        self
    }

    pub fn nonce(mut self, mode: NonceMode) -> Self {
        let ProtocolSpec::Document(document) = &mut self.spec.protocol else { unreachable!("a document") };
        document.nonce = mode;
        self
    }

    pub fn sections(mut self, sections: Vec<SectionSpec>) -> Self {
        let ProtocolSpec::Document(document) = &mut self.spec.protocol else { unreachable!("a document") };
        document.sections = sections;
        self
    }

    pub fn item_text(mut self, text: &str) -> Self {
        self.item.full = text.into();
        self
    }

    pub fn start(self) -> World {
        let spec = Arc::new(self.spec);
        let (run, first, notes) = Run::start(RunId::new("r1"), Arc::clone(&spec), self.item, facts());
        let world = World { now: 0, journal: vec![(first, notes, run.state().clone())], run, spec };
        world.check_invariants();
        world
    }
}

/// A run, its clock, and its journal with the state after every event.
#[derive(Clone, Debug)]
pub struct World {
    pub run: Run,
    pub now: u64,
    pub spec: Arc<RunSpec>,
    pub journal: Vec<(Event, Vec<Note>, State)>,
}

impl World {
    /// Moves the clock; nothing happens by that alone.
    pub fn wait(mut self, ms: u64) -> Self {
        self.now += ms;
        self
    }

    /// Applies a fact that must be taken.
    #[track_caller]
    pub fn tell(&mut self, kind: EventKind) -> Vec<Note> {
        match self.try_tell(kind.clone()) {
            Ok(notes) => notes,
            Err(rejected) => panic!("{rejected}\n{kind:?}\n{:?}", self.run.phase()),
        }
    }

    /// Applies a fact; if it is rejected, nothing at all has changed.
    #[track_caller]
    pub fn try_tell(&mut self, kind: EventKind) -> Result<Vec<Note>, Rejected> {
        let event = Event { at: Millis(self.now), kind };
        let before = self.run.clone();
        match self.run.apply(&event) {
            Ok(notes) => {
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

    #[track_caller]
    pub fn rejects(mut self, kind: EventKind) -> Self {
        let name = kind.name();
        assert!(self.try_tell(kind).is_err(), "{name} was taken while {}", self.run.phase().name());
        self
    }

    // ---- what is commanded ----

    pub fn phase(&self) -> &'static str {
        self.run.phase().name()
    }

    #[track_caller]
    pub fn expect_phase(self, name: &str) -> Self {
        assert_eq!(self.phase(), name);
        self
    }

    /// The commanded call and nothing else.
    #[track_caller]
    pub fn call(&self) -> CallModel {
        match self.run.commands().as_slice() {
            [Command::CallModel(call)] => call.clone(),
            other => panic!("expected one call while {}, found {other:?}", self.phase()),
        }
    }

    #[track_caller]
    pub fn expect_call(self, key: &str, attempt: u32) -> Self {
        let call = self.call();
        assert_eq!((call.key.to_string().as_str(), call.attempt), (key, attempt));
        self
    }

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

    /// The commanded tools as `key#attempt tool`, in order.
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

    /// Announces the commanded call with a prompt of this size.
    #[track_caller]
    pub fn started_with(mut self, prompt: PromptSize) -> Self {
        let call = self.call();
        match self.run.quote(&call.key, prompt) {
            Ok(quote) => self.tell(EventKind::CallStarted {
                key: call.key,
                attempt: call.attempt,
                tier: quote.tier,
                prompt_bytes: prompt.bytes,
                shared_bytes: prompt.shared_bytes,
                prompt_hash: digest(),
                max_output_tokens: quote.max_output_tokens,
                reserve: quote.reserve,
            }),
            Err(refusal) => self.tell(refused(&call, prompt, refusal)),
        };
        self
    }

    /// Announces the commanded call.
    #[track_caller]
    pub fn started(self) -> Self {
        self.started_with(PROMPT)
    }

    /// The call in flight is answered.
    #[track_caller]
    pub fn answered(mut self, draft: &DraftReply) -> Self {
        let call = self.call();
        self.tell(EventKind::ModelReplied { key: call.key, attempt: call.attempt, reply: draft.reply() });
        self
    }

    /// The commanded call is announced and answered.
    #[track_caller]
    pub fn replied(self, draft: &DraftReply) -> Self {
        self.started().answered(draft)
    }

    /// The selector selects these tools.
    #[track_caller]
    pub fn selected(self, selections: &[(&str, Value)]) -> Self {
        let selections: Vec<Value> = selections
            .iter()
            .map(|(tool, params)| json!({"tool": tool, "params": params, "reason": "r"}))
            .collect();
        self.expect_call("0/select", 1).replied(&text(&Value::Array(selections).to_string()))
    }

    /// An aborted tool brings something all the same.
    #[track_caller]
    pub fn finished_while_stopping(mut self, action: &str) -> Self {
        self.tell(EventKind::ToolFinished { key: key(action), attempt: 1, observation: found("late") });
        self
    }

    /// An aborted tool ends like this.
    #[track_caller]
    pub fn finished_while_stopping_as(mut self, action: &str, status: Status) -> Self {
        self.tell(EventKind::ToolFinished { key: key(action), attempt: 1, observation: observed(status) });
        self
    }

    /// The commanded save succeeds.
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

    /// The announcement of a call that had to wait until this instant.
    #[track_caller]
    pub fn started_after_wait(mut self) -> EventKind {
        self.tell(EventKind::DeadlineReached);
        self.started().journal.last().unwrap().0.kind.clone()
    }

    /// A call is answered after it was aborted.
    #[track_caller]
    pub fn answered_while_stopping(mut self, call: &str, draft: &DraftReply) -> Self {
        self.tell(EventKind::ModelReplied { key: key(call), attempt: 1, reply: draft.reply() });
        self
    }

    /// The call in flight fails.
    #[track_caller]
    pub fn failed(mut self, failure: ModelFailure) -> Self {
        let call = self.call();
        self.tell(EventKind::ModelFailed { key: call.key, attempt: call.attempt, failure });
        self
    }

    /// A commanded tool ends with this observation; a write is announced first.
    #[track_caller]
    pub fn finished(mut self, key: &str, observation: Observation) -> Self {
        let commanded = self.tools().into_iter().find(|tool| tool.key.to_string() == key);
        let Some(tool) = commanded else { panic!("{key} is not commanded: {:?}", self.run.commands()) };
        if !tool.announced {
            self.tell(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt });
        }
        self.tell(EventKind::ToolFinished { key: tool.key, attempt: tool.attempt, observation });
        self
    }

    /// Every commanded tool finds something.
    #[track_caller]
    pub fn all_finished(mut self) -> Self {
        for tool in self.tools() {
            self = self.finished(&tool.key.to_string(), found(&format!("result of {}", tool.key)));
        }
        self
    }

    #[track_caller]
    pub fn answered_by_person(mut self, key: &str, answer: PersonAnswer) -> Self {
        self.tell(EventKind::PersonAnswered { key: key.parse().unwrap(), answer, binding: None });
        self
    }

    #[track_caller]
    pub fn stop(mut self, how: StopMode) -> Self {
        self.tell(EventKind::StopRequested { how });
        self
    }

    #[track_caller]
    pub fn withdrawn(mut self) -> Self {
        self.tell(EventKind::StopWithdrawn);
        self
    }

    /// The clock jumps to the run's deadline, and the run is told.
    #[track_caller]
    pub fn deadline(mut self) -> Self {
        self.now = self.run.deadline().expect("a deadline").0.max(self.now);
        self.tell(EventKind::DeadlineReached);
        self
    }

    /// The driver is gone for `away_ms`, and another one goes on.
    #[track_caller]
    pub fn resumed(mut self, away_ms: u64) -> Self {
        self.now += away_ms;
        self.tell(EventKind::Resumed { away_ms });
        self
    }

    #[track_caller]
    pub fn saved(mut self, attempt: u32, result: SaveResult) -> Self {
        self.tell(EventKind::SaveFinished { attempt, result });
        self
    }

    /// Notes of the last event.
    pub fn notes(&self) -> &[Note] {
        &self.journal.last().unwrap().1
    }

    /// Notes of all events.
    pub fn all_notes(&self) -> impl Iterator<Item = &Note> {
        self.journal.iter().flat_map(|(_, notes, _)| notes)
    }

    // ---- the end ----

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

    /// Goes on by itself: every call is answered with `draft`, every tool finds something, people agree.
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
                Command::AskPerson { key, .. } => {
                    self = self.answered_by_person(&key.to_string(), PersonAnswer::Approved);
                }
                Command::Validate(validate) => {
                    let (key, attempt) = (validate.key, validate.attempt);
                    self.tell(EventKind::Validated { key, attempt, result: Validation::Valid });
                }
                Command::Abort { .. } => self = self.deadline(),
                Command::Save { attempt } => self = self.saved(attempt, saved_at("x")),
            }
        }
        panic!("not done after 200 steps: {:?}", self.run.phase());
    }

    // ---- invariants ----

    /// What holds in every state.
    #[track_caller]
    pub fn check_invariants(&self) {
        let (run, limits) = (&self.run, &self.spec.limits);
        let commands = run.commands();
        assert_eq!(commands, run.commands(), "commands are read, not taken");
        let in_flight_after_stop = matches!(run.phase(), Phase::Stopping { .. });
        assert!(
            run.is_done() || !commands.is_empty() || run.deadline().is_some(),
            "a live state owes work: {:?}",
            run.phase()
        );
        assert!(!run.is_done() || commands.is_empty() && run.deadline().is_none(), "silence after the end");
        if in_flight_after_stop {
            assert!(!commands.is_empty(), "stopping without anything to abort: {:?}", run.phase());
            assert!(
                commands.iter().all(|command| matches!(command, Command::Abort { .. })),
                "only aborts while stopping"
            );
        }
        // I-4
        let totals = run.totals();
        assert!(totals.passes <= limits.passes, "{totals:?}");
        assert!(totals.tool_calls <= limits.tool_calls, "{totals:?}");
        assert!(totals.model_calls <= limits.model_calls, "{totals:?}");
        assert_eq!(totals.passes as usize, run.passes().len());
        let selected =
            run.actions().iter().filter(|action| action.key.pass == 0 && action.verdict == Verdict::Run);
        assert!(selected.count() <= limits.selected as usize);
        // I-20
        let numbers: Vec<u32> = run.evidence().iter().map(|evidence| evidence.id.0).collect();
        assert_eq!(
            numbers,
            (1..=numbers.len() as u32).collect::<Vec<_>>(),
            "evidence is numbered in request order"
        );
        // I-21
        let (mut usage, mut cost) = (Usage::default(), loop_core::Cost::default());
        for note in self.all_notes() {
            if let Note::CallCharged { usage: used, cost: charged, .. } = note {
                usage = usage.plus(used);
                cost.add(*charged);
            }
        }
        assert_eq!((totals.usage, totals.cost), (usage, cost), "the cost is the sum of the charges");
        // I-28: once at most up, once to another route, and given back when the run ends.
        let moved = |note: &&Note| {
            let Note::TierChanged { why, .. } = note else { return false };
            !matches!(why, loop_core::TierCause::Cost | loop_core::TierCause::Context)
        };
        let changes = self.all_notes().filter(moved).count();
        let works = !matches!(run.phase().name(), "stopping" | "saving" | "done");
        let routes = usize::from(run.spec().models.fallback.is_some());
        assert!(changes <= routes + if works { 1 } else { 2 });
        assert!(works || run.tier() == Tier::Base, "{:?}", run.tier());
        // I-5, and what holds of attempts.
        if let Err(what) = native::is_sound(run) {
            panic!("{what}");
        }
        // Every state survives a checkpoint.
        let text = serde_json::to_string(run.state()).unwrap();
        let back: State = serde_json::from_str(&text).unwrap();
        assert_eq!(&back, run.state(), "the state reads back as it was written");
        assert_eq!(Run::restore(back, Arc::clone(&self.spec)).as_ref(), Ok(run));
    }

    /// The journal, written and read back, gives the same notes and the same state after every event (I-11).
    #[track_caller]
    pub fn check_replay(&self) {
        let (first, notes, state) = &self.journal[0];
        let (mut run, opened) = Run::open(&reread(first), Arc::clone(&self.spec)).unwrap();
        assert_eq!((&opened, run.state()), (notes, state));
        for (event, notes, state) in &self.journal[1..] {
            let replayed = run.apply(&reread(event)).unwrap();
            assert_eq!((&reread(&replayed), run.state()), (notes, state));
        }
    }
}

/// A value after a way through JSON text.
pub fn reread<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// A prompt of 2,000 bytes.
pub const PROMPT: PromptSize = PromptSize { bytes: 2_000, shared_bytes: 0 };

pub fn refused(call: &CallModel, prompt: PromptSize, refusal: Refusal) -> EventKind {
    EventKind::CallRefused {
        key: call.key,
        attempt: call.attempt,
        prompt_bytes: prompt.bytes,
        shared_bytes: prompt.shared_bytes,
        refusal,
    }
}

// ---- what a model says ----

/// A reply to be: sections and a contract.
#[derive(Clone, Debug)]
pub struct DraftReply {
    pub text: String,
    pub contract: Option<Value>,
    pub calls: Vec<ToolCall>,
    pub finish: FinishReason,
    pub usage: Option<Usage>,
}

/// A reply with a `Situation` and a contract of this confidence.
pub fn draft(confidence: &str) -> DraftReply {
    bare_draft(confidence).section("Situation", "The disk is full.")
}

/// A reply with nothing but a contract, with the run's nonce as the prompt asks for it.
pub fn bare_draft(confidence: &str) -> DraftReply {
    DraftReply {
        contract: Some(
            json!({"nonce": NONCE, "analysis_confidence": confidence, "confidence_reason": "because", "ai_actions": []}),
        ),
        ..text("")
    }
}

/// A reply that is this text.
pub fn text(text: &str) -> DraftReply {
    DraftReply {
        text: text.to_owned(),
        contract: None,
        calls: Vec::new(),
        finish: FinishReason::EndTurn,
        usage: Some(used(100, 50)),
    }
}

impl DraftReply {
    pub fn section(mut self, heading: &str, body: &str) -> Self {
        self.text.push_str(&format!("## {heading}\n\n{body}\n\n"));
        self
    }

    pub fn asks_as(mut self, priority: &str, tool: &str, parameters: Value) -> Self {
        let contract = self.contract.as_mut().unwrap();
        let actions = contract["ai_actions"].as_array_mut().unwrap();
        let id = format!("a-{}", actions.len());
        let action = json!({
            "action_id": id, "action_type": tool, "reason": "r", "parameters": parameters, "priority": priority,
        });
        actions.push(action);
        self
    }

    /// Asks for a required action.
    pub fn asks(self, tool: &str, parameters: Value) -> Self {
        self.asks_as("required", tool, parameters)
    }

    /// Puts a member into the contract.
    pub fn member(mut self, name: &str, value: Value) -> Self {
        self.contract.as_mut().unwrap()[name] = value;
        self
    }

    pub fn ending(mut self, finish: FinishReason) -> Self {
        self.finish = finish;
        self
    }

    pub fn using(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    pub fn whole_text(&self) -> String {
        match &self.contract {
            Some(contract) => format!("{}```json\n{contract}\n```\n", self.text),
            None => self.text.clone(),
        }
    }

    pub fn reply(&self) -> Reply {
        let calls = self.calls.clone();
        Reply { calls, finish: self.finish, usage: self.usage, ..Reply::text(self.whole_text()) }
    }
}

pub fn used(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

pub fn failure(retryable: bool) -> ModelFailure {
    ModelFailure {
        kind: loop_core::FailureKind::Overloaded,
        message: "try later".into(),
        retryable,
        retry_at: None,
        partial: None,
        served_model: None,
        usage: Some(used(10, 0)),
        received: loop_core::Received::default(),
    }
}

// ---- what tools bring ----

pub fn found(markdown: &str) -> Observation {
    Observation::new(Status::Ok, "found", markdown, json!({"text": markdown}).to_string())
}

pub fn observed(status: Status) -> Observation {
    Observation::failed(status, "tool", "it did not work")
}

pub fn saved_at(location: &str) -> SaveResult {
    SaveResult::Saved { location: location.into() }
}

// ---- the spec ----

pub fn target(name: &str) -> Value {
    json!({"target": name})
}

pub fn facts() -> Facts {
    Facts {
        unix_ms: 1_700_000_000_000,
        nonce: NONCE.into(),
        prompts: digest(),
        tools: digest(),
        history: None,
        provenance: loop_core::Provenance::default(),
    }
}

pub fn digest() -> Digest {
    Digest::of("test", b"x")
}

pub fn key(text: &str) -> CommandKey {
    text.parse().unwrap()
}

pub fn item() -> WorkItem {
    WorkItem {
        id: "T-1".into(),
        kind: "ticket".into(),
        title: "Disk full".into(),
        full: "The server's disk is full.".into(),
        compact: "Disk full on server.".into(),
        scope: Scope::default(),
        form: Default::default(),
        caller: None,
        trace: None,
    }
}

pub fn tool(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        aliases: Vec::new(),
        description: "".into(),
        when: "".into(),
        args: ArgSpec::from_schema(&json!({
            "type": "object",
            "properties": {"target": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
            "required": ["target"],
        })),
        effect,
        timeout_ms: 12_000,
        attempts: 2,
        smart: false,
        policy: loop_core::ToolPolicy::default(),
    }
}

pub fn section(id: &str, heading: &str) -> SectionSpec {
    SectionSpec {
        id: id.into(),
        heading: heading.into(),
        describe: "".into(),
        required: false,
        cite: Default::default(),
    }
}

pub fn model(price: Option<Price>) -> ModelSpec {
    ModelSpec {
        provider: "offline".into(),
        model: "m".into(),
        base_model: None,
        price,
        context_tokens: 100_000,
        max_output_tokens: 8_192,
        timeout_ms: 60_000,
    }
}

pub fn spec() -> RunSpec {
    let mut device = tool("fetch_device", Effect::Read);
    device.aliases = vec!["fetch_devices".into()];
    let mut docs = tool("fetch_docs", Effect::Read);
    docs.smart = true;
    RunSpec {
        version: SPEC_VERSION,
        domain: "helpdesk".into(),
        goal: "Help.".into(),
        profile: None,
        protocol: ProtocolSpec::Document(DocumentSpec {
            sections: vec![
                SectionSpec { required: true, ..section("situation", "🔍 Situation") },
                section("findings", "Findings"),
                section("next_steps", "➡️ Next Steps"),
            ],
            nonce: NonceMode::Prefer,
        }),
        tools: vec![
            device,
            docs,
            tool("restart", Effect::WriteKeyed),
            tool("wipe", Effect::WriteIrreversible),
        ],
        selection: Selection { enabled: false, defaults: Vec::new() },
        models: ModelSpecs {
            selector: Some(model(Some(Price::flat(10, 40)))),
            base: model(Some(Price::flat(100_000, 400_000))),
            escalated: None,
            fallback: None,
        },
        limits: Limits::default(),
        gate: GateSettings::default(),
        save: false,
        stop_reasons: Vec::new(),
    }
}

/// The tier of the commanded call.
pub fn tier_of(world: &World) -> Tier {
    world.call().tier
}

pub fn usd(text_pico: u64) -> Option<PicoUsd> {
    Some(PicoUsd(text_pico))
}

pub fn confidence(world: &World) -> Confidence {
    world.outcome().confidence
}
