//! A queue of work: many runs, so many at a time.

use futures::{Stream, StreamExt};
use loop_core::{Outcome, WorkItem};

use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;

impl Runner {
    /// Runs all of these items, at most `concurrency` at a time (0 counts as 1), each to its own end. Yields each
    /// item's position, from 0, with its outcome, as its run ends. See [`queue`](Self::queue).
    pub fn run_all<I>(
        &self,
        items: I,
        concurrency: usize,
    ) -> impl Stream<Item = (usize, Result<Outcome, StartError>)> + use<I>
    where
        I: IntoIterator<Item = WorkItem>,
    {
        self.queue(futures::stream::iter(items), concurrency)
    }

    /// Runs a stream of items, at most `concurrency` at a time (0 counts as 1). A producer may continue adding items
    /// while outcomes are read. Yields each item's position in the stream, from 0, with its outcome, as its run ends.
    ///
    /// An item is taken only when its run may begin, so a bounded channel slows its producer down. New runs begin while
    /// the queue is polled. Runs that have begun continue by themselves. A run that cannot begin does not end others.
    /// Dropping the queue ends everything in flight, as dropping [`run`](Self::run) does.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Offline}, spec::SectionSpec, tools::Registry};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("offline", "offline-1"));
    /// # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Offline::new())));
    /// use futures::StreamExt;
    ///
    /// let (inbox, mut items) = tokio::sync::mpsc::channel(8);
    /// let items = futures::stream::poll_fn(move |context| items.poll_recv(context));
    /// let producer = tokio::spawn(async move {
    ///     for n in 1..=3 {
    ///         let item = WorkItem::new(format!("T-{n}"), "ticket", "Backup failed", "The backup failed.");
    ///         inbox.send(item).await.ok();
    ///     }
    /// });
    /// let mut queue = runner.queue(items, 2);
    /// let mut ended = 0;
    /// while let Some((n, outcome)) = queue.next().await {
    ///     println!("item {n}: {}", outcome?.stop.reason());
    ///     ended += 1;
    /// }
    /// # producer.await?;
    /// assert_eq!(ended, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue<S>(
        &self,
        items: S,
        concurrency: usize,
    ) -> impl Stream<Item = (usize, Result<Outcome, StartError>)> + use<S>
    where
        S: Stream<Item = WorkItem>,
    {
        let runner = self.clone();
        let run = move |(n, item)| {
            let runner = runner.clone();
            async move { (n, runner.run(item).await) }
        };
        items.enumerate().map(run).buffer_unordered(concurrency.max(1))
    }
}
