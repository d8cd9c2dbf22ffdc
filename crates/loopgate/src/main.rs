//! The `loopgate` command: runs bounded AI agent loops from domain folders, and shows, replays, checks and serves recorded runs.
//!
//! **What it is not.** It has no logic that a library user would miss: everything but arguments and output is in the `loop-*`
//! crates. To embed loops in a Rust program, use `loop-runtime` or `loop-domain`.
//!
//! ```text
//! loopgate init shop                       # a new domain folder
//! loopgate run shop shop/items/T-1.json     # a document, the stop reason, the cost
//! loopgate why last                        # what would have continued the run
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`args`] | arguments that several commands share, and their defaults |
//! | [`context`] | from arguments to domains, journals, runs and runners, and signals and telemetry |
//! | [`start`] | `init`, `doctor`, `run`, `chat`, `resume`, `help` |
//! | [`drive`] | drives a run: progress, questions to the person, stops |
//! | [`decide`] | `pending`, `approve`, `deny`, `answer`, `tell`, `stop`, `label` |
//! | [`look`] | `show`, `runs`, `why`, `report`, `diff`, `config`, `view` |
//! | [`history`] | `replay`, `verify`, `backtest`, `fork`, `retry`, `journal` |
//! | [`check`] | `domain`, `policy`, `plan`, `schema`, `eval`, `redteam` |
//! | [`serve`] | `serve`, `mcp`, `mock`, `model`, `tools`, `engine` |
//! | [`shown`] | renders runs for people |
//! | [`output`] | standard output, standard error, the terminal, failures |

mod args;
mod check;
mod context;
mod decide;
mod drive;
mod history;
mod look;
mod output;
mod serve;
mod shown;
mod start;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::CompleteEnv;

use args::environment;
use context::{survive_file_limits, telemetry};
use output::{Failure, panics, screen, stream};

fn main() -> ExitCode {
    panics::mask();
    // A shell asks what completes a line, and it ends with the answer.
    CompleteEnv::with_factory(|| context::completed(Args::grouped())).var(start::COMPLETE).complete();
    let _rows = screen::CloseOnDrop;
    let args = match Args::read() {
        Ok(args) => args,
        Err(answer) => {
            // What the user's file would have said is not known.
            let is_missing = answer.kind() == ErrorKind::MissingRequiredArgument;
            let wrong = environment::settings().err().filter(|_| is_missing);
            return wrong.map_or_else(|| stream::answered(&answer), |wrong| wrong.report());
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new(format!("no threads to run on: {error}")).report(),
    };
    let result = runtime.block_on(async {
        survive_file_limits();
        environment::settings()?;
        let result = match args.command {
            Command::Init(args) => start::init(args),
            Command::Doctor(args) => start::doctor(&args).await,
            Command::Run(run) if run.is_many() => start::many(*run).await,
            Command::Run(run) => start::run(*run).await,
            Command::Chat(chat) => start::chat(*chat).await,
            Command::Config(args) => look::config(&args),
            Command::Show(show) => look::show(show).await,
            Command::Why(args) => look::why(args).await,
            Command::Report(args) => look::report(args).await,
            Command::Replay(args) => history::replay(*args).await,
            Command::Verify(args) => history::verify(args).await,
            Command::Diff(args) => look::diff(args).await,
            Command::Plan(args) => check::plan(&args),
            Command::Schema(args) => check::schema(&args),
            Command::Backtest(args) => history::backtest(*args).await,
            Command::Runs(args) => look::runs(*args).await,
            Command::Journal(command) => history::journal(command).await,
            Command::Tools(tools) => serve::tools(tools).await,
            Command::Model(command) => serve::model(command).await,
            Command::Mcp(args) => serve::mcp(*args).await,
            Command::View(args) => look::view(args).await,
            Command::Serve(args) => serve::serve(*args).await,
            Command::Stop(args) => decide::stop(args).await,
            Command::Engine(command) => serve::engine(command).await,
            Command::Mock(mock) => serve::mock(*mock).await,
            Command::Domain(command) => check::domain(&command),
            Command::Policy(command) => check::policy(&command),
            Command::Pending(args) => decide::pending(args).await,
            Command::Approve(args) => decide::approve(args).await,
            Command::Deny(args) => decide::deny(args).await,
            Command::Answer(args) => decide::answer(args).await,
            Command::Tell(args) => decide::tell(args).await,
            Command::Label(args) => decide::label(args).await,
            Command::Resume(args) => start::resume(args).await,
            Command::Fork(args) => history::fork(args).await,
            Command::Retry(args) => history::retry(args).await,
            Command::Eval(args) => check::eval(*args).await,
            Command::Redteam(args) => check::redteam(*args).await,
            Command::Completions(args) => start::completions(&args),
            Command::Man(args) => start::man(&args, Args::grouped()),
        };
        telemetry::end().await;
        result
    });
    screen::close();
    // What is dropped with the runtime may be dropped too late.
    loop_domain::kill_commands();
    // What a tool left behind in a thread of its own must not hold the exit up.
    runtime.shutdown_background();
    stream::code(result.unwrap_or_else(|failure| failure.report()))
}

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
        args::with_examples(args::explained_once(command), "").help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{lines}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
        ))
    }

    /// What the program was called with.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let is_help = std::env::args_os().nth(1).is_some_and(|word| word == "help");
        let mut command = if is_help { start::topics(Self::grouped()) } else { Self::grouped() };
        let (words, behind) = args::behind_the_command(&command, std::env::args_os());
        let matched = command.try_get_matches_from_mut(&words);
        let names_none = match &matched {
            Ok(matches) => !args::domain_named(&mut command, matches)?,
            Err(error) => error.kind() == ErrorKind::MissingRequiredArgument,
        };
        let domain = environment::path("domain").filter(|_| names_none).map(PathBuf::into_os_string);
        let (before, behind) = words.split_at(behind);
        // What is wrong is said of the words as they were given.
        let again = domain.and_then(|domain| {
            command.try_get_matches_from_mut(before.iter().chain([&domain]).chain(behind)).ok()
        });
        let failed = |error: clap::Error| match error.kind() {
            ErrorKind::InvalidSubcommand if is_help => start::unknown(&command),
            _ => args::with_commands(args::advised(error), &command, &words),
        };
        Self::from_arg_matches(&again.map_or_else(|| matched.map_err(failed), Ok)?)
    }
}

/// The commands by what a person wants.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start", &["init", "doctor", "config", "run", "chat", "resume"]),
    ("Look", &["runs", "show", "why", "report", "diff", "view"]),
    ("Decide", &["pending", "approve", "deny", "answer", "tell", "stop", "label"]),
    ("Check", &["domain", "policy", "plan", "schema", "eval", "redteam"]),
    ("History", &["replay", "verify", "backtest", "fork", "retry", "journal"]),
    ("Serve", &["serve", "mcp", "mock", "engine", "tools", "model"]),
];

const EXIT_CODES: &str = "The options go before a command or after it, and each command's help names those that it has.\n\n\
    `loopgate help TOPIC` explains a stop reason such as max_passes, a class such as partial, a state such as waiting, the environment, and what a domain has.\n\n\
    Exit codes of `run`: 0 answered, 3 partial, 4 refused, 5 a person has to continue, 6 failed, \
    7 the outcome of an effect is unknown, 130 stopped by Ctrl-C, 143 stopped by SIGTERM; 1 an error before the run began, 2 wrong usage.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new domain folder, which runs at once
    Init(start::InitArgs),
    /// Say what is missing: keys, prices, servers, places to write
    Doctor(start::DoctorArgs),
    /// Print the model, journal and domain that are used, and who says so
    Config(look::ConfigArgs),
    /// Run a work item through a domain's loop
    Run(Box<start::RunArgs>),
    /// Hold a conversation with a domain, turn by turn
    Chat(Box<start::ChatArgs>),
    /// Resume a run that has not ended, or save the outcome of one that has
    Resume(start::ResumeArgs),
    /// List the runs in the journal, newest first
    Runs(Box<look::RunsCommandArgs>),
    /// Show a run from the journal: outcome, reason, actions, cost
    Show(look::ShowArgs),
    /// Explain why a run stopped, what would have continued it, and how to continue
    Why(look::WhyArgs),
    /// Report on a run for an auditor: cost, reason, effects, approvals, policy
    Report(look::ReportCommandArgs),
    /// Compare two runs: settings, decisions, document, evidence, cost, stop
    Diff(look::DiffArgs),
    /// Look at the runs of a journal in a browser, on this machine
    View(look::ViewArgs),
    /// List the actions and questions that wait for a person
    Pending(decide::PendingArgs),
    /// Approve a waiting action, once, and resume its run
    Approve(decide::ApproveArgs),
    /// Deny a waiting action, and resume its run
    Deny(decide::DenyArgs),
    /// Answer a waiting question, and resume its run
    Answer(decide::AnswerArgs),
    /// Give a run an instruction, which its next pass reads
    Tell(decide::TellArgs),
    /// Stop a run, wherever it is driven on this machine
    Stop(decide::StopArgs),
    /// Say whether a run that has ended was good or bad, for calibration and backtest
    Label(decide::LabelArgs),
    /// Check domain folders
    #[command(subcommand)]
    Domain(check::DomainCommand),
    /// Show what a domain's policy allows its tools to do
    #[command(subcommand)]
    Policy(check::PolicyCommand),
    /// Print what a run may use at most, and which limit can bind first
    Plan(check::PlanArgs),
    /// Print a JSON Schema, by default that of loopgate.toml for your editor
    Schema(check::SchemaArgs),
    /// Run eval cases and compare the results with expectations
    Eval(Box<check::EvalArgs>),
    /// Attack a domain with injected texts and with models that obey them
    Redteam(Box<check::RedteamArgs>),
    /// Replay a recorded run: decisions, prompts and reads; or show it after an entry
    Replay(Box<history::ReplayArgs>),
    /// Check recorded runs: the chain and its key, each decision, every invariant
    Verify(history::VerifyArgs),
    /// Find out what recorded runs would have done under other settings
    Backtest(Box<history::BacktestArgs>),
    /// Begin a new run that continues from an entry of another one
    Fork(history::ForkArgs),
    /// Begin a new run of the same work item with the evidence of one that has ended
    Retry(history::RetryArgs),
    /// Look after the journal: its size, deleting, exporting and importing runs
    #[command(subcommand)]
    Journal(history::JournalCommand),
    /// Serve domains over HTTP; its tokens, its audit log, and messages of hooks
    Serve(Box<serve::ServeArgs>),
    /// Offer a domain to MCP clients as tools and resources
    Mcp(Box<serve::McpArgs>),
    /// Serve a domain's models with the protocols of OpenAI, Anthropic and Gemini
    Mock(Box<serve::MockArgs>),
    /// Run on a durable engine, Restate: its workers, and the runs that it keeps
    #[command(subcommand)]
    Engine(serve::EngineCommand),
    /// List a domain's tools, or call one
    Tools(serve::ToolsArgs),
    /// List the models whose prices are known, call one, or decode a reply
    #[command(subcommand)]
    Model(serve::ModelCommand),
    /// Print the completions of a shell
    #[command(hide = true)]
    Completions(start::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    #[command(hide = true)]
    Man(start::ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_two_examples_and_each_is_read_by_it() {
        let wrong = args::examples::tests::wrong(&Args::grouped());
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
