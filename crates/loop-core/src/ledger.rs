//! The ledger: what was already run in this run, and what it told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::canonical::digest;
use crate::ids::{CommandKey, Digest, EvidenceId};
use crate::observation::Status;

/// Every admitted call by its signature: canonical tool and rebuilt parameters (S0-118, S0-d3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Ledger {
    entries: BTreeMap<Digest, Entry>,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Of the first time that it was asked for; every retry reuses it (C26).
    pub(crate) key: CommandKey,
    /// How often it was started.
    pub(crate) attempts: u32,
    /// How the last try ended; `None` while it runs.
    pub(crate) status: Option<Status>,
    /// The number of the last observation.
    pub(crate) evidence: EvidenceId,
}

/// What the ledger says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was never run.
    New,
    /// It failed in a way that may pass, and tries are left: its key and the next try.
    Again { key: CommandKey, attempt: u32 },
    /// It was run, runs, or failed for good.
    Done {
        key: CommandKey,
        evidence: EvidenceId,
        settled: bool,
        /// Whether it settled with a result that is worth giving again.
        brought: bool,
        /// Whether it may or may not have happened.
        in_doubt: bool,
    },
}

impl Ledger {
    /// The signature of a call. `parameters` are rebuilt, so that defaults and dropped fields do not matter.
    pub(crate) fn signature(tool: &str, parameters: &Value) -> Digest {
        digest("call", &json!([tool, parameters]))
    }

    pub(crate) fn standing(&self, signature: &Digest, tries: u32) -> Standing {
        match self.entries.get(signature) {
            None => Standing::New,
            Some(entry) if entry.status.is_some_and(Status::is_retryable) && entry.attempts < tries => {
                Standing::Again { key: entry.key, attempt: entry.attempts + 1 }
            }
            Some(entry) => Standing::Done {
                key: entry.key,
                evidence: entry.evidence,
                settled: entry.status.is_some(),
                brought: entry.status.is_some_and(Status::is_citable),
                in_doubt: entry.status == Some(Status::InDoubt),
            },
        }
    }

    /// Forgets what was brought: from now on it may be otherwise.
    pub(crate) fn forget_results(&mut self) {
        self.entries.retain(|_, entry| !entry.status.is_some_and(Status::is_citable));
    }

    pub(crate) fn started(&mut self, signature: Digest, key: CommandKey, attempt: u32, evidence: EvidenceId) {
        self.entries.insert(signature, Entry { key, attempts: attempt, status: None, evidence });
    }

    /// Of two equal calls that run side by side the last one counts.
    pub(crate) fn settled(&mut self, signature: &Digest, key: CommandKey, attempt: u32, status: Status) {
        if let Some(entry) = self.entries.get_mut(signature).filter(|entry| entry.key == key) {
            entry.attempts = attempt;
            entry.status = Some(status);
        }
    }
}
