//! Signed links in hook messages to the page where an action is decided.
//!
//! A link only points to a page, and decides nothing. It names a run, an action and the binding of what was asked. It
//! is sealed with the journal's key, and expires with the action's deadline. It works until the action is decided,
//! which the journal records. So it is valid on each server of the journal and after each restart, and a program that
//! only follows it does not use it up.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use loop_core::run::PersonRequest;
use loop_runtime::hooks::DecisionLinks;
use loop_runtime::journal::StoredJournal;
use serde::{Deserialize, Serialize};

/// The longest validity of a link, in milliseconds: seven days.
const MAX_LIFETIME_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// The purpose of the seal.
const PURPOSE: &str = "decision link";

/// Makes the links of a server to its pages.
#[derive(Clone, Debug)]
pub struct SignedLinks {
    journal: Arc<StoredJournal>,
    origin: String,
}

impl SignedLinks {
    /// Links for browsers that reach the server at this origin: [`Hosts::origin`](crate::doors::Hosts::origin).
    pub fn new(journal: Arc<StoredJournal>, origin: &str) -> Self {
        Self { journal, origin: origin.to_owned() }
    }
}

impl DecisionLinks for SignedLinks {
    fn link(&self, requested: &PersonRequest, unix_ms: u64) -> Option<String> {
        let latest = unix_ms.saturating_add(MAX_LIFETIME_MS);
        let target = LinkTarget {
            run: requested.run.to_string(),
            action: requested.key.to_string(),
            binding: requested.binding.to_string(),
            until_unix_ms: requested.until_unix_ms.map_or(latest, |until| until.min(latest)),
        };
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&target).ok()?);
        let seal = self.journal.seal_outside(PURPOSE, &text)?;
        Some(format!("{}/links/{text}.{seal}", self.origin))
    }
}

/// The target of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkTarget {
    pub(crate) run: String,
    /// The action's key.
    pub(crate) action: String,
    /// The binding of what was asked.
    pub(crate) binding: String,
    /// When the link expires, in milliseconds since 1970 (UTC).
    pub(crate) until_unix_ms: u64,
}

impl LinkTarget {
    /// Parses the token of a link. `None`: it was not made for this journal.
    pub(crate) fn read(journal: &StoredJournal, token: &str) -> Option<Self> {
        let (text, seal) = token.split_once('.')?;
        if !journal.is_sealed_outside(PURPOSE, text, seal) {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}
