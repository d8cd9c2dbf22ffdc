//! Notes: what was decided while an event was applied, and why, as data.
//!
//! They are journaled beside the event, so that a replay can be held against what was decided then.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, Condition, JudgedAction, TierCause};
use crate::reply::{Merge, ParseWarning};
use crate::run::event::Refusal;
use crate::types::{CommandKey, Confidence, EvidenceId, Millis, PicoUsd, Status, Tier, Usage};

/// Something that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Note {
    /// Which tools run before the first pass, and who said so.
    Selected {
        /// Who selected.
        by: SelectedBy,
        /// How many run.
        runs: u32,
    },
    /// What was decided about an action.
    ActionJudged(JudgedAction),
    /// What a call cost.
    CallCharged {
        /// Which call, or which action's sub-call.
        key: CommandKey,
        /// Which try of it.
        attempt: u32,
        /// The tier that was used.
        tier: Tier,
        /// Its tokens.
        usage: Usage,
        /// Its cost; `None` while the price is unknown.
        cost: Option<PicoUsd>,
    },
    /// A call may not be made; what happens instead follows from the call.
    CallRefused {
        /// Which call.
        key: CommandKey,
        /// Why.
        refusal: Refusal,
    },
    /// A call failed and is tried again.
    CallRetried {
        /// Which call.
        key: CommandKey,
        /// The next try.
        attempt: u32,
        /// Not before this instant.
        not_before: Option<Millis>,
    },
    /// A tool was not ready; it is asked again without a model.
    Polled {
        /// Which action.
        key: CommandKey,
        /// The next try.
        attempt: u32,
        /// Not before this instant.
        not_before: Millis,
    },
    /// A call or an action of a driver that is gone was settled.
    Lost {
        /// Which one.
        key: CommandKey,
        /// The try that was lost.
        attempt: u32,
    },
    /// An action has settled.
    ActionSettled {
        /// Which one.
        key: CommandKey,
        /// The number of its observation.
        evidence: EvidenceId,
        /// How it ended.
        status: Status,
    },
    /// An old evidence body gives way to its summary, because a call did not fit.
    EvidenceShortened {
        /// Which one.
        evidence: EvidenceId,
    },
    /// A conversation has become too long for a call: results of its older part give way to their summaries, and the
    /// model's own turns there go back without what only their provider can read.
    Compacted {
        /// The last pass of the older part; 0 where only messages before the run are.
        through: u32,
        /// Whether the messages before the run are part of it.
        history: bool,
    },
    /// An attempt at an output begins.
    AttemptBegan {
        /// From 1.
        attempt: u32,
        /// Its first pass.
        pass: u32,
    },
    /// An output was rejected.
    OutputRejected {
        /// The attempt that it ends.
        attempt: u32,
        /// `schema`, or the validator's name.
        by: Arc<str>,
        /// What is wrong.
        message: Arc<str>,
    },
    /// A reply was read.
    ReplyRead {
        /// The pass.
        pass: u32,
        /// What it said of its confidence.
        confidence: Confidence,
        /// Why it said so.
        reason: Arc<str>,
        /// Whether it held a contract that counts.
        has_contract: bool,
        /// What was not as it should be.
        parse_warnings: Vec<ParseWarning>,
    },
    /// Sections were merged into the document.
    Merged {
        /// The pass.
        pass: u32,
        /// What it did.
        merge: Merge,
    },
    /// The gate decided.
    GateDecided {
        /// The pass that it decided after.
        pass: u32,
        /// The confidence that it saw.
        confidence: Confidence,
        /// What follows.
        decision: Decision,
    },
    /// The next main call is another tier's.
    TierChanged {
        /// Whose it was.
        from: Tier,
        /// Whose it is.
        to: Tier,
        /// Why.
        why: TierCause,
    },
    /// A reply asked for more calls than it may: the rest was counted and not read.
    CallsNotRead {
        /// The reply's call.
        call: CommandKey,
        /// `limits.requested_calls`.
        limit: u32,
        /// How many were not read.
        count: u32,
    },
    /// The reason is fixed.
    Stopped {
        /// Why.
        certificate: Certificate,
    },
}

/// Who selected the tools that run before the first pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum SelectedBy {
    /// The selector.
    Selector,
    /// The domain's default tools, since the selector could not.
    Defaults {
        /// Why the selector could not.
        why: Arc<str>,
    },
}

/// What follows a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Run actions, ask a person about others, then the next pass.
    Act {
        /// How many run.
        runs: u32,
        /// How many wait for a person after them.
        asks: u32,
    },
    /// Run actions, then validate the output.
    Validate {
        /// How many run.
        runs: u32,
    },
    /// Another pass at once, to revise an answer at high confidence.
    Revise {
        /// What is missing.
        missing: Vec<Arc<str>>,
    },
    /// The final pass, since only its time is left.
    FinalPass {
        /// The limit.
        cause: Condition,
    },
    /// Stop.
    Stop(Certificate),
}
