//! The request and response types of the API.

use std::collections::BTreeMap;

use loop_runtime::journal::label::Label;
use loop_runtime::report::{Sections, TotalsReport};
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A request for a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The domain's name. Default: the only one that is served.
    #[serde(default)]
    pub domain: Option<String>,
    /// The work item: an object as the domain describes it, or a text in Markdown.
    #[serde(deserialize_with = "item_text")]
    #[schemars(with = "SubmittedItem")]
    pub item: String,
    /// A higher one begins first; of equal ones the one that was accepted first does. From -100 to 100. Default: 0.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = -100, max = 100))]
    pub priority: i32,
    /// Settings in place of the domain's, as dotted keys: those that the domain lets a caller give. A limit can only be
    /// lowered. Default: none.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Tags of the run, by which runs are listed. Default: none.
    #[serde(default)]
    #[schemars(inner(length(min = 1, max = 200), regex(pattern = r"\S")))]
    pub tags: Vec<String>,
}

/// A request to continue a run from an earlier place, as a run of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The number of the entry after which the fork begins; the `id` of an event is that of its entry. Default: the last
    /// one where nothing is in flight.
    #[serde(default)]
    pub entry: Option<u64>,
    /// Settings in place of those of the run, as for a submission. With others, a fork begins where a model call comes
    /// next. Default: none.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

/// A request to do the work of a run again, with what it found.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Settings in place of those of the run, as for a submission. Default: none.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
}

/// An integer in any notation: JSON Schema counts `5.0` as one.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let number = f64::deserialize(deserializer)?;
    let whole = number as i32;
    match f64::from(whole) == number {
        true => Ok(whole),
        false => Err(D::Error::custom(format!("{number} is not a whole number that is allowed here"))),
    }
}

/// The text of a work item for the domain to parse. An object keeps its original text.
fn item_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let item = Box::<RawValue>::deserialize(deserializer)?;
    match item.get().as_bytes().first() {
        Some(b'{') => Ok(String::from(Box::<str>::from(item))),
        Some(b'"') => serde_json::from_str(item.get()).map_err(D::Error::custom),
        _ => Err(D::Error::custom("expected a text or an object")),
    }
}

/// A work item as a caller gives it.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub enum SubmittedItem {
    /// A text in Markdown.
    Text(#[schemars(regex(pattern = r"\S"))] String),
    /// An object as the domain describes it.
    Object(Map<String, Value>),
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// `gate`: nothing new is started, and it stops when everything in flight has settled. `now`: what is in flight is
    /// cancelled. Default: `gate`.
    #[serde(default)]
    pub mode: StopWhen,
}

/// What a run that has ended was worth.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequest {
    /// `good` or `bad`.
    pub label: Label,
    /// Why. Default: no reason is given.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    pub note: String,
}

/// When a run stops.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopWhen {
    /// At its next gate.
    #[default]
    Gate,
    /// At once.
    Now,
}

/// An instruction to a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstructRequest {
    /// The instruction. The next pass reads it.
    #[schemars(regex(pattern = r"\S"))]
    pub text: String,
}

/// An approval of an action that waits.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// The action's key, as `GET /v1/pending` has it in `action`.
    pub key: String,
    /// What was shown: the `binding` of the action there. The approval counts for nothing else.
    pub binding: String,
}

/// A denial of an action that waits.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// The action's key, as `GET /v1/pending` has it in `action`.
    pub key: String,
    /// What was shown: the `binding` of the action there.
    pub binding: String,
    /// Why not. The model reads it. Default: that a person refused it.
    #[serde(default)]
    #[schemars(regex(pattern = r"\S"))]
    pub why: Option<String>,
}

/// An answer to a question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// The action's key, as `GET /v1/pending` has it in `action`.
    pub key: String,
    /// What was shown: the `binding` of the action there.
    pub binding: String,
    /// The answer.
    #[schemars(regex(pattern = r"\S"))]
    pub text: String,
}

/// What waits for people.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PendingList {
    /// The actions.
    pub pending: Vec<crate::engine::PendingAction>,
}

/// The document of a run, as far as it has come.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DocumentView {
    /// The run.
    pub run: String,
    /// Whether the run has ended, so that the document does not change any more.
    pub ended: bool,
    /// The document as Markdown; of a conversation the answer.
    pub markdown: String,
    /// The sections with their evidence. Null while the run has not ended.
    pub document: Option<Sections>,
    /// Usage and cost. Null while the run has not ended.
    pub totals: Option<TotalsReport>,
}

/// The domains that are served.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DomainList {
    /// The domains that the caller sees.
    pub domains: Vec<DomainView>,
}

/// A domain that is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DomainView {
    /// Its name.
    pub name: String,
    /// What its runs are for.
    pub goal: String,
    /// The word for a work item, for example `ticket`.
    pub kind: String,
    /// The settings that a caller may give, as dotted keys, each by its own name. Empty: none.
    pub caller_may_set: Vec<String>,
    /// How many runs have not begun.
    pub queued: u64,
    /// How many runs are under way here.
    pub running: u64,
    /// How many runs wait for a person.
    pub waiting: u64,
    /// How many runs do not continue until the operator has done something.
    pub interrupted: u64,
    /// How many runs are left to a server of another version.
    pub other_version: u64,
}

/// The messages of hooks that are not delivered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OutboxList {
    /// The messages, oldest first.
    pub messages: Vec<OutboxMessage>,
}

/// A message of a hook that is not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutboxMessage {
    /// Its id.
    pub id: String,
    /// The run.
    pub run: String,
    /// The hook's name.
    pub hook: String,
    /// What happened to the run.
    pub event: String,
    /// When it happened, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// How many deliveries failed.
    pub failures: u32,
    /// When it is due again, in milliseconds since 1970 (UTC). Null: it has failed too often.
    pub next_unix_ms: Option<u64>,
}

/// Whether the server is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HealthView {
    /// `ok`, or `ending`.
    pub status: String,
}
