//! The facts with which a run starts, and results for it: observations, failures, usage.

use loop_core::policy::Taint;
use loop_core::run::{CallModel, CheckResult, History, Lack, PromptSize, Provenance, Refusal, SaveResult};
use loop_core::types::{CommandKey, Digest, FailureKind, ModelFailure, Observation, Receipt, Status, Usage};
use loop_core::{EventKind, Facts, Run, WorkItem};
use serde_json::json;

/// The nonce of every run, unless a test changes its facts.
pub const NONCE: &str = "n-7f3a";

/// A prompt of 2,000 bytes that shares nothing with the one before it.
pub const PROMPT: PromptSize = PromptSize { bytes: 2_000, shared_bytes: 0 };

/// Every status that an observation can have.
pub const STATUSES: [Status; 13] = [
    Status::Ok,
    Status::Empty,
    Status::RetryableError,
    Status::PermanentError,
    Status::InvalidInput,
    Status::MalformedResult,
    Status::Denied,
    Status::Duplicate,
    Status::Skipped,
    Status::Timeout,
    Status::Cancelled,
    Status::Pending,
    Status::InDoubt,
];

/// The facts with which a run starts: a fixed instant, [`NONCE`], and no history.
pub fn facts() -> Facts {
    Facts {
        unix_ms: 1_700_000_000_000,
        nonce: NONCE.into(),
        prompts: digest(),
        tools: digest(),
        history: None,
        provenance: Provenance::default(),
    }
}

/// The ticket of the help desk.
pub fn item() -> WorkItem {
    WorkItem {
        compact: "Disk full on server.".into(),
        ..WorkItem::new("T-1", "ticket", "Disk full", "The server's disk is full.")
    }
}

/// A history with this many messages of 400 bytes. They contain nothing untrusted.
pub fn history(messages: u32) -> History {
    History {
        messages,
        counted: None,
        bytes: 400,
        json: "[]".into(),
        taint: Taint::default(),
        doubts: Default::default(),
        requested: Default::default(),
        user_texts: Default::default(),
    }
}

/// Any digest.
pub fn digest() -> Digest {
    Digest::of("test", b"x")
}

/// The key of a command, for example `1/main` or `1/action-0`.
#[track_caller]
pub fn key(text: &str) -> CommandKey {
    match text.parse() {
        Ok(key) => key,
        Err(error) => panic!("`{text}` is not a key: {error}"),
    }
}

/// Usage with this many input and output tokens.
pub fn used(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// The failure of an overloaded provider: ten tokens were charged, no text was received.
pub fn failure(retryable: bool) -> ModelFailure {
    ModelFailure {
        refused: None,
        kind: FailureKind::Overloaded,
        message: "try later".into(),
        retryable,
        retry_at: None,
        partial: None,
        served_model: None,
        usage: Some(used(10, 0)),
        received: Receipt::default(),
    }
}

/// The announcement of a commanded call, granted or refused.
pub fn announced(run: &Run, call: &CallModel, prompt: PromptSize, prompt_hash: Digest) -> EventKind {
    EventKind::announced(call.key, call.attempt, prompt, prompt_hash, run.quote(&call.key, prompt))
}

/// The announcement of a call that was refused.
pub fn refused(call: &CallModel, prompt: PromptSize, refusal: Refusal) -> EventKind {
    EventKind::CallRefused {
        key: call.key,
        attempt: call.attempt,
        prompt_bytes: prompt.bytes,
        shared_bytes: prompt.shared_bytes,
        refusal,
    }
}

/// What a tool found.
pub fn found(markdown: &str) -> Observation {
    Observation::new(Status::Ok, "found", markdown, json!({"text": markdown}).to_string())
}

/// An observation with this status and no result.
pub fn observed(status: Status) -> Observation {
    Observation::failed(status, "tool", "it did not work")
}

/// A save that worked.
pub fn saved_at(location: &str) -> SaveResult {
    SaveResult::Saved { location: location.into() }
}

/// The result of a check that rejects a document or an output with this message.
pub fn rejected(message: &str) -> CheckResult {
    CheckResult::Failed { lacks: vec![Lack::own("rule", message)] }
}

/// The result of a check that failed itself.
pub fn broken() -> CheckResult {
    CheckResult::Broken { by: "rule".into(), message: "it panicked".into() }
}

/// A value after serialisation to JSON and back.
#[track_caller]
pub fn reread<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("it can be written");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("it does not read back: {error}\n{text}"))
}
