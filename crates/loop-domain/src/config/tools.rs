//! `[tools]`: what asks for data, and what changes it.

use std::fmt;
use std::sync::Arc;

use loop_core::spec::{ArgType, ToolRepeats};
use loop_core::types::Effect;
use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value, json};

use crate::config::{CommandConfig, FilesConfig, HttpConfig, OrderedTable};

/// A tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolConfig {
    /// What it does: `sql` asks or changes a database, `docs` searches a folder of documents, `http` asks a server, `question`
    /// asks a person, `results` reads more of an earlier result that was cut, `command` runs a program, `files` works on the
    /// files of a folder, `run` calls another domain, `mcp` is a tool of a server in `servers`, `mock` is only declared: an eval says what its calls bring.
    pub(crate) kind: ToolKind,
    /// What it does to the world: `read` if it only reads. Other effects need a person's consent. Required, except of
    /// `question`, `results`, `run` and `mcp`. Default of `mcp`: `write_irreversible`, and `read` for the tool that reads resources.
    #[schemars(schema_with = "effect_schema", required)]
    pub(crate) effect: Option<Effect>,
    /// Its name for people, and the heading of its results. Default: made from its name.
    pub(crate) title: Option<String>,
    /// What it returns. The model reads it, so say what one gets.
    #[serde(default)]
    pub(crate) description: String,
    /// When it helps. The selector reads it, so use the words that work items use.
    #[serde(default)]
    pub(crate) when: String,
    /// Other names that mean it. Default: none.
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    /// What it takes, by name. Default: nothing, for `docs` the words to look for, and for `files` what its work needs.
    #[serde(default)]
    pub(crate) parameters: OrderedTable<ParameterConfig>,
    /// For `sql`: the name of a source.
    pub(crate) source: Option<String>,
    /// For `sql`: one SELECT, or one INSERT, UPDATE or DELETE (with PostgreSQL also MERGE) if the effect is to write. `:target` is the parameter `target`;
    /// `:scope_account`, `:scope_account_name`, `:scope_asset`, `:scope_item` and `:scope_person` are what the work item
    /// concerns. A change may store `:call_key`, which all tries of one call share.
    pub(crate) query: Option<String>,
    /// For `sql`: the most bytes of one value in a result; a longer text is cut, and says so. Default: 65,536.
    #[schemars(range(min = 1))]
    pub(crate) max_value_bytes: Option<usize>,
    /// For `docs`: the folder with `.md`, `.markdown` and `.txt` files.
    pub(crate) folder: Option<String>,
    /// For `docs`: the parameter that holds the words to look for. Default: `query`.
    pub(crate) query_parameter: Option<String>,
    /// Whether the selector's model chooses what of its result is returned, where that is a list: `true`, or a table that says
    /// how. Only for a tool that reads. Default: false; of `docs` the best three passages are taken, of others all.
    #[serde(default)]
    pub(crate) smart: SmartConfig,
    /// For `mcp`: the server, where the tool is to have another name than `PREFIX_TOOL`.
    pub(crate) server: Option<String>,
    /// For `mcp`, with `server`: the tool's name on the server.
    #[serde(default)]
    #[cfg_attr(
        not(all(feature = "mcp", unix)),
        allow(dead_code, reason = "without the feature it is only recognised")
    )]
    pub(crate) tool: Option<String>,
    /// For `run`: the folder of the domain that a call runs, as a run of its own. It may use what is left of this run's limits,
    /// and at most its own.
    pub(crate) domain: Option<String>,
    /// For `run`: the profile of that domain. Default: none.
    pub(crate) profile: Option<String>,
    /// For `command`: the program.
    pub(crate) command: Option<CommandConfig>,
    /// For `files`: the folder, and what is done with its files.
    pub(crate) files: Option<FilesConfig>,
    /// For `http`: the request, and what of its answer is the result.
    #[serde(default)]
    #[cfg_attr(
        not(feature = "http"),
        allow(dead_code, reason = "without the feature it is only recognised")
    )]
    pub(crate) http: Option<HttpConfig>,
    /// Milliseconds until it is cut off. Default: 12,000.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// How often one call may be made in all where it fails in a way that may pass. Default: 2.
    #[schemars(range(min = 1))]
    pub(crate) attempts: Option<u32>,
    /// Whether what it returns is private: it must not leave without approval. Default: false.
    #[serde(default)]
    pub(crate) reads_private: bool,
    /// Whether what it returns may be written by an untrusted party, such as comments or mails. With `{ except = [POINTER] }`
    /// it is untrusted but for the fields at these JSON pointers, `*` for every entry, which the tool's own system writes,
    /// such as ids and addresses: their values may say whom an effect reaches. Default: false, and true for `mcp`.
    #[serde(default)]
    pub(crate) returns_untrusted: UntrustedConfig,
    /// Whether a call in vain costs nothing worth counting: where calls are native, one may then start before the reply
    /// that requests it is complete. Only for a tool that reads and is not `smart`. Default: false.
    #[serde(default)]
    pub(crate) cheap: bool,
    /// The parameters that say whom or what an effect reaches, such as a recipient or an amount. Their values must be
    /// in the work item, in `gate.authorities` or in what a trusted tool returned. Otherwise a person is asked.
    /// Default: none.
    #[serde(default)]
    pub(crate) authority: Vec<Arc<str>>,
    /// How its repeats are judged. With `allowed` a keyed or irreversible write runs again without a person.
    #[serde(default)]
    pub(crate) repeats: ToolRepeats,
    /// Whether there is such a tool; with `false` it is as if it were not written, and with `mcp` the server's tool is left
    /// out. Default: true.
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
}

#[cfg(all(feature = "mcp", unix))]
impl ToolConfig {
    /// The table of a tool of a server, of which the file says nothing.
    pub(crate) fn of_server() -> Self {
        let written = json!({ "kind": "mcp", "returns_untrusted": true });
        serde_json::from_value(written).expect("every other key has a default")
    }
}

/// Which of what a tool returns is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected `true`, `false` or `{ except = [POINTER] }`")]
pub(crate) enum UntrustedConfig {
    /// All of it, or nothing.
    Is(bool),
    /// All but some fields.
    But(ExceptConfig),
}

/// Fields of what a tool returns that are trusted although the rest is not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExceptConfig {
    /// JSON pointers to them in its data, `*` for every entry, for example `/*/id`.
    pub(crate) except: Vec<Arc<str>>,
}

impl Default for UntrustedConfig {
    fn default() -> Self {
        Self::Is(false)
    }
}

impl UntrustedConfig {
    /// Whether any of it is untrusted.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self, Self::Is(false))
    }

    /// JSON pointers to the trusted fields.
    pub(crate) fn except(&self) -> &[Arc<str>] {
        match self {
            Self::Is(_) => &[],
            Self::But(but) => &but.except,
        }
    }
}

/// How a model chooses among the rows of a result.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum SmartConfig {
    /// Whether it does, in the default way.
    Is(bool),
    /// It does, in this way.
    By(SmartRowsConfig),
}

impl Default for SmartConfig {
    fn default() -> Self {
        Self::Is(false)
    }
}

// By hand, so that an error in the table is about its key.
impl<'de> Deserialize<'de> for SmartConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SmartConfigVisitor;
        impl<'de> Visitor<'de> for SmartConfigVisitor {
            type Value = SmartConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or a table")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<SmartConfig, E> {
                Ok(SmartConfig::Is(value))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SmartConfig, A::Error> {
                SmartRowsConfig::deserialize(de::value::MapAccessDeserializer::new(map)).map(SmartConfig::By)
            }
        }
        deserializer.deserialize_any(SmartConfigVisitor)
    }
}

impl SmartConfig {
    /// Whether a model chooses.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self, Self::Is(false))
    }
}

/// The way in which a model chooses among the rows of a result.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SmartRowsConfig {
    /// The fewest rows about which the model is asked; a shorter result is returned as it is. Default: 5.
    #[schemars(range(min = 1))]
    pub(crate) threshold: Option<usize>,
    /// What makes a row relevant, in a sentence. The model reads it. Default: the title of the work item and the target alone.
    pub(crate) filter: Option<String>,
    /// The most rows that are kept where no model chooses: those that hold most words of the target. Default: 3.
    #[schemars(range(min = 1))]
    pub(crate) fallback: Option<usize>,
    /// The parameter that says what a call looks for. Default: `target`.
    pub(crate) target: Option<String>,
}

/// Kinds of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolKind {
    /// Asks or changes a database.
    Sql,
    /// Searches a folder of documents.
    Docs,
    /// Makes a request to a server.
    Http,
    /// Asks a person, whose answer is its result.
    Question,
    /// Reads more of an earlier result that was cut.
    Results,
    /// Runs a program.
    Command,
    /// Works on the files of a folder.
    Files,
    /// Calls another domain: a run of its own.
    Run,
    /// Is a tool of a server that speaks MCP.
    Mcp,
    /// Is only declared: an eval says what its calls bring.
    Mock,
}

impl ToolKind {
    /// The kind as it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Docs => "docs",
            Self::Http => "http",
            Self::Question => "question",
            Self::Results => "results",
            Self::Command => "command",
            Self::Files => "files",
            Self::Run => "run",
            Self::Mcp => "mcp",
            Self::Mock => "mock",
        }
    }
}

/// What a tool takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterConfig {
    /// Its type. Default: `string`.
    #[serde(default = "string", rename = "type")]
    #[schemars(extend("enum" = ["string", "integer", "number", "boolean", "array"]), with = "String")]
    pub(crate) kind: ArgType,
    /// What it means. The model reads it.
    #[serde(default)]
    pub(crate) description: String,
    /// Values that show the form that is expected, for example `HAR-LT-014`.
    #[serde(default)]
    pub(crate) examples: Vec<Value>,
    /// Whether it must be given. Default: false; what is not given is NULL in a query.
    #[serde(default)]
    pub(crate) required: bool,
    /// What it is where it is not given.
    pub(crate) default: Option<Value>,
    /// The values allowed.
    #[serde(default, rename = "enum")]
    pub(crate) one_of: Option<Vec<Value>>,
    /// The smallest number allowed.
    pub(crate) minimum: Option<Number>,
    /// The largest number allowed.
    pub(crate) maximum: Option<Number>,
    /// The fewest characters of a text.
    pub(crate) min_length: Option<u32>,
    /// The most characters of a text.
    pub(crate) max_length: Option<u32>,
    /// A regular expression that a text has to match, for example `^INV-[0-9]+$`. The model reads it, and the offline stub
    /// recognises names by it.
    pub(crate) pattern: Option<String>,
    /// For an array: the fewest elements.
    pub(crate) min_items: Option<u32>,
    /// For an array: the most elements.
    pub(crate) max_items: Option<u32>,
    /// For an array: what each element is.
    pub(crate) items: Option<Box<ParameterConfig>>,
}

impl ParameterConfig {
    /// The parameter as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!(self.kind));
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                schema.insert(key.to_owned(), value);
            }
        };
        put("description", (!self.description.is_empty()).then(|| json!(self.description)));
        put("examples", (!self.examples.is_empty()).then(|| json!(self.examples)));
        put("default", self.default.clone());
        put("enum", self.one_of.clone().map(Value::Array));
        put("minimum", self.minimum.clone().map(Value::from));
        put("maximum", self.maximum.clone().map(Value::from));
        put("minLength", self.min_length.map(Value::from));
        put("maxLength", self.max_length.map(Value::from));
        put("minItems", self.min_items.map(Value::from));
        put("maxItems", self.max_items.map(Value::from));
        put("pattern", self.pattern.clone().map(Value::from));
        put("items", self.items.as_deref().map(Self::schema));
        Value::Object(schema)
    }
}

fn yes() -> bool {
    true
}

fn string() -> ArgType {
    ArgType::String
}

fn effect_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "enum": ["read", "write_idempotent", "write_keyed", "write_irreversible", "egress", "exec"],
    })
}
