//! Reads a work item: JSON by the JSON pointers that the domain names, or a text.

use std::path::Path;
use std::sync::Arc;

use loop_core::WorkItem;
use loop_core::types::{ItemForm, Scope, is_blank};

use crate::config::ItemConfig;
use crate::error::ItemError;
use crate::json::{Json, render};

/// The most characters of a title.
const TITLE_CHARS: usize = 200;

/// Reads the work item in `text`: JSON if its first character that is not blank is `{`, else Markdown.
pub(crate) fn read(config: &ItemConfig, text: &str, origin: &str) -> Result<WorkItem, ItemError> {
    if text.len() as u64 > config.max_bytes {
        return Err(ItemError::TooLong { origin: origin.to_owned(), max: config.max_bytes });
    }
    // A byte-order mark is not a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_blank(text) {
        return Err(ItemError::Empty { origin: origin.to_owned() });
    }
    match text.trim_start().starts_with('{') {
        true => from_json(config, text, origin),
        false => Ok(from_markdown(config, text, origin)),
    }
}

fn from_json(config: &ItemConfig, text: &str, origin: &str) -> Result<WorkItem, ItemError> {
    let item: Json = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), column_of(&error, text));
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        ItemError::NotJson { origin: origin.to_owned(), line, column, message }
    })?;
    let text_at = |pointer: &str| item.at(pointer).and_then(Json::as_text).filter(|text| !is_blank(text));
    let missing = |what, pointer: &str| ItemError::MissingPart {
        origin: origin.to_owned(),
        pointer: pointer.to_owned(),
        what,
    };
    let title = text_at(&config.title).ok_or_else(|| missing("title", &config.title))?;
    let id: Arc<str> = text_at(&config.id).map_or_else(|| stem(origin), Arc::from);
    let scoped = |pointer: &Option<String>| pointer.as_deref().and_then(text_at).map(Arc::from);
    let scope = Scope {
        account: scoped(&config.scope.account),
        account_name: scoped(&config.scope.account_name),
        asset: scoped(&config.scope.asset),
        item: Some(Arc::clone(&id)),
        person: scoped(&config.scope.person),
    };
    let full = item.render();
    let parts = config.compact.iter().filter_map(|pointer| {
        let name = pointer.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("item");
        item.at(pointer).map(|value| (name, value))
    });
    let compact = render(parts);
    Ok(WorkItem {
        id,
        kind: config.kind.as_str().into(),
        title: one_line(title).into(),
        compact: if compact.is_empty() { full.as_str().into() } else { compact.into() },
        full: full.into(),
        scope,
        form: ItemForm::Data,
        caller: None,
        trace: None,
        traceparent: None,
    })
}

fn from_markdown(config: &ItemConfig, text: &str, origin: &str) -> WorkItem {
    let text = text.trim();
    let heading = text
        .lines()
        .find_map(|line| line.strip_prefix("# ").map(str::trim).filter(|title| !title.is_empty()));
    let title = heading.or_else(|| text.lines().next()).unwrap_or_default();
    let id = stem(origin);
    WorkItem {
        kind: config.kind.as_str().into(),
        title: one_line(title.trim_start_matches('#')).into(),
        full: text.into(),
        compact: text.into(),
        scope: Scope { item: Some(Arc::clone(&id)), ..Scope::default() },
        id,
        form: ItemForm::Data,
        caller: None,
        trace: None,
        traceparent: None,
    }
}

/// The column of a JSON error, in characters. The parser counts bytes.
fn column_of(error: &serde_json::Error, text: &str) -> usize {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let before = line.as_bytes().get(..error.column());
    before.map_or(error.column(), |before| String::from_utf8_lossy(before).chars().count())
}

/// The id of an item from its source: the file name without its extension, `text` for the option of this name, `item`
/// for standard input.
fn stem(origin: &str) -> Arc<str> {
    let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.as_deref().map(|stem| stem.trim_start_matches('-')).filter(|stem| !stem.is_empty());
    stem.unwrap_or("item").into()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > TITLE_CHARS {
        let kept: String = line.chars().take(TITLE_CHARS).collect();
        return format!("{kept}…");
    }
    line
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
