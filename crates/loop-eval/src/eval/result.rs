//! The result of one run of a case.

use std::path::PathBuf;

use loop_core::gate::DeniedBy;
use loop_core::{Note, StopReason, Verdict};
use loop_runtime::journal::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::eval::calibration::StatedByModel;
use crate::eval::transcript::TranscriptLine;

/// The result of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseResult {
    /// The case's id.
    pub case_id: String,
    /// The digest of the case without its model: a baseline compares only cases that are the same.
    #[serde(default)]
    pub case_digest: String,
    /// The name of the configuration: the models that replace those of the case. Absent: the case has its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configuration: String,
    /// Which of its repeats it is, from 1. Absent: the case was run once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeat: u32,
    /// Whether the result was stored by an earlier command, so that no model was called. Absent: it was not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stored: bool,
    /// Against what a recorded run was run: `domain`, the domain in which the case lies, or `frozen`, the recorded spec and
    /// tools. Absent: the case is not a recorded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// The domain's name. Absent: the case could not be run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// The file of the case.
    pub file: PathBuf,
    /// Whether it met all its expectations.
    pub passed: bool,
    /// The expectations that it did not meet, one line each. Empty if it passed.
    pub failures: Vec<String>,
    /// Why it could not be run, as one line with its place. `None`: it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run's id.
    pub run: String,
    /// Why it stopped.
    pub stop_reason: String,
    /// The class of the stop.
    pub class: String,
    /// The other reasons that were true.
    pub also: Vec<String>,
    /// The expected stop reasons. Empty: the case expects none.
    pub expected: Vec<String>,
    /// The expected class. `None`: the case expects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_class: Option<String>,
    /// Whether the stop reason is an expected one. `None`: the case expects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct_reason: Option<bool>,
    /// The confidence that the run's model stated last. Absent: none that counts for a calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<StatedByModel>,
    /// Whether a replay reproduces the run's journal exactly.
    pub replayed: bool,
    /// The requested actions, by verdict.
    pub actions: ActionCounts,
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Model calls of every kind.
    pub model_calls: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// All tokens, input and output.
    pub tokens: u64,
    /// Cost in US dollars. `None`: the price of some call is unknown.
    pub cost_usd: Option<f64>,
    /// Cost in pico-dollars of the calls with a known price.
    pub cost_pico_usd: u64,
    /// Milliseconds from start to end, by the run's own clock. Of a stored result they are those of the run that was stored.
    pub wall_ms: u64,
    /// The run as trace events, one line each.
    pub trace: Vec<String>,
    /// Whether the model of the tier `fallback` answered in it.
    #[serde(skip)]
    pub by_fallback: bool,
    /// What was said, from the work item to the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcript: Vec<TranscriptLine>,
}

/// Against what a recorded run is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The domain in whose folder the case lies, as it is now.
    Domain,
    /// The spec and the tools that were recorded.
    Frozen,
}

impl Against {
    /// Its name in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::Frozen => "frozen",
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Requested actions, counted by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionCounts {
    /// All requested actions.
    pub proposed: u32,
    /// Those that could not run: unknown tools, invalid arguments, denials by policy.
    pub invalid: u32,
    /// Those refused as repeats.
    pub repeated: u32,
    /// Those that needed a person.
    pub requested: u32,
}

impl CaseResult {
    /// A case that could not be run.
    pub(crate) fn failed(case_id: &str, file: PathBuf, error: String) -> Self {
        Self {
            case_id: case_id.to_owned(),
            file,
            failures: vec![error.clone()],
            error: Some(error),
            ..Self::default()
        }
    }

    /// The case's name, with the configuration and the repeat if there are several.
    pub fn name(&self) -> String {
        let mut name = self.shown_id();
        if !self.configuration.is_empty() {
            name.push_str(&format!(" [{}]", self.configuration));
        }
        if self.repeat > 0 {
            name.push_str(&format!(" #{}", self.repeat));
        }
        name
    }

    /// The case's id. For a recorded run, also whether it ran against the domain or the recording.
    pub fn shown_id(&self) -> String {
        let against = self.against.map_or_else(String::new, |against| format!(" ({})", against.name()));
        format!("{}{against}", self.case_id)
    }

    /// Whether it ended needing a person to continue.
    pub fn escalated(&self) -> bool {
        self.stop_reason == StopReason::NeedsHuman.name()
    }
}

impl ActionCounts {
    /// Counts the first verdict on each action. Later answers of people do not change it.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let (mut counts, mut seen) = (Self::default(), std::collections::BTreeSet::new());
        for note in entries.iter().flat_map(|entry| &entry.notes) {
            let Note::ActionJudged(judged) = note else { continue };
            if !seen.insert(judged.key) {
                continue;
            }
            counts.proposed += 1;
            match judged.verdict {
                Verdict::Denied { by: DeniedBy::Repeat, .. } => counts.repeated += 1,
                Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } | Verdict::Denied { .. } => {
                    counts.invalid += 1;
                }
                Verdict::Duplicate { .. } => counts.repeated += 1,
                Verdict::NeedsPerson { .. } => counts.requested += 1,
                Verdict::Run
                | Verdict::Kept
                | Verdict::Skipped
                | Verdict::OverLimit { .. }
                | Verdict::BreakerOpen { .. }
                | Verdict::OneAtATime
                | Verdict::Ended { .. } => {}
            }
        }
        counts
    }
}
