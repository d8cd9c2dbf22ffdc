//! The files below a place, in an order that does not depend on the disk, without following a link.

use std::io;
use std::path::Path;

use crate::CancellationToken;
use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, File, Metadata};
use globset::GlobSet;

use crate::connectors::files::folder::{Folder, FolderPath, Refusal, globs, is_hidden, open_file};

/// The most names that are looked at.
const VISITED_MAX: usize = 50_000;
/// The most folders within another.
const DEPTH_MAX: usize = 64;

/// A walk, and what is to be said of it afterwards.
pub(crate) struct FolderWalk<'a> {
    folder: &'a Folder,
    glob: Option<GlobSet>,
    cancel: &'a CancellationToken,
    visited: usize,
    /// Why not everything was looked at. Empty: it was.
    pub(crate) left_out: Vec<String>,
}

/// Whether a walk continues.
pub(crate) enum Step {
    Next,
    Enough,
}

/// A file on the way.
pub(crate) struct FoundFile<'a> {
    pub(crate) place: FolderPath,
    pub(crate) about: Metadata,
    folder: &'a Dir,
    name: &'a str,
}

impl FoundFile<'_> {
    /// Opens it. `None`: it is not a file any more, or cannot be read.
    pub(crate) fn open(&self) -> Option<File> {
        open_file(self.folder, Path::new(self.name)).ok()
    }
}

impl<'a> FolderWalk<'a> {
    /// A walk over the files that `glob` matches as well.
    pub(crate) fn new(
        folder: &'a Folder,
        glob: Option<&str>,
        cancel: &'a CancellationToken,
    ) -> Result<Self, Refusal> {
        let glob = glob.filter(|glob| !glob.is_empty()).map(|glob| globs(&[glob.to_owned()]));
        let glob = glob.transpose().map_err(|error| Refusal::Input(error.to_string()))?;
        Ok(Self { folder, glob, cancel, visited: 0, left_out: Vec::new() })
    }

    /// Shows `each` every file below the path, or the file that it is, sorted by path.
    pub(crate) fn below(
        &mut self,
        path: Option<&str>,
        each: &mut dyn FnMut(&FoundFile<'_>) -> Result<Step, Refusal>,
    ) -> Result<(), Refusal> {
        let place = path.map_or_else(|| Ok(FolderPath::top()), |path| self.folder.place(path))?;
        let root = match place.split() {
            None => self.folder.root().try_clone().map_err(|error| Refusal::Failed(error.to_string()))?,
            Some((parent, name)) => {
                let parent = self.folder.folder(&parent)?;
                let about =
                    parent.symlink_metadata(&name).map_err(|error| Refusal::Failed(error.to_string()))?;
                if !about.is_dir() {
                    self.file(&parent, &name, place, about, each)?;
                    return Ok(());
                }
                self.folder.folder(&place)?
            }
        };
        self.enter(&root, &place, 0, each).map(|_| ())
    }

    fn enter(
        &mut self,
        folder: &Dir,
        place: &FolderPath,
        depth: usize,
        each: &mut dyn FnMut(&FoundFile<'_>) -> Result<Step, Refusal>,
    ) -> Result<Step, Refusal> {
        let names = match self.names(folder) {
            Ok(names) => names,
            // One folder that may not be read does not hide the others.
            Err(error) => {
                self.left_out.push(format!(
                    "{}: {}",
                    place.shown(),
                    crate::connectors::error::one_line(error)
                ));
                return Ok(Step::Next);
            }
        };
        for name in names {
            if self.cancel.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            self.visited += 1;
            if self.visited > VISITED_MAX {
                self.left_out.push(format!("everything beyond the first {VISITED_MAX} names"));
                return Ok(Step::Enough);
            }
            // It may be gone already.
            let Ok(about) = folder.symlink_metadata(&name) else { continue };
            let here = place.join(&name);
            let step = if about.is_dir() {
                if depth >= DEPTH_MAX {
                    self.left_out.push(format!("{}: too many folders within another", here.shown()));
                    continue;
                }
                // A link that took its place meanwhile is not followed.
                let Ok(next) = folder.open_dir_nofollow(&name) else { continue };
                self.enter(&next, &here, depth + 1, each)?
            } else {
                self.file(folder, &name, here, about, each)?
            };
            if matches!(step, Step::Enough) {
                return Ok(Step::Enough);
            }
        }
        Ok(Step::Next)
    }

    fn file(
        &mut self,
        folder: &Dir,
        name: &str,
        place: FolderPath,
        about: Metadata,
        each: &mut dyn FnMut(&FoundFile<'_>) -> Result<Step, Refusal>,
    ) -> Result<Step, Refusal> {
        let is_wanted = self.glob.as_ref().is_none_or(|glob| glob.is_match(place.path()));
        if !about.is_file() || !is_wanted || !self.folder.includes(&place) {
            return Ok(Step::Next);
        }
        each(&FoundFile { place, about, folder, name })
    }

    /// The names of a folder that a tool sees: text, and not hidden.
    fn names(&self, folder: &Dir) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in folder.entries()? {
            if let Ok(name) = entry?.file_name().into_string()
                && !is_hidden(&name)
            {
                names.push(name);
            }
            if names.len() > VISITED_MAX {
                break;
            }
        }
        names.sort();
        Ok(names)
    }
}
