//! `loopgate run DOMAIN ITEM…`: runs many work items in one journal, several at a time, under one budget. The key of an
//! item's run is derived from the domain and the item's content, so a second start continues the batch.

mod items;
mod progress;
mod table;
mod work;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loop_core::types::PicoUsd;
use loop_domain::Domain;
use loop_runtime::Runner;
use loop_runtime::budget::{SharedBudget, Span};
use loop_runtime::journal::StoredJournal;
use loop_runtime::report::{BatchLine, BatchState};

use progress::BatchProgress;
use work::{HaltFlag, Worker};

use crate::args::{Progress, tags};
use crate::context::{BatchOrigin, Origin, ReceivedSignal, Signals, on_journal, places, to_loop};
use crate::output::{Failure, stream};
use crate::shown::budget_lines;
use crate::start::run_args::RunArgs;

/// How often progress is shown: at a terminal, and elsewhere.
const TERMINAL_PERIOD: Duration = Duration::from_millis(250);
const PIPE_PERIOD: Duration = Duration::from_secs(15);

/// The default of `--jobs`.
const JOBS: u16 = 4;

pub(crate) async fn many(args: RunArgs) -> Result<ExitCode, Failure> {
    check(&args)?;
    let domain = places::load(&args.domain)?;
    domain.ready(args.written.saves())?;
    if args.many.budget_usd.is_some()
        && let Some(error) = domain.unpriced("--budget-usd cannot be kept", ", or leave --budget-usd out")
    {
        return Err(error.into());
    }
    let journal = args.written.open(&domain)?;
    let loops = to_loop(&domain, args.written.saves());
    // All of them are read before anything is spent.
    let items = items::read(&args, &domain, &loops)?;
    if let Some(target) = domain.save.as_ref().filter(|_| args.written.saves()) {
        items::expect_own_files(&items, &target.target)?;
    }
    let batch_id = items::batch_id(&items);
    let _lock = journal.lock_batch(&batch_id)?;
    let budget = args.many.budget_usd.map(|limit| budget_of(&batch_id, limit));
    places::say_prices(&domain);
    let runner = runner(&args, &domain, &journal, loops, budget.clone())?;
    if let Some(used_up) = used_up(&runner).await? {
        stream::note(used_up);
        return Ok(ExitCode::from(BatchLine::without("", "", BatchState::NotStarted, None).exit_code));
    }
    domain.start_servers();
    // A reader of standard output that is gone ends none of the runs.
    stream::outlive_reader();
    let mut signals = Signals::new()?;
    let halt = HaltFlag::default();
    let worker = Arc::new(Worker {
        runner: runner.clone(),
        journal: Arc::clone(&journal),
        halt: halt.clone(),
        retries: args.many.retry_failed,
        fails_fast: args.many.fail_fast,
    });
    let shows_bar = match args.progress {
        Progress::Auto => stream::is_watched(),
        Progress::Always => true,
        Progress::Never => false,
    };
    let jobs = usize::from(args.many.jobs.unwrap_or(JOBS));
    let count: usize = items.iter().map(|item| item.origins.len()).sum();
    stream::note(format!(
        "items:   {count}, {} at a time{}",
        jobs.min(items.len()),
        budget.map_or_else(String::new, |budget| format!("; at most {} for all of them", budget.limit)),
    ));
    let mut shown = BatchProgress::new(items.len(), halt.clone());
    let mut ended = futures::stream::iter(items.into_iter().enumerate())
        .map(|(nth, item)| {
            let worker = Arc::clone(&worker);
            async move { (nth, worker.work(item).await) }
        })
        .buffer_unordered(jobs);
    let mut ticks = tokio::time::interval(if shows_bar { TERMINAL_PERIOD } else { PIPE_PERIOD });
    // The first one is at once.
    ticks.tick().await;
    let mut lines = Vec::new();
    loop {
        tokio::select! {
            biased;
            received = signals.next() => interrupted(received, &halt, &shown),
            done = ended.next() => {
                let Some((nth, done)) = done else { break };
                if args.json.json {
                    shown.clear(shows_bar);
                    for line in &done {
                        stream::print_json(&format!("{}\n", serde_json::to_string(line)?));
                    }
                }
                for note in done.first().map(table::notes).unwrap_or_default() {
                    shown.clear(shows_bar);
                    stream::note(note);
                }
                shown.count(&done);
                lines.extend(done.into_iter().map(|line| (nth, line)));
            }
            _ = ticks.tick() => shown.show(shows_bar, args.progress != Progress::Never),
        }
    }
    shown.clear(shows_bar);
    drop(ended);
    lines.sort_by_key(|(nth, _)| *nth);
    let lines: Vec<BatchLine> = lines.into_iter().map(|(_, line)| line).collect();
    if !args.json.json {
        stream::print(&table::table(&lines, std::io::stdout().is_terminal()));
    }
    table::summary(&lines).into_iter().for_each(stream::note);
    budget_lines(&runner).await.into_iter().for_each(stream::note);
    if let Some(how) = table::how_to_continue(&lines) {
        stream::note(how);
    }
    let worst = lines.iter().map(|line| line.exit_code).max().unwrap_or_default();
    let code = halt.signal().map_or(worst, ReceivedSignal::exit_code);
    Ok(ExitCode::from(code))
}

/// Fails for options that only apply to a single run.
fn check(args: &RunArgs) -> Result<(), Failure> {
    let of_one = [
        ("--key", args.request.has_key(), "each item of a batch has a key of its own"),
        ("--trace", args.request.has_trace(), "each run of a batch is traced by its own id"),
        ("--events", args.events, "use --json, and `loopgate show RUN --events` for one run"),
        ("--explain-picks", args.explain_picks, "run the item alone"),
        ("--record", args.record.is_some(), "runs side by side would mix in one recording"),
        ("--text", args.text.is_some(), "give the items as files"),
    ];
    match of_one.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((option, _, why)) => Err(Failure::new(format!("{option} is for one work item: {why}"))),
        None => Ok(()),
    }
}

fn budget_of(batch_id: &Arc<str>, limit: PicoUsd) -> SharedBudget {
    SharedBudget { span: Span::Batch, of: Arc::clone(batch_id), limit }
}

/// The runner of all runs in the batch.
fn runner(
    args: &RunArgs,
    domain: &Domain,
    journal: &Arc<StoredJournal>,
    loops: Runner,
    budget: Option<SharedBudget>,
) -> Result<Runner, Failure> {
    let tags = tags(&args.tags)?;
    let origin = Origin::of(&args.domain, args.written.saves(), /*asks*/ false)?.with_tags(tags);
    let origin = origin.of_batch(budget.as_ref().map(BatchOrigin::of)).text()?;
    Ok(on_journal(loops, domain, journal, budget).with_origin(origin).leave_when_waiting())
}

/// The line that a shared budget is used up before the batch begins. `None`: every budget has something left.
async fn used_up(runner: &Runner) -> Result<Option<String>, Failure> {
    let Some(shared) = runner.shared_budgets() else { return Ok(None) };
    let taken = shared.taken().await?;
    let spent = taken.into_iter().find(|(budget, taken)| taken.spent >= budget.limit);
    Ok(spent.map(|(budget, taken)| {
        let raise = match budget.span {
            Span::Day => "it begins anew at 00:00 UTC; or raise budget.day_usd of the domain",
            Span::Month => "it begins anew with the next month; or raise budget.month_usd of the domain",
            Span::Batch => "raise --budget-usd",
            Span::TokenDay => "it begins anew at 00:00 UTC; or raise day_usd of the token",
        };
        let (name, limit) = (budget.span.name(), budget.limit);
        format!(
            "loopgate: the budget of this {name} is used up: {} of {limit} spent, and nothing was started; {raise}",
            taken.spent
        )
    }))
}

/// Handles a signal. The first Ctrl-C starts no more items and lets runs in progress end. A further signal, or another
/// kind, exits the program, with the runs in progress in the journal.
fn interrupted(received: ReceivedSignal, halt: &HaltFlag, shown: &BatchProgress) {
    let is_first = halt.stop_for(received);
    if is_first && received == ReceivedSignal::Interrupt {
        stream::note("");
        stream::note(format!(
            "no more items are started, and {} under way continue to their ends; press Ctrl-C again to leave them to the next start",
            halt.under_way()
        ));
        return;
    }
    stream::note("");
    stream::note(format!(
        "left: {} items are done and {} are under way; the same command continues, and resumes these",
        shown.done(),
        halt.under_way()
    ));
    stream::exit(received.exit_code().into())
}
