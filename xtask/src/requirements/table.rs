//! The table in `docs/requirements.md`: ids, rows and their states.

use std::collections::BTreeSet;
use std::fmt;

/// The id of a requirement: a founding document's row, an edge derived from it, or a conflict.
///
/// The order is that of the table: the documents, each with its rows before its edges, then the conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    /// `S` document `-` number, with a `d` before the number of an edge.
    Row { document: u8, edge: bool, number: u16 },
    /// `C` number.
    Conflict { number: u16 },
}

impl Id {
    pub(super) fn parse(word: &str) -> Option<Id> {
        let number = |digits: &str| {
            let plain = !digits.starts_with('0') && digits.bytes().all(|it| it.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        if let Some(digits) = word.strip_prefix('C') {
            return Some(Id::Conflict { number: number(digits)? });
        }
        let (document, rest) = word.strip_prefix('S')?.split_once('-')?;
        let document = match document {
            "0" => 0,
            "1" => 1,
            "2" => 2,
            "3" => 3,
            "4" => 4,
            _ => return None,
        };
        let (edge, digits) = rest.strip_prefix('d').map_or((false, rest), |digits| (true, digits));
        Some(Id::Row { document, edge, number: number(digits)? })
    }

    /// The name of the table that contains it.
    pub(super) fn group(&self) -> String {
        match self {
            Id::Row { document, .. } => format!("S{document}"),
            Id::Conflict { .. } => "conflicts".to_owned(),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Id::Row { document, edge: false, number } => format!("S{document}-{number}"),
            Id::Row { document, edge: true, number } => format!("S{document}-d{number}"),
            Id::Conflict { number } => format!("C{number}"),
        };
        f.pad(&text)
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: Id,
    pub(super) state: Coverage,
    /// Its line in the file, from 1.
    pub(super) line: usize,
}

/// How far a requirement is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Coverage {
    /// A test names it.
    Test,
    /// A later decision contradicts it: the number of the record that says so.
    Decision(u32),
    /// No test can show it; the table gives the reason.
    Doc,
}

impl Coverage {
    /// The text of a row and its state, which its end names in parentheses unless a test names the row.
    fn split(row: &str) -> Option<(&str, Coverage)> {
        if let Some((text, number)) = row.split_once(" (decision: ADR ") {
            let number = number.strip_suffix(')').filter(|number| number.len() == 4)?;
            return Some((text, Coverage::Decision(number.parse().ok()?)));
        }
        let Some((text, reason)) = row.split_once(" (doc: ") else { return Some((row, Coverage::Test)) };
        reason.strip_suffix(')').filter(|reason| !reason.is_empty())?;
        Some((text, Coverage::Doc))
    }
}

/// The rows of a document in their order, or one line for each row that cannot be read.
pub(super) fn parse(text: &str) -> Result<Vec<Row>, Vec<String>> {
    let (mut rows, mut problems, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let Some(row) = line.strip_prefix("- ") else { continue };
        let problem = match row.split_once(": ").and_then(|(id, text)| Some((id, Coverage::split(text)?))) {
            None => {
                "it is not `- ID: text`, with `(decision: ADR NNNN)` or `(doc: reason)` at most".to_owned()
            }
            Some((id, (text, state))) => match Id::parse(id) {
                None => format!("`{id}` is not an id"),
                Some(id) if !seen.insert(id) => format!("{id} is here a second time"),
                Some(_) if text.trim().is_empty() => "it says nothing".to_owned(),
                Some(id) => {
                    rows.push(Row { id, state, line: line_number });
                    continue;
                }
            },
        };
        problems.push(format!("docs/requirements.md:{line_number}: {problem}"));
    }
    if problems.is_empty() { Ok(rows) } else { Err(problems) }
}

/// The id in the first cell of a table's line.
pub(super) fn first_id(line: &str) -> Option<Id> {
    Id::parse(line.strip_prefix('|')?.split('|').next()?.trim())
}

/// The ids that a text contains as whole words, with the byte at which each starts.
pub(super) fn ids_in(text: &str) -> Vec<(usize, Id)> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = text.get(rest..).and_then(|it| it.find(is_word)).map(|n| rest + n) {
        let tail = text.get(start..).unwrap_or_default();
        let word = tail.split(|it| !is_word(it)).next().unwrap_or_default();
        rest = start + word.len();
        // `\u{C4}` is a letter and no conflict.
        let escaped = text.get(..start).is_some_and(|before| before.ends_with(['{', '\\', '#']));
        if !escaped && let Some(id) = Id::parse(word.trim_end_matches('-')) {
            found.push((start, id));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Sample ids are written with `@` and `%`, or this file would name them itself.
    fn sample(text: &str) -> String {
        text.replace('@', "S").replace('%', "C")
    }

    #[test]
    fn ids_are_read_and_written_alike() {
        for id in ["@0-1", "@4-88", "@0-d13", "%32"].map(sample) {
            assert_eq!(Id::parse(&id).unwrap().to_string(), id);
        }
        for id in ["@5-1", "@0-0", "@0-", "@0-d", "@0-d01", "@-1", "%", "%0", "%1a", "D1"].map(sample) {
            assert_eq!(Id::parse(&id), None, "{id}");
        }
    }

    #[test]
    fn ids_are_sorted_as_the_table_is() {
        let mut ids: Vec<Id> =
            ["%2", "@1-1", "@0-d1", "@0-10", "@0-9"].iter().filter_map(|id| Id::parse(&sample(id))).collect();
        ids.sort();
        let shown: Vec<String> = ids.iter().map(Id::to_string).collect();
        assert_eq!(shown, ["@0-9", "@0-10", "@0-d1", "@1-1", "%2"].map(sample));
    }

    #[test]
    fn conflicts_are_no_letters() {
        let found: Vec<Id> = ids_in(&sample("%14, \\u{%4} #%3 %23.")).into_iter().map(|(_, id)| id).collect();
        assert_eq!(found, [Id::Conflict { number: 14 }, Id::Conflict { number: 23 }]);
    }

    #[test]
    fn a_list_is_read_row_by_row() {
        let text =
            "# Title\n\n- @0-1: first\n- %1: both (decision: ADR 0005)\n- @0-2: third (doc: an (old) aim)\n";
        let rows = parse(&sample(text)).unwrap();
        let row = |id: &str, state, line| Row { id: Id::parse(&sample(id)).unwrap(), state, line };
        let expected = [
            row("@0-1", Coverage::Test, 3),
            row("%1", Coverage::Decision(5), 4),
            row("@0-2", Coverage::Doc, 5),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_bad_row_is_named_with_its_line() {
        let text = "- @0-1: a\n- @0-1: a\n- @0-2\n- X: a\n- @0-4:  \n- @0-5: a (doc: )\n- @0-6: a (decision: ADR 9)\n";
        let form = "it is not `- ID: text`, with `(decision: ADR NNNN)` or `(doc: reason)` at most";
        let expected = [
            "2: @0-1 is here a second time".to_owned(),
            format!("3: {form}"),
            "4: `X` is not an id".to_owned(),
            "5: it says nothing".to_owned(),
            format!("6: {form}"),
            format!("7: {form}"),
        ];
        assert_eq!(
            parse(&sample(text)).unwrap_err(),
            expected.map(|it| sample(&format!("docs/requirements.md:{it}")))
        );
    }
}
