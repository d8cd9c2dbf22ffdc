//! Stored results of runs, by the digest of everything that determines them, so that a paid run is not repeated.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use loop_core::types::Digest;
use loop_tools::files;
use serde::{Deserialize, Serialize};

use crate::eval::result::CaseResult;

/// The version of a stored result. A result of another version is ignored, and the run is repeated.
const STORE_VERSION: u32 = 2;

/// A folder with one file for each result. If a file cannot be read, the run is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultStore {
    folder: PathBuf,
    is_read: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredResult {
    version: u32,
    key: String,
    result: CaseResult,
}

impl ResultStore {
    /// Opens the store in a folder, which is created if it does not exist. Only its owner can read the files.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        Ok(Self { folder, is_read: true })
    }

    /// The same store without lookups: every run is made, and its result replaces the stored one.
    #[must_use]
    pub fn only_written(self) -> Self {
        Self { is_read: false, ..self }
    }

    /// The result of a key. `None`: there is none, or it cannot be read.
    pub(crate) fn get(&self, key: Digest) -> Option<CaseResult> {
        if !self.is_read {
            return None;
        }
        let text = files::bytes(&self.path(key), files::MAX_BYTES).ok()?;
        let stored: StoredResult = serde_json::from_slice(&text).ok()?;
        // A file under another name holds the result of another run.
        (stored.version == STORE_VERSION && stored.key == key.to_string()).then_some(stored.result)
    }

    /// Stores a result in one atomic step.
    pub(crate) fn put(&self, key: Digest, result: &CaseResult) -> io::Result<()> {
        let stored = StoredResult { version: STORE_VERSION, key: key.to_string(), result: result.clone() };
        let path = self.path(key);
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Readable by its owner alone, as temporary files are.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec(&stored).map_err(io::Error::other)?)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// The path of the result of a key. Keys are spread over folders.
    fn path(&self, key: Digest) -> PathBuf {
        let name = key.to_string();
        let first = name.get(..2).unwrap_or_default();
        self.folder.join(first).join(format!("{name}.json"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by it")]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_under_its_key_and_a_torn_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = ResultStore::open(folder.path().join("a/b")).unwrap();
        let (key, other) = (Digest::of("test", b"1"), Digest::of("test", b"2"));
        let result = CaseResult {
            case_id: "x".into(),
            passed: true,
            cost_usd: Some(0.1),
            cost_pico_usd: 100_000_000_000,
            ..CaseResult::default()
        };
        assert_eq!(store.get(key), None);
        store.put(key, &result).unwrap();
        assert_eq!(store.get(key), Some(result));
        assert_eq!(store.get(other), None);
        assert_eq!(store.clone().only_written().get(key), None);
        // Under the name of another run.
        fs::create_dir_all(store.path(other).parent().unwrap()).unwrap();
        fs::copy(store.path(key), store.path(other)).unwrap();
        assert_eq!(store.get(other), None);
        let whole = fs::read(store.path(key)).unwrap();
        for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(store.path(key), &whole[..cut]).unwrap();
            assert_eq!(store.get(key), None, "{cut}");
        }
    }
}
