//! [`Domain`]: a domain folder that is loaded, checked and ready to run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loop_core::run::Overridden;
use loop_core::secrets::Secrets;
use loop_core::types::Tier;
use loop_core::{RunSpec, WorkItem};
use loop_llm::wrap::{Recorder, RecordingError};
use loop_prompts::Prompts;
use loop_runtime::{
    Runner,
    budget::SharedBudget,
    hooks::Hooks,
    journal::{Entry, SyncPolicy},
    models::Models,
    save::{DetailedTarget, Saver},
};
use loop_tools::{Credentials, Registry};

use crate::caller;
use crate::config::ToolKind;
use crate::error::{DomainError, ItemError};
use crate::file::File;
use crate::item_schema::{self, ItemSchema};
use crate::mcp::Servers;
use crate::models::{self, BuiltModels};
use crate::report::{self, DomainReport};
use crate::tools::ToolSecrets;
use crate::user::UserModel;
use crate::{hooks, item, parts, protocol, remote, spec, tools};

/// Options of the caller that replace settings of the file. They apply in this order: the profile, the models, the
/// single settings, the base URLs.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The profile to use. `None`: none.
    pub profile: Option<String>,
    /// Dotted keys with their values, for example `limits.passes` and `3`. A value is read as TOML, or as a text if
    /// it is not TOML.
    pub set: Vec<(String, String)>,
    /// The model that the user prefers, in place of the file's. `None`: none.
    pub user_model: Option<UserModel>,
    /// Models that replace the file's: a tier and `PROVIDER/NAME`. For `scripted`, the name is the file with the
    /// replies. What `set` says of such a model, for example its temperature, applies to it.
    pub models: Vec<(Tier, String)>,
    /// Base URLs of the servers of tiers' models, which replace the file's.
    pub base_urls: Vec<(Tier, String)>,
    /// The file to record all model exchanges to. It must not exist. `None`: nothing is recorded.
    pub record: Option<PathBuf>,
    /// A file with prices, used if the domain names none. `None`: only the built-in table.
    pub prices: Option<PathBuf>,
    /// Whether `gate.calibration` is ignored. A program that measures the confidence of models sets it. The settings
    /// are checked all the same.
    pub uncalibrated: bool,
    /// The folder that relative paths in these options start from. Paths in the domain file start from the domain's
    /// folder.
    pub cwd: PathBuf,
}

impl LoadOptions {
    /// The settings given here that replace those of the file.
    fn overridden(&self) -> Vec<Overridden> {
        let of = |setting: &str, value: &str| Overridden { setting: setting.into(), value: value.into() };
        let profile = self.profile.iter().map(|name| of("profile", name));
        // In the order in which they apply: what is set of a model lies over the model that is given.
        let (of_models, set): (Vec<_>, Vec<_>) =
            self.set.iter().partition(|(key, _)| key.trim_start().starts_with("models"));
        let set = set.into_iter().map(|(key, value)| of(key, value));
        let of_models = of_models.into_iter().map(|(key, value)| of(key, value));
        let of_user = self.user_model.iter().map(|user| (&user.tier, &user.model));
        let models = of_user.chain(self.models.iter().map(|(tier, model)| (tier, model)));
        let models = models.map(|(tier, model)| of(&format!("models.{}", tier.name()), model));
        let of_user = self.user_model.iter().filter_map(|user| Some((&user.tier, user.base_url.as_ref()?)));
        let urls = of_user.chain(self.base_urls.iter().map(|(tier, url)| (tier, url)));
        let urls = urls.map(|(tier, url)| of(&format!("models.{}.base_url", tier.name()), url));
        profile.chain(set).chain(models).chain(of_models).chain(urls).collect()
    }
}

/// A domain: everything that a run needs except its work item.
pub struct Domain {
    /// Protocol, tools, models, limits and policy.
    pub spec: Arc<RunSpec>,
    /// The tools.
    pub registry: Arc<Registry>,
    /// The prompt templates.
    pub prompts: Arc<Prompts>,
    /// The model of each tier.
    pub models: Models,
    /// Where outcomes are saved: a file with placeholders for the ids of item and run, or an address, and how much of
    /// the evidence is saved. `None`: nowhere.
    pub save: Option<DetailedTarget>,
    /// Shared budgets of its runs, by day and by month. Empty: its runs share none.
    pub budgets: Vec<SharedBudget>,
    /// Which entries of its runs a journal in a file syncs to the disk.
    pub sync: SyncPolicy,
    /// The secrets of the tools, by the variables of the environment that hold them. Empty: no tool needs any.
    pub credentials: Credentials,
    file: File,
    item_schema: Option<ItemSchema>,
    warnings: Vec<String>,
    changed_tools: Vec<String>,
    of_calibration: Vec<String>,
    untrusted: Vec<DomainError>,
    unset: Vec<DomainError>,
    unset_to_save: Vec<DomainError>,
    hooks: Hooks,
    recorder: Option<Recorder>,
    secrets: Secrets,
    model_urls: Vec<(String, String)>,
    price_notes: Vec<String>,
    overridden: Vec<Overridden>,
    servers: Servers,
    #[cfg(feature = "postgres")]
    postgres: crate::postgres::PostgresSources,
}

impl Domain {
    /// Loads the domain in a folder, or in a `loopgate.toml`.
    ///
    /// A database that the domain builds from a script is built here if it does not exist yet.
    ///
    /// # Errors
    /// The first error, with its place.
    pub fn load(folder_or_file: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, DomainError> {
        Self::made(File::read(folder_or_file.as_ref(), options)?, options)
    }

    pub(crate) fn made(file: File, options: &LoadOptions) -> Result<Self, DomainError> {
        protocol::check(&file)?;
        let gate = &file.config.gate;
        if !(1..=2).contains(&gate.approvals) {
            let message = "one or two people approve an action; write 1 or 2";
            return Err(file.error(&["gate", "approvals"], message));
        }
        file.check_serve()?;
        // A profile may ask no person where the domain asks two.
        let asks = gate.people || options.profile.is_some() && file.has(&["gate", "people"]);
        if gate.approvals == 2 && !asks {
            let message = "runs ask a person only with `people = true`; write that as well, or take it out";
            return Err(file.error(&["gate", "approvals"], message));
        }
        let item_schema = ItemSchema::of(&file)?;
        let tools = tools::tools(&file, options)?;
        let spec = spec::spec(&file, options.profile.as_deref(), &tools.registry);
        // What names a tool of a server that is not trusted names nothing for that reason.
        let (spec, of_calibration) =
            spec.map_err(|error| tools.secrets.untrusted.first().cloned().unwrap_or(error))?;
        remote::check(&file)?;
        let mut unset_to_save = Vec::new();
        let save = parts::save(&file, &mut unset_to_save);
        // What saving sends is a secret in every run, also in one that does not save.
        let mut own = save.as_ref().ok().and_then(Option::as_ref).map(Saver::secrets).unwrap_or_default();
        let of_tools = tools.secrets.values.values().chain(&tools.secrets.parts);
        own.extend(&Secrets::of(of_tools.map(String::as_str)));
        let hooks = hooks::hooks(&file)?;
        own.extend(&Secrets::of(hooks.secrets.iter().map(String::as_str)));
        let BuiltModels { models, found, recorder } = models::models(&file, options.record.as_deref(), &own)?;
        let prompts = parts::prompts(&file)?;
        let save = save?;
        let budgets = spec::budgets(&file, &spec)?;
        let mut warnings = report::warnings(&spec);
        warnings.extend(tools.warnings);
        warnings.extend(remote::warnings(&file, &spec));
        let changed_tools = remote::changed_tools(&file, &spec, &tools.registry)?;
        warnings.extend(changed_tools.iter().cloned());
        warnings.extend(of_calibration.iter().cloned());
        let price_notes = spec::price_notes(&file, &spec);
        let mut unset = found.unset;
        unset.extend(tools.secrets.unset);
        unset.extend(hooks.unset);
        Ok(Self {
            spec: Arc::new(spec),
            registry: Arc::new(tools.registry),
            prompts: Arc::new(prompts),
            models,
            credentials: tools.secrets.values.into_iter().collect(),
            sync: file.config.journal.sync,
            budgets,
            file,
            item_schema,
            save,
            warnings,
            changed_tools,
            of_calibration,
            untrusted: tools.secrets.untrusted,
            price_notes,
            unset,
            unset_to_save,
            hooks: hooks.hooks,
            recorder,
            secrets: found.secrets,
            model_urls: found.urls,
            overridden: options.overridden(),
            servers: tools.servers,
            #[cfg(feature = "postgres")]
            postgres: tools.postgres,
        })
    }

    /// The limits of a run, in one line for people.
    pub fn limits_in_words(&self) -> String {
        report::limits(&self.spec)
    }

    /// Checks a domain and reports what it contains. If no profile is selected, each profile is checked too, and its
    /// warnings beyond those of the file are added.
    ///
    /// Databases on servers are asked whether they accept the queries of their tools. A server that does not answer
    /// within its `connect_timeout_ms` is a warning.
    ///
    /// # Errors
    /// The first error, with its place. An error of a single profile names the profile.
    pub fn check(
        folder_or_file: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<DomainReport, DomainError> {
        let path = folder_or_file.as_ref();
        let read = |options: &LoadOptions| {
            let mut file = File::read(path, options)?;
            file.secrets.programs_rest = true;
            Self::made(file, options)
        };
        let domain = read(options)?;
        let mut report = domain.report();
        #[cfg(feature = "postgres")]
        {
            let findings = domain.postgres.check(&domain.file, &domain.credentials);
            if let Some(error) = findings.error {
                return Err(error);
            }
            report.warnings.extend(findings.warnings);
        }
        let profiles = if options.profile.is_none() { domain.profiles() } else { &[] };
        for profile in profiles {
            let options = LoadOptions { profile: Some(profile.clone()), ..options.clone() };
            let with = read(&options).map_err(|error| error.of_profile(profile))?;
            let known = domain.report().warnings;
            let more = with.report().warnings.into_iter().filter(|warning| !known.contains(warning));
            report.warnings.extend(more.map(|warning| format!("profile `{profile}`: {warning}")));
        }
        Ok(report)
    }

    /// Waits until the recording is written, and returns how many exchanges it has. `None`: nothing is recorded.
    ///
    /// # Errors
    /// The recording could not be written.
    pub fn finish_recording(&self) -> Result<Option<u64>, RecordingError> {
        self.recorder.as_ref().map(Recorder::finish).transpose()
    }

    /// Makes scripted models continue after the replies in these entries, which belong to runs before the one that is
    /// driven. The runner that resumes a run skips the replies of that run itself.
    pub fn goes_on_behind(&self, entries: &[Entry]) {
        self.models.resumes("", entries);
    }

    /// Checks that the environment has every variable that a run needs, and with `saves` those for saving its outcome.
    ///
    /// # Errors
    /// The first variable that is named and not set.
    pub fn ready(&self, saves: bool) -> Result<(), DomainError> {
        let to_save = self.unset_to_save.iter().filter(|_| saves);
        self.untrusted
            .iter()
            .chain(&self.unset)
            .chain(to_save)
            .next()
            .map_or(Ok(()), |missing| Err(missing.clone()))
    }

    /// Adds the missing variables of this domain to those of the domain that calls it.
    pub(crate) fn lacks(&self, caller: &mut ToolSecrets) {
        caller.unset.extend(self.unset.iter().chain(&self.unset_to_save).cloned());
        caller.untrusted.extend(self.untrusted.iter().cloned());
    }

    /// Starts the MCP servers of its tools in parallel, and does not wait for them. A program that begins a run calls
    /// this, so that the servers start while the model replies. A server that was not started here is started by the
    /// first call that needs it.
    pub fn start_servers(&self) {
        self.servers.start(&self.credentials);
    }

    /// The server in `[servers]` that provides a tool. `None`: the tool is not from a server.
    pub fn server_of(&self, tool: &str) -> Option<&str> {
        self.servers.of_tool(tool)
    }

    /// Reads a work item from `text`. `origin` names its source in messages: a file name, or `-`.
    ///
    /// The text is JSON if its first character that is not blank is `{`, and Markdown otherwise.
    ///
    /// # Errors
    /// It is empty, is longer than [`item_bytes_max`](Self::item_bytes_max), is not JSON, has no title, or is JSON that does
    /// not fit [`item_schema`](Self::item_schema).
    pub fn item(&self, text: &str, origin: &str) -> Result<WorkItem, ItemError> {
        let item = item::read(&self.file.config.item, text, origin)?;
        self.item_schema.as_ref().map_or(Ok(()), |schema| schema.check(text, origin))?;
        Ok(item)
    }

    /// The schema of JSON items. `None`: the domain has none.
    pub fn item_schema(&self) -> Option<&ItemSchema> {
        self.item_schema.as_ref()
    }

    /// JSON from which this domain reads an item equal to a recorded one. `None`: the recorded item is a text, or its
    /// JSON cannot be restored.
    pub fn item_json(&self, recorded: &WorkItem) -> Option<serde_json::Value> {
        item_schema::json_of(&self.file.config.item, self.item_schema(), recorded)
    }

    /// The most bytes of a work item. A caller that reads an item from outside can stop one byte after this.
    pub fn item_bytes_max(&self) -> u64 {
        self.file.config.item.max_bytes
    }

    /// The domain's word for a work item, for example `ticket`.
    pub fn item_kind(&self) -> &str {
        &self.file.config.item.kind
    }

    /// A runner for this domain that saves outcomes where the domain says. Its journal is in memory.
    pub fn to_loop(&self) -> Runner {
        let prepared = self.unsaved_loop();
        match &self.save {
            Some(target) => {
                let prepared =
                    prepared.with_saver(Arc::new(target.clone().with_spec(Arc::clone(&self.spec))));
                match self.file.config.save.as_ref().and_then(|save| save.limit_ms) {
                    Some(ms) => prepared.with_save_limit(Duration::from_millis(ms)),
                    None => prepared,
                }
            }
            None => prepared,
        }
    }

    /// A runner for this domain that does not save outcomes. Its journal is in memory.
    pub fn unsaved_loop(&self) -> Runner {
        Runner::new((*self.spec).clone(), (*self.registry).clone(), self.models.clone())
            .with_prompts(Arc::clone(&self.prompts))
            .with_credentials(Arc::new(self.credentials.clone()))
            .with_secrets(&self.secrets)
            .with_overridden(self.overridden.iter().cloned())
            .with_hooks(self.hooks.clone())
    }

    /// The hooks: who is notified when a run waits for a person, ends or fails.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The settings that a caller of a server may change for a run, as dotted keys under their canonical names. Empty:
    /// none.
    pub fn caller_may_set(&self) -> Vec<String> {
        self.file.config.serve.caller_may_set.iter().map(|key| caller::own_name(key)).collect()
    }

    /// Whether a caller of a server may change this setting, by its canonical name or an alias.
    pub fn lets_set(&self, key: &str) -> bool {
        self.caller_may_set().contains(&caller::own_name(key))
    }

    /// How many runs of the domain a server drives at a time. `None`: the limit of the server.
    pub fn max_runs(&self) -> Option<u32> {
        self.file.config.serve.max_runs
    }

    /// How many submissions of the domain wait in a server's queue. `None`: the limit of the server.
    pub fn max_queued(&self) -> Option<u32> {
        self.file.config.serve.max_queued
    }

    /// Whether the offline stub selects the tools before the first pass.
    pub(crate) fn selects_offline(&self) -> bool {
        let models = &self.file.config.models;
        models.selector.as_ref().unwrap_or(&models.base).provider == "offline"
    }

    /// Secrets to mask: the keys of its models, the keys of known providers in the environment, and the secrets of its
    /// tools. Runs mask them in what they read. A program that shows something else, such as the result of a manual
    /// tool call, masks it itself.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The contents of the domain with warnings, for a person who checks it.
    pub fn report(&self) -> DomainReport {
        let kinds = self.file.config.tools.iter().map(|(name, tool)| (name, tool.kind.name()));
        let of_servers = self.spec.tools.iter().filter(|tool| self.server_of(&tool.name).is_some());
        let kinds = kinds.chain(of_servers.map(|tool| (&*tool.name, ToolKind::Mcp.name()))).collect();
        let saved = self.save.as_ref().map(|save| save.target.to_string());
        let servers = self.servers.lines();
        let path = self.file.path();
        let lines = report::lines(&self.spec, path, &kinds, &servers, saved.as_deref(), self.profiles());
        let missing = self.untrusted.iter().chain(self.missing()).map(ToString::to_string);
        DomainReport { lines, warnings: self.warnings.iter().cloned().chain(missing).collect() }
    }

    /// Warnings about valid settings that are probably a mistake, one line each. Unlike the report's warnings, they
    /// leave out what is [missing](Self::missing).
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The tools whose parameters a provider of its models does not accept unchanged, so that the tool is sent in a
    /// changed form or left out, a line each. The [warnings](Self::warnings) contain them too.
    pub fn changed_tools(&self) -> &[String] {
        &self.changed_tools
    }

    /// The models of the domain that `gate.calibration` has not measured, or hardly, a line each. For a program that
    /// begins a run.
    pub fn uncalibrated(&self) -> &[String] {
        &self.of_calibration
    }

    /// The MCP servers whose tools are not trusted, an error for each. No run begins before they are trusted.
    pub fn untrusted(&self) -> &[DomainError] {
        &self.untrusted
    }

    /// Notes on prices, a line each: models that cost nothing because their server is on this machine, and models whose
    /// price is from another provider's list because a gateway forwards to it.
    pub fn price_notes(&self) -> &[String] {
        &self.price_notes
    }

    /// Why a limit of cost cannot be enforced, at the place of the first model without a known price. `None`: each
    /// price is known.
    ///
    /// `so` is the consequence in the message, for example `the budget cannot be kept`. `or` is a remedy other than a
    /// price.
    pub fn unpriced(&self, so: &str, or: &str) -> Option<DomainError> {
        spec::unpriced(&self.spec.models).map(|(tier, model)| spec::no_price(&self.file, tier, model, so, or))
    }

    /// The variables that a run, or the saving of its outcome, needs and the environment does not have.
    pub fn missing(&self) -> impl Iterator<Item = &DomainError> {
        self.unset.iter().chain(&self.unset_to_save)
    }

    /// The tiers whose models are on a server, by name, each with its base URL. A URL may contain a credential, so do
    /// not show it.
    pub fn model_urls(&self) -> &[(String, String)] {
        &self.model_urls
    }

    /// The folder that contains the file.
    pub fn folder(&self) -> &Path {
        &self.file.folder
    }

    /// The folders that its tools search. Files in them are not work items.
    pub fn searched_folders(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.file.config.tools.iter().filter_map(|(_, tool)| tool.folder.as_deref());
        named.map(|folder| self.file.folder.join(folder))
    }

    /// The names of the file's profiles, in its order.
    pub fn profiles(&self) -> &[String] {
        &self.file.profiles
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("spec", &self.spec)
            .field("registry", &self.registry)
            .field("save", &self.save)
            .finish_non_exhaustive()
    }
}
