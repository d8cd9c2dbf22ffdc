//! Standard output and standard error. A reader that is gone ends the program quietly, as it does for `head`.

use std::io::{IsTerminal, Write};

/// Prints to standard output.
pub(crate) fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        // 141 is what a shell shows for a program that a closed pipe has ended.
        std::process::exit(141);
    }
}

/// Prints a line to standard error.
pub(crate) fn note(line: &str) {
    let mut err = anstream::stderr().lock();
    // Nobody is left to be told that this failed.
    let _ = writeln!(err, "{line}");
}

/// Prints to standard error without a line break.
pub(crate) fn note_part(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
