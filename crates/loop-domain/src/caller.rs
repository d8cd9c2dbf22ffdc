//! Settings that a domain may let the callers of a server change: only settings that cannot loosen the domain's limits
//! or policy.

use loop_core::spec::Limits;
use loop_core::types::Tier;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::config::{Config, ModelsConfig};
use crate::remote::LOCAL;
use crate::similar::hint;
use crate::tree::own_limit;

/// The keys of a model that a caller may set: how it replies, but not which model it is or what it costs.
const OF_MODEL: [&str; 4] = ["effort", "temperature", "top_p", "seed"];

/// The canonical name of a setting. For example, `limits.max_passes` is an alias of `limits.passes`.
pub(crate) fn own_name(key: &str) -> String {
    let steps: Vec<&str> = key.split('.').map(str::trim).collect();
    match steps.as_slice() {
        ["limits", limit] => format!("limits.{}", own_limit(limit)),
        steps => steps.join("."),
    }
}

/// Whether a setting still applies after `model`, as `PROVIDER/NAME`, replaces the model of a tier. Settings of that
/// tier do not, except for those that say how a model on a server replies.
pub fn outlives_model(key: &str, tier: Tier, model: &str) -> bool {
    let name = own_name(key);
    match name.split('.').collect::<Vec<_>>().as_slice() {
        ["models"] => false,
        ["models", of, rest @ ..] if *of == tier.name() => {
            let is_remote = model.split_once('/').is_some_and(|(provider, _)| !LOCAL.contains(&provider));
            is_remote && matches!(rest, [field] if OF_MODEL.contains(field))
        }
        _ => true,
    }
}

/// Fails if a caller must not set this key, or could loosen with it what the domain guards.
pub(crate) fn check(key: &str, models: &ModelsConfig) -> Result<(), String> {
    let name = own_name(key);
    let steps: Vec<&str> = name.split('.').collect();
    let unknown = |step: &str, known: &[String]| {
        let hint = hint(step, known.iter().map(String::as_str), "there are");
        format!("`{key}` is not a setting; {hint}")
    };
    match steps.as_slice() {
        [] | ["" | "profiles" | "serve" | "version", ..] | [_, .., ""] => Err(format!(
            "`{key}` is not a setting that a caller can give; write one such as `limits.max_passes`"
        )),
        ["limits", limit] => {
            let known = keys_of::<Limits>();
            if known.iter().any(|known| known == limit) { Ok(()) } else { Err(unknown(limit, &known)) }
        }
        ["models", tier, field] if OF_MODEL.contains(field) => {
            let is_there = match *tier {
                "base" => true,
                "selector" => models.selector.is_some(),
                "escalated" => models.escalated.is_some(),
                "fallback" => models.fallback.is_some(),
                _ => return Err(unknown(tier, &keys_of::<ModelsConfig>())),
            };
            if is_there {
                Ok(())
            } else {
                Err(format!("`{key}`: the domain has no model `{tier}`; add one, or take the setting out"))
            }
        }
        [head, ..] => {
            let known = keys_of::<Config>();
            if !known.iter().any(|known| known == head) {
                return Err(unknown(head, &known));
            }
            let of_model = OF_MODEL.map(|field| format!("`{field}`")).join(", ");
            Err(format!(
                "with `{key}` a caller could loosen what the domain guards; let a caller set single limits such as \
                 `limits.passes`, and of a model {of_model}"
            ))
        }
    }
}

/// The keys of a table of the file.
fn keys_of<T: JsonSchema>() -> Vec<String> {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(key, _)| key.clone()).collect()
}
