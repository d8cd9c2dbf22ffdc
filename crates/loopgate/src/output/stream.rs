//! Standard output and standard error. A failure to write to standard output is one line, and exit code 1 in place of 0. A
//! reader that is gone ends a command that only prints quietly, as it does for `head`; a command that drives a run ends with
//! the run.
//!
//! Nothing from outside reaches a terminal as it came: [`print()`] leaves the lines of a text as they are, [`note`] takes a
//! [`TextLine`], of which every part is one line, and [`print_json`] writes as escapes what may not be shown.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::screen;
use super::screen::{Output, above};
use super::text::{TextLine, escaped, harmless};
use super::wrap::wrapped;

/// Prints whole lines to standard output, without what a terminal would obey. At a terminal they are wrapped at words.
pub(crate) fn print(text: &str) {
    write_out(&wrapped(&harmless(text), screen::width(Output::Stdout)));
}

/// Prints to standard output as it is, without what a terminal would obey: a part of a line, or what a program reads.
pub(crate) fn print_part(text: &str) {
    write_out(&harmless(text));
}

/// Prints lines with styles of ours to standard output. They are as wide as they should be.
pub(crate) fn print_lines(lines: &[TextLine]) {
    lines.iter().for_each(|line| write_out(&format!("{}\n", line.styled_text())));
}

/// Prints JSON to standard output. What a terminal would obey is in strings alone, and is escaped there.
pub(crate) fn print_json(text: &str) {
    write_out(&escaped(text));
}

/// Prints a report as one JSON object.
pub(crate) fn print_report(report: &impl Serialize) -> Result<(), serde_json::Error> {
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
    screen::mark_pastes(false);
    loop_domain::kill_commands();
    std::process::exit(code)
}

/// Prints a line to standard error. At a terminal it is wrapped at words.
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

/// Shows how far a command is, on one line of standard error that the next call replaces. An empty text takes it away.
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
