//! Repeats: whether a repeated call is progress or part of an unproductive loop.
//!
//! A [`Ledger`] holds the calls of a run and their results. A [`Fingerprint`] identifies a call, and
//! [`Ledger::call_status`] says what the ledger knows of it under the [`Rules`] of the run:
//!
//! - `never_rerun`: one success or final failure is enough;
//! - `progress`: results count, not calls. A call is a repeat when it returned the same twice with no change between,
//!   when it failed permanently, or when it would begin the third round of a cycle;
//! - `three_tier`: a limit for each tool, the same parameters, a similar search text;
//! - `reuse`: the earlier result, as long as it is valid;
//! - `off`: nothing is a repeat.
//!
//! A result that repeats something carries a [`RepeatNote`] before anything is refused. Notes refuse nothing.
//!
//! A tool's own settings ([`ToolRepeats`](crate::spec::ToolRepeats)) count under each of them.
//!
//! ```text
//! Fingerprint::of(call, rules) ─▶ ledger.call_status(fingerprint, rules, …) ─▶ New | Again | Repeat | InDoubt
//!                                       ▲                            │
//!                     ledger.settled(result) ◀── run it ◀── ledger.started(fingerprint, key, …)
//! ```
//!
//! [`Guard`] is all of this in one value, for a loop that is not a [`Run`](crate::Run).
//!
//! This module decides from calls, their results and the rules alone. It does not read what a call may do (see
//! `policy`), the limits of the run, or the text of a reply.

mod cycle;
mod fingerprint;
mod guard;
mod ledger;
mod near_duplicate;
mod note;
mod rule;
mod sequence;
mod stable;
mod three_tier;
mod waiting;

pub use fingerprint::{CallFacts, Fingerprint, Rules};
pub use guard::{Guard, Running};
pub use ledger::{CallStatus, Ledger, OtherCalls, SettledCall};
pub use note::RepeatNote;
pub use rule::RepeatRule;
pub use sequence::ratio_millis;
pub use stable::stable_digest;
