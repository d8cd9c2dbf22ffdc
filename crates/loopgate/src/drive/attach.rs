//! Idempotent requests: a request with a key begins a run, or attaches to the run of an earlier request with that key.

use std::sync::Arc;
use std::time::Duration;

use loop_core::WorkItem;
use loop_runtime::Runner;
use loop_runtime::run::{Attached, EndedRun, Handle};

use tokio::time::Instant;

use crate::args::Progress;
use crate::context::Signals;
use crate::output::{Failure, TextLine, one_line, screen, stream};
use crate::shown::status;

/// How often a run of another process is checked for its end.
const POLL: Duration = Duration::from_millis(500);

/// The result of a request in this process.
pub(crate) enum Request {
    /// A run that is driven here.
    Drive(Handle),
    /// A run that has ended.
    Ended(Box<EndedRun>),
}

/// Begins the run of an item. With a key it attaches to the run that has it. A run without a driver is resumed. A run
/// of another process is waited for.
pub(crate) async fn request(
    runner: &Runner,
    item: WorkItem,
    key: Option<Arc<str>>,
    progress: Progress,
    signals: &mut Signals,
) -> Result<Request, Failure> {
    let Some(key) = key else { return Ok(Request::Drive(runner.run(item).start().await?)) };
    let mut is_waiting = false;
    let (begun, mut shown) = (Instant::now(), Instant::now());
    loop {
        let request = runner.run(item.clone()).with_key(Arc::clone(&key));
        match request.attach().await? {
            Attached::Began(handle) => {
                screen::hide();
                return Ok(Request::Drive(handle));
            }
            Attached::Resumed(handle) => {
                screen::hide();
                attached(&key, handle.id(), "which had not ended; it is resumed here");
                return Ok(Request::Drive(handle));
            }
            Attached::Ended(ended) => {
                screen::hide();
                if !is_waiting {
                    attached(&key, &ended.started.run, "which has ended; nothing was run again");
                }
                if let Some(why) = &ended.unverified {
                    stream::note(format!("loopgate: run {}: {why}", ended.started.run));
                }
                return Ok(Request::Ended(ended));
            }
            Attached::Elsewhere { run, pid } => {
                if !is_waiting {
                    attached(
                        &key,
                        &run,
                        &format!("which another process drives (pid {pid}); waiting for its end"),
                    );
                }
                is_waiting = true;
                let waited = status::clock_of(begun.elapsed());
                let what = format!("waiting for run {run}, which process {pid} drives · {waited}");
                match progress {
                    Progress::Never => {}
                    _ if screen::is_able() => screen::show([TextLine::from(screen::in_locale(&what))]),
                    _ if shown.elapsed() >= status::EVERY => {
                        shown = Instant::now();
                        stream::note(format!("running: {what}"));
                    }
                    _ => {}
                }
                signals.unless_received(tokio::time::sleep(POLL)).await;
            }
        }
    }
}

fn attached(key: &str, run: &loop_core::types::RunId, what: &str) {
    stream::note(format!("attached: the key `{}` is of run {run}, {what}", one_line(key)));
}
