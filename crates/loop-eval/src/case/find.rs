//! Finds the files of cases in folders.

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::CaseError;

/// The folder whose JSON files are cases.
const FOLDER: &str = "evals";
/// The ending of a case's file name in any other folder.
const ENDING: &str = ".case.json";

/// The files of the cases at `path`: the file itself, or the files below a folder, at any depth, sorted by path. In a
/// folder, these are the `.json` files in folders called `evals`, and all files that end with `.case.json`. Hidden
/// files and folders are skipped.
///
/// # Errors
/// The path does not exist or cannot be read, or there is no case in the folder.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, CaseError> {
    let unreadable = |path: &Path, error: std::io::Error| CaseError::Unreadable {
        path: path.to_owned(),
        message: format!("cannot be read: {error}; name a file with a case, or a folder that holds some"),
    };
    let meta = fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if meta.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let is_evals = |path: &Path| {
        // `loopgate eval .` in such a folder means its cases as well.
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        whole.file_name().is_some_and(|name| name == FOLDER)
    };
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        let holds_cases = is_evals(&folder);
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))? {
            let entry = entry.map_err(|error| unreadable(&folder, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), error))?;
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if name.ends_with(ENDING) || (holds_cases && name.ends_with(".json")) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    if found.is_empty() { Err(CaseError::None { path: path.to_owned() }) } else { Ok(found) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_told_from_other_json_by_where_they_stand() {
        let root = tempfile::tempdir().unwrap();
        for (folder, name) in [
            ("a/evals", "one.json"),
            ("a/evals/scripts", "replies.json"),
            ("a/tickets", "T-1.json"),
            ("b", "two.case.json"),
            (".hidden/evals", "three.json"),
            ("a/evals", "notes.md"),
        ] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), "{}").unwrap();
        }
        let found = find(root.path()).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(names, [Path::new("a/evals/one.json"), Path::new("b/two.case.json")]);
        let ticket = root.path().join("a/tickets/T-1.json");
        assert_eq!(find(&ticket).unwrap(), std::slice::from_ref(&ticket));
        let none = find(&root.path().join("a/tickets")).unwrap_err();
        assert!(none.to_string().contains("there is no case in it"), "{none}");
        let missing = find(&root.path().join("c")).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
