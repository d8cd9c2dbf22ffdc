//! Selects the operations that become tools: `--only`.

use std::collections::BTreeSet;

use loop_core::types::edits;

use crate::openapi::document::{Document, Operation};
use crate::openapi::text::line;

/// The most tools of one import: an operator would not review more.
pub(crate) const TOOLS_MAX: usize = 200;
/// How many names are suggested.
const SUGGESTED: usize = 5;
/// The most characters of a name in a message.
const SHOWN: usize = 80;

/// The operations that `only` names, in the order of the document. All of them if `only` is empty.
///
/// # Errors
/// An entry matches nothing, or too many operations match.
pub(crate) fn chosen<'a>(document: &'a Document, only: &[String]) -> Result<Vec<Operation<'a>>, String> {
    let all = document.operations();
    if all.is_empty() {
        let why = document.left_out().into_iter().next();
        let why = why.unwrap_or_else(|| "`paths` is empty".to_owned());
        return Err(format!("the document has no operation that a tool can make: {why}"));
    }
    let mut wanted = BTreeSet::new();
    for text in only {
        let found: Vec<usize> =
            all.iter().enumerate().filter(|(_, it)| fits(it, text.trim())).map(|(at, _)| at).collect();
        if found.is_empty() {
            return Err(format!(
                "--only {}: no operation fits; {}",
                line(text, SHOWN),
                suggestion(&all, text)
            ));
        }
        wanted.extend(found);
    }
    let count = if only.is_empty() { all.len() } else { wanted.len() };
    if count > TOOLS_MAX {
        return Err(format!(
            "{count} operations fit, and at most {TOOLS_MAX} become tools at once; choose with --only (see --list)"
        ));
    }
    let is_wanted = |at: &usize| only.is_empty() || wanted.contains(at);
    Ok(all.iter().enumerate().filter(|(at, _)| is_wanted(at)).map(|(_, it)| *it).collect())
}

/// Every operation on a line of its own: its id, its method and path, and its tags.
pub(crate) fn list(document: &Document) -> String {
    let mut text = String::new();
    for operation in document.operations() {
        let tags: Vec<String> = operation.tags().map(|tag| line(tag, SHOWN)).collect();
        let tags = if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) };
        let id = line(operation.id().unwrap_or("-"), SHOWN);
        text.push_str(&format!("{id}  {}{tags}\n", line(&operation.place(), 200)));
    }
    text
}

/// Whether a text names an operation: by its id, by a tag, as `METHOD /path`, or as the beginning of its path.
fn fits(operation: &Operation<'_>, text: &str) -> bool {
    let is_below = text.starts_with('/')
        && operation
            .path
            .strip_prefix(text.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_place = || match text.split_once(' ') {
        Some((method, path)) => {
            method.eq_ignore_ascii_case(operation.method.name()) && path.trim() == operation.path
        }
        None => false,
    };
    is_below || operation.id() == Some(text) || operation.tags().any(|tag| tag == text) || is_place()
}

/// Suggestions for an entry that matches nothing.
fn suggestion(all: &[Operation<'_>], text: &str) -> String {
    let text = line(text, SHOWN).to_lowercase();
    let mut names = BTreeSet::new();
    // Each name is compared; of a large document only the first ones are.
    for operation in all.iter().take(20_000) {
        names.extend(operation.id().map(|id| line(id, SHOWN)));
        names.extend(operation.tags().map(|tag| line(tag, SHOWN)));
        names.insert(line(&operation.place(), SHOWN));
    }
    let mut near: Vec<(usize, &String)> = names
        .iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let is_part = lower.contains(&text) || text.contains(&lower);
            (if is_part { 0 } else { edits(&text, &lower) }, name)
        })
        .collect();
    near.sort();
    let shown: Vec<String> = near.iter().take(SUGGESTED).map(|(_, name)| format!("`{name}`")).collect();
    format!("the nearest are {} (see --list)", shown.join(", "))
}
