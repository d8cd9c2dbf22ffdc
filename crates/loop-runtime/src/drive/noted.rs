//! Journals answers and instructions for a run that no process drives, and does not continue it.

use std::sync::Arc;

use loop_core::types::RunId;
use loop_core::{EventKind, Run};
use loop_journal::{Durability, Entry};

use crate::drive::driver::Opening;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;
use crate::watch::sink;

impl Runner {
    /// Journals answers and instructions of people for a run, without driving it. Returns the run as it is then.
    ///
    /// # Errors
    /// When the journal fails, the runner's tools, prompts or settings are not those that the run was started with, or
    /// the run refuses one of them. Nothing is journaled then.
    pub async fn note_down(
        &self,
        run: &RunId,
        stated: impl IntoIterator<Item = EventKind>,
    ) -> Result<Run, StartError> {
        let opening = self.reopen_with(run, stated).await?;
        self.note_opened(run, opening).await
    }

    /// Journals what people said to an opened run, and leaves it.
    async fn note_opened(&self, run: &RunId, opening: Opening) -> Result<Run, StartError> {
        let Opening { run: state, mut writer, seq, first, before, .. } = opening;
        let messages = self.parts().new_messages(before, &state);
        let tells = !messages.is_empty();
        let entries: Vec<Arc<Entry>> = first
            .into_iter()
            .zip(seq..)
            .map(|((event, notes), seq)| Arc::new(Entry { seq, event, notes }))
            .collect();
        writer.announce(messages);
        // People see that it is recorded, so it must be durable. The request of another process is answered with it.
        writer.append_all(&entries, Durability::Synced).await.map_err(|(_, error)| error)?;
        drop(writer);
        if tells {
            // The run has no driver that would deliver them. What fails here is delivered later.
            _ = self.parts().hooks.deliver_of(&*self.parts().journal, run).await;
        }
        Ok(state)
    }

    /// The same for a request that was made in another process, with its id there. `None`: it is answered already.
    ///
    /// # Errors
    /// As [`note_down`](Self::note_down). If the run refuses what is asked, that is the answer.
    pub async fn note_request(
        &self,
        run: &RunId,
        request: &Arc<str>,
        kind: EventKind,
    ) -> Result<Option<Run>, StartError> {
        let mut opening = self.reopen(run).await?;
        if !opening.writer.carry_out(request).await? {
            return Ok(None);
        }
        match opening.apply([sink::kind(&self.parts().secrets, kind)]) {
            Ok(()) => self.note_opened(run, opening).await.map(Some),
            Err(refused) => {
                opening.writer.refuse(request).await?;
                Err(refused)
            }
        }
    }

    /// A person's event, in which the secrets that the runner knows are masked.
    pub fn masked(&self, kind: EventKind) -> EventKind {
        sink::kind(&self.parts().secrets, kind)
    }
}
