//! Who sends a request, and what they may do.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a caller may do. A role does not include another one; [`Role::Admin`] includes all.
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

/// Who sends a request. The door makes it; a route asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of the token, or of the person at this machine: audit entries have it.
    pub name: Arc<str>,
    /// What they may do.
    pub roles: BTreeSet<Role>,
    /// The names of the domains that they see. `None`: all.
    pub domains: Option<BTreeSet<Arc<str>>>,
}

impl Caller {
    /// Whether they have this role.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role) || self.roles.contains(&Role::Admin)
    }

    /// Whether they see the runs of this domain. What they do not see does not exist for them.
    pub fn sees(&self, domain: &str) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.contains(domain))
    }

    /// Whether they may say what a run of this domain was worth: those who decide there, and the submitter of the run.
    pub fn may_label(&self, domain: &str, is_own: bool) -> bool {
        self.may(Role::Approve, domain) || is_own && self.may(Role::Submit, domain)
    }

    /// Whether they may do this in this domain.
    pub fn may(&self, role: Role, domain: &str) -> bool {
        self.is(role) && self.sees(domain)
    }
}
