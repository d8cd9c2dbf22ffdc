//! The loops: one model, its connections and one journal for all of them, and a tool that always answers alike.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::StreamExt;
use loop_core::spec::{GateSettings, Limits, Selection, Stale};
use loop_llm::{HttpModel, Message, Profile};
use loop_runtime::{
    Agent, RunSpec, Runner, StopReason, WorkItem,
    agent::{AgentOutput, AgentStream, OutputTool},
    journal::{Journal, MemoryJournal, NoJournal, StoredJournal, SyncPolicy},
    models::{ChatModel, ModelSpec, Models},
    observe::RunEvent,
    run::StartError,
    spec::SectionSpec,
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::args::{Kept, Options, Synced};
use super::meter::{Ended, TOOL_CALLS, WRITTEN, Written, number_in};

/// One loop.
type Looping = Pin<Box<dyn Future<Output = Ended> + Send>>;
type Failed = Box<dyn std::error::Error>;

/// What the model asks the tool.
#[derive(Deserialize, JsonSchema)]
struct Read {
    /// Which entry.
    #[expect(dead_code, reason = "every entry is the same")]
    id: String,
}

/// What an output is.
#[derive(Deserialize, JsonSchema)]
struct Finding {
    /// What was found.
    #[expect(dead_code, reason = "that it is there is enough")]
    finding: String,
}

/// Conversations: as long as the model calls tools.
pub(crate) fn conversation(options: &Options) -> Result<impl Fn() -> Looping + use<>, Failed> {
    let (text, pause) = (tool_text(), tool_pause());
    let is_set = |name| number_in(name).is_some_and(|number| number > 0);
    let lookup = if is_set("BENCH_CHEAP") { lookup().cheap() } else { lookup() };
    let agent = Agent::new(model(options)?)
        .instructions(INSTRUCTIONS)
        .tool(lookup, move |_: Read, _| answer(text.clone(), pause))
        .limits(limits())
        .with_journal(journal(options)?);
    let agent = if is_set("BENCH_ORDERED") { agent } else { agent.parallel() }.build()?;
    Ok(move || -> Looping {
        let agent = agent.clone();
        Box::pin(async move {
            let began = Instant::now();
            let mut messages = vec![Message::user(QUESTION)];
            drive(agent.chat(&mut messages).stream().await, began, StopReason::Completed).await
        })
    })
}

/// Conversations that end with a value.
pub(crate) fn output(options: &Options) -> Result<impl Fn() -> Looping + use<>, Failed> {
    let (text, pause) = (tool_text(), tool_pause());
    let save = OutputTool::<Finding>::new("save_finding", "Save what was found. This ends the work.");
    let agent = Agent::output(model(options)?, save)
        .instructions(INSTRUCTIONS)
        .helper(lookup(), move |_: Read, _| answer(text.clone(), pause))
        .parallel()
        .passes_per_attempt(limits().passes)
        .limits(limits())
        .with_journal(journal(options)?)
        .build()?;
    Ok(move || -> Looping {
        let agent = agent.clone();
        Box::pin(async move {
            let began = Instant::now();
            let mut messages = vec![Message::user(QUESTION)];
            drive(agent.chat(&mut messages).stream().await, began, StopReason::Completed).await
        })
    })
}

/// Drives an agent to its end, which has to be `expected`.
async fn drive<Output: AgentOutput>(
    stream: Result<AgentStream<&mut Vec<Message>, Output>, StartError>,
    began: Instant,
    expected: StopReason,
) -> Ended {
    let mut ended = Ended::default();
    match stream {
        Err(error) => ended.wrong = Some(error.to_string()),
        Ok(mut stream) => {
            while let Some(event) = stream.next().await {
                hear(&event, began, &mut ended);
            }
            judge(stream.finish().await.outcome.stop.reason(), expected, &mut ended);
        }
    }
    ended
}

fn hear(event: &RunEvent, began: Instant, ended: &mut Ended) {
    if let RunEvent::Text { .. } = event {
        ended.first_text.get_or_insert_with(|| began.elapsed());
    }
}

fn judge(reason: StopReason, expected: StopReason, ended: &mut Ended) {
    if reason != expected {
        ended.wrong = Some(format!("it stopped with {}", reason.name()));
    }
}

/// Loops of the document protocol: as long as the model wants more.
pub(crate) fn document(options: &Options) -> Result<impl Fn() -> Looping + use<>, Failed> {
    let (text, pause) = (tool_text(), tool_pause());
    let registry = Registry::builder().typed(lookup(), move |_: Read, _: ToolContext| {
        let answer = answer(text.clone(), pause);
        async move { answer.await.map(|text| ToolResult::value("lookup", serde_json::Value::String(text))) }
    });
    let (model, spec) = model(options)?;
    let spec = RunSpec {
        selection: Selection { enabled: false, ..Selection::default() },
        limits: limits(),
        gate: GateSettings { stale: Stale::Off, no_progress: 0, ..GateSettings::default() },
        ..RunSpec::document("load", [SectionSpec::new("findings", "Findings").required()], spec)
    };
    let runner = Runner::new(spec, registry.build()?, Models::one(model)).with_journal(journal(options)?);
    Ok(move || -> Looping {
        let runner = runner.clone();
        Box::pin(async move {
            let began = Instant::now();
            let item = WorkItem::new("L-1", "question", "Find the pump", QUESTION);
            let mut run = match runner.run(item).stream().await {
                Ok(run) => run,
                Err(error) => return Ended { wrong: Some(error.to_string()), ..Ended::default() },
            };
            let mut ended = Ended::default();
            while let Some(event) = run.next().await {
                hear(&event, began, &mut ended);
            }
            judge(run.into_outcome().await.stop.reason(), StopReason::Confident, &mut ended);
            ended
        })
    })
}

fn model(options: &Options) -> Result<(Arc<dyn ChatModel>, ModelSpec), Failed> {
    let profile = Profile::named("compatible").ok_or("there is no profile for compatible servers")?;
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_else(|_| KEY.to_owned());
    let model = HttpModel::new(profile, Some(&options.base_url))?.with_key(key.into())?;
    let spec =
        ModelSpec { context_tokens: 100_000_000, ..ModelSpec::new("openai-chat", options.model.as_str()) };
    Ok((Arc::new(model), spec))
}

fn journal(options: &Options) -> Result<Arc<dyn Journal>, Failed> {
    Ok(match &options.journal {
        Kept::Nowhere => Arc::new(NoJournal),
        Kept::InMemory => Arc::new(MemoryJournal::new()),
        Kept::InFile(path) => {
            let sync = match options.sync {
                Synced::Full => SyncPolicy::Full,
                Synced::Effects => SyncPolicy::Effects,
                Synced::Nothing => SyncPolicy::None,
            };
            let journal = StoredJournal::open(path)?.with_sync(sync);
            let counted = journal.clone();
            // There is one journal, so it is set once.
            _ = WRITTEN.set(Box::new(move || Written { entries: counted.entries(), syncs: counted.syncs() }));
            Arc::new(journal)
        }
    })
}

fn lookup() -> ToolDeclaration {
    ToolDeclaration::read("lookup", "Look up an entry of the register.")
}

/// As many passes as the server wants: the load is its affair.
fn limits() -> Limits {
    Limits {
        passes: 10_000,
        model_calls: 20_000,
        tool_calls: 100_000,
        cost: None,
        messages: None,
        wall_ms: 3_600_000,
        ..Limits::default()
    }
}

/// About 2 KB.
fn tool_text() -> String {
    let row = "The pump P-7 stands in hall 3, was last serviced in March and runs at 82 % of its load.\n";
    row.repeat(2_048 / row.len())
}

/// What `BENCH_TOOL_MS` says.
fn tool_pause() -> Option<Duration> {
    number_in("BENCH_TOOL_MS").filter(|milliseconds| *milliseconds > 0).map(Duration::from_millis)
}

/// The tool.
async fn answer(text: String, pause: Option<Duration>) -> Result<String, String> {
    TOOL_CALLS.fetch_add(1, Ordering::Relaxed);
    if let Some(pause) = pause {
        tokio::time::sleep(pause).await;
    }
    Ok(text)
}

/// What the system prompt begins with.
const INSTRUCTIONS: &str = "You look entries up in the register of a plant, and answer briefly.";
/// As long as the keys of providers are: a short one is not looked for in texts.
const KEY: &str = "sk-unused-7f3kQ9xW2mB8vN4tR6yL1pD5";
/// What the user wants of every loop.
const QUESTION: &str = "Where is the pump, and when was it last serviced?";
