//! What observers see, and what a handle can ask for.

use std::sync::Arc;

use loop_core::{CommandKey, PersonAnswer, StopMode};

use crate::journal::Entry;

/// Something that an observer may want to show. Signals never hold a run up: they wait in the observer's own queue.
#[derive(Clone, Debug)]
pub enum Signal {
    /// An event was applied and is durable.
    Recorded(Arc<Entry>),
    /// A piece of a reply that is still coming.
    Text {
        /// The call.
        key: CommandKey,
        /// It follows what came before without a gap.
        text: Arc<str>,
    },
}

/// What is asked of a run from outside.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Stop(StopMode),
    WithdrawStop,
    Answer(CommandKey, PersonAnswer),
}
