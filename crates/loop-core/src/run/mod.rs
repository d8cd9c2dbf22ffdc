//! The run: a plain value. Events change it, commands are read from it.
//!
//! This module decides what follows an event: the next phase, the budget of a call, what is stored of a reply, when the
//! run ends. It decides from the state and the event alone, and uses the modules below: `reply` parses the text of a
//! reply, `gate` decides about its proposals. It is the only module with a state.
//!
//! It does not read a clock, the bytes of a prompt or a provider's messages: sizes and instants come with the events.
//!
//! # Phases
//!
//! ```text
//!             ┌───────── selection failed: default tools ─────────┐
//! Calling ────┴▶ Running ─▶ Calling ─▶ (Calling) ─▶ gate ─▶ Running ─▶ (WaitingForPerson) ─┐
//!  select         gather     main  ▲     repair      │        act                          │
//!                                  ├── next pass ────┼─────────────────────────────────────┘
//!                                  └── last permitted pass or call: Calling, final
//!                                                    ▼
//!                     any phase, stop now ─▶ Stopping ─▶ Saving ─▶ Done
//! ```
//!
//! `Validating` precedes a confident end where the spec demands a check of the document. If an attempt has ended with an
//! output, it precedes the next pass. A valid output ends the run.
//!
//! # State
//!
//! Nine parts, each a type in a module that states its invariants: `started` (the first event's data), `clock`,
//! `phase`, `inbox`, `route`, `knowledge`, `calls`, `draft`, `budget`. What follows from another part is computed.
//! `step` matches phase and event; `rest` is what an event may change besides the phase. The transitions are in
//! `model_calls`, `model_failures`, `charging`, `eager`, `acting`, `leasing`, `asking`, `gating`, `checking`, `attempts`, `select`,
//! `final_pass`, `compact` and `stopping`. `requested` reads commands and deadlines from the state, `person_request` what
//! a person is asked, and `quote` computes the budget of a call. `parent` is what a run takes over from another one, and
//! `take_over` begins with that.

mod acting;
mod apply;
mod asking;
mod attempts;
mod budget;
mod calls;
mod charging;
mod check;
mod checking;
mod clock;
mod command;
mod compact;
mod draft;
mod eager;
mod eager_read;
mod event;
mod final_pass;
mod gating;
mod inbox;
mod knowledge;
mod leasing;
mod model_calls;
mod model_failures;
mod note;
mod outcome;
mod parent;
mod person_request;
mod phase;
mod quote;
mod rejected;
mod requested;
mod rest;
mod route;
mod select;
mod step;
mod stopping;
mod take_over;
mod trace;
mod under;
mod warning;
mod worst_case;

pub use apply::{Facts, Run, State};
pub use budget::Reserve;
pub use calls::{ChildWait, Poll, Work};
pub use check::{Cause, CheckRecord, CheckResult, CheckSubject, CheckWhat, Checking, Lack};
pub use command::{CallModel, Check, Command, RunTool, SubCallBudget};
pub use draft::{Attempt, AttemptState, CutReply, PassRecord};
pub use eager_read::{DropReason, DroppedRead, EagerRead, NotEager};
pub use event::{
    CalledBy, Event, EventKind, History, Overridden, PersonAnswer, Program, Provenance, Refusal, SaveResult,
    Started, StopMode,
};
pub use note::{Decision, Note, SelectedBy};
pub use outcome::{Outcome, Output, PassSummary, Rejection, SaveState, ServedCall, StoppedIn};
pub use parent::{Parent, ParentEffect, Takeover};
pub use person_request::PersonRequest;
pub use phase::{Ask, Batch, Call, Phase, Purpose, Stage, StartedCall, Stopping};
pub use quote::{PromptSize, Quote};
pub use rejected::{AnswerFault, Rejected};
pub use take_over::NotTakenOver;
pub use trace::RunTrace;
pub use warning::RunWarning;
pub use worst_case::WorstCase;

/// The revision of the decisions of this crate. Under one revision, the same events give the same decisions.
///
/// A driver records it with a run. A program of a lower revision does not continue the run, and one of a higher revision
/// does so if it replays every recorded decision. It is raised when a decision changes: a test compares the decisions of a
/// fixed set of runs with those that belong to the revision.
pub const DECISIONS: u32 = 2;

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::{EventKind, Note};
    use crate::types::{Evidence, Observation};

    // A journal in memory, a run's state and every list of notes take this space for each value, also for the smallest.
    #[test]
    fn a_large_value_is_boxed_or_shared() {
        assert!(size_of::<EventKind>() <= 128, "{}", size_of::<EventKind>());
        assert!(size_of::<Note>() <= 128, "{}", size_of::<Note>());
        assert!(size_of::<Evidence>() <= 96, "{}", size_of::<Evidence>());
        assert!(size_of::<Observation>() <= 224, "{}", size_of::<Observation>());
    }
}
