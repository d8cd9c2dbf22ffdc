//! Arguments that several commands share.

pub(crate) mod environment;
pub(crate) mod examples;
mod named;
mod shared;
pub(crate) mod tiered;
mod usage;
mod when;

pub(crate) use examples::with_examples;
pub(crate) use named::{name_of, tags, traceparent};
pub(crate) use shared::{behind_the_command, explained_once};
pub(crate) use usage::{advised, domain_named, with_commands};
pub(crate) use when::{FilterArgs, When, age};

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use loop_core::WorkItem;
use loop_domain::UserModel;
use loop_runtime::journal::StoredJournal;
use loop_runtime::report::EvidenceDetail;
use serde::Serialize;

use crate::output::{Failure, at_journal, stream};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DomainArgs {
    /// The domain folder, or its loopgate.toml
    pub(crate) domain: PathBuf,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

#[cfg(feature = "server")]
impl DomainArgs {
    /// The same, with these settings in addition.
    pub(crate) fn with_set(&self, settings: &[(String, String)]) -> Self {
        let mut with = self.clone();
        with.settings.set.extend(settings.iter().map(|(key, value)| format!("{key}={value}")));
        with
    }
}

/// The folder of a run's domain, where it is another one than when the run began.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FolderArgs {
    /// The run's domain folder, or its loopgate.toml [default: where it was when the run began]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) domain: Option<PathBuf>,
}

/// What a request says of itself, and of who makes it.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Your own trace id, for example of a request [default: the run's id]
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// The span in which you request the run, as the header of the W3C [default: the variable TRACEPARENT]
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
    /// Who requests the run; stored in the journal and in the outcome
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// Your own key of this request: there is one run of it, and a second request attaches to that run
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl RequestArgs {
    /// The item with the request's trace, span and caller.
    pub(crate) fn on(&self, item: WorkItem) -> Result<WorkItem, Failure> {
        Ok(WorkItem {
            caller: name_of("--caller", self.caller.as_deref())?,
            trace: name_of("--trace", self.trace.as_deref())?,
            traceparent: traceparent(self.traceparent.as_deref())?,
            ..item
        })
    }

    /// The key, where one is given.
    pub(crate) fn key(&self) -> Result<Option<Arc<str>>, Failure> {
        name_of("--key", self.key.as_deref())
    }

    /// Whether a key is given.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Whether a trace id is given.
    pub(crate) fn has_trace(&self) -> bool {
        self.trace.is_some()
    }
}

/// Parses one of these values. Each has a name and a help text.
pub(crate) fn one_of<T, const N: usize>(
    values: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let named = values.each_ref().map(|(name, help, _)| {
        let value = PossibleValue::new(*name);
        if help.is_empty() { value } else { value.help(*help) }
    });
    PossibleValuesParser::new(named).try_map(move |name| {
        let found = values.iter().find(|(known, ..)| *known == name);
        found.map(|(.., value)| *value).ok_or("it is not among the values")
    })
}

/// Parses `ADDRESS:PORT`. A port alone means the loopback address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    match port.strip_prefix(':').unwrap_or(port).parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map_err(|_| "expected ADDRESS:PORT, for example 127.0.0.1:8080"),
    }
}

/// Parses `KEY=VALUE` of `--set`.
pub(crate) fn setting(text: &str) -> Result<(String, String), Failure> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Failure::new(format!("--set {text}: expected KEY=VALUE, for example limits.passes=3")));
    };
    let is_key =
        |key: &str| key.contains('.') && key.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    let another = value.split(',').skip(1).filter_map(|it| it.split_once('=')).find(|(key, _)| is_key(key));
    match another.filter(|_| !value.contains(['"', '\'', '[', '{', ' '])) {
        Some((other, _)) => Err(Failure::new(format!(
            "--set {key}: it holds `{other}` as well; give each setting its own: --set {key}=… --set {other}=…"
        ))),
        None => Ok((key.trim().to_owned(), value.to_owned())),
    }
}

/// Whether a report is printed as JSON or in words.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl ReportArgs {
    /// How much of an outcome's evidence is printed. `None`: the output is not JSON.
    pub(crate) fn detail(self) -> Option<EvidenceDetail> {
        self.json.then_some(EvidenceDetail::Full)
    }

    /// Prints a report.
    pub(crate) fn print(
        self,
        report: &impl Serialize,
        words: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return Ok(stream::print_report(report)?);
        }
        stream::print(&words());
        Ok(())
    }
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JournalArgs {
    /// The journal: a file, or the URL of a PostgreSQL database [default: $XDG_STATE_HOME/loopgate/journal.db]
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) journal: Option<PathBuf>,
}

impl JournalArgs {
    /// The path of the journal: from the option, or the user's default.
    pub(crate) fn path(&self) -> PathBuf {
        self.journal
            .clone()
            .or_else(|| environment::path("journal"))
            .unwrap_or_else(StoredJournal::default_path)
    }
}

/// A run of a journal, to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordedArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

/// How runs are written, and whether their outcomes are saved.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WrittenArgs {
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Do not save outcomes to the save target of the domain
    #[arg(long)]
    no_save: bool,
}

impl WrittenArgs {
    /// Whether outcomes are saved.
    pub(crate) fn saves(&self) -> bool {
        !self.no_save
    }

    /// The same for a run whose outcome is saved.
    pub(crate) fn to(journal: JournalArgs) -> Self {
        Self { journal, no_save: false }
    }
}

/// Whether the outcome is printed as JSON, and with how much of its evidence.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct JsonArgs {
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// How much of each tool result the JSON holds: `full` adds its data and what the model read
    #[arg(long, requires = "json", value_parser = one_of(DETAILS), default_value = "full", value_name = "DETAIL")]
    evidence: EvidenceDetail,
}

pub(crate) const DETAILS: [(&str, &str, EvidenceDetail); 3] = [
    ("full", "", EvidenceDetail::Full),
    ("summary", "", EvidenceDetail::Summary),
    ("none", "", EvidenceDetail::Omitted),
];

impl JsonArgs {
    /// How much of the evidence is printed. `None`: the output is not JSON.
    pub(crate) fn detail(self) -> Option<EvidenceDetail> {
        self.json.then_some(self.evidence)
    }
}

/// From what the loop of a run is put together again, and where the run is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgainArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    /// URL of a tier's model server; again for a run that was started with one that holds a credential
    #[arg(long = "base-url", value_name = "[TIER=]URL")]
    pub(crate) base_urls: Vec<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

impl AgainArgs {
    /// How a server resumes the runs in its journal.
    #[cfg(any(feature = "mcp-server", feature = "server"))]
    pub(crate) fn of_server(written: &WrittenArgs) -> Self {
        let journal = written.journal.clone();
        Self { folder: FolderArgs::default(), base_urls: Vec::new(), journal }
    }

    /// The settings that replace those with which the run began.
    pub(crate) fn settings(&self) -> SettingArgs {
        SettingArgs { base_urls: self.base_urls.clone(), ..SettingArgs::default() }
    }

    /// The option `--journal` for a command that is printed.
    pub(crate) fn at(&self) -> String {
        at_journal(self.journal.journal.as_deref())
    }
}

/// What differs from the settings of a domain, or from those of the run before.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingArgs {
    /// Profile of the domain to use
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Model of the base tier, or of the tier that is named: selector, base, escalated or fallback
    #[arg(short = 'm', long = "model", value_name = "[TIER=]PROVIDER/NAME")]
    pub(crate) models: Vec<String>,
    /// URL of a tier's model server; again for a run that was started with one that holds a credential
    #[arg(long = "base-url", value_name = "[TIER=]URL")]
    pub(crate) base_urls: Vec<String>,
    /// The model that the user prefers for runs that begin. `None`: none, or what these settings are for has begun.
    #[arg(skip = environment::model())]
    pub(crate) user: Option<UserModel>,
    /// Change a setting of the domain, for example limits.passes=3
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl DomainArgs {
    /// The user's default model, if no option sets the model of its tier and the domain knows its provider.
    pub(crate) fn user_model(&self) -> Option<&UserModel> {
        self.preferred().filter(|user| user.not_in(&self.domain, self.settings.profile.as_deref()).is_none())
    }

    /// A line that says that the domain does not use the user's default model.
    pub(crate) fn not_preferred(&self) -> Option<String> {
        self.preferred()?.not_in(&self.domain, self.settings.profile.as_deref())
    }

    fn preferred(&self) -> Option<&UserModel> {
        let SettingArgs { models, user, .. } = &self.settings;
        let given = |tier| models.iter().any(|text| tiered::model(text).is_ok_and(|(of, _)| of == tier));
        user.as_ref().filter(|user| !given(user.tier))
    }
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GoOnArgs {
    /// Only journal it, and do not resume the run
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) again: AgainArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PersonArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The action's key, for example 2/action-0, or its id
    pub(crate) action: String,
    /// Refuse unless the action still has this binding, which `pending` prints
    #[arg(long, value_name = "DIGITS")]
    pub(crate) binding: Option<String>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

/// How much of a run's progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Progress {
    /// On a terminal each step and a status line; elsewhere a line for each wait, and one every 15 seconds
    Auto,
    /// Each step, on a terminal and elsewhere
    Always,
    /// Nothing
    Never,
}

/// Where a run is, if a durable engine has it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// URL of the ingress of the durable engine that has the run, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub(crate) ingress: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct IngressArgs {
    /// URL of the engine's ingress, for example http://127.0.0.1:8080
    #[arg(long = "ingress", value_name = "URL")]
    pub(crate) url: String,
}
