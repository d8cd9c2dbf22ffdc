//! What a terminal shows after some output: the rows, with all that has scrolled away.

/// The rows of a terminal with so many columns. A sequence that is not known here fails the test.
#[track_caller]
pub fn rows_of(output: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut chars = output.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                let (first, mut code) = (chars.next(), String::new());
                assert!(first.is_none_or(|first| first == '['), "{output:?}");
                let end = chars.by_ref().find(|c| {
                    let is_end = c.is_ascii_alphabetic();
                    code.extend((!is_end).then_some(*c));
                    is_end
                });
                // The output so far may end in the middle of a sequence.
                let Some(end) = end else { break };
                match (end, code.as_str()) {
                    ('A', up) => row -= up.parse::<usize>().unwrap_or(1),
                    ('J', "") => {
                        rows.truncate(row + 1);
                        rows[row].truncate(column);
                    }
                    ('h' | 'l', "?2004") | ('m', _) => {}
                    other => panic!("{other:?} in {output:?}"),
                }
            }
            c => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                if rows.len() <= row {
                    rows.resize(row + 1, Vec::new());
                }
                if rows[row].len() <= column {
                    rows[row].resize(column + 1, ' ');
                }
                rows[row][column] = c;
                column += 1;
            }
        }
        if rows.len() <= row {
            rows.resize(row + 1, Vec::new());
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect()).collect()
}
