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
    fn parse(text: &str) -> Option<Coverage> {
        if text == "test" {
            Some(Coverage::Test)
        } else if let Some(number) = text.strip_prefix("decision: ADR ") {
            Some(Coverage::Decision(number.parse().ok().filter(|_| number.len() == 4)?))
        } else {
            let reason = text.strip_prefix("doc:")?;
            (!reason.trim().is_empty()).then_some(Coverage::Doc)
        }
    }
}

/// The rows of a document in their order, or one line for each row that cannot be read.
pub(super) fn parse(text: &str) -> Result<Vec<Row>, Vec<String>> {
    let (mut rows, mut problems, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let Some(inner) = line.strip_prefix('|') else { continue };
        let cells: Vec<&str> = inner.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        let problem = match cells.as_slice() {
            ["id", "what", "state"] => continue,
            [rule, ..] if rule.starts_with("---") => continue,
            [id, what, state] => match (Id::parse(id), Coverage::parse(state)) {
                (None, _) => format!("`{id}` is no id"),
                (_, None) => {
                    format!("`{state}` is not a state: `test`, `decision: ADR NNNN` or `doc: reason`")
                }
                (Some(id), _) if !seen.insert(id) => format!("{id} stands here a second time"),
                (Some(_), _) if what.is_empty() => "it says nothing".to_owned(),
                (Some(id), Some(state)) => {
                    rows.push(Row { id, state, line: line_number });
                    continue;
                }
            },
            other => format!("{} cells instead of `| id | what | state |`", other.len()),
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
    fn a_table_is_read_row_by_row() {
        let text = "# Title\n\n| id | what | state |\n|---|---|---|\n| @0-1 | first | test |\n| %1 | both | decision: ADR 0005 |\n";
        let rows = parse(&sample(text)).unwrap();
        let row = |id: &str, state, line| Row { id: Id::parse(&sample(id)).unwrap(), state, line };
        assert_eq!(rows, [row("@0-1", Coverage::Test, 5), row("%1", Coverage::Decision(5), 6)]);
    }

    #[test]
    fn a_bad_row_is_named_with_its_line() {
        let text = "| @0-1 | a | test |\n| @0-1 | a | test |\n| @0-2 | a |\n| X | a | test |\n| @0-3 | a | later |\n\
                    | @0-4 |  | test |\n| @0-5 | a | doc: |\n| @0-6 | a | decision: ADR 9 |\n";
        let expected = [
            "2: @0-1 stands here a second time",
            "3: 2 cells instead of `| id | what | state |`",
            "4: `X` is no id",
            "5: `later` is not a state: `test`, `decision: ADR NNNN` or `doc: reason`",
            "6: it says nothing",
            "7: `doc:` is not a state: `test`, `decision: ADR NNNN` or `doc: reason`",
            "8: `decision: ADR 9` is not a state: `test`, `decision: ADR NNNN` or `doc: reason`",
        ];
        assert_eq!(
            parse(&sample(text)).unwrap_err(),
            expected.map(|it| sample(&format!("docs/requirements.md:{it}")))
        );
    }
}
