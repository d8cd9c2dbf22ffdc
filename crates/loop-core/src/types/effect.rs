//! What a tool changes outside of the run.

use serde::Deserialize;
use serde::Serialize;

/// What a tool changes outside of the run. The domain or the program declares it for each tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing; the call only reads.
    Read,
    /// Changes something. A second call with the same arguments has the same result as one.
    WriteIdempotent,
    /// Changes something. The receiver ignores a second call with the same idempotency key.
    WriteKeyed,
    /// Changes something that cannot be undone. The core does not repeat it when its end is unknown.
    WriteIrreversible,
    /// Sends data out of the operator's systems.
    Egress,
    /// Runs a program.
    Exec,
}

impl Effect {
    /// Whether the tool only reads.
    pub fn is_read(self) -> bool {
        self == Self::Read
    }

    /// Whether running it twice has the effect of running it once.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Self::Read | Self::WriteIdempotent | Self::WriteKeyed)
    }

    /// The effect's name in JSON, for example `write_keyed`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
