//! Standard output and standard error. A reader that is gone ends the program quietly, as it does for `head`.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

/// Text from outside without what a terminal would obey or nobody would see; line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_hidden(c);
    if text.contains(is_harmful) {
        text.chars().filter(|c| !is_harmful(*c)).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Marks that turn the direction of text, and single-character control sequences beyond ASCII.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Prints to standard output.
pub(crate) fn print(text: &str) {
    let text = harmless(text);
    let mut out = anstream::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        // 141 is what a shell shows for a program that a closed pipe has ended.
        std::process::exit(141);
    }
}

/// Prints a line to standard error.
pub(crate) fn note(line: &str) {
    let line: String = line.chars().filter(|c| !is_hidden(*c)).collect();
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
