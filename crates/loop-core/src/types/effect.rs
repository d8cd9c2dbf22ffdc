//! What a tool does to the world.

use serde::Deserialize;
use serde::Serialize;

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it only looks.
    Read,
    /// Changes something; doing it twice is the same as once.
    WriteIdempotent,
    /// Changes something; the receiver drops a second call with the same key.
    WriteKeyed,
    /// Changes something that cannot be taken back.
    WriteIrreversible,
    /// Sends something out.
    Egress,
    /// Runs a program.
    Exec,
}

impl Effect {
    /// Whether the tool only looks.
    pub fn is_read(self) -> bool {
        self == Self::Read
    }

    /// Whether doing it twice is the same as doing it once.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Self::Read | Self::WriteIdempotent | Self::WriteKeyed)
    }

    /// The effect as it is written, for example `write_keyed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::WriteIdempotent => "write_idempotent",
            Self::WriteKeyed => "write_keyed",
            Self::WriteIrreversible => "write_irreversible",
            Self::Egress => "egress",
            Self::Exec => "exec",
        }
    }
}
