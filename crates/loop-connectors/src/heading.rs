//! The heading of a result.

use loop_core::Scope;

/// The title, and the account where one is known.
pub(crate) fn heading(title: &str, scope: &Scope) -> String {
    match scope.account_name.as_ref().or(scope.account.as_ref()) {
        Some(account) => format!("## {title} — {account}"),
        None => format!("## {title}"),
    }
}
