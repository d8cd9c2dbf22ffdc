//! Reads lines that a person types, and discards input that must not count as typed.
//!
//! At a terminal, only input typed after a question was shown answers it. Earlier input is dropped, in the kernel's
//! queue and here, until the input has been quiet for a moment. Pasted text, which the terminal marks, never counts as
//! consent. If a paste began before the question, the rest of it is not an answer, however late it arrives.
//!
//! No line is kept in memory beyond the number of bytes that its reader allows.

use std::io::{BufRead, IsTerminal, Read, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::edited::{LineInput, TerminalEditor};
use super::{screen, stream, stream::note_part};

/// The next input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TypedInput {
    /// A line that was typed, without its end.
    Line(String),
    /// A text that was at least partly pasted: one or more lines, without the last line break.
    Pasted(String),
    /// The rest of a paste that began before earlier input was dropped.
    Rest,
    /// A line or a paste with too many bytes.
    TooLong,
    /// A line that is not UTF-8.
    Unreadable,
    /// The end of the input.
    End,
}

/// The lines of standard input.
#[derive(Debug)]
pub(crate) struct Lines {
    source: Source,
    /// The line editor for messages, if the terminal supports it.
    editor: Option<TerminalEditor>,
    is_over: bool,
}

#[derive(Debug)]
enum Source {
    Terminal(Terminal),
    /// A pipe or a file, read on a thread of its own, since the read cannot be cancelled.
    Other(Receiver<TypedInput>),
}

impl Lines {
    /// Begins to read lines of at most this many bytes.
    pub(crate) fn begin(max_bytes: u64) -> Self {
        let source = match stdin().is_terminal() {
            true => Source::Terminal(Terminal::begin(max_bytes)),
            false => Source::Other(read_all(max_bytes)),
        };
        Self { source, editor: None, is_over: false }
    }

    /// [`begin`](Self::begin) with a line editor for messages, if the terminal supports it.
    pub(crate) fn with_editor(max_bytes: u64) -> Self {
        let lines = Self::begin(max_bytes);
        let editor = lines.is_terminal().then(|| TerminalEditor::begin(max_bytes)).flatten();
        Self { editor, ..lines }
    }

    /// Whether standard input is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.source, Source::Terminal(_))
    }

    /// Whether a person can be asked: they type here, and see the questions.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_terminal() && stream::is_watched()
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> TypedInput {
        if self.is_over {
            return TypedInput::End;
        }
        let typed = match &mut self.source {
            Source::Terminal(terminal) => terminal.next().await,
            Source::Other(receiver) => receiver.recv().await.unwrap_or(TypedInput::End),
        };
        self.is_over = typed == TypedInput::End;
        if self.is_terminal() && !self.is_over {
            screen::entered();
        }
        typed
    }

    /// The next message. A person gets this prompt.
    pub(crate) async fn next_message(&mut self, prompt: &str) -> LineInput {
        let Some(editor) = self.editor.as_mut().filter(|_| !self.is_over) else {
            if self.is_terminal() {
                note_part(prompt);
            }
            return LineInput::Typed(self.next().await);
        };
        let entered = editor.next(prompt).await;
        self.is_over = entered == LineInput::Typed(TypedInput::End);
        screen::entered();
        entered
    }

    /// Adds a message to the history of the line editor.
    pub(crate) fn remember(&mut self, message: &str) {
        if let Some(editor) = &mut self.editor {
            editor.remember(message);
        }
    }

    /// Drops all input so far, and further input until it has been quiet for a moment.
    pub(crate) async fn forget(&mut self) {
        if let Some(editor) = &mut self.editor {
            editor.forget();
        }
        if let Source::Terminal(terminal) = &mut self.source {
            terminal.forget().await;
        }
    }
}

fn read_all(max_bytes: u64) -> Receiver<TypedInput> {
    let (sender, receiver) = channel(1);
    std::thread::spawn(move || {
        let mut input = stdin().lock();
        loop {
            let mut bytes = Vec::new();
            // With the end of the line; more is not read of a line that is too long.
            let read = input.by_ref().take(max_bytes.saturating_add(2)).read_until(b'\n', &mut bytes);
            let typed = match read {
                Ok(1..) if ended(&bytes).len() as u64 > max_bytes => TypedInput::TooLong,
                Ok(1..) => line(bytes),
                Ok(0) | Err(_) => TypedInput::End,
            };
            let is_last = matches!(typed, TypedInput::End | TypedInput::TooLong);
            if sender.blocking_send(typed).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// A line without its line break.
fn ended(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn line(bytes: Vec<u8>) -> TypedInput {
    let Ok(mut text) = String::from_utf8(bytes) else { return TypedInput::Unreadable };
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    TypedInput::Line(text)
}

/// A terminal that is read only while a line is needed.
#[derive(Debug)]
struct Terminal {
    /// Held while standard input is read or emptied, so that dropped input is not read.
    input: Arc<Mutex<()>>,
    assembly: Assembly,
}

impl Terminal {
    fn begin(max_bytes: u64) -> Self {
        screen::mark_pastes(true);
        Self { input: Arc::default(), assembly: Assembly::new(max_bytes) }
    }

    async fn next(&mut self) -> TypedInput {
        loop {
            if let Some(typed) = self.assembly.take() {
                return typed;
            }
            match self.read().await {
                Some(bytes) => self.assembly.add(&bytes, Instant::now()),
                None => return self.assembly.rest().unwrap_or(TypedInput::End),
            }
        }
    }

    /// The next bytes. `None` at the end of the input. If the future is dropped, later input stays unread.
    async fn read(&self) -> Option<Vec<u8>> {
        let is_wanted = ReadFlag(Arc::new(AtomicBool::new(true)));
        let (wanted, input) = (Arc::clone(&is_wanted.0), Arc::clone(&self.input));
        let read = spawn_blocking(move || {
            while wanted.load(Ordering::Acquire) {
                if !is_readable(LOOK) {
                    continue;
                }
                let _alone = lock(&input);
                if !wanted.load(Ordering::Acquire) || !is_readable(Duration::ZERO) {
                    continue;
                }
                let mut bytes = vec![0; 4_096];
                match rustix::io::read(stdin(), &mut bytes) {
                    Ok(0) => return None,
                    Ok(length) => {
                        bytes.truncate(length);
                        return Some(bytes);
                    }
                    Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                    Err(_) => return None,
                }
            }
            None
        });
        read.await.ok().flatten()
    }

    async fn forget(&mut self) {
        loop {
            let dropped = {
                let _alone = lock(&self.input);
                drain()
            };
            self.assembly.forget(&dropped, Instant::now());
            tokio::time::sleep(QUIET).await;
            if !is_readable(Duration::ZERO) {
                break;
            }
        }
        // A line that has no end yet cannot be seen.
        let _alone = lock(&self.input);
        self.assembly.forget(&drain(), Instant::now());
    }
}

/// All pending input, including an incomplete line. It is read and not flushed, since its paste markers say what the
/// rest is.
fn drain() -> Vec<u8> {
    let mut drained = Vec::new();
    let input = stdin();
    // A terminal that is gone holds nothing.
    let Ok(lines) = tcgetattr(&input) else { return drained };
    let mut bytes = lines.clone();
    bytes.local_modes.remove(LocalModes::ICANON);
    bytes.special_codes[SpecialCodeIndex::VMIN] = 0;
    bytes.special_codes[SpecialCodeIndex::VTIME] = 0;
    if tcsetattr(&input, OptionalActions::Now, &bytes).is_ok() {
        let mut piece = [0; 4_096];
        // Bounded, so that the terminal is soon as it was whatever is typed.
        for _ in 0..MAX_PIECES {
            match rustix::io::read(&input, &mut piece) {
                Ok(length @ 1..) => drained.extend_from_slice(piece.get(..length).unwrap_or_default()),
                Ok(0) | Err(_) => break,
            }
        }
        let _ = tcsetattr(&input, OptionalActions::Now, &lines);
    }
    drained
}

impl Drop for Terminal {
    fn drop(&mut self) {
        screen::mark_pastes(false);
    }
}

/// A read that is still needed.
struct ReadFlag(Arc<AtomicBool>);

impl Drop for ReadFlag {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn lock(input: &Mutex<()>) -> MutexGuard<'_, ()> {
    input.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a read would return at once. False: not within this time.
fn is_readable(within: Duration) -> bool {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let limit = Timespec::try_from(within).ok();
    poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

/// The sequence that a terminal sends before pasted text.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Splits input into lines, in whatever chunks it arrives.
#[derive(Debug)]
struct Assembly {
    max_bytes: u64,
    /// Input that was not processed yet.
    raw: Vec<u8>,
    text: Vec<u8>,
    /// Whether a part of the text was discarded, since it is too long.
    is_too_long: bool,
    /// Whether some of the text was pasted.
    is_pasted: bool,
    /// Whether some of the text was pasted before earlier input was dropped.
    is_rest: bool,
    /// Whether the end of a paste is missing.
    in_paste: bool,
    /// The bytes of the current line with its markers, as the kernel counts them.
    line_bytes: usize,
    /// Whether the kernel may have cut a line of the paste, and its end marker with it.
    may_be_cut: bool,
    last: Option<Instant>,
}

impl Assembly {
    fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            raw: Vec::new(),
            text: Vec::new(),
            is_too_long: false,
            is_pasted: false,
            is_rest: false,
            in_paste: false,
            line_bytes: 0,
            may_be_cut: false,
            last: None,
        }
    }

    fn add(&mut self, bytes: &[u8], now: Instant) {
        // A paste comes at once. A line that comes long after it was typed, where the end of the paste may have been lost:
        // the kernel cuts lines that are too long.
        let is_late = self.last.replace(now).is_some_and(|last| now.duration_since(last) >= PASTE_GAP);
        let has_end = bytes.windows(PASTE_ENDS.len()).any(|part| part == PASTE_ENDS);
        if self.in_paste && self.may_be_cut && is_late && !has_end {
            self.leave_paste();
        }
        self.raw.extend_from_slice(bytes);
    }

    /// Drops all input so far. If a paste is incomplete, its rest follows.
    fn forget(&mut self, bytes: &[u8], now: Instant) {
        self.add(bytes, now);
        while self.take().is_some() {}
        // The beginning of a mark stays: the rest of it may be under way. A key alone is no such beginning.
        if self.raw.len() < MARK_KEY.len() || !self.raw.starts_with(MARK_KEY) {
            self.raw.clear();
        }
        self.text.clear();
        (self.is_too_long, self.line_bytes) = (false, 0);
        (self.is_pasted, self.is_rest) = (self.in_paste, self.in_paste);
    }

    fn leave_paste(&mut self) {
        (self.in_paste, self.may_be_cut) = (false, false);
    }

    /// The next complete line. A paste continues over line breaks, until a line break is typed after it.
    fn take(&mut self) -> Option<TypedInput> {
        let raw = std::mem::take(&mut self.raw);
        let mut rest = raw.as_slice();
        while let Some((first, after)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(PASTE_BEGINS) {
                (self.in_paste, self.is_pasted, rest) = (true, true, after);
                self.line_bytes += PASTE_BEGINS.len();
            } else if let Some(after) = rest.strip_prefix(PASTE_ENDS) {
                self.leave_paste();
                (self.is_pasted, rest) = (true, after);
                self.line_bytes += PASTE_ENDS.len();
            } else if PASTE_BEGINS.starts_with(rest) || PASTE_ENDS.starts_with(rest) {
                // Perhaps the beginning of a mark.
                break;
            } else if *first == b'\n' && !self.in_paste {
                self.raw = after.to_vec();
                return Some(self.finish());
            } else {
                // Terminals paste line breaks as the key that makes one.
                self.keep(if *first == b'\r' && self.in_paste { b'\n' } else { *first });
                let is_break = *first == b'\n';
                self.may_be_cut |= is_break && self.line_bytes >= KERNEL_LINE;
                self.line_bytes = if is_break { 0 } else { self.line_bytes + 1 };
                rest = after;
            }
        }
        self.raw = rest.to_vec();
        None
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() as u64 >= self.max_bytes && !matches!(byte, b'\n' | b'\r') {
            self.is_too_long = true;
        } else if !self.is_too_long && self.text.len() as u64 <= self.max_bytes {
            self.text.push(byte);
        }
    }

    /// The remaining text at the end of the input.
    fn rest(&mut self) -> Option<TypedInput> {
        let raw = std::mem::take(&mut self.raw);
        raw.into_iter().for_each(|byte| self.keep(byte));
        (!self.text.is_empty()).then(|| self.finish())
    }

    fn finish(&mut self) -> TypedInput {
        self.leave_paste();
        self.line_bytes = 0;
        let (is_pasted, is_rest) = (std::mem::take(&mut self.is_pasted), std::mem::take(&mut self.is_rest));
        let (text, is_too_long) = (std::mem::take(&mut self.text), std::mem::take(&mut self.is_too_long));
        if is_rest {
            return TypedInput::Rest;
        }
        if is_too_long {
            return TypedInput::TooLong;
        }
        match line(text) {
            TypedInput::Line(text) if is_pasted => TypedInput::Pasted(text),
            typed => typed,
        }
    }
}

/// How long a reader waits for input before it checks whether it is still needed.
const LOOK: Duration = Duration::from_millis(100);
/// How long the input must be quiet before a question is open.
const QUIET: Duration = Duration::from_millis(300);
/// The longest pause within one paste.
const PASTE_GAP: Duration = Duration::from_secs(1);
/// The most chunks of input that are dropped at a time.
const MAX_PIECES: usize = 256;
/// The prefix of the terminal's markers.
const MARK_KEY: &[u8] = b"\x1b[";
/// How many bytes of a line the terminal driver keeps. Anything after them is lost, including a marker.
const KERNEL_LINE: usize = if cfg!(target_os = "linux") { 4_095 } else { 1_000 };

#[cfg(test)]
mod tests {
    use super::*;

    fn all(assembly: &mut Assembly) -> Vec<TypedInput> {
        std::iter::from_fn(|| assembly.take()).collect()
    }

    #[test]
    fn a_paste_is_one_text_however_it_is_cut() {
        let typed = b"hello\n\x1b[200~Dear all,\ry\r\ny\nbye\x1b[201~ and more\n\x1b[200~y\x1b[201~\ny\n";
        let pasted = |text: &str| TypedInput::Pasted(text.to_owned());
        let line = |text: &str| TypedInput::Line(text.to_owned());
        let expected = [line("hello"), pasted("Dear all,\ny\n\ny\nbye and more"), pasted("y"), line("y")];
        for size in 1..typed.len() {
            let (mut assembly, now) = (Assembly::new(1 << 20), Instant::now());
            let mut lines = Vec::new();
            for piece in typed.chunks(size) {
                assembly.add(piece, now);
                lines.extend(all(&mut assembly));
            }
            assert_eq!(lines, expected, "{size}");
        }
    }

    #[test]
    fn a_paste_whose_end_was_lost_ends_with_the_next_line_that_is_typed() {
        let (mut assembly, now) = (Assembly::new(1 << 20), Instant::now());
        let long = "a".repeat(KERNEL_LINE - PASTE_BEGINS.len());
        assembly.add(format!("\x1b[200~{long}\n").as_bytes(), now);
        assert_eq!(all(&mut assembly), []);
        assembly.add(b"\n", now + PASTE_GAP);
        assert_eq!(all(&mut assembly), [TypedInput::Pasted(long)]);
        assembly.add(b"typed\n", now + PASTE_GAP);
        assert_eq!(all(&mut assembly), [TypedInput::Line("typed".to_owned())]);
    }

    #[test]
    fn the_rest_of_a_paste_is_known_as_that_however_late_it_comes() {
        // B1
        let (mut assembly, now) = (Assembly::new(1 << 20), Instant::now());
        assembly.forget(b"y\n\x1b[200~Dear all,\ny", now);
        for nth in 1..=3 {
            assembly.add(b"y\n", now + PASTE_GAP * nth);
            assert_eq!(all(&mut assembly), []);
            assembly.forget(b"yes\n", now + PASTE_GAP * nth);
        }
        assembly.add(b"y\x1b[201~\n", now + PASTE_GAP * 5);
        assembly.add(b"y\n", now + PASTE_GAP * 6);
        assert_eq!(all(&mut assembly), [TypedInput::Rest, TypedInput::Line("y".to_owned())]);
        // What was pasted whole before is gone, and so is a key that begins a mark.
        assembly.forget(b"\x1b[200~y\ny\x1b[201~\ny\x1b", now + PASTE_GAP * 7);
        assembly.add(b"n\n", now + PASTE_GAP * 7);
        assert_eq!(all(&mut assembly), [TypedInput::Line("n".to_owned())]);
        // A mark may be cut in two by the question.
        assembly.forget(b"\x1b[20", now + PASTE_GAP * 8);
        assembly.add(b"0~y\ny\x1b[201~\n", now + PASTE_GAP * 8);
        assert_eq!(all(&mut assembly), [TypedInput::Pasted("y\ny".to_owned())]);
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        // B10
        let (mut assembly, now) = (Assembly::new(4), Instant::now());
        assembly
            .add(b"four\r\nfour\n\x1b[200~a\nb\nc\x1b[201~\n\x1b[200~four\n\x1b[201~\nfives\nfour\n", now);
        let line = |text: &str| TypedInput::Line(text.to_owned());
        let expected = [
            line("four"),
            line("four"),
            TypedInput::TooLong,
            TypedInput::Pasted("four".to_owned()),
            TypedInput::TooLong,
            line("four"),
        ];
        assert_eq!(all(&mut assembly), expected);
        for _ in 0..100 {
            assembly.add(&[b'a'; 4_096], now);
            assert_eq!(all(&mut assembly), []);
        }
        assert!(assembly.text.len() <= 5 && assembly.text.capacity() < 64, "{}", assembly.text.capacity());
    }

    #[test]
    fn a_line_without_its_end_is_told_at_the_end_of_the_input() {
        let mut assembly = Assembly::new(1 << 20);
        assembly.add(b"half\xff", Instant::now());
        assert_eq!(
            (assembly.take(), assembly.rest(), assembly.rest()),
            (None, Some(TypedInput::Unreadable), None)
        );
    }
}
