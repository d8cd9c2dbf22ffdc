//! Turns: what a prompt is made of, how large each is, and what names a row of them.

use std::sync::Arc;

use loop_core::{Digest, ToolCall};

use crate::results::CallResult;

/// One turn of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The user's, or ours in a document.
    User(Arc<str>),
    /// An earlier reply of the model.
    Assistant {
        /// Its visible text.
        text: Arc<str>,
        /// The provider's own turn, where it must go back unchanged.
        raw: Option<Arc<str>>,
        /// The tools that it called natively, in its order.
        calls: Arc<[ToolCall]>,
        /// What it reasoned, where a provider wants that back.
        reasoning: Option<Arc<str>>,
    },
    /// What came of the calls of the turn before: one for each, in their order.
    Results(Arc<[CallResult]>),
    /// A late instruction of ours, which is not the user's.
    Operator(Arc<str>),
}

impl Turn {
    /// The turn's text; of results, none.
    pub fn text(&self) -> &str {
        match self {
            Self::User(text) | Self::Assistant { text, .. } | Self::Operator(text) => text,
            Self::Results(_) => "",
        }
    }

    /// Bytes of everything in it that a model reads: texts, and names and arguments of calls.
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

    /// Names this turn together with all before it, which `before` names.
    pub(crate) fn named_after(&self, before: &Digest) -> Digest {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&before.0);
        // Each field with its length: no other turn has the same bytes.
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
                    // A text is hashed once in its life.
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
    use loop_core::{ResultOrigin, Status};

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
