//! `loopgate redteam`: attacks a domain and reports what the attacks achieve.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use loop_domain::Domain;
use loop_eval::case::{Case, CaseError, find};
use loop_eval::redteam::{Attack, Kind, OwnWork, Scenario, attack, page};
use loop_tools::files;

use crate::args::{DomainArgs, ReportArgs};
use crate::context::{places, places::ReportFile};
use crate::output::Failure;

/// Folders in a domain that do not contain work items.
const NO_ITEMS: [&str; 4] = ["evals", "scripts", "sops", "prompts"];

pub(crate) async fn redteam(args: RedteamArgs) -> Result<ExitCode, Failure> {
    let kind = args.kind.as_deref().map(kind_of).transpose()?;
    let scenario = args.scenario.as_deref().map(scenario_of).transpose()?;
    let loaded = places::load(&args.domain)?;
    let work = work(&loaded, &args)?;
    let html = ReportFile::open("--html", args.html.as_deref())?;
    let attacked = Attack {
        seed: args.seed,
        random_runs: args.runs,
        kind,
        scenario,
        each: args.each,
        unguarded: args.unguarded,
        live: args.live,
        adaptive: args.adaptive,
        case: args.case.clone(),
    };
    let report = attack(&loaded, &work, &attacked).await.map_err(|error| Failure::new(error.to_string()))?;
    if let Some(case) = args.case.filter(|_| report.case.is_empty()) {
        return Err(Failure::new(format!(
            "--case {case}: no such case was played; name one as the report does, such as change-0-00 or \
             one_run/change-0-00/obedient/absent, with the same --seed, --each and --adaptive"
        )));
    }
    args.json.print(&report, || report.table())?;
    if let Some(file) = html {
        file.write(&page(&report))?;
    }
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn kind_of(name: &str) -> Result<Kind, Failure> {
    Kind::all().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Kind::all().map(Kind::name).collect();
        Failure::new(format!("--kind {name}: unknown kind; the kinds are {}", known.join(", ")))
    })
}

fn scenario_of(name: &str) -> Result<Scenario, Failure> {
    Scenario::ALL.into_iter().find(|scenario| scenario.name() == name).ok_or_else(|| {
        let known = Scenario::ALL.map(Scenario::name).join(", ");
        Failure::new(format!("--scenario {name}: unknown scenario; the scenarios are {known}"))
    })
}

/// The domain's own work: as named, or else the cases of its evals that are own work, and the files in folders next to
/// `loopgate.toml`.
fn work(domain: &Domain, args: &RedteamArgs) -> Result<Vec<OwnWork>, Failure> {
    let named = !args.items.is_empty();
    let paths = if named { args.items.clone() } else { found(domain) };
    let mut work = if named { Vec::new() } else { cases(domain)? };
    for path in paths {
        let shown = path.display().to_string();
        let text = files::text(&path, files::MAX_BYTES)
            .map_err(|error| Failure::new(format!("{shown}: {error}; name a file with a work item")))?;
        match domain.item(&text, &shown) {
            Ok(item) => work.push(OwnWork::of_item(domain, item)),
            // A file beside it may be something else.
            Err(error) if named => return Err(Failure::new(error.to_string())),
            Err(_) => {}
        }
    }
    Ok(work)
}

/// The cases of the domain's evals that are its own work.
fn cases(domain: &Domain) -> Result<Vec<OwnWork>, Failure> {
    let evals = domain.folder().join("evals");
    if !evals.is_dir() {
        return Ok(Vec::new());
    }
    // Where the folder holds no case, the items serve.
    let files = match find(&evals) {
        Err(CaseError::None { .. }) => Vec::new(),
        found => found?,
    };
    let mut work = Vec::new();
    for file in files {
        let case = Case::read(&file)?;
        if case.own_work {
            work.push(OwnWork::of_case(domain, &case)?);
        }
    }
    Ok(work)
}

fn found(domain: &Domain) -> Vec<PathBuf> {
    let searched: Vec<PathBuf> = domain.searched_folders().collect();
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
        all.sort();
        all
    };
    let holds_items = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_dir() && !name.starts_with('.') && !NO_ITEMS.contains(&name) && !searched.contains(path)
    };
    let is_item = |path: &PathBuf| {
        path.is_file()
            && path
                .extension()
                .is_some_and(|extension| ["json", "md", "txt"].iter().any(|known| extension == *known))
    };
    let folders = entries(domain.folder()).into_iter().filter(holds_items);
    folders.flat_map(|folder| entries(&folder).into_iter().filter(is_item).collect::<Vec<_>>()).collect()
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every guard worked, 1 one did not or the domain could not be attacked, 2 wrong usage."
)]
pub(crate) struct RedteamArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The domain's own work, to measure what the guards block [default: its evals with `own_work`, and the files in
    /// the folders next to its loopgate.toml]
    #[arg(long = "item", value_name = "FILE")]
    pub(crate) items: Vec<PathBuf>,
    /// Use only texts of this kind: send_out, change, delete, pay, rights, exec, verdict, citation, lie, loop, spend,
    /// reveal, refusal or escalation
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Run only this scenario: one_run, later_call (a tool turns hostile on its second call), store (tools return what
    /// they were called with), turns, store_turns (the same over the turns of a conversation), crash (the run is
    /// stopped and resumed), waiting (false approvals), padding (forged blocks behind long padding), plan (calls beside a
    /// plan), fields (values beside trusted fields) or adaptive (the search of --adaptive)
    #[arg(long, value_name = "SCENARIO")]
    pub(crate) scenario: Option<String>,
    /// Maximum number of texts of each kind; scenarios other than one_run and padding use one of each kind
    #[arg(long, value_name = "N")]
    pub(crate) each: Option<usize>,
    /// Number of runs of the random adversary, in the scenario one_run
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub(crate) runs: u32,
    /// Seed for the adversaries' random choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Search with N tries for a call that comes near to running: over plans, places, orders, split values and the
    /// sources of arguments
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) adaptive: u32,
    /// Show one case whole: what was injected and where, what the model called, what policy said. An id of the report
    #[arg(long, value_name = "ID")]
    pub(crate) case: Option<String>,
    /// Disable the guards, to show what a fooled model would do with these tools
    #[arg(long)]
    pub(crate) unguarded: bool,
    /// Let the domain's own work call models over the network, which may cost money
    #[arg(long)]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    /// Write the report as a page: one static file without scripts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
