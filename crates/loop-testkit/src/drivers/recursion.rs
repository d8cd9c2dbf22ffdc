//! A driver as one recursive function.

use loop_core::Run;

use super::{DriverCase, DriverRecord, Outside, RunDriver, again, start};

/// Drives a run with a function that calls itself once for each event.
#[derive(Clone, Copy, Debug)]
pub struct Recursion;

impl RunDriver for Recursion {
    fn name(&self) -> &'static str {
        "recursion"
    }

    fn drive(&self, case: &DriverCase) -> DriverRecord {
        let mut outside = Outside::new(case);
        let (run, record) = start(case);
        let (mut run, mut record) = driven(run, record, &mut outside);
        while !run.is_done() {
            // The driver ended. Another one has nothing but the record.
            (run, record) = again(case, record);
            (run, record) = driven(run, record, &mut outside);
        }
        record.ended(&run)
    }
}

/// The run and its record after all further events.
fn driven(mut run: Run, mut record: DriverRecord, outside: &mut Outside<'_>) -> (Run, DriverRecord) {
    if run.is_done() {
        return (run, record);
    }
    let event = outside.at_once(&run).or_else(|| {
        run.commands().iter().for_each(|command| outside.begin(&run, command));
        outside.wait(&run)
    });
    let Some(event) = event else { return (run, record) };
    // What is rejected comes too late, and changes nothing.
    if let Ok(notes) = run.apply(&event) {
        record.append(event, notes);
    }
    driven(run, record, outside)
}
