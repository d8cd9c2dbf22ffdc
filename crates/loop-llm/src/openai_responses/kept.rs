//! The items of an output, sent back in later requests where text and calls are not enough.

use serde_json::value::RawValue;

use super::items::{Items, is_call};
use loop_core::types::ToolCall;

use crate::call::ReplyEnd;
use crate::codec::{End, Json, RawList, RawMembers};

/// The items with `calls`, in order and unchanged. `None` where text and calls are enough.
///
/// Reasoning is sent back in its encrypted form, unless the provider stores it. It belongs to the item after it: neither
/// is sent without the other. Where reasoning is left out, the ids of the other items are too, since the provider would
/// look for the reasoning by them.
pub(super) fn raw(items: &Items, end: &End, calls: &[ToolCall], is_stored: bool) -> Option<String> {
    let is_whole = items.cut_at().is_none() && !items.is_too_large();
    if !is_whole || end.has_new_ids || end.stop == ReplyEnd::ContentFilter {
        return None;
    }
    let items = items.in_order();
    if items.iter().any(|item| item.done.is_none() && item.is_reported()) {
        return None;
    }
    let written: Vec<RawMembers<'_>> = items
        .iter()
        .filter_map(|item| {
            serde_json::from_str::<&RawValue>(item.done.as_deref()?)
                .ok()
                .and_then(|item| RawMembers::of(item).ok())
        })
        .collect();
    let texts: Vec<&str> = items.iter().filter_map(|item| item.done.as_deref()).collect();
    let is_kept = |fields: &RawMembers<'_>| {
        let (kind, id) = (fields.text("type"), fields.text("call_id"));
        match kind.or_empty() {
            "reasoning" => is_stored || fields.text("encrypted_content").some().is_some(),
            kind if is_call(kind) => calls.iter().any(|call| *call.id == *id.or_empty()),
            _ => true,
        }
    };
    let is_reasoning = |fields: &RawMembers<'_>| fields.text("type").or_empty() == "reasoning";
    let mut kept = Vec::new();
    let mut has_lost = false;
    // From the end, so that it is known whether an item follows.
    let mut has_next = false;
    for (fields, text) in written.iter().zip(texts).rev() {
        let goes = is_kept(fields) && (has_next || !is_reasoning(fields));
        has_lost |= is_reasoning(fields) && has_next && !goes;
        has_next = goes || (has_next && is_reasoning(fields));
        if goes {
            kept.push((fields, text));
        }
    }
    kept.reverse();
    if is_plain(&kept) {
        return None;
    }
    let mut json = Json::default();
    for (nth, (fields, text)) in kept.iter().enumerate() {
        json.raw(if nth == 0 { "" } else { "," });
        if has_lost {
            without_id(fields, &mut json);
        } else {
            json.raw(text);
        }
    }
    String::from_utf8(json.take()).ok()
}

fn without_id(fields: &RawMembers<'_>, json: &mut Json) {
    let mut before = "{";
    for (key, value) in fields.0.iter().filter(|(key, _)| key != "id") {
        json.raw(before).value(key).raw(":").raw(value.get());
        before = ",";
    }
    json.raw(if before == "{" { "{}" } else { "}" });
}

/// Whether text and calls are enough: at most one message, then calls, without unknown members.
fn is_plain(kept: &[(&RawMembers<'_>, &str)]) -> bool {
    let mut messages = 0;
    let mut calls = 0;
    kept.iter().all(|(fields, _)| match fields.text("type").or_empty() {
        "message" => {
            messages += 1;
            let content = fields.get("content").map_or("[]", RawValue::get);
            let parts: RawList<'_> = serde_json::from_str(content).unwrap_or_default();
            messages == 1
                && calls == 0
                && has_only(fields, &["type", "id", "status", "role", "content"])
                && parts.0.iter().map(|part| RawMembers::of(part).unwrap_or_default()).all(|part| {
                    has_only(&part, &["type", "text"]) && part.text("type").or_empty() == "output_text"
                })
        }
        "function_call" => {
            calls += 1;
            has_only(fields, &["type", "id", "status", "call_id", "name", "arguments"])
        }
        _ => false,
    })
}

/// Whether all other members are empty.
fn has_only(fields: &RawMembers<'_>, known: &[&str]) -> bool {
    let says = |value: &RawValue| !matches!(value.get(), "null" | "[]" | "\"\"" | "{}");
    fields.0.iter().all(|(key, value)| known.contains(&key.as_ref()) || !says(value))
}
