//! A load client: runs many conversations against any OpenAI-compatible server, and prints one JSON line about what they
//! cost.
//!
//! `cargo run --release -p loop-runtime --example load -- --help` lists the options.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the line is what it is for")]

#[path = "load/meter.rs"]
mod meter;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use loop_runtime::Message;
use loop_runtime::models::{HttpModel, Profile};
use loop_runtime::{
    Agent, StopReason,
    journal::{Journal, MemoryJournal, NoJournal, StoredJournal},
    models::{ChatModel, ModelSpec},
    spec::Limits,
    tools::ToolDeclaration,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::meter::{Options, TOOL_CALLS, measure};

const HELP: &str = "\
Runs many conversations against an OpenAI-compatible server and prints one JSON line about what they cost.

Usage: load --base-url URL --model NAME --loops N [OPTIONS]

  --base-url URL      the server with its version, for example http://127.0.0.1:8080/v1
  --model NAME        the model's name there
  --loops N           loops that are counted
  --concurrency C     at most so many loops at a time [1]
  --warmup W          loops before them that are not counted [0]
  --journal WHERE     none, memory, or the path of a SQLite file [memory]
  --help              this text

Each loop streams its replies and has one tool, lookup(id: string), which answers with the same text of 2 KB at once.
The key that is sent is OPENAI_API_KEY, or one that no server knows.

The line:
  loops, tool_calls   what was counted
  wall_s              from the start of the first counted loop to the end of the last
  cpu_s               processor time of this process, user and system, in that time
  peak_rss_kb         the most memory that the process ever held
  ok                  whether every loop ended as expected; the exit code is 1 where one did not
";

/// What the model asks the tool.
#[derive(Deserialize, JsonSchema)]
struct Read {
    /// Which entry.
    #[expect(dead_code, reason = "every entry is the same")]
    id: String,
}

fn main() -> ExitCode {
    let options = Options::of(std::env::args().skip(1));
    if options.is_set("--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    load(&options).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// One model, one set of connections and one journal serve all loops.
fn load(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let profile = Profile::named("compatible").ok_or("there is no profile for compatible servers")?;
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_else(|_| KEY.to_owned());
    let model = HttpModel::new(profile, Some(options.text("--base-url")?))?.with_key(key.into())?;
    let spec =
        ModelSpec { context_tokens: 100_000_000, ..ModelSpec::new("openai-chat", options.text("--model")?) };
    let journal: Arc<dyn Journal> = match options.text("--journal").unwrap_or("memory") {
        "none" => Arc::new(NoJournal),
        "memory" => Arc::new(MemoryJournal::new()),
        path => Arc::new(StoredJournal::open(path)?),
    };
    let text = TEXT.repeat(2_048 / TEXT.len());
    let agent = Agent::new((Arc::new(model) as Arc<dyn ChatModel>, spec))
        .instructions(INSTRUCTIONS)
        .tool(ToolDeclaration::read("lookup", "Look up an entry of the register."), move |_: Read, _| {
            TOOL_CALLS.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, String>(text.clone()))
        })
        // As many passes as the server wants: the load is its affair.
        .limits(Limits {
            passes: 10_000,
            model_calls: 20_000,
            tool_calls: 100_000,
            cost: None,
            messages: None,
            wall_ms: 3_600_000,
            ..Limits::default()
        })
        .with_journal(journal)
        .parallel()
        .build()?;
    let one = move || {
        let agent = agent.clone();
        async move {
            let mut messages = vec![Message::user(QUESTION)];
            let mut stream = agent.chat(&mut messages).events().await.map_err(|error| error.to_string())?;
            while stream.next().await.is_some() {}
            match stream.finish().await.outcome.stop.reason() {
                StopReason::Completed => Ok(()),
                other => Err(format!("it stopped with {}", other.name())),
            }
        }
    };
    Ok(measure(options, one)?)
}

/// A row of what the tool answers.
const TEXT: &str =
    "The pump P-7 stands in hall 3, was last serviced in March and runs at 82 % of its load.\n";
/// What the system prompt begins with.
const INSTRUCTIONS: &str = "You look entries up in the register of a plant, and answer briefly.";
/// As long as the keys of providers are: a short one is not looked for in texts.
const KEY: &str = "sk-unused-7f3kQ9xW2mB8vN4tR6yL1pD5";
/// What the user wants of every loop.
const QUESTION: &str = "Where is the pump, and when was it last serviced?";
