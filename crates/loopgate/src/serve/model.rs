//! `loopgate model`: calls a model once, or decodes a recorded reply without a network.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_domain::{ConfiguredModel, ServerModel};
use loop_llm::codec::{Aliases, Api, Codec, classify};
use loop_llm::report::ModelReport;
use loop_llm::{LlmError, ModelEvent, ModelReply, ModelRequest, Profile};
use loop_tools::files;
use serde::Serialize;

use super::models;
use super::models::ModelsArgs;
use crate::context::places;
use crate::output::{Failure, stream};

/// The exit code of a failed call.
const FAILED: u8 = 6;

pub(crate) async fn model(command: ModelCommand) -> Result<ExitCode, Failure> {
    match command {
        ModelCommand::Call(args) => call(*args).await,
        ModelCommand::Decode(args) => decode(&args),
        ModelCommand::List(args) => models::models(&args),
    }
}

async fn call(args: ModelCallArgs) -> Result<ExitCode, Failure> {
    let request = request(&args);
    // What is wrong with the provider is said before what is wrong with the request.
    let server = server(&args, request.as_ref().map_or("", |request| &request.model))?;
    let request = request?;
    let mut result = None;
    match server.model.stream(&request).await {
        Err(error) => result = Some(Err(error)),
        Ok(mut events) => {
            while let Some(item) = events.next().await {
                take(item, args.events, &mut result)?;
            }
        }
    }
    let mut report = ModelReport::of(result.unwrap_or_else(|| Err(broken_off())));
    if report.error.is_some() {
        let billed = server.price.as_ref().zip(report.usage.as_ref());
        report.cost_pico_usd = billed.map(|(price, usage)| price.of(usage).0);
    }
    print(&report, args.events)
}

/// The model to call, without retries.
fn server(args: &ModelCallArgs, name: &str) -> Result<ConfiguredModel, Failure> {
    if args.provider == "offline" {
        return Ok(ConfiguredModel { model: Arc::new(loop_runtime::models::Offline::new()), price: None });
    }
    let wanted = ServerModel {
        provider: args.provider.clone(),
        model: name.to_owned(),
        base_url: args.base_url.clone(),
        api_key_env: args.api_key_env.clone(),
        base_model: args.base_model.clone(),
    };
    Ok(wanted.connect(args.domain.as_deref(), places::prices().as_deref())?)
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = Profile::all().iter().map(|profile| &*profile.name).collect();
    Failure::new(format!("--provider {name}: unknown; this version knows offline, {}", known.join(", ")))
}

fn request(args: &ModelCallArgs) -> Result<ModelRequest, Failure> {
    let text = String::from_utf8(read(&args.request, "a neutral request")?).map_err(|error| {
        let (shown, error) = (args.request.display(), files::no_text(&error));
        Failure::new(format!("{shown}: {error}; give a neutral request in JSON"))
    })?;
    let mut request: ModelRequest = serde_json::from_str(&text).map_err(|error| {
        let shown = args.request.display();
        let error = plain(&error);
        Failure::new(format!(
            "{shown}: is not a neutral request: {error}; docs/how-to/model-call.md describes it"
        ))
    })?;
    if let Some(model) = &args.model {
        request.model = model.as_str().into();
    }
    if request.model.trim().is_empty() {
        return Err(Failure::new("no model is named; add --model NAME, or `model` to the request"));
    }
    request.no_stream |= args.no_stream;
    Ok(request)
}

/// A JSON error in words for people.
fn plain(error: &serde_json::Error) -> String {
    let reported = error.to_string();
    let Some((found, rest)) = reported.split_once(", expected ") else { return reported };
    let (expected, place) = rest.rsplit_once(" at line ").unwrap_or((rest, ""));
    let expected = match expected {
        "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "an object",
        other if other.starts_with("struct ") || other.contains(" enum ") => "an object",
        other => other,
    };
    let found = found.replace("invalid type: sequence", "invalid type: array");
    let found = found.replace("invalid type: map", "invalid type: object");
    format!("{found}, expected {expected} at line {place}")
}

/// Parses `openai-chat`, `openai-responses`, `anthropic` or `gemini`.
pub(crate) fn api(text: &str) -> Result<Api, String> {
    let known = || Api::ALL.map(Api::name).join(", ");
    Api::ALL.into_iter().find(|api| api.name() == text).ok_or_else(|| format!("expected one of {}", known()))
}

fn decode(args: &ModelDecodeArgs) -> Result<ExitCode, Failure> {
    let name = args.provider.as_deref().unwrap_or(args.api.name());
    let profile = Profile::named(name).ok_or_else(|| unknown(name))?;
    if profile.api != args.api {
        return Err(Failure::new(format!(
            "--provider {name}: it speaks {}, not {}",
            profile.api.name(),
            args.api.name()
        )));
    }
    let body = read(&args.file, "the recorded body")?;
    if !(200..300).contains(&args.status) {
        let headers = reqwest::header::HeaderMap::new();
        let error = classify(args.status, &headers, &body, SystemTime::now(), &Secrets::default());
        return print(&ModelReport::of(Err(error)), args.events);
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if args.stream && matches!(first, Some(b'{' | b'[' | b'<')) {
        stream::note("loopgate: this is one piece and no stream; it is decoded as such");
    }
    let mut decoder =
        Codec::new(profile).decoder(&ModelRequest::default(), Aliases::default(), Secrets::default());
    let mut items = decoder.push(&body);
    items.extend(decoder.finish());
    let mut result = None;
    for item in items {
        take(item, args.events, &mut result)?;
    }
    print(&ModelReport::of(result.unwrap_or_else(|| Err(broken_off()))), args.events)
}

fn broken_off() -> LlmError {
    let (kind, phase) = (loop_core::types::FailureKind::StreamInterrupted, loop_llm::ErrorPhase::Stream);
    LlmError::new(kind, phase, "the reply ended without its end")
}

fn take(
    item: Result<ModelEvent, LlmError>,
    is_shown: bool,
    result: &mut Option<Result<ModelReply, LlmError>>,
) -> Result<(), Failure> {
    match item {
        Ok(ModelEvent::Finished(reply)) => *result = Some(Ok(*reply)),
        Err(error) => *result = Some(Err(error)),
        Ok(event) if is_shown => stream::print_json(&format!("{}\n", serde_json::to_string(&event)?)),
        Ok(_) => {}
    }
    Ok(())
}

fn print(report: &ModelReport, as_event: bool) -> Result<ExitCode, Failure> {
    #[derive(Serialize)]
    struct Last<'a> {
        event: &'static str,
        #[serde(flatten)]
        report: &'a ModelReport,
    }
    let text = if as_event {
        let event = if report.error.is_none() { "finished" } else { "failed" };
        serde_json::to_string(&Last { event, report })?
    } else {
        serde_json::to_string_pretty(report)?
    };
    stream::print_json(&format!("{text}\n"));
    Ok(if report.error.is_none() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::new(format!("standard input: {error}; give {what}")))?;
        return Ok(bytes);
    }
    files::bytes(path, files::MAX_BYTES)
        .map_err(|error| Failure::new(format!("{shown}: {error}; give {what}, or `-`")))
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ModelCommand {
    /// Send one neutral request once, and print the neutral reply as JSON
    Call(Box<ModelCallArgs>),
    /// Decode the bytes of a provider's reply without a network, and print the neutral reply as JSON
    Decode(ModelDecodeArgs),
    /// List the models whose prices are known
    List(ModelsArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 a reply, 6 the call failed (see the JSON), 1 the call could not be made, 2 wrong usage."
)]
pub(crate) struct ModelCallArgs {
    /// The provider: offline, openai, openai-responses, openai-chat, azure, azure-responses, anthropic, gemini, groq,
    /// mistral, deepseek, openrouter, xai, xai-chat, vllm, ollama, lm-studio, llama-cpp or compatible
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: String,
    /// The model's name at the provider [default: the one in the request]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// URL of the server [default: the provider's own]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds the key [default: the provider's own]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// The model's official name, if the server uses another name
    #[arg(long, value_name = "NAME")]
    pub(crate) base_model: Option<String>,
    /// Domain folder whose `[providers]` may be named
    #[arg(long, value_name = "FOLDER")]
    pub(crate) domain: Option<PathBuf>,
    /// The neutral request: a JSON file, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) request: PathBuf,
    /// Ask for the reply in one piece
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Print each event as a JSON line, and the reply as the last
    #[arg(long)]
    pub(crate) events: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 a reply, 6 the bytes hold an error (see the JSON), 1 they could not be \
    read, 2 wrong usage."
)]
pub(crate) struct ModelDecodeArgs {
    /// The protocol: openai-chat, openai-responses, anthropic or gemini
    #[arg(long, value_name = "API", value_parser = api)]
    pub(crate) api: loop_llm::codec::Api,
    /// The provider whose dialect of the protocol it is [default: the protocol's inventor]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The bytes are a stream of events [default: detected]
    #[arg(long)]
    pub(crate) stream: bool,
    /// The HTTP status of the response; a status other than 2xx is decoded as an error
    #[arg(long, default_value_t = 200, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..600))]
    pub(crate) status: u16,
    /// Print each event as a JSON line, and the reply as the last
    #[arg(long)]
    pub(crate) events: bool,
    /// The recorded body, or `-` for standard input
    pub(crate) file: PathBuf,
}
