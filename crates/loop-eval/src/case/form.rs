//! The JSON format of a case, and how it is parsed.

use std::path::{Path, PathBuf};

use loop_core::RunSpec;
use loop_core::reply::FinishReason;
use loop_core::run::StopMode;
use loop_core::types::ItemForm;
use loop_llm::scripted::ScriptedReply;
use loop_tools::files;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::case::{CASE_VERSION, CaseError, Expected, MockedOutcome, OrderedMembers, check};

/// A case of an eval: what is run, with which model and tools, and what is expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object with `case_id` and what is run")]
pub struct Case {
    /// The version of this format: 1. Default: 1.
    #[serde(default = "version")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Its name in reports, for example `shipping_lookup_repeated_failure`.
    pub case_id: String,
    /// What the case shows, in one or two sentences.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shows: String,
    /// What the case covers, for example rows of requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
    /// The goal. If there is no work item, the goal is the work item.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// The folder of a domain, relative to the folder of the case. Without it and without `spec`, the preset `step`
    /// is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// A profile of the domain. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Instead of a domain: the content of a `loopgate.toml`, as JSON. Its tools are mocked and need no `kind`, and
    /// `version` and `name` may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Map<String, Value>>,
    /// Instead of a domain: a recorded run. If the case lies in the folder of the run's domain, it is run against that domain
    /// as it is now, unless `frozen` is set there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<CaseRecording>,
    /// Settings that replace those of the domain or the spec, by dotted paths such as `limits.passes`.
    #[serde(default, skip_serializing_if = "OrderedMembers::is_empty")]
    pub set: OrderedMembers<Value>,
    /// The work item: a file, relative to the folder of the case, or the item itself as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "item_schema")]
    pub item: Option<Value>,
    /// The work item as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The model's replies, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "replies_schema")]
    pub replies: Option<Vec<ScriptedReply>>,
    /// The reply that the model gives each time after its replies are used up. Default: none, and the call fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "reply_schema")]
    pub exhausted: Option<ScriptedReply>,
    /// A file with the model's replies, as `--model base=scripted/FILE` takes it, relative to the folder of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A model instead of replies: `domain` for the domain's own, `offline` for the stub, or `PROVIDER/NAME`. A file
    /// that a provider names (`recorded/FILE`, `scripted/FILE`) is relative to the folder of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models of single tiers, `selector`, `escalated` or `fallback`, as `PROVIDER/NAME`; needs `model` or `script`.
    #[serde(default, skip_serializing_if = "OrderedMembers::is_empty")]
    pub models: OrderedMembers<String>,
    /// What calls of tools return, by tool. A domain's tools that are not named here run if they only read. Those
    /// that change something never run, and report success.
    #[serde(default, skip_serializing_if = "OrderedMembers::is_empty")]
    pub mocked_tools: OrderedMembers<Vec<MockedOutcome>>,
    /// The answers of people, in order. Without any, there is no approver unless the domain says so. A request
    /// without a matching answer is denied at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<PersonLine>,
    /// When the run is stopped by hand. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopAt>,
    /// The pass after whose gate the driver ends and the run is resumed from its journal. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub restart_after_pass: Option<u32>,
    /// Whether the case is the domain's everyday work. `loopgate redteam` runs such cases too, and counts what its
    /// guards prevent. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_work: bool,
    /// What is expected of the run.
    pub expected: Expected,
    /// The file that the case was read from. Not part of the format.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// What a recorded run was run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object with what was recorded")]
pub struct CaseRecording {
    /// Whether the case is run against the recorded spec and tools, wherever it lies. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// The settings that were given for the run in place of the domain's, by dotted paths, and `profile`.
    #[serde(default, skip_serializing_if = "OrderedMembers::is_empty")]
    pub overridden: OrderedMembers<String>,
    /// The spec, as the journal holds it.
    #[schemars(with = "Map<String, Value>")]
    pub spec: RunSpec,
    /// The declaration of each tool, as the journal holds it.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub tools: Vec<Value>,
    /// Whom and what the work item concerns.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub scope: Map<String, Value>,
    /// The work item's short form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compact: String,
    /// The word for such an item, for example `ticket`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How the model is shown the item: `data`, between delimiters, or `message`, as the user's own message. Default:
    /// `data`.
    #[serde(default, skip_serializing_if = "is_data")]
    #[schemars(extend("enum" = ["data", "message"]), with = "String")]
    pub form: ItemForm,
    /// The work item's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The work item's title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

fn is_data(form: &ItemForm) -> bool {
    *form == ItemForm::Data
}

/// The answer of a person to one request of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"tool\": \"NAME\", \"say\": \"approve\" }`")]
pub struct PersonLine {
    /// The tool whose action it answers. Default: any tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The answer. Default: `approve`.
    pub say: AnswerKind,
    /// The reason of a denial, or the answer to a question. Default: empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// The kind of a person's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The action may run, once.
    #[default]
    Approve,
    /// The action may not run.
    Deny,
    /// The answer to a question.
    Answer,
    /// No answer: the run waits as long as `limits.person_ms` says.
    Nothing,
}

/// When and how a run is stopped by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object such as `{ \"during_pass\": 2, \"how\": \"at_gate\" }`")]
pub struct StopAt {
    /// The pass, from 1, during whose model call the stop is requested.
    #[schemars(range(min = 1))]
    pub during_pass: u32,
    /// `at_gate`: nothing new is started. `now`: everything in flight is cancelled. Default: `at_gate`.
    #[serde(default = "at_gate")]
    #[schemars(extend("enum" = ["at_gate", "now"]), with = "String")]
    pub how: StopMode,
}

impl Case {
    /// Parses a case from `text`. `origin` is its file. Paths in the case are relative to the folder of that file.
    ///
    /// ```
    /// let text = r#"{
    ///   "case_id": "shipping_lookup_repeated_failure",
    ///   "goal": "Find out whether an order arrived late.",
    ///   "mocked_tools": { "shipping.lookup": [
    ///     { "status": "retryable_error", "reason": "upstream_timeout" },
    ///     { "status": "retryable_error", "reason": "upstream_timeout" }
    ///   ] },
    ///   "expected": { "stop_reason": "needs_human", "max_tool_calls": 2 }
    /// }"#;
    /// let case = loop_eval::case::Case::parse(text, "shipping.json")?;
    /// assert_eq!(case.case_id, "shipping_lookup_repeated_failure");
    /// # Ok::<(), loop_eval::case::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// The text is not JSON of this form, has another version, or contradicts itself.
    pub fn parse(text: &str, origin: impl AsRef<Path>) -> Result<Self, CaseError> {
        let shown = origin.as_ref().display().to_string();
        let mut case: Self = serde_json::from_str(text).map_err(|error| not_a_case(&shown, text, &error))?;
        case.origin = origin.as_ref().to_owned();
        check::check(&case, &shown)?;
        Ok(case)
    }

    /// Reads the case in a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`parse`](Self::parse).
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CaseError> {
        let path = path.as_ref();
        let text = files::text(path, files::MAX_BYTES).map_err(|error| CaseError::Unreadable {
            path: path.to_owned(),
            message: format!("cannot be read: {error}; name a file with a case, or a folder that holds some"),
        })?;
        Self::parse(&text, path)
    }

    /// The folder that paths in the case are relative to.
    pub fn folder(&self) -> &Path {
        match self.origin.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// The file of the case, for messages.
    pub fn shown(&self) -> String {
        if self.origin.as_os_str().is_empty() {
            self.case_id.clone()
        } else {
            self.origin.display().to_string()
        }
    }

    pub(crate) fn error(&self, pointer: impl Into<String>, message: impl std::fmt::Display) -> CaseError {
        CaseError::invalid(&self.shown(), pointer, message)
    }
}

fn not_a_case(origin: &str, text: &str, error: &serde_json::Error) -> CaseError {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default().to_owned();
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let before = line.as_bytes().get(..error.column());
    let column = before.map_or(error.column(), |before| String::from_utf8_lossy(before).chars().count());
    CaseError::NotACase {
        origin: origin.to_owned(),
        line: error.line().max(1),
        column: column.max(1),
        message,
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn version() -> u32 {
    CASE_VERSION
}

fn at_gate() -> StopMode {
    StopMode::AtGate
}

fn item_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The work item: a file, from the folder of the case, or the item itself as an object.",
        "anyOf": [{ "type": "string" }, { "type": "object" }],
    })
}

fn replies_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What the model replies, in order.",
        "type": "array",
        "items": reply_schema(generator),
    })
}

/// The members of a scripted reply.
fn reply_schema(generator: &mut SchemaGenerator) -> Schema {
    let finish = [
        FinishReason::EndTurn,
        FinishReason::ToolUse,
        FinishReason::MaxTokens,
        FinishReason::Capped,
        FinishReason::Refusal,
        FinishReason::Filtered,
        FinishReason::Other,
    ];
    let finish: Vec<Value> = finish.iter().filter_map(|finish| serde_json::to_value(finish).ok()).collect();
    let usage = generator.subschema_for::<Map<String, Value>>();
    json_schema!({
        "description": "What the model replies.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "for": { "description": "The kind of call that it waits for. Default: any.", "enum": ["select", "main", "repair", "filter", "opinion"] },
            "text": { "description": "What it says; `{{nonce}}` in it becomes the run's own.", "type": "string" },
            "calls": {
                "description": "The tools that it calls, in order.",
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["name"],
                    "properties": {
                        "id": { "description": "The call's id. Default: one of its own.", "type": "string" },
                        "name": { "description": "The tool's name.", "type": "string" },
                        "arguments": { "description": "An object, or a text that is sent as it stands. Default: an empty object.", "type": ["object", "string"] },
                    },
                },
            },
            "reasoning": { "description": "What it reasons before it says anything.", "type": "string" },
            "raw": { "description": "The provider's own turn, of any form." },
            "finish": { "description": "Why it ends. Default: `tool_use` with calls, else `end_turn`.", "enum": finish },
            "usage": { "description": "Tokens as reported. Default: a quarter of the bytes.", "allOf": [usage] },
            "no_usage": { "description": "Whether nothing is said of tokens. Default: false.", "type": "boolean" },
            "fails": { "description": "It fails after its text and calls, with this message.", "type": "string" },
            "delay_ms": { "description": "Milliseconds before it begins. Default: 0.", "type": "integer", "minimum": 0 },
        },
    })
}
