//! The files of a folder that can be searched, in an order that does not depend on the disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{ConnectorError, one_line};

/// The most files that are read.
pub const FILES_MAX: usize = 5_000;
/// The most bytes of a file that is read; a larger one is left out.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// What a document's name ends with.
const EXTENSIONS: [&str; 3] = ["md", "markdown", "txt"];
/// Folders that hold copies of other people's documents.
const SKIPPED_FOLDERS: [&str; 2] = ["target", "node_modules"];

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// Paths below the folder, with `/`, sorted; each with where it really is.
    pub(crate) found: Vec<(String, PathBuf)>,
    /// What was left out, and why, a line each.
    pub(crate) left_out: Vec<String>,
}

impl Files {
    /// The documents below `folder`.
    pub(crate) fn below(folder: &Path) -> Result<Self, ConnectorError> {
        let shown = folder.display().to_string();
        if !folder.is_dir() {
            return Err(ConnectorError::Missing { what: "folder", path: shown });
        }
        let unreadable = |error| ConnectorError::Unreadable { path: shown.clone(), message: one_line(error) };
        let root = folder.canonicalize().map_err(unreadable)?;
        let mut files = Self::default();
        let mut entered = BTreeSet::from([root.clone()]);
        files.enter(&root, &root, "", &mut entered).map_err(unreadable)?;
        files.found.sort();
        if files.found.len() > FILES_MAX {
            let more = files.found.len() - FILES_MAX;
            files.found.truncate(FILES_MAX);
            files.left_out.push(format!("{shown}: {more} files beyond the first {FILES_MAX} are left out"));
        }
        if files.found.is_empty() {
            return Err(ConnectorError::NoDocuments { path: shown });
        }
        Ok(files)
    }

    fn enter(
        &mut self,
        root: &Path,
        folder: &Path,
        prefix: &str,
        entered: &mut BTreeSet<PathBuf>,
    ) -> std::io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            // Follows links, so that what a link leads to is judged by where it is.
            let Ok(place) = entry.path().canonicalize() else {
                continue;
            };
            if !place.starts_with(root) {
                self.left_out.push(format!("{path}: leads out of the folder"));
                continue;
            }
            let Ok(about) = fs::metadata(&place) else { continue };
            if about.is_dir() {
                // Each folder once, so that a link upwards cannot go round.
                if !SKIPPED_FOLDERS.contains(&name.as_str()) && entered.insert(place.clone()) {
                    // One folder that may not be read does not hide the others.
                    if let Err(error) = self.enter(root, &place, &format!("{path}/"), entered) {
                        self.left_out.push(format!("{path}: {}", one_line(error)));
                    }
                }
            } else if about.is_file() && is_document(&name) {
                if let Err(error) = fs::File::open(&place) {
                    self.left_out.push(format!("{path}: {}", one_line(error)));
                } else if about.len() > FILE_BYTES_MAX {
                    self.left_out.push(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
                } else {
                    self.found.push((path, place));
                }
            }
        }
        Ok(())
    }
}

fn is_document(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, usize)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x".repeat(*bytes)).unwrap();
        }
        folder
    }

    fn names(files: &Files) -> Vec<&str> {
        files.found.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn documents_are_found_at_every_depth_in_a_fixed_order() {
        // S0-141: the file system as a data layer.
        let folder = folder(&[
            ("b.md", 1),
            ("a/z.TXT", 1),
            ("a/c.markdown", 1),
            ("a.rs", 1),
            (".hidden/x.md", 1),
            (".x.md", 1),
            ("target/x.md", 1),
            ("a/node_modules/x.md", 1),
        ]);
        let files = Files::below(folder.path()).unwrap();
        assert_eq!(names(&files), ["a/c.markdown", "a/z.TXT", "b.md"]);
        assert!(files.left_out.is_empty());
    }

    #[test]
    fn a_file_that_is_too_large_is_left_out_and_said() {
        let folder = folder(&[("small.md", 1), ("large.md", 1_048_577)]);
        let files = Files::below(folder.path()).unwrap();
        assert_eq!(names(&files), ["small.md"]);
        assert_eq!(files.left_out, ["large.md: larger than 1048576 bytes"]);
    }

    #[test]
    fn a_folder_that_is_missing_or_has_no_documents_is_an_error() {
        let folder = folder(&[("a.rs", 1)]);
        let error = Files::below(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("holds no .md, .markdown or .txt file; name a folder that does"), "{error}");
        let error = Files::below(&folder.path().join("x")).unwrap_err().to_string();
        assert!(error.contains("there is no such folder"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leaves_the_folder_is_not_followed() {
        use std::os::unix::fs::symlink;
        let outside = folder(&[("secret.md", 1)]);
        let folder = folder(&[("a/in.md", 1)]);
        symlink(outside.path(), folder.path().join("out")).unwrap();
        symlink(outside.path().join("secret.md"), folder.path().join("secret.md")).unwrap();
        symlink(folder.path(), folder.path().join("a/round")).unwrap();
        symlink(folder.path().join("a/in.md"), folder.path().join("again.md")).unwrap();
        let files = Files::below(folder.path()).unwrap();
        assert_eq!(names(&files), ["a/in.md", "again.md"]);
        assert_eq!(files.left_out, ["out: leads out of the folder", "secret.md: leads out of the folder"]);
    }
}
