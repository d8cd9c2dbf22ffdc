//! Notes: what was decided while an event was applied, and why, as data.
//!
//! Notes are journaled with the event, so that a replay can be compared with the first decision.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::{Certificate, Condition, JudgedAction, TierCause};
use crate::repeats::RepeatNote;
use crate::reply::{Merge, ParseWarning};
use crate::run::eager_read::DroppedRead;
use crate::run::event::Refusal;
use crate::spec::{Calibrated, PlanSlot};
use crate::types::{
    ChildUse, CommandKey, Confidence, EvidenceId, Lease, Millis, PicoUsd, RequestPart, Status, Tier, Usage,
};

/// Something that the core decided, for the journal and for observers. Large values are boxed or shared, because every
/// note takes the space of the largest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Note {
    /// The tools that run before the first pass were selected.
    Selected {
        /// Who selected them.
        by: SelectedBy,
        /// How many of them run.
        runs: u32,
    },
    /// A model's plan was accepted, in place of an earlier one.
    Planned {
        /// The intended effects.
        slots: Vec<PlanSlot>,
    },
    /// An action got its verdict.
    ActionJudged(Arc<JudgedAction>),
    /// A model call was charged.
    CallCharged {
        /// The key of the call, or of the action whose sub-call it was.
        key: CommandKey,
        /// The try, from 1.
        attempt: u32,
        /// The tier that was used.
        tier: Tier,
        /// Its tokens.
        usage: Usage,
        /// Its cost in pico-dollars. `None`: the price is not known.
        cost: Option<PicoUsd>,
    },
    /// A run that is called as a tool got its lease.
    Leased {
        /// The key of the action.
        key: CommandKey,
        /// What it may use.
        lease: Box<Lease>,
    },
    /// A run that was called as a tool was charged, and the rest of its lease returned.
    LeaseCharged {
        /// The key of the action.
        key: CommandKey,
        /// What it is charged. If it did not settle, this is its whole lease, and `used.run` is `None`.
        used: Box<ChildUse>,
    },
    /// A model call is refused. What happens instead follows from the call.
    CallRefused {
        /// The call's key.
        key: CommandKey,
        /// The reason.
        refusal: Refusal,
    },
    /// A model call failed and is tried again.
    CallRetried {
        /// The call's key.
        key: CommandKey,
        /// The next try, from 2.
        attempt: u32,
        /// The earliest instant of that try, since the start of the run. `None`: at once.
        not_before: Option<Millis>,
        /// The part of the request that the provider refused, which this try and later calls leave out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        without: Option<RequestPart>,
    },
    /// A tool was not ready (`pending`). It is polled again without a model call.
    Polled {
        /// The action's key.
        key: CommandKey,
        /// The next try, from 2.
        attempt: u32,
        /// The earliest instant of that try, since the start of the run.
        not_before: Millis,
    },
    /// A call or an action that an earlier driver left in flight was settled.
    Lost {
        /// Its key.
        key: CommandKey,
        /// The try that was lost, from 1.
        attempt: u32,
    },
    /// An admitted action takes a read that started before its reply was complete.
    ReadUsed {
        /// The action's key.
        action: CommandKey,
        /// The key under which the read runs.
        key: CommandKey,
        /// The try of the read, from 1.
        attempt: u32,
    },
    /// The result of a read that started before its reply was complete is not used.
    ReadDropped(DroppedRead),
    /// An action settled.
    ActionSettled {
        /// Its key.
        key: CommandKey,
        /// The number of its result.
        evidence: EvidenceId,
        /// How it ended.
        status: Status,
    },
    /// A result repeats something, and the model reads a note with it.
    ResultNoted {
        /// The key of the action.
        key: CommandKey,
        /// The number of the result.
        evidence: EvidenceId,
        /// What it repeats.
        note: RepeatNote,
    },
    /// A result is shown by its summary from now on, because a call did not fit into the context.
    EvidenceShortened {
        /// The number of the result.
        evidence: EvidenceId,
    },
    /// A conversation was too long for a call. In its older part, results are shown by their summaries, and data that
    /// only the provider can read is left out.
    Compacted {
        /// The last pass of the older part; 0 where only the messages before the run are older.
        through: u32,
        /// Whether the messages before the run are part of it.
        history: bool,
    },
    /// An attempt at an output begins.
    AttemptBegan {
        /// The attempt, from 1.
        attempt: u32,
        /// Its first pass, from 1.
        pass: u32,
    },
    /// An output was rejected.
    OutputRejected {
        /// The attempt that it ends, from 1.
        attempt: u32,
        /// `schema`, or the name of the validator.
        by: Arc<str>,
        /// What is wrong, for the model.
        message: Arc<str>,
    },
    /// A reply was read.
    ReplyRead {
        /// The pass, from 1.
        pass: u32,
        /// The stated confidence.
        confidence: Confidence,
        /// The model's reason for it. Empty if it gave none.
        reason: Arc<str>,
        /// Whether the reply has a contract block that counts.
        has_contract: bool,
        /// Irregularities in the reply. Empty if there are none.
        parse_warnings: Vec<ParseWarning>,
        /// The measured level of the confidence. `None`: the stated one counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calibrated: Option<Calibrated>,
    },
    /// Sections were merged into the document.
    Merged {
        /// The pass, from 1.
        pass: u32,
        /// What changed.
        merge: Merge,
    },
    /// The gate decided.
    GateDecided {
        /// The pass after which it decided, from 1; 0 before the first.
        pass: u32,
        /// The confidence that it decided on.
        confidence: Confidence,
        /// The decision.
        decision: Decision,
    },
    /// The next main call is made on another tier.
    TierChanged {
        /// The tier before.
        from: Tier,
        /// The tier from now on.
        to: Tier,
        /// The reason.
        why: TierCause,
    },
    /// A reply requested more calls than `limits.requested_calls`. The rest was counted and not read.
    CallsNotRead {
        /// The key of the reply's call.
        call: CommandKey,
        /// The value of `limits.requested_calls`.
        limit: u32,
        /// How many calls were not read.
        count: u32,
    },
    /// The run stops, and the reason is fixed.
    Stopped {
        /// The explanation.
        certificate: Box<Certificate>,
    },
    /// Everything has settled, and the class of the stop differs from the class at the time when its reason was fixed.
    StopSettled {
        /// The explanation, as the outcome has it.
        certificate: Box<Certificate>,
    },
}

impl Note {
    /// The explanation of the stop that this note records. Of several in a run the last one is the outcome's.
    pub fn certificate(&self) -> Option<&Certificate> {
        let (Self::Stopped { certificate } | Self::StopSettled { certificate }) = self else { return None };
        Some(certificate)
    }
}

/// Who selected the tools that run before the first pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum SelectedBy {
    /// The auxiliary model.
    Selector,
    /// The domain's default tools, because the selection failed.
    Defaults {
        /// Why the selection failed.
        why: Arc<str>,
    },
}

/// What the gate decided after a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Run actions, ask a person about others, then make the next pass.
    Act {
        /// How many actions run.
        runs: u32,
        /// How many wait for a person afterwards.
        asks: u32,
    },
    /// Run actions, then check the output; or check the document, before the run may end as confident.
    Check {
        /// How many actions run.
        runs: u32,
    },
    /// Make another pass at once, to complete an answer at high confidence.
    Revise {
        /// What is missing.
        missing: Vec<Arc<str>>,
    },
    /// Make the final pass, because only its reserve of time is left.
    FinalPass {
        /// The limit that ends the run.
        cause: Box<Condition>,
    },
    /// Stop, for the reason in the certificate.
    Stop(Box<Certificate>),
}
