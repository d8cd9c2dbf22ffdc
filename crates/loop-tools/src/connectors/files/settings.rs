//! What a files tool is made from, and the parameters that each kind of work has.

use std::path::PathBuf;

use loop_core::types::Effect;
use serde_json::{Map, Value, json};

use crate::connectors::error::ConnectorError;

/// The most bytes that are returned or written, unless the settings give another number.
pub const FILES_BYTES_MAX: usize = 262_144;
/// The most files or matches that are returned, unless the settings give another number.
pub const FILES_RESULTS_MAX: usize = 200;

/// The settings of a files tool.
#[derive(Clone, Debug)]
pub struct FilesSettings {
    /// The folder. It must exist when the tool is made, and nothing outside of it is reached.
    pub folder: PathBuf,
    /// What the tool does.
    pub work: FilesWork,
    /// Globs of the files that there are, for example `*.md`. One without `/` is of the name alone. Empty: all files.
    pub include: Vec<String>,
    /// The most bytes that are returned; for writing, the most of a whole file.
    pub max_bytes: usize,
    /// The most files or matches that are returned.
    pub max_results: usize,
}

/// What a files tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesWork {
    /// Lists files with sizes and times.
    List,
    /// Returns lines of one file.
    Read,
    /// Finds lines by a text or a regular expression.
    Search,
    /// Creates or replaces one file.
    Write,
    /// Replaces one text in one file.
    Patch,
}

impl FilesSettings {
    /// The settings for this work on all files of `folder`.
    pub fn new(folder: impl Into<PathBuf>, work: FilesWork) -> Self {
        Self {
            folder: folder.into(),
            work,
            include: Vec::new(),
            max_bytes: FILES_BYTES_MAX,
            max_results: FILES_RESULTS_MAX,
        }
    }
}

impl FilesWork {
    /// The work as it is written, for example `list`.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Search => "search",
            Self::Write => "write",
            Self::Patch => "patch",
        }
    }

    /// Whether the work changes files.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Patch)
    }

    /// The JSON Schema of the parameters.
    pub fn schema(self) -> Value {
        let path = |what: &str| json!({ "type": "string", "description": what, "minLength": 1 });
        let glob = json!({
            "type": "string",
            "description": "Only files that this glob matches, for example `*.md` or `src/**/*.rs`",
        });
        let below = path("A folder or a file below the folder. Default: all of it");
        let (properties, required) = match self {
            Self::List => (json!({ "path": below, "glob": glob }), json!([])),
            Self::Read => (
                json!({
                    "path": path("The path of the file, as a list or a search shows it"),
                    "from": { "type": "integer", "description": "The first line. Default: 1", "minimum": 1 },
                    "to": { "type": "integer", "description": "The last line. Default: the last one", "minimum": 1 },
                }),
                json!(["path"]),
            ),
            Self::Search => (
                json!({
                    "pattern": {
                        "type": "string", "minLength": 1,
                        "description": "What to look for in each line: a text, or with `regex` a regular expression",
                    },
                    "regex": { "type": "boolean", "description": "Whether the pattern is a regular expression. Default: false" },
                    "ignore_case": { "type": "boolean", "description": "Whether case does not matter. Default: false" },
                    "path": below,
                    "glob": glob,
                }),
                json!(["pattern"]),
            ),
            Self::Write => (
                json!({
                    "path": path("The path of the file, in a folder that is there"),
                    "content": { "type": "string", "description": "The whole content of the file" },
                }),
                json!(["path", "content"]),
            ),
            Self::Patch => (
                json!({
                    "path": path("The path of the file"),
                    "old": {
                        "type": "string", "minLength": 1,
                        "description": "The text to replace, exactly as it is in the file. It must be there once",
                    },
                    "new": { "type": "string", "description": "The text in its place" },
                }),
                json!(["path", "old", "new"]),
            ),
        };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    /// Refuses an effect that is not that of the work.
    pub(crate) fn check_effect(self, effect: Option<Effect>) -> Result<(), ConnectorError> {
        let wrong = |right: &str| {
            let effect = effect.map_or("none", Effect::name);
            let name = self.name();
            let message =
                format!("`{name}` does not have the effect `{effect}`; write `effect = \"{right}\"`");
            Err(ConnectorError::Setting { key: "do", message })
        };
        let is_write = |effect: Effect| {
            matches!(effect, Effect::WriteIdempotent | Effect::WriteKeyed | Effect::WriteIrreversible)
        };
        match (effect, self.writes()) {
            // The registry says that it is missing.
            (None, _) | (Some(Effect::Read), false) => Ok(()),
            (Some(effect), true) if is_write(effect) => Ok(()),
            (Some(_), true) => wrong("write_idempotent"),
            (Some(_), false) => wrong("read"),
        }
    }

    /// Refuses parameters that are not those of the work, except for `target`.
    pub(crate) fn check_schema(self, schema: &Value, target: Option<&str>) -> Result<(), ConnectorError> {
        let wrong = |message: String| Err(ConnectorError::Setting { key: "parameters", message });
        let own = self.schema();
        let (known, declared) = (properties(&own), properties(schema));
        let name = self.name();
        for (parameter, given) in declared {
            let Some(own) = known.get(parameter) else {
                if Some(parameter.as_str()) == target {
                    continue;
                }
                let names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
                return wrong(format!(
                    "`{name}` has no parameter `{parameter}`; it has {}",
                    names.join(", ")
                ));
            };
            let kind = own.get("type").and_then(Value::as_str).unwrap_or_default();
            if given.get("type").and_then(Value::as_str) != Some(kind) {
                return wrong(format!(
                    "the parameter `{parameter}` of `{name}` is of the type `{kind}`; correct it"
                ));
            }
        }
        let required = |schema: &Value| -> Vec<String> {
            let all = schema.get("required").and_then(Value::as_array);
            all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let given = required(schema);
        match required(&own).into_iter().find(|parameter| !given.contains(parameter)) {
            None => Ok(()),
            Some(parameter) => wrong(format!(
                "`{name}` needs the parameter `{parameter}`; declare it with `required = true`, or declare none"
            )),
        }
    }
}

fn properties(schema: &Value) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
}
