//! Presets: sets of default settings that a domain file names with `preset` and overrides.

use serde::Deserialize;

use crate::similar::hint;
use crate::tree::{Fault, Node};

/// The presets by name, from the folder `presets`.
const PRESETS: [(&str, &str); 5] = [
    ("analysis", include_str!("../presets/analysis.toml")),
    ("agent", include_str!("../presets/agent.toml")),
    ("extract", include_str!("../presets/extract.toml")),
    ("turn", include_str!("../presets/turn.toml")),
    ("step", include_str!("../presets/step.toml")),
];

/// The settings of a preset as TOML. `None`: there is no preset of this name. Names are for example `step` and `turn`.
pub fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The tree laid over the preset that it names, if it names one.
pub(crate) fn over_preset(tree: &Node) -> Result<Node, Fault> {
    let Some(entry) = tree.get("preset") else { return Ok(tree.clone()) };
    let name = String::deserialize(&entry.node)?;
    let Some(text) = preset(&name) else {
        let hint = hint(&name, PRESETS.iter().map(|(name, _)| *name), "the presets are");
        return Err(Fault::new(entry.node.origin.clone(), format!("there is no preset `{name}`; {hint}")));
    };
    let mut base = Node::preset(&name, text)?;
    base.merge(tree.clone());
    Ok(base)
}
