//! Finds the settings that would have prevented an effect that ran in an attack.

use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::spec::{TaintRule, ToolPolicy, ToolSpec};

use crate::redteam::plan::is_free;
use crate::redteam::stage::AttackError;

/// The number of guards that are tried.
const GUARDS: usize = 7;

/// Adds a guard against the effect of this tool to the spec and returns the setting as text. A lower `nth` is a broader
/// guard. `None`: the domain has the guard already, or it does not apply.
fn set_guard(nth: usize, spec: &mut RunSpec, tool: &ToolSpec, in_item: bool) -> Option<String> {
    let name = &tool.name;
    let (reads, is_own) = (reads(spec), |it: &&mut ToolSpec| it.name == *name);
    let mut mark = |is_meant: fn(&ToolPolicy) -> bool, how: &str| {
        let meant = spec.tools.iter_mut().filter(|it| reads.contains(&it.name) && is_meant(&it.policy));
        let marked = meant.map(|it| {
            it.policy.returns_untrusted = true;
            it.policy.trusted_fields.clear();
            format!("`tools.{}.returns_untrusted = true`{how}", it.name)
        });
        Some(marked.collect::<Vec<_>>().join(", ")).filter(|marked| !marked.is_empty())
    };
    match nth {
        0 => {
            spec.gate.approved.clear();
            Some(format!("`gate.approved` without `{name}`"))
        }
        1 if tool.policy.authority.is_empty() => {
            let free = tool.args.properties.iter().filter(|(_, args)| is_free(Some(args)));
            let free: Vec<&str> = free.map(|(name, _)| &**name).collect();
            let pointers: Vec<Arc<str>> = free.iter().map(|name| format!("/{name}").into()).collect();
            spec.tools.iter_mut().filter(is_own).for_each(|it| it.policy.authority.clone_from(&pointers));
            Some(format!("`tools.{name}.authority = {free:?}`")).filter(|_| !free.is_empty())
        }
        2 if spec.plan.iter().any(|slot| slot.tool == *name) => {
            spec.plan.retain(|slot| slot.tool != *name);
            Some(format!("`fixed` with the values of `{name}` in its [[plan]]"))
        }
        3 => mark(|policy| !policy.trusted_fields.is_empty(), " without `except`"),
        4 if !in_item => mark(|policy| !policy.returns_untrusted, ""),
        5 if in_item && !spec.gate.item_untrusted => {
            spec.gate.item_untrusted = true;
            Some("`gate.item_untrusted = true`".to_owned())
        }
        6 if spec.gate.taint == TaintRule::Off => {
            spec.gate.taint = TaintRule::Ask;
            Some("`gate.taint = \"ask\"`".to_owned())
        }
        _ => None,
    }
}

/// The names of the read-only tools that need no approval.
fn reads(spec: &RunSpec) -> Vec<Arc<str>> {
    let reads = spec.tools.iter().filter(|it| it.effect.is_read() && !it.policy.asks_person);
    reads.map(|it| Arc::clone(&it.name)).collect()
}

/// The fewest settings that prevent the effect. It starts with all of them, and removes each that is not needed, the
/// broadest first. Empty if the effect runs even with all.
pub(super) async fn closed_by(
    spec: &RunSpec,
    tool: &str,
    in_item: bool,
    mut runs: impl AsyncFnMut(&RunSpec) -> Result<bool, AttackError>,
) -> Result<Vec<String>, AttackError> {
    let Some(tool) = spec.tool(tool) else { return Ok(Vec::new()) };
    let with = |guards: &[usize]| {
        let mut changed = spec.clone();
        let set = guards.iter().filter_map(|nth| set_guard(*nth, &mut changed, tool, in_item));
        let settings: Vec<String> = set.collect();
        (changed, settings)
    };
    let mut kept: Vec<usize> = (0..GUARDS).collect();
    if runs(&with(&kept).0).await? {
        return Ok(Vec::new());
    }
    for nth in 0..GUARDS {
        let others: Vec<usize> = kept.iter().copied().filter(|kept| *kept != nth).collect();
        if !runs(&with(&others).0).await? {
            kept = others;
        }
    }
    Ok(with(&kept).1)
}
