//! A line editor for messages, with cursor keys and a history.

use std::io::{IsTerminal as _, stdin, stdout};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::Editor;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use tokio::sync::oneshot::{Receiver, channel};

use super::screen;
use super::typed::TypedInput;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineInput {
    /// A line, or the end of the input.
    Typed(TypedInput),
    /// Ctrl-C was pressed.
    Interrupt,
}

type LineEditor = Editor<(), MemHistory>;

/// A line editor. It uses the terminal only while a line is read.
pub(crate) struct TerminalEditor {
    max_bytes: u64,
    /// The messages in the history, oldest first.
    history: Vec<String>,
    /// `None` while it reads, and after typed-ahead input was dropped.
    editor: Option<LineEditor>,
    /// The read in progress, on a thread of its own, since it cannot be cancelled.
    reading: Option<Receiver<(LineEditor, Result<String, ReadlineError>)>>,
    /// The terminal settings before.
    plain: Termios,
}

impl std::fmt::Debug for TerminalEditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalEditor").field("history", &self.history.len()).finish_non_exhaustive()
    }
}

impl TerminalEditor {
    /// An editor. `None`: the terminal cannot move its cursor.
    pub(crate) fn begin(max_bytes: u64) -> Option<Self> {
        let plain = tcgetattr(stdin()).ok()?;
        let is_able = screen::is_able() && stdout().is_terminal();
        is_able.then_some(Self { max_bytes, history: Vec::new(), editor: None, reading: None, plain })
    }

    /// Adds a message to the history.
    pub(crate) fn remember(&mut self, message: &str) {
        if self.history.last().is_some_and(|last| last == message) {
            return;
        }
        self.history.push(message.to_owned());
        if let Some(editor) = &mut self.editor {
            // Kept in memory, where nothing fails.
            let _ = editor.add_history_entry(message);
        }
    }

    /// Drops typed-ahead input.
    pub(crate) fn forget(&mut self) {
        self.editor = None;
    }

    /// Reads the next line. If the future is dropped, the next call continues with the same line.
    pub(crate) async fn next(&mut self, prompt: &str) -> LineInput {
        let plain = PlainAfter(&self.plain);
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let Some(mut editor) = self.editor.take().or_else(|| editor(&self.history)) else {
                    return LineInput::Typed(TypedInput::End);
                };
                let (sender, receiver) = channel();
                let prompt = prompt.to_owned();
                std::thread::spawn(move || {
                    let line = editor.readline(&prompt);
                    // The chat may be over.
                    let _ = sender.send((editor, line));
                });
                none.insert(receiver)
            }
        };
        let read = reading.await;
        drop(plain);
        self.reading = None;
        let Ok((editor, line)) = read else { return LineInput::Typed(TypedInput::End) };
        self.editor = Some(editor);
        LineInput::Typed(match line {
            Ok(text) if text.len() as u64 > self.max_bytes => TypedInput::TooLong,
            // One key ends a line: only a paste has several.
            Ok(text) if text.contains('\n') => TypedInput::Pasted(text),
            Ok(text) => TypedInput::Line(text),
            Err(ReadlineError::Interrupted) => return LineInput::Interrupt,
            Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                TypedInput::Unreadable
            }
            Err(_) => TypedInput::End,
        })
    }
}

/// A new editor with this history.
fn editor(history: &[String]) -> Option<LineEditor> {
    // What is pasted is marked by the terminal all the time, see [`screen::mark_pastes`].
    let config = Config::builder().bracketed_paste(false).build();
    let mut editor = LineEditor::with_history(config.clone(), MemHistory::with_config(&config)).ok()?;
    for message in history {
        editor.history_mut().add(message).ok()?;
    }
    Some(editor)
}

/// Restores the terminal settings, even if a signal ends the chat while a line is edited.
struct PlainAfter<'a>(&'a Termios);

impl Drop for PlainAfter<'_> {
    fn drop(&mut self) {
        // A terminal that is gone has no state.
        let _ = tcsetattr(stdin(), OptionalActions::Now, self.0);
    }
}
