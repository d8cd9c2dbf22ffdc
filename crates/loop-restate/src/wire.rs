//! The JSON messages between a client and a run.

use std::sync::Arc;

use loop_core::WorkItem;
use loop_core::types::Digest;
use loop_runtime::engine::RunMessage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use loop_runtime::engine::{EngineStatus, OpenRequest};

/// A work item for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSubmission {
    /// The name of the domain.
    pub domain: Arc<str>,
    /// The work item.
    pub item: WorkItem,
    /// The caller's idempotency key, for the journal. `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
}

impl EngineSubmission {
    /// The digest of the domain and the item, without the caller and the trace.
    pub(crate) fn digest(&self) -> String {
        let item = WorkItem { caller: None, trace: None, traceparent: None, ..self.item.clone() };
        let text = json!([self.domain, item]).to_string();
        Digest::of("restate-submission", text.as_bytes()).to_string()
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedReply {
    /// The run's id.
    pub run: String,
    /// The class of the stop, for example `answered`.
    pub class: String,
    /// The reason of the stop, for example `confident`.
    pub reason: String,
    /// The exit code of `loopgate run` for such an end.
    pub exit_code: u8,
    /// The document as Markdown, or the answer.
    pub text: String,
    /// The report, as `loopgate show --json` prints it.
    pub report: Value,
}

/// A message to a run, and when it was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// Its number, from 0.
    pub(crate) number: u64,
    pub(crate) unix_ms: u64,
    pub(crate) message: RunMessage,
}

/// A domain that a worker has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerDomain {
    /// Its name.
    pub name: Arc<str>,
    /// The digest of its settings.
    pub spec: String,
}

/// The most messages from people to a run.
pub const MAX_MESSAGES: u64 = 256;

/// The engine's name in a run's first event.
pub const ENGINE: &str = "restate";

/// The name of the workflow in Restate. Its key is the run's id.
pub const RUN: &str = "LoopgateRun";
/// The name of the service that makes calls.
pub const CALLS: &str = "LoopgateCalls";
/// The name of the virtual object that accepts messages for a run, one after another. Its key is the run's id.
pub const INBOX: &str = "LoopgateInbox";
