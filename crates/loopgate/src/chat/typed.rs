//! What is typed: standard input line by line, read on a thread of its own, since a read there cannot be cut off.

use std::io::{BufRead, IsTerminal};

use tokio::sync::mpsc::{Receiver, channel};

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line, without its end.
    Line(String),
    /// A line that is no text.
    Unreadable,
    /// Nothing more comes.
    End,
}

/// The lines of standard input.
#[derive(Debug)]
pub(crate) struct Lines {
    receiver: Receiver<Typed>,
    is_terminal: bool,
}

impl Lines {
    /// Begins to read.
    pub(crate) fn begin() -> Self {
        let (sender, receiver) = channel(1);
        let is_terminal = std::io::stdin().is_terminal();
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            loop {
                let mut bytes = Vec::new();
                let typed = match input.read_until(b'\n', &mut bytes) {
                    Ok(1..) => String::from_utf8(bytes).map_or(Typed::Unreadable, Typed::Line),
                    Ok(0) | Err(_) => Typed::End,
                };
                let is_last = typed == Typed::End;
                if sender.blocking_send(typed).is_err() || is_last {
                    return;
                }
            }
        });
        Self { receiver, is_terminal }
    }

    /// Whether a person types.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> Typed {
        match self.receiver.recv().await {
            Some(Typed::Line(line)) => Typed::Line(line.trim_end_matches(['\r', '\n']).to_owned()),
            Some(other) => other,
            None => Typed::End,
        }
    }

    /// Forgets what a person typed ahead: it was not meant for what is asked now.
    pub(crate) fn forget(&mut self) {
        while self.is_terminal && matches!(self.receiver.try_recv(), Ok(Typed::Line(_) | Typed::Unreadable)) {
        }
    }
}
