//! The world around the driver: models and tools that draw what they do, and a log of what was dispatched.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use loop_core::RunSpec;
use loop_core::types::{CommandKey, Effect, FailureKind};
use loop_llm::{ErrorPhase, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::models::ChatModel;
use loop_runtime::tools::{Registry, ToolContext, ToolDeclaration, ToolResult};
use loop_testkit::sim::{Choices, NONCE, SimFault, drawn_reply};
use serde_json::{Value, json};

use super::bugs::Bug;
use super::disk::Disk;
use super::ledger::SimLedger;

/// What the models, the tools and the checks of one simulation share.
#[derive(Debug)]
pub(crate) struct SimWorld {
    pub(crate) choices: Mutex<Choices>,
    pub(crate) disk: Disk,
    pub(crate) bug: Option<Bug>,
    /// The first thing that went wrong.
    fault: Mutex<Option<SimFault>>,
    /// Writes that were dispatched, by key.
    dispatched: Mutex<Vec<CommandKey>>,
    /// Tools that run.
    live: AtomicU64,
    /// Whether no driver runs.
    pub(crate) is_dead: AtomicBool,
    /// Whether disks and ledgers fail.
    pub(crate) has_faults: AtomicBool,
    pub(crate) dispatches: AtomicU64,
}

impl SimWorld {
    pub(crate) fn new(choices: Choices, disk: Disk, bug: Option<Bug>) -> Self {
        Self {
            choices: Mutex::new(choices),
            disk,
            bug,
            fault: Mutex::default(),
            dispatched: Mutex::default(),
            live: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            has_faults: AtomicBool::new(false),
            dispatches: AtomicU64::new(0),
        }
    }

    pub(crate) fn below(&self, count: u32) -> u32 {
        self.choices.lock().unwrap().below(count)
    }

    pub(crate) fn fails(&self, check: &'static str, what: impl Into<String>) {
        self.fault.lock().unwrap().get_or_insert(SimFault { check, what: what.into() });
    }

    pub(crate) fn fault(&self) -> Option<SimFault> {
        self.fault.lock().unwrap().clone()
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// A tool is dispatched: its start, or for a read its verdict, must have been acknowledged before.
    fn dispatch(&self, tool: &str, effect: Effect, target: &str, key: &CommandKey) {
        self.dispatches.fetch_add(1, Ordering::Relaxed);
        if self.is_dead.load(Ordering::Relaxed) {
            self.fails("I-14 a dead process dispatches nothing", format!("{key} {tool}"));
        }
        if effect.is_read() {
            if !self.disk.allows(tool, target) {
                self.fails("I-25 a verdict is durable before a tool runs", format!("{key} {tool}"));
            }
            return;
        }
        let mut dispatched = self.dispatched.lock().unwrap();
        dispatched.push(*key);
        let times = dispatched.iter().filter(|of| *of == key).count();
        let starts = self.disk.starts_of(key);
        if times > starts {
            let what = format!("{key} {tool} was dispatched {times} times, and {starts} starts are durable");
            self.fails("I-6 each dispatch of an effect has a durable start of its own", what);
        }
    }
}

/// Counts a tool that runs, also where it is dropped.
struct Live(Arc<SimWorld>);

impl Live {
    fn new(world: &Arc<SimWorld>) -> Self {
        world.live.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(world))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The tools: each draws how it ends.
pub(crate) fn registry(world: &Arc<SimWorld>, extra: &[&'static str]) -> Registry {
    let tools = [
        ("fetch_device", Effect::Read),
        ("fetch_docs", Effect::Read),
        ("restart", Effect::WriteKeyed),
        ("set", Effect::WriteIdempotent),
        ("mail", Effect::Egress),
        ("wipe", Effect::WriteIrreversible),
    ];
    let mut builder = Registry::builder();
    let schema = json!({"type": "object", "required": ["target"], "properties": {
        "target": {"type": "string"}, "limit": {"type": "integer", "default": 3}}});
    for (name, effect) in tools.into_iter().chain(extra.iter().map(|name| (*name, Effect::Read))) {
        let declaration =
            ToolDeclaration::new(name).description("A tool.").schema(schema.clone()).effect(effect);
        let world = Arc::clone(world);
        builder = builder.tool_fn(declaration, move |parameters: Value, context: ToolContext, _| {
            let (world, name) = (Arc::clone(&world), name.to_owned());
            async move { act(&world, &name, effect, &parameters, &context).await }
        });
    }
    builder.build().unwrap()
}

async fn act(
    world: &Arc<SimWorld>,
    name: &str,
    effect: Effect,
    parameters: &Value,
    context: &ToolContext,
) -> ToolResult {
    let target = parameters["target"].as_str().unwrap_or_default().to_owned();
    let key = context.key.split_once('/').and_then(|(_, key)| key.parse().ok());
    let Some(key) = key else {
        world.fails("a tool receives its key", &*context.key);
        return ToolResult::failed(name, name, "no key");
    };
    let times = if world.bug == Some(Bug::DispatchedTwice) && target == "e" { 2 } else { 1 };
    for _ in 0..times {
        world.dispatch(name, effect, &target, &key);
    }
    let live = Live::new(world);
    if world.bug == Some(Bug::OrphanTask) && target == "ops" {
        let live = Live::new(world);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            drop(live);
        });
    }
    if world.bug == Some(Bug::WorksAfterDeath) && !effect.is_read() {
        let (world, name) = (Arc::clone(world), name.to_owned());
        tokio::spawn(async move {
            while !world.is_dead.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            world.dispatch(&name, effect, "", &key);
        });
    }
    let (ends, takes) = (world.below(16), [1, 40, 700, 5_000][world.below(4) as usize]);
    match ends {
        13 => std::future::pending().await,
        14 => std::panic::resume_unwind(Box::new(super::BREAKS_DOWN)),
        _ => tokio::time::sleep(Duration::from_millis(takes)).await,
    }
    drop(live);
    match ends {
        10 | 11 => ToolResult::failure(name, name, "it did not answer", loop_tools::Failure::Retryable),
        12 => ToolResult::failed(name, name, "no such thing"),
        15 => ToolResult::failure(name, name, "No data found", loop_tools::Failure::Empty),
        _ => ToolResult::ok(name, "seen", format!("Saw {target}."), json!({"target": target})),
    }
}

/// A model that draws its replies, its pauses and its failures.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) spec: RunSpec,
    /// The ledger of the shared budget. `None`: the run shares none.
    pub(crate) ledger: Option<Arc<SimLedger>>,
}

#[async_trait]
impl ChatModel for Model {
    async fn stream(
        &self,
        request: &ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, LlmError>>, LlmError> {
        if self.world.is_dead.load(Ordering::Relaxed) {
            self.world.fails("I-14 a dead process calls no model", &*request.meta.key);
        }
        let call = format!("{} {}", request.meta.key, request.meta.attempt);
        if self.ledger.as_ref().is_some_and(|ledger| !ledger.covers(&call)) {
            self.world.fails("I-1 a call is reserved in the shared budget before it is sent", call);
        }
        let is_selection = request.meta.key.ends_with("/select");
        let drawn = drawn_reply(&mut self.world.choices.lock().unwrap(), &self.spec, is_selection);
        let ends = self.world.below(20);
        tokio::time::sleep(Duration::from_millis([3, 200, 2_000][self.world.below(3) as usize])).await;
        if ends == 17 {
            return Err(LlmError::new(FailureKind::Overloaded, ErrorPhase::Connect, "not today"));
        }
        let nonce = nonce_of(request);
        let text = drawn.text.replace(NONCE, &nonce);
        let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let pieces = [text[..half].to_owned(), text[half..].to_owned()];
        let reply = ModelReply {
            finish: drawn.finish,
            tool_calls: drawn.calls.clone(),
            ..ModelReply::text(text, drawn.usage)
        };
        let pieces = futures::stream::iter(pieces).then(|text| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(ModelEvent::TextDelta { text: text.into() })
        });
        let end = futures::stream::once(async move {
            match ends {
                18 => Err(LlmError::new(FailureKind::Overloaded, ErrorPhase::Stream, "it broke off")),
                19 => std::future::pending().await,
                _ => Ok(ModelEvent::Finished(Box::new(reply))),
            }
        });
        Ok(pieces.chain(end).boxed())
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
