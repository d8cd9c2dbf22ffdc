//! Reading: lines of one file, with their numbers.

use std::io::{BufRead as _, BufReader, Read as _};

use crate::CancellationToken;
use serde_json::Value;

use crate::connectors::error::one_line;
use crate::connectors::files::folder::{Folder, Refusal, as_text, shown};

/// The most bytes of a file through which lines are counted.
const SCANNED_MAX: u64 = 64 << 20;

/// Lines of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) path: String,
    /// The number of the first line.
    pub(crate) first: u64,
    /// The lines, without their ends.
    pub(crate) lines: Vec<String>,
    /// Whether the cap ended it.
    pub(crate) is_cut: bool,
    /// Whether the file has lines behind these.
    pub(crate) has_more: bool,
    /// Whether bytes that are not UTF-8 were replaced.
    pub(crate) is_replaced: bool,
}

/// The lines that the parameters name.
pub(crate) fn read(
    folder: &Folder,
    parameters: &Value,
    max_bytes: usize,
    cancel: &CancellationToken,
) -> Result<Lines, Refusal> {
    let path = parameters.get("path").and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| parameters.get(name).and_then(Value::as_u64);
    let (from, to) = (number("from").unwrap_or(1).max(1), number("to"));
    if to.is_some_and(|to| to < from) {
        return Err(Refusal::Input(format!("`to` is before `from`, which is {from}")));
    }
    let (place, file) = folder.file(path)?;
    let mut taken = file.into_std().take(SCANNED_MAX);
    let failed = |error: std::io::Error| Refusal::Failed(one_line(error));
    let unread = |why| Refusal::Input(format!("`{}` is {why}", shown(path)));
    let (text, is_decoded) = as_text(&mut taken).map_err(failed)?.map_err(unread)?;
    let mut reader = BufReader::new(text);
    let mut lines = Lines {
        path: place.shown().to_owned(),
        first: from,
        lines: Vec::new(),
        is_cut: false,
        has_more: false,
        is_replaced: false,
    };
    let (mut at, mut bytes, mut is_end) = (0_u64, 0_usize, false);
    loop {
        if cancel.is_cancelled() {
            return Err(Refusal::Cancelled);
        }
        // One line is read no further than it could be returned.
        let room = (max_bytes - bytes.min(max_bytes)) as u64;
        let mut line = Vec::new();
        let read = reader.by_ref().take(room.max(1) + 1).read_until(b'\n', &mut line);
        if read.map_err(failed)? == 0 {
            is_end = true;
            break;
        }
        let is_whole = line.ends_with(b"\n");
        at += 1;
        if line.contains(&0) {
            return Err(is_binary(path));
        }
        let is_wanted = at >= from;
        if to.is_some_and(|to| at > to) {
            lines.has_more = true;
            break;
        }
        if is_wanted && line.len() as u64 > room {
            // The last line is cut where it is the only one; else it is left for another call.
            if lines.lines.is_empty() {
                line.truncate(room as usize);
                lines.push(&line);
            }
            (lines.is_cut, lines.has_more) = (true, true);
            break;
        }
        if !is_whole && !is_wanted {
            skip_line(&mut reader, path)?;
        }
        if is_wanted {
            bytes += line.len();
            lines.push(&line);
        }
    }
    // What is decoded has a mark where bytes were replaced.
    lines.is_replaced |= is_decoded && lines.lines.iter().any(|line| line.contains('\u{fffd}'));
    // Behind the cap there may be more.
    lines.has_more |= is_end && taken.limit() == 0;
    Ok(lines)
}

impl Lines {
    fn push(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        self.is_replaced |= matches!(text, std::borrow::Cow::Owned(_));
        self.lines.push(text.into_owned());
    }
}

/// What is said of a file that is not text.
pub(crate) fn is_binary(path: &str) -> Refusal {
    Refusal::Input(format!("`{}` is binary: it has a NUL byte in it", shown(path)))
}

/// Reads to the end of a line that is not wanted, without keeping it.
fn skip_line(reader: &mut impl std::io::BufRead, path: &str) -> Result<(), Refusal> {
    loop {
        let ready = reader.fill_buf().map_err(|error| Refusal::Failed(one_line(error)))?;
        if ready.contains(&0) {
            return Err(is_binary(path));
        }
        let (length, is_end) = match ready.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (ready.len(), ready.is_empty()),
        };
        reader.consume(length);
        if is_end {
            return Ok(());
        }
    }
}
