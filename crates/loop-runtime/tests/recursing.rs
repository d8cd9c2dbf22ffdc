//! Recursion on the public API: each pass of a run makes the next one, and the depth is returned.
//!
//! S1: "Implement recursive `get_completion(messages)` function that calls itself after tool execution until no tool calls
//! remain." A level gives the next one back before it begins, so that ten thousand need no more stack than one.

use futures::future::LocalBoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use loop_core::EventKind;
use loop_runtime::{agent::AgentEvent, observe::RunEvent};

enum Level<'a, S> {
    Deeper(LocalBoxFuture<'a, Level<'a, S>>),
    Ended(S, u32),
}

/// Drives a run from this depth on, until it ends or makes a further pass.
fn descend<'a, S: Stream<Item: Into<AgentEvent>> + Unpin + 'a>(
    mut run: S,
    depth: u32,
) -> LocalBoxFuture<'a, Level<'a, S>> {
    async move {
        while let Some(event) = run.next().await {
            let AgentEvent::Run(RunEvent::Recorded(entry)) = event.into() else { continue };
            if let EventKind::CallStarted { key, .. } = &entry.event.kind
                && key.pass > depth
            {
                return Level::Deeper(descend(run, key.pass));
            }
        }
        Level::Ended(run, depth)
    }
    .boxed_local()
}

/// Drives a run to its end by recursion.
pub(crate) async fn recurse<'a, S: Stream<Item: Into<AgentEvent>> + Unpin + 'a>(run: S) -> (S, u32) {
    let mut level = descend(run, 1);
    loop {
        match level.await {
            Level::Deeper(next) => level = next,
            Level::Ended(run, depth) => return (run, depth),
        }
    }
}
