//! Bugs that are planted around the real driver: in its disk, its tools and its ledger.

/// A planted bug of the world of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    AcknowledgedIsLost,
    AcknowledgedUnwritten,
    EntryIsAltered,
    DispatchedTwice,
    OrphanTask,
    WorksAfterDeath,
    ReservedUnwritten,
    SettledForFree,
}

impl Bug {
    pub(crate) const ALL: [Self; 8] = [
        Self::AcknowledgedIsLost,
        Self::AcknowledgedUnwritten,
        Self::EntryIsAltered,
        Self::DispatchedTwice,
        Self::OrphanTask,
        Self::WorksAfterDeath,
        Self::ReservedUnwritten,
        Self::SettledForFree,
    ];

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::AcknowledgedIsLost => "the disk loses an entry that it acknowledged when the process dies",
            Self::AcknowledgedUnwritten => "the disk acknowledges an entry that it did not write",
            Self::EntryIsAltered => "an entry is altered while no process runs",
            Self::DispatchedTwice => "a tool is dispatched twice for one announcement",
            Self::OrphanTask => "a tool continues after its run has ended",
            Self::WorksAfterDeath => "a tool is dispatched by a process that is dead",
            Self::ReservedUnwritten => {
                "the ledger of a shared budget acknowledges a reservation that it did not write"
            }
            Self::SettledForFree => "a call is settled in the shared budget for nothing",
        }
    }
}
