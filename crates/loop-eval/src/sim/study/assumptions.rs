//! What a study assumes of models, tools and people. Each assumption is printed, and can be changed by its name.

use schemars::JsonSchema;
use serde::Serialize;

/// An assumption of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SimAssumption {
    /// Its name, for example `done`.
    pub name: String,
    /// Its value.
    pub value: u32,
    /// The unit: `%`, `calls`, `tokens`, `bytes` or `ms`.
    pub unit: String,
    /// What it says.
    pub meaning: String,
}

/// The assumptions of a study, all of them whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumptions {
    values: [u32; COUNT],
}

/// Why an assumption cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumptionError {
    /// No assumption has this name.
    #[error("{0}: not an assumption; they are {all}", all = names())]
    Unknown(String),
    /// The value is not a whole number, or too large.
    #[error("{name} = {value}: expected a whole number from 0 to {max}")]
    Value {
        /// The name.
        name: String,
        /// What was given.
        value: String,
        /// The largest value.
        max: u32,
    },
}

const COUNT: usize = 22;

/// An assumption by its place in [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Of {
    Done,
    DoneMore,
    Calls,
    Repeat,
    Invalid,
    NoContract,
    Refuses,
    ModelFails,
    OutputTokens,
    OutputValid,
    BytesAToken,
    Cached,
    ModelMs,
    ToolFails,
    ToolEmpty,
    ResultBytes,
    ToolMs,
    Approves,
    Silent,
    PersonMs,
    MediumConfidence,
    SubCallTokens,
}

/// Name, default, largest value, unit, meaning.
const TABLE: [(&str, u32, u32, &str, &str); COUNT] = [
    (
        "done",
        20,
        100,
        "%",
        "a pass is the last one that the model needs: it states high confidence, or answers",
    ),
    ("done_more", 20, 100, "%", "added to `done` with each further pass"),
    ("calls", 3, 64, "calls", "a pass that needs more requests 1 to so many tool calls"),
    ("repeat", 5, 100, "%", "a requested call repeats an earlier one"),
    ("invalid", 3, 100, "%", "a requested call names an unknown tool"),
    ("no_contract", 2, 100, "%", "a reply of a document lacks its contract block"),
    ("refuses", 1, 100, "%", "a reply is a refusal"),
    ("model_fails", 2, 100, "%", "a model call fails and may be retried"),
    ("output_tokens", 700, 1_000_000, "tokens", "a reply has half to one and a half times as many"),
    ("output_valid", 85, 100, "%", "an output is valid"),
    ("bytes_a_token", 4, 100, "bytes", "a token of a prompt or a reply has so many"),
    ("cached", 0, 100, "%", "of a prompt's unchanged beginning is read from the provider's cache"),
    ("model_ms", 8_000, 10_000_000, "ms", "a model call takes half to one and a half times as long"),
    ("tool_fails", 5, 100, "%", "a tool call fails and may be retried"),
    ("tool_empty", 10, 100, "%", "a tool call finds nothing"),
    ("result_bytes", 1_500, 10_000_000, "bytes", "a tool result has half to one and a half times as many"),
    ("tool_ms", 900, 10_000_000, "ms", "a tool call takes half to one and a half times as long"),
    ("approves", 80, 100, "%", "a person approves what is requested; else it is denied"),
    ("silent", 10, 100, "%", "a person does not answer in time"),
    ("person_ms", 60_000, 100_000_000, "ms", "a person takes half to one and a half times as long"),
    ("medium", 60, 100, "%", "a pass that is not done states medium confidence; else low"),
    ("sub_call_tokens", 150, 1_000_000, "tokens", "the reply of a smart tool's model call"),
];

impl Default for Assumptions {
    fn default() -> Self {
        Self { values: TABLE.map(|(_, value, ..)| value) }
    }
}

impl Assumptions {
    /// Changes the assumption of this name.
    ///
    /// # Errors
    /// If no assumption has this name, or the value is not one of it.
    pub fn change(&mut self, name: &str, value: &str) -> Result<(), AssumptionError> {
        let rows = self.values.iter_mut().zip(TABLE);
        let mut row = rows.filter(|(_, (known, ..))| *known == name);
        let Some((kept, (_, _, max, ..))) = row.next() else {
            return Err(AssumptionError::Unknown(name.to_owned()));
        };
        let bad = || AssumptionError::Value { name: name.to_owned(), value: value.to_owned(), max };
        *kept = value.trim().parse().ok().filter(|value| *value <= max).ok_or_else(bad)?;
        Ok(())
    }

    /// All of them, in the order in which they are printed.
    pub fn list(&self) -> Vec<SimAssumption> {
        let rows = self.values.iter().zip(TABLE);
        rows.map(|(value, (name, _, _, unit, meaning))| SimAssumption {
            name: name.to_owned(),
            value: *value,
            unit: unit.to_owned(),
            meaning: meaning.to_owned(),
        })
        .collect()
    }

    pub(super) fn get(&self, of: Of) -> u32 {
        self.values.get(of as usize).copied().unwrap_or_default()
    }
}

fn names() -> String {
    TABLE.map(|(name, ..)| name).join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_place_has_its_name() {
        let assumed = Assumptions::default();
        for (of, name) in [(Of::Done, "done"), (Of::Silent, "silent"), (Of::SubCallTokens, "sub_call_tokens")]
        {
            let listed = assumed.list().into_iter().find(|it| it.name == name).map(|it| it.value);
            assert_eq!(listed, Some(assumed.get(of)), "{name}");
        }
        assert_eq!(assumed.get(Of::ResultBytes), 1_500);
    }

    #[test]
    fn a_wrong_assumption_says_what_is_right() {
        let mut assumed = Assumptions::default();
        assert_eq!(
            assumed.change("done", "101").unwrap_err().to_string(),
            "done = 101: expected a whole number from 0 to 100"
        );
        assert!(
            assumed.change("luck", "1").unwrap_err().to_string().contains("they are done, done_more, calls")
        );
        assert_eq!(assumed.change("done", "55"), Ok(()));
        assert_eq!(assumed.get(Of::Done), 55);
    }
}
