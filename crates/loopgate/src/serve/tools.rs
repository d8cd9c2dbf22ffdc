//! `loopgate tools`: lists a domain's tools, calls one, reviews its MCP servers, and imports tools from an OpenAPI
//! document.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use loop_core::types::{Arguments, Scope, Status};
use loop_domain::Domain;
use loop_domain::import::{ImportOptions, OPENAPI_BYTES_MAX, import_openapi};
use loop_runtime::report::counted;
use loop_runtime::tools::markdown_of;
use loop_tools::{ToolContext, files};
use serde_json::Value;

use super::servers;
use crate::args::{DomainArgs, ReportArgs, SettingArgs, environment};
use crate::context::{Signals, places};
use crate::output::{Failure, quoted, stream};

pub(crate) async fn tools(args: ToolsArgs) -> Result<ExitCode, Failure> {
    if let Some(ToolsCommand::Import(ImportCommand::Openapi(args))) = args.command {
        return import(args);
    }
    let missing = || Failure::new("no domain is named; name its folder, for example `loopgate tools DOMAIN`");
    let named = DomainArgs {
        domain: args.domain.or_else(|| environment::path("domain")).ok_or_else(missing)?,
        settings: args.settings,
    };
    match args.command {
        Some(ToolsCommand::Call(call_args)) => call(&places::load(&named)?, call_args).await,
        Some(ToolsCommand::Diff(of)) => Ok(servers::diff(&named, of.server.as_deref()).await),
        Some(ToolsCommand::Trust(of)) => servers::trust(&named, of.server.as_deref()).await,
        _ => {
            let domain = places::load(&named)?;
            stream::print(&list(&domain));
            domain.changed_tools().iter().for_each(|line| stream::note(format!("warning: {line}")));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn import(args: OpenapiArgs) -> Result<ExitCode, Failure> {
    let shown = args.document.display();
    let wrong = |message: String| Failure::new(format!("{shown}: {message}"));
    let url = args.document.to_string_lossy();
    if url.contains("://") {
        let fetch = format!("curl -fsSL {} -o api.json", quoted(&url));
        return Err(wrong(format!("it is a URL, and a file is expected; fetch it first: {fetch}")));
    }
    // One byte beyond the limit is enough for the importer to refuse it.
    let read = places::beginning(&args.document, OPENAPI_BYTES_MAX as u64 + 1);
    let bytes = read.map_err(|error| wrong(format!("cannot be read: {error}; check the path")))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| wrong(format!("{}; save the document as JSON or YAML", files::no_text(&error))))?;
    let options = ImportOptions { only: args.only, base_url: args.server, list: args.list };
    let imported = import_openapi(&text, &options).map_err(|error| wrong(error.to_string()))?;
    stream::print_part(&imported.toml);
    if !options.list {
        let all = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let off = imported.off;
        stream::note(format!(
            "{}, {off} of them off until you have reviewed them",
            counted(imported.count as u64, "tool")
        ));
        if imported.left_out > 0 {
            let left_out = counted(imported.left_out as u64, "operation");
            stream::note(format!("{left_out} left out; the comments at the top say why"));
        }
        stream::note(format!("they connect to {}", all(&imported.places)));
        if !imported.secrets.is_empty() {
            stream::note(format!("they need the secrets {}", all(&imported.secrets)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(domain: &Domain) -> String {
    let mut text = String::new();
    for tool in &domain.spec.tools {
        let smart = if tool.smart { ", smart" } else { "" };
        let server = domain.server_of(&tool.name).map(|server| format!(", of the server {server}"));
        let server = server.unwrap_or_default();
        let effect = tool.effect.name();
        let what = match tool.policy.lease {
            // Its domain says what it may do, and its lease how long it takes.
            Some(_) => "a run, within the limits".to_owned(),
            None => format!("{effect}{smart}, {} ms{server}", tool.timeout_ms),
        };
        let _ = writeln!(text, "{} ({what})", tool.name);
        let _ = writeln!(text, "    {}", tool.description);
        if !tool.when.is_empty() {
            let _ = writeln!(text, "    when: {}", tool.when);
        }
        for (name, spec) in tool.args.ordered() {
            let need = if tool.args.required.contains(name) { "required" } else { "optional" };
            let about = spec.description.as_deref().unwrap_or_default();
            let examples: Vec<String> = spec.examples.iter().map(Value::to_string).collect();
            let examples = if examples.is_empty() {
                String::new()
            } else {
                format!(", for example {}", examples.join(", "))
            };
            let _ = writeln!(text, "    {name} ({need}): {about}{examples}");
        }
        if !tool.aliases.is_empty() {
            let aliases: Vec<&str> = tool.aliases.iter().map(AsRef::as_ref).collect();
            let _ = writeln!(text, "    also called {}", aliases.join(", "));
        }
    }
    text
}

async fn call(domain: &Domain, args: CallArgs) -> Result<ExitCode, Failure> {
    serde_json::from_str::<serde::de::IgnoredAny>(&args.parameters).map_err(|error| {
        Failure::new(format!(
            "the parameters are not JSON: {error}; give an object, for example '{{\"target\": \"x\"}}'"
        ))
    })?;
    // As a run reads them.
    let parameters = Arguments::from(&*args.parameters);
    let parameters = parameters.value().map_err(|error| Failure::new(error.to_string()))?;
    let mut scope = match &args.item {
        Some(path) => places::item(domain, path)?.scope,
        None => Scope::default(),
    };
    for text in &args.scope {
        set_scope(&mut scope, text)?;
    }
    let timeout_ms = domain.spec.tool(&args.name).map_or(0, |tool| tool.timeout_ms);
    let cap = domain.spec.limits.markdown_chars as usize;
    let context = ToolContext::new(scope, "a call by hand", "by-hand/0/action-0");
    let mut signals = Signals::new()?;
    let dispatched =
        domain.registry.dispatch(&args.name, parameters, context, &domain.credentials, timeout_ms, cap);
    let observation = tokio::select! {
        observation = dispatched => observation,
        received = signals.next() => return Ok(ExitCode::from(received.exit_code())),
    };
    let secrets = domain.secrets();
    if args.json.json {
        let json = serde_json::to_string_pretty(&observation)?;
        stream::print_json(&format!("{}\n", secrets.mask_json(&json)));
    } else {
        stream::print(&format!("{}\n", secrets.mask(&markdown_of(&observation))));
        let summary = secrets.mask(&observation.summary);
        stream::note(format!("{}: {summary}", observation.status.name()));
        if domain.registry.resolve(&args.name).is_none() {
            let names: Vec<String> =
                domain.registry.specs().iter().map(|tool| tool.name.to_string()).collect();
            stream::note(format!("the tools of the domain are {}", names.join(", ")));
        }
    }
    let found = matches!(observation.status, Status::Ok | Status::Empty);
    Ok(ExitCode::from(u8::from(!found)))
}

fn set_scope(scope: &mut Scope, text: &str) -> Result<(), Failure> {
    let expected = || {
        Failure::new(format!(
            "--scope {text}: expected KEY=VALUE with key account, account_name, asset, item or person"
        ))
    };
    let (key, value) = text.split_once('=').ok_or_else(expected)?;
    let slot = match key {
        "account" => &mut scope.account,
        "account_name" => &mut scope.account_name,
        "asset" => &mut scope.asset,
        "item" => &mut scope.item,
        "person" => &mut scope.person,
        _ => return Err(expected()),
    };
    *slot = Some(value.into());
    Ok(())
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = false, subcommand_negates_reqs = true)]
pub(crate) struct ToolsArgs {
    /// The domain folder, or its loopgate.toml
    #[arg(required = true)]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ToolsCommand {
    /// Call a tool as a run would, and print what the model would read
    Call(CallArgs),
    /// Ask the domain's MCP servers what they have now, and print what differs from what is trusted
    #[command(after_help = DIFF_CODES)]
    Diff(ServerArgs),
    /// Trust the tools of the domain's MCP servers as they are now, and write tools.lock
    Trust(ServerArgs),
    /// Write entries for a domain file from the description of an API
    #[command(subcommand)]
    Import(ImportCommand),
}

const DIFF_CODES: &str = "Exit codes: 0 nothing differs, 1 something differs, 2 a server could not be asked.";

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The server's name in the domain file [default: all servers]
    pub(crate) server: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ImportCommand {
    /// Print tools of kind `http` from an OpenAPI document of version 3.0 to 3.2, for your review
    Openapi(OpenapiArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OpenapiArgs {
    /// The document, in JSON or YAML; `-` reads standard input
    pub(crate) document: PathBuf,
    /// Import only this: an operation's id, a tag, METHOD /PATH, or the beginning of a path
    #[arg(long, value_name = "WHAT")]
    pub(crate) only: Vec<String>,
    /// The server's URL, in place of the one in the document
    #[arg(long = "base-url", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// List the operations, and print no tools
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// The tool's name or alias
    pub(crate) name: String,
    /// Its parameters as a JSON object
    #[arg(default_value = "{}")]
    pub(crate) parameters: String,
    /// Take the scope (account, asset, person) from this work item
    #[arg(long, value_name = "FILE")]
    pub(crate) item: Option<PathBuf>,
    /// Part of the scope: account, account_name, asset, item or person
    #[arg(long = "scope", value_name = "KEY=VALUE")]
    pub(crate) scope: Vec<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}
