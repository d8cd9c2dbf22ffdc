//! The finding of a backtest: how a recorded run differs under another policy, where, and what is known of its end.

use loop_core::run::WorstCase;
use loop_core::types::{StopClass, Totals};
use loop_core::{Outcome, StopReason};
use schemars::JsonSchema;
use serde::Serialize;

/// How a run under another policy differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Nothing differs.
    Same,
    /// It ends at the same event, for another reason. Document and cost are the recorded ones.
    OtherReason,
    /// It ends before the recorded run did. Document, cost and time are exact, unless a call was in flight.
    StopsEarlier,
    /// It makes its final pass before the recorded run did. The reply to that prompt is not recorded.
    FinalPass,
    /// It continues where the recorded run ended, or made its final pass.
    Continues,
    /// It decides otherwise, so that the model would have read something else.
    Differs,
}

impl FindingKind {
    /// Every kind, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Same, Self::OtherReason, Self::StopsEarlier, Self::FinalPass, Self::Continues, Self::Differs];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::OtherReason => "other_reason",
            Self::StopsEarlier => "stops_earlier",
            Self::FinalPass => "final_pass",
            Self::Continues => "continues",
            Self::Differs => "differs",
        }
    }

    /// Whether the end of the run is known: its document, its cost and its reason.
    pub fn is_known(self) -> bool {
        match self {
            Self::Same | Self::OtherReason | Self::StopsEarlier => true,
            Self::FinalPass | Self::Continues | Self::Differs => false,
        }
    }
}

/// The entry and the pass of a recorded run at which the other run first differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivergencePoint {
    /// The number of the entry, from 0.
    pub entry: u64,
    /// The pass, from 1; 0 before the first.
    pub pass: u32,
}

/// What a recorded run does under another policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How it differs.
    pub kind: FindingKind,
    /// Where it differs first. `None`: nowhere.
    pub at: Option<DivergencePoint>,
    /// What it used up to that place, or up to its end if the end is known.
    pub totals: Totals,
    /// Why it ends, and the class. For a final pass the limit that causes it. `None`: unknown, or the recorded run has
    /// not ended.
    pub stop: Option<(StopReason, StopClass)>,
    /// What differs, in one line. Empty if nothing does.
    pub what: String,
    /// What it may use at most beyond [`totals`](Self::totals). `None`: the end is known.
    pub more: Option<WorstCase>,
    /// Its outcome if it stops earlier. `None` otherwise: its outcome is the recorded one, or unknown.
    pub outcome: Option<Box<Outcome>>,
    /// Whether [`totals`](Self::totals) is exact. `false`: a call was in flight when the run ended, and counts with its
    /// whole reserve.
    pub is_exact: bool,
    /// Whether it ends with the document, the answer or the output with which the recorded run ended.
    pub is_same_result: bool,
}
