//! Policy settings of a spec: the tool's own, and those of the gate for repeats, denials, failures and taint.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::{Lease, Status, is_default};

/// What policy knows of a tool in addition to its effect. The tool's declaration or the domain's `[tools.NAME]` sets
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPolicy {
    /// Whether its output is private: it must not leave without approval. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub reads_private: bool,
    /// Whether its output is untrusted, such as a page, a mail or a comment. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub returns_untrusted: bool,
    /// JSON pointers to the parts of its data that the tool's own system writes, such as ids and addresses, where
    /// `returns_untrusted` is set. `*` matches every entry. Their values may say whom an effect reaches, and the run is
    /// tainted nonetheless. Empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted_fields: Vec<Arc<str>>,
    /// JSON pointers to the parameters that say whom or what an effect reaches: a recipient, a path, an amount, a
    /// command. Each value must come from an authorised source: the work item, policy or a trusted tool's output. If
    /// not, the call needs approval. Empty: no parameter is checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authority: Vec<Arc<str>>,
    /// Whether its call is a question to a person, whose answer is its result. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub asks_person: bool,
    /// Whether a call in vain costs nothing worth counting, so that a read may start before its reply is complete. It
    /// has no effect on a tool that does more than read, or that may ask a model. Default `false`.
    #[serde(skip_serializing_if = "is_default")]
    pub cheap: bool,
    /// The tool's own settings for repeats.
    #[serde(skip_serializing_if = "is_default")]
    pub repeats: ToolRepeats,
    /// The most that a call may use, if it is a run of its own. It gets less where the caller has less left, and its
    /// result gives no authority: a model wrote it. `None`: the tool is not a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

/// How repeats of one tool are judged. The word `"allowed"` sets [`allowed`](Self::allowed) alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = or_allowed))]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct ToolRepeats {
    /// How often it runs within the scope of repeats, whatever its parameters. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// JSON pointers to parts of its data that change in every call, such as times: results that differ only there are the
    /// same. `*` matches every entry. Default: fields whose names say that they are a request's time or id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<Arc<str>>,
    /// The parameters that tell its calls apart; in a program, JSON pointers to them. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<Arc<str>>,
    /// The parameter that holds a search text: near-duplicate texts count as the same, if the other parameters are equal.
    /// Default: none, only equal ones do.
    #[serde(rename = "search", skip_serializing_if = "Option::is_none")]
    pub query: Option<Arc<str>>,
    /// How often it is polled, without a model call, while it answers that it is not ready. Default: 20.
    #[serde(skip_serializing_if = "is_twenty")]
    pub polls: u32,
    /// Whether a keyed or irreversible write that ran may run again in this run with the same arguments. Default: false, a
    /// person is asked before it does, under every policy of repeats.
    #[serde(skip_serializing_if = "is_default")]
    pub allowed: bool,
}

/// The word that is written in place of the table.
const ALLOWED: &str = "allowed";

impl Serialize for ToolRepeats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The name is that of the derived function for the table.
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ToolRepeats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrTable;
        impl<'de> Visitor<'de> for WordOrTable {
            type Value = ToolRepeats;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`\"allowed\"` or a table")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ToolRepeats, E> {
                match word {
                    ALLOWED => Ok(ToolRepeats { allowed: true, ..ToolRepeats::default() }),
                    word => Err(E::unknown_variant(word, &[ALLOWED])),
                }
            }

            // By hand, so that an error in the table is about its key.
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ToolRepeats, A::Error> {
                ToolRepeats::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(WordOrTable)
    }
}

/// The word in place of the table, for editors.
#[cfg(feature = "schema")]
fn or_allowed(schema: &mut schemars::Schema) {
    let table = std::mem::take(schema);
    *schema = schemars::json_schema!({
        "anyOf": [
            {
                "const": ALLOWED,
                "description": "A keyed or irreversible write runs again with the same arguments, without approval.",
            },
            table,
        ],
    });
}

impl Default for ToolRepeats {
    fn default() -> Self {
        Self {
            max_calls: None,
            volatile: Vec::new(),
            key: Vec::new(),
            query: None,
            polls: 20,
            allowed: false,
        }
    }
}

fn is_twenty(n: &u32) -> bool {
    *n == 20
}

/// How a repeated call is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// It is refused as a repeat, unless it is a retry of a call that failed in a retryable way.
    NeverRerun,
    /// By its results: it is refused when it has returned the same result twice with no write between, when it failed
    /// permanently, or when it continues a cycle. A call that returns something new may continue.
    Progress,
    /// Three tiers: a limit for each tool, the same parameters, a near-duplicate search text.
    ThreeTier,
    /// It is not run, and its earlier result is returned, as long as that was a success, no write ran since, and the
    /// attempt is the same.
    Reuse,
    /// It runs again.
    Off,
}

impl Repeats {
    /// The setting's value in a domain file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How far back a repeat counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = with_turn))]
#[serde(rename_all = "snake_case")]
pub enum RepeatScope {
    /// The whole run. A turn of a conversation is a run of its own.
    #[default]
    // A value that the requirements name (C6), not a second name for a setting.
    #[serde(alias = "turn")]
    Run,
    /// One attempt at an output.
    Attempt,
    /// One pass.
    Step,
}

/// The other name of the scope `run`, for editors.
#[cfg(feature = "schema")]
fn with_turn(schema: &mut schemars::Schema) {
    if let Some(serde_json::Value::Array(choices)) = schema.get_mut("oneOf") {
        choices.push(serde_json::json!({ "const": "turn", "description": "The same as `run`." }));
    }
}

impl RepeatScope {
    /// The setting's value in a domain file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The tool result that the model reads for a call that is refused as a repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// The reason, and the pass of the earlier result.
    #[default]
    SkipMessage,
    /// The earlier result again, marked with its pass.
    ReplayCached,
    /// A denial, which counts for the breaker of denials.
    Deny,
}

/// The numbers of the repeat policy `three_tier`. Limits that tools set themselves apply as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ThreeTier {
    /// How often each of these tools runs within the scope, by name. Default: 2 for `composio_execute`, `search_knowledge`,
    /// `semantic_search`, `search_codebase`, `smart_query_database`, `query_database`, `write_file` and `list_directory`, 3
    /// for `read_file`.
    pub limits: BTreeMap<Arc<str>, u32>,
    /// How often any other tool runs within the scope. Default: 3.
    pub other: u32,
    /// Similarity from which two search texts are near-duplicates, from 0 to 1, kept in thousandths. Default: 0.75.
    #[serde(rename = "similar", with = "thousandths")]
    #[cfg_attr(feature = "schema", schemars(with = "f64", range(min = 0, max = 1)))]
    pub similar_millis: u32,
    /// Tools whose search texts are compared. Default: those with a limit of 2 that search.
    pub search: Vec<Arc<str>>,
    /// Parameters that may hold a search text; the first that a call has counts. Default: `query`, `search_query`, `q`,
    /// `question`, `search`, `text`.
    pub query: Vec<Arc<str>>,
    /// Words that mark a search text as one about an action, such as `delete`. Default: twenty of them.
    pub dangerous: Vec<Arc<str>>,
    /// Whether such words are removed before comparing, which makes different actions near-duplicates. Default: false, two
    /// texts with such words are near-duplicates only if they hold the same ones.
    #[serde(skip_serializing_if = "is_default")]
    pub literal: bool,
}

/// A likeness from 0 to 1, in thousandths.
mod thousandths {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(millis: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(*millis) / 1_000.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let likeness = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&likeness) {
            let message = format!("a likeness is a number from 0 to 1, and this is {likeness}; write 0.75");
            return Err(de::Error::custom(message));
        }
        Ok((likeness * 1_000.0).round() as u32)
    }
}

impl Default for ThreeTier {
    fn default() -> Self {
        let names = |names: &str| names.split_whitespace().map(Arc::from).collect::<Vec<Arc<str>>>();
        let twice = names(SEARCH).into_iter().chain(names("composio_execute write_file list_directory"));
        let mut limits: BTreeMap<_, _> = twice.map(|name| (name, 2)).collect();
        limits.insert("read_file".into(), 3);
        Self {
            limits,
            other: 3,
            similar_millis: 750,
            search: names(SEARCH),
            query: names("query search_query q question search text"),
            dangerous: names(DANGEROUS),
            literal: false,
        }
    }
}

/// Tools that search, by name.
const SEARCH: &str = "search_knowledge semantic_search search_codebase smart_query_database query_database";
/// Words of a search text that is about an action.
const DANGEROUS: &str = "delete remove drop disable enable deactivate activate revoke grant reset \
    cancel refund terminate destroy purge wipe lock unlock block unblock";

/// When a result carries a note that it repeats something, not under `three_tier` and `off`; 0 for never. A note refuses
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RepeatNotes {
    /// Failures of one tool in a row, with any parameters and nothing changed between, from which on each carries a note.
    /// Default: 3.
    pub failures: u32,
    /// Equal results of a call, or equal failures of a tool, in a row and with nothing changed between, from which on each
    /// carries a note. Default: 2.
    pub same: u32,
    /// Searches in different words with the same result and nothing changed between, from which on each carries a note.
    /// Default: 3.
    pub searches: u32,
}

impl Default for RepeatNotes {
    fn default() -> Self {
        Self { failures: 3, same: 2, searches: 3 }
    }
}

impl RepeatNotes {
    /// No notes.
    pub const OFF: Self = Self { failures: 0, same: 0, searches: 0 };
}

/// What follows a call that policy denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// The model reads it as a tool result and continues. A circuit breaker ends repetitions.
    #[default]
    FeedBack,
    /// The run ends as refused.
    Stop,
}

/// What follows a tool that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnToolError {
    /// The model reads the failure as a tool result and continues.
    #[default]
    Continue,
    /// The run ends with `tool_failure`.
    Stop,
    /// After this many failures in a row of one tool a person has to continue.
    EscalateAfter(u32),
    /// A permanent failure ends the run with `tool_failure`. After this many retryable failures in a row of one tool a
    /// person has to continue.
    StopOrEscalateAfter(u32),
}

impl OnToolError {
    /// Whether this status of a tool ends the run at once.
    pub fn stops_at(self, status: Status) -> bool {
        match self {
            Self::Continue | Self::EscalateAfter(_) => false,
            Self::Stop => status.is_failure(),
            Self::StopOrEscalateAfter(_) => status.is_permanent(),
        }
    }

    /// The setting's value in a domain file, for example `stop` or `{ escalate_after = 2 }`.
    pub fn written(self) -> String {
        match self {
            Self::Continue => "continue".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::EscalateAfter(times) => format!("{{ escalate_after = {times} }}"),
            Self::StopOrEscalateAfter(times) => format!("{{ stop_or_escalate_after = {times} }}"),
        }
    }

    /// The setting that [`written`](Self::written) writes like this. `None`: none does.
    pub fn of_written(text: &str) -> Option<Self> {
        let times = text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default();
        let all = [Self::Continue, Self::Stop, Self::EscalateAfter(times), Self::StopOrEscalateAfter(times)];
        all.into_iter().find(|setting| setting.written() == text)
    }

    /// After how many failures in a row of one tool a person has to continue.
    pub fn escalates_after(self) -> Option<u32> {
        match self {
            Self::Continue | Self::Stop => None,
            Self::EscalateAfter(max) | Self::StopOrEscalateAfter(max) => Some(max.max(1)),
        }
    }
}

/// What follows an invalid reply: an unknown tool, invalid arguments, a blank answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnInvalid {
    /// The model reads it as a tool result and continues. A circuit breaker ends repetitions.
    #[default]
    FeedBack,
    /// The run ends as refused.
    Stop,
}

/// How a tool's name is resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolve {
    /// Exactly, or by an alias that the tool declares.
    #[default]
    Alias,
    /// Exactly.
    Strict,
    /// Also by a part of the name: at least four characters, exactly one match, and only for reads.
    FuzzyUnique,
}

/// Whether the taint of a run restricts its effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaintRule {
    /// After untrusted text was read, an effect needs an approval even if `gate.approved` names the tool. After private
    /// data was read as well, data leaves only with an approval.
    #[default]
    Ask,
    /// Taint has no effect.
    Off,
}

/// After how many failures in a row a circuit breaker opens; 0 for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Breakers {
    /// Failures of one tool in a row, after which it does not run any more in this run. Default: 3.
    pub tool_failures: u32,
    /// Calls in a row that policy denied, after which a person has to continue. Default: 3.
    pub denied: u32,
    /// Calls in a row with an unknown tool or with parameters that do not fit, after which a person has to continue.
    /// Default: 5.
    pub bad_arguments: u32,
}

impl Default for Breakers {
    fn default() -> Self {
        Self { tool_failures: 3, denied: 3, bad_arguments: 5 }
    }
}
