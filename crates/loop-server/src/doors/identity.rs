//! Who sends a request, as far as approvals, budgets and the audit log need it.

use std::net::IpAddr;
use std::sync::Arc;

use loop_core::Approver;
use loop_runtime::budget::SharedBudget;
use loop_runtime::journal::{AuditAction, AuditEntry, AuditResult};

use crate::caller::Caller;
use crate::clock::unix_ms;

/// What the door knows of a caller. It is in the extensions of each request that a route gets with a [`Caller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The caller.
    pub caller: Caller,
    /// What the door has checked, for example `token ci` or `uid 1001`: see [`Approver::account`].
    pub account: Arc<str>,
    /// The address of the client; behind a proxy of the configuration, the one that the proxy names.
    pub from: IpAddr,
    /// What the runs that they submit may cost together. `None`: the token has no limit of its own.
    pub budget: Option<SharedBudget>,
    /// What a form of a page has to send back in the field `csrf`. `None`: the caller has a token and no session.
    pub csrf: Option<Arc<str>>,
}

impl Identity {
    /// Who approves, when this caller does. A name that they claim besides is shown as unverified.
    pub fn approver(&self, claim: Option<Arc<str>>) -> Approver {
        Approver { account: Arc::clone(&self.account), user: Arc::clone(&self.caller.name), claim }
    }

    /// An entry of the audit log about this caller, as of now, without a run.
    pub fn entry(&self, action: AuditAction, result: AuditResult) -> AuditEntry {
        AuditEntry {
            who: Arc::clone(&self.caller.name),
            account: Arc::clone(&self.account),
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
