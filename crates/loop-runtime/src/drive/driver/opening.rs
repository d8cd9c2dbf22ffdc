//! Where a driver begins.

use std::sync::Arc;
use std::time::Duration;

use loop_core::types::Millis;
use loop_core::{Event, EventKind, Note, Run};
use loop_journal::{Entry, RunWriter};
use loop_llm::Message;
use tokio::time::Instant;

use crate::drive::driver::sharing::Sharing;
use crate::drive::hooks::StatusBefore;
use crate::drive::start_error::StartError;
use crate::watch::uses::ToolUses;

/// Milliseconds since the run's start, going on where an earlier driver left off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) origin: Instant,
    pub(crate) base: Millis,
}

impl Clock {
    pub(super) fn now(&self) -> Millis {
        self.base.plus(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn instant(&self, at: Millis) -> Instant {
        self.origin + Duration::from_millis(at.since(self.base))
    }
}

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
    pub(crate) before: StatusBefore,
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
            before: StatusBefore::of(&run),
            earlier: Vec::new(),
            shared: Sharing::default(),
            run,
            writer,
        }
    }
}

impl Opening {
    /// Applies what people say to the run. The driver records it first, as soon as the run is driven.
    pub(crate) fn apply(&mut self, stated: impl IntoIterator<Item = EventKind>) -> Result<(), StartError> {
        for kind in stated {
            let event = Event { at: self.run.now().max(self.clock.base), kind };
            let run = self.run.id().clone();
            let refused = |rejected| StartError::Refused { run, rejected };
            let notes = self.run.apply(&event).map_err(refused)?;
            self.first.push((event, notes));
        }
        Ok(())
    }
}
