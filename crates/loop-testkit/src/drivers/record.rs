//! The record of a driver: events, decisions and outcome, and how two records are compared.

use std::sync::Arc;

use loop_core::{Event, EventKind, Note, Outcome, Run, RunSpec};
use serde_json::{Value, json};

/// A run as a driver recorded it: each event with its decisions, and the outcome.
#[derive(Clone, Debug)]
pub struct DriverRecord {
    /// The events, each with its decisions.
    pub entries: Vec<(Event, Vec<Note>)>,
    /// The outcome. `None`: the run has not ended.
    pub outcome: Option<Outcome>,
}

/// What is compared between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverClock {
    /// The driver has the clock of [`Outside`](super::Outside): every event has the same instant.
    Virtual,
    /// The driver has a clock of its own. Instants are not compared. Concurrent tools may end in another order.
    Own,
}

impl DriverRecord {
    pub(super) fn new(event: Event, notes: Vec<Note>) -> Self {
        Self { entries: vec![(event, notes)], outcome: None }
    }

    pub(super) fn append(&mut self, event: Event, notes: Vec<Note>) {
        self.entries.push((event, notes));
    }

    /// The record with the outcome of the run.
    pub(super) fn ended(self, run: &Run) -> Self {
        Self { outcome: run.outcome().cloned(), ..self }
    }

    /// The run after all events.
    ///
    /// # Panics
    /// An event cannot be applied, or is decided differently than recorded.
    #[track_caller]
    pub fn replay(&self, spec: Arc<RunSpec>) -> Run {
        let (first, later) = self.entries.split_first().expect("a record begins with the start");
        let (mut run, notes) = Run::open(&first.0, spec).expect("the first event opens the run");
        assert_eq!(notes, first.1);
        for (event, notes) in later {
            assert_eq!(run.apply(event).as_ref(), Ok(notes), "{event:?}");
        }
        run
    }

    /// A line for each event, decision and member of the outcome. Parts that differ between runs are left out: ids,
    /// wall times, the prompt and its reserve, and texts of failures that a driver writes itself.
    pub fn lines(&self, clock: DriverClock) -> Vec<String> {
        let mut lines = Vec::new();
        let mut batch = Vec::new();
        for (event, notes) in &self.entries {
            let mut entry = vec![event_line(event, clock)];
            entry.extend(notes.iter().map(|note| format!("    {}", self.line(&json!(note), clock))));
            let is_tool =
                matches!(event.kind, EventKind::ToolFinished { .. } | EventKind::ToolStarted { .. });
            if clock == DriverClock::Own && is_tool {
                batch.extend(entry);
                continue;
            }
            batch.sort();
            lines.append(&mut batch);
            lines.extend(entry);
        }
        let outcome = json!(self.outcome.as_ref().map(outcome_value));
        let members = outcome.as_object().into_iter().flatten();
        lines.extend(members.map(|(name, value)| format!("{name}: {}", self.line(value, clock))));
        let nonce = self.nonce();
        lines.iter().map(|line| line.replace(&*nonce, "NONCE")).collect()
    }

    fn nonce(&self) -> Arc<str> {
        match self.entries.first().map(|(event, _)| &event.kind) {
            Some(EventKind::Started(started)) => Arc::clone(&started.nonce),
            _ => "NONCE".into(),
        }
    }

    fn line(&self, value: &Value, clock: DriverClock) -> String {
        let mut value = value.clone();
        neutral(&mut value, clock);
        value.to_string()
    }

    /// Compares what another driver left.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, other: &Self, clock: DriverClock) -> Result<(), String> {
        let (expected, found) = (self.lines(clock), other.lines(clock));
        let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
        let shorter = (expected.len() != found.len()).then(|| expected.len().min(found.len()));
        let Some(at) = differs.or(shorter) else { return Ok(()) };
        let none = "(nothing)".to_owned();
        let before = expected.get(at.saturating_sub(4)..at).unwrap_or_default().join("\n");
        let (expected, found) = (expected.get(at).unwrap_or(&none), found.get(at).unwrap_or(&none));
        Err(format!("line {at} differs\nafter\n{before}\nexpected {expected}\nfound    {found}"))
    }
}

fn event_line(event: &Event, clock: DriverClock) -> String {
    let mut value = json!(event.kind);
    if matches!(event.kind, EventKind::Started(_)) {
        value = json!({"type": "started"});
    }
    neutral(&mut value, clock);
    match clock {
        DriverClock::Virtual => format!("{} {value}", event.at.0),
        DriverClock::Own => value.to_string(),
    }
}

fn outcome_value(outcome: &Outcome) -> Value {
    json!({
        "document": outcome.document.to_markdown(),
        "answer": outcome.answer,
        "output": outcome.output,
        "stop": outcome.stop,
        "totals": outcome.totals,
        "evidence": outcome.evidence,
        "missing": outcome.missing,
        "saved": outcome.saved,
    })
}

/// Removes the parts that differ between drivers.
fn neutral(value: &mut Value, clock: DriverClock) {
    match value {
        Value::Object(members) => {
            let named = |member: &str| members.get(member).and_then(Value::as_str);
            let is_own = matches!(named("status"), Some("timeout" | "cancelled" | "pending" | "in_doubt"))
                || matches!(named("kind"), Some("timeout" | "cancelled" | "stream_interrupted"));
            let unit = members.get("value").and_then(|value| value.get("unit")).and_then(Value::as_str);
            let is_about_a_prompt = unit.is_some_and(|unit| unit.starts_with("next_"));
            members.retain(|name, _| {
                let name = name.as_str();
                let differs = OF_A_DRIVER.contains(&name)
                    || clock == DriverClock::Own && OF_A_CLOCK.contains(&name)
                    || is_own && OF_A_FAILURE.contains(&name)
                    || is_about_a_prompt && name == "change";
                !differs
            });
            members.values_mut().for_each(|value| neutral(value, clock));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|value| neutral(value, clock)),
        _ => {}
    }
}

/// Members that depend on the wording of a prompt.
const OF_A_DRIVER: [&str; 7] =
    ["prompt_bytes", "shared_bytes", "prompt_hash", "reserve", "received", "max_output_tokens", "needs"];
/// Members that are instants.
const OF_A_CLOCK: [&str; 8] =
    ["at", "retry_at", "not_before", "wall_ms", "away_ms", "since_last_ms", "deadline", "since"];
/// Texts that a driver writes when it cancels a call.
const OF_A_FAILURE: [&str; 4] = ["message", "summary", "failure", "digest"];
