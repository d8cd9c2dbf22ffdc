//! What a stop means for the one who asked.

use serde::Deserialize;
use serde::Serialize;

/// What a stop means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopClass {
    /// The document answers.
    Answered,
    /// The document is there and says less than it might.
    Partial,
    /// The work was refused.
    Refused,
    /// A person has to go on.
    NeedsHuman,
    /// Something broke.
    Failed,
    /// An effect's outcome is unknown: a person has to look before anything is done again.
    InDoubt,
    /// Someone stopped it.
    Cancelled,
}

impl StopClass {
    /// The exit code of a program that ends with this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Answered => 0,
            Self::Partial => 3,
            Self::Refused => 4,
            Self::NeedsHuman => 5,
            Self::Failed => 6,
            Self::InDoubt => 7,
            Self::Cancelled => 130,
        }
    }

    /// The class as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::NeedsHuman => "needs_human",
            Self::Failed => "failed",
            Self::InDoubt => "in_doubt",
            Self::Cancelled => "cancelled",
        }
    }
}
