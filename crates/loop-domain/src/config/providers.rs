//! `[providers.NAME]`: where models are, and what their servers are like.

use std::borrow::Cow;

use loop_llm::Profile;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

/// The keys of a provider besides those of its profile.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProviderConfig {
    /// The known provider that it is like. Default: the one of the same name.
    pub(crate) like: Option<String>,
    /// The most calls that may begin in a minute, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) requests_per_minute: Option<u32>,
    /// The most tokens that may be asked for in a minute, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) tokens_per_minute: Option<u64>,
    /// The most calls at once, over all runs of the process. Default: no limit.
    #[schemars(range(min = 1))]
    pub(crate) calls_at_once: Option<u32>,
}

impl ProviderConfig {
    /// Its keys.
    pub(crate) const KEYS: [&str; 4] = ["like", "requests_per_minute", "tokens_per_minute", "calls_at_once"];
}

/// A provider of your own, or changes to one that is known. Keys that are not given are as in `like`.
pub(crate) struct ProviderTable;

impl JsonSchema for ProviderTable {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut table = ProviderConfig::json_schema(generator);
        let mut profile = Profile::json_schema(generator);
        let properties = |schema: &mut Schema| schema.get_mut("properties").map(Value::take);
        if let (Some(Value::Object(mut all)), Some(Value::Object(mut of_profile))) =
            (properties(&mut table), properties(&mut profile))
        {
            of_profile.shift_remove("name");
            all.extend(of_profile);
            table.insert("properties".to_owned(), Value::Object(all));
        }
        let text = "A provider of your own, or changes to one that is known. Keys that are not given are as in `like`.";
        table.insert("description".to_owned(), text.into());
        table
    }
}
