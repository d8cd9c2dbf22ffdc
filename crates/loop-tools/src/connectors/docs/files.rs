//! The files of a folder that can be searched, in an order that does not depend on the disk.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::connectors::charset;
use crate::connectors::error::{ConnectorError, one_line};

/// The most files that are read.
pub const FILES_MAX: usize = 5_000;
/// The most bytes of a file that is read; a larger one is left out.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most bytes of a document that is read when the folder is listed.
const CHECKED_BYTES: u64 = 64 << 10;
/// What a document's name ends with.
const EXTENSIONS: [&str; 3] = ["md", "markdown", "txt"];
/// Folders that hold copies of other people's documents.
const SKIPPED_FOLDERS: [&str; 2] = ["target", "node_modules"];

/// What a folder holds.
#[derive(Debug)]
pub(crate) struct Files {
    /// The folder itself. What its name means later does not matter, and nothing outside of it can be opened from here.
    root: Dir,
    /// Paths below the folder, with `/`, sorted; each with where it really is below the folder.
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
        let handle = Dir::open_ambient_dir(&root, ambient_authority()).map_err(unreadable)?;
        let mut files = Self { root: handle, found: Vec::new(), left_out: Vec::new() };
        let mut entered = BTreeSet::from([root.clone()]);
        files.enter(&root, &root, "", &mut entered).map_err(unreadable)?;
        files.found.sort();
        files.check_texts();
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

    /// Says which documents cannot be read as text. The long ones are looked at when they are read.
    fn check_texts(&mut self) {
        let is_short =
            |place: &Path| self.root.metadata(place).is_ok_and(|about| about.len() <= CHECKED_BYTES);
        let texts = self.found.iter().take(FILES_MAX).filter(|(_, place)| is_short(place));
        let wrong =
            texts.filter_map(|(path, place)| self.text(place).err().map(|why| format!("{path}: {why}")));
        let wrong: Vec<String> = wrong.collect();
        self.left_out.extend(wrong);
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
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            // Follows links, so that what a link leads to is judged by where it is.
            let Ok(place) = entry.path().canonicalize() else { continue };
            let Ok(below) = place.strip_prefix(root) else {
                self.left_out.push(format!("{path}: leads out of the folder"));
                continue;
            };
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
                if let Err(error) = crate::files::open(&place) {
                    self.left_out.push(format!("{path}: {}", one_line(error)));
                } else if about.len() > FILE_BYTES_MAX {
                    self.left_out.push(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
                } else {
                    self.found.push((path, below.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The text of a document.
    pub(crate) fn text(&self, place: &Path) -> Result<String, String> {
        let bytes = self.read(place)?;
        let text = charset::text(&bytes, None).map_err(|why| format!("{why}; save it as UTF-8"))?;
        Ok(text.into_owned())
    }

    /// The bytes of a document. What a path leads to may have changed since it was listed, so it is opened below the folder,
    /// checked as what was opened, and read no further than a document may go.
    pub(crate) fn read(&self, place: &Path) -> Result<Vec<u8>, String> {
        let mut options = OpenOptions::new();
        options.read(true);
        // Opening a pipe must not wait for its writer.
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        );
        let file = self.root.open_with(place, &options).map_err(one_line)?;
        if !file.metadata().map_err(one_line)?.is_file() {
            return Err("is not a file any more".to_owned());
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(one_line)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
        }
        Ok(bytes)
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
        // The file system as a data layer.
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

    #[cfg(unix)]
    #[test]
    fn what_a_name_leads_to_later_is_never_read_from_outside() {
        // B7, K11: each was a document when the folder was listed.
        use std::os::unix::fs::symlink;

        let outside = folder(&[("secret.md", 7)]);
        let folder = folder(&[
            ("a/link.md", 1),
            ("abs.md", 1),
            ("dir/in.md", 1),
            ("grown.md", 1),
            ("pipe.md", 1),
            ("stays.md", 1),
            ("zero.md", 1),
        ]);
        let files = Files::below(folder.path()).unwrap();
        assert_eq!(files.found.len(), 7);
        let at = |path: &str| folder.path().join(path);
        for path in ["a/link.md", "abs.md", "pipe.md", "zero.md"] {
            fs::remove_file(at(path)).unwrap();
        }
        fs::remove_dir_all(at("dir")).unwrap();
        let name = outside.path().file_name().unwrap();
        symlink(Path::new("../..").join(name).join("secret.md"), at("a/link.md")).unwrap();
        symlink(outside.path().join("secret.md"), at("abs.md")).unwrap();
        symlink(outside.path(), at("dir")).unwrap();
        fs::write(outside.path().join("in.md"), "outside").unwrap();
        symlink("/dev/zero", at("zero.md")).unwrap();
        fs::write(at("grown.md"), vec![b'x'; 2 << 20]).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe.md"), kind, mode, 0).unwrap();
        let mut read = Vec::new();
        for (path, place) in &files.found {
            match files.read(place) {
                Ok(bytes) => read.push((path.as_str(), bytes.len())),
                Err(why) => assert!(!why.contains('\n') && !why.is_empty(), "{path}: {why}"),
            }
        }
        assert_eq!(read, [("stays.md", 1)]);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_replaced_is_still_the_folder_that_was_listed() {
        // B7
        use std::os::unix::fs::symlink;
        let outside = folder(&[("a.md", 7)]);
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("docs")).unwrap();
        fs::write(place.path().join("docs/a.md"), "mine").unwrap();
        let files = Files::below(&place.path().join("docs")).unwrap();
        fs::rename(place.path().join("docs"), place.path().join("gone")).unwrap();
        symlink(outside.path(), place.path().join("docs")).unwrap();
        let (_, path) = files.found.first().unwrap();
        assert_eq!(files.read(path).unwrap(), b"mine");
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_swapped_all_the_time_never_lets_anything_out() {
        // K11: whichever of the two is there when it is opened, only what is inside is read.
        use std::os::unix::fs::symlink;
        let outside = folder(&[("secret.md", 7)]);
        let folder = folder(&[("a.md", 1)]);
        let files = Files::below(folder.path()).unwrap();
        let (_, path) = files.found.first().unwrap().clone();
        let (inside, link) = (folder.path().join("own"), folder.path().join("link"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::write(&inside, "x").unwrap();
                    fs::rename(&inside, folder.path().join("a.md")).unwrap();
                    symlink(outside.path().join("secret.md"), &link).unwrap();
                    fs::rename(&link, folder.path().join("a.md")).unwrap();
                }
            });
            for _ in 0..10_000 {
                assert!(files.read(&path).map_or(true, |bytes| bytes.len() <= 1));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
