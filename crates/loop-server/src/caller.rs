//! Callers: who sends a request, with which roles, in which domains.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A permission of a caller. A role does not include another one, except that [`Role::Admin`] includes all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Begins runs, and stops, instructs, resumes, forks and retries those that it began.
    Submit,
    /// Reads runs, their documents and events.
    Read,
    /// Decides actions that wait for a person, and answers questions.
    Approve,
    /// Everything, on every run of its domains.
    Admin,
}

impl Role {
    /// Its name in the file of tokens, for example `approve`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

/// The authenticated sender of a request. The door makes it from a token or session, and routes check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of the token, or `local` for the person at this machine. Audit entries contain it.
    pub name: Arc<str>,
    /// The roles of the caller.
    pub roles: BTreeSet<Role>,
    /// The domains that the caller may see, by name. `None`: all.
    pub domains: Option<BTreeSet<Arc<str>>>,
}

impl Caller {
    /// Whether the caller has this role.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role) || self.roles.contains(&Role::Admin)
    }

    /// Whether the caller may see the runs of this domain. Other runs are reported to them as unknown.
    pub fn sees(&self, domain: &str) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.contains(domain))
    }

    /// Whether the caller may label a run of this domain: an approver of the domain, or the submitter of the run.
    pub fn may_label(&self, domain: &str, is_own: bool) -> bool {
        self.may(Role::Approve, domain) || is_own && self.may(Role::Submit, domain)
    }

    /// Whether the caller has this role in this domain.
    pub fn may(&self, role: Role, domain: &str) -> bool {
        self.is(role) && self.sees(domain)
    }
}
