//! What identifies a call: its fingerprint, the fingerprint of near-duplicates, and the search text in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repeats::near_duplicate;
use crate::repeats::three_tier::{is_search, normalise, text_of};
use crate::spec::{GateSettings, Repeats, RunSpec, ThreeTier, ToolRepeats, ToolSpec};
use crate::types::{Digest, canonical, canonical_text, digest};

/// One call, as the rules against repeats see it.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The tool's own name.
    pub tool: &'a str,
    /// Its rebuilt arguments: defaults filled in, undeclared members dropped.
    pub arguments: &'a Value,
    /// The tool's own settings for repeats.
    pub rules: &'a ToolRepeats,
    /// Whether the tool only reads.
    pub is_read: bool,
    /// The maximum number of tries of the call, if it fails in a retryable way. From 1.
    pub tries: u32,
}

impl<'a> CallFacts<'a> {
    /// The facts of a call of `tool`; `arguments` are rebuilt.
    pub fn of(tool: &'a ToolSpec, arguments: &'a Value) -> Self {
        Self {
            tool: &tool.name,
            arguments,
            rules: &tool.policy.repeats,
            is_read: tool.effect.is_read(),
            tries: tool.attempts,
        }
    }
}

/// The rules against repeats that a run follows.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The policy.
    pub repeats: Repeats,
    /// The numbers of the policy `three_tier`. Its threshold of similar search texts applies under each policy.
    pub three_tier: &'a ThreeTier,
}

impl Rules<'_> {
    /// Whether results that repeat something carry a note: `three_tier` has fixed texts, and `off` means that nothing
    /// is a repeat.
    fn has_notes(&self) -> bool {
        matches!(self.repeats, Repeats::NeverRerun | Repeats::Progress | Repeats::Reuse)
    }
}

impl<'a> Rules<'a> {
    /// The policy `repeats` with the numbers of these settings.
    pub fn of(gate: &'a GateSettings, repeats: Repeats) -> Self {
        Self { repeats, three_tier: &gate.three_tier }
    }

    /// The rules that a run follows.
    pub fn of_run(spec: &'a RunSpec) -> Self {
        Self::of(&spec.gate, spec.repeats())
    }
}

/// What identifies a call. It is made once for each call and kept while the call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub(crate) signature: Digest,
    /// The fingerprint that near-duplicates share. `None`: the call may change something, the policy is not `progress`,
    /// or the tool declares a key.
    pub(crate) near_duplicate: Option<Digest>,
    pub(crate) query: Option<Query>,
    /// The group of searches that differ in their text alone. `None`: it is not a search, or it gets no notes.
    pub(crate) search: Option<Digest>,
    /// Whether its results may carry notes.
    pub(crate) is_noted: bool,
    pub(crate) tool: Arc<str>,
    pub(crate) is_read: bool,
    pub(crate) tries: u32,
    pub(crate) polls: u32,
    pub(crate) max_calls: Option<u32>,
}

/// The search text of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Query {
    /// The text as the model wrote it.
    pub(crate) text: Arc<str>,
    /// Lower case, without punctuation.
    pub(crate) normal: Arc<str>,
    /// The digest of all other arguments, which have to be equal.
    pub(crate) rest: Digest,
}

impl Fingerprint {
    /// The fingerprint of a call under these rules. Equal calls have equal [`signature`](Self::signature)s, whatever
    /// the order or format of their arguments.
    pub fn of(call: &CallFacts<'_>, rules: &Rules<'_>) -> Self {
        Self::of_canonical(call, &canonical(call.arguments), rules)
    }

    /// As [`of`](Self::of), for a caller that has the canonical text of the arguments.
    pub(crate) fn of_canonical(call: &CallFacts<'_>, arguments: &str, rules: &Rules<'_>) -> Self {
        let query = is_search(call, rules).then(|| Query::of(call, rules)).flatten();
        let by_result = rules.repeats == Repeats::Progress && call.rules.key.is_empty();
        Self {
            signature: signature(call, arguments),
            near_duplicate: by_result
                .then(|| near_duplicate::fingerprint(call, &rules.three_tier.query))
                .flatten(),
            query,
            search: rules
                .has_notes()
                .then(|| near_duplicate::searches(call, &rules.three_tier.query))
                .flatten(),
            is_noted: rules.has_notes(),
            tool: call.tool.into(),
            is_read: call.is_read,
            tries: call.tries,
            polls: call.rules.polls,
            max_calls: call.rules.max_calls,
        }
    }

    /// The digest of the tool and its canonical arguments, or of the arguments that the tool declares as its key.
    pub fn signature(&self) -> Digest {
        self.signature
    }

    /// The tool's own name.
    pub fn tool(&self) -> &str {
        &self.tool
    }
}

impl Query {
    fn of(call: &CallFacts<'_>, rules: &Rules<'_>) -> Option<Self> {
        let (name, text) = text_of(call, rules)?;
        let mut rest = call.arguments.clone();
        if let Some(members) = rest.as_object_mut() {
            members.remove(name);
        }
        Some(Self {
            text: text.into(),
            normal: normalise(text, rules.three_tier).into(),
            rest: digest("call-rest", &rest),
        })
    }
}

/// The digest of the canonical text of `[tool, arguments]`, without building that value.
fn signature(call: &CallFacts<'_>, arguments: &str) -> Digest {
    let is_plain = |byte: u8| !byte.is_ascii_control() && !matches!(byte, b'"' | b'\\');
    if call.rules.key.is_empty() && call.tool.bytes().all(is_plain) {
        // The name as a JSON string is the name in quotes.
        let parts: [&[u8]; 5] = [b"[\"", call.tool.as_bytes(), b"\",", arguments.as_bytes(), b"]"];
        return Digest::of_parts("call", &parts);
    }
    let tool = canonical_text(call.tool);
    if call.rules.key.is_empty() {
        let parts: [&[u8]; 5] = [b"[", tool.as_bytes(), b",", arguments.as_bytes(), b"]"];
        return Digest::of_parts("call", &parts);
    }
    // An absent argument differs from `null`.
    let parts: Vec<String> = call
        .rules
        .key
        .iter()
        .map(|pointer| call.arguments.pointer(pointer).map_or_else(String::new, canonical))
        .collect();
    Digest::of("call-key", format!("[{tool},{}]", parts.join(",")).as_bytes())
}
