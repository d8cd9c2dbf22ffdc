//! Opens what arguments name: domains, work items, journals, files.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::WorkItem;
use loop_domain::review::McpServers;
use loop_domain::{Domain, DomainError, DomainReport, LoadOptions};
use loop_runtime::journal::{StoredJournal, SyncPolicy};
use loop_tools::files;

use crate::args::{DomainArgs, JournalArgs, SettingArgs, WrittenArgs, environment, setting, tiered};
use crate::output::{Failure, panics, stream};

/// Reads and checks a domain.
pub(crate) fn load(args: &DomainArgs) -> Result<Domain, Failure> {
    load_with(args, None, cwd()?)
}

/// Prints how many model exchanges were recorded to `record`, if recording was on.
pub(crate) fn finish_recording(domain: &Domain, record: Option<&Path>) {
    match (domain.finish_recording(), record) {
        (Ok(Some(exchanges)), Some(path)) => {
            stream::note(format!("recorded: {exchanges} exchanges in {}", path.display()));
        }
        (Ok(_), _) => {}
        (Err(error), _) => stream::note(format!("recorded: no: {error}")),
    }
}

/// The working directory.
pub(crate) fn cwd() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::new(format!("the current folder: {error}")))
}

/// Checks a domain with the selected profile, or with each profile.
pub(crate) fn check(args: &DomainArgs) -> Result<DomainReport, Failure> {
    say_not_preferred(args);
    Domain::check(&args.domain, &options(args, None, cwd()?)?).map_err(|error| named(args, error))
}

/// Reads the MCP servers of a domain, and nothing else of it.
pub(crate) fn servers(args: &DomainArgs) -> Result<McpServers, Failure> {
    McpServers::load(&args.domain, &options(args, None, cwd()?)?).map_err(|error| named(args, error))
}

fn say_not_preferred(args: &DomainArgs) {
    args.not_preferred().iter().for_each(|why| stream::note(format!("warning: {why}")));
}

/// The error of a domain, with the source of its name if no command names it.
fn named(args: &DomainArgs, error: DomainError) -> Failure {
    let is_missing = matches!(error, DomainError::Missing { .. } | DomainError::NotADomain { .. });
    match environment::setting("domain").filter(|it| is_missing && Path::new(&it.value) == args.domain) {
        Some(setting) => Failure::new(format!("{}: `domain`: {error}", setting.origin)),
        None => error.into(),
    }
}

/// Loads a domain as from the folder `cwd`, and records its model exchanges to `record`.
pub(crate) fn load_with(args: &DomainArgs, record: Option<&Path>, cwd: PathBuf) -> Result<Domain, Failure> {
    say_not_preferred(args);
    let domain =
        Domain::load(&args.domain, &options(args, record, cwd)?).map_err(|error| named(args, error))?;
    panics::add(domain.secrets());
    // A level that is not lowered because it was not measured is said where it matters.
    for warning in domain.uncalibrated() {
        stream::note(format!("warning: {warning}"));
    }
    Ok(domain)
}

/// The load options in these arguments.
pub(crate) fn options(
    args: &DomainArgs,
    record: Option<&Path>,
    cwd: PathBuf,
) -> Result<LoadOptions, Failure> {
    let SettingArgs { profile, models, base_urls, set, .. } = &args.settings;
    let user_model = args.user_model().cloned();
    let mut options = LoadOptions { profile: profile.clone(), user_model, cwd, ..LoadOptions::default() };
    options.record = record.map(Path::to_owned);
    options.prices = prices();
    for text in set {
        options.set.push(setting(text)?);
    }
    for text in models {
        options.models.push(tiered::model(text)?);
    }
    for text in base_urls {
        options.base_urls.push(tiered::base_url(text)?);
    }
    Ok(options)
}

/// The user's price file, from the environment.
pub(crate) fn prices() -> Option<PathBuf> {
    std::env::var_os("LOOPGATE_PRICES").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The path that means standard input: `-`.
const STANDARD_INPUT: &str = "-";

/// The first bytes of a file or of standard input, at most `max`.
pub(crate) fn beginning(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new(STANDARD_INPUT) {
        std::io::stdin().take(max).read_to_end(&mut bytes)?;
    } else {
        files::open(path)?.take(max).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Reads the work item from a file, or from standard input for `-`.
pub(crate) fn item(domain: &Domain, path: &Path) -> Result<WorkItem, Failure> {
    let origin = path.display().to_string();
    if path.is_dir() {
        return Err(Failure::new(format!(
            "{origin}: a folder; name the files in it, for example {}/*.json",
            origin.trim_end_matches('/')
        )));
    }
    // One byte beyond the limit is enough to refuse it.
    let max = domain.item_bytes_max().saturating_add(1);
    let (shown, advice) = if path == Path::new(STANDARD_INPUT) {
        ("standard input", "give the work item as UTF-8 text")
    } else {
        (&*origin, "give a JSON or Markdown file, or `-`")
    };
    let bytes = beginning(path, max).map_err(|error| Failure::new(format!("{shown}: {error}; {advice}")))?;
    let is_cut = bytes.len() as u64 == max;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // What is too long is refused for its length, wherever it was cut.
        Err(error) if is_cut => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        Err(error) => return Err(Failure::new(format!("{shown}: {}; {advice}", files::no_text(&error)))),
    };
    let item = domain.item(&text, &origin)?;
    let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    // Any other file may be a text.
    if is_json && !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Err(Failure::new(format!(
            "{origin}: not a JSON object; put one item on each line of a .jsonl file, or give a text as .md"
        )));
    }
    Ok(item)
}

/// The work item in a text or in a file.
pub(crate) fn item_or_text(
    domain: &Domain,
    path: Option<&Path>,
    text: Option<&str>,
) -> Result<WorkItem, Failure> {
    match (text, path) {
        (Some(text), _) => Ok(domain.item(text, "--text")?),
        (None, Some(path)) => item(domain, path),
        (None, None) => Err(Failure::new("no work item is given; name a file, or give --text")),
    }
}

/// Opens the journal for writing, with this sync policy.
pub(crate) fn journal(args: &JournalArgs, sync: SyncPolicy) -> Result<Arc<StoredJournal>, Failure> {
    let path = args.path();
    Ok(Arc::new(StoredJournal::open(path)?.with_sync(sync)))
}

impl WrittenArgs {
    /// Opens the journal for runs of this domain.
    pub(crate) fn open(&self, domain: &Domain) -> Result<Arc<StoredJournal>, Failure> {
        journal(&self.journal, domain.sync)
    }
}

/// Opens the journal for reading. It must exist.
pub(crate) fn existing_journal(args: &JournalArgs) -> Result<Arc<StoredJournal>, Failure> {
    let path = args.path();
    expect_not_empty(&path)?;
    Ok(Arc::new(StoredJournal::open_existing(path)?))
}

/// Fails for an empty file. SQLite would create tables in it, and a command that only reads must not change a file.
pub(crate) fn expect_not_empty(path: &Path) -> Result<(), Failure> {
    // While a log is next to it, the tables may be there.
    let mut log = path.to_owned().into_os_string();
    log.push("-wal");
    let is_empty = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
    if is_empty && !Path::new(&log).exists() {
        let path = path.display();
        return Err(Failure::new(format!(
            "{path}: empty, so not a journal; name another file with --journal"
        )));
    }
    Ok(())
}

/// The cache folder, for results of evals.
pub(crate) fn cache() -> Result<PathBuf, Failure> {
    // A relative path counts as none, as the XDG specification says.
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = given.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let missing =
        || Failure::new("there is no folder for stored results: set XDG_CACHE_HOME, or give --cache FOLDER");
    Ok(folder.ok_or_else(missing)?.join("loopgate/evals"))
}

/// Opens an output file before the work, so that an error is found before anything is run and paid for. Only its owner
/// can read it.
pub(crate) fn opened(option: &str, path: &Path) -> Result<File, Failure> {
    private(OpenOptions::new().write(true).create(true).truncate(false)).open(path).map_err(|error| {
        Failure::new(format!("{option} {}: {error}; name a file in a folder that is there", path.display()))
    })
}

/// Makes a new file readable by its owner only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Fails if two options name the same file.
pub(crate) fn expect_two_files(
    (option, path): (&str, Option<&Path>),
    (other_option, other): (&str, Option<&Path>),
) -> Result<(), Failure> {
    let (Some(path), Some(other)) = (path, other) else { return Ok(()) };
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        path.canonicalize()
            .unwrap_or_else(|_| path.file_name().map_or(folder.clone(), |name| folder.join(name)))
    };
    // A device such as /dev/null takes both.
    let is_device = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    if is_device || place(path) != place(other) {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::new(format!("{option} and {other_option} name one file, {path}; name two")))
}

/// The output file of a report. It is opened before the report is made, and left unchanged without one.
pub(crate) struct ReportFile<'a> {
    option: &'static str,
    path: &'a Path,
    /// Whether to remove it without a report, since it was created here.
    is_new: bool,
}

impl<'a> ReportFile<'a> {
    /// Opens the file in an option. `None`: there is none.
    pub(crate) fn open(option: &'static str, path: Option<&'a Path>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let is_new = !path.exists();
        opened(option, path).map(|_| Some(Self { option, path, is_new }))
    }

    /// Writes the report, and prints the path.
    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let (option, path) = (self.option, self.path.display());
        std::fs::write(self.path, text).map_err(|error| {
            Failure::new(format!("{option} {path}: {error}; make room or name another file"))
        })?;
        self.is_new = false;
        stream::note(format!("wrote {path}"));
        Ok(())
    }
}

impl Drop for ReportFile<'_> {
    fn drop(&mut self) {
        if self.is_new {
            _ = std::fs::remove_file(self.path);
        }
    }
}

/// Prints notes on the prices of a new run's models.
pub(crate) fn say_prices(domain: &Domain) {
    domain.price_notes().iter().for_each(|note| stream::note(format!("price:   {note}")));
    if let Some(unpriced) = domain.unpriced("the cost of the run will be unknown", "") {
        stream::note(format!("warning: {unpriced}"));
    }
}
