//! The audit log of the server, stored in the journal's file.

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use loop_core::types::RunId;
use loop_runtime::journal::audit::{AuditEntry, AuditFilter, AuditLine};
use loop_runtime::journal::{JournalError, StoredJournal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::refusals::Refusals;
use crate::caller::{Caller, Role};
use crate::problem::HttpProblem;

/// A handle to the audit log. Clones write to the same log.
#[derive(Clone)]
pub struct Audit {
    journal: Option<Arc<StoredJournal>>,
    refusals: Arc<Refusals>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("is_kept", &self.journal.is_some()).finish()
    }
}

impl Audit {
    /// The log of a journal.
    pub fn of(journal: Arc<StoredJournal>) -> Self {
        Self { journal: Some(journal), refusals: Arc::default() }
    }

    /// A log that stores nothing, for tests and read-only pages.
    pub fn none() -> Self {
        Self { journal: None, refusals: Arc::default() }
    }

    /// Appends an entry. It is on the disk when this returns. After [`MAX_REFUSALS`] refusals of a known caller in a
    /// minute, further ones are only counted, and the caller's next entry has their number.
    ///
    /// [`MAX_REFUSALS`]: super::MAX_REFUSALS
    ///
    /// # Errors
    /// The journal cannot be written. The caller then must not do what the entry is about, or must report it as failed.
    pub async fn note(&self, entry: AuditEntry) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        // Unknown callers are limited by their address: see `Attempts`.
        let entry = if entry.account.is_empty() { Some(entry) } else { self.refusals.admit(entry) };
        match entry {
            Some(entry) => journal.append_audit(&entry).await.map(drop),
            None => Ok(()),
        }
    }

    /// How many entries were not recorded, because a caller had too many refusals.
    pub fn left_out(&self) -> u64 {
        self.refusals.left_out()
    }

    /// A page of entries, newest first. Only for an admin of all domains.
    ///
    /// # Errors
    /// The caller is not such an admin, the limit is out of range, or the log cannot be read.
    pub async fn page(&self, caller: &Caller, query: AuditQuery) -> Result<AuditPage, HttpProblem> {
        if !caller.is(Role::Admin) || caller.domains.is_some() {
            let detail = "the audit log is for an admin of all domains; use a token with the role admin and no domains";
            return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail));
        }
        let AuditQuery { before, run, limit } = query;
        let limit = limit.unwrap_or(100);
        if !(1..=1_000).contains(&limit) {
            let detail = "limit: it is not from 1 to 1000; correct it";
            return Err(HttpProblem::new(StatusCode::BAD_REQUEST, "query", "Query not understood", detail));
        }
        let Some(journal) = &self.journal else {
            return Ok(AuditPage { entries: Vec::new(), before: None });
        };
        let filter = AuditFilter { before, run: run.map(RunId::new), limit };
        // Its message has the journal's path.
        let entries = journal.audit_lines(&filter).await.map_err(|_| {
            let detail = "the audit log cannot be read now; try again, and ask the operator if it lasts";
            HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "journal", "Journal not available", detail)
        })?;
        let is_full = entries.len() as u64 == u64::from(limit);
        let before = entries.last().filter(|_| is_full).map(|line| line.seq);
        Ok(AuditPage { entries, before })
    }
}

/// A text from the caller, cut to the length of an audit entry.
pub(crate) fn short(text: &str) -> Arc<str> {
    text.chars().take(MAX_AUDITED).collect::<String>().into()
}

/// Characters of a text of the caller in an entry.
const MAX_AUDITED: usize = 300;

/// What `GET /v1/audit` is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Entries before this number. Absent: from the newest on.
    before: Option<u64>,
    /// Entries of this run. Absent: all.
    run: Option<String>,
    /// At most so many, from 1 to 1000. Absent: 100.
    limit: Option<u32>,
}

/// Entries of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<AuditLine>,
    /// What to give as `before` for the next page. Null: there may be no more.
    pub before: Option<u64>,
}
