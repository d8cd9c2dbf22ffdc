//! Lines that are wrapped at words for a terminal.

use std::borrow::Cow;

use anstream::adapter::strip_str;

use super::screen::columns_of;

/// Wraps one line at words, whole or in pieces as it is received. A word that is wider than a row stays whole.
#[derive(Debug)]
pub(crate) struct Wrap {
    columns: usize,
    /// How far what continues the line is indented.
    indent: usize,
    /// Whether it is a command, which a shell has to read back.
    is_command: bool,
    /// Columns of the row so far.
    used: usize,
    /// Blanks behind them.
    gap: usize,
    /// The word that has not ended. Its styles take no column.
    word: String,
    is_quoted: bool,
}

impl Wrap {
    pub(crate) fn new(columns: usize, indent: usize) -> Self {
        let (is_command, is_quoted) = (false, false);
        Self { columns, indent, is_command, used: 0, gap: 0, word: String::new(), is_quoted }
    }

    /// What can be shown of a piece: the last word waits for its end.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut shown = String::new();
        for c in piece.chars() {
            // Scripts without blanks have wide characters, each of which may begin a row.
            let is_wide = columns_of(c.encode_utf8(&mut [0; 4])) > 1;
            self.is_quoted ^= c == '\'' && self.is_command;
            match c {
                '\n' => {
                    self.end_word(&mut shown);
                    shown.push('\n');
                    (self.used, self.gap) = (0, 0);
                }
                ' ' if !self.is_quoted => {
                    self.end_word(&mut shown);
                    self.gap += 1;
                }
                c => {
                    if is_wide {
                        self.end_word(&mut shown);
                    }
                    self.word.push(c);
                    if is_wide {
                        self.end_word(&mut shown);
                    }
                }
            }
        }
        shown
    }

    /// The word that waits.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.end_word(&mut shown);
        shown
    }

    fn end_word(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let width = columns_of(&strip_str(&self.word).to_string());
        let blanks = match self.used + self.gap + width > self.columns && self.used > self.indent {
            true => {
                shown.push_str(if self.is_command { " \\\n" } else { "\n" });
                self.used = 0;
                // The end of the row is one blank; more of them, as in the parameters of a call, are not lost.
                self.indent + self.gap.saturating_sub(1)
            }
            false => self.gap,
        };
        shown.extend(std::iter::repeat_n(' ', blanks));
        shown.push_str(&std::mem::take(&mut self.word));
        self.used += blanks + width;
        self.gap = 0;
    }
}

/// A text with each of its lines wrapped at words. What is between fences of Markdown stays as it is, and a command of ours
/// is continued as a shell reads it.
pub(crate) fn wrapped(text: &str, columns: usize) -> Cow<'_, str> {
    let is_wide = |line: &str| columns_of(&strip_str(line).to_string()) > columns;
    if !text.lines().any(is_wide) {
        return text.into();
    }
    let (mut all, mut is_fenced) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        is_fenced ^= bare.starts_with("```");
        if is_fenced || !is_wide(line) {
            all.push_str(line);
            continue;
        }
        let (indent, is_command) = (line.len() - bare.len(), bare.starts_with("loopgate "));
        // Below a label or the sign of a list the text hangs, and a paragraph does not.
        let first = bare.split(' ').next().unwrap_or_default();
        let hangs = indent > 0 || is_command || first == "-" || first.ends_with([':', '.', ')']);
        let indent = (indent + if hangs { 2 } else { 0 }).min(columns / 2);
        let columns = if is_command { columns.saturating_sub(2) } else { columns };
        let mut wrap = Wrap { is_command, ..Wrap::new(columns, indent) };
        all.push_str(&wrap.push(line));
        all.push_str(&wrap.finish());
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &str) {
        assert_eq!(wrapped(text, columns), expected);
    }

    #[test]
    fn lines_are_wrapped_at_words_and_no_row_is_wider_than_the_terminal() {
        check("one two\nthree\n", 7, "one two\nthree\n");
        check("one two three\n", 7, "one two\nthree\n");
        check("run: two three\n", 8, "run: two\n  three\n");
        check("  - one two three four\n", 12, "  - one two\n    three\n    four\n");
        // A blank that does not fit begins no row, and columns of a table keep their blanks.
        check("abcd  efg hi", 9, "abcd  efg\nhi");
        check("abc    def", 5, "abc\n   def");
        // A word that is wider than the terminal stays whole.
        check("see https://a.example/bcdef now", 10, "see\nhttps://a.example/bcdef\nnow");
        // Wide characters take two columns, and may begin a row.
        check("日本語の文書", 8, "日本語の\n文書");
        check("\u{1b}[1mone\u{1b}[0m two three", 7, "\u{1b}[1mone\u{1b}[0m two\nthree");
    }

    #[test]
    fn a_command_is_continued_as_a_shell_reads_it_and_code_stays_as_it_is() {
        check("  loopgate show a --journal 'b c'\n", 24, "  loopgate show a \\\n    --journal 'b c'\n");
        check("```\na b c d e f\n```\na b c d", 5, "```\na b c d e f\n```\na b c\nd");
    }

    #[test]
    fn a_text_in_pieces_is_wrapped_as_a_whole_one() {
        let text = "The device is HAR-LT-014, 端末, and it fails.\nSecond line of it.";
        let whole = {
            let mut wrap = Wrap::new(16, 0);
            wrap.push(text) + &wrap.finish()
        };
        let mut wrap = Wrap::new(16, 0);
        let pieces: String = text.chars().map(|c| wrap.push(&c.to_string())).collect();
        assert_eq!(pieces + &wrap.finish(), whole);
        assert!(whole.lines().all(|line| columns_of(line) <= 16), "{whole}");
    }
}
