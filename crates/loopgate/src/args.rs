//! Arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// AI loops that end by themselves: a work item in; a document, an answer or a valid value, a reason for stopping and a
/// bill out.
#[derive(Debug, Parser)]
#[command(name = "loopgate", version, about, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes of `run`: 0 answered, 3 partial, 4 refused, 5 a person has to go on, 6 failed, \
    7 the outcome of an effect is unknown, 130 stopped by hand, 143 stopped by SIGTERM; 1 an error before the run began, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a work item through a domain's loop
    Run(Box<RunArgs>),
    /// Talk with a domain that is a conversation, turn by turn
    Chat(Box<ChatArgs>),
    /// Show a run from the journal: what it came to, reason, actions, bill
    Show(ShowArgs),
    /// List the runs in the journal, newest first
    Runs(JournalArgs),
    /// List a domain's tools, or call one
    Tools(ToolsArgs),
    /// List the models whose prices are known
    Models(ModelsArgs),
    /// Call a model without a loop, or decode what a provider replied
    #[command(subcommand)]
    Model(ModelCommand),
    /// Serve a domain's models on this machine, by the protocols of OpenAI, Anthropic and Gemini
    Mock(Box<crate::mock::MockArgs>),
    /// Work on domain folders
    #[command(subcommand)]
    Domain(DomainCommand),
    /// What a domain's policy lets its tools do
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List what waits for a person
    Pending(PendingArgs),
    /// Allow an action that waits, once, and go on with its run
    Approve(PersonArgs),
    /// Refuse an action that waits, and go on with its run
    Deny(DenyArgs),
    /// Answer a question that a run asks, and go on with it
    Answer(AnswerArgs),
    /// Tell a run something; its next pass reads it
    Tell(TellArgs),
    /// Go on with a run that is not over
    Resume(ResumeArgs),
    /// Run cases, and hold what happens against what they expect
    Eval(Box<EvalArgs>),
    /// Score policies of repeats over recorded trajectories
    #[command(subcommand)]
    Guard(GuardCommand),
    /// Attack a domain with injected texts and models that follow them
    Redteam(Box<RedteamArgs>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print each tool, what may happen with it, and why
    Check(PolicyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PendingArgs {
    /// The run's id, the beginning of one, or `last` [default: every run that waits]
    pub(crate) run: Option<String>,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GoOnArgs {
    /// Leave the run where it is, with this in its journal
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print the outcome as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The run's domain folder, or its loopgate.toml [default: where it was when the run began]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) domain: Option<PathBuf>,
    /// Where the server of a tier's model is, where the run was begun with an address that holds a credential
    #[arg(long = "base-url", value_name = "TIER=URL")]
    pub(crate) base_urls: Vec<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

impl GoOnArgs {
    /// The option that names the journal again in a command that is printed.
    pub(crate) fn at(&self) -> String {
        crate::places::at(self.journal.journal.as_deref())
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct PersonArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The action's key, for example 2/action-0, or its id
    pub(crate) action: String,
    /// Only if the action is still the one that was shown: what `pending` prints beside it
    #[arg(long, value_name = "DIGITS")]
    pub(crate) binding: Option<String>,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) person: PersonArgs,
    /// Why, for the model
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
    /// What it is told
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes of --all: 0 each run ended as answered, waits for a person or is driven by another process; 1 one \
                  could not be resumed or ended otherwise, as its line says; 2 wrong usage; 130 and 143 stopped by a signal."
)]
pub(crate) struct ResumeArgs {
    /// The run's id, the beginning of one, or `last`
    #[arg(required_unless_present = "all")]
    pub(crate) run: Option<String>,
    /// Every run of the journal that is not over, one after another, the oldest first: a line each; one that waits for a
    /// person stays as it is
    #[arg(long, conflicts_with_all = ["run", "json", "no_wait"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) go_on: GoOnArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit codes: 0 all cases ended as expected, 1 some did not or could not be read, 2 wrong usage."
)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EvalCommand>,
    /// Case files, or folders that hold some
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Only the cases whose names or files hold this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// How many cases run at a time [default: twice the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print the cases and what they show, and run none
    #[arg(long, conflicts_with_all = ["json", "junit", "ablate"])]
    pub(crate) list: bool,
    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the results to this file as JUnit's XML
    #[arg(long, value_name = "FILE", conflicts_with = "ablate")]
    pub(crate) junit: Option<PathBuf>,
    /// Run the cases with one guard less each time, and print what each guard did
    #[arg(long)]
    pub(crate) ablate: bool,
    /// Print each case's trace
    #[arg(long, conflicts_with_all = ["json", "ablate", "list"])]
    pub(crate) trace: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Make a case of a run in the journal: it runs again as it ran, and passes at once
    Record(EvalRecordArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EvalRecordArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// The case's file; it must not be there yet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GuardCommand {
    /// Run policies over recorded trajectories, turn by turn, and print what each would have refused
    Score(GuardArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Recorded runs, one JSON object a line
    #[arg(required = true, value_name = "FILE.jsonl")]
    pub(crate) files: Vec<PathBuf>,
    /// A policy: progress, three_tier, three_tier_literal, never_rerun, reuse, off, cycles5, openhands, consecutive,
    /// consecutive:N or last3; several are a row each [default: a table of them]
    #[arg(long = "policy", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    pub(crate) policies: Vec<loop_eval::guard::Policy>,
    /// Only the runs of this half of a labelled set: dev or held_out
    #[arg(long, value_name = "HALF")]
    pub(crate) split: Option<loop_eval::guard::Split>,
    /// What the tools do, where the runs do not say: a JSON object from tools to read, write, egress or exec
    #[arg(long, value_name = "FILE")]
    pub(crate) effects: Option<PathBuf>,
    /// Print each run that is hit, and each labelled loop that is missed
    #[arg(long)]
    pub(crate) details: bool,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every guard held, 1 one did not or it could not be attacked, 2 wrong usage."
)]
pub(crate) struct RedteamArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The domain's own work, to see what the guards hold up [default: its evals that are marked so, and the files in the
    /// folders beside its file]
    #[arg(long = "item", value_name = "FILE")]
    pub(crate) items: Vec<PathBuf>,
    /// Only texts of this kind: send_out, change, delete, pay, rights, exec, verdict, citation, lie, loop, spend, reveal,
    /// refusal or escalation
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only this scenario: one_run, later_call (a tool turns hostile on its second call), store (tools return what they were
    /// called with), turns, store_turns (the same over the turns of a conversation), crash (the run is stopped and resumed),
    /// waiting (false approvals) or padding (forged blocks behind long padding)
    #[arg(long, value_name = "SCENARIO")]
    pub(crate) scenario: Option<String>,
    /// At most so many texts of each kind; scenarios other than one_run and padding have one of each kind at most
    #[arg(long, value_name = "N")]
    pub(crate) each: Option<usize>,
    /// Runs of the adversary that acts at random, in the scenario one_run
    #[arg(long, default_value_t = 300, value_name = "N")]
    pub(crate) runs: u32,
    /// Which numbers the adversaries draw
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Take the guards away: shows what a fooled model would do with these tools
    #[arg(long)]
    pub(crate) unguarded: bool,
    /// Let its own work ask models over the network, which may cost money
    #[arg(long)]
    pub(crate) live: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DomainCommand {
    /// Read a domain folder, check it, and say what it holds
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    /// The work item: a JSON or Markdown file, or `-` for standard input
    #[arg(required_unless_present = "text", conflicts_with = "text")]
    pub(crate) item: Option<PathBuf>,
    /// The work item itself
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Your own id for this run, for example that of a request; without it the run's id
    #[arg(long, value_name = "ID")]
    pub(crate) trace: Option<String>,
    /// Who asks for the run; it stands in the journal and in the outcome
    #[arg(long, value_name = "NAME")]
    pub(crate) caller: Option<String>,
    /// Print the outcome as one JSON object instead of the document, the answer or the value
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,
    /// Print each event and note as a JSON line instead of the document, the answer or the value
    #[arg(long)]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Do not save the outcome where the domain says
    #[arg(long)]
    pub(crate) no_save: bool,
    /// Write every exchange with a model to this file, to be played back by the provider `recorded`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Show what happens while it happens, on standard error
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN")]
    pub(crate) progress: Progress,
}

#[derive(Debug, clap::Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
    /// Write every exchange with a model to this file, to be played back by the provider `recorded`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

const CHAT_HELP: &str = "Each line is a turn, and a run in the journal. Answers go to standard output, everything else to \
    standard error. Ctrl-C stops a turn; a second one, Ctrl-D or /quit ends the chat. What changes something and is not \
    approved by the domain is asked about.\n\nExit codes: 0 the chat ended, 1 it could not begin or a piped line is too long, \
    2 wrong usage, 5 a turn waits for a person, 7 a turn left an effect whose outcome is unknown, 129, 130 and 143 ended by a \
    signal.";

/// When the live view is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DomainArgs {
    /// The domain folder, or its loopgate.toml
    pub(crate) domain: PathBuf,
    /// A profile of the domain
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use another model for a tier: picker, base, escalated or fallback
    #[arg(long = "model", value_name = "TIER=PROVIDER/NAME")]
    pub(crate) models: Vec<String>,
    /// Where the server of a tier's model is, for a provider with a server
    #[arg(long = "base-url", value_name = "TIER=URL")]
    pub(crate) base_urls: Vec<String>,
    /// Change a setting of the domain, for example limits.max_passes=3
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JournalArgs {
    /// The journal [default: $XDG_STATE_HOME/loopgate/journal.db]
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The run's id, the beginning of one, or `last`
    pub(crate) run: String,
    /// Print the outcome as one JSON object
    #[arg(long, conflicts_with = "events")]
    pub(crate) json: bool,
    /// Print each event and note as a JSON line
    #[arg(long)]
    pub(crate) events: bool,
    /// Print, for each request to a model, what it shared with the one before and what was read from the provider's cache
    #[arg(long, conflicts_with_all = ["json", "events"])]
    pub(crate) cache: bool,
    /// Print, for each tool, how often it was called, how often it failed and how long it took
    #[arg(long, conflicts_with_all = ["json", "events", "cache"])]
    pub(crate) tools: bool,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = false)]
pub(crate) struct ToolsArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ToolsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Call a tool as a run would, and print what a model would see
    Call(CallArgs),
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
    /// A part of the scope: account, account_name, asset, item or person
    #[arg(long = "scope", value_name = "KEY=VALUE")]
    pub(crate) scope: Vec<String>,
    /// Print the whole observation as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// Only those whose provider and name, written as PROVIDER/NAME, hold this text
    pub(crate) pattern: Option<String>,
    /// Only those of this provider, by its name in a domain or in the table
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Print them as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Send one neutral request, once, and print the neutral reply as JSON
    Call(Box<ModelCallArgs>),
    /// Decode the bytes of a provider's reply without a network, and print the neutral reply as JSON
    Decode(ModelDecodeArgs),
    /// List the models whose prices are known, like `loopgate models`
    Models(ModelsArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 a reply, 6 the call failed (the JSON says how), 1 it could not be made, 2 wrong usage."
)]
pub(crate) struct ModelCallArgs {
    /// The provider: offline, openai, openai-responses, openai-chat, azure, azure-responses, anthropic, gemini, groq,
    /// mistral, deepseek, openrouter, xai, xai-chat, vllm, ollama, lm-studio, llama-cpp or compatible
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: String,
    /// The model's name there [default: the one in the request]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Where the server is [default: the provider's own]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds the key [default: the provider's own]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) api_key_env: Option<String>,
    /// The model that it is, where the server has a name of its own for it
    #[arg(long, value_name = "NAME")]
    pub(crate) base_model: Option<String>,
    /// A domain whose `[providers]` are known as well
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
    after_help = "Exit codes: 0 a reply, 6 the bytes tell of a failure (the JSON says of which), 1 they could not be \
    read, 2 wrong usage."
)]
pub(crate) struct ModelDecodeArgs {
    /// The protocol: openai-chat, openai-responses, anthropic or gemini
    #[arg(long, value_name = "API", value_parser = crate::model::api)]
    pub(crate) api: loop_llm::Api,
    /// The provider whose ways of speaking it are meant [default: the protocol's inventor]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The bytes are a stream of events; without it that is seen by itself
    #[arg(long)]
    pub(crate) stream: bool,
    /// The status of the response: of one that is not 2xx the error is told
    #[arg(long, default_value_t = 200, value_name = "CODE", value_parser = clap::value_parser!(u16).range(200..600))]
    pub(crate) status: u16,
    /// Print each event as a JSON line, and the reply as the last
    #[arg(long)]
    pub(crate) events: bool,
    /// The recorded body, or `-` for standard input
    pub(crate) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) domain: DomainArgs,
}
