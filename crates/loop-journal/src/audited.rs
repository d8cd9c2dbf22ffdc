//! Who did what to runs from outside, and who was refused: the entries that a server keeps for an auditor.

use std::sync::Arc;

use loop_core::types::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was done, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A person exchanged a code or a token for a session.
    Login,
    /// A person ended their session.
    Logout,
    /// A run was submitted.
    Submit,
    /// An action was approved.
    Approve,
    /// An action was denied.
    Deny,
    /// A question was answered.
    Answer,
    /// A run was given an instruction.
    Instruct,
    /// A stop of a run was requested.
    Stop,
    /// A run was resumed.
    Resume,
    /// A run was begun that continues another one.
    Fork,
    /// A run was begun that does the work of another one again.
    Retry,
    /// A run was labelled.
    Label,
    /// The label of a run was taken away.
    Unlabel,
    /// A message of a hook was taken out of the outbox.
    DropMessage,
    /// The form of a page sent a decision, which was refused before it was read: it is not known which one.
    Decide,
}

impl AuditAction {
    /// Its name, as JSON has it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum AuditResult {
    /// It was done.
    Done,
    /// The caller may not do it, or the core refused it.
    Refused,
    /// It could not be done, for example because the journal was not writable.
    Failed,
    /// An earlier request with the same key had done it, so nothing was done.
    Again,
}

impl AuditResult {
    /// Its name, as JSON has it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// When, in Unix milliseconds.
    pub unix_ms: u64,
    /// The caller's name. Empty: the caller was not known.
    pub who: Arc<str>,
    /// What the server checked of the caller, for example `token ci`, or `this machine`. Empty: nothing.
    pub account: Arc<str>,
    /// The address from which the request came.
    pub from: Arc<str>,
    /// What was done or refused.
    pub action: AuditAction,
    /// The run. Absent: it is not about a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
    /// The action's or question's key in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// What the approval was bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Arc<str>>,
    /// How it ended.
    pub result: AuditResult,
    /// More about it, in one line, for example why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Arc<str>>,
}

/// An entry as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditLine {
    /// Its number, from 1 on.
    pub seq: u64,
    /// Whether the journal's key vouches for it and for the entry before it. False: one of them was changed, removed or
    /// added by another program.
    pub sealed: bool,
    /// The entry. Null: it cannot be read.
    pub entry: Option<AuditEntry>,
}

/// What `loopgate serve audit --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditReport {
    /// The version of this form.
    pub version: u32,
    /// The first entry of the whole log for which the journal's key does not vouch. Null: there is none.
    pub broken: Option<u64>,
    /// The entries that were asked for, newest first.
    pub entries: Vec<AuditLine>,
}

/// Which entries are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those before this number. `None`: from the newest on.
    pub before: Option<u64>,
    /// Those of this run. `None`: all.
    pub run: Option<RunId>,
    /// At most so many.
    pub limit: u32,
}
