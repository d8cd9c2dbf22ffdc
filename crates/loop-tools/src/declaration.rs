//! Declarations of tools: names, parameters, effect, limits.

use std::sync::Arc;

use loop_core::spec::{ArgSpec, ToolPolicy, ToolSpec};
use loop_core::types::{Digest, Effect, digest};
use serde_json::{Value, json};

/// Milliseconds until a tool is cut off, unless it declares another limit.
pub const TIMEOUT_MS: u64 = 12_000;
/// How often one call may be made in all, unless the tool declares another number.
pub const ATTEMPTS: u32 = 2;

/// What a tool declares: its names, its parameters, its effect, its limits.
///
/// ```
/// use loop_core::types::Effect;
/// use loop_tools::ToolDeclaration;
///
/// let tool = ToolDeclaration::new("fetch_device_info")
///     .description("Fetch device details: hardware, OS, network, status")
///     .when("a device is mentioned")
///     .alias("fetch_devices")
///     .effect(Effect::Read);
/// assert_eq!(&*tool.title, "Device info");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDeclaration {
    /// The canonical name, for example `fetch_device_info`.
    pub name: Arc<str>,
    /// The name for people. Made from `name` unless it is set.
    pub title: Arc<str>,
    /// Other names that models may use. Empty if there are none.
    pub aliases: Vec<Arc<str>>,
    /// What the tool returns, for the model.
    pub description: Arc<str>,
    /// When the tool helps, for the selector. Empty: no hint.
    pub when: Arc<str>,
    /// The JSON Schema of the parameters, of type `object`.
    pub schema: Value,
    /// What the tool changes. `None`: not declared, and a registry refuses the tool.
    pub effect: Option<Effect>,
    /// Milliseconds after which a call is cancelled. From 1.
    pub timeout_ms: u64,
    /// How many times one call may be tried in all, if it fails in a retryable way. From 1.
    pub attempts: u32,
    /// Whether the tool may ask a model about its own result.
    pub smart: bool,
    /// The parameter that says what a smart tool looks for. A connector accepts it also where it does not send it. `None`:
    /// a connector refuses every parameter that it does not use.
    pub target: Option<Arc<str>>,
    /// The policy settings, in addition to the effect.
    pub policy: ToolPolicy,
    /// The digest of the parts that the declaration does not show, for example a query. `None`: there are none. An
    /// approval counts for this digest alone.
    pub definition: Option<Digest>,
    /// Where the tool connects to, for approvers: a URL, a program, a folder, a database. `None`: it does not say.
    pub connects_to: Option<Arc<str>>,
}

impl ToolDeclaration {
    /// A declaration of a tool without parameters. Its effect is still to be declared.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        Self {
            title: title_of(&name).into(),
            name,
            aliases: Vec::new(),
            description: "".into(),
            when: "".into(),
            schema: json!({ "type": "object", "properties": {} }),
            effect: None,
            timeout_ms: TIMEOUT_MS,
            attempts: ATTEMPTS,
            smart: false,
            target: None,
            policy: ToolPolicy::default(),
            definition: None,
            connects_to: None,
        }
    }

    /// A declaration of a tool that only reads.
    ///
    /// ```
    /// let tool = loop_tools::ToolDeclaration::read("search_user", "Search users by name");
    /// assert_eq!(tool.effect, Some(loop_core::types::Effect::Read));
    /// ```
    pub fn read(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        Self::new(name).description(description).effect(Effect::Read)
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<Arc<str>>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds an alias: another name that models may use.
    #[must_use]
    pub fn alias(mut self, alias: impl Into<Arc<str>>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// Sets the description: what the tool returns. The model reads it.
    #[must_use]
    pub fn description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets when the tool helps. The model that selects tools reads it.
    #[must_use]
    pub fn when(mut self, when: impl Into<Arc<str>>) -> Self {
        self.when = when.into();
        self
    }

    /// Sets the JSON Schema of the parameters.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the effect: what the tool changes.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Sets the time limit of a call, in milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout_ms = timeout_ms;
        self
    }

    /// Sets how often the model may make one call in all, if it fails in a retryable way
    /// ([`ToolResult::retryable`](crate::ToolResult::retryable)). A call is not retried automatically.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets whether the tool may ask a model about its own result.
    #[must_use]
    pub fn smart(mut self, smart: bool) -> Self {
        self.smart = smart;
        self
    }

    /// Sets the parameter that says what a smart tool looks for:
    /// [`RowFilter::target`](crate::smart_rows::RowFilter::target) names the same one.
    #[must_use]
    pub fn target(mut self, parameter: impl Into<Arc<str>>) -> Self {
        self.target = Some(parameter.into());
        self
    }

    /// Declares that an unneeded call of this read has a negligible cost. Where calls are native, such a call may start
    /// before the reply that requests it is complete. It has no effect on a tool that does more than read or is
    /// [`smart`](Self::smart). A later [`policy`](Self::policy) replaces it.
    ///
    /// ```
    /// let tool = loop_tools::ToolDeclaration::read("search_user", "Search users by name").cheap();
    /// assert!(tool.policy.cheap);
    /// ```
    #[must_use]
    pub fn cheap(mut self) -> Self {
        self.policy.cheap = true;
        self
    }

    /// Sets the policy settings of the tool, in addition to its effect.
    #[must_use]
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Adds a part to the tool's definition: a query, a version, a program. A run that began with another definition
    /// cannot be resumed with this tool.
    ///
    /// ```
    /// # use loop_tools::ToolDeclaration;
    /// # use serde_json::json;
    /// let tool = ToolDeclaration::new("pay").defined_by(&json!({ "version": 3 }));
    /// assert_ne!(tool.definition, ToolDeclaration::new("pay").defined_by(&json!({ "version": 4 })).definition);
    /// ```
    #[must_use]
    pub fn defined_by(mut self, part: &Value) -> Self {
        let before = self.definition.map(|digest| digest.to_string());
        self.definition = Some(digest("definition", &json!([before, part])));
        self
    }

    /// The tool as the core knows it. `None`: the effect is not declared.
    pub fn spec(&self) -> Option<ToolSpec> {
        Some(ToolSpec {
            name: Arc::clone(&self.name),
            aliases: self.aliases.clone(),
            description: Arc::clone(&self.description),
            when: Arc::clone(&self.when),
            args: ArgSpec::from_schema(&self.schema),
            effect: self.effect?,
            timeout_ms: self.timeout_ms,
            attempts: self.attempts,
            smart: self.smart,
            policy: self.policy.clone(),
        })
    }

    /// The declaration as data: what a manifest is hashed over.
    pub(crate) fn manifest(&self) -> Value {
        let mut manifest = json!({
            "name": self.name,
            "title": self.title,
            "aliases": self.aliases,
            "description": self.description,
            "when": self.when,
            "schema": self.schema,
            "effect": self.effect,
            "timeout_ms": self.timeout_ms,
            "attempts": self.attempts,
            "smart": self.smart,
        });
        if self.policy != ToolPolicy::default()
            && let Some(manifest) = manifest.as_object_mut()
        {
            manifest.insert("policy".to_owned(), json!(self.policy));
        }
        if let (Some(definition), Some(manifest)) = (&self.definition, manifest.as_object_mut()) {
            manifest.insert("definition".to_owned(), json!(definition));
        }
        if let (Some(place), Some(manifest)) = (&self.connects_to, manifest.as_object_mut()) {
            manifest.insert("connects_to".to_owned(), json!(place));
        }
        manifest
    }
}

/// Where a tool connects to, by the manifest of its registry. `None`: it does not say.
pub fn connects_to(manifest: &str, tool: &str) -> Option<String> {
    let manifest: Value = serde_json::from_str(manifest).ok()?;
    let declared = manifest.as_array()?.iter().find(|it| it.get("name").is_some_and(|name| name == tool))?;
    declared.get("connects_to")?.as_str().map(str::to_owned)
}

/// `fetch_device_info` is `Device info` to people.
fn title_of(name: &str) -> String {
    let words = name.strip_prefix("fetch_").unwrap_or(name).replace(['_', '-'], " ");
    let mut letters = words.trim().chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_begins_with_the_founding_numbers() {
        // S0-94, S0-78
        let tool = ToolDeclaration::new("fetch_device_info");
        assert_eq!((tool.timeout_ms, tool.attempts, tool.smart), (12_000, 2, false));
        assert_eq!((&*tool.title, tool.effect), ("Device info", None));
        for (name, title) in [("send-mail", "Send mail"), ("fetch_", ""), ("", ""), ("élan", "Élan")] {
            assert_eq!(title_of(name), title);
        }
    }

    #[test]
    fn the_core_gets_a_spec_only_with_an_effect() {
        // K1, S0-85, S0-91
        let tool = ToolDeclaration::new("fetch_x")
            .title("Things")
            .alias("fetch_xs")
            .description("Fetch x")
            .when("x is mentioned")
            .schema(json!({ "type": "object", "properties": { "target": { "type": "string" } }, "required": ["target"] }))
            .timeout_ms(5)
            .attempts(3)
            .smart(true);
        assert_eq!(tool.spec(), None);
        let spec = tool.clone().effect(Effect::Read).spec().unwrap();
        assert_eq!((&*spec.name, &*spec.description, &*spec.when), ("fetch_x", "Fetch x", "x is mentioned"));
        assert_eq!((spec.timeout_ms, spec.attempts, spec.smart), (5, 3, true));
        assert_eq!(spec.args, ArgSpec::from_schema(&tool.schema));
        assert_eq!(spec.args.required, [Arc::from("target")]);
    }
}
