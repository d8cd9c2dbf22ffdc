//! Runs code of third parties in a task of its own, apart from the task of the caller that waits for it.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;

/// The result of `work`, or the payload of its panic. `None`: the runtime is shutting down. Dropping the future drops
/// the work.
///
/// On a runtime with several threads the work is a task of its own, so that work which blocks its thread does not keep
/// the caller from timeouts and cancellation. On one thread that would gain nothing.
pub async fn apart<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<Result<T, Box<dyn Any + Send>>> {
    let work = AssertUnwindSafe(work).catch_unwind();
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Some(work.await);
    }
    // A set rather than a handle, because dropping it aborts the task.
    let mut task = JoinSet::new();
    task.spawn(work);
    task.join_next().await?.ok()
}
