//! Policy files: settings that are laid over the spec of a recorded run, for backtests.
//!
//! A policy file has the keys of `loopgate.toml` that decisions depend on: `[limits]`, `[gate]`, and the attempts of
//! `[output]`. Every other setting stays as in the recorded run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::RunSpec;
use loop_core::spec::{CostLimit, GateSettings, Limits, ProtocolSpec};
use loop_core::types::edits;
use loop_tools::files;
use serde::Deserialize;
use serde_json::Value;

use crate::calibration::CalibrationFile;
use crate::error::DomainError;
use crate::file::SourceFile;
use crate::secret::shown_setting;
use crate::settings;
use crate::similar::hint;
use crate::spec::{LONGEST, NO_CALIBRATION, NONE_ALLOWED, SLIP, each};
use crate::tree::{Fault, Node, NodeValue, Origin};

/// Settings that replace those of a run's spec, to find out what the run would have done under them.
#[derive(Debug)]
pub struct PolicyFile {
    name: String,
    output: PolicyOutput,
    /// `gate.calibration`: the name of a file, or `none`.
    calibration: Option<String>,
    tree: Node,
    place: SourceFile,
}

/// What a policy file may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyConfig {
    /// Its name in reports. Default: the name of the file.
    name: Option<String>,
    /// Checked when the file is read, and laid over the limits of each spec.
    #[serde(rename = "limits")]
    _limits: Limits,
    #[serde(rename = "gate")]
    _gate: GateSettings,
    output: PolicyOutput,
}

impl PolicyConfig {
    /// The tree as typed configuration, and the name of its calibration file.
    fn of(mut tree: Node) -> Result<(Self, Option<String>), Fault> {
        let calibration = tree.table_mut("gate").map(settings::take_calibration).transpose()?.flatten();
        Ok((Self::deserialize(&tree)?, calibration))
    }
}

/// The keys of `[output]` that decisions depend on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyOutput {
    attempts: Option<u32>,
    passes_per_attempt: Option<u32>,
}

impl PolicyFile {
    /// Reads a policy file, and lays `set` over it: dotted keys with values, for example `limits.passes` and `3`.
    ///
    /// # Errors
    /// The first error, with its place.
    pub fn read(path: &Path, set: &[(String, String)]) -> Result<Self, DomainError> {
        if !path.exists() {
            return Err(DomainError::Unreadable {
                path: path.to_owned(),
                message: "there is no such file".to_owned(),
            });
        }
        let text = files::text(path, files::MAX_BYTES)
            .map_err(|error| DomainError::Unreadable { path: path.to_owned(), message: error.to_string() })?;
        Self::of_text(path.to_owned(), text, set)
    }

    /// A policy without a file, of these settings. `name` is its name in reports.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn of_settings(name: &str, set: &[(String, String)]) -> Result<Self, DomainError> {
        Self::of_text(PathBuf::from(name), String::new(), set)
    }

    /// Parses a policy from this text, as if it were the file at `path`.
    ///
    /// # Errors
    /// The first error, with its place.
    pub fn of_text(path: PathBuf, text: String, set: &[(String, String)]) -> Result<Self, DomainError> {
        let place = SourceFile { path, text };
        let read = || -> Result<_, Fault> {
            let mut tree = Node::parse(&place.text)?;
            // What is wrong in the file itself is reported before what is wrong in a setting.
            PolicyConfig::of(tree.clone())?;
            for (key, value) in set {
                tree.set(key, value, &shown_setting(key, value))?;
            }
            let (config, calibration) = PolicyConfig::of(tree.clone())?;
            Ok((tree, config, calibration))
        };
        let (tree, config, calibration) = read().map_err(|fault| place.error(fault))?;
        let of_file = || place.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = config.name.clone().or_else(of_file).unwrap_or_default();
        if name.trim().is_empty() {
            let fault = Fault::new(tree.origin_of(&["name"]), "the name is empty; write a short one");
            return Err(place.error(fault));
        }
        Ok(Self { name: name.trim().to_owned(), output: config.output, calibration, tree, place })
    }

    /// Its name in reports: that of the file, unless it gives another.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it sets, as dotted keys with their values as a domain file writes them, in the order of the file.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        for entry in self.tree.entries().iter().filter(|entry| entry.key != "name") {
            collect(&mut settings, entry.key.clone(), &entry.node);
        }
        settings
    }

    /// The spec with these settings.
    ///
    /// # Errors
    /// The first setting that does not fit the spec, with its place: a tool that it does not have, a cost limit without a
    /// price, an attempt of a run without an output.
    pub fn applied(&self, spec: &RunSpec) -> Result<RunSpec, DomainError> {
        let mut changed = spec.clone();
        let of_tree = |fault| self.place.error(fault);
        changed.limits = settings::limits(&self.tree, &spec.limits).map_err(of_tree)?;
        changed.limits.cost = match settings::cost_limit(&self.tree, &changed.limits) {
            None => spec.limits.cost,
            Some(limit) => {
                let models = &spec.models;
                let all = [Some(&models.base), models.selector.as_ref(), models.escalated.as_ref()];
                let mut all = all.into_iter().chain([models.fallback.as_ref()]).flatten();
                let is_priced = all.all(|model| model.price.is_some());
                CostLimit::from(limit).resolve(is_priced).map_err(|_| {
                    let message = format!(
                        "the price of a model of {} is not known, so that the limit cannot be kept; write \"none\"",
                        spec.domain
                    );
                    self.error(&["limits", "cost_usd"], message)
                })?
            }
        };
        changed.gate = settings::gate(&self.tree, &spec.gate).map_err(of_tree)?;
        self.name_tools(spec, &mut changed.gate)?;
        self.calibration(&mut changed)?;
        self.output(&mut changed)?;
        Ok(changed)
    }

    /// Applies the calibration that the policy names: a path relative to the policy file, or to the working directory
    /// if a setting names it.
    fn calibration(&self, spec: &mut RunSpec) -> Result<(), DomainError> {
        let path = ["gate", "calibration"];
        match self.calibration.as_deref() {
            None => {}
            Some(NO_CALIBRATION) => {
                spec.gate.calibration = None;
                spec.gate.allow_raise = false;
            }
            Some(_) if !spec.protocol.properties().states_confidence => {
                let message = format!("the runs of {} state no confidence; take it out", spec.domain);
                return Err(self.error(&path, message));
            }
            Some(named) => {
                let folder = match self.tree.origin_of(&path) {
                    Origin::File(_) => self.place.path.parent().unwrap_or(Path::new("")),
                    Origin::Setting(_) | Origin::Preset(_) => Path::new(""),
                };
                let place = folder.join(named);
                let taken = CalibrationFile::taken(&place, &spec.domain, &spec.models, false);
                let taken =
                    taken.map_err(|error| self.error(&path, format!("{}: {error}", place.display())))?;
                spec.gate.calibration = Some(Arc::new(taken.calibration));
            }
        }
        Ok(())
    }

    fn output(&self, spec: &mut RunSpec) -> Result<(), DomainError> {
        let PolicyOutput { attempts, passes_per_attempt } = self.output;
        if attempts.is_none() && passes_per_attempt.is_none() {
            return Ok(());
        }
        let ProtocolSpec::Output(output) = &mut spec.protocol else {
            let message =
                format!("the runs of {} do not end with an output; take the table out", spec.domain);
            return Err(self.error(&["output"], message));
        };
        output.attempts = attempts.unwrap_or(output.attempts);
        output.passes_per_attempt = passes_per_attempt.unwrap_or(output.passes_per_attempt);
        Ok(())
    }

    /// Resolves aliases of tools in the lists that the file sets.
    fn name_tools(&self, spec: &RunSpec, gate: &mut GateSettings) -> Result<(), DomainError> {
        let is_set = |key: &str| self.tree.get("gate").is_some_and(|gate| gate.node.get(key).is_some());
        if gate.allow.is_empty() && is_set("allow") {
            return Err(self.error(&["gate", "allow"], NONE_ALLOWED));
        }
        let lists = [
            ("required_tools", &mut gate.required_tools, false),
            ("allow", &mut gate.allow, false),
            ("forbid", &mut gate.forbid, true),
            ("repeats_for", &mut gate.repeats_for, false),
            ("approved", &mut gate.approved, false),
        ];
        for (key, names, may_be_new) in lists.into_iter().filter(|(key, ..)| is_set(key)) {
            each(key, names, |path, name| self.tool(spec, path, name, may_be_new))?;
        }
        Ok(())
    }

    /// The canonical name of a tool, or a pattern that some tool matches. A forbidden name may match no tool.
    fn tool(
        &self,
        spec: &RunSpec,
        path: &[&str],
        name: &str,
        may_be_new: bool,
    ) -> Result<Arc<str>, DomainError> {
        if let Some(tool) = spec.tool(name) {
            return Ok(Arc::clone(&tool.name));
        }
        let fits = |tool: &&str| loop_core::policy::fits(name, tool);
        let names: Vec<&str> = spec.tools.iter().map(|tool| &*tool.name).collect();
        let is_pattern = name.contains('*');
        let is_slip = || name.len() <= LONGEST && names.iter().any(|tool| edits(name, tool) <= SLIP);
        if is_pattern && (may_be_new || names.iter().any(fits)) {
            return Ok(name.into());
        }
        if may_be_new && !is_pattern && !name.trim().is_empty() && !is_slip() {
            return Ok(name.into());
        }
        let hint = hint(name, names.iter().copied(), "there are");
        let message = format!("{} has no tool `{name}`; {hint}", spec.domain);
        Err(self.error(path, message))
    }

    fn error(&self, path: &[&str], message: impl Into<String>) -> DomainError {
        self.place.error(Fault::new(self.tree.origin_of(path), message))
    }
}

/// The settings below a key, each with its dotted path.
fn collect(settings: &mut Vec<(String, String)>, path: String, node: &Node) {
    match &node.value {
        NodeValue::Table(entries) if !entries.is_empty() => {
            for entry in entries {
                collect(settings, format!("{path}.{}", entry.key), &entry.node);
            }
        }
        _ => settings.push((path, written(node))),
    }
}

/// A value as a domain file writes it.
fn written(node: &Node) -> String {
    match &node.value {
        NodeValue::Text(text) => Value::from(text.as_str()).to_string(),
        NodeValue::Integer(number) => number.to_string(),
        NodeValue::Float(written) => written.clone(),
        NodeValue::Boolean(is) => is.to_string(),
        NodeValue::List(elements) => {
            format!("[{}]", elements.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        NodeValue::Table(entries) => {
            let entries = entries.iter().map(|entry| format!("{} = {}", entry.key, written(&entry.node)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use loop_core::spec::{ModelSpec, SectionSpec, Stale};
    use loop_core::types::{PicoUsd, Price};

    use super::*;

    fn spec() -> RunSpec {
        let model = ModelSpec { price: Some(Price::flat(1, 2)), ..ModelSpec::new("p", "m") };
        let mut spec = RunSpec::document("shop", [SectionSpec::new("a", "A")], model);
        spec.gate.forbid = vec!["wipe".into()];
        spec.gate.no_progress = 9;
        spec
    }

    fn policy(text: &str) -> Result<PolicyFile, DomainError> {
        PolicyFile::of_text(PathBuf::from("p/cheap.toml"), text.to_owned(), &[])
    }

    #[test]
    fn what_is_not_named_stays() {
        // Issue 16, part 6: the same policy is a file that sets nothing.
        let nothing = policy("").unwrap();
        assert_eq!((nothing.name(), nothing.settings()), ("cheap.toml", Vec::new()));
        assert_eq!(nothing.applied(&spec()).unwrap(), spec());
    }

    #[test]
    fn what_is_named_replaces_what_was() {
        let text =
            "name = \"cheap\"\n[limits]\npasses = 2\ncost_usd = 0.02\n[gate]\nstale = \"off\"\nforbid = []\n";
        let set = [("gate.breakers.denied".to_owned(), "1".to_owned())];
        let cheap = PolicyFile::of_text(PathBuf::from("x.toml"), text.to_owned(), &set).unwrap();
        let changed = cheap.applied(&spec()).unwrap();
        assert_eq!(cheap.name(), "cheap");
        assert_eq!((changed.limits.passes, changed.limits.cost), (2, Some(PicoUsd(20_000_000_000))));
        assert_eq!((changed.gate.stale, changed.gate.breakers.denied), (Stale::Off, 1));
        assert_eq!((changed.gate.forbid.len(), changed.gate.no_progress), (0, 9));
        let written: Vec<String> =
            cheap.settings().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        assert_eq!(
            written,
            [
                "limits.passes = 2",
                "limits.cost_usd = 0.02",
                "gate.stale = \"off\"",
                "gate.forbid = []",
                "gate.breakers.denied = 1"
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let wrong = |text: &str| policy(text).and_then(|it| it.applied(&spec())).unwrap_err().to_string();
        assert_eq!(
            wrong("[limits]\npases = 2"),
            "p/cheap.toml:2:1: unknown key `pases`; did you mean `passes`?"
        );
        assert!(
            wrong("[tools]\n").starts_with("p/cheap.toml:1:2: unknown key `tools`;"),
            "{}",
            wrong("[tools]\n")
        );
        assert_eq!(
            wrong("[gate]\nrequired_tools = [\"look\"]"),
            "p/cheap.toml:2:19: shop has no tool `look`; there are none"
        );
        assert_eq!(
            wrong("[output]\nattempts = 2"),
            "p/cheap.toml:1:2: the runs of shop do not end with an output; take the table out"
        );
        let set = [("limits.passes".to_owned(), "two".to_owned())];
        let error = PolicyFile::of_settings("--set", &set).unwrap_err().to_string();
        assert!(error.starts_with("--set limits.passes=two: "), "{error}");
        let missing = PolicyFile::read(Path::new("no/such.toml"), &[]).unwrap_err().to_string();
        assert!(missing.starts_with("no/such.toml: cannot be read: there is no such file"), "{missing}");
    }
}
