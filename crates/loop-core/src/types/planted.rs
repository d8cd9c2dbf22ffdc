//! Planted bugs: known faults of the core that a simulation must find.
//!
//! They exist with the feature `planted-bugs` alone, and do nothing until one is chosen for a thread with
//! [`Planted::choose`]. Without the feature [`is`] is a constant, so the compiler removes every planted branch.

/// A bug that is planted in the core. Each names what the core does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`what` says it in a sentence, for people as well")]
#[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub, reason = "public with the feature"))]
pub enum Planted {
    RepeatRunsAgain,
    DoubtForgotten,
    RetryUnderNewKey,
    ResultLost,
    EvidenceByCompletion,
    ReasoningIsFree,
    SubCallIsFree,
    ReserveIsHalved,
    SubCallsNotReserved,
    OneToolCallMore,
    OnePassMore,
    ApprovalCountsTwice,
    BindingIgnored,
    LateApproval,
    TaintDropped,
    StaleAttempt,
    ClockGoesBack,
    DeadlineEarly,
    StopReasonLies,
    StopNowWaits,
    ActsAfterReason,
    RetryAtIgnored,
    RetriesForever,
    TierNotRestored,
    HalfSectionKept,
    LostWriteRunsAgain,
    ForbiddenRuns,
    WaitingCounts,
    SectionDropped,
    AmbientInput,
    InstructionDropped,
    SavesAgain,
    RejectionMovesClock,
    DoubtNotReported,
    WorkAfterStopRequest,
    ArgumentsAsWritten,
    SharedRestAddsUp,
    SharedRestStays,
    OneApprovalIsEnough,
    SamePersonTwice,
}

#[cfg(feature = "planted-bugs")]
mod chosen {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
        static TICKS: Cell<u64> = const { Cell::new(0) };
    }

    impl Planted {
        /// Every planted bug, in order of declaration.
        pub const ALL: [Self; 40] = [
            Self::RepeatRunsAgain,
            Self::DoubtForgotten,
            Self::RetryUnderNewKey,
            Self::ResultLost,
            Self::EvidenceByCompletion,
            Self::ReasoningIsFree,
            Self::SubCallIsFree,
            Self::ReserveIsHalved,
            Self::SubCallsNotReserved,
            Self::OneToolCallMore,
            Self::OnePassMore,
            Self::ApprovalCountsTwice,
            Self::BindingIgnored,
            Self::LateApproval,
            Self::TaintDropped,
            Self::StaleAttempt,
            Self::ClockGoesBack,
            Self::DeadlineEarly,
            Self::StopReasonLies,
            Self::StopNowWaits,
            Self::ActsAfterReason,
            Self::RetryAtIgnored,
            Self::RetriesForever,
            Self::TierNotRestored,
            Self::HalfSectionKept,
            Self::LostWriteRunsAgain,
            Self::ForbiddenRuns,
            Self::WaitingCounts,
            Self::SectionDropped,
            Self::AmbientInput,
            Self::InstructionDropped,
            Self::SavesAgain,
            Self::RejectionMovesClock,
            Self::DoubtNotReported,
            Self::WorkAfterStopRequest,
            Self::ArgumentsAsWritten,
            Self::SharedRestAddsUp,
            Self::SharedRestStays,
            Self::OneApprovalIsEnough,
            Self::SamePersonTwice,
        ];

        /// Chooses the bug that runs on this thread have from now on; `None`: they have none.
        pub fn choose(bug: Option<Self>) {
            CHOSEN.with(|chosen| chosen.set(bug));
            TICKS.with(|ticks| ticks.set(0));
        }

        /// What the core does wrong with this bug.
        pub fn what(self) -> &'static str {
            match self {
                Self::RepeatRunsAgain => "a repeat of a call that is done runs again",
                Self::DoubtForgotten => "an effect in doubt runs again without an approval",
                Self::RetryUnderNewKey => "a retry of a write runs under a new key",
                Self::ResultLost => "the last result of a batch with several calls is lost",
                Self::EvidenceByCompletion => "results are stored in order of completion",
                Self::ReasoningIsFree => "reasoning tokens are not charged",
                Self::SubCallIsFree => "the sub-call of a smart tool is not charged",
                Self::ReserveIsHalved => "a strict reserve counts half of the prompt",
                Self::SubCallsNotReserved => "granted sub-calls are not reserved",
                Self::OneToolCallMore => "one tool call more than the limit is admitted",
                Self::OnePassMore => "one pass more than the limit is made",
                Self::ApprovalCountsTwice => "a second answer to a request counts",
                Self::BindingIgnored => "an answer for other arguments counts",
                Self::LateApproval => "an answer after the deadline counts",
                Self::TaintDropped => "untrusted results leave no taint",
                Self::StaleAttempt => "the result of an earlier try settles a later one",
                Self::ClockGoesBack => "an event before the last one is accepted",
                Self::DeadlineEarly => "a deadline is accepted before it is due",
                Self::StopReasonLies => "a run that reached its limit of passes says that it is confident",
                Self::StopNowWaits => "a stop that must be immediate waits for the call in flight",
                Self::ActsAfterReason => "calls of a reply after the stop reason run",
                Self::RetryAtIgnored => "a retry does not wait for the instant that the provider named",
                Self::RetriesForever => "a failed call is retried without a limit of its own",
                Self::TierNotRestored => "a run ends on another tier than the base tier",
                Self::HalfSectionKept => "an incomplete section of a broken reply is stored",
                Self::LostWriteRunsAgain => "an irreversible write whose driver died runs again",
                Self::ForbiddenRuns => "a tool that policy forbids runs",
                Self::WaitingCounts => "time that people take counts against the wall clock",
                Self::SectionDropped => "a section that a reply does not name is dropped",
                Self::AmbientInput => "a decision depends on something that is not in the journal",
                Self::InstructionDropped => "an instruction during a call is dropped",
                Self::SavesAgain => "an outcome that was saved is saved again",
                Self::RejectionMovesClock => "a rejected event moves the clock",
                Self::DoubtNotReported => "an outcome does not name an effect in doubt",
                Self::WorkAfterStopRequest => "a call starts after a stop was requested",
                Self::ArgumentsAsWritten => "a tool runs with other arguments than those that were judged",
                Self::SharedRestAddsUp => "what a shared budget leaves is added to what it left before",
                Self::SharedRestStays => "a resumed run does not ask the shared budget anew",
                Self::OneApprovalIsEnough => "an action runs with one approval where two are demanded",
                Self::SamePersonTwice => "two approvals of one person count as those of two people",
            }
        }
    }

    /// Whether this bug is chosen on this thread.
    pub(crate) fn is(bug: Planted) -> bool {
        CHOSEN.with(Cell::get) == Some(bug)
    }

    /// A number that no event has: how often it was asked for on this thread.
    pub(crate) fn tick() -> u64 {
        TICKS.with(|ticks| {
            ticks.set(ticks.get() + 1);
            ticks.get()
        })
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use chosen::{is, tick};

/// Whether this bug is planted: never, without the feature.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Planted) -> bool {
    false
}

/// Nothing is counted without the feature.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn tick() -> u64 {
    0
}
