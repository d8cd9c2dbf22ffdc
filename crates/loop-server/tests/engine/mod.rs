//! The engine: what is accepted is journaled, begins once, in order and within bounds, and survives the process.

mod accept;
mod continued;
mod lists;
mod on_engine;
mod people;
mod restart;
mod stops;
mod versions;

use loop_runtime::journal::StoredJournal;
use loop_server::engine::{Engine, RunState, RunView, Submitted};

use crate::bench::{Bench, Gate, LONG, limits};

async fn ended(engine: &Engine, submitted: &Submitted) -> RunView {
    engine.wait(&submitted.run, LONG).await;
    let view = engine.view(&submitted.run).await.unwrap();
    assert_eq!(view.state, RunState::Ended, "{view:?}");
    view
}

/// Waits until this is so: the engine is polled, and nothing is timed.
async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it does not happen");
}

/// The engine, once the tasks of the one before have left the queue.
pub(crate) async fn reopened(bench: &Bench, names: &[&str], gate: &std::sync::Arc<Gate>) -> Engine {
    until(async || StoredJournal::open(bench.path()).unwrap().lock_queue().is_ok()).await;
    bench.engine_of(names, gate, limits()).await
}

/// Runs this in a process of its own, as far as the engine can tell: all its tasks end with it.
fn process<T>(work: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(work());
    runtime.shutdown_timeout(LONG);
    result
}
