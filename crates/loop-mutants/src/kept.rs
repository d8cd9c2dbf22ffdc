//! What a build and its measuring gave, for another run of the same source: another sample needs no other build.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::tests_of::Test;

/// What is built into the programs: a change of anything else needs no other build.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "crates/loop-core", "crates/loop-testkit"];

/// The programs of tests with what was measured of them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What [`key`] gave before the build.
    pub(crate) key: String,
    pub(crate) programs: Vec<PathBuf>,
    /// Mutants that cannot be switched.
    pub(crate) unplaced: BTreeSet<u32>,
    /// Mutants whose own code does not compile.
    pub(crate) unbuilt: BTreeSet<u32>,
    /// The tests that pass without a mutant. Empty: they were not measured yet.
    pub(crate) tests: Vec<Test>,
    /// The names of the others.
    pub(crate) failing: Vec<String>,
}

/// Names the source in the index and the list of mutants.
pub(crate) fn key(root: &Path, list: &str) -> Result<String, String> {
    let git =
        Command::new("git").args(["ls-files", "--stage", "--"]).args(SOURCES).current_dir(root).output();
    let files = git.map_err(|error| format!("git: {error}"))?;
    if !files.status.success() {
        return Err(format!("git ls-files failed ({}); run it in a git checkout", files.status));
    }
    let mut hasher = DefaultHasher::new();
    (files.stdout, list).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn path(out: &Path) -> PathBuf {
    out.join("kept.json")
}

/// What the last run kept, if it is of this source. `None`: it is not, or its programs are gone.
pub(crate) fn read(out: &Path, key: &str) -> Option<Kept> {
    let kept: Kept = serde_json::from_str(&fs::read_to_string(path(out)).ok()?).ok()?;
    (kept.key == key && kept.programs.iter().all(|program| program.exists())).then_some(kept)
}

/// Forgets what was kept, because its programs are built anew.
pub(crate) fn forget(out: &Path) {
    // There may be none.
    let _ = fs::remove_file(path(out));
}

pub(crate) fn write(out: &Path, kept: &Kept) -> Result<(), String> {
    let json = serde_json::to_string(kept).map_err(|error| error.to_string())?;
    fs::write(path(out), json).map_err(|error| format!("{}: {error}", path(out).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_used_for_the_same_source_alone() {
        let out = std::env::temp_dir().join(format!("loop-mutants-kept-{}", std::process::id()));
        fs::create_dir_all(&out).expect("a folder of its own");
        let program = out.join("it");
        let kept = Kept {
            key: "a".to_owned(),
            programs: vec![program.clone()],
            unplaced: BTreeSet::from([3]),
            unbuilt: BTreeSet::new(),
            tests: Vec::new(),
            failing: vec!["it_fails".to_owned()],
        };
        write(&out, &kept).expect("it can be written");
        assert!(read(&out, "a").is_none(), "its program is gone");
        fs::write(&program, "").expect("it can be written");
        assert!(read(&out, "b").is_none(), "another source");
        let same = read(&out, "a").expect("the same source");
        assert_eq!((same.unplaced, same.failing), (kept.unplaced, kept.failing));
        forget(&out);
        assert!(read(&out, "a").is_none());
        fs::remove_dir_all(&out).expect("it can be removed");
    }
}
