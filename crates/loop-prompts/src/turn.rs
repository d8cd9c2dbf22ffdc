//! Turns: what a prompt is made of, how large each is, and what names a row of them.

use std::sync::Arc;

use loop_core::{Digest, NativeCall};

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
        calls: Arc<[NativeCall]>,
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
        let mut bytes = Vec::with_capacity(self.bytes() as usize + 256);
        bytes.extend_from_slice(&before.0);
        // Each field with its length: no other turn has the same bytes.
        let mut put = |field: &str| {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field.as_bytes());
        };
        match self {
            Self::User(text) => ["user", text].into_iter().for_each(put),
            Self::Operator(text) => ["operator", text].into_iter().for_each(put),
            Self::Assistant { text, raw, calls, reasoning } => {
                let opaque = |text: &Option<Arc<str>>| text.clone().unwrap_or_default();
                ["assistant", text, &opaque(raw), &opaque(reasoning)].into_iter().for_each(&mut put);
                for call in calls.iter() {
                    [&call.id, &call.name, &call.arguments].into_iter().for_each(|field| put(field));
                }
            }
            Self::Results(results) => {
                put("results");
                for result in results.iter() {
                    let kind = if result.is_error { "error" } else { "result" };
                    [&result.id, kind, &result.text].into_iter().for_each(&mut put);
                }
            }
        }
        Digest::of("turn", &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_different_kinds_have_different_names() {
        let text = Arc::<str>::from("x");
        let result = CallResult { id: Arc::default(), is_error: false, text: Arc::clone(&text) };
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
