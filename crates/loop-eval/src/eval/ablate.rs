//! What each guard does: the cases are run again with one guard less each time.

use std::sync::Arc;

use serde::Serialize;

use crate::eval::guards::GUARDS;
use crate::eval::result::CaseResult;
use crate::eval::suite::Suite;

/// What each guard did in a suite, and what changes without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablation {
    /// How many cases were run.
    pub cases: u32,
    /// The cases that could not be run. Empty if all could.
    pub broken: Vec<Broken>,
    /// One line for each guard.
    pub guards: Vec<GuardLine>,
}

/// A case that could not be run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Broken {
    /// The case's id.
    pub case_id: String,
    /// The reason, as one line with its place.
    pub error: String,
}

/// A guard, how many times it fired, and what changes without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardLine {
    /// The guard's name.
    pub guard: String,
    /// What it does, in half a sentence.
    pub does: String,
    /// How many times it fired, over all cases.
    pub fired: u32,
    /// In how many cases it fired.
    pub fired_in: u32,
    /// The cases that end differently without it. Empty if there are none.
    pub changed: Vec<Changed>,
}

/// A case that ends differently without a guard.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The case's id.
    pub case_id: String,
    /// Whether it still meets its expectations.
    pub passes: bool,
    /// The stop reason, with the guard and without it.
    pub stop_reason: (String, String),
    /// Passes, with the guard and without it.
    pub passes_run: (u32, u32),
    /// Tool calls, with the guard and without it.
    pub tool_calls: (u32, u32),
    /// Model calls, with the guard and without it.
    pub model_calls: (u32, u32),
    /// Cost in pico-dollars, with the guard and without it.
    pub cost_pico_usd: (u64, u64),
}

/// Runs a suite with all guards and then with one less each time, at most `jobs` cases at a time. `done` hears the name of
/// each guard whose turn is over.
///
/// Cases that cannot be run at all are [`broken`](Ablation::broken), and part of no other number.
pub async fn ablate(suite: &Suite, jobs: usize, mut done: impl FnMut(&str)) -> Ablation {
    let domains = Arc::default();
    let whole = suite.run_without(None, &domains, jobs, |_| {}).await;
    let mut guards = Vec::new();
    for guard in &GUARDS {
        let without = suite.run_without(Some(guard), &domains, jobs, |_| {}).await;
        let pairs = || whole.iter().zip(&without).filter(|(with, _)| with.error.is_none());
        let fired: Vec<u32> =
            pairs().map(|(with, _)| guard.fired(&with.entries)).filter(|n| *n > 0).collect();
        guards.push(GuardLine {
            guard: guard.name.to_owned(),
            does: guard.does.to_owned(),
            fired: fired.iter().sum(),
            fired_in: fired.len() as u32,
            changed: pairs().filter_map(|(with, without)| changed(with, without)).collect(),
        });
        done(guard.name);
    }
    let broken: Vec<Broken> = whole
        .iter()
        .filter_map(|result| Some(Broken { case_id: result.case_id.clone(), error: result.error.clone()? }))
        .collect();
    Ablation { cases: (whole.len() - broken.len()) as u32, broken, guards }
}

/// What is different; nothing where nothing is.
fn changed(with: &CaseResult, without: &CaseResult) -> Option<Changed> {
    let both = |of: fn(&CaseResult) -> u32| (of(with), of(without));
    let reason = |result: &CaseResult| match &result.error {
        None => result.stop_reason.clone(),
        Some(error) => error.clone(),
    };
    let changed = Changed {
        case_id: with.case_id.clone(),
        passes: without.passed,
        stop_reason: (reason(with), reason(without)),
        passes_run: both(|result| result.passes),
        tool_calls: both(|result| result.tool_calls),
        model_calls: both(|result| result.model_calls),
        cost_pico_usd: (with.cost_pico_usd, without.cost_pico_usd),
    };
    let is_same = changed.stop_reason.0 == changed.stop_reason.1
        && changed.passes_run.0 == changed.passes_run.1
        && changed.tool_calls.0 == changed.tool_calls.1
        && changed.model_calls.0 == changed.model_calls.1
        && changed.cost_pico_usd.0 == changed.cost_pico_usd.1
        && with.passed == without.passed;
    (!is_same).then_some(changed)
}
