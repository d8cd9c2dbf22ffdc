//! What a case came to.

use std::path::PathBuf;

use loop_core::{DeniedBy, Note, StopReason, Verdict};
use loop_runtime::journal::Entry;
use serde::Serialize;

/// What a case came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CaseResult {
    /// The case's name.
    pub case_id: String,
    /// The file that it stands in.
    pub file: PathBuf,
    /// Whether all was as expected.
    pub passed: bool,
    /// What was not, a line each.
    pub failures: Vec<String>,
    /// Why it could not be run at all: one line with its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run's name.
    pub run: String,
    /// Why it stopped.
    pub stop_reason: String,
    /// The class of the stop.
    pub class: String,
    /// The other reasons that were true.
    pub also: Vec<String>,
    /// The reasons that were expected; none where the case does not say.
    pub expected: Vec<String>,
    /// The class that was expected, where the case says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_class: Option<String>,
    /// Whether the reason is an expected one; `None` where the case does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct_reason: Option<bool>,
    /// Whether the run's journal comes out again as it was written down.
    pub replayed: bool,
    /// What was asked for, by what was decided.
    pub actions: ActionCounts,
    /// Main calls whose reply was read.
    pub passes: u32,
    /// Calls to models.
    pub model_calls: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub tokens: u64,
    /// US dollars; `None` while the price of any call is unknown.
    pub cost_usd: Option<f64>,
    /// Pico-dollars of the calls whose price is known.
    pub cost_pico_usd: u64,
    /// Milliseconds from start to end, by the clock on the wall.
    pub wall_ms: u64,
    /// The run, line by line (S4-87).
    pub trace: Vec<String>,
    /// The entries of the journal.
    #[serde(skip)]
    pub(crate) entries: Vec<Entry>,
}

/// Actions by what was decided about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ActionCounts {
    /// All that were asked for.
    pub proposed: u32,
    /// Those that nothing could be done with: unknown tools, arguments that do not fit, what policy denied.
    pub invalid: u32,
    /// Those that were refused as repeats.
    pub repeated: u32,
    /// Those that a person was needed for.
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

    /// Whether it ended with a person having to go on.
    pub fn escalated(&self) -> bool {
        self.stop_reason == StopReason::NeedsHuman.name()
    }
}

impl ActionCounts {
    /// The first verdict on each action: what a person said to it later is another matter.
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
