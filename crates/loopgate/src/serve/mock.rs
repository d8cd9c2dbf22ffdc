//! `loopgate mock`: serves a domain's models on loopback, with optional misbehaviour.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use loop_core::RunSpec;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, EventStream, LlmError, ModelRequest};
use loop_mock::{Behaviour, Chunks, ConnectionEnd, Lie, LoopbackServer, ReceivedRequest, Service};
use loop_runtime::models::Models;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{DomainArgs, SettingArgs};
use crate::context::places;
use crate::output::{Failure, stream};

#[derive(Debug, clap::Args)]
pub(crate) struct MockArgs {
    /// The domain folder, or its loopgate.toml
    #[arg(required = true)]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Misbehave in this way: see --behaviours
    #[arg(long, value_name = "NAME", value_parser = behaviour)]
    pub(crate) behaviour: Option<&'static Lie>,
    /// List the ways in which the server can misbehave, one per line
    #[arg(long, exclusive = true)]
    pub(crate) behaviours: bool,
    /// The address to listen on; port 0 takes a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT", value_parser = crate::args::address)]
    pub(crate) listen: SocketAddr,
    /// How to chunk replies: `whole`, a chunk size in bytes, or `random:SEED`
    #[arg(long, default_value = "whole", value_name = "PIECES", value_parser = chunks)]
    pub(crate) chunks: Chunks,
    /// Do not print a line for each request
    #[arg(long)]
    pub(crate) quiet: bool,
}

pub(crate) async fn mock(args: MockArgs) -> Result<ExitCode, Failure> {
    if args.behaviours {
        stream::print(&behaviours());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(domain) = args.domain else {
        return Err(Failure::new("no domain is given; name a folder, or use --behaviours"));
    };
    let given = DomainArgs { domain, settings: args.settings };
    let domain = places::load(&given)?;
    let tiers = Arc::new(Tiers::of(&domain.spec, &domain.models)?);
    let names = tiers.names();
    let mut service = Service::of(Arc::clone(&tiers) as Arc<dyn ChatModel>)
        .with_names(names)
        .usually(Behaviour::model().in_chunks(args.chunks))
        .keeping(0);
    if let Some(lie) = args.behaviour {
        service = service.lying(lie);
    }
    if !args.quiet {
        let tiers = Arc::clone(&tiers);
        service = service.observed(move |received| stream::note(line(received, &tiers)));
    }
    // Heard from before anybody can know that there is something to end.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = LoopbackServer::start_at(service, args.listen).map_err(|error| {
        Failure::new(format!("{}: {error}; give another address with --listen", args.listen))
    })?;
    let url = server.base_url();
    stream::note(usage(&given, &tiers.base.name, &url));
    if let Some(lie) = args.behaviour {
        stream::note(format!("lies:  {}: {}", lie.name, lie.about));
    }
    stream::note("ends with Ctrl-C");
    if !server.address().ip().is_loopback() {
        stream::note(
            "warning: every host that reaches this machine can send requests, and no key is checked",
        );
    }
    stream::print(&format!("{url}\n"));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    server.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// The command that runs the domain with this model server.
fn usage(args: &DomainArgs, name: &str, url: &str) -> String {
    let folder = args.domain.display();
    format!("loopgate run {folder} ITEM --model openai-chat/{name} --base-url {url}")
}

/// The lies with their descriptions.
fn behaviours() -> String {
    let width = Lie::ALL.iter().map(|lie| lie.name.len()).max().unwrap_or_default();
    Lie::ALL.iter().map(|lie| format!("{:width$}  {}\n", lie.name, lie.about)).collect()
}

/// Parses the name of a lie.
fn behaviour(name: &str) -> Result<&'static Lie, String> {
    Lie::find(name)
        .ok_or_else(|| "no behaviour has this name; loopgate mock --behaviours lists them".to_owned())
}

/// Parses `whole`, a number of bytes, or `random:SEED`.
fn chunks(text: &str) -> Result<Chunks, String> {
    let chunks = match text.split_once(':') {
        None if text == "whole" => Some(Chunks::Whole),
        None => text.parse().ok().filter(|bytes| *bytes > 0).map(Chunks::Bytes),
        Some(("random", seed)) => seed.parse().ok().map(|seed| Chunks::Random { seed }),
        Some(_) => None,
    };
    chunks.ok_or_else(|| "expected whole, a number of bytes above 0, or random:SEED".to_owned())
}

/// A domain's models as one model, which selects by the model name in the request.
#[derive(Debug)]
struct Tiers {
    base: NamedModel,
    others: Vec<NamedModel>,
}

#[derive(Debug)]
struct NamedModel {
    name: Arc<str>,
    model: Arc<dyn ChatModel>,
}

impl Tiers {
    /// If several tiers have models of the same name, the base model replies.
    fn of(spec: &RunSpec, models: &Models) -> Result<Self, Failure> {
        let named = |tier: &str, spec: &loop_core::spec::ModelSpec, model: &Arc<dyn ChatModel>| {
            if matches!(&*spec.provider, "offline" | "scripted") {
                Ok(NamedModel { name: Arc::clone(&spec.model), model: Arc::clone(model) })
            } else {
                Err(Failure::new(format!(
                    "the {tier} model is {}/{}, which is on a server already; choose a model of this machine, for \
                     example with --model {tier}=offline/offline-1",
                    spec.provider, spec.model
                )))
            }
        };
        let mut others = Vec::new();
        if let Some(selector) = &spec.models.selector {
            others.push(named("selector", selector, &models.selector)?);
        }
        if let Some(escalated) = &spec.models.escalated {
            others.push(named("escalated", escalated, &models.escalated)?);
        }
        if let Some(fallback) = &spec.models.fallback {
            others.push(named("fallback", fallback, &models.fallback)?);
        }
        Ok(Self { base: named("base", &spec.models.base, &models.base)?, others })
    }

    fn names(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for named in self.all() {
            if !names.contains(&named.name) {
                names.push(Arc::clone(&named.name));
            }
        }
        names
    }

    /// The model of this name.
    fn find(&self, name: &str) -> Option<&NamedModel> {
        self.all().find(|named| &*named.name == name)
    }

    fn all(&self) -> impl Iterator<Item = &NamedModel> {
        std::iter::once(&self.base).chain(&self.others)
    }
}

#[async_trait]
impl ChatModel for Tiers {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        self.find(&request.model).unwrap_or(&self.base).model.stream(request).await
    }
}

/// A log line about an ended request.
fn line(received: &ReceivedRequest, tiers: &Tiers) -> String {
    let mut line = match received.request() {
        Some(request) => {
            let purpose = match RequestPurpose::of(&request) {
                RequestPurpose::Select => "select",
                RequestPurpose::Main => "main",
                RequestPurpose::Repair => "repair",
                RequestPurpose::Filter => "filter",
                RequestPurpose::Opinion => "opinion",
            };
            let unknown = match tiers.find(&request.model) {
                Some(_) => String::new(),
                None => format!(" (unknown; {} answers)", tiers.base.name),
            };
            format!("{purpose} {}{unknown}", request.model)
        }
        None => format!("{} {}", received.method, received.path),
    };
    line.push_str(&format!(": {} bytes in, {} bytes out", received.bytes_in, received.bytes_out));
    match (received.ending, received.status) {
        (Some(ConnectionEnd::HungUp), _) => line.push_str(", the client hung up"),
        (Some(ConnectionEnd::Cut), _) => line.push_str(", broken off"),
        (Some(ConnectionEnd::Whole) | None, Some(status)) if status != 200 => {
            line.push_str(&format!(", status {status}"));
        }
        (Some(ConnectionEnd::Whole) | None, _) => {}
    }
    if received.lied {
        line.push_str(", a lie");
    }
    line
}
