//! What a stop means for the caller.

use serde::Deserialize;
use serde::Serialize;
use strum::VariantArray;

/// What a stop means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum StopClass {
    /// The document or the answer is complete.
    Answered,
    /// There is a document, and it is incomplete.
    Partial,
    /// The model or a content filter refused the work.
    Refused,
    /// A person has to continue the work.
    NeedsHuman,
    /// A model, a tool, storage or an output failed.
    Failed,
    /// The outcome of an effect is unknown. A person has to check it before anything is repeated.
    InDoubt,
    /// A person or the calling program stopped the run.
    Cancelled,
}

impl StopClass {
    /// Every class, in order of declaration.
    pub const ALL: &[Self] = Self::VARIANTS;

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

    /// The class's name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
