//! A run made ready for any number of policies: what is the same has the same number.

use std::collections::HashMap;

use loop_core::Status;
use loop_core::repeats::stable_digest;
use loop_core::{ToolRepeats, canonical};
use serde_json::Value;

use super::effects::{ActionKind, ToolEffects};
use super::reported;
use super::trajectory::{Step, Trajectory};

/// One call, as policies see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// The message that is being answered.
    pub(super) turn: u64,
    pub(super) tool: &'a str,
    pub(super) arguments: &'a Value,
    /// Calls with the same tool and the same arguments have the same number.
    pub(super) same: u32,
    pub(super) action: ActionKind,
    /// What it returned.
    pub(super) reported: Reported<'a>,
}

/// What a call returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    /// Results that are the same have the same number, failures and successes separately.
    pub(super) same: u32,
    /// The same, without what only says when or under which number a result was given.
    pub(super) stable: u32,
    pub(super) is_error: bool,
    /// How it ended.
    pub(super) status: Status,
    /// Whether a failure is one of which nothing says whether it may pass.
    pub(super) is_of_unknown_kind: bool,
    /// The result, perhaps only its beginning.
    pub(super) result: &'a str,
    /// The digest of the whole.
    pub(super) sha256: &'a str,
    pub(super) is_whole: bool,
}

/// The calls of a run. `effects` says what the run itself does not.
pub(super) fn prepare<'a>(run: &'a Trajectory, effects: &ToolEffects) -> Vec<Call<'a>> {
    let effects = run.effects.clone().or(effects);
    let mut calls = HashMap::new();
    let mut results: HashMap<(bool, &str), u32> = HashMap::new();
    let mut stable_results = HashMap::new();
    let no_rules = ToolRepeats::default();
    let mut numbered = |step: &'a Step| {
        let next = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let same = *calls.entry((&*step.tool, canonical(&step.arguments))).or_insert(next);
        let next = u32::try_from(results.len()).unwrap_or(u32::MAX);
        let reported = *results.entry((step.is_error, &*step.result_sha256)).or_insert(next);
        // Of a result whose beginning alone is known, the whole cannot be read.
        let digest = match step.is_whole {
            true => stable_digest(&step.result, &no_rules).0.to_string(),
            false => step.result_sha256.clone(),
        };
        let stable = *stable_results.entry((step.is_error, digest)).or_insert(reported);
        (same, reported, stable)
    };
    let calls = run.steps.iter().map(|step| {
        let (same, reported, stable) = numbered(step);
        let status = step
            .status
            .unwrap_or_else(|| reported::status(&step.tool, &step.arguments, &step.result, step.is_error));
        Call {
            turn: step.turn,
            tool: &step.tool,
            arguments: &step.arguments,
            same,
            action: effects.action(&step.tool, &step.arguments),
            reported: Reported {
                same: reported,
                stable,
                is_error: step.is_error,
                status,
                is_of_unknown_kind: step.status.is_none() && status == Status::PermanentError,
                result: &step.result,
                sha256: &step.result_sha256,
                is_whole: step.is_whole,
            },
        }
    });
    calls.collect()
}
