//! What identifies a call: its fingerprint, the fingerprint of near-duplicates, and the search text in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::repeats::near_duplicate;
use crate::repeats::three_tier::{is_search, normalise, text_of};
use crate::spec::{GateSettings, Repeats, RunSpec, ThreeTier, ToolRepeats, ToolSpec};
use crate::types::{Digest, canonical, digest};

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
    /// How many times the call may be tried in all, if it fails in a way that may pass. From 1.
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
    /// Of all calls that ask for nearly the same.
    pub(crate) near_duplicate: Option<Digest>,
    pub(crate) query: Option<Query>,
    pub(crate) tool: Arc<str>,
    pub(crate) is_read: bool,
    pub(crate) tries: u32,
    pub(crate) polls: u32,
    pub(crate) max_calls: Option<u32>,
}

/// The search text of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Query {
    /// As it was written.
    pub(crate) text: Arc<str>,
    /// Lower case, without punctuation.
    pub(crate) normal: Arc<str>,
    /// Of all other arguments: they have to be the same.
    pub(crate) rest: Digest,
}

impl Fingerprint {
    /// The sign of a call under these rules. The same calls have the same [`signature`](Self::signature), however
    /// their arguments were written.
    pub fn of(call: &CallFacts<'_>, rules: &Rules<'_>) -> Self {
        Self::of_canonical(call, &canonical(call.arguments), rules)
    }

    /// The same, where the canonical text of the arguments is known.
    pub(crate) fn of_canonical(call: &CallFacts<'_>, arguments: &str, rules: &Rules<'_>) -> Self {
        let query = is_search(call, rules).then(|| Query::of(call, rules)).flatten();
        let by_result = rules.repeats == Repeats::Progress && call.rules.key.is_empty();
        Self {
            signature: signature(call, arguments),
            near_duplicate: by_result
                .then(|| near_duplicate::fingerprint(call, &rules.three_tier.query))
                .flatten(),
            query,
            tool: call.tool.into(),
            is_read: call.is_read,
            tries: call.tries,
            polls: call.rules.polls,
            max_calls: call.rules.max_calls,
        }
    }

    /// Names the call: canonical tool and arguments, or those that its tool declares as its key (S3-9, S3-39, C24).
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

/// Over the canonical text of `[tool, arguments]`, which is not built as a value for that.
fn signature(call: &CallFacts<'_>, arguments: &str) -> Digest {
    let tool = canonical(&Value::from(call.tool));
    if call.rules.key.is_empty() {
        return Digest::of("call", format!("[{tool},{arguments}]").as_bytes());
    }
    // What is not there tells apart from what is null.
    let parts: Vec<String> = call
        .rules
        .key
        .iter()
        .map(|pointer| call.arguments.pointer(pointer).map_or_else(String::new, canonical))
        .collect();
    Digest::of("call-key", format!("[{tool},{}]", parts.join(",")).as_bytes())
}
