//! What `loopgate.toml` may contain. The comments here are what an editor shows for each key.

mod budget;
mod command;
mod files;
mod hooks;
mod http;
mod models;
mod ordered;
mod prices;
mod protocol;
mod providers;
mod secrets;
mod serve;
mod servers;
mod sources;
mod stops;
mod tools;

use loop_core::spec::{GateSettings, Limits, NonceMode, PlanSlot, SectionSpec};
use loop_prompts::Layout;
use loop_runtime::{journal::SyncPolicy, report::EvidenceDetail};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub(crate) use budget::BudgetConfig;
pub(crate) use command::CommandConfig;
#[cfg(all(feature = "command", unix))]
pub(crate) use command::OutputForm;
pub(crate) use files::FilesConfig;
#[cfg(feature = "files")]
pub(crate) use files::FilesWorkConfig;
pub(crate) use hooks::HookConfig;
pub(crate) use http::HttpConfig;
#[cfg(feature = "http")]
pub(crate) use http::{HttpAuthConfig, HttpPagesConfig, HttpPagingKind};
pub(crate) use models::{ModelConfig, ModelsConfig};
pub(crate) use ordered::OrderedTable;
pub(crate) use prices::{PriceConfig, PriceFileConfig, PriceRowConfig, PricesConfig};
pub(crate) use protocol::{OutputConfig, ProtocolConfig, ProtocolKind, SchemaConfig};
pub(crate) use providers::ProviderConfig;
pub(crate) use secrets::SecretConfig;
pub(crate) use serve::ServeConfig;
pub(crate) use servers::ServerConfig;
#[cfg(feature = "postgres")]
pub(crate) use sources::TlsKind;
pub(crate) use sources::{SourceConfig, SourceKind};
pub(crate) use stops::StopReasonConfig;
#[cfg(all(feature = "mcp", unix))]
pub(crate) use tools::UntrustedConfig;
pub(crate) use tools::{SmartConfig, SmartRowsConfig, ToolConfig, ToolKind};

/// The version of the format that this crate reads.
pub(crate) const VERSION: u32 = 1;

/// A domain: what the work items, sections, tools, prompts, models and limits are for one kind of work.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The version of this file's format: 1.
    #[schemars(range(min = 1, max = 1))]
    #[allow(dead_code, reason = "read from the tree, before anything else")]
    pub(crate) version: u32,
    /// The domain's name, for example `helpdesk`.
    pub(crate) name: String,
    /// A set of settings that everything here is laid over: `analysis`, `agent`, `extract`, `turn` or `step`. Default: none.
    #[schemars(extend("enum" = ["analysis", "agent", "extract", "turn", "step", null]))]
    #[allow(dead_code, reason = "read from the tree, before anything else")]
    pub(crate) preset: Option<String>,
    /// What the document, the conversation or the output is for, in one or two sentences. The model reads it.
    #[serde(default)]
    pub(crate) goal: String,
    /// What a reply is taken for: sections of a document, a turn of a conversation, or the way to an output.
    #[serde(default)]
    pub(crate) protocol: ProtocolConfig,
    /// For the protocol `output`: what a run ends with.
    pub(crate) output: Option<OutputConfig>,
    /// What a work item is and where its parts are in a JSON item.
    #[serde(default)]
    pub(crate) item: ItemConfig,
    /// For the protocol `document`: the sections, in the order in which they are shown. At least one.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) section: Vec<SectionSpec>,
    /// Where data is, by name. Tools name a source.
    #[serde(default)]
    pub(crate) sources: OrderedTable<SourceConfig>,
    /// Where secrets are found that are not in the environment, by the names that keys such as `bearer_env` give. Default:
    /// none, each is the variable of the environment with its name.
    #[serde(default)]
    pub(crate) secrets: OrderedTable<SecretConfig>,
    /// Servers that speak the Model Context Protocol (MCP), by name. Their trusted tools are tools of the domain.
    #[serde(default)]
    pub(crate) servers: OrderedTable<ServerConfig>,
    /// The tools, by name, in the order in which the model sees them. A name begins with `fetch_` by custom.
    #[serde(default)]
    pub(crate) tools: OrderedTable<ToolConfig>,
    /// For the protocol `document`: what runs before the first pass.
    #[serde(default)]
    pub(crate) selection: SelectionConfig,
    /// Which model is used for what. Without it the offline stub is used, which is not an AI.
    #[serde(default)]
    pub(crate) models: ModelsConfig,
    /// Providers of your own, and changes to known ones, by name.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, providers::ProviderTable>")]
    pub(crate) providers: OrderedTable<ProviderConfig>,
    /// Where prices are found that no model's own table gives.
    #[serde(default)]
    pub(crate) prices: PricesConfig,
    /// What a run never exceeds.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// What all runs of the domain in one journal may cost together. Default: no such budget.
    #[serde(default)]
    pub(crate) budget: BudgetConfig,
    /// How it is decided after each pass whether to continue.
    #[serde(default)]
    pub(crate) gate: GateSettings,
    /// The effects that each run intends: a call that fits one is not asked for because the run has read untrusted text.
    /// Default: none, and a model with native calls or a contract block may plan before it reads such text.
    #[serde(default)]
    pub(crate) plan: Vec<PlanSlot>,
    /// The domain's own reasons to stop, by name, in addition to those that every run has. Default: none.
    #[serde(default)]
    pub(crate) stop_reasons: OrderedTable<StopReasonConfig>,
    /// For the protocol `document`: how strictly a reply must prove that it answers this run.
    #[serde(default)]
    pub(crate) contract: ContractConfig,
    /// Own prompt templates.
    #[serde(default)]
    pub(crate) prompts: PromptsConfig,
    /// Where the outcome is saved. Without it nothing is saved.
    pub(crate) save: Option<SaveConfig>,
    /// Who is notified when a run waits for a person, ends or fails, by name. Default: none.
    #[serde(default)]
    pub(crate) hooks: OrderedTable<HookConfig>,
    /// How runs are kept in a journal file.
    #[serde(default)]
    pub(crate) journal: JournalConfig,
    /// What the callers of a server may change, and how much of the domain runs at a time.
    #[serde(default)]
    pub(crate) serve: ServeConfig,
    /// Taken out of the tree before it is read; here so that it is no unknown key.
    #[serde(default, rename = "profiles")]
    #[schemars(skip)]
    pub(crate) _profiles: IgnoredAny,
}

/// How runs are kept in a journal file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct JournalConfig {
    /// Which entries are synced to the disk before the run continues: `full` (all), `effects` (what changes something, what
    /// people said, a wait for a person, the end) or `none`. A power failure may take the others. Default: `effects`.
    pub(crate) sync: SyncPolicy,
}

/// What a work item is. Places are JSON pointers such as `/contact/email`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ItemConfig {
    /// What one item is called, for example `ticket`. Default: `item`.
    pub(crate) kind: String,
    /// The place of its id. Default: `/id`. If there is nothing at that place, the file's name is the id.
    pub(crate) id: String,
    /// The place of its title, which must be there. Default: `/title`.
    pub(crate) title: String,
    /// What calls see that only need to know what the work is about. Default: the whole item.
    pub(crate) compact: Vec<String>,
    /// The most bytes of an item; a longer one is refused before a run begins. Default: 1,048,576.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: u64,
    /// The JSON Schema that a JSON item has to fit, or the file that holds it. The page that begins a run has a field for each
    /// of its properties. Default: none.
    pub(crate) schema: Option<SchemaConfig>,
    /// Whom and what the item concerns; queries use these values as `:scope_account` and so on.
    pub(crate) scope: ScopeConfig,
}

impl Default for ItemConfig {
    fn default() -> Self {
        Self {
            kind: "item".to_owned(),
            id: "/id".to_owned(),
            title: "/title".to_owned(),
            compact: Vec::new(),
            max_bytes: 1 << 20,
            schema: None,
            scope: ScopeConfig::default(),
        }
    }
}

/// Whom and what the item concerns. Places are JSON pointers; what is not there is left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ScopeConfig {
    /// The account, customer, organisation or project.
    pub(crate) account: Option<String>,
    /// The account's name for people; headings of results show it.
    pub(crate) account_name: Option<String>,
    /// The device, vehicle, product or server.
    pub(crate) asset: Option<String>,
    /// The person: contact, lead, author.
    pub(crate) person: Option<String>,
}

/// What runs before the first pass.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SelectionConfig {
    /// Whether the model of the selector tier chooses tools that run before the first pass. Default: true.
    pub(crate) enabled: bool,
    /// The calls that run where choosing fails. Default: none.
    pub(crate) defaults: Vec<DefaultCallConfig>,
}

impl Default for SelectionConfig {
    fn default() -> Self {
        Self { enabled: true, defaults: Vec::new() }
    }
}

/// A call that runs where choosing fails.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultCallConfig {
    /// The tool's name.
    pub(crate) tool: String,
    /// Its parameters. Default: none.
    #[serde(default)]
    pub(crate) parameters: Map<String, Value>,
}

/// How strictly a reply must prove that it answers this run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ContractConfig {
    /// Which contract blocks count. Default: `prefer`.
    pub(crate) nonce: NonceMode,
}

/// Own prompt templates.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PromptsConfig {
    /// A folder with `.md` templates that replace those of the same name. Default: none is replaced.
    pub(crate) folder: Option<String>,
    /// `append`: evidence is appended, which keeps calls cheap. `system_evidence`: it is in the system prompt. Default:
    /// `append`.
    #[schemars(extend("enum" = ["append", "system_evidence"]), with = "String")]
    pub(crate) layout: Layout,
}

/// Where the outcome is saved: a file or an address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SaveConfig {
    /// The file; `{item}` is the item's id and `{run}` the run's.
    pub(crate) file: Option<String>,
    /// The address that takes the outcome as the JSON body of a POST: `https://…` or `http://…`.
    pub(crate) url: Option<String>,
    /// For `url`: the environment variable with the token that is sent as `authorization: Bearer`. Default: none is sent.
    pub(crate) bearer_env: Option<String>,
    /// Milliseconds that saving may take, all its tries together; at least 1. Default: 30000.
    pub(crate) limit_ms: Option<u64>,
    /// How much of each result is saved: `full` (its data and what the model read), `summary` (tool, parameters, status and
    /// one line) or `none`. Default: `full`.
    pub(crate) evidence: EvidenceDetail,
}
