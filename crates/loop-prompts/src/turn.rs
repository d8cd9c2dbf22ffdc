//! Turns: the messages of a prompt, their sizes and their chained digests.

use std::sync::Arc;

use loop_core::types::{Digest, ToolCall};

use crate::results::CallResult;

/// One turn of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// From the user, or a rendered user prompt of a document run.
    User(Arc<str>),
    /// An earlier reply of the model.
    Assistant {
        /// Its visible text.
        text: Arc<str>,
        /// The provider's opaque turn, where the provider requires it back unchanged. `None`: it does not.
        raw: Option<Arc<str>>,
        /// Its native tool calls, in order.
        calls: Arc<[ToolCall]>,
        /// Its reasoning, where the provider requires it back. `None`: it does not.
        reasoning: Option<Arc<str>>,
    },
    /// The results of the calls of the previous turn: one for each, in order.
    Results(Arc<[CallResult]>),
    /// An instruction of the loop, not of the user, such as that the next reply is the last.
    Operator(Arc<str>),
}

impl Turn {
    /// The turn's text. Empty for results, which have several.
    pub fn text(&self) -> &str {
        match self {
            Self::User(text) | Self::Assistant { text, .. } | Self::Operator(text) => text,
            Self::Results(_) => "",
        }
    }

    /// The bytes that a model reads: texts, and names and arguments of calls.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::User(text) | Self::Operator(text) => text.len(),
            Self::Assistant { text, calls, .. } => {
                text.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
            Self::Results(results) => results.iter().map(|result| result.text.len()).sum(),
        };
        bytes as u64
    }

    /// The digest of this turn chained to `before`, the digest of all turns before it.
    pub(crate) fn named_after(&self, before: &Digest) -> Digest {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(&before.0);
        // Each field is preceded by its length, so that no two turns have the same bytes.
        let mut put = |fields: &[&[u8]]| {
            for field in fields {
                bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
                bytes.extend_from_slice(field);
            }
        };
        match self {
            Self::User(text) => put(&[b"user", text.as_bytes()]),
            Self::Operator(text) => put(&[b"operator", text.as_bytes()]),
            Self::Assistant { text, raw, calls, reasoning } => {
                let raw = raw.as_deref().unwrap_or_default().as_bytes();
                let reasoning = reasoning.as_deref().unwrap_or_default().as_bytes();
                put(&[b"assistant", text.as_bytes(), raw, reasoning]);
                for call in calls.iter() {
                    put(&[call.id.as_bytes(), call.name.as_bytes(), call.arguments.as_bytes()]);
                }
            }
            Self::Results(results) => {
                put(&[b"results"]);
                for result in results.iter() {
                    let kind: &[u8] = if result.is_error { b"error" } else { b"result" };
                    // A known digest saves hashing the text again.
                    let name = result.digest.unwrap_or_else(|| Digest::of("result", result.text.as_bytes()));
                    put(&[result.id.as_bytes(), kind, &name.0]);
                }
            }
        }
        Digest::of("turn", &bytes)
    }
}

#[cfg(test)]
mod tests {
    use loop_core::policy::ResultOrigin;
    use loop_core::types::Status;

    use super::*;

    #[test]
    fn results_are_named_by_what_they_say() {
        let start = Digest::of("test", b"");
        let name = |id: &str, is_error, text: &str, digest| {
            let (status, origin) = (Status::Ok, ResultOrigin::Verdict);
            let result = CallResult { id: id.into(), is_error, text: text.into(), digest, status, origin };
            Turn::Results([result].into()).named_after(&start)
        };
        let (one, other) = (Some(Digest::of("test", b"1")), Some(Digest::of("test", b"2")));
        let names = std::collections::BTreeSet::from([
            name("a", false, "x", None),
            name("b", false, "x", None),
            name("a", true, "x", None),
            name("a", false, "y", None),
            name("a", false, "x", one),
            name("a", false, "x", other),
        ]);
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn turns_of_different_kinds_have_different_names() {
        let text = Arc::<str>::from("x");
        let result = CallResult {
            id: Arc::default(),
            is_error: false,
            text: Arc::clone(&text),
            digest: None,
            status: Status::Ok,
            origin: ResultOrigin::Verdict,
        };
        let turns = [
            Turn::User(Arc::clone(&text)),
            Turn::Operator(Arc::clone(&text)),
            Turn::Assistant { text, raw: None, calls: Arc::default(), reasoning: None },
            Turn::Results([result].into()),
        ];
        let start = Digest::of("test", b"");
        let names: std::collections::BTreeSet<Digest> =
            turns.iter().map(|turn| turn.named_after(&start)).collect();
        assert_eq!(names.len(), turns.len());
    }
}
