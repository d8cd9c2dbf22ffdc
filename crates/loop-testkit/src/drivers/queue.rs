//! A driver as a worker of a queue. No run is in memory between two messages: the worker loads it from the store for
//! each message.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use loop_core::types::CommandKey;
use loop_core::{Command, Event, Run, RunSpec};

use super::{DriverCase, DriverRecord, Outside, RunDriver, again, start};

/// Drives a run with a queue whose messages are events and tasks.
#[derive(Clone, Copy, Debug)]
pub struct WorkQueue;

impl RunDriver for WorkQueue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        let mut outside = Outside::new(case);
        let (run, record) = start(case);
        let mut store = Store { spec: Arc::clone(run.spec()), record, given: BTreeSet::new() };
        let mut queue: VecDeque<WorkMessage> = follow(&run, &mut store, &mut outside).into();
        loop {
            while let Some(message) = queue.pop_front() {
                queue.extend(handle(message, &mut store, &mut outside));
            }
            let run = store.load();
            if run.is_done() {
                return store.record.ended(&run);
            }
            match outside.wait(&run) {
                Some(event) => queue.push_back(WorkMessage::Event(event)),
                // All workers ended, and what they were given is lost.
                None => {
                    let (run, record) = again(case, store.record);
                    store = Store { record, given: BTreeSet::new(), ..store };
                    queue.extend(follow(&run, &mut store, &mut outside));
                }
            }
        }
    }
}

enum WorkMessage {
    /// It happened.
    Event(Event),
    /// It is to be done.
    Work(Command),
}

/// The durable state: the record of the run, and the tasks that were queued.
struct Store {
    spec: Arc<RunSpec>,
    record: DriverRecord,
    given: BTreeSet<(CommandKey, u32)>,
}

impl Store {
    fn load(&self) -> Run {
        self.record.replay(Arc::clone(&self.spec))
    }
}

/// Handles a message, and returns the messages that follow.
fn handle(message: WorkMessage, store: &mut Store, outside: &mut Outside<'_>) -> Vec<WorkMessage> {
    let mut run = store.load();
    match message {
        WorkMessage::Work(command) => {
            outside.begin(&run, &command);
            Vec::new()
        }
        WorkMessage::Event(event) => match run.apply(&event) {
            Ok(notes) => {
                store.record.append(event, notes);
                follow(&run, store, outside)
            }
            // It comes too late, and changes nothing.
            Err(_) => Vec::new(),
        },
    }
}

/// The next tasks. A task that is queued already is left out.
fn follow(run: &Run, store: &mut Store, outside: &mut Outside<'_>) -> Vec<WorkMessage> {
    if let Some(event) = outside.at_once(run) {
        return vec![WorkMessage::Event(event)];
    }
    let commands = run.commands().into_iter();
    let new = commands.filter(|command| named(command).is_some_and(|work| store.given.insert(work)));
    new.map(WorkMessage::Work).collect()
}

fn named(command: &Command) -> Option<(CommandKey, u32)> {
    match command {
        Command::CallModel(call) => Some((call.key, call.attempt)),
        Command::RunTool(tool) => Some((tool.key, tool.attempt)),
        Command::Check(check) => Some((check.key, check.attempt)),
        Command::AskPerson { .. } | Command::Abort { .. } | Command::Save { .. } => None,
    }
}
