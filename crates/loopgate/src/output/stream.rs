//! Writes to standard output and standard error. A failed write to standard output is one line, and turns exit code 0
//! into 1. If the reader is gone, as with `head`, a command that only prints ends quietly, and a command that drives a
//! run ends with the run.
//!
//! Untrusted text never reaches a terminal unescaped: [`print()`] keeps only line breaks, [`note`] takes a [`TextLine`]
//! whose parts are single lines, and [`print_json`] escapes control characters.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::screen;
use super::screen::{Output, above};
use super::text::{TextLine, escaped, harmless};
use super::wrap::wrapped;

/// Prints whole lines to standard output, without control characters. At a terminal they are wrapped at words.
pub(crate) fn print(text: &str) {
    write_out(&wrapped(&harmless(text), screen::width(Output::Stdout)));
}

/// Prints to standard output without wrapping and without control characters: a part of a line, or output for programs.
pub(crate) fn print_part(text: &str) {
    write_out(&harmless(text));
}

/// Prints styled lines to standard output, without wrapping.
pub(crate) fn print_lines(lines: &[TextLine]) {
    lines.iter().for_each(|line| write_out(&format!("{}\n", line.styled_text())));
}

/// Prints JSON to standard output, with control characters escaped.
pub(crate) fn print_json(text: &str) {
    write_out(&escaped(text));
}

/// Prints a report as one JSON object.
pub(crate) fn print_report(report: &impl Serialize) -> Result<(), serde_json::Error> {
    print_json(&format!("{}\n", serde_json::to_string_pretty(report)?));
    Ok(())
}

/// The exit code that shells use for a program that a closed pipe ended.
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

/// Whether a part of standard output was lost.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether the command drives a run, whose outcome decides the exit code.
static DRIVES: AtomicBool = AtomicBool::new(false);

/// From now on, a closed standard output does not end the program: the run continues to its end and reports it.
pub(crate) fn outlive_reader() {
    DRIVES.store(true, Ordering::Release);
}

/// Whether output is lost, since it cannot be written.
pub(crate) fn is_lost() -> bool {
    HAS_FAILED.load(Ordering::Acquire)
}

/// The exit code of a command: not 0 if a part of its output was lost.
pub(crate) fn code(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && is_lost() { ExitCode::FAILURE } else { code }
}

/// Prints clap's response to the command line, such as the help, and returns the exit code.
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

/// Exits at once, after restoring the terminal.
pub(crate) fn exit(code: i32) -> ! {
    screen::close();
    screen::mark_pastes(false);
    loop_domain::kill_commands();
    std::process::exit(code)
}

/// Prints a line to standard error, wrapped at words at a terminal.
pub(crate) fn note(line: impl Into<TextLine>) {
    let text = format!("{}\n", line.into().styled_text());
    write_err(&wrapped(&text, screen::width(Output::Stderr)));
}

/// Prints to standard error without a line break.
pub(crate) fn note_part(line: impl Into<TextLine>) {
    write_err(line.into().styled_text());
}

fn write_err(text: &str) {
    above(Output::Stderr, text, || {
        let mut err = anstream::stderr().lock();
        // There is no output left to report this to.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    });
}

/// Shows progress on one line of standard error, which the next call replaces. An empty text removes it.
pub(crate) fn progress(text: &str) {
    match text {
        "" => screen::hide(),
        text => screen::show([TextLine::from(text)]),
    }
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
