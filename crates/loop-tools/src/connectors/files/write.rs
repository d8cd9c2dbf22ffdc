//! Writing: a file is replaced as a whole or not at all.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::CancellationToken;
use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, OpenOptions, Permissions};
use serde_json::Value;

use crate::connectors::error::one_line;
use crate::connectors::files::folder::{Folder, Refusal, open_file, shown};

/// How many places of a text that is there too often are named.
const PLACES: usize = 10;

/// One change of this program at a time: a patch writes what it read.
static WRITING: Mutex<()> = Mutex::new(());
/// Beginning and end of the name of a file that is written next to the one that it replaces. It is hidden, so that no tool sees it.
const BESIDE: (&str, &str) = (".loopgate-", ".tmp");

/// What was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    /// Of the whole file, afterwards.
    pub(crate) bytes: usize,
    pub(crate) is_new: bool,
    pub(crate) lines_removed: usize,
    pub(crate) lines_added: usize,
    /// The line at which a patch begins.
    pub(crate) line: Option<usize>,
}

/// Creates or replaces a file.
pub(crate) fn write(
    folder: &Folder,
    parameters: &Value,
    max_bytes: usize,
    cancel: &CancellationToken,
) -> Result<FileChange, Refusal> {
    let text = |name: &str| parameters.get(name).and_then(Value::as_str).unwrap_or_default();
    let (path, content) = (text("path"), text("content"));
    check_size(content.len(), max_bytes)?;
    let _one = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (place, parent, name) = folder.place_to_write(path)?;
    let before = match parent.symlink_metadata(&name) {
        Ok(about) if !about.is_file() => {
            return Err(Refusal::Input(format!("`{}` is there, and is not a regular file", shown(path))));
        }
        Ok(about) => Some(about.permissions()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Refusal::Input(format!("`{}`: {}", shown(path), one_line(error)))),
    };
    let is_new = before.is_none();
    folder.clear_once(&parent, clear);
    replace(&parent, &name, content.as_bytes(), before, cancel)?;
    Ok(FileChange {
        path: place.shown().to_owned(),
        bytes: content.len(),
        is_new,
        lines_removed: 0,
        lines_added: content.lines().count(),
        line: None,
    })
}

/// Replaces a text that is in a file exactly once.
pub(crate) fn patch(
    folder: &Folder,
    parameters: &Value,
    max_bytes: usize,
    cancel: &CancellationToken,
) -> Result<FileChange, Refusal> {
    let text = |name: &str| parameters.get(name).and_then(Value::as_str).unwrap_or_default();
    let (path, old, new) = (text("path"), text("old"), text("new"));
    if old.is_empty() {
        return Err(Refusal::Input("`old` is empty; give the text to replace".to_owned()));
    }
    // `read` shows no ends of lines: they are what they are in the file.
    let (old, new) = (&*unix(old), &*unix(new));
    if old == new {
        return Err(Refusal::Input("`old` and `new` are the same".to_owned()));
    }
    let _one = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let place = folder.place(path)?;
    let (at, name) = place.split().ok_or_else(|| Refusal::Input(format!("`{}` is a folder", shown(path))))?;
    if !folder.includes(&place) {
        return Err(Refusal::Input(format!("there is no file `{}`", shown(path))));
    }
    let parent = folder.folder(&at)?;
    let file = open_file(&parent, Path::new(&name)).map_err(|why| why.of(path))?;
    let failed = |error: std::io::Error| Refusal::Failed(one_line(error));
    let permissions = file.metadata().map_err(failed)?.permissions();
    let mut bytes = Vec::new();
    file.into_std().take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    check_size(bytes.len(), max_bytes)?;
    // A text that is read with replacements would be written with them.
    let before = String::from_utf8(bytes)
        .map_err(|_| Refusal::Input(format!("`{}` is not UTF-8 text, so it is not changed", shown(path))))?;
    let view = unix(&before);
    let line_of = |at: usize| view.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let places = occurrences(&view, old);
    let at = match places.as_slice() {
        [at] => *at,
        [] => {
            return Err(Refusal::Input(format!(
                "`old` is nowhere in `{}`; give it exactly as it is there",
                shown(path)
            )));
        }
        many => {
            let lines: Vec<String> = many.iter().take(PLACES).map(|at| line_of(*at).to_string()).collect();
            let more = if many.len() > PLACES { ", …" } else { "" };
            let (count, lines) = (many.len(), lines.join(", "));
            return Err(Refusal::Input(format!(
                "`old` is {count} times in `{}`, in the lines {lines}{more}; give more of the text around it",
                shown(path)
            )));
        }
    };
    let (from, to) = (in_file(&before, at), in_file(&before, at + old.len()));
    let (head, tail) = (before.get(..from).unwrap_or_default(), before.get(to..).unwrap_or_default());
    let is_crlf = before.split_once('\n').is_some_and(|(first, _)| first.ends_with('\r'));
    let new = if is_crlf { new.replace('\n', "\r\n") } else { new.to_owned() };
    let after = [head, &new, tail].concat();
    check_size(after.len(), max_bytes)?;
    folder.clear_once(&parent, clear);
    replace(&parent, &name, after.as_bytes(), Some(permissions), cancel)?;
    Ok(FileChange {
        path: place.shown().to_owned(),
        bytes: after.len(),
        is_new: false,
        lines_removed: old.lines().count(),
        lines_added: new.lines().count(),
        line: Some(line_of(at)),
    })
}

/// The text with `\n` at the end of each line.
fn unix(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Where a place of the [`unix`] text is in the text itself: before the whole end of a line.
fn in_file(text: &str, place: usize) -> usize {
    let mut removed = text.match_indices("\r\n").enumerate().map(|(n, (at, _))| at - n);
    place + removed.by_ref().take_while(|at| *at < place).count()
}

/// Where the text is, overlapping ones too.
fn occurrences(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(old)) {
        places.push(from + at);
        from += at + step;
    }
    places
}

fn check_size(bytes: usize, max_bytes: usize) -> Result<(), Refusal> {
    if bytes > max_bytes {
        return Err(Refusal::Input(format!("the file would have, or has, more than {max_bytes} bytes")));
    }
    Ok(())
}

/// Writes a file beside and puts it in place.
fn replace(
    folder: &Dir,
    name: &str,
    content: &[u8],
    permissions: Option<Permissions>,
    cancel: &CancellationToken,
) -> Result<(), Refusal> {
    let mut beside = String::new();
    let mut put = || -> std::io::Result<File> {
        let mut file = create_beside(folder, &mut beside)?;
        file.write_all(content)?;
        if let Some(permissions) = &permissions {
            file.set_permissions(permissions.clone().into_std(&file)?)?;
        }
        file.sync_all()?;
        Ok(file)
    };
    let outcome = match put() {
        Ok(_) if cancel.is_cancelled() => Err(Refusal::Cancelled),
        // It stays locked until it is in place.
        Ok(_file) => folder.rename(&beside, folder, name).map_err(|error| Refusal::Failed(one_line(error))),
        Err(error) => Err(Refusal::Failed(one_line(error))),
    };
    if outcome.is_err() {
        // What cannot be taken away is hidden.
        let _ = folder.remove_file(&beside);
    }
    outcome
}

/// A new file, locked for as long as it is open: that says that its writer is alive.
fn create_beside(folder: &Dir, name: &mut String) -> std::io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    loop {
        let (own, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        *name = format!("{}{own}-{number}{}", BESIDE.0, BESIDE.1);
        let file = folder.open_with(&*name, &options)?.into_std();
        // Where a file system has no locks, nothing is cleared away.
        let _ = file.lock();
        // Another program may have cleared it away before it was locked.
        if folder.symlink_metadata(&*name).is_ok() {
            return Ok(file);
        }
    }
}

/// Removes what programs left that were killed while they wrote: no living program has it locked.
fn clear(folder: &Dir) -> std::io::Result<()> {
    for entry in folder.entries()? {
        let name = entry?.file_name();
        let is_beside =
            name.to_str().is_some_and(|name| name.starts_with(BESIDE.0) && name.ends_with(BESIDE.1));
        if is_beside
            && let Ok(file) = open_file(folder, Path::new(&name))
            && let Ok(()) = file.into_std().try_lock()
        {
            let _ = folder.remove_file(&name);
        }
    }
    Ok(())
}
