//! Deletes the blobs of runs that have ended. A worker deletes the blobs of a run that ends, but not of a run that was
//! killed.
//!
//! A blob begins with the id of its run: see [`Worker::with_blobs`](crate::Worker::with_blobs). Restate, or else the
//! journal, says whether that run has ended. A run that has ended never puts a blob again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::blobs::{BlobError, BlobId, BlobStore, StoredBlob};
use futures::{StreamExt as _, TryStreamExt as _};
use loop_runtime::journal::{Journal, JournalError, replay};
use loop_runtime::run::RunId;

use crate::client::{Client, ClientError, InvocationState};

/// The blobs of one run in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBlobs {
    /// The run.
    pub run: RunId,
    /// Whether the run may still need them.
    pub need: BlobNeed,
    /// The blobs that are old enough.
    pub blobs: Vec<BlobId>,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// Whether a run may still need its blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobNeed {
    /// The run has ended, as Restate or the journal says.
    Over,
    /// The run is in progress.
    Open,
    /// Restate does not know the run, and the journal does not have its end. It was killed so long ago that Restate no
    /// longer stores it, or it belongs to another server.
    Unknown,
}

/// The old blobs of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OldBlobs {
    /// Blobs of runs, by run.
    pub runs: Vec<RunBlobs>,
    /// How many blobs do not name a run. They are kept.
    pub others: u64,
    /// Whether there are more blobs than were checked.
    pub is_cut: bool,
}

/// Why a store cannot be swept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The store cannot be read.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Restate cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl OldBlobs {
    /// Checks at most `max` blobs that were last put longer ago than `older_than`, and asks Restate and the journal
    /// about their runs. Nothing is deleted.
    ///
    /// # Errors
    /// The store, Restate or the journal cannot be reached, or no worker is registered with the server, which then is
    /// probably the wrong one.
    pub async fn find(
        store: &BlobStore,
        client: &Client,
        journal: &dyn Journal,
        older_than: Duration,
        max: usize,
    ) -> Result<Self, SweepError> {
        client.domains().await?;
        let mut listed = store.older(older_than, max.saturating_add(1)).await?;
        let mut found = Self { is_cut: listed.len() > max, ..Self::default() };
        listed.truncate(max);
        let named = futures::stream::iter(listed).map(|blob| async move {
            let beginning = store.beginning(blob.id, MAX_RUN_BYTES.min(blob.bytes)).await?;
            Ok::<_, BlobError>((run_in(&beginning), blob))
        });
        let named: Vec<(Option<RunId>, StoredBlob)> = named.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut runs: BTreeMap<RunId, (Vec<BlobId>, u64)> = BTreeMap::new();
        for (run, blob) in named {
            let Some(run) = run else {
                found.others += 1;
                continue;
            };
            let (blobs, bytes) = runs.entry(run).or_default();
            blobs.push(blob.id);
            *bytes += blob.bytes;
        }
        let asked = futures::stream::iter(runs).map(|(run, (blobs, bytes))| async move {
            let need = need_of(&run, client, journal).await?;
            Ok::<_, SweepError>(RunBlobs { run, need, blobs, bytes })
        });
        found.runs = asked.buffered(AT_ONCE).try_collect().await?;
        Ok(found)
    }
}

impl RunBlobs {
    /// Deletes the blobs that are still old enough. Returns how many were deleted, and their size in bytes.
    ///
    /// # Errors
    /// The store cannot be reached. Deleted blobs stay deleted, and the deletion can be repeated.
    pub async fn delete(&self, store: &BlobStore, older_than: Duration) -> Result<(u64, u64), BlobError> {
        let deleted = futures::stream::iter(&self.blobs).map(|id| store.delete_older(*id, older_than));
        let deleted: Vec<Option<u64>> = deleted.buffer_unordered(AT_ONCE).try_collect().await?;
        let bytes = deleted.into_iter().flatten();
        Ok(bytes.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes)))
    }
}

async fn need_of(run: &RunId, client: &Client, journal: &dyn Journal) -> Result<BlobNeed, SweepError> {
    match client.state(run).await? {
        InvocationState::Open => return Ok(BlobNeed::Open),
        InvocationState::Ended | InvocationState::Killed { .. } => return Ok(BlobNeed::Over),
        InvocationState::Unknown => {}
    }
    match journal.read(run).await {
        Ok(recorded) => {
            // One that cannot be replayed is left to a person.
            let is_done = replay(run, &recorded).is_ok_and(|state| state.is_done());
            Ok(if is_done { BlobNeed::Over } else { BlobNeed::Unknown })
        }
        Err(JournalError::Pruned { .. }) => Ok(BlobNeed::Over),
        Err(JournalError::Unknown { .. }) => Ok(BlobNeed::Unknown),
        Err(error) => Err(error.into()),
    }
}

/// The run that a blob names in its first line. `None`: a worker did not write the blob.
fn run_in(beginning: &[u8]) -> Option<RunId> {
    let line = beginning.split(|byte| *byte == b'\n').next().filter(|line| line.len() < beginning.len())?;
    let line = std::str::from_utf8(line).ok()?;
    let is_id = line.len() == 36 && line.chars().all(|digit| digit.is_ascii_hexdigit() || digit == '-');
    is_id.then(|| RunId::new(line))
}

/// The length of a run id with its line break, and some reserve.
const MAX_RUN_BYTES: u64 = 64;
const AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use super::run_in;

    #[test]
    fn a_blob_names_its_run_in_its_first_line() {
        let run = "c0406d29-fa4a-3bbd-148e-b5596cc24c91";
        assert_eq!(
            run_in(format!("{run}\n{{}}").as_bytes()).map(|run| run.to_string()),
            Some(run.to_owned())
        );
        for other in [run, "", "\n", "{}\n", "c0406d29\n{}", "../../../../../../../../../etc/passwd\n"] {
            assert_eq!(run_in(other.as_bytes()), None, "{other}");
        }
    }
}
