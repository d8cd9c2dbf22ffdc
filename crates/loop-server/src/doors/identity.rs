//! Who sends a request, as far as approvals, budgets and the audit log need it.

use std::net::IpAddr;
use std::sync::Arc;

use loop_core::types::Approver;
use loop_runtime::budget::SharedBudget;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};

use crate::caller::Caller;
use crate::clock::unix_ms;

/// What the door knows of a caller. It is in the extensions of each request that a route gets with a [`Caller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The caller.
    pub caller: Caller,
    /// Whether a token names the caller. Without one it is the person at this machine, of whom nothing else is known.
    pub has_token: bool,
    /// The address of the client; behind a proxy of the configuration, the one that the proxy names.
    pub from: IpAddr,
    /// What the runs that they submit may cost together. `None`: the token has no limit of its own.
    pub budget: Option<SharedBudget>,
    /// What a form of a page has to send back in the field `csrf`. `None`: the caller has a token and no session.
    pub csrf: Option<Arc<str>>,
}

impl Identity {
    /// Who approves, when this caller does. Only a token is an account that counts where two people have to approve.
    pub fn approver(&self) -> Approver {
        let account = if self.has_token { self.account() } else { "".into() };
        Approver { account, user: Arc::clone(&self.caller.name), claim: None }
    }

    /// What the door has checked: for example `token ci`, or `this machine`.
    pub fn account(&self) -> Arc<str> {
        match self.has_token {
            true => format!("token {}", self.caller.name).into(),
            false => "this machine".into(),
        }
    }

    /// An entry of the audit log about this caller, as of now, without a run.
    pub fn entry(&self, action: AuditAction, result: AuditResult) -> AuditEntry {
        AuditEntry {
            who: Arc::clone(&self.caller.name),
            account: self.account(),
            ..unknown(self.from, action, result)
        }
    }
}

/// An entry about a caller who is not known.
pub(super) fn unknown(from: IpAddr, action: AuditAction, result: AuditResult) -> AuditEntry {
    AuditEntry {
        unix_ms: unix_ms(),
        who: "".into(),
        account: "".into(),
        from: from.to_string().into(),
        action,
        run: None,
        key: None,
        binding: None,
        result,
        detail: None,
    }
}
