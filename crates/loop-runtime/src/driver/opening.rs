//! Where a driver begins.

use std::sync::Arc;

use loop_core::{Event, Note, Run};
use loop_journal::{Entry, RunWriter};
use loop_llm::Message;
use tokio::time::Instant;

use crate::driver::Clock;
use crate::driver::sharing::Sharing;
use crate::hooks::Before;
use crate::uses::ToolUses;

/// Where a driver begins: a state, and what is to be recorded before anything else.
pub(crate) struct Opening {
    pub(crate) run: Run,
    pub(crate) writer: Box<dyn RunWriter>,
    pub(crate) seq: u64,
    pub(crate) clock: Clock,
    /// The first entry of a new run, with which its journal was opened.
    pub(crate) opened: Option<Arc<Entry>>,
    pub(crate) first: Vec<(Event, Vec<Note>)>,
    /// What tools were used before.
    pub(crate) uses: ToolUses,
    /// The messages before the run.
    pub(crate) history: Arc<[Message]>,
    /// The run as its hooks know it: as it was before `first`.
    pub(crate) before: Before,
    /// What drivers before this one journaled, where an observer is to know of it.
    pub(crate) earlier: Vec<Entry>,
    /// What earlier drivers may have left in the budgets that runs share.
    pub(crate) shared: Sharing,
}

impl Opening {
    /// The beginning of a new run, whose journal was opened with its first entry.
    pub(crate) fn of_new(
        run: Run,
        writer: Box<dyn RunWriter>,
        opened: Arc<Entry>,
        history: Arc<[Message]>,
    ) -> Self {
        Self {
            seq: 0,
            clock: Clock { origin: Instant::now(), base: run.now() },
            opened: Some(opened),
            first: Vec::new(),
            uses: ToolUses::default(),
            history,
            before: Before::of(&run),
            earlier: Vec::new(),
            shared: Sharing::default(),
            run,
            writer,
        }
    }
}
