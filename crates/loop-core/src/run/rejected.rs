//! Why an event is refused, and why the answer of a person does not count.

use crate::run::eager_read::NotEager;
use crate::spec::SPEC_VERSION;
use crate::types::{CommandKey, Digest};

/// Why an event was refused. The run is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The first event must be `started`, and no later one may be.
    #[error("{0}: a run begins with `started`, once")]
    NotTheStart(&'static str),
    /// The spec is not the one that the run was started with.
    #[error("the run was started with spec {expected}, this one is {found}")]
    OtherSpec {
        /// The digest in `started`.
        expected: Digest,
        /// The digest of the spec that was given.
        found: Digest,
    },
    /// The spec has a version whose rules this crate does not implement.
    #[error("the spec has version {found}, and this crate knows version {SPEC_VERSION}")]
    UnknownVersion {
        /// The version of the spec that was given.
        found: u32,
    },
    /// The event is earlier than the one before it.
    #[error("{event} at {at} ms, after an event at {now} ms")]
    BackInTime {
        /// The name of the event.
        event: &'static str,
        /// The event's instant, in milliseconds since the start.
        at: u64,
        /// The instant of the last event, in milliseconds since the start.
        now: u64,
    },
    /// The event cannot occur in this phase.
    #[error("{event} while {phase}")]
    OutOfOrder {
        /// The name of the event.
        event: &'static str,
        /// The name of the phase.
        phase: &'static str,
    },
    /// No such call or action is open, or this try of it has settled already.
    #[error("{event} for {key} attempt {attempt}, which is not open while {phase}")]
    NotOpen {
        /// The name of the event.
        event: &'static str,
        /// The call or action that it names.
        key: CommandKey,
        /// The try that it names, from 1.
        attempt: u32,
        /// The name of the phase.
        phase: &'static str,
    },
    /// A grant or a refusal differs from the one that the core computes.
    #[error("{key}: announced {announced}, but the state gives {computed}")]
    OtherQuote {
        /// The call.
        key: CommandKey,
        /// The quote in the event.
        announced: String,
        /// The quote that the core computes.
        computed: String,
    },
    /// A person's answer does not count.
    #[error("the answer to {key} does not count: {why}")]
    Answer {
        /// The action that it names.
        key: CommandKey,
        /// Why it does not count.
        why: AnswerFault,
    },
    /// A read may not start before its reply is complete.
    #[error("{key} may not start before its reply is complete: {why}")]
    NotEager {
        /// The action's key.
        key: CommandKey,
        /// Why it may not start.
        why: NotEager,
    },
    /// The instruction of a person is empty.
    #[error("the instruction is empty")]
    EmptyInstruction,
    /// `deadline_reached` came before the deadline.
    #[error("deadline_reached at {at} ms, before the deadline")]
    Early {
        /// The event's instant, in milliseconds since the start.
        at: u64,
    },
}

/// Why the answer of a person does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// No action of the run has this key.
    #[error("the run has no such action")]
    NoAction,
    /// The action needed no person, or it has been decided and the run has continued.
    #[error("no person is asked about it: its verdict is `{verdict}`")]
    NotRequested {
        /// The name of its verdict.
        verdict: &'static str,
    },
    /// The person is asked only after the other calls of the pass have ended.
    #[error("it is not asked about yet: other calls of its pass still run")]
    NotYet,
    /// The action has been answered, and the run still waits for others.
    #[error("it has been answered already")]
    Answered,
    /// The time to answer has ended.
    #[error("its time is over: nobody answered within {limit_ms} ms, which counts as a no")]
    Expired {
        /// The time that there was, in milliseconds.
        limit_ms: u64,
    },
    /// The answer was given for another tool, other parameters, another tool manifest or another policy.
    #[error("what was answered is something else: other arguments, tools or policy than the action has")]
    OtherBinding,
    /// The action is a question, which takes an answer and not an approval.
    #[error("it is a question: it takes an answer, or a denial")]
    IsQuestion,
    /// The action is an approval request, which takes no text.
    #[error("it is an approval request, not a question: it takes an approval or a denial")]
    IsNoQuestion,
    /// The answer is empty.
    #[error("the answer is empty")]
    Empty,
    /// The policy demands several people, and the approval names no account that was checked.
    #[error(
        "`gate.approvals` demands {people} people, and this approval names no account that was checked; approve it \
         through `loopgate serve`, each person with a token of their own"
    )]
    Unnamed {
        /// How many people have to approve.
        people: u32,
    },
    /// The same account has approved it already.
    #[error(
        "this account has approved it already, and `gate.approvals` demands {people} people: another token has to approve it"
    )]
    SamePerson {
        /// How many people have to approve.
        people: u32,
    },
}
