//! Journal entries for tests: a run that another program version continues, and entries without their times.

use loop_core::run::Program;
use loop_core::{Event, EventKind, Note, Run};
use serde_json::Value;

/// A program version newer than every real one.
pub fn newer() -> Program {
    Program { name: "loopgate 9.0.0".into(), decisions: 99 }
}

/// A program version older than every real one.
pub fn older() -> Program {
    Program { name: "loopgate 0.0.9".into(), decisions: 0 }
}

/// The entry with which `program` continues a run. `otherwise`: that program decides something differently from this
/// one.
pub fn continued_by(run: &mut Run, program: Program, otherwise: bool) -> (Event, Vec<Note>) {
    let kind = EventKind::Resumed { away_ms: 0, by: Some(program.into()) };
    let event = Event { at: run.now(), kind };
    let mut notes = run.apply(&event).expect("a run that can be continued");
    if otherwise {
        notes.push(Note::Lost { key: "1/main".parse().expect("a key"), attempt: 1 });
    }
    (event, notes)
}

/// An entry, or a part of it, as JSON in which instants and durations are null.
pub fn timeless(mut value: Value) -> Value {
    fn still(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member.is_number() && (name == "at" || name.ends_with("ms")) {
                        true => *member = Value::Null,
                        false => still(member),
                    }
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(still),
            _ => {}
        }
    }
    still(&mut value);
    value
}
