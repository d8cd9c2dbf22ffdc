//! `loopgate doctor`: what is missing on this machine and for a domain, in one line each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use loop_core::types::Tier;
use loop_domain::Domain;
use loop_llm::prices::origin;
use loop_runtime::journal::{Journal, StoredJournal};
use loop_runtime::report::counted;
use reqwest::Url;

use crate::args::{DomainArgs, JournalArgs, SettingArgs};
use crate::context::places;
use crate::output::{Failure, one_line, stream};

#[derive(Debug, clap::Args)]
#[command(after_help = "It connects to the servers of the models, and sends them nothing.\n\n\
                  Exit codes: 0 nothing is missing, 1 something is, 2 wrong usage.")]
pub(crate) struct DoctorArgs {
    /// A domain folder, or its loopgate.toml [default: none, the program alone]
    pub(crate) domain: Option<PathBuf>,
    /// Profile of the domain to use
    #[arg(long, requires = "domain")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

/// How long a server has to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    /// A run works, and probably not as it is meant.
    Warned,
    /// A run does not begin, or fails.
    Missing,
}

/// What was found about one thing.
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
    if let Some(folder) = &args.domain {
        findings.extend(domain(folder, args.profile.clone()).await?);
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
    let path = args.journal.clone().unwrap_or_else(StoredJournal::default_path);
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

async fn domain(folder: &Path, profile: Option<String>) -> Result<Vec<Finding>, Failure> {
    let settings = SettingArgs { profile, ..SettingArgs::default() };
    let args = DomainArgs { domain: folder.to_owned(), settings };
    let domain = match places::load(&args) {
        Ok(domain) => domain,
        Err(failure) => return Ok(vec![Finding::new(Health::Missing, "domain", failure.line())]),
    };
    let tools = domain.spec.tools.len() as u64;
    let says = format!("{} with {}", domain.spec.domain, counted(tools, "tool"));
    let mut findings = vec![Finding::new(Health::Well, "domain", says)];
    findings.extend(domain.missing().map(|it| Finding::new(Health::Missing, "key", it.to_string())));
    findings.extend(price(&domain));
    for (tier, url) in domain.model_urls() {
        findings.push(server(tier, url).await);
    }
    findings.extend(domain.warnings().iter().map(|it| Finding::new(Health::Warned, "domain", it)));
    Ok(findings)
}

/// The models whose price is not known: a cost limit cannot hold for them.
fn price(domain: &Domain) -> Vec<Finding> {
    let spec = &domain.spec;
    let mut findings = Vec::new();
    let tiers = [Tier::Selector, Tier::Base, Tier::Escalated, Tier::Fallback];
    let mut named = Vec::new();
    for model in tiers.map(|tier| spec.model(tier)).into_iter().filter(|model| model.price.is_none()) {
        let name = format!("{}/{}", model.provider, model.model);
        if named.contains(&name) {
            continue;
        }
        let (health, what_follows) = match spec.limits.cost {
            Some(_) => (Health::Missing, "limits.cost_usd cannot be kept"),
            None => (Health::Warned, "costs will be unknown"),
        };
        let says = format!("{name}: the price is not known, so {what_follows}; add `price` to its model");
        findings.push(Finding::new(health, "price", says));
        named.push(name);
    }
    findings
}

/// Whether the server of a tier takes a connection. Nothing is sent.
async fn server(tier: &str, url: &str) -> Finding {
    let finding = |health, says: String| Finding::new(health, "server", says);
    // Of the address only host and port are shown: the rest may hold a credential.
    let place = Url::parse(url).ok().and_then(|url| {
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        Some((host, url.port_or_known_default()?))
    });
    let Some((host, port)) = place else {
        return finding(Health::Missing, format!("the base URL of the model {tier} has no host"));
    };
    let connecting = tokio::net::TcpStream::connect((host.as_str(), port));
    match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(_)) => finding(Health::Well, format!("{host}:{port} takes connections (model {tier})")),
        Ok(Err(error)) => finding(Health::Missing, format!("{host}:{port} (model {tier}): {error}")),
        Err(_) => {
            let seconds = CONNECT_LIMIT.as_secs();
            finding(
                Health::Missing,
                format!("{host}:{port} (model {tier}): no connection within {seconds} s"),
            )
        }
    }
}
