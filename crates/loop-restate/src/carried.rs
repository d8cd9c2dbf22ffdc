//! Encodes values for the engine's messages: inline, or as the id of a blob if they are large.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::blobs::{BlobError, BlobId, BlobStore};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A value in a message of the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CarriedValue {
    /// The value as JSON, up to [`MAX_BYTES`].
    Inline(Box<RawValue>),
    /// The blob whose content is the run's id, a line break and the value as JSON.
    Blob(BlobId),
}

impl CarriedValue {
    /// The blob that has the value.
    pub(crate) fn blob(&self) -> Option<BlobId> {
        match self {
            Self::Inline(_) => None,
            Self::Blob(id) => Some(*id),
        }
    }
}

/// Why a value cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    #[error(
        "a call of {bytes} bytes is larger than a worker gives to Restate ({MAX_BYTES}); let tools return less, lower \
         limits.messages, or start the workers with --blobs"
    )]
    TooLarge { bytes: usize },
    #[error(
        "a message of another version of loopgate: {0}; start a worker of the version that began the run"
    )]
    Unreadable(#[from] serde_json::Error),
    #[error(
        "run {run} has large values in a store of blobs, and this worker has none; start it with --blobs and the store of the \
         other workers"
    )]
    NoStore { run: String },
    #[error("run {run}: {error}")]
    Blob { run: String, error: Box<BlobError> },
    #[error("run {run}: blob {id} is of another run; check that --blobs names the store of this server")]
    OtherRun { run: String, id: BlobId },
}

impl CarryError {
    /// Whether a retry cannot help.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}

/// Encodes and decodes values of the engine. Only this type decides whether a value is inline.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    store: Option<BlobStore>,
    /// How long the blobs of a run are kept after its end.
    pub(crate) stay: Duration,
    /// When this process last put each blob. A replay puts each blob of its run again.
    recent: Mutex<HashMap<BlobId, Instant>>,
}

impl Carrier {
    pub(crate) fn with_store(store: BlobStore, stay: Duration) -> Self {
        Self { store: Some(store), stay, recent: Mutex::default() }
    }

    /// Whether values above [`INLINE_BYTES`] go to a store. The worker that begins a run decides for the whole run,
    /// since a replay must send the same bytes.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Encodes a value that the workflow sends. Each replay gives the same bytes.
    pub(crate) async fn give<T: Serialize>(
        &self,
        run: &str,
        value: &T,
        by_reference: bool,
    ) -> Result<CarriedValue, CarryError> {
        let text = serde_json::value::to_raw_value(value)?;
        if by_reference && text.get().len() > INLINE_BYTES {
            return self.put(run, &text).await.map(CarriedValue::Blob);
        }
        inline(text)
    }

    /// Encodes the result of a call. The engine records it once, so it is sent inline if the store fails, which keeps
    /// the result of an action from being lost.
    pub(crate) async fn give_result<T: Serialize>(
        &self,
        run: &str,
        value: &T,
    ) -> Result<CarriedValue, CarryError> {
        let text = serde_json::value::to_raw_value(value)?;
        if self.has_store() && text.get().len() > INLINE_BYTES {
            match self.put(run, &text).await {
                Ok(id) => return Ok(CarriedValue::Blob(id)),
                Err(error) if text.get().len() > MAX_BYTES => return Err(error),
                Err(_) => {}
            }
        }
        inline(text)
    }

    /// Decodes a value.
    pub(crate) async fn take<T: DeserializeOwned>(
        &self,
        run: &str,
        carried: &CarriedValue,
    ) -> Result<T, CarryError> {
        let id = match carried {
            CarriedValue::Inline(text) => return Ok(serde_json::from_str(text.get())?),
            CarriedValue::Blob(id) => *id,
        };
        let got = self.store(run)?.get(id).await;
        let content =
            got.map_err(|error| CarryError::Blob { run: run.to_owned(), error: Box::new(error) })?;
        let value = content.strip_prefix(run.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let value = value.ok_or_else(|| CarryError::OtherRun { run: run.to_owned(), id })?;
        Ok(serde_json::from_slice(value)?)
    }

    /// Deletes the blobs of a run that has ended.
    pub(crate) async fn forget(&self, run: &str, blobs: &[BlobId]) -> Result<(), CarryError> {
        let store = self.store(run)?;
        for id in blobs {
            store
                .delete(*id)
                .await
                .map_err(|error| CarryError::Blob { run: run.to_owned(), error: Box::new(error) })?;
        }
        Ok(())
    }

    async fn put(&self, run: &str, text: &RawValue) -> Result<BlobId, CarryError> {
        let content = [run.as_bytes(), b"\n", text.get().as_bytes()].concat();
        let id = BlobId::of(&content);
        if self.was_put(id) {
            return Ok(id);
        }
        let put = self.store(run)?.put(content).await;
        let id = put.map_err(|error| CarryError::Blob { run: run.to_owned(), error: Box::new(error) })?;
        self.note_put(id);
        Ok(id)
    }

    fn store(&self, run: &str) -> Result<&BlobStore, CarryError> {
        self.store.as_ref().ok_or_else(|| CarryError::NoStore { run: run.to_owned() })
    }

    fn was_put(&self, id: BlobId) -> bool {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.get(&id).is_some_and(|at| at.elapsed() < STAYS)
    }

    fn note_put(&self, id: BlobId) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_RECENT {
            recent.clear();
        }
        recent.insert(id, Instant::now());
    }
}

fn inline(text: Box<RawValue>) -> Result<CarriedValue, CarryError> {
    match text.get().len() {
        bytes if bytes > MAX_BYTES => Err(CarryError::TooLarge { bytes }),
        _ => Ok(CarriedValue::Inline(text)),
    }
}

/// The most bytes of an inline value if there is a store.
const INLINE_BYTES: usize = 64 << 10;
/// The most bytes of a value without a store. Restate accepts messages of 32 MiB by default.
pub(crate) const MAX_BYTES: usize = 24 << 20;
/// How long a blob that was put is assumed to exist. A sweep keeps younger ones.
const STAYS: Duration = Duration::from_secs(3_600);
const MAX_RECENT: usize = 1 << 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::blobs::BlobStore;

    use super::{CarriedValue, Carrier, CarryError, INLINE_BYTES, MAX_BYTES};

    async fn carrier(folder: &std::path::Path) -> Carrier {
        let store = BlobStore::open(&format!("file://{}", folder.display())).await.unwrap();
        Carrier::with_store(store, std::time::Duration::ZERO)
    }

    fn sent(carried: &CarriedValue) -> CarriedValue {
        serde_json::from_str(&serde_json::to_string(carried).unwrap()).unwrap()
    }

    /// The one blob below this folder.
    fn blob(folder: &std::path::Path) -> std::path::PathBuf {
        let folders = std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        files.map(|file| file.path()).next().unwrap()
    }

    #[tokio::test]
    async fn a_value_travels_as_it_is_up_to_the_limit() {
        let (text, carrier) = ("ä\"\\".repeat(100_000), Carrier::default());
        let carried = sent(&carrier.give("r", &text, false).await.unwrap());
        assert_eq!((carrier.take::<String>("r", &carried).await.unwrap(), carried.blob()), (text, None));
        let large = "x".repeat(MAX_BYTES);
        assert!(matches!(carrier.give("r", &large, false).await, Err(CarryError::TooLarge { .. })));
        assert!(matches!(carrier.give_result("r", &large).await, Err(CarryError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn a_large_value_travels_as_a_blob_of_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let carrier = carrier(folder.path()).await;
        let (small, large) = ("x".repeat(INLINE_BYTES - 2), "x".repeat(INLINE_BYTES));
        assert_eq!(carrier.give("r", &small, true).await.unwrap().blob(), None);
        // The same bytes each time, and other ones for another run: a blob has one run.
        let carried = sent(&carrier.give("r", &large, true).await.unwrap());
        assert_eq!(carrier.give_result("r", &large).await.unwrap().blob(), carried.blob());
        assert_ne!(carrier.give("s", &large, true).await.unwrap().blob(), carried.blob());
        assert_eq!(carrier.take::<String>("r", &carried).await.unwrap(), large);
        let other = carrier.take::<String>("s", &carried).await.unwrap_err();
        assert!(other.to_string().contains("of another run"), "{other}");
        // The answer of the worker that began the run counts.
        assert_eq!(carrier.give("r", &large, false).await.unwrap().blob(), None);
        let none = Carrier::default();
        for error in [
            none.take::<String>("r", &carried).await.unwrap_err(),
            none.give("r", &large, true).await.unwrap_err(),
        ] {
            assert!(error.to_string().contains("--blobs") && !error.is_final(), "{error}");
        }
        carrier.forget("r", &[carried.blob().unwrap()]).await.unwrap();
        let missing = carrier.take::<String>("r", &carried).await.unwrap_err();
        assert!(missing.to_string().contains("missing") && !missing.is_final(), "{missing}");
    }

    #[tokio::test]
    async fn a_damaged_blob_is_an_error_and_never_another_value() {
        let folder = tempfile::tempdir().unwrap();
        let large = "x".repeat(INLINE_BYTES);
        let carried = carrier(folder.path()).await.give("r", &large, true).await.unwrap();
        std::fs::write(blob(folder.path()), "r\n\"y\"").unwrap();
        let damaged = carrier(folder.path()).await.take::<String>("r", &carried).await.unwrap_err();
        assert!(damaged.to_string().contains("damaged") && !damaged.is_final(), "{damaged}");
        // A replay in another process repairs what it sends.
        assert_eq!(
            carrier(folder.path()).await.give("r", &large, true).await.unwrap().blob(),
            carried.blob()
        );
        assert_eq!(carrier(folder.path()).await.take::<String>("r", &carried).await.unwrap(), large);
    }

    #[tokio::test]
    async fn a_result_travels_inline_where_the_store_fails() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let carrier = carrier(&store).await;
        std::fs::remove_dir_all(&store).unwrap();
        std::fs::write(&store, "").unwrap();
        let large = "x".repeat(INLINE_BYTES);
        assert!(carrier.give("r", &large, true).await.is_err());
        let carried = carrier.give_result("r", &large).await.unwrap();
        assert_eq!(carrier.take::<String>("r", &carried).await.unwrap(), large);
    }
}
