//! No journal: for programs that need none.

use std::sync::Arc;

use async_trait::async_trait;
use loop_core::types::RunId;

use crate::{Durability, Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter};

/// Stores nothing. A run with it cannot be read and cannot be resumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoJournal;

#[async_trait]
impl Journal for NoJournal {
    async fn create(&self, header: &Header, _: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        // A key is a promise that a second request finds the first.
        if header.request_key.is_some() {
            return Err(unknown(&header.run));
        }
        Ok(Box::new(Self))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        Err(unknown(run))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        Err(unknown(run))
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl RunWriter for NoJournal {
    async fn append(&mut self, _: &Arc<Entry>, _: Durability) -> Result<(), JournalError> {
        Ok(())
    }
}

fn unknown(run: &RunId) -> JournalError {
    JournalError::NotKept { run: run.clone() }
}
