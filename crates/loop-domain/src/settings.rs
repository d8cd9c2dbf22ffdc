//! Lays partial settings over complete ones: `[limits]`, `[gate]` and `[providers.NAME]`.
//!
//! A key that a table does not set keeps its value. In a domain that is the default of the protocol, in a policy file the value
//! of the recorded run, and in a provider that of the provider that it is `like`.

use std::sync::Arc;

use loop_core::spec::{GateSettings, Limits};
use loop_core::types::PicoUsd;
use loop_llm::Profile;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Serialize};

use crate::config::ProviderConfig;
use crate::similar::similar;
use crate::tree::{Entry, Fault, Node, NodeValue};

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
        // A table of tools is given as a whole.
        if table.get("three_tier").is_some_and(|it| it.node.get("limits").is_some()) {
            over.three_tier.limits.clear();
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

/// What a table of `[providers]` says of a server, over this.
pub(crate) fn profile(table: &Node, over: &Profile) -> Result<Profile, Fault> {
    let mut table = table.clone();
    if let Some(name) = table.get("name") {
        return Err(Fault::unknown_field("name", &ProviderConfig::KEYS).at(&name.origin));
    }
    table.retain(|key| !is_of_provider(key));
    if let Some(efforts) = table.table_mut("efforts").filter(|it| matches!(it.value, NodeValue::List(_))) {
        let entry = |key: &str, node: Node| Entry { key: key.to_owned(), origin: node.origin.clone(), node };
        let all = Node { value: NodeValue::Text(String::new()), origin: efforts.origin.clone() };
        let row = NodeValue::Table(vec![entry("models", all), entry("efforts", efforts.clone())]);
        efforts.value = NodeValue::List(vec![Node { value: row, origin: efforts.origin.clone() }]);
    }
    let mut profile = laid_over(Some(&table), over)?;
    // An empty text says that there is none.
    let Profile { base_url, api_key_env, required_choice, seed_field, .. } = &mut profile;
    for text in [base_url, api_key_env, required_choice, seed_field] {
        *text = text.take().map(|text| text.trim().into()).filter(|text: &Arc<str>| !text.is_empty());
    }
    Ok(profile)
}

/// Whether a key of `[providers.NAME]` is, or was meant as, one besides those of a profile.
pub(crate) fn is_of_provider(key: &str) -> bool {
    similar(key, ProviderConfig::KEYS).is_some()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_a_profile_is_taken_for_one_of_a_provider() {
        let profile = serde_json::to_value(Profile::all().first().unwrap()).unwrap();
        for key in profile.as_object().unwrap().keys() {
            assert!(!is_of_provider(key), "{key}");
        }
        for key in ProviderConfig::KEYS {
            assert!(is_of_provider(key), "{key}");
        }
    }

    #[test]
    fn a_profile_is_laid_over_the_one_that_it_is_like() {
        let table = |text: &str| Node::parse(text).unwrap();
        let base = Profile::named("openai-chat").unwrap();
        let given = "like = \"x\"\napi_key_env = \"\"\nseed_field = \" seed \"\nefforts = [\"high\"]\n";
        let profile = profile(&table(given), &base).unwrap();
        assert_eq!((profile.api_key_env.as_deref(), profile.seed_field.as_deref()), (None, Some("seed")));
        let row = profile.efforts.first().unwrap();
        assert_eq!((&*row.models, row.efforts.len()), ("", 1));
        assert_eq!((profile.api, &profile.base_url), (base.api, &base.base_url));
        let wrong = |text: &str| super::profile(&table(text), &base).unwrap_err().message;
        assert_eq!(wrong("base_ur = \"x\""), "unknown key `base_ur`; did you mean `base_url`?");
        assert!(wrong("name = \"x\"").starts_with("unknown key `name`; "), "{}", wrong("name = \"x\""));
        assert!(wrong("efforts = [\"wild\"]").starts_with("`wild` is unknown here; "));
    }
}
