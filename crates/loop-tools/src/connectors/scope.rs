//! The parts of a work item's scope, by the names under which definitions of tools use them.

use std::sync::Arc;

use loop_core::types::Scope;

/// The part with this name, without the prefix of the kind of tool: `account`, `account_name`, `asset`, `item` or `person`.
/// `None`: the scope does not have it, or the name is not one of a part.
pub(crate) fn part_of<'a>(scope: &'a Scope, name: &str) -> Option<&'a Arc<str>> {
    match name {
        "account" => scope.account.as_ref(),
        "account_name" => scope.account_name.as_ref(),
        "asset" => scope.asset.as_ref(),
        "item" => scope.item.as_ref(),
        "person" => scope.person.as_ref(),
        _ => None,
    }
}

/// The part, unless it is blank: a request or a command without it would be for all of them.
#[cfg(any(all(feature = "command", unix), feature = "http"))]
pub(crate) fn stated_part_of<'a>(scope: &'a Scope, name: &str) -> Option<&'a Arc<str>> {
    part_of(scope, name).filter(|text| !text.trim().is_empty())
}
