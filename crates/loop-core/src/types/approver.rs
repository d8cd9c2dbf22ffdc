//! Who approved an action, as far as the driver knows.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who approved an action. The driver sets it; no model and no tool can.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Approver {
    /// What the driver has checked, for example `token ada`: two approvers are two people if it differs. Empty: it
    /// checked none, so the approval does not count where several people have to approve.
    pub account: Arc<str>,
    /// The account's name, for people. Empty: not known.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub user: Arc<str>,
    /// The name that the approver gave. It was not checked. `None`: none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Arc<str>>,
}

impl fmt::Display for Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.user {
            _ if self.account.is_empty() => f.write_str("an unverified account")?,
            "" => f.write_str(&self.account)?,
            user => write!(f, "{user} ({})", self.account)?,
        }
        match &self.claim {
            Some(claim) => write!(f, " as `{claim}` (unverified)"),
            None => Ok(()),
        }
    }
}
