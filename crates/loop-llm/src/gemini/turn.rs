//! The parts of a turn, sent back in later requests where text and calls are not enough.

use crate::codec::{End, RawMembers};

/// The parts of a reply.
#[derive(Debug, Default)]
pub(super) struct ReplyParts {
    parts: Vec<Part>,
    bytes: usize,
    /// Whether something was dropped, so that the turn cannot be sent back.
    is_lost: bool,
}

#[derive(Debug)]
enum Part {
    /// The escaped string of a text part without other members.
    Text(String),
    /// A function call. `is_plain` where it has only name, arguments and id.
    Call { json: String, is_plain: bool },
    /// Any other part.
    Other(String),
}

impl ReplyParts {
    /// A text, as escaped JSON. It is appended to a text before it.
    pub(super) fn text(&mut self, quoted: &str) {
        let Some(piece) = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return };
        if piece.is_empty() || !self.has_room(piece) {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(piece),
            _ => self.parts.push(Part::Text(piece.to_owned())),
        }
    }

    pub(super) fn call(&mut self, json: &str, is_plain: bool) {
        if self.has_room(json) {
            self.parts.push(Part::Call { json: json.to_owned(), is_plain });
        }
    }

    /// A part that is neither a plain text nor a call.
    pub(super) fn other(&mut self, json: &str) {
        if self.has_room(json) {
            self.parts.push(Part::Other(json.to_owned()));
        }
    }

    /// Something was dropped: the turn cannot be sent back.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.parts = Vec::new();
    }

    /// The parts separated by commas, without the calls that are not kept.
    pub(super) fn raw(&mut self, end: &End) -> Option<String> {
        let mut parts = std::mem::take(&mut self.parts);
        if !end.keeps_calls {
            parts.retain(|part| !matches!(part, Part::Call { .. }));
        }
        if self.is_lost || end.has_nameless || is_plain(&parts) {
            return None;
        }
        let mut json = String::with_capacity(self.bytes + 16 * parts.len());
        for part in &parts {
            json.push_str(if json.is_empty() { "" } else { "," });
            match part {
                Part::Text(text) => json.extend(["{\"text\":\"", text, "\"}"]),
                Part::Call { json: part, .. } | Part::Other(part) => json.push_str(part),
            }
        }
        Some(json)
    }

    fn has_room(&mut self, json: &str) -> bool {
        self.bytes += json.len();
        if self.bytes > MAX_KEPT {
            self.lose();
        }
        !self.is_lost
    }
}

/// Whether the parts are one text with calls after it.
fn is_plain(parts: &[Part]) -> bool {
    let rest = match parts {
        [Part::Text(_), rest @ ..] => rest,
        parts => parts,
    };
    rest.iter().all(|part| matches!(part, Part::Call { is_plain: true, .. }))
}

/// The ids of the calls of these parts as the provider sent them, in order.
pub(super) fn call_ids(parts: &str) -> Vec<Option<String>> {
    let list = format!("[{parts}]");
    let parts: Vec<RawMembers<'_>> = serde_json::from_str(&list).unwrap_or_default();
    let calls = parts.iter().filter_map(|part| part.get("functionCall"));
    calls.map(|call| RawMembers::of(call).unwrap_or_default().text("id").some().map(str::to_owned)).collect()
}

/// Maximum bytes that are kept.
const MAX_KEPT: usize = 4 << 20;
