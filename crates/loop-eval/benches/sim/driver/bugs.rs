//! Bugs that are planted around the real driver: in its disk and in its tools.

/// A planted bug of the world of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    AcknowledgedIsLost,
    AcknowledgedUnwritten,
    EntryIsAltered,
    DispatchedTwice,
    OrphanTask,
    WorksAfterDeath,
}

impl Bug {
    pub(crate) const ALL: [Self; 6] = [
        Self::AcknowledgedIsLost,
        Self::AcknowledgedUnwritten,
        Self::EntryIsAltered,
        Self::DispatchedTwice,
        Self::OrphanTask,
        Self::WorksAfterDeath,
    ];

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::AcknowledgedIsLost => "the disk loses an entry that it acknowledged when the process dies",
            Self::AcknowledgedUnwritten => "the disk acknowledges an entry that it did not write",
            Self::EntryIsAltered => "an entry is altered while no process runs",
            Self::DispatchedTwice => "a tool is dispatched twice for one announcement",
            Self::OrphanTask => "a tool continues after its run has ended",
            Self::WorksAfterDeath => "a tool is dispatched by a process that is dead",
        }
    }
}
