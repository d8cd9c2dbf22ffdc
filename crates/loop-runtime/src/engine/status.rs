//! The status of a run on an engine, for people.

use std::sync::Arc;

use loop_core::Run;
use loop_core::types::{CommandKey, Digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::watch::people::deadline_unix_ms;

/// What a run does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineStatus {
    /// The version of this form.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The phase, for example `calling`.
    pub phase: String,
    /// The pass, from 1. 0: before the first.
    pub pass: u32,
    /// How many entries its journal has.
    pub entries: u64,
    /// The reason of its stop. `None`: it has not stopped.
    pub stop: Option<String>,
    /// What waits for a person. Empty if nothing does.
    pub waiting: Vec<OpenRequest>,
}

/// An action or a question that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenRequest {
    /// The action's key, which an answer names.
    #[schemars(with = "String")]
    pub key: CommandKey,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// The parameters that would run, as canonical JSON. A model wrote them, so escape them before showing.
    pub parameters: Arc<str>,
    /// Why an approver is needed.
    pub why: String,
    /// Whether it is a question, which takes an answer instead of an approval.
    pub is_question: bool,
    /// When no answer counts as a denial, in milliseconds since 1970 (UTC). Null: it never does.
    pub deadline_unix_ms: Option<u64>,
    /// The digest of what would run. An answer that carries it counts for this request alone.
    #[schemars(with = "String")]
    pub binding: Digest,
}

/// The version of the form.
const VERSION: u32 = 1;

impl EngineStatus {
    pub(super) fn of(run: &Run, entries: u64) -> Self {
        let started = run.started();
        let waiting = run.requested().into_iter().map(|request| OpenRequest {
            deadline_unix_ms: deadline_unix_ms(started, &request),
            key: request.key,
            tool: request.tool,
            parameters: Arc::clone(request.parameters.text()),
            why: request.why,
            is_question: request.is_question,
            binding: request.binding,
        });
        Self {
            version: VERSION,
            run: run.id().to_string(),
            phase: run.phase().name().to_owned(),
            pass: run.pass(),
            entries,
            stop: run.outcome().map(|outcome| outcome.stop.reason().to_string()),
            waiting: waiting.collect(),
        }
    }
}
