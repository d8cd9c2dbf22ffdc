//! A turn as it goes back, where text and calls do not say it all: its parts as they came.

use crate::codec::{End, Fields};

/// The parts of a reply.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parts: Vec<Part>,
    bytes: usize,
    /// Whether what is kept is not what came, so that it cannot go back.
    is_lost: bool,
}

#[derive(Debug)]
enum Part {
    /// What stands between the quotes of a text that has nothing beside it.
    Text(String),
    /// A call; `is_plain` where its name, arguments and id are all of it.
    Call { json: String, is_plain: bool },
    /// Anything else.
    Other(String),
}

impl Kept {
    /// A text, as it is written; it goes on where the one before it stopped.
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

    /// A part that is more than a text, and no call.
    pub(super) fn other(&mut self, json: &str) {
        if self.has_room(json) {
            self.parts.push(Part::Other(json.to_owned()));
        }
    }

    /// What is kept is not what came: nothing goes back.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        self.parts = Vec::new();
    }

    /// The parts, with commas between them; without the calls where they are not meant.
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

/// Whether a text and the calls after it are all that there is.
fn is_plain(parts: &[Part]) -> bool {
    let rest = match parts {
        [Part::Text(_), rest @ ..] => rest,
        parts => parts,
    };
    rest.iter().all(|part| matches!(part, Part::Call { is_plain: true, .. }))
}

/// The ids that the calls of these parts came with, in order.
pub(super) fn call_ids(parts: &str) -> Vec<Option<String>> {
    let list = format!("[{parts}]");
    let parts: Vec<Fields<'_>> = serde_json::from_str(&list).unwrap_or_default();
    let calls = parts.iter().filter_map(|part| part.get("functionCall"));
    calls.map(|call| Fields::of(call).unwrap_or_default().text("id").some().map(str::to_owned)).collect()
}

/// Bytes of what is kept.
const MAX_KEPT: usize = 4 << 20;
