//! Reads `loopgate.toml`, and lays the selected profile and the caller's options over it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::spec::{GateSettings, Limits};
use loop_core::types::{PicoUsd, Tier};
use loop_llm::Profile;
use loop_llm::prices::{ChargedBy, ModelPrices, PriceRow};
use loop_tools::files;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::LoadOptions;
use crate::caller;
use crate::config::{Config, ModelConfig, VERSION};
use crate::error::DomainError;
use crate::preset::over_preset;
use crate::prices::{self, PriceList};
use crate::protocol;
use crate::remote;
use crate::secret::{FoundSecrets, shown_setting};
use crate::settings;
use crate::similar::hint;
use crate::tree::{Fault, Node, NodeValue, Origin};
use crate::user::UserModel;

/// The name of the file in a domain's folder.
const FILE: &str = "loopgate.toml";

/// A typed configuration, with the tree that knows the place of every value.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) config: Config,
    /// The domain's folder.
    pub(crate) folder: PathBuf,
    pub(crate) profiles: Vec<String>,
    /// Prices for the models that have no price in the file.
    pub(crate) prices: PriceList,
    pub(crate) secrets: FoundSecrets,
    /// `gate.calibration`: the name of a file, or `none`.
    pub(crate) calibration: Option<String>,
    /// Whether `gate.calibration` is ignored.
    pub(crate) is_uncalibrated: bool,
    replaced: ReplacedModels,
    tree: Node,
    place: SourceFile,
    cwd: PathBuf,
    /// The files of the domains that call this one as a tool, outermost first. Empty: this domain is not called.
    pub(crate) callers: Vec<PathBuf>,
}

/// The models that a recording replaces, by tier.
type ReplacedModels = Vec<(Tier, Arc<ModelConfig>)>;

/// A file and its text, from which the line of an error is computed.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl File {
    /// Reads the domain file, given its folder or the file itself.
    pub(crate) fn read(folder_or_file: &Path, options: &LoadOptions) -> Result<Self, DomainError> {
        let path = path_of(folder_or_file);
        if path.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("toml")) {
            return Err(DomainError::NotADomain { path });
        }
        if !path.exists() {
            return Err(DomainError::Missing { path });
        }
        let text = files::text(&path, files::MAX_BYTES)
            .map_err(|error| DomainError::Unreadable { path: path.clone(), message: error.to_string() })?;
        Self::of_text(path, text, options)
    }

    /// Reads this text as if it were the file at `path`.
    pub(crate) fn of_text(path: PathBuf, text: String, options: &LoadOptions) -> Result<Self, DomainError> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let place = SourceFile { path, text };
        let Layered { tree, typed, profiles, replaced } =
            layered(&place.text, options).map_err(|fault| place.error(fault))?;
        let (prices, cwd) = (PriceList::new(Vec::new()), options.cwd.clone());
        let secrets = FoundSecrets::default();
        let is_uncalibrated = options.uncalibrated;
        let TypedFile { config, calibration } = typed;
        let mut file = Self {
            config,
            folder,
            profiles,
            prices,
            secrets,
            calibration,
            is_uncalibrated,
            replaced,
            tree,
            place,
            cwd,
            callers: Vec::new(),
        };
        file.prices = PriceList::new(file.own_prices(options)?);
        Ok(file)
    }

    /// The file's own path.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// An error about the value at `path` of the tree.
    pub(crate) fn error(&self, path: &[&str], message: impl Into<String>) -> DomainError {
        self.place.error(Fault::new(self.tree.origin_of(path), message))
    }

    /// The limits that the file sets, laid over `over`.
    pub(crate) fn limits(&self, over: &Limits) -> Result<Limits, DomainError> {
        settings::limits(&self.tree, over).map_err(|fault| self.place.error(fault))
    }

    /// The gate settings of the file, laid over `over`.
    pub(crate) fn gate(&self, over: &GateSettings) -> Result<GateSettings, DomainError> {
        settings::gate(&self.tree, over).map_err(|fault| self.place.error(fault))
    }

    /// The settings of a provider in the file, laid over `base`.
    pub(crate) fn profile(&self, name: &str, base: &Profile) -> Result<Profile, DomainError> {
        let table = self.tree.get("providers").and_then(|it| it.node.get(name));
        let profile = table.map_or(Ok(base.clone()), |table| settings::profile(&table.node, base));
        let profile = profile.map_err(|fault| self.place.error(fault))?;
        Ok(Profile { name: name.into(), ..profile })
    }

    /// The cost limit that the file sets. `None`: it sets none.
    pub(crate) fn cost_limit(&self) -> Option<Option<PicoUsd>> {
        settings::cost_limit(&self.tree, &self.config.limits)
    }

    /// Resolves the path in `text`: relative to the domain's folder if the file sets it, and to the working directory
    /// if the command line does. `path` is its place in the tree.
    pub(crate) fn resolve(&self, path: &[&str], text: &str) -> PathBuf {
        match self.tree.origin_of(path) {
            Origin::File(_) => self.folder.join(text),
            Origin::Setting(_) | Origin::Preset(_) => self.cwd.join(text),
        }
    }

    /// Everything that the file says of a tool, of its source and of its server, as written. Paths stay as in the file,
    /// so that a domain may be moved.
    pub(crate) fn definition_of(&self, tool: &str, server: Option<&str>) -> Value {
        let table = |path: [&str; 2]| {
            let node = path.iter().try_fold(&self.tree, |node, step| node.get(step).map(|entry| &entry.node));
            node.map(Node::data)
        };
        let written = table(["tools", tool]);
        let source = written.as_ref().and_then(|written| written.get("source")).and_then(Value::as_str);
        let source = source.and_then(|source| table(["sources", source]));
        match server {
            None => json!({ "tool": written, "source": source }),
            Some(server) => json!({ "tool": written, "server": table(["servers", server]) }),
        }
    }

    /// The row of the price table for a model, and the basis on which it is charged. `None`: the file gives the price,
    /// or it is not known.
    pub(crate) fn price_row(&self, model: &ModelConfig) -> Option<(PriceRow, ChargedBy)> {
        if model.price.is_some() {
            return None;
        }
        // What is wrong with a provider is said when its models are made.
        let profile = remote::profile(self, &model.provider).ok().flatten();
        self.prices.row(&model.server_model(), self.like(&model.provider), profile.as_deref())
    }

    /// The known provider that a provider of the file is `like`. A known provider is returned unchanged.
    pub(crate) fn like<'a>(&'a self, provider: &'a str) -> &'a str {
        self.config.providers.get(provider).and_then(|own| own.like.as_deref()).unwrap_or(provider)
    }

    /// The model of a tier that a recording replaced.
    pub(crate) fn replaced(&self, tier: &str) -> Option<&ModelConfig> {
        self.replaced.iter().find(|(at, _)| at.name() == tier).map(|(_, model)| &**model)
    }

    /// Whether the base model is set by the caller and not by the file.
    pub(crate) fn is_base_model_given(&self) -> bool {
        let is_given =
            |key: &str| matches!(self.tree.origin_of(&["models", "base", key]), Origin::Setting(_));
        self.replaced("base").is_some() || is_given("provider") || is_given("model")
    }

    /// The rows of the user's price file. Empty: there is none.
    fn own_prices(&self, options: &LoadOptions) -> Result<Vec<ModelPrices>, DomainError> {
        let path = ["prices", "file"];
        let Some(named) = &self.config.prices.file else {
            return options.prices.as_deref().map_or(Ok(Vec::new()), prices::read_prices);
        };
        let found = self.resolve(&path, named);
        if !found.is_file() {
            let shown = found.display();
            let message = format!("{shown}: there is no such file; correct the path or make the file");
            return Err(self.error(&path, message));
        }
        prices::read_prices(&found)
    }

    /// Fails if `[serve]` names a key that is not a setting or that loosens the domain, or leaves no room for a run.
    pub(crate) fn check_serve(&self) -> Result<(), DomainError> {
        let serve = &self.config.serve;
        for key in &serve.caller_may_set {
            caller::check(key, &self.config.models)
                .map_err(|message| self.error(&["serve", "caller_may_set"], message))?;
        }
        for (name, given) in [("max_runs", serve.max_runs), ("max_queued", serve.max_queued)] {
            if given == Some(0) {
                return Err(
                    self.error(&["serve", name], "0 lets nothing run; give 1 or more, or leave the key out")
                );
            }
        }
        Ok(())
    }

    /// Whether the value at `path` comes from the preset.
    pub(crate) fn is_preset(&self, path: &[&str]) -> bool {
        matches!(self.tree.origin_of(path), Origin::Preset(_))
    }

    /// Whether the tree has something at exactly this path.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        let mut node = &self.tree;
        path.iter().all(|step| match node.get(step) {
            Some(entry) => {
                node = &entry.node;
                true
            }
            None => false,
        })
    }
}

/// The path of a domain's file, given its folder or the file itself.
pub(crate) fn path_of(folder_or_file: &Path) -> PathBuf {
    if folder_or_file.is_file() { folder_or_file.to_owned() } else { folder_or_file.join(FILE) }
}

impl SourceFile {
    pub(crate) fn error(&self, fault: Fault) -> DomainError {
        let message = fault.message;
        match fault.origin.unwrap_or(Origin::File(0)) {
            Origin::Setting(option) => DomainError::Option { option: option.to_string(), message },
            Origin::Preset(name) => DomainError::Option { option: format!("preset = \"{name}\""), message },
            Origin::File(at) => {
                let before = self.text.get(..at).unwrap_or(&self.text);
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                DomainError::Invalid { path: self.path.clone(), line, column, message }
            }
        }
    }
}

/// A file with the profile and the options laid over it.
struct Layered {
    tree: Node,
    typed: TypedFile,
    /// The names of its profiles.
    profiles: Vec<String>,
    replaced: ReplacedModels,
}

fn layered(text: &str, options: &LoadOptions) -> Result<Layered, Fault> {
    let mut tree = Node::parse(text)?;
    check_version(&tree)?;
    let profiles = tree.take("profiles");
    let profiles = profiles.as_ref().map_or::<&[_], _>(&[], |entry| entry.node.entries());
    for profile in profiles {
        for key in ["version", "profiles"] {
            if let Some(entry) = profile.node.get(key) {
                let message = format!("a profile cannot hold `{key}`; take it out");
                return Err(Fault::new(entry.origin.clone(), message));
            }
        }
        // Also of those that are not chosen, so that a slip is not found in the night in which one is.
        let mut with = tree.clone();
        with.merge(profile.node.clone());
        check(&with)?;
    }
    let names: Vec<String> = profiles.iter().map(|profile| profile.key.clone()).collect();
    if let Some(chosen) = &options.profile {
        match profiles.iter().find(|profile| profile.key == *chosen) {
            Some(profile) => tree.merge(profile.node.clone()),
            None => {
                let hint = match names.is_empty() {
                    true => "the file has none; leave --profile out".to_owned(),
                    false => hint(chosen, names.iter().map(String::as_str), "the profiles are"),
                };
                let origin = Origin::Setting(format!("--profile {chosen}").into());
                return Err(Fault::new(origin, format!("there is no such profile; {hint}")));
            }
        }
    }
    // What is wrong in the file itself is said before what is wrong in a setting.
    check(&tree)?;
    let lay_settings = |tree: &mut Node| -> Result<(), Fault> {
        options.set.iter().try_for_each(|(key, value)| tree.set(key, value, &shown_setting(key, value)))
    };
    lay_settings(&mut tree)?;
    let mut replaced = ReplacedModels::new();
    if let Some(UserModel { place, tier, model, base_url, .. }) = &options.user_model {
        set_model(&mut tree, *tier, model, place, &mut replaced)?;
        if let Some(url) = base_url {
            tree.set(&format!("models.{}.base_url", tier.name()), &quoted(url), place)?;
        }
    }
    for (tier, model) in &options.models {
        set_model(&mut tree, *tier, model, &format!("--model {}={model}", tier.name()), &mut replaced)?;
    }
    // A model that is given takes the place of what the file says of the tier, and not of what the settings say.
    lay_settings(&mut tree)?;
    for (tier, url) in &options.base_urls {
        // The URL itself may hold a password.
        let option = format!("--base-url {}", tier.name());
        tree.set(&format!("models.{}.base_url", tier.name()), &quoted(url), &option)?;
    }
    protocol::check_submit(&tree)?;
    let tree = over_preset(&tree)?;
    let typed = TypedFile::of(tree.clone())?;
    Ok(Layered { tree, typed, profiles: names, replaced })
}

/// The tree as typed configuration.
struct TypedFile {
    config: Config,
    calibration: Option<String>,
}

impl TypedFile {
    fn of(mut tree: Node) -> Result<Self, Fault> {
        let calibration = tree.table_mut("gate").map(settings::take_calibration).transpose()?.flatten();
        if let Some(Node { value: NodeValue::Table(providers), .. }) = tree.table_mut("providers") {
            for provider in providers {
                // Any profile does to find what is no key or does not fit.
                if let Some(any) = Profile::all().first() {
                    settings::profile(&provider.node, any)?;
                }
                provider.node.retain(settings::is_of_provider);
            }
        }
        Ok(Self { config: Config::deserialize(&tree)?, calibration })
    }
}

fn check(tree: &Node) -> Result<(), Fault> {
    protocol::check_submit(tree)?;
    TypedFile::of(over_preset(tree)?).map(drop)
}

fn check_version(tree: &Node) -> Result<(), Fault> {
    let Some(entry) = tree.get("version") else {
        let message = "the key `version` is missing; begin the file with `version = 1`";
        return Err(Fault::new(Origin::File(0), message));
    };
    match u32::deserialize(&entry.node)? {
        VERSION => Ok(()),
        newer if newer > VERSION => {
            let message = format!(
                "written for a newer loopgate: its format is {newer}, this one reads {VERSION}; update loopgate"
            );
            Err(Fault::new(entry.node.origin.clone(), message))
        }
        other => {
            let message = format!("there is no format {other}; write `version = {VERSION}`");
            Err(Fault::new(entry.node.origin.clone(), message))
        }
    }
}

/// Replaces the model of a tier by `PROVIDER/NAME`. If the file describes that model, its settings stay. If only the
/// provider is the same, the server and its key stay. `option` names the source of the replacement in messages.
fn set_model(
    tree: &mut Node,
    tier: Tier,
    model: &str,
    option: &str,
    replaced: &mut ReplacedModels,
) -> Result<(), Fault> {
    let Some((provider, name)) = model.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        let origin = Origin::Setting(option.into());
        let message = format!("`{model}` is not a model; write PROVIDER/NAME, for example offline/NAME");
        return Err(Fault::new(origin, message));
    };
    let text = |node: &Node, key: &str| -> Option<String> {
        node.get(key).and_then(|entry| String::deserialize(&entry.node).ok())
    };
    let models = tree.get("models").map_or::<&[_], _>(&[], |entry| entry.node.entries());
    let described = models.iter().find(|entry| {
        text(&entry.node, "provider").as_deref() == Some(provider)
            && text(&entry.node, "model").as_deref() == Some(name)
    });
    let described = described.map(|entry| entry.node.clone());
    let path = format!("models.{}", tier.name());
    // A recording takes the place of a model: its price and its limits stay, so that the run can be the same.
    let in_tier = |tier: Tier| models.iter().find(|entry| entry.key == tier.name());
    // Without a selector of its own the base model selects.
    let from = if tier == Tier::Selector && in_tier(tier).is_none() { Tier::Base } else { tier };
    let before = in_tier(from).filter(|_| provider == "recorded");
    let config = before.map(|entry| ModelConfig::deserialize(&entry.node)).transpose()?;
    let stands_for = match config {
        // A recording in place of a recording replaces the same model.
        Some(config) if config.provider == "recorded" => {
            replaced.iter().find(|(at, _)| *at == from).map(|(_, config)| Arc::clone(config))
        }
        config => config.map(Arc::new),
    };
    replaced.retain(|(at, _)| *at != tier);
    replaced.extend(stands_for.map(|config| (tier, config)));
    let stays =
        |key: &str| ["model", "price", "context_tokens", "max_output_tokens", "timeout_ms"].contains(&key);
    // Another model of the same provider is at the same server.
    let same = in_tier(from).filter(|entry| text(&entry.node, "provider").as_deref() == Some(provider));
    let of_server = |key: &str| ["base_url", "api_key_env"].contains(&key);
    let at_server = same.iter().flat_map(|entry| entry.node.entries()).filter(|it| of_server(&it.key));
    let kept: Vec<_> = before
        .iter()
        .flat_map(|entry| entry.node.entries())
        .filter(|it| stays(&it.key))
        .chain(at_server)
        .cloned()
        .collect();
    tree.set(&path, "{}", option)?;
    for entry in kept {
        tree.put_at(&["models", tier.name(), &entry.key], entry.node)?;
    }
    if let Some(described) = described {
        return tree.put_at(&["models", tier.name()], described);
    }
    tree.set(&format!("{path}.provider"), &quoted(provider), option)?;
    match provider {
        "scripted" => return tree.set(&format!("{path}.script"), &quoted(name), option),
        "recorded" => return tree.set(&format!("{path}.recording"), &quoted(name), option),
        _ => {}
    }
    tree.set(&format!("{path}.model"), &quoted(name), option)
}

/// A text in TOML's quotes, so that it is not read as a number.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
