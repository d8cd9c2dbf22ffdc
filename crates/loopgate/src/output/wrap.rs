//! Wraps lines at words for a terminal.

use anstream::adapter::strip_str;

use super::screen::columns_of;

/// Wraps a line at words, as a whole or in chunks. A word that is wider than a row stays whole.
#[derive(Debug, Default)]
pub(crate) struct LineWrapper {
    columns: usize,
    /// The indentation of continuation rows.
    indent: usize,
    /// What a shell command needs at the end of a continued row.
    mark: &'static str,
    /// The columns used so far, and the blanks after them.
    used: usize,
    gap: usize,
    /// The current word. Its styles take no column.
    word: String,
}

impl LineWrapper {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// The part of a chunk that can be shown. The last word waits for a blank or the end of the line.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.columns == usize::MAX {
            return piece.to_owned();
        }
        let mut shown = String::new();
        for c in piece.chars() {
            // Scripts without blanks have wide characters, each of which may begin a row.
            let ends = matches!(c, ' ' | '\n') || columns_of(c.encode_utf8(&mut [0; 4])) > 1;
            if ends && !self.word.is_empty() {
                let width = columns_of(&strip_str(&self.word).to_string());
                if self.used + self.gap + width > self.columns && self.used > self.indent {
                    shown.push_str(&format!("{}\n", self.mark));
                    // The end of the row is one blank; more of them, as in the parameters of a call, are not lost.
                    (self.used, self.gap) = (0, self.indent + self.gap.saturating_sub(1));
                }
                shown.push_str(&format!("{}{}", " ".repeat(self.gap), self.word));
                (self.used, self.gap) = (self.used + self.gap + width, 0);
                self.word.clear();
            }
            match c {
                '\n' => {
                    shown.push('\n');
                    (self.used, self.gap) = (0, 0);
                }
                ' ' => self.gap += 1,
                c => self.word.push(c),
            }
        }
        shown
    }
}

/// A text with each line wrapped at words. Fenced code stays unchanged, and a command is continued as a shell reads it.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut is_fenced = false;
    let lines = text.split_inclusive('\n').map(|line| {
        let bare = line.trim_start();
        is_fenced ^= bare.starts_with("```");
        if is_fenced || columns_of(&strip_str(line).to_string()) <= columns {
            return line.to_owned();
        }
        let mark = if bare.starts_with("loopgate ") { " \\" } else { "" };
        // Below a label or the sign of a list the text hangs, and a paragraph does not.
        let first = bare.split(' ').next().unwrap_or_default();
        let hangs = first.len() < bare.len() && (first == "-" || first.ends_with([':', '.']));
        let indent = line.len() - bare.len();
        let indent = if hangs || indent > 0 || !mark.is_empty() { indent + 2 } else { 0 };
        let columns = columns.saturating_sub(mark.len());
        let mut wrap = LineWrapper { columns, indent: indent.min(columns / 2), mark, ..LineWrapper::new(0) };
        wrap.push(line) + &wrap.push(" ")
    });
    lines.collect()
}

/// The last rows of a text, wrapped to `columns`.
pub(crate) fn last_rows(text: &str, columns: usize, max_rows: usize) -> Vec<String> {
    let wrapped = LineWrapper::new(columns).push(&format!("{text} "));
    let first = wrapped.lines().count().saturating_sub(max_rows);
    wrapped.lines().skip(first).map(str::to_owned).collect()
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
        check("  loopgate show a --journal b.db\n", 24, "  loopgate show a \\\n    --journal b.db\n");
        check("```\na b c d e f\n```\na b c d", 5, "```\na b c d e f\n```\na b c\nd");
    }

    #[test]
    fn a_text_in_pieces_is_wrapped_as_a_whole_one() {
        let text = "The device is HAR-LT-014, 端末, and it fails.\nSecond line of it.";
        let whole = {
            let mut wrap = LineWrapper::new(16);
            wrap.push(text) + &wrap.push(" ")
        };
        let mut wrap = LineWrapper::new(16);
        let pieces: String = text.chars().map(|c| wrap.push(&c.to_string())).collect();
        assert_eq!(pieces + &wrap.push(" "), whole);
        assert!(whole.lines().all(|line| columns_of(line) <= 16), "{whole}");
    }

    #[test]
    fn the_end_of_a_text_is_wrapped_by_columns() {
        assert_eq!(last_rows("one two\nthree", 4, 9), ["one", "two", "three"]);
        assert_eq!(last_rows("one two three", 9, 9), ["one two", "three"]);
        assert_eq!(last_rows("one two\nthree", 4, 2), ["two", "three"]);
        assert_eq!(last_rows("日本語", 5, 9), ["日本", "語"]);
        assert_eq!(last_rows("", 5, 9), Vec::<String>::new());
    }
}
