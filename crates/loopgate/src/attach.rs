//! A request with a key: it begins a run, or attaches to the one that an earlier request with the key began.

use std::sync::Arc;
use std::time::Duration;

use loop_core::WorkItem;
use loop_runtime::Runner;
use loop_runtime::run::{Attached, EndedRun, Handle};

use crate::failure::Failure;
use crate::run::Signals;
use crate::stream;

/// How often it is looked whether a run that another process drives has ended.
const POLL: Duration = Duration::from_millis(500);

/// What a request leads to in this process.
pub(crate) enum Request {
    /// A run that is driven here.
    Drive(Handle),
    /// A run that has ended.
    Ended(Box<EndedRun>),
}

/// Begins the run of an item. With a key it attaches to the run that has it: it resumes a run without a driver, and waits
/// for one that another process drives.
pub(crate) async fn request(
    runner: &Runner,
    item: WorkItem,
    key: Option<Arc<str>>,
    signals: &mut Signals,
) -> Result<Request, Failure> {
    let Some(key) = key else { return Ok(Request::Drive(runner.run(item).start().await?)) };
    let mut is_waiting = false;
    loop {
        let request = runner.run(item.clone()).with_key(Arc::clone(&key));
        match request.attach().await? {
            Attached::Began(handle) => return Ok(Request::Drive(handle)),
            Attached::Resumed(handle) => {
                attached(&key, handle.id(), "which had not ended; it is resumed here");
                return Ok(Request::Drive(handle));
            }
            Attached::Ended(ended) => {
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
                signals.unless_received(tokio::time::sleep(POLL)).await;
            }
        }
    }
}

fn attached(key: &str, run: &loop_core::RunId, what: &str) {
    stream::note(format!("attached: the key `{}` is of run {run}, {what}", stream::one_line(key)));
}
