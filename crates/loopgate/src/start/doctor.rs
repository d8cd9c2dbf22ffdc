//! `loopgate doctor`: checks what a run needs on this machine and for a domain, one line each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use loop_core::types::{PicoUsd, Tier};
use loop_domain::Domain;
use loop_llm::prices::origin;
use loop_llm::report::ModelReport;
use loop_llm::request::RequestMeta;
use loop_llm::{ChatModel, ModelRequest, complete, http};
use loop_runtime::journal::{Journal, StoredJournal};
use loop_runtime::report::counted;

use crate::args::{DomainArgs, JournalArgs, SettingArgs, environment};
use crate::context::places;
use crate::output::{Failure, one_line, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It connects to the servers of the models, and sends them nothing without --call.\n\n\
                  Exit codes: 0 nothing is missing, 1 something is, 2 wrong usage."
)]
pub(crate) struct DoctorArgs {
    /// A domain folder, or its loopgate.toml [default: none, the program alone]
    pub(crate) domain: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Make one call of one token to the model of each tier, and print what it cost
    #[arg(long)]
    pub(crate) call: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

/// The time limit to connect to a server.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    /// Runs work, but probably not as intended.
    Warned,
    /// Runs cannot begin, or fail.
    Missing,
}

/// A result and what it is about.
#[derive(Debug)]
struct Finding {
    health: Health,
    what: &'static str,
    says: String,
}

impl Finding {
    fn new(health: Health, what: &'static str, says: impl Into<String>) -> Self {
        Self { health, what, says: says.into() }
    }
}

pub(crate) async fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut findings = vec![program(), journal(&args.journal).await, prices()];
    let SettingArgs { profile, models, base_urls, set, .. } = &args.settings;
    let is_set =
        args.call || profile.is_some() || [models, base_urls, set].iter().any(|given| !given.is_empty());
    match args.domain.clone().or_else(|| environment::path("domain")) {
        Some(folder) => findings.extend(domain(folder, args).await?),
        None if is_set => {
            return Err(Failure::new(
                "settings are checked with a domain; write `loopgate doctor DOMAIN`, or set LOOPGATE_DOMAIN",
            ));
        }
        None => {}
    }
    for Finding { health, what, says } in &findings {
        let health = match health {
            Health::Well => "ok",
            Health::Warned => "warning",
            Health::Missing => "missing",
        };
        stream::print(&format!("{health:<8} {what:<8} {}\n", one_line(says)));
    }
    let is_well = findings.iter().all(|finding| finding.health != Health::Missing);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn program() -> Finding {
    let features = [
        ("http", cfg!(feature = "http")),
        ("command", cfg!(feature = "command")),
        ("files", cfg!(feature = "files")),
        ("postgres", cfg!(feature = "postgres")),
        ("mcp", cfg!(feature = "mcp")),
        ("mcp-server", cfg!(feature = "mcp-server")),
        ("mock", cfg!(feature = "mock")),
    ];
    let built = features.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name);
    let built = built.collect::<Vec<_>>().join(", ");
    let built =
        if built.is_empty() { "no kinds of tools but SQLite and documents".to_owned() } else { built };
    Finding::new(Health::Well, "program", format!("loopgate {} with {built}", env!("CARGO_PKG_VERSION")))
}

async fn journal(args: &JournalArgs) -> Finding {
    let path = args.path();
    let finding = |health, says: String| Finding::new(health, "journal", says);
    let is_on_server = path
        .to_str()
        .is_some_and(|path| path.starts_with("postgres://") || path.starts_with("postgresql://"));
    if !path.exists() && !is_on_server {
        // The nearest folder that is there decides whether it can be made.
        let folder = path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("."));
        return match fs::metadata(folder).map(|it| it.permissions().readonly()) {
            Ok(false) => finding(Health::Well, format!("the first run makes {}", path.display())),
            Ok(true) => finding(
                Health::Missing,
                format!(
                    "{}: cannot be made, {} is not writable; name another file with --journal",
                    path.display(),
                    folder.display()
                ),
            ),
            Err(error) => finding(
                Health::Missing,
                format!("{}: {error}; name another file with --journal", folder.display()),
            ),
        };
    }
    let opened = if is_on_server { StoredJournal::open_existing(&path) } else { StoredJournal::open(&path) };
    let (path, runs) = match &opened {
        Ok(journal) => (journal.path().to_owned(), journal.runs().await),
        Err(error) => return finding(Health::Missing, error.to_string()),
    };
    match runs {
        Ok(runs) => {
            let damaged = runs.iter().filter(|line| line.trouble.is_some()).count();
            let says = format!("{}, {}", path.display(), counted(runs.len() as u64, "run"));
            match damaged {
                0 => finding(Health::Well, says),
                _ => finding(
                    Health::Warned,
                    format!("{says}, {damaged} of them damaged; `loopgate runs` says which"),
                ),
            }
        }
        Err(error) => finding(Health::Missing, error.to_string()),
    }
}

fn prices() -> Finding {
    match places::prices() {
        None => Finding::new(Health::Well, "prices", origin()),
        Some(own) => match loop_domain::prices::read_prices(&own) {
            Ok(rows) => {
                let says = format!("{}, and {} rows of {}", origin(), rows.len(), own.display());
                Finding::new(Health::Well, "prices", says)
            }
            Err(error) => Finding::new(Health::Missing, "prices", error.to_string()),
        },
    }
}

async fn domain(folder: PathBuf, doctor: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let args = DomainArgs { domain: folder, settings: doctor.settings.clone() };
    let domain = match places::load(&args) {
        Ok(domain) => domain,
        Err(failure) => return Ok(vec![Finding::new(Health::Missing, "domain", failure.line())]),
    };
    let tools = domain.spec.tools.len() as u64;
    let says = format!("{} with {}", domain.spec.domain, counted(tools, "tool"));
    let mut findings = vec![Finding::new(Health::Well, "domain", says)];
    findings
        .extend(domain.untrusted().iter().map(|it| Finding::new(Health::Missing, "trust", it.to_string())));
    findings.extend(domain.missing().map(|it| Finding::new(Health::Missing, "key", it.to_string())));
    findings.extend(price(&domain));
    findings.extend(domain.price_notes().iter().map(|note| Finding::new(Health::Well, "price", note)));
    for (tier, url) in domain.model_urls() {
        findings.push(server(tier, url).await);
    }
    if doctor.call {
        findings.extend(calls(&domain).await);
    }
    findings.extend(domain.warnings().iter().map(|it| Finding::new(Health::Warned, "domain", it)));
    Ok(findings)
}

/// A warning about models without a known price, if no cost limit requires one.
fn price(domain: &Domain) -> Option<Finding> {
    let unpriced = domain.unpriced("costs will be unknown", "")?;
    Some(Finding::new(Health::Warned, "price", unpriced.to_string()))
}

/// Whether the server of a tier accepts connections. Nothing is sent.
async fn server(tier: &str, url: &str) -> Finding {
    match http::reach(url, CONNECT_LIMIT).await {
        Ok(server) => {
            Finding::new(Health::Well, "server", format!("{server} takes connections (model {tier})"))
        }
        Err(error) => Finding::new(Health::Missing, "server", format!("model {tier}: {error}")),
    }
}

/// Calls the model of each tier that has its own, for one token.
async fn calls(domain: &Domain) -> Vec<Finding> {
    let (specs, models) = (&domain.spec.models, &domain.models);
    let tiers: [(Tier, bool, &dyn ChatModel); 4] = [
        (Tier::Selector, specs.selector.is_some(), &*models.selector),
        (Tier::Base, true, &*models.base),
        (Tier::Escalated, specs.escalated.is_some(), &*models.escalated),
        (Tier::Fallback, specs.fallback.is_some(), &*models.fallback),
    ];
    let mut findings = Vec::new();
    for (tier, _, model) in tiers.into_iter().filter(|(_, has_model, _)| *has_model) {
        let spec = domain.spec.model(tier);
        let request = ModelRequest {
            max_output_tokens: Some(1),
            meta: RequestMeta { timeout_ms: Some(spec.timeout_ms), ..RequestMeta::default() },
            ..ModelRequest::new(spec.model.clone(), "", "Say: ok")
        };
        let report = ModelReport::of(complete(model, &request).await);
        let priced = || Some(spec.price.as_ref()?.of(report.usage.as_ref()?).0);
        let cost = report.cost_pico_usd.or_else(priced);
        let cost = cost.map_or_else(|| "cost unknown".to_owned(), |cost| PicoUsd(cost).to_string());
        let named = format!("{}/{} (model {})", spec.provider, spec.model, tier.name());
        findings.push(match report.error {
            None => Finding::new(Health::Well, "call", format!("{named} replied: {cost}")),
            Some(error) => {
                Finding::new(Health::Missing, "call", format!("{named}: {}: {}", error.kind, error.message))
            }
        });
    }
    findings
}
