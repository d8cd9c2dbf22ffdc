//! The digest of everything that determines a run, under which its result is stored.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::Digest;
use loop_tools::files;
use serde_json::{Value, json};

use crate::case::Case;

/// The version of the digest. It changes with the meaning of stored results.
const FORMAT: u32 = 1;
/// The most bytes of a domain's folder. Runs of a larger one are not stored.
const MAX_BYTES: u64 = 256 << 20;
/// The most files of a domain's folder. Runs of one with more are not stored.
const MAX_FILES: usize = 20_000;
/// Folders of a domain that its runs do not read.
const NOT_OF_RUNS: [&str; 4] = ["evals", "node_modules", "target", "__pycache__"];

/// The default file of a domain's calibration.
const CALIBRATION: &str = "calibration.json";

/// The digests of domain folders. Each is computed once.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<BTreeMap<PathBuf, Option<Digest>>>);

impl Folders {
    /// The digest of everything in a folder, or in the folder of a file. `None`: it is too large, or cannot be read.
    fn digest(&self, path: &Path) -> Option<Digest> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known.get(path) {
            return *digest;
        }
        let digest = digest_of(path);
        known.insert(path.to_owned(), digest);
        digest
    }
}

fn digest_of(path: &Path) -> Option<Digest> {
    let folder = if path.is_dir() { path } else { path.parent()? };
    let (mut files, mut bytes) = (Vec::new(), 0);
    listed(folder, folder, &mut files, &mut bytes)?;
    files.sort();
    let mut lines = Vec::with_capacity(files.len());
    for (name, file) in files {
        lines.push(json!([
            name,
            Digest::of("eval file", &files::bytes(&file, files::MAX_BYTES).ok()?).to_string()
        ]));
    }
    // Several files of one folder may be domains.
    let own = path.file_name().filter(|_| !path.is_dir()).map(|name| name.to_string_lossy().into_owned());
    Some(Digest::of("eval folder", json!([own, lines]).to_string().as_bytes()))
}

fn listed(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>, bytes: &mut u64) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        // A database makes and deletes files next to itself while it is read.
        let is_of_database = ["-wal", "-shm", "-journal"].iter().any(|end| name.ends_with(end));
        // What a calibration says is in the spec, and the command that writes it must not make its own runs anew.
        let is_calibration = root == folder && name == CALIBRATION;
        if name.starts_with('.') || is_of_database || is_calibration {
            continue;
        }
        // What a link to a file leads to counts. A link to a folder may lead back: what is behind it is not known.
        let (data, is_link) = (fs::metadata(&path).ok()?, entry.file_type().ok()?.is_symlink());
        if data.is_dir() {
            if is_link {
                return None;
            }
            if !NOT_OF_RUNS.contains(&name.as_str()) {
                listed(root, &path, files, bytes)?;
            }
        } else if data.is_file() {
            *bytes += data.len();
            let inner = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push((inner, path));
            if *bytes > MAX_BYTES || files.len() > MAX_FILES {
                return None;
            }
        }
    }
    Some(())
}

/// The digest of a case without its model, its description, and its expectations of replies. A baseline compares only
/// cases with the same digest.
pub(crate) fn case_digest(case: &Case) -> Digest {
    let mut case = described(case);
    for key in ["replies", "script", "exhausted", "model", "models"] {
        if let Some(members) = case.as_object_mut() {
            members.shift_remove(key);
        }
    }
    Digest::of("eval case", loop_core::types::canonical(&case).as_bytes())
}

/// The case without what describes it, with the content of its item's file.
fn described(case: &Case) -> Value {
    let mut whole = serde_json::to_value(case).unwrap_or_default();
    if let Some(members) = whole.as_object_mut() {
        members.shift_remove("shows");
        members.shift_remove("covers");
        if let Some(Value::String(file)) = &case.item {
            let text = files::bytes(&case.folder().join(file), files::MAX_BYTES).unwrap_or_default();
            members.insert("item".to_owned(), json!(Digest::of("eval file", &text).to_string()));
        }
    }
    whole
}

/// Everything that determines one run.
pub(crate) struct RunContent<'a> {
    pub(crate) case: &'a Case,
    /// Spec, tools, prompts and work item as they were made, each as JSON or as a digest.
    pub(crate) made: Value,
    /// The folders that the domain's tools search, which may be elsewhere.
    pub(crate) searched: &'a [PathBuf],
    /// Where models are, if the command line says so.
    pub(crate) base_urls: Vec<String>,
    /// Which of the repeats it is, from 1.
    pub(crate) repeat: u32,
}

impl RunContent<'_> {
    /// The digest under which the result is stored. `None`: some content cannot be read, so the result is not stored.
    pub(crate) fn key(&self, folders: &Arc<Folders>) -> Option<Digest> {
        let case = self.case;
        let domain = match &case.domain {
            Some(domain) => Some(folders.digest(&case.folder().join(domain))?.to_string()),
            None => None,
        };
        let mut searched = Vec::new();
        for folder in self.searched {
            searched.push(folders.digest(folder)?.to_string());
        }
        let mut files = Vec::new();
        let models = case.models.iter().map(|(_, model)| model.as_str());
        let local = models.chain(case.model.as_deref()).filter_map(|model| match model.split_once('/') {
            Some(("scripted" | "recorded", file)) => Some(file),
            _ => None,
        });
        for file in local.chain(case.script.as_deref()) {
            let text = files::bytes(&case.folder().join(file), files::MAX_BYTES).ok()?;
            files.push(Digest::of("eval file", &text).to_string());
        }
        let urls: Vec<String> =
            self.base_urls.iter().map(|url| Digest::of("eval url", url.as_bytes()).to_string()).collect();
        let content = json!({
            "format": FORMAT,
            "program": env!("CARGO_PKG_VERSION"),
            "case": described(case),
            "domain": domain,
            "searched": searched,
            "made": self.made,
            "files": files,
            "urls": urls,
            "repeat": self.repeat,
        });
        Some(Digest::of("eval run", loop_core::types::canonical(&content).as_bytes()))
    }
}
