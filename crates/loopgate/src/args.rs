//! Arguments.

mod shared;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::chat::ChatArgs;
use crate::engine::EngineArgs;

pub(crate) use shared::{
    AgainArgs, DomainArgs, FolderArgs, JournalArgs, JsonArgs, RecordedArgs, ReportArgs, RequestArgs,
    SettingArgs, SyncArgs, WrittenArgs, one_of,
};

/// Bounded AI agent loops: give it a work item; get a document, an answer or a valid value, the exact reason it
/// stopped, and what it cost.
#[derive(Debug, Parser)]
#[command(name = "loopgate", version, about, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// The command line, with the commands of the help in their groups.
    pub(crate) fn grouped() -> clap::Command {
        let command = Self::command();
        let (heading, name) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
        let mut lines = String::new();
        for (group, commands) in GROUPS {
            let _ = writeln!(lines, "{heading}{group}:{heading:#}");
            for of in commands.iter().filter_map(|name| command.find_subcommand(name)) {
                let about = of.get_about().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(lines, "  {name}{:<9}{name:#} {about}", of.get_name());
            }
            lines.push('\n');
        }
        command.help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{lines}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
        ))
    }

    /// What the program was called with.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::grouped().try_get_matches()?)
    }
}

/// The commands by what a person wants.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["init", "doctor", "run", "chat", "resume"]),
    ("Look", &["runs", "show", "why", "diff", "view"]),
    ("Decide", &["pending", "approve", "deny", "answer", "tell", "stop"]),
    ("Check", &["domain", "policy", "plan", "eval", "redteam"]),
    ("History", &["replay", "verify", "backtest", "fork", "retry", "journal"]),
    ("Serve", &["serve", "mcp", "mock", "engine", "tools", "model"]),
];

const EXIT_CODES: &str = "Exit codes of `run`: 0 answered, 3 partial, 4 refused, 5 a person has to continue, 6 failed, \
    7 the outcome of an effect is unknown, 130 stopped by Ctrl-C, 143 stopped by SIGTERM; 1 an error before the run began, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new domain folder, which runs at once
    Init(crate::init::InitArgs),
    /// Say what is missing: keys, prices, servers, places to write
    Doctor(crate::doctor::DoctorArgs),
    /// Run a work item through a domain's loop
    Run(Box<RunArgs>),
    /// Hold a conversation with a domain, turn by turn
    Chat(Box<ChatArgs>),
    /// Resume a run that has not ended, or save the outcome of one that has
    Resume(ResumeArgs),
    /// List the runs in the journal, newest first
    Runs(Box<crate::runs::RunsCommandArgs>),
    /// Show a run from the journal: outcome, reason, actions, cost
    Show(ShowArgs),
    /// Explain why a run stopped, what would have continued it, and how to continue
    Why(WhyArgs),
    /// Compare two runs: settings, decisions, document, evidence, cost, stop
    Diff(DiffArgs),
    /// Look at the runs of a journal in a browser, on this machine
    View(crate::view::ViewArgs),
    /// List the actions and questions that wait for a person
    Pending(PendingArgs),
    /// Approve a waiting action, once, and resume its run
    Approve(ApproveArgs),
    /// Deny a waiting action, and resume its run
    Deny(DenyArgs),
    /// Answer a waiting question, and resume its run
    Answer(AnswerArgs),
    /// Give a run an instruction, which its next pass reads
    Tell(TellArgs),
    /// Stop a run, wherever it is driven on this machine
    Stop(crate::stop::StopArgs),
    /// Check domain folders
    #[command(subcommand)]
    Domain(DomainCommand),
    /// Show what a domain's policy allows its tools to do
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Print what a run may use at most, and which limit can bind first
    Plan(PlanArgs),
    /// Run eval cases and compare the results with expectations
    Eval(Box<EvalArgs>),
    /// Attack a domain with injected texts and with models that obey them
    Redteam(Box<RedteamArgs>),
    /// Replay a recorded run: decisions, prompts and reads; or show it after an entry
    Replay(Box<crate::replay::ReplayArgs>),
    /// Check recorded runs: the chain and its key, each decision, every invariant
    Verify(crate::verify::VerifyArgs),
    /// Find out what recorded runs would have done under other settings
    Backtest(Box<crate::backtest::BacktestArgs>),
    /// Begin a new run that continues from an entry of another one
    Fork(crate::fork::ForkArgs),
    /// Begin a new run of the same work item with the evidence of one that has ended
    Retry(crate::fork::RetryArgs),
    /// Look after the journal: its size, deleting, exporting and importing runs
    #[command(subcommand)]
    Journal(crate::journal::JournalCommand),
    /// Serve domains over HTTP; its tokens, its audit log, and messages of hooks
    Serve(Box<crate::serve::ServeArgs>),
    /// Offer a domain to MCP clients as tools and resources
    Mcp(Box<McpArgs>),
    /// Serve a domain's models with the protocols of OpenAI, Anthropic and Gemini
    Mock(Box<crate::mock::MockArgs>),
    /// Run on a durable engine, Restate: its workers, and the runs that it keeps
    #[command(subcommand)]
    Engine(crate::engine::EngineCommand),
    /// List a domain's tools, or call one
    Tools(ToolsArgs),
    /// List the models whose prices are known, call one, or decode a reply
    #[command(subcommand)]
    Model(ModelCommand),
    /// Print the completions of a shell
    #[command(hide = true)]
    Completions(crate::manual::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(hide = true)]
    Man(crate::manual::ManArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print what each tool may do, and why
    Check(PolicyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PendingArgs {
    /// The run's id, the beginning of one, or `last` [default: every run that waits]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GoOnArgs {
    /// Only journal it, and do not resume the run
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
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

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is checked of who runs this command. If `gate.approvals` is 2, it is refused: two tokens of `loopgate serve` \
                  have to approve."
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// Who approves, in your own words; it is journaled, and shown as unverified
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) claim: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// Reason, which the model reads
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// The answer
    pub(crate) text: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TellArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The instruction
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes of --all: 0 each run ended as answered, waits for a person or is driven by another process; 1 one \
                  could not be resumed or ended otherwise, as its line says; 2 wrong usage; 130 and 143 stopped by a signal.\n\n\
                  With --save a URL gets the same idempotency key as from the run itself, so the receiver drops what it has already. \
                  The run does not change: `show` still says how its own saving ended."
)]
pub(crate) struct ResumeArgs {
    /// The run's id, the beginning of one, or `last`
    #[arg(required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Resume every run of the journal that has not ended, oldest first, with one line each; a run that waits for a
    /// person is left as it is
    #[arg(long, conflicts_with_all = ["run", "json", "no_wait"])]
    pub(crate) all: bool,
    /// Save the outcome of a run that has ended to the domain's save target; `--save=again` also where the run has saved it
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "missing",
          conflicts_with_all = ["all", "json", "no_wait", "base_urls", "sync"])]
    pub(crate) save: Option<SaveWhen>,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

/// Which outcomes are saved that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaveWhen {
    /// One that the run has not saved
    Missing,
    /// Any, also one that the run has saved
    Again,
}

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit codes: 0 all runs ended as expected, 1 some did not or could not be read, 2 wrong usage. With --baseline: 0 \
                  no regression, 1 a regression, or a case could not be run."
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EvalCommand>,
    /// Case files, or folders with case files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Run only cases whose name or file contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Model for a tier in place of the cases' own: selector, base, escalated or fallback; several models of one tier are
    /// alternatives, each a row of the table
    #[arg(long = "model", value_name = "TIER=PROVIDER/NAME", conflicts_with = "list")]
    pub(crate) models: Vec<String>,
    /// URL of a tier's model server
    #[arg(long = "base-url", value_name = "TIER=URL", conflicts_with = "list")]
    pub(crate) base_urls: Vec<String>,
    /// Number of runs of each case with each model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "list")]
    pub(crate) repeat: Option<u16>,
    /// An earlier `eval --json` to compare with: fail where fewer runs pass than there, beyond noise
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write how often the stated confidence of each model was right to this file, for `gate.calibration`; the runs ignore that
    /// setting
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) calibration: Option<PathBuf>,
    /// Folder in which results of runs with --model or --repeat are stored and looked up [default:
    /// $XDG_CACHE_HOME/loopgate/evals]
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    pub(crate) cache: Option<PathBuf>,
    /// Make every run anew, also where its result is stored, and replace that
    #[arg(long, conflicts_with = "list")]
    pub(crate) fresh: bool,
    /// Run recorded cases against their recorded settings and tools, also where they lie in the run's domain
    #[arg(long, conflicts_with = "list")]
    pub(crate) frozen: bool,
    /// Number of runs in parallel [default: twice the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print the cases and what they show, without running them
    #[arg(long, conflicts_with_all = ["json", "junit"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the results as a page: one static file without scripts
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) html: Option<PathBuf>,
    /// Print each case's trace
    #[arg(long, conflicts_with_all = ["json", "list"])]
    pub(crate) trace: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Make a case from a run in the journal; the case passes as recorded
    Record(EvalRecordArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalRecordArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The case file to create; it must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Run the case against the recorded settings and tools, also where it lies in the run's domain
    #[arg(long)]
    pub(crate) frozen: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
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
    /// stopped and resumed), waiting (false approvals) or padding (forged blocks behind long padding)
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

#[derive(Debug, Subcommand)]
pub(crate) enum DomainCommand {
    /// Read and check a domain folder, and print its contents
    Check(crate::domain::CheckArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = BATCH_HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, `-` for standard input, or a `.jsonl` file with one item a line; several
    /// items are a batch
    #[arg(required_unless_present = "text", conflicts_with = "text", value_name = "ITEM")]
    pub(crate) items: Vec<PathBuf>,
    /// The work item as text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// A tag of the run, by which `runs` finds it; repeat the option for several
    #[arg(long = "tag", value_name = "NAME")]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// Print each event and note as a JSON line, instead of the document, the answer or the value
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
    /// Record every exchange with a model to this file; the provider `recorded` plays it back
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Say on standard error why each tool was called before the first pass, or was not
    #[arg(long)]
    pub(crate) explain_picks: bool,
    /// Show live progress on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub(crate) progress: Progress,
    #[command(flatten)]
    pub(crate) many: crate::many::ManyArgs,
}

impl RunArgs {
    /// Whether it is a batch: of several items, or with an option for one.
    pub(crate) fn is_many(&self) -> bool {
        self.items.len() > 1
            || self.many.is_given()
            || self.items.iter().any(|path| crate::many::is_lines(path))
    }
}

const BATCH_HELP: &str = "A batch ends with the highest exit code of its runs. An item that was not started counts as 3, one that \
    could not begin as 6. After Ctrl-C it is 130, after SIGTERM 143.";

#[derive(Debug, clap::Args)]
#[command(after_help = MCP_HELP)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// Serve streamable HTTP at the path `/mcp` of this address instead of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// Environment variable with the bearer token for HTTP; on a loopback address, a random token is printed if it is
    /// not set
    #[arg(long, value_name = "VARIABLE", default_value = "LOOPGATE_MCP_TOKEN", requires = "http")]
    pub(crate) token_env: String,
    /// Host name, or HOST:PORT, that HTTP requests may name besides localhost and the address
    #[arg(long = "allow-host", value_name = "HOST", requires = "http")]
    pub(crate) hosts: Vec<String>,
    /// Origin of web pages that may send HTTP requests, such as `https://app.example.com` [default: none]
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "http")]
    pub(crate) origins: Vec<String>,
    /// Maximum number of runs under way at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) max_runs: u16,
    /// Maximum cost in US dollars of all runs of this process together; each run needs a cost limit then
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<loop_core::types::PicoUsd>,
    #[command(flatten)]
    pub(crate) written: WrittenArgs,
}

const MCP_HELP: &str = "Standard output carries nothing but the protocol. Clients see all runs of this domain in the journal. \
    They cannot approve actions: use `loopgate approve`. The end of standard input, or a signal, stops the runs.\n\n\
    Exit codes: 0 the client has left, 1 the server could not begin, 2 wrong usage, 129, 130 and 143 ended by a signal.";

/// How much of a run's progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// On a terminal each step and a status line; elsewhere a line for each wait, and one every 15 seconds
    Auto,
    /// Each step, on a terminal and elsewhere
    Always,
    /// Nothing
    Never,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) of: RecordedArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// Print each event and note as a JSON line
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
    /// Print, for each model request, what it shared with the one before and what the provider read from its cache
    #[arg(long, conflicts_with_all = ["json", "events"])]
    pub(crate) cache: bool,
    /// Write the run as a page instead of printing it: one file, which loads nothing and can be read without scripts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "events", "cache", "tools"])]
    pub(crate) html: Option<PathBuf>,
    /// Print, for each tool, the number of calls, the number of failures and the time taken
    #[arg(long, conflicts_with_all = ["json", "events", "cache"])]
    pub(crate) tools: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) of: RecordedArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ids, nonces and times never count as a difference.\n\nExit codes: 0 nothing differs, 1 something does, or a \
                  run could not be read, 2 wrong usage."
)]
pub(crate) struct DiffArgs {
    /// The first run: its id, the beginning of one, or `last`
    pub(crate) a: String,
    /// The second run
    pub(crate) b: String,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// The journal of the second run [default: that of the first]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal_b: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, or `-` for standard input [default: any]
    pub(crate) item: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
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

#[derive(Debug, Subcommand)]
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

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Print tools of kind `http` from an OpenAPI document of version 3.0 or 3.1, for your review
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

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// List only models whose PROVIDER/NAME contains this text
    pub(crate) pattern: Option<String>,
    /// List only models of this provider, by its name in a domain or in the table
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
}

#[derive(Debug, Subcommand)]
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
    #[arg(long, value_name = "API", value_parser = crate::model::api)]
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
