//! Plans: which effects a run intends, as slots that later calls fit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The name of the call with which a model plans, and of the member of a document's contract block.
pub const PLAN: &str = "plan";

/// An intended effect. A call that fits it needs no approval because of taint. Every other rule of policy applies to it
/// as to any call.
// The keys of `[[plan]]` in a domain file: editors and the reference show these comments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanSlot {
    /// The tool's own name. A tool that only reads is named to say that private data is read as planned.
    pub tool: Arc<str>,
    /// Parameters whose values the call must have, by name. A day without its year, such as `05-15`, fits that day of any
    /// year. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fixed: BTreeMap<Arc<str>, Value>,
    /// The other parameters that the call may have, by name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Vec<Arc<str>>>,
    /// How many calls fit: a number, or `each` for one call to each addressee, as its tool's `authority` says whom it
    /// reaches. Default: 1.
    #[serde(default, skip_serializing_if = "PlanCount::is_one")]
    pub count: PlanCount,
}

/// How many calls a slot of a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanCount {
    /// So many calls.
    Times(u32),
    /// One call for each addressee.
    Each,
}

/// The word for [`PlanCount::Each`].
const EACH: &str = "each";

impl Default for PlanCount {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl PlanCount {
    fn is_one(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for PlanCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}"),
            Self::Each => f.write_str(EACH),
        }
    }
}

impl fmt::Display for PlanSlot {
    /// For example `send_mail(to = "ann@acme.example"), 1 call`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, fixed, open, count } = self;
        let mut parts: Vec<String> = fixed.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        match open {
            None => parts.push("…".to_owned()),
            Some(open) => parts.extend(open.iter().map(ToString::to_string)),
        }
        let count = match count {
            PlanCount::Times(1) => "1 call".to_owned(),
            PlanCount::Times(times) => format!("{times} calls"),
            PlanCount::Each => "a call for each addressee".to_owned(),
        };
        write!(f, "{tool}({}), {count}", parts.join(", "))
    }
}

impl Serialize for PlanCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(times) => serializer.serialize_u32(*times),
            Self::Each => serializer.serialize_str(EACH),
        }
    }
}

impl<'de> Deserialize<'de> for PlanCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrWord;
        impl Visitor<'_> for NumberOrWord {
            type Value = PlanCount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1, or `each`")
            }

            fn visit_u64<E: de::Error>(self, times: u64) -> Result<PlanCount, E> {
                match u32::try_from(times) {
                    Ok(times) if times > 0 => Ok(PlanCount::Times(times)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(times), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, times: i64) -> Result<PlanCount, E> {
                match u64::try_from(times) {
                    Ok(times) => self.visit_u64(times),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(times), &self)),
                }
            }

            // Models write numbers as texts too.
            fn visit_str<E: de::Error>(self, word: &str) -> Result<PlanCount, E> {
                match word.parse::<u64>() {
                    _ if word == EACH => Ok(PlanCount::Each),
                    Ok(times) => self.visit_u64(times),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(NumberOrWord)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PlanCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PlanCount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": EACH }] })
    }
}
