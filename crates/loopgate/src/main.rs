//! The `loopgate` command: arguments in; a document, an answer or a value, a reason and a cost out. All logic lives in the libraries.

mod args;
mod attach;
mod audit;
mod backtest;
mod budgets;
mod cache;
mod chat;
mod diff;
mod doctor;
mod domain;
mod engine;
mod eval;
mod failure;
mod fork;
mod grounding;
mod hooks;
mod init;
mod journal;
mod live;
mod manual;
mod many;
#[cfg(feature = "mcp-server")]
mod mcp;
#[cfg(not(feature = "mcp-server"))]
#[path = "no_mcp.rs"]
mod mcp;
#[cfg(feature = "mock")]
mod mock;
#[cfg(not(feature = "mock"))]
#[path = "no_mock.rs"]
mod mock;
mod model;
mod models;
mod panics;
mod people;
mod places;
mod plan;
mod policy;
mod recorded;
mod redteam;
mod replay;
mod resume;
mod run;
mod run_page;
mod runs;
mod save;
mod saving;
mod screen;
mod selection;
mod serve;
mod servers;
mod show;
mod status;
mod stop;
mod stream;
#[cfg(feature = "otel")]
mod telemetry;
#[cfg(not(feature = "otel"))]
#[path = "no_telemetry.rs"]
mod telemetry;
mod tokens;
mod tools;
mod verify;
mod view;
mod why;
mod wrote;

use std::process::ExitCode;

use args::{Args, Command, DomainCommand, PolicyCommand};

fn main() -> ExitCode {
    panics::mask();
    let _rows = screen::CloseOnDrop;
    let args = match Args::read() {
        Ok(args) => args,
        Err(answer) => return stream::answered(&answer),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::Failure::new(format!("no threads to run on: {error}")).report(),
    };
    let result = runtime.block_on(async {
        run::survive_file_limits();
        let result = match args.command {
            Command::Init(args) => init::init(args),
            Command::Doctor(args) => doctor::doctor(&args).await,
            Command::Run(run) if run.is_many() => many::many(*run).await,
            Command::Run(run) => run::run(*run).await,
            Command::Chat(chat) => chat::chat(*chat).await,
            Command::Show(show) => show::show(show).await,
            Command::Why(args) => why::why(args).await,
            Command::Replay(args) => replay::replay(*args).await,
            Command::Verify(args) => verify::verify(args).await,
            Command::Diff(args) => diff::diff(args).await,
            Command::Plan(args) => plan::plan(&args),
            Command::Backtest(args) => backtest::backtest(*args).await,
            Command::Runs(args) => runs::runs(*args).await,
            Command::Journal(command) => journal::journal(command).await,
            Command::Tools(tools) => tools::tools(tools).await,
            Command::Model(command) => model::model(command).await,
            Command::Mcp(args) => mcp::mcp(*args).await,
            Command::View(args) => view::view(args).await,
            Command::Serve(args) => serve::serve(*args).await,
            Command::Stop(args) => stop::stop(args).await,
            Command::Engine(command) => engine::engine(command).await,
            Command::Mock(mock) => mock::mock(*mock).await,
            Command::Domain(DomainCommand::Check(check)) => domain::check(&check),
            Command::Policy(PolicyCommand::Check(args)) => policy::check(&args),
            Command::Pending(args) => people::pending(args).await,
            Command::Approve(args) => people::approve(args).await,
            Command::Deny(args) => people::deny(args).await,
            Command::Answer(args) => people::answer(args).await,
            Command::Tell(args) => people::tell(args).await,
            Command::Resume(args) => resume::resume(args).await,
            Command::Fork(args) => fork::fork(args).await,
            Command::Retry(args) => fork::retry(args).await,
            Command::Eval(args) => eval::eval(*args).await,
            Command::Redteam(args) => redteam::redteam(*args).await,
            Command::Completions(args) => manual::completions(&args),
            Command::Man(args) => manual::man(&args),
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
