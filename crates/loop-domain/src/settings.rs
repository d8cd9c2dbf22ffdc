//! The settings of a run: those of `[limits]` and `[gate]`, laid over others.
//!
//! The types of the core are what these tables are read into. What a table does not set stays as it was: as the protocol has
//! it in a domain, as the run had it in a policy.

use loop_core::spec::{GateSettings, Limits, OnToolError};
use loop_core::types::PicoUsd;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tree::{Fault, Node, NodeValue};

/// The limits of `tree`, over these.
pub(crate) fn limits(tree: &Node, over: &Limits) -> Result<Limits, Fault> {
    laid_over(tree.get("limits").map(|entry| &entry.node), over)
}

/// The settings of the gate of `tree`, over these. The file of a calibration is not read.
pub(crate) fn gate(tree: &Node, over: &GateSettings) -> Result<GateSettings, Fault> {
    let mut table = tree.get("gate").map(|entry| entry.node.clone());
    let mut over = over.clone();
    if let Some(table) = &mut table {
        take_calibration(table)?;
        // These are given as a whole: a table of tools, and a choice with its number.
        if table.get("three_tier").is_some_and(|it| it.node.get("limits").is_some()) {
            over.three_tier.limits.clear();
        }
        if table.get("on_tool_error").is_some() {
            over.on_tool_error = OnToolError::default();
        }
    }
    let calibration = over.calibration.take();
    let mut gate = laid_over(table.as_ref(), &over)?;
    gate.calibration = calibration;
    gate.label = gate.label.trim().into();
    Ok(gate)
}

/// Takes the name of the file with a calibration out of `[gate]`, where the core has what the file says.
pub(crate) fn take_calibration(gate: &mut Node) -> Result<Option<String>, Fault> {
    gate.take("calibration").map(|entry| String::deserialize(&entry.node)).transpose()
}

/// The cost limit that `tree` sets. `None`: it sets none.
pub(crate) fn cost_limit(tree: &Node, limits: &Limits) -> Option<Option<PicoUsd>> {
    let is_set = tree.get("limits").is_some_and(|entry| entry.node.get("cost_usd").is_some());
    is_set.then_some(limits.cost)
}

fn laid_over<T: Clone + Serialize + DeserializeOwned>(table: Option<&Node>, over: &T) -> Result<T, Fault> {
    let Some(table) = table else { return Ok(over.clone()) };
    let mut tree = Node { value: NodeValue::of(over, &table.origin), origin: table.origin.clone() };
    tree.merge(table.clone());
    T::deserialize(&tree)
}
