//! Status rows at the bottom of a terminal, which are updated in place while a command works.
//!
//! They are on standard error. [`show`] draws them and [`hide`] removes them. All other output of the command goes
//! through [`above`], which removes them first and draws them again below. So they do not stay in the scrollback, and
//! never appear inside another line.
//!
//! The terminal's mode is never changed: the cursor stays visible, and echo and line wrap stay on. A killed program
//! leaves one row of text, and nothing to restore.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::TextLine;

/// The stream that a command writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// The status rows, and the state of the screen.
struct BottomRows {
    /// The rows to show.
    rows: Vec<String>,
    /// The columns of each row on the screen.
    drawn: Vec<usize>,
    /// Columns and rows of the terminal at the last drawing.
    size: (usize, usize),
    /// Whether the last line of other output is incomplete.
    is_mid_line: bool,
    /// Whether the program is exiting, so that nothing is drawn any more.
    is_closed: bool,
}

static BOTTOM: Mutex<BottomRows> = Mutex::new(BottomRows {
    rows: Vec::new(),
    drawn: Vec::new(),
    size: (0, 0),
    is_mid_line: false,
    is_closed: false,
});

thread_local! {
    /// Whether this thread holds the rows, so that a panic during a write can still print its message.
    static IS_WRITING: Cell<bool> = const { Cell::new(false) };
}

/// Whether rows can be updated in place: standard error is a terminal that can move its cursor, and the variable `CI`
/// is not set.
pub(crate) fn is_able() -> bool {
    let is_set =
        |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stderr().is_terminal() && !is_dumb && !is_set("CI")
}

/// Columns and rows of the terminal of standard error.
pub(crate) fn size() -> (usize, usize) {
    let size = tcgetwinsize(stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The columns of an output's terminal, or those in the variable `COLUMNS`. [`usize::MAX`]: it is not a terminal.
pub(crate) fn width(output: Output) -> usize {
    let (is_terminal, size) = match output {
        Output::Stdout => (stdout().is_terminal(), tcgetwinsize(stdout())),
        Output::Stderr => (stderr().is_terminal(), tcgetwinsize(stderr())),
    };
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let size = size.map_or(0, |size| size.ws_col.into());
    let known = set.into_iter().chain([size]).find(|columns| *columns > 0);
    if is_terminal { known.unwrap_or(80) } else { usize::MAX }
}

/// The columns for a table on standard output. `None`: a program reads it, and colours are not forced.
pub(crate) fn table_width() -> Option<usize> {
    let (width, colors) = (width(Output::Stdout), AutoStream::choice(&stdout()));
    if width < usize::MAX { Some(width) } else { (colors != ColorChoice::Never).then_some(80) }
}

/// Replaces the rows. Each is one line, cut to the width of the terminal.
pub(crate) fn show(rows: impl IntoIterator<Item = TextLine>) {
    if is_able() {
        let rows = rows.into_iter().map(|line| line.styled_text().to_owned()).collect();
        lock().replace(rows);
    }
}

/// Removes the rows.
pub(crate) fn hide() {
    lock().replace(Vec::new());
}

/// A person has entered a line, so the cursor is at the start of a new one.
pub(crate) fn entered() {
    lock().is_mid_line = false;
}

/// Removes the rows for good, since the program exits. It does not wait for another thread or for a blocked terminal.
pub(crate) fn close() {
    let mut bottom = match BOTTOM.try_lock() {
        Ok(bottom) => bottom,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    bottom.is_closed = true;
    bottom.rows.clear();
    if !bottom.drawn.is_empty() && is_writable() {
        let erased = bottom.erased();
        write_err(&erased);
    }
}

/// Removes the rows when it is dropped, even by a panic.
#[derive(Debug)]
pub(crate) struct CloseOnDrop;

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        close();
    }
}

/// Writes other output above the rows. It may end in the middle of a line.
pub(crate) fn above<T>(output: Output, text: &str, write: impl FnOnce() -> T) -> T {
    let is_shared = match output {
        Output::Stderr => stderr().is_terminal(),
        Output::Stdout => stdout().is_terminal(),
    };
    if !is_shared || IS_WRITING.replace(true) {
        return write();
    }
    let mut bottom = lock();
    let erased = bottom.erased();
    write_err(&erased);
    let written = write();
    if let Some(last) = text.chars().last() {
        bottom.is_mid_line = last != '\n';
    }
    bottom.draw();
    drop(bottom);
    IS_WRITING.set(false);
    written
}

/// Removes the rows while the program is suspended by Ctrl-Z. A command that shows rows calls it once, within a
/// runtime.
pub(crate) fn stop_cleanly() -> std::io::Result<()> {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    tokio::spawn(async move {
        while stops.recv().await.is_some() {
            {
                let mut bottom = lock();
                let erased = bottom.erased();
                write_err(&erased);
            }
            // As the signal would have done. The next change draws the rows again.
            let _ = kill_process(getpid(), Signal::STOP);
        }
    });
    Ok(())
}

/// Whether bracketed paste is on.
static MARKS: AtomicBool = AtomicBool::new(false);

/// Turns bracketed paste on or off.
pub(crate) fn mark_pastes(marks: bool) {
    let is_able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    if stderr().is_terminal() && is_able && MARKS.swap(marks, Ordering::AcqRel) != marks {
        // A terminal that does not know it ignores it.
        let word = if marks { "\x1b[?2004h" } else { "\x1b[?2004l" };
        write_err(word);
    }
}

fn lock() -> MutexGuard<'static, BottomRows> {
    BOTTOM.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BottomRows {
    fn replace(&mut self, rows: Vec<String>) {
        let is_shown = !self.drawn.is_empty() || rows.is_empty();
        if self.rows == rows && is_shown && self.size == size() {
            return;
        }
        self.rows = rows;
        let mut text = self.erased();
        self.draw_into(&mut text);
        write_err(&text);
    }

    fn draw(&mut self) {
        let mut text = String::new();
        self.draw_into(&mut text);
        write_err(&text);
    }

    /// The control sequence that erases the rows. A terminal that became narrower has wrapped them.
    fn erased(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn.is_empty() {
            return String::new();
        }
        let height = height(&drawn, size().0);
        let mut text = "\r".to_owned();
        if height > 1 {
            let _ = write!(text, "\x1b[{}A", height - 1);
        }
        text.push_str("\x1b[J");
        text
    }

    fn draw_into(&mut self, text: &mut String) {
        // A job in the background has no right to the line at which a person types.
        if self.rows.is_empty() || self.is_mid_line || self.is_closed || !is_in_foreground() {
            return;
        }
        self.size = size();
        let (columns, rows) = self.size;
        let is_colored = AutoStream::choice(&stderr()) != ColorChoice::Never;
        let max_rows = rows.saturating_sub(1).max(1);
        let first = self.rows.len().saturating_sub(max_rows);
        let shown = self.rows.iter().skip(first);
        // The last column stays free: a full row makes some terminals wrap.
        let fitted: Vec<String> = shown.map(|row| fit(row, columns.saturating_sub(1))).collect();
        for (nth, row) in fitted.iter().enumerate() {
            let plain = strip_str(row).to_string();
            self.drawn.push(plain.width());
            text.push_str(if nth > 0 { "\n" } else { "" });
            text.push_str(if is_colored { row } else { &plain });
        }
    }
}

/// How many terminal rows these rows take, by their columns.
fn height(rows: &[usize], columns: usize) -> usize {
    rows.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum()
}

/// Whether the program is in the terminal's foreground, so that it may write.
fn is_in_foreground() -> bool {
    // Where the terminal does not tell, for example as it is not the program's own, nothing else is known to use it.
    tcgetpgrp(stderr()).map_or(true, |group| group == getpgrp())
}

fn is_writable() -> bool {
    let err = stderr();
    let mut polled = [PollFd::new(&err, PollFlags::OUT)];
    let limit = Timespec::try_from(Duration::ZERO).ok();
    poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

fn write_err(text: &str) {
    if !text.is_empty() {
        let mut err = stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

/// The most columns that a text takes. Terminals differ for sequences of several characters, so each character is
/// counted.
pub(crate) fn columns_of(text: &str) -> usize {
    text.chars().map(columns_of_char).sum()
}

fn columns_of_char(c: char) -> usize {
    // It makes the character before it an emoji, which is wide.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// A text cut to this many columns, with `…` if it is cut. Styles take no column, and end with the text.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if columns_of(&strip_str(text).to_string()) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut free = columns.saturating_sub(1);
    let mut chars = text.chars();
    let mut is_styled = false;
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A style of our own: what is shown was cleaned before.
            is_styled = true;
            kept.push(c);
            for c in chars.by_ref() {
                kept.push(c);
                if c == 'm' {
                    break;
                }
            }
            continue;
        }
        let width = columns_of_char(c);
        if width > free {
            break;
        }
        free -= width;
        kept.push(c);
    }
    // What joins the next character joins nothing now.
    kept.truncate(kept.trim_end_matches('\u{200d}').len());
    if columns > 0 {
        kept.push(if is_utf8() { '…' } else { '~' });
    }
    if is_styled {
        kept.push_str("\x1b[0m");
    }
    kept
}

/// A text for a terminal of this locale. Without UTF-8, characters other than ASCII are replaced.
pub(crate) fn in_locale(text: &str) -> String {
    if is_utf8() {
        return text.to_owned();
    }
    let ascii = |c: char| match c {
        '·' => '-',
        '│' => '|',
        '…' => '~',
        '✓' => '+',
        '✗' => 'x',
        '●' => '*',
        c if c.is_ascii() => c,
        _ => '?',
    };
    text.chars().map(ascii).collect()
}

/// Whether the locale uses UTF-8. True if it is not set.
fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_by_columns_and_keeps_its_styles() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("\x1b[2mabcd\x1b[0m", 3), "\x1b[2mab…\x1b[0m");
        // A wide character takes two columns, and half of one is not shown.
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("👩\u{200d}🔧 at work", 4), "👩…");
        assert_eq!((fit("abc", 1).as_str(), fit("abc", 0).as_str()), ("…", ""));
        for columns in 0..12 {
            assert!(fit("✉️ 日本 e\u{301}x 👩\u{200d}🔧", columns).width() <= columns, "{columns}");
        }
    }

    #[test]
    fn rows_that_a_narrower_terminal_has_wrapped_are_counted() {
        for (columns, rows) in [(80, 3), (79, 3), (40, 4), (20, 6), (1, 86), (0, 86)] {
            assert_eq!(height(&[79, 0, 6], columns), rows, "{columns}");
        }
    }
}
