//! Parses options with names: callers, traces, keys, tags.

use std::sync::Arc;

use loop_core::types::{TraceParent, is_clean};

use crate::output::Failure;

/// Checks the name in an option: one visible line of at most 200 characters.
pub(crate) fn name_of(option: &str, text: Option<&str>) -> Result<Option<Arc<str>>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let is_plain = |c: char| is_clean(c) && !matches!(c, '\n' | '\t');
    if text.trim().is_empty() || text.chars().count() > 200 || !text.chars().all(is_plain) {
        let message =
            format!("{option}: it is blank, longer than 200 characters or not one plain line; correct it");
        return Err(Failure::new(message));
    }
    Ok(Some(text.trim().into()))
}

/// The parent span of a run: from the option, or from the variable `TRACEPARENT`. An invalid variable is ignored, as
/// the W3C requires, since it may be meant for another program.
pub(crate) fn traceparent(option: Option<&str>) -> Result<Option<TraceParent>, Failure> {
    match option {
        Some(text) => {
            let read = text.parse();
            read.map(Some).map_err(|error| Failure::new(format!("--traceparent {text:?}: {error}")))
        }
        None => Ok(std::env::var("TRACEPARENT").ok().and_then(|text| text.parse().ok())),
    }
}

/// The tags of a run, without duplicates.
pub(crate) fn tags(given: &[String]) -> Result<Vec<String>, Failure> {
    let mut tags: Vec<String> = Vec::new();
    for tag in given {
        let tag = name_of("--tag", Some(tag))?.unwrap_or_default();
        if !tags.iter().any(|known| **known == *tag) {
            tags.push(tag.to_string());
        }
    }
    if tags.len() > MAX_TAGS {
        return Err(Failure::new(format!("a run has at most {MAX_TAGS} tags; give fewer --tag")));
    }
    Ok(tags)
}

const MAX_TAGS: usize = 20;
