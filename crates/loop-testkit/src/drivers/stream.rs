//! A driver as a stream transformer: events in, decisions and states out.

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::{Stream, StreamExt, stream};
use loop_core::{Event, Note, Run};

use super::{DriverCase, DriverRecord, Outside, RunDriver, again, start};

/// Drives a run as a stream: events go in, and the state after each of them comes out with its commands.
#[derive(Clone, Copy, Debug)]
pub struct StateStream;

impl RunDriver for StateStream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        let mut outside = Outside::new(case);
        let (mut run, mut record) = start(case);
        loop {
            run = futures::executor::block_on(driven(run, &mut record, &mut outside));
            if run.is_done() {
                return record.ended(&run);
            }
            // The driver ended. Another one has nothing but the record.
            (run, record) = again(case, record);
        }
    }
}

/// The result of an event: the decisions, and the run with its new commands. `None` in place of decisions: the event
/// came too late and was rejected.
struct AppliedEvent {
    event: Event,
    notes: Option<Vec<Note>>,
    run: Run,
}

/// A run is a fold over its events.
fn followed(run: Run, events: UnboundedReceiver<Event>) -> impl Stream<Item = AppliedEvent> {
    stream::unfold((run, events), |(mut run, mut events)| async move {
        let event = events.next().await?;
        let notes = run.apply(&event).ok();
        Some((AppliedEvent { event, notes, run: run.clone() }, (run, events)))
    })
}

async fn driven(mut run: Run, record: &mut DriverRecord, outside: &mut Outside<'_>) -> Run {
    let (events, received) = unbounded();
    let mut follows = Box::pin(followed(run.clone(), received));
    while !run.is_done() {
        let event = outside.at_once(&run).or_else(|| {
            run.commands().iter().for_each(|command| outside.begin(&run, command));
            outside.wait(&run)
        });
        let Some(event) = event else { return run };
        if events.unbounded_send(event).is_err() {
            return run;
        }
        let Some(next) = follows.next().await else { return run };
        if let Some(notes) = next.notes {
            record.append(next.event, notes);
        }
        run = next.run;
    }
    run
}
