//! Reads recorded runs and prints what `progress` would have done to each: notes, refused calls, stops.
//!
//! `loopgate journal export --all --trajectories | cargo run -p loop-core --example score`. The form of a line is in
//! `docs/reference/journal.md`.

#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use loop_core::repeats::{CallFacts, Guard, Running, stable_digest};
use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
use loop_core::types::{Digest, Status, canonical};
use serde::Deserialize;
use serde_json::Value;

/// A recorded run: its calls and their results.
#[derive(Debug, Deserialize)]
pub(crate) struct Recording {
    pub(crate) id: String,
    /// The effect of each tool. A tool that is not named counts as one that may write.
    #[serde(default)]
    pub(crate) effects: BTreeMap<String, String>,
    pub(crate) steps: Vec<Step>,
}

/// A call and its result.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    /// The number of the user message that is being answered.
    #[serde(default)]
    pub(crate) turn: u64,
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Value,
    pub(crate) result: String,
    #[serde(default)]
    pub(crate) is_error: bool,
    /// How the call ended. Absent: a failure counts by its text.
    #[serde(default)]
    pub(crate) status: Option<Status>,
}

/// What `progress` would have done to a run.
#[derive(Debug, Default)]
pub(crate) struct Score {
    /// Results that carry a note: the step and the note.
    pub(crate) notes: Vec<(usize, String)>,
    pub(crate) refused: Vec<Refused>,
    /// Refused calls that end their turn.
    pub(crate) stops: Vec<usize>,
    /// Calls that would not have been made, because their turn had ended.
    pub(crate) not_made: usize,
}

/// A refused call.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) step: usize,
    pub(crate) why: String,
    /// Whether its recorded result was new. A policy that refuses new results costs something.
    pub(crate) is_new: bool,
}

/// How many times a call is tried that fails in a retryable way.
const TRIES: u32 = 3;

impl Score {
    /// The score of a run. The guard sees of a call what it would have seen: once it refuses one, the recorded result of
    /// that call is not shown to it.
    pub(crate) fn of(run: &Recording) -> Self {
        let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
        let (mut score, mut seen, rules) = (Self::default(), Seen::default(), ToolRepeats::default());
        let (mut turn, mut is_over) = (None, false);
        for (at, step) in run.steps.iter().enumerate() {
            if turn.replace(step.turn).is_some_and(|before| before != step.turn) {
                guard.new_turn();
                seen.in_turn.clear();
                is_over = false;
            }
            if is_over {
                score.not_made += 1;
                continue;
            }
            let is_read = run.effects.get(&step.tool).is_some_and(|effect| effect == "read");
            let arguments = &step.arguments;
            let call = CallFacts { tool: &step.tool, arguments, rules: &rules, is_read, tries: TRIES };
            match guard.before(&call) {
                Ok(running) => {
                    let note = report(&mut guard, running, step);
                    score.notes.extend(note.map(|note| (at, note)));
                    seen.add(step, &rules);
                }
                Err(rule) => {
                    let is_new = seen.is_new(step, is_read, &rules);
                    score.refused.push(Refused { step: at, why: rule.message(&step.tool), is_new });
                    is_over = guard.is_stuck();
                    score.stops.extend(is_over.then_some(at));
                }
            }
        }
        score
    }
}

/// Reports a result to the guard. Returns the note that the model would have read with it.
fn report(guard: &mut Guard, running: Running, step: &Step) -> Option<String> {
    let note = match step.status {
        Some(status) => guard.after(running, status, &step.result),
        None if step.is_error => guard.after_failure(running, &step.result),
        None => guard.after(running, Status::Ok, &step.result),
    };
    note.map(|note| note.summary())
}

/// A result, without what only says when or under which number it was given.
type ResultDigest = (bool, Digest);

/// The results that the model has read.
#[derive(Default)]
struct Seen<'a> {
    /// The last result of each call.
    last: BTreeMap<(&'a str, String), ResultDigest>,
    /// The results of each tool in this turn.
    in_turn: BTreeSet<(&'a str, ResultDigest)>,
}

impl<'a> Seen<'a> {
    fn add(&mut self, step: &'a Step, rules: &ToolRepeats) {
        let result = (step.is_error, stable_digest(&step.result, rules).0);
        self.last.insert((&step.tool, canonical(&step.arguments)), result);
        self.in_turn.insert((&step.tool, result));
    }

    /// Whether a result differs from the last one of the same call. The first result of an effect is always new.
    fn is_new(&self, step: &'a Step, is_read: bool, rules: &ToolRepeats) -> bool {
        let result = (step.is_error, stable_digest(&step.result, rules).0);
        match self.last.get(&(&*step.tool, canonical(&step.arguments))) {
            Some(last) => *last != result,
            None => !is_read && !step.is_error || !self.in_turn.contains(&(&*step.tool, result)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the example reads what the core does not")]
fn main() -> Result<(), Box<dyn Error>> {
    let (mut runs, mut calls, mut refused, mut new, mut stopped) = (0, 0, 0, 0, 0);
    for (line, text) in (1..).zip(std::io::stdin().lines()) {
        let run: Recording = serde_json::from_str(&text?).map_err(|error| format!("line {line}: {error}"))?;
        let score = Score::of(&run);
        show(&run, &score);
        runs += 1;
        calls += run.steps.len();
        refused += score.refused.len();
        new += score.refused.iter().filter(|refused| refused.is_new).count();
        stopped += usize::from(!score.stops.is_empty());
    }
    println!(
        "{runs} runs, {calls} calls: {refused} refused, {new} of them with a new result; {stopped} runs stopped"
    );
    Ok(())
}

fn show(run: &Recording, score: &Score) {
    let tool = |at: usize| run.steps.get(at).map_or("", |step| &*step.tool);
    for (at, note) in &score.notes {
        println!("{}: step {at} {}: note: {note}", run.id, tool(*at));
    }
    for Refused { step, why, is_new } in &score.refused {
        let new = if *is_new { " (its result was new)" } else { "" };
        println!("{}: step {step} {}: refused: {why}{new}", run.id, tool(*step));
    }
    for at in &score.stops {
        println!("{}: step {at}: the turn ends; {} calls are not made", run.id, score.not_made);
    }
}
