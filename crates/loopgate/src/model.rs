//! `loopgate model`: one call to a model without a loop, and the bytes of a reply without a network.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use loop_core::PicoUsd;
use loop_llm::prices::Prices;
use loop_llm::{
    Aliases, Api, ChatModel, Codec, HttpModel, LlmError, ModelEvent, ModelReply, ModelReport, ModelRequest,
    Offline, Profile, Secrets, classify,
};
use secrecy::SecretString;
use serde::Serialize;

use crate::args::{ModelCallArgs, ModelCommand, ModelDecodeArgs};
use crate::failure::Failure;
use crate::{models, places, stream};

/// The exit code of a call that failed.
const FAILED: u8 = 6;

pub(crate) async fn model(command: ModelCommand) -> Result<ExitCode, Failure> {
    match command {
        ModelCommand::Call(args) => call(*args).await,
        ModelCommand::Decode(args) => decode(&args),
        ModelCommand::Models(args) => models::models(&args),
    }
}

async fn call(args: ModelCallArgs) -> Result<ExitCode, Failure> {
    let model = client(&args)?;
    let request = request(&args)?;
    let mut result = None;
    match model.stream(&request).await {
        Err(error) => result = Some(Err(error)),
        Ok(mut events) => {
            while let Some(item) = events.next().await {
                take(item, args.events, &mut result)?;
            }
        }
    }
    let mut report = ModelReport::of(result.unwrap_or_else(|| Err(broken_off())));
    if report.cost_pico_usd.is_none() {
        report.cost_pico_usd = cost(&args, &request, &report)?.map(|cost| cost.0);
    }
    print(&report, args.events)
}

/// The model that is asked, without anything that tries again.
fn client(args: &ModelCallArgs) -> Result<Arc<dyn ChatModel>, Failure> {
    if args.provider == "offline" {
        return Ok(Arc::new(Offline::new()));
    }
    // With a server of somebody else, Chat Completions are those that everybody speaks.
    let name =
        if args.provider == "openai-chat" && args.base_url.is_some() { "compatible" } else { &args.provider };
    let profile =
        loop_domain::provider(args.domain.as_deref(), name)?.ok_or_else(|| unknown(&args.provider))?;
    let named = |error: &LlmError| Failure::new(format!("--provider {}: {}", args.provider, error.message));
    let mut model = HttpModel::new(Arc::clone(&profile), args.base_url.as_deref()).map_err(|error| {
        match &args.base_url {
            Some(url) => Failure::new(format!("--base-url {url}: {}", error.message)),
            None => Failure::new(format!(
                "--provider {}: it is at another place for everybody; add --base-url",
                args.provider
            )),
        }
    })?;
    let own = args.api_key_env.as_deref();
    if let Some(variable) = own.or(profile.api_key_env.as_deref()) {
        match std::env::var(variable).ok().filter(|key| !key.trim().is_empty()) {
            Some(key) => {
                model = model.with_key(SecretString::from(key.trim())).map_err(|error| named(&error))?
            }
            None if own.is_some() || args.base_url.is_none() => {
                let message = format!(
                    "the environment variable `{variable}` is not set; set it to the key of {}",
                    args.provider
                );
                return Err(Failure::new(message));
            }
            None => {}
        }
    }
    if let Some(base_model) = &args.base_model {
        model = model.with_base_model(base_model.as_str());
    }
    Ok(Arc::new(model))
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = Profile::all().iter().map(|profile| &*profile.name).collect();
    Failure::new(format!("--provider {name}: unknown; this version knows offline, {}", known.join(", ")))
}

fn request(args: &ModelCallArgs) -> Result<ModelRequest, Failure> {
    let text = String::from_utf8(read(&args.request, "a neutral request")?)
        .map_err(|_| Failure::new(format!("{}: is not UTF-8", args.request.display())))?;
    let mut request: ModelRequest = serde_json::from_str(&text).map_err(|error| {
        let shown = args.request.display();
        Failure::new(format!("{shown}: is no neutral request: {error}; docs/model.md says what it holds"))
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

/// What the call cost by what is known of prices; a server of somebody else has prices of its own.
fn cost(
    args: &ModelCallArgs,
    request: &ModelRequest,
    report: &ModelReport,
) -> Result<Option<PicoUsd>, Failure> {
    let Some(usage) = &report.usage else { return Ok(None) };
    let prices = match places::prices() {
        Some(path) => Prices::with_own(loop_domain::read_prices(&path)?),
        None => Prices::default(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = args.base_model.as_deref().unwrap_or(&request.model);
    let row = match &args.base_url {
        Some(_) if args.base_model.is_none() => prices.own(&args.provider, name, now),
        _ => prices.find(&args.provider, name, now),
    };
    Ok(row.map(|row| row.price.of(usage)))
}

/// Reads `openai-chat`, `openai-responses`, `anthropic` or `gemini`.
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
    let (kind, phase) = (loop_llm::LlmErrorKind::StreamInterrupted, loop_llm::ErrorPhase::Stream);
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
    std::fs::read(path).map_err(|error| Failure::new(format!("{shown}: {error}; give {what}, or `-`")))
}
