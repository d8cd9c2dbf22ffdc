//! Repeats: when the same call once more is work, and when it is a loop.
//!
//! A [`Ledger`] keeps what was called in a run and what that told. A call is made a [`Fingerprint`], by which it is known
//! again, and [`Ledger::call_status`] says what it is to the ledger under the [`Rules`] in force:
//!
//! - `never_rerun`: one success or final failure is enough;
//! - `progress`: results count, not calls. A call is a repeat when it has told the same twice and nothing was changed
//!   between, when it failed for good, or when it would begin the third round of a cycle;
//! - `three_tier`: a limit for each tool, the same parameters, a search text that is alike;
//! - `reuse`: the earlier result, as long as it still stands;
//! - `off`: nothing is a repeat.
//!
//! A tool's own settings ([`ToolRepeats`](crate::ToolRepeats)) count under each of them.
//!
//! ```text
//! Fingerprint::of(call, rules) ──▶ ledger.call_status(sign, rules, other calls of the batch) ──▶ New | Again | Repeat | InDoubt
//!                                   ▲                                        │
//!                     ledger.settled(what came back) ◀── run it ◀── ledger.started(sign, key, …)
//! ```
//!
//! [`Guard`] is all of this in one value, for a loop that is not a [`Run`](crate::Run).
//!
//! This room decides from calls, their results and the rules alone. It never looks at what a call may do (that is the room
//! `policy`), at limits of the run, or at a model's words.

mod cycle;
mod fingerprint;
mod guard;
mod ledger;
mod near_duplicate;
mod rule;
mod sequence;
mod stable;
mod three_tier;
mod waiting;

pub use fingerprint::{CallFacts, Fingerprint, Rules};
pub use guard::{Guard, Running};
pub use ledger::{CallStatus, Ledger, OtherCalls, Settled};
pub use rule::RepeatRule;
pub use sequence::ratio_millis;
pub use stable::stable_digest;
