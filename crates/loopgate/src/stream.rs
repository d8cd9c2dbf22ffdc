//! Standard output and standard error. A failure to write to standard output is one line, and exit code 1 in place of 0. A
//! reader that is gone ends a command that only prints quietly, as it does for `head`; a command that drives a run ends with
//! the run.
//!
//! Nothing from outside reaches a terminal as it came: [`print()`] leaves the lines of a text as they are, [`note`] takes a
//! [`Line`], of which every part is one line, and [`print_json`] writes as escapes what may not be shown.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::Style;
use loop_core::types::is_clean;
use loop_runtime::observe::CallNews;
use serde::Serialize;

use crate::chat::typed;
use crate::failure::Failure;
use crate::screen::{self, Output, above};

/// One line for standard error, in parts. What is put into it is cleaned, so that only the styles are ours to obey.
#[derive(Debug, Default)]
pub(crate) struct Line {
    text: String,
}

impl Line {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The line with this behind it.
    pub(crate) fn plain(mut self, text: impl fmt::Display) -> Self {
        self.text.push_str(&one_line(&text.to_string()));
        self
    }

    /// What is written.
    pub(crate) fn styled_text(&self) -> &str {
        &self.text
    }

    /// The line with this behind it, in a style of ours.
    pub(crate) fn styled(mut self, style: Style, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        let _ = write!(self.text, "{style}{}{style:#}", one_line(&text));
        self
    }
}

impl<T: AsRef<str>> From<T> for Line {
    fn from(text: T) -> Self {
        Self::new().plain(text.as_ref())
    }
}

/// Text from outside without what a terminal would obey or a person would not see; line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_dropped = |c: char| is_harmful(c) && c != '\n';
    if text.contains(is_dropped) {
        text.chars().filter(|c| !is_dropped(*c)).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Text from outside as one harmless line: line breaks are spaces, tabs stay.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_harmful) {
        let folded = text.chars().map(|c| if is_break(c) { ' ' } else { c });
        folded.filter(|c| !is_harmful(*c)).collect::<String>().into()
    } else {
        text.into()
    }
}

/// A field of a row: one harmless line of at most so many characters, the last of them `…` where it is cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let line = one_line(text).replace('\t', " ");
    match line.char_indices().nth(max) {
        Some(_) => line.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => line,
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What ends a line or moves to the next.
fn is_break(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What steers a terminal or is not seen.
fn is_harmful(c: char) -> bool {
    c == '\n' || !is_clean(c)
}

/// What a person reads of a call that waits.
pub(crate) fn news(news: &CallNews) -> String {
    match news {
        CallNews::Retrying { next_try, wait_ms, kind, message, .. } => {
            format!("the call failed ({}: {message}); try {next_try} {}", kind.name(), until(*wait_ms))
        }
        CallNews::Queued { wait_ms: Some(ms) } => {
            format!("the call waits for its turn behind a rate limit; it may go {}", until(*ms))
        }
        CallNews::Queued { wait_ms: None } => {
            "the call waits for its turn behind other calls (rate limit)".to_owned()
        }
        CallNews::Sent => "the call is sent".to_owned(),
        CallNews::Silent { for_ms } => format!("the provider has sent nothing for {}", seconds(*for_ms)),
        _ => "the call waits".to_owned(),
    }
}

/// Behind a try: when it begins, where it has to wait.
pub(crate) fn wait(ms: Option<u64>) -> String {
    ms.filter(|ms| *ms > 0).map_or_else(String::new, |ms| format!(", {}", until(ms)))
}

fn until(ms: u64) -> String {
    let at = jiff::Timestamp::now() + Duration::from_millis(ms);
    format!("in {}, at {} UTC", seconds(ms), at.strftime("%H:%M:%S"))
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}

/// Prints to standard output, without what a terminal would obey.
pub(crate) fn print(text: &str) {
    write_out(&harmless(text));
}

/// Prints JSON to standard output. What a terminal would obey is in strings alone, and is escaped there.
pub(crate) fn print_json(text: &str) {
    write_out(&escaped(text));
}

/// Prints a report as one JSON object.
pub(crate) fn print_report(report: &impl Serialize) -> Result<(), Failure> {
    print_json(&format!("{}\n", serde_json::to_string_pretty(report)?));
    Ok(())
}

/// What a shell shows for a program that a closed pipe has ended.
pub(crate) const UNREAD: i32 = 141;

fn write_out(text: &str) {
    if is_lost() {
        return;
    }
    let written = above(Output::Stdout, text, || {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    });
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe && !DRIVES.load(Ordering::Acquire) => {
            exit(UNREAD)
        }
        // What still runs must not be cut off in the middle for that.
        Err(error) => {
            if !HAS_FAILED.swap(true, Ordering::AcqRel) {
                let hint = match DRIVES.load(Ordering::Acquire) {
                    true => "the journal has every run (`loopgate runs`)",
                    false => "give it another place, and repeat the command",
                };
                note(format!("loopgate: standard output cannot be written: {error}; {hint}"));
            }
        }
    }
}

/// Whether a part of standard output is lost.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether the command drives a run, whose outcome is the exit code.
static DRIVES: AtomicBool = AtomicBool::new(false);

/// From now on a reader of standard output that is gone ends nothing: a run goes on to its own end, and says how it ended.
pub(crate) fn outlive_reader() {
    DRIVES.store(true, Ordering::Release);
}

/// Whether what is printed is lost: it cannot be written.
pub(crate) fn is_lost() -> bool {
    HAS_FAILED.load(Ordering::Acquire)
}

/// The exit code of a command: no success where a part of its output is lost.
pub(crate) fn code(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && is_lost() { ExitCode::FAILURE } else { code }
}

/// Prints what the command line is answered with in place of a command, such as the help, and gives the exit code.
pub(crate) fn answered(answer: &clap::Error) -> ExitCode {
    if let Err(error) = answer.print()
        && !answer.use_stderr()
    {
        if error.kind() == ErrorKind::BrokenPipe {
            exit(UNREAD);
        }
        note(format!("loopgate: standard output cannot be written: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(1))
}

/// Ends the program at once, with the terminal as it was found.
pub(crate) fn exit(code: i32) -> ! {
    screen::close();
    typed::restore();
    loop_domain::kill_commands();
    std::process::exit(code)
}

fn escaped(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_harmful(c) && c != '\n';
    if !json.contains(is_escaped) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text.into()
}

/// Prints a line to standard error.
pub(crate) fn note(line: impl Into<Line>) {
    let Line { mut text } = line.into();
    text.push('\n');
    write_err(&text);
}

/// Prints to standard error without a line break.
pub(crate) fn note_part(line: impl Into<Line>) {
    let Line { text } = line.into();
    write_err(&text);
}

fn write_err(text: &str) {
    above(Output::Stderr, text, || {
        let mut err = anstream::stderr().lock();
        // There is no output left to report this to.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    });
}

/// Shows how far a command is, on one line of standard error that the next call replaces. An empty text takes it away.
pub(crate) fn progress(text: &str) {
    match text {
        "" => screen::hide(),
        text => screen::show([Line::from(text)]),
    }
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const OUTSIDE: &str =
        "a\r\nb\tc\u{1b}]0;t\u{7}\u{1b}[2Jd\u{9b}1m\u{202e}e\u{200b}\u{e0041}\u{85}f\u{2028}g\u{7f}";

    #[test]
    fn text_from_outside_steers_no_terminal_and_forges_no_line() {
        assert_eq!(harmless(OUTSIDE), "a\nb\tc]0;t[2Jd1mefg");
        assert_eq!(one_line(OUTSIDE), "a  b\tc]0;t[2Jd1me f g");
        let style = Style::new().bold();
        let line = Line::new().plain("x\n").styled(style, OUTSIDE);
        assert_eq!(line.text, format!("x {style}a  b\tc]0;t[2Jd1me f g{style:#}"));
        for c in ('\0'..='\u{10ffff}').filter(|c| *c != '\n' && *c != '\t') {
            assert!(!harmless(&c.to_string()).contains(char::is_control), "{c:?}");
        }
        assert_eq!(harmless("a\u{ad}\u{61c}\u{2060}\u{fe00}\u{fff9}b"), "ab");
        assert_eq!(harmless("👩\u{200d}🔧 ✉\u{fe0f}"), "👩\u{200d}🔧 ✉\u{fe0f}");
    }

    #[test]
    fn a_long_text_is_cut_to_so_many_characters() {
        assert_eq!((cut("äöü", 3), cut("äöüß", 3)), ("äöü".to_owned(), "äö…".to_owned()));
    }

    #[test]
    fn json_says_the_same_when_it_is_escaped() {
        let json = serde_json::json!({ "text": OUTSIDE });
        let text = serde_json::to_string_pretty(&json).unwrap();
        let escaped = escaped(&text);
        assert!(!escaped.contains(|c| is_harmful(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
    }
}
