//! Blocks of a document that a command writes: what stands between `<!-- NAME: … -->` and `<!-- end of NAME -->`.

use std::fs;
use std::path::Path;

use crate::workspace::{self, Failure};

/// The document that says what the tests are and what they saw.
pub(crate) const TESTING: &str = "docs/reference/testing.md";

/// Writes a block of a document.
pub(crate) fn write(root: &Path, file: &str, name: &str, content: &str) -> Result<(), Failure> {
    let path = root.join(file);
    let text = replaced(&workspace::read(&path)?, file, name, content)?;
    fs::write(&path, text).map_err(|error| Failure::Check(format!("{file}: {error}")))
}

/// What a block of a document holds.
pub(crate) fn read(root: &Path, file: &str, name: &str) -> Result<String, Failure> {
    let text = workspace::read(&root.join(file))?;
    let (from, to) = find(&text, file, name)?;
    Ok(text.get(from..to).unwrap_or_default().to_owned())
}

/// The text without its blocks, line by line with their numbers from 1: what people write.
pub(crate) fn by_hand(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let ends = line.starts_with("<!-- end of ");
        inside = (inside || line.starts_with("<!-- ") && line.contains(": written by ")) && !ends;
        !inside && !ends
    })
}

fn replaced(text: &str, file: &str, name: &str, content: &str) -> Result<String, Failure> {
    let (from, to) = find(text, file, name)?;
    let (before, after) = (text.get(..from).unwrap_or_default(), text.get(to..).unwrap_or_default());
    Ok(format!("{before}{content}{after}"))
}

/// Where the content of a block begins and ends.
fn find(text: &str, file: &str, name: &str) -> Result<(usize, usize), Failure> {
    let missing = |what: &str| Failure::Check(format!("{file}: the line `{what}` is missing"));
    let (opening, closing) = (format!("<!-- {name}: written by "), format!("<!-- end of {name} -->"));
    let begins = text.find(&opening).ok_or_else(|| missing(&format!("{opening}… -->")))?;
    let rest = text.get(begins..).unwrap_or_default();
    let from = begins + rest.find('\n').map_or(rest.len(), |at| at + 1);
    let length = text.get(from..).and_then(|rest| rest.find(&closing)).ok_or_else(|| missing(&closing))?;
    Ok((from, from + length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TEXT: &str = "# A\n<!-- walk: written by `x` -->\nold\n<!-- end of walk -->\nb\n";

    #[test]
    fn a_block_is_replaced_and_all_else_stays() {
        let new = replaced(TEXT, "a.md", "walk", "new\nlines\n").unwrap();
        assert_eq!(new, "# A\n<!-- walk: written by `x` -->\nnew\nlines\n<!-- end of walk -->\nb\n");
        assert_eq!(replaced(&new, "a.md", "walk", "old\n").unwrap(), TEXT);
        let by_hand: Vec<_> = by_hand(TEXT).collect();
        assert_eq!(by_hand, [(1, "# A"), (5, "b")]);
    }

    #[test]
    fn a_block_that_is_not_there_is_named() {
        let reported = |text: &str, name: &str| replaced(text, "a.md", name, "").unwrap_err().to_string();
        assert_eq!(reported(TEXT, "times"), "a.md: the line `<!-- times: written by … -->` is missing");
        let open = "<!-- walk: written by `x` -->\n";
        assert_eq!(reported(open, "walk"), "a.md: the line `<!-- end of walk -->` is missing");
    }
}
