//! The invariants of a run, as named functions: of a state, and of a step from one state to the next.
//!
//! This module decides nothing. It says whether what was decided is sound, from what happened alone and without the
//! code that decided it. The tests use it on every state that they reach, and `loopgate verify` uses it on recorded runs.
//!
//! A [`Checker`] goes along with a run and reports each [`Violation`] with the entry that caused it:
//!
//! ```
//! use loop_core::invariants::{Checker, Transition};
//! # use loop_core::run::{Provenance, StopMode};
//! # use loop_core::spec::ModelSpec;
//! # use loop_core::types::{Digest, Millis, RunId};
//! # use loop_core::{Event, EventKind, Facts, Run, RunSpec, WorkItem};
//! # let spec: RunSpec = RunSpec::conversation("desk", ModelSpec::new("none", "none"));
//! # let item = WorkItem::message("M-1", "", "Hello");
//! # let none = Digest::of("none", b"");
//! # let facts = Facts { unix_ms: 0, nonce: "n".into(), prompts: none, tools: none, history: None,
//! #                     provenance: Provenance::default() };
//! let (mut run, first, notes) = Run::start(RunId::new("r1"), spec.into(), item, facts);
//! let (mut checker, mut found) = Checker::start(&run, &notes);
//!
//! let event = Event { at: Millis(5), kind: EventKind::StopRequested { how: StopMode::Now } };
//! let before = run.clone();
//! let notes = run.apply(&event)?;
//! found.extend(checker.step(&Transition { before: &before, event: &event, notes: &notes, after: &run }));
//! assert_eq!(found, []);
//! # let _ = first;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A run that continues another one's work, such as a fork, begins with a state whose history the checker has not seen.
//! Invariants that need the whole history (`of_whole`) are not checked for such a run.
//!
//! A step costs time in proportion to the actions and results of the run, because each invariant reads the whole state.

mod calls;
mod cost;
mod effects;
mod ends;
mod kept;
mod past;
mod rank;
mod reason;
mod view;

use std::fmt;

use crate::run::{Event, Note, Run};

pub use past::{Past, StartedEffect, TryCounts};
pub use rank::{bound, rank};

/// An event that was applied, with the run before and after it.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'a> {
    /// The run before the event.
    pub before: &'a Run,
    /// The event.
    pub event: &'a Event,
    /// What was decided while it was applied.
    pub notes: &'a [Note],
    /// The run after the event.
    pub after: &'a Run,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariants, for example `I-9`, as in the table of `docs/reference/invariants.md`.
    pub id: &'static str,
    /// The invariant in a few words, for example `silence after the reason`.
    pub name: &'static str,
    /// The sequence number of the entry after which it does not hold, from 0.
    pub seq: u64,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {} ({}): {}", self.seq, self.id, self.name, self.message)
    }
}

/// What a check found: nothing, or what is wrong.
pub type Checked = Result<(), String>;

/// An invariant of a state.
#[derive(Clone, Copy, Debug)]
pub struct StateInvariant {
    /// Its ids.
    pub id: &'static str,
    /// What holds, in a few words.
    pub name: &'static str,
    /// The check.
    pub check: fn(&Run, &Past) -> Checked,
    /// Whether it needs the whole history, which a run that continues another one's work does not have.
    pub of_whole: bool,
}

/// An invariant of a step. The [`Past`] is the one before the step.
#[derive(Clone, Copy, Debug)]
pub struct StepInvariant {
    /// Its ids.
    pub id: &'static str,
    /// What holds, in a few words.
    pub name: &'static str,
    /// The check.
    pub check: fn(&Transition<'_>, &Past) -> Checked,
    /// Whether it needs the whole history, which a run that continues another one's work does not have.
    pub of_whole: bool,
}

const fn of_state(id: &'static str, name: &'static str, check: fn(&Run, &Past) -> Checked) -> StateInvariant {
    StateInvariant { id, name, check, of_whole: false }
}

const fn of_whole_state(
    id: &'static str,
    name: &'static str,
    check: fn(&Run, &Past) -> Checked,
) -> StateInvariant {
    StateInvariant { id, name, check, of_whole: true }
}

const fn of_step(
    id: &'static str,
    name: &'static str,
    check: fn(&Transition<'_>, &Past) -> Checked,
) -> StepInvariant {
    StepInvariant { id, name, check, of_whole: false }
}

const fn of_whole_step(
    id: &'static str,
    name: &'static str,
    check: fn(&Transition<'_>, &Past) -> Checked,
) -> StepInvariant {
    StepInvariant { id, name, check, of_whole: true }
}

/// What holds in every state.
pub const OF_A_STATE: [StateInvariant; 14] = [
    of_whole_state("I-4", "limits", calls::limits_hold),
    of_whole_state("I-5", "each action has its result", calls::every_action_has_its_result),
    of_whole_state("I-6", "tries", calls::every_try_settles_once),
    of_whole_state("I-7", "what is done is not run again", calls::nothing_done_runs_again),
    of_whole_state("I-7", "rules of repeats", calls::repeats_are_refused),
    of_state("I-8", "a live run is owed an event", ends::a_live_run_is_owed_an_event),
    of_state("I-9", "silence after the reason", ends::silence_after_the_reason),
    of_whole_state("I-20", "order of evidence", kept::evidence_is_in_request_order),
    of_whole_state("I-25", "policy first", effects::policy_comes_first),
    of_state("I-26", "approvals are bound", effects::approvals_are_bound),
    of_whole_state("I-27", "taint", effects::taint_asks_a_person),
    of_state("I-27", "plans", effects::plans_come_first),
    of_state("I-28", "the base tier at the end", ends::the_base_tier_at_the_end),
    of_whole_state("W5", "effects in doubt are reported", effects::effects_in_doubt_are_reported),
];

/// What holds at every step.
pub const OF_A_STEP: [StepInvariant; 13] = [
    of_step("I-1, I-2, I-3", "cost and tokens within the limits", cost::limits_hold),
    of_step("I-1", "the rest of a shared budget", cost::shared_budget_holds),
    of_step("I-6", "dispatches of an effect", effects::no_second_dispatch),
    of_step("I-8", "the rank falls", rank::falls),
    of_step("I-8", "one reason", ends::one_reason),
    of_step("I-9", "nothing begins after the reason", ends::nothing_begins_after_the_reason),
    of_step("I-10", "the reason is true", reason::is_true),
    of_step("I-12, I-13", "nothing is lost", kept::nothing_is_lost),
    of_step("I-18", "merge", kept::unnamed_sections_stay),
    of_step("I-21", "the sum of the costs", cost::is_the_sum_of_the_charges),
    of_whole_step("I-25", "a verdict before each effect", effects::a_verdict_comes_first),
    of_step("I-26", "an approval counts once", effects::approvals_are_used_once),
    of_step("I-28", "at most one escalation", ends::escalates_once),
];

/// Checks every invariant along a run, event by event.
#[derive(Clone, Debug)]
pub struct Checker {
    past: Past,
    /// The sequence number of the last event.
    seq: u64,
    /// Whether the run began with its work item, so that the checker sees its whole history.
    is_whole: bool,
}

impl Checker {
    /// Begins with a run to which its first event was applied, and the notes of that event. Returns what does not hold
    /// then.
    pub fn start(run: &Run, notes: &[Note]) -> (Self, Vec<Violation>) {
        let checker =
            Self { past: Past::start(run, notes), seq: 0, is_whole: run.started().parent.is_none() };
        let violations = checker.state(run);
        (checker, violations)
    }

    /// Checks the next step. Returns what does not hold, in the order of the tables. Empty: everything holds.
    pub fn step(&mut self, step: &Transition<'_>) -> Vec<Violation> {
        self.seq += 1;
        let mut violations = Vec::new();
        for StepInvariant { id, name, check, .. } in
            OF_A_STEP.into_iter().filter(|it| self.is_whole || !it.of_whole)
        {
            let violation = |message| Violation { id, name, seq: self.seq, message };
            violations.extend(check(step, &self.past).err().map(violation));
        }
        self.past = self.past.after(step);
        violations.extend(self.state(step.after));
        violations
    }

    /// What is remembered of the events so far.
    pub fn past(&self) -> &Past {
        &self.past
    }

    fn state(&self, run: &Run) -> Vec<Violation> {
        let failed = |StateInvariant { id, name, check, .. }| {
            check(run, &self.past).err().map(|message| Violation { id, name, seq: self.seq, message })
        };
        OF_A_STATE.into_iter().filter(|it| self.is_whole || !it.of_whole).filter_map(failed).collect()
    }
}

/// `what` is only worded where it does not hold.
fn must(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}
