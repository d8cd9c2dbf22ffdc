//! The identity of a caller for approvals, budgets and the audit log.

use std::net::IpAddr;
use std::sync::Arc;

use loop_core::types::Approver;
use loop_runtime::budget::SharedBudget;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};

use crate::caller::Caller;
use crate::clock::unix_ms;

/// What the door knows of a caller. It is in the extensions of each request that has a [`Caller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The caller.
    pub caller: Caller,
    /// Whether the caller has a token. Otherwise it is the person at this machine, without an account.
    pub has_token: bool,
    /// The address of the client. Behind a trusted proxy, the one that the proxy reports.
    pub from: IpAddr,
    /// The budget of the token: what the runs that it submits may cost together. `None`: the token has none.
    pub budget: Option<SharedBudget>,
    /// The CSRF token that a form must send in the field `csrf`. `None`: the caller has a token and no session.
    pub csrf: Option<Arc<str>>,
}

impl Identity {
    /// The caller as an approver. Only a token counts as an account where two people must approve.
    pub fn approver(&self) -> Approver {
        let account = if self.has_token { self.account() } else { "".into() };
        Approver { account, user: Arc::clone(&self.caller.name), claim: None }
    }

    /// The account as the door checked it, for example `token ci` or `this machine`.
    pub fn account(&self) -> Arc<str> {
        match self.has_token {
            true => format!("token {}", self.caller.name).into(),
            false => "this machine".into(),
        }
    }

    /// A new audit entry about this caller, without a run.
    pub fn entry(&self, action: AuditAction, result: AuditResult) -> AuditEntry {
        AuditEntry {
            who: Arc::clone(&self.caller.name),
            account: self.account(),
            ..unknown(self.from, action, result)
        }
    }
}

/// A new audit entry about an unknown caller.
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
