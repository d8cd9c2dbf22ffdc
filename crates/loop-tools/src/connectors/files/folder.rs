//! The folder of a tool, as a handle, and what may be opened in it.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_fs_ext::{DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::connectors::charset;
use crate::connectors::error::{ConnectorError, one_line};

/// A folder and what of it there is for the tool.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The folder itself. What its name means later does not matter, and nothing outside of it can be opened from here.
    root: Dir,
    include: Option<GlobSet>,
    /// The folders, by device and number, that were cleared of what killed programs left.
    cleared: Mutex<BTreeSet<(u64, u64)>>,
}

/// A path below the folder that has no link in it, and no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderPath {
    path: PathBuf,
    shown: String,
}

/// Why something is not done, in words for the one who wanted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another path or another value may do.
    Input(String),
    /// The system fails.
    Failed(String),
    /// The call is not wanted any more.
    Cancelled,
}

impl Folder {
    /// The folder at this path.
    pub(crate) fn open(path: &Path, include: &[String]) -> Result<Self, ConnectorError> {
        let shown = path.display().to_string();
        if !path.is_dir() {
            return Err(ConnectorError::Missing { what: "folder", path: shown });
        }
        let root = Dir::open_ambient_dir(path, ambient_authority());
        let root =
            root.map_err(|error| ConnectorError::Unreadable { path: shown, message: one_line(error) })?;
        let include = if include.is_empty() { None } else { Some(globs(include)?) };
        Ok(Self { root, include, cleared: Mutex::default() })
    }

    /// Clears a folder below this one, the first time that something is written there. What cannot be cleared is hidden, and
    /// does not stop a write.
    pub(crate) fn clear_once(&self, folder: &Dir, clear: impl FnOnce(&Dir) -> io::Result<()>) {
        let Ok(about) = folder.dir_metadata() else { return };
        let mut cleared = self.cleared.lock().unwrap_or_else(PoisonError::into_inner);
        if cleared.insert((about.dev(), about.ino())) {
            let _ = clear(folder);
        }
    }

    /// The handle.
    pub(crate) fn root(&self) -> &Dir {
        &self.root
    }

    /// Where a path leads to that is there. Links are followed as long as they stay below the folder.
    pub(crate) fn place(&self, path: &str) -> Result<FolderPath, Refusal> {
        // The handle keeps everything inside; this says what is meant by a path with a NUL.
        if path.contains('\0') {
            return Err(Refusal::Input("the path has a NUL character in it".to_owned()));
        }
        let path = path.trim_start_matches("./");
        let path = if path.is_empty() { "." } else { path };
        let real = self.root.canonicalize(path).map_err(|error| refused(path, &error))?;
        let place = FolderPath::of(&real)
            .ok_or_else(|| Refusal::Input(format!("`{}` has a name that is not text", shown(path))))?;
        // What a link leads to is judged as what it is.
        if place.is_hidden() {
            return Err(missing(path));
        }
        Ok(place)
    }

    /// Whether there is a file at this place for the tool.
    pub(crate) fn includes(&self, place: &FolderPath) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(&place.path))
    }

    /// Opens a folder. No link is followed, so what was judged is what is opened.
    pub(crate) fn folder(&self, place: &FolderPath) -> Result<Dir, Refusal> {
        let failed = |error: io::Error| refused(&place.shown, &error);
        let mut folder = self.root.try_clone().map_err(failed)?;
        for name in place.path.components().filter(|part| !matches!(part, Component::CurDir)) {
            folder = folder.open_dir_nofollow(name).map_err(failed)?;
        }
        Ok(folder)
    }

    /// The file at a path.
    pub(crate) fn file(&self, path: &str) -> Result<(FolderPath, File), Refusal> {
        let place = self.place(path)?;
        let (parent, name) = place.split().ok_or_else(|| is_a_folder(path))?;
        let folder = self.folder(&parent)?;
        if !self.includes(&place) {
            return Err(missing(path));
        }
        let file = open_file(&folder, Path::new(&name)).map_err(|why| why.of(path))?;
        Ok((place, file))
    }

    /// The folder, and the name in it, of a file that need not be there.
    pub(crate) fn place_to_write(&self, path: &str) -> Result<(FolderPath, Dir, String), Refusal> {
        let wrong =
            || Refusal::Input(format!("`{}` is not the name of a file below the folder", shown(path)));
        if path.contains('\0') {
            return Err(Refusal::Input("the path has a NUL character in it".to_owned()));
        }
        // The name is the last part as it is written, for there may be nothing yet to follow.
        let Some(Component::Normal(name)) = Path::new(path).components().next_back() else {
            return Err(wrong());
        };
        if path.ends_with(['/', '\\']) || path.ends_with("/.") {
            return Err(wrong());
        }
        let name = name.to_str().ok_or_else(wrong)?.to_owned();
        let parent = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
        let parent = self.place(parent)?;
        let place = parent.join(&name);
        if place.is_hidden() || !self.includes(&place) {
            return Err(Refusal::Input(format!(
                "`{}` is not among the files that this tool writes",
                shown(path)
            )));
        }
        Ok((place, self.folder(&parent)?, name))
    }
}

impl FolderPath {
    /// The top of the folder.
    pub(crate) fn top() -> Self {
        Self { path: PathBuf::new(), shown: String::new() }
    }

    fn of(path: &Path) -> Option<Self> {
        let mut place = Self::top();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => place = place.join(name.to_str()?),
                Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
            }
        }
        Some(place)
    }

    /// A name in this folder.
    pub(crate) fn join(&self, name: &str) -> Self {
        let shown = if self.shown.is_empty() { name.to_owned() } else { format!("{}/{name}", self.shown) };
        Self { path: self.path.join(name), shown }
    }

    /// The path with `/`. Empty: the folder itself.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the file and its name in it. `None`: it is the top.
    pub(crate) fn split(&self) -> Option<(Self, String)> {
        let name = self.path.file_name()?.to_str()?.to_owned();
        let parent = self.path.parent().and_then(Self::of)?;
        Some((parent, name))
    }

    fn is_hidden(&self) -> bool {
        self.path.components().any(|part| is_hidden(&part.as_os_str().to_string_lossy()))
    }
}

/// Whether a name is one that no tool sees.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name != "."
}

/// Why a file is not opened, without its path.
pub(crate) enum NotOpened {
    System(io::Error),
    /// A folder, a pipe, a device, a socket.
    NotAFile,
}

impl NotOpened {
    /// The reason for this path.
    pub(crate) fn of(self, path: &str) -> Refusal {
        match self {
            Self::System(error) => refused(path, &error),
            Self::NotAFile => Refusal::Input(format!("`{}` is not a regular file", shown(path))),
        }
    }
}

/// Opens a file of a folder for reading, and nothing that is not one: a device is not opened twice, a pipe is not waited for,
/// and a link is not followed.
pub(crate) fn open_file(folder: &Dir, name: &Path) -> Result<File, NotOpened> {
    let about = folder.symlink_metadata(name).map_err(NotOpened::System)?;
    if !about.is_file() {
        return Err(NotOpened::NotAFile);
    }
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    // It may have become a pipe meanwhile, and opening that must not wait for its writer.
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = folder.open_with(name, &options).map_err(NotOpened::System)?;
    let about = file.metadata().map_err(NotOpened::System)?;
    if about.is_file() { Ok(file) } else { Err(NotOpened::NotAFile) }
}

/// A set of globs. One without `/` is of the name alone.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet, ConnectorError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let wrong = |error: globset::Error| {
            let message = format!("`{pattern}` is not a glob: {}; correct it", one_line(error.kind()));
            ConnectorError::Setting { key: "include", message }
        };
        let anywhere = if pattern.contains('/') { pattern.clone() } else { format!("**/{pattern}") };
        set.add(GlobBuilder::new(&anywhere).literal_separator(true).build().map_err(wrong)?);
    }
    set.build().map_err(|error| ConnectorError::Setting { key: "include", message: one_line(error.kind()) })
}

/// What the system says, in words that show nothing of what is outside.
fn refused(path: &str, error: &io::Error) -> Refusal {
    let shown = shown(path);
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _) => missing(path),
        // Not the system's: the path leads out.
        (io::ErrorKind::PermissionDenied, None) => {
            Refusal::Input(format!("`{shown}` leads out of the folder"))
        }
        _ => Refusal::Input(format!("`{shown}` cannot be opened: {}", one_line(error))),
    }
}

fn missing(path: &str) -> Refusal {
    Refusal::Input(format!("there is no file `{}`", shown(path)))
}

fn is_a_folder(path: &str) -> Refusal {
    Refusal::Input(format!("`{}` is a folder", shown(path)))
}

type Decoded<R> = encoding_rs_io::DecodeReaderBytes<io::Chain<io::Cursor<Vec<u8>>, R>, Vec<u8>>;

/// A file as UTF-8, by its mark or by what it declares, and whether it is decoded to that. The mark is no part of the text.
///
/// # Errors
/// The system fails; or what the file is, for behind "it is ".
pub(crate) fn as_text<R: io::Read>(mut file: R) -> io::Result<Result<(Decoded<R>, bool), String>> {
    let mut head = Vec::new();
    file.by_ref().take(charset::DECLARED_WITHIN as u64).read_to_end(&mut head)?;
    let (encoding, mark, _) = match charset::seen(&head, None) {
        Ok(seen) => seen,
        Err(why) => return Ok(Err(why)),
    };
    head.drain(..mark);
    let is_decoded = encoding != encoding_rs::UTF_8;
    let mut decoder = encoding_rs_io::DecodeReaderBytesBuilder::new();
    decoder.bom_sniffing(false).encoding(is_decoded.then_some(encoding));
    Ok(Ok((decoder.build(io::Cursor::new(head).chain(file)), is_decoded)))
}

/// A path as it may be shown: on one line, and not longer than one.
pub(crate) fn shown(path: &str) -> String {
    let clean: String = path.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match clean.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", clean.get(..at).unwrap_or_default()),
        None => clean,
    }
}
