//! The form of a case.

use std::path::{Path, PathBuf};

use loop_core::{FinishReason, ItemForm, RunSpec, StopMode};
use loop_llm::ScriptedReply;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::case::{CASE_VERSION, CaseError, Expected, MockedOutcome, Ordered, check};

/// A case of an eval: what is run, with which model and tools, and what is expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The version of this format: 1. Default: 1.
    #[serde(default = "version")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Its name in reports, for example `shipping_lookup_repeated_failure`.
    pub case_id: String,
    /// What it shows, in a sentence or two.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shows: String,
    /// What it covers, for example rows of requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
    /// The goal. Without a work item it is the work as well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// The folder of a domain, from the folder of the case. Without it and without `spec` the preset `step` is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// A profile of the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// In place of a domain: what would stand in its `loopgate.toml`, as JSON. Its tools are mocked and need no `kind`, and
    /// `version` and `name` may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Map<String, Value>>,
    /// In place of a domain: the spec of a run that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<CaseRecording>,
    /// Settings over the domain's or the spec's own, by dotted keys such as `limits.passes`.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub set: Ordered<Value>,
    /// The work item: a file, from the folder of the case, or the item itself as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "item_schema")]
    pub item: Option<Value>,
    /// The work item as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the model replies, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "replies_schema")]
    pub replies: Option<Vec<ScriptedReply>>,
    /// What the model replies once its replies are used up, each time. Default: nothing, the call fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "reply_schema")]
    pub exhausted: Option<ScriptedReply>,
    /// A file with what the model replies, as `--model base=scripted/FILE` takes it, from the folder of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The model in place of replies: `domain` for the domain's own, `offline` for the stub, or `PROVIDER/NAME`. A file
    /// that a provider names (`recorded/FILE`, `scripted/FILE`) is looked for from the folder of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models of single tiers, `selector`, `escalated` or `fallback`, as `PROVIDER/NAME`; needs `model` or `script`.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub models: Ordered<String>,
    /// What the calls of tools bring, by tool. Of a domain, tools that are not named here and only look are run as they
    /// are; those that change something never are, and say that they were done.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub mocked_tools: Ordered<Vec<MockedOutcome>>,
    /// What people answer when the run asks them. Without any nobody can be asked, unless the domain says that somebody can;
    /// a question that no line is for is answered by nobody, and is denied at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<PersonLine>,
    /// When the run is stopped by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopAt>,
    /// The driver is lost after the gate of this pass, and the run is taken up again from its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub restart_after_pass: Option<u32>,
    /// It is work as the domain has it from day to day: `loopgate redteam` runs it as well, and counts what the guards hold
    /// up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_work: bool,
    /// What is expected.
    pub expected: Expected,
    /// Where it came from: a file's path. It is no part of the form.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// What a recorded run was run by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseRecording {
    /// The spec, as the journal holds it.
    #[schemars(with = "Map<String, Value>")]
    pub spec: RunSpec,
    /// What each tool declared, as the journal holds it.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub tools: Vec<Value>,
    /// Whom and what the work item concerns.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub scope: Map<String, Value>,
    /// The work item's short form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compact: String,
    /// What such an item is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How its model is shown it: `data`, between marks, or `message`, as what the user says. Default: `data`.
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

/// What a person answers to one question of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PersonLine {
    /// The tool whose action it answers. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What is said. Default: `approve`.
    pub say: AnswerKind,
    /// Why it is denied, or the answer to a question.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What a person says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// It may run, once.
    #[default]
    Approve,
    /// It may not.
    Deny,
    /// The answer to a question.
    Answer,
    /// Nothing: the run waits as long as `limits.person_ms` says.
    Nothing,
}

/// When and how a run is stopped by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAt {
    /// The pass whose call has just begun.
    #[schemars(range(min = 1))]
    pub during_pass: u32,
    /// `at_gate`: nothing new is started. `now`: what is in flight is cut off. Default: `at_gate`.
    #[serde(default = "at_gate")]
    #[schemars(extend("enum" = ["at_gate", "now"]), with = "String")]
    pub how: StopMode,
}

impl Case {
    /// The case that `text` holds; `origin` is its file, from whose folder the paths in it begin.
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
    /// It is no JSON of this form, of another version, or contradicts itself.
    pub fn parse(text: &str, origin: impl AsRef<Path>) -> Result<Self, CaseError> {
        let shown = origin.as_ref().display().to_string();
        let mut case: Self = serde_json::from_str(text).map_err(|error| not_a_case(&shown, text, &error))?;
        case.origin = origin.as_ref().to_owned();
        check::check(&case, &shown)?;
        Ok(case)
    }

    /// The case in a file.
    ///
    /// # Errors
    /// The file cannot be read, or what [`parse`](Self::parse) says.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CaseError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| CaseError::Unreadable {
            path: path.to_owned(),
            message: format!("cannot be read: {error}; name a file with a case, or a folder that holds some"),
        })?;
        Self::parse(&text, path)
    }

    /// The folder from which the paths in it begin.
    pub fn folder(&self) -> &Path {
        match self.origin.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Where it came from, for messages.
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
    let message = message.split(" at line ").next().unwrap_or_default().replace("struct ", "an object of ");
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
            "for": { "description": "The kind of call that it waits for. Default: any.", "enum": ["select", "main", "repair", "filter"] },
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
