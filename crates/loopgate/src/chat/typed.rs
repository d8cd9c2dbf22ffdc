//! What a person types, line by line, and what must not count as typed.
//!
//! At a terminal a question is answered only by what is typed after it was shown: what came before it is dropped, in the
//! kernel's queue and here, until the input has been quiet for a moment. Text that a terminal marks as pasted is text and
//! never an answer.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::stream;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line that was typed, without its end.
    Line(String),
    /// A text of which at least a part was pasted: one or more lines, without the last end.
    Pasted(String),
    /// A line that is not UTF-8.
    Unreadable,
    /// Nothing more comes.
    End,
}

/// The lines of standard input.
#[derive(Debug)]
pub(crate) struct Lines {
    source: Source,
    is_over: bool,
}

#[derive(Debug)]
enum Source {
    Terminal(Terminal),
    /// A pipe or a file, read on a thread of its own, since a read there cannot be cut off.
    Other(Receiver<Typed>),
}

impl Lines {
    /// Begins to read.
    pub(crate) fn begin() -> Self {
        let source = match stdin().is_terminal() {
            true => Source::Terminal(Terminal::begin()),
            false => Source::Other(read_all()),
        };
        Self { source, is_over: false }
    }

    /// Whether a person types.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.source, Source::Terminal(_))
    }

    /// Whether a person can be asked: they type here, and see what they are asked.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_terminal() && stream::is_watched()
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> Typed {
        if self.is_over {
            return Typed::End;
        }
        let typed = match &mut self.source {
            Source::Terminal(terminal) => terminal.next().await,
            Source::Other(receiver) => receiver.recv().await.unwrap_or(Typed::End),
        };
        self.is_over = typed == Typed::End;
        typed
    }

    /// Drops what was typed so far, and what still comes until nothing has come for a moment.
    pub(crate) async fn forget(&mut self) {
        if let Source::Terminal(terminal) = &mut self.source {
            terminal.forget().await;
        }
    }
}

fn read_all() -> Receiver<Typed> {
    let (sender, receiver) = channel(1);
    std::thread::spawn(move || {
        let mut input = stdin().lock();
        loop {
            let mut bytes = Vec::new();
            let typed = match input.read_until(b'\n', &mut bytes) {
                Ok(1..) => line(bytes, /*is_pasted*/ false),
                Ok(0) | Err(_) => Typed::End,
            };
            let is_last = typed == Typed::End;
            if sender.blocking_send(typed).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

fn line(bytes: Vec<u8>, is_pasted: bool) -> Typed {
    let Ok(mut text) = String::from_utf8(bytes) else { return Typed::Unreadable };
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    if is_pasted { Typed::Pasted(text) } else { Typed::Line(text) }
}

/// A terminal, read only while a line is wanted.
#[derive(Debug)]
struct Terminal {
    /// Held while standard input is read or emptied, so that nothing is read that was to be dropped.
    input: Arc<Mutex<()>>,
    assembly: Assembly,
}

impl Terminal {
    fn begin() -> Self {
        mark_pastes(true);
        Self { input: Arc::default(), assembly: Assembly::default() }
    }

    async fn next(&mut self) -> Typed {
        loop {
            if let Some(typed) = self.assembly.take() {
                return typed;
            }
            match self.read().await {
                Some(bytes) => self.assembly.add(&bytes, Instant::now()),
                None => return self.assembly.rest().unwrap_or(Typed::End),
            }
        }
    }

    /// The bytes that come next; nothing at the end of the input. Dropping the future leaves what comes later unread.
    async fn read(&self) -> Option<Vec<u8>> {
        let is_wanted = Wanted(Arc::new(AtomicBool::new(true)));
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
            {
                let _alone = lock(&self.input);
                // A terminal that is gone holds nothing.
                let _ = tcflush(stdin(), QueueSelector::IFlush);
            }
            self.assembly = Assembly::default();
            tokio::time::sleep(QUIET).await;
            if !is_readable(Duration::ZERO) {
                break;
            }
        }
        // A line that has no end yet cannot be seen.
        let _ = tcflush(stdin(), QueueSelector::IFlush);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        mark_pastes(false);
    }
}

/// A read that is still wanted.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn lock(input: &Mutex<()>) -> MutexGuard<'_, ()> {
    input.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a read would return at once; waits for that.
fn is_readable(within: Duration) -> bool {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    let limit = Timespec::try_from(within).ok();
    poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Whether the terminal was told to mark what is pasted.
static MARKS: AtomicBool = AtomicBool::new(false);

/// Tells the terminal to mark what is pasted, or to mark it no longer.
fn mark_pastes(marks: bool) {
    let is_able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    if stream::is_watched() && is_able && MARKS.swap(marks, Ordering::AcqRel) != marks {
        // A terminal that does not know it ignores it.
        let word: &[u8] = if marks { b"\x1b[?2004h" } else { b"\x1b[?2004l" };
        let mut terminal = stderr().lock();
        let _ = terminal.write_all(word).and_then(|()| terminal.flush());
    }
}

/// Leaves the terminal as it was: for a program that ends without dropping what it holds.
pub(crate) fn restore() {
    mark_pastes(false);
}

/// What a terminal puts around text that is pasted.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Lines out of what is read, however it is cut.
#[derive(Debug, Default)]
struct Assembly {
    /// What is not looked at yet.
    raw: Vec<u8>,
    text: Vec<u8>,
    /// Some of the text was pasted.
    is_pasted: bool,
    /// The end of a paste is still to come.
    in_paste: bool,
    last: Option<Instant>,
}

impl Assembly {
    fn add(&mut self, bytes: &[u8], now: Instant) {
        // A paste comes at once. A line that comes long after it was typed, and the end of the paste was lost: the kernel
        // cuts lines that are too long.
        let is_late = self.last.replace(now).is_some_and(|last| now.duration_since(last) >= PASTE_GAP);
        if self.in_paste && is_late && !bytes.windows(PASTE_ENDS.len()).any(|part| part == PASTE_ENDS) {
            self.in_paste = false;
        }
        self.raw.extend_from_slice(bytes);
    }

    /// The next whole line: a paste goes on over line breaks, until a line break is typed after it.
    fn take(&mut self) -> Option<Typed> {
        let raw = std::mem::take(&mut self.raw);
        let mut rest = raw.as_slice();
        while let Some((first, after)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(PASTE_BEGINS) {
                (self.in_paste, self.is_pasted, rest) = (true, true, after);
            } else if let Some(after) = rest.strip_prefix(PASTE_ENDS) {
                (self.in_paste, self.is_pasted, rest) = (false, true, after);
            } else if PASTE_BEGINS.starts_with(rest) || PASTE_ENDS.starts_with(rest) {
                // Perhaps the beginning of a mark.
                break;
            } else if *first == b'\n' && !self.in_paste {
                self.raw = after.to_vec();
                return Some(self.finish());
            } else {
                // Terminals paste line breaks as the key that makes one.
                self.text.push(if *first == b'\r' && self.in_paste { b'\n' } else { *first });
                rest = after;
            }
        }
        self.raw = rest.to_vec();
        None
    }

    /// What there is at the end of the input.
    fn rest(&mut self) -> Option<Typed> {
        let raw = std::mem::take(&mut self.raw);
        self.text.extend(raw);
        (!self.text.is_empty()).then(|| self.finish())
    }

    fn finish(&mut self) -> Typed {
        let is_pasted = std::mem::take(&mut self.is_pasted);
        self.in_paste = false;
        line(std::mem::take(&mut self.text), is_pasted)
    }
}

/// How long a reader looks for input before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing may come before a question is open.
const QUIET: Duration = Duration::from_millis(300);
/// The longest pause within one paste.
const PASTE_GAP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn all(assembly: &mut Assembly) -> Vec<Typed> {
        std::iter::from_fn(|| assembly.take()).collect()
    }

    #[test]
    fn a_paste_is_one_text_however_it_is_cut() {
        let typed = b"hello\n\x1b[200~Dear all,\ry\r\ny\nbye\x1b[201~ and more\n\x1b[200~y\x1b[201~\ny\n";
        let pasted = |text: &str| Typed::Pasted(text.to_owned());
        let line = |text: &str| Typed::Line(text.to_owned());
        let expected = [line("hello"), pasted("Dear all,\ny\n\ny\nbye and more"), pasted("y"), line("y")];
        for size in 1..typed.len() {
            let (mut assembly, now) = (Assembly::default(), Instant::now());
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
        let (mut assembly, now) = (Assembly::default(), Instant::now());
        assembly.add(b"\x1b[200~a very long line\n", now);
        assert_eq!(all(&mut assembly), []);
        assembly.add(b"\n", now + PASTE_GAP);
        assert_eq!(all(&mut assembly), [Typed::Pasted("a very long line".to_owned())]);
        assembly.add(b"typed\n", now + PASTE_GAP);
        assert_eq!(all(&mut assembly), [Typed::Line("typed".to_owned())]);
    }

    #[test]
    fn a_line_without_its_end_is_told_at_the_end_of_the_input() {
        let mut assembly = Assembly::default();
        assembly.add(b"half\xff", Instant::now());
        assert_eq!(
            (assembly.take(), assembly.rest(), assembly.rest()),
            (None, Some(Typed::Unreadable), None)
        );
    }
}
