//! Escapes untrusted text for a terminal, and formats numbers, tables and times.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::Path;

use anstyle::Style;
use loop_core::types::is_clean;

use super::screen::columns_of;

/// One line for standard error, in parts. Text in it is escaped, so that only the program's own styles apply.
#[derive(Debug, Default)]
pub(crate) struct TextLine {
    text: String,
}

impl TextLine {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends text.
    pub(crate) fn plain(mut self, text: impl fmt::Display) -> Self {
        self.text.push_str(&one_line(&text.to_string()));
        self
    }

    /// The text with its styles.
    pub(crate) fn styled_text(&self) -> &str {
        &self.text
    }

    /// Appends text in a style.
    pub(crate) fn styled(mut self, style: Style, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        let _ = write!(self.text, "{style}{}{style:#}", one_line(&text));
        self
    }
}

impl<T: AsRef<str>> From<T> for TextLine {
    fn from(text: T) -> Self {
        Self::new().plain(text.as_ref())
    }
}

/// Untrusted text without control and invisible characters. Line breaks and tabs stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_dropped = |c: char| is_harmful(c) && c != '\n';
    if text.contains(is_dropped) {
        text.chars().filter(|c| !is_dropped(*c)).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Untrusted text as one escaped line: line breaks become spaces, and tabs stay.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_harmful) {
        let folded = text.chars().map(|c| if is_break(c) { ' ' } else { c });
        folded.filter(|c| !is_harmful(*c)).collect::<String>().into()
    } else {
        text.into()
    }
}

/// A field of a table row: one escaped line of at most `max` characters, with `…` if it is cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let line = one_line(text).replace('\t', " ");
    match line.char_indices().nth(max) {
        Some(_) => line.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => line,
    }
}

/// A number with separated thousands.
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

/// A number and a noun, with separated thousands.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A table: rows below each other, each column as wide as its widest cell.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], gap: &str) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns_of(cell).max(*width);
        }
    }
    let padded = |(cell, width): (&String, usize)| format!("{cell}{}", " ".repeat(width - columns_of(cell)));
    let line = |row: &[String; N]| row.iter().zip(widths).map(padded).collect::<Vec<_>>().join(gap);
    rows.iter().map(|row| format!("{}\n", line(row).trim_end())).collect()
}

/// Whether this character ends a line.
fn is_break(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether this is a control character or invisible.
fn is_harmful(c: char) -> bool {
    c == '\n' || !is_clean(c)
}

pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
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

/// Appends a line. Its content is untrusted, so it is made a single line.
pub(crate) fn row(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

/// A wall time as people read it, in UTC.
pub(crate) fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| unix_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// The option `--journal` for a command that is printed. Empty if it was not given.
pub(crate) fn at_journal(journal: Option<&Path>) -> String {
    journal.map_or_else(String::new, |path| format!(" --journal {}", quoted(&path.to_string_lossy())))
}

/// A path or another argument, quoted for a shell.
pub(crate) fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
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
        let line = TextLine::new().plain("x\n").styled(style, OUTSIDE);
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
