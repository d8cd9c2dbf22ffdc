//! Searching: the lines that a text or a regular expression matches.

use std::io::{self, Read as _};

use crate::CancellationToken;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde_json::Value;

use crate::connectors::charset;
use crate::connectors::error::one_line;
use crate::connectors::files::folder::{Folder, Refusal};
use crate::connectors::files::walk::{FolderWalk, Step};

/// The most bytes of a file that is searched; a larger one is left out.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most bytes that are searched in all.
const ALL_BYTES_MAX: u64 = 256 << 20;
/// The most characters of a line that are shown.
const LINE_CHARS: usize = 400;
/// The most bytes of memory that a pattern may need.
const PATTERN_BYTES: usize = 1 << 20;

/// What was found.
pub(crate) struct Matches {
    /// In the order of the paths.
    pub(crate) found: Vec<MatchedLine>,
    /// Whether there are more.
    pub(crate) is_cut: bool,
    /// What was not searched, and why.
    pub(crate) left_out: Vec<String>,
}

/// A line that matches.
pub(crate) struct MatchedLine {
    pub(crate) path: String,
    pub(crate) line: u64,
    pub(crate) text: String,
}

/// The lines that match.
pub(crate) fn search(
    folder: &Folder,
    parameters: &Value,
    max_results: usize,
    max_bytes: usize,
    cancel: &CancellationToken,
) -> Result<Matches, Refusal> {
    let text = |name: &str| parameters.get(name).and_then(Value::as_str);
    let flag = |name: &str| parameters.get(name).and_then(Value::as_bool).unwrap_or_default();
    let matcher = matcher(text("pattern").unwrap_or_default(), flag("regex"), flag("ignore_case"))?;
    let mut walk = FolderWalk::new(folder, text("glob"), cancel)?;
    let mut searcher = searcher();
    let mut all = CollectedMatches { found: Vec::new(), is_cut: false, bytes: 0, max_results, max_bytes };
    let (mut left_out, mut searched) = (Vec::new(), 0_u64);
    walk.below(text("path"), &mut |found| {
        let path = found.place.shown();
        if found.about.len() > FILE_BYTES_MAX {
            left_out.push(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
            return Ok(Step::Next);
        }
        searched += found.about.len();
        if searched > ALL_BYTES_MAX {
            left_out.push(format!("everything from {path} on: more than {ALL_BYTES_MAX} bytes in all"));
            return Ok(Step::Enough);
        }
        let Some(file) = found.open() else {
            left_out.push(format!("{path}: cannot be read"));
            return Ok(Step::Next);
        };
        let mut bytes = Vec::new();
        // It may have grown since.
        if let Err(error) = file.into_std().take(FILE_BYTES_MAX).read_to_end(&mut bytes) {
            left_out.push(format!("{path}: {}", one_line(error)));
            return Ok(Step::Next);
        }
        let (text, why) = charset::shown(&bytes, bytes.len() as u64 == FILE_BYTES_MAX);
        // What has a NUL byte is not text, unless a mark says that it is.
        let is_marked = charset::seen(&bytes, None).map_or(true, |(_, mark, _)| mark > 0);
        if let Some(why) = why.filter(|_| is_marked || !bytes.contains(&0)) {
            left_out.push(format!("{path}: in part: it is {why}"));
        }
        let sink = Lossy(|line, text| {
            if cancel.is_cancelled() {
                return Err(io::Error::other("cancelled"));
            }
            Ok(all.add(path, line, text))
        });
        if let Err(error) = searcher.search_slice(&matcher, text.as_bytes(), sink) {
            if cancel.is_cancelled() {
                return Err(Refusal::Cancelled);
            }
            left_out.push(format!("{path}: {}", one_line(error)));
        }
        Ok(if all.is_cut { Step::Enough } else { Step::Next })
    })?;
    left_out.append(&mut walk.left_out);
    Ok(Matches { found: all.found, is_cut: all.is_cut, left_out })
}

/// The matches so far.
struct CollectedMatches {
    found: Vec<MatchedLine>,
    is_cut: bool,
    bytes: usize,
    max_results: usize,
    max_bytes: usize,
}

impl CollectedMatches {
    /// Takes one more; gives whether the search goes on.
    fn add(&mut self, path: &str, line: u64, text: &str) -> bool {
        let text = short(text.trim_end_matches(['\n', '\r']));
        self.bytes += path.len() + text.len();
        if self.found.len() >= self.max_results || self.bytes > self.max_bytes {
            self.is_cut = true;
            return false;
        }
        self.found.push(MatchedLine { path: path.to_owned(), line, text });
        true
    }
}

fn matcher(pattern: &str, is_regex: bool, ignores_case: bool) -> Result<RegexMatcher, Refusal> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .fixed_strings(!is_regex)
        .case_insensitive(ignores_case)
        // An end of a line is one also where it is written with a carriage return.
        .crlf(true)
        .multi_line(true)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .nest_limit(50);
    builder
        .build(pattern)
        .map_err(|error| Refusal::Input(format!("the pattern is not valid: {}", one_line(error))))
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .bom_sniffing(false)
        .line_terminator(LineTerminator::crlf())
        // What has a NUL byte is not text, and ends there.
        .binary_detection(BinaryDetection::quit(0))
        .build()
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
