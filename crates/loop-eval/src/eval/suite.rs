//! Suites: many cases that run in parallel.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt;
use loop_core::types::Tier;

use crate::case::{Case, CaseError, find, reasons};
use crate::eval::build::{Domains, PreparedCase};
use crate::eval::calibration::StatedByModel;
use crate::eval::configuration::RunOptions;
use crate::eval::content::case_digest;
use crate::eval::drive::{DrivenRun, drive};
use crate::eval::expect;
use crate::eval::result::{ActionCounts, CaseResult};
use crate::eval::transcript::transcript;
use crate::eval::verify::verify;
use crate::trace;

/// Cases in the order in which they are reported.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// The cases.
    pub cases: Vec<Case>,
}

impl Suite {
    /// Reads the cases in files and folders ([`find`]), each file once.
    ///
    /// # Errors
    /// A folder has no case. Or files are invalid: the error has a line for each file that cannot be read, is not a
    /// case, or has the case id of another file in its folder.
    pub fn read(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self, CaseError> {
        let mut files: Vec<PathBuf> = Vec::new();
        for path in paths {
            for file in find(path.as_ref())? {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        let (mut cases, mut errors) = (Vec::<Case>::new(), Vec::new());
        for file in &files {
            let case = match Case::read(file) {
                Ok(case) => case,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let is_same = |other: &&Case| other.case_id == case.case_id && other.folder() == case.folder();
            if let Some(other) = cases.iter().find(is_same) {
                let message = format!("{} has the same; give each case a name of its own", other.shown());
                errors.push(case.error("/case_id", message));
            }
            cases.push(case);
        }
        match CaseError::all(errors) {
            Some(error) => Err(error),
            None => Ok(Self { cases }),
        }
    }

    /// The suite with only the cases whose id or file path contains this text.
    #[must_use]
    pub fn filter(mut self, text: &str) -> Self {
        self.cases.retain(|case| case.case_id.contains(text) || case.shown().contains(text));
        self
    }

    /// Runs all cases, at most `jobs` at a time, and returns the results in the suite's order. `done` is called with
    /// each result as its run ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use loop_eval::{case::Case, eval::Suite};
    ///
    /// let case = Case::parse(
    ///     r#"{
    ///       "case_id": "asks_once",
    ///       "goal": "When does the shop open?",
    ///       "replies": [{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }],
    ///       "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" } }] },
    ///       "expected": { "stop_reason": "completed", "answer": { "contains": ["nine"] } }
    ///     }"#,
    ///     "asks_once.json",
    /// )?;
    /// let results = Suite { cases: vec![case] }.run(4, |_| {}).await;
    /// assert!(results[0].passed, "{:?}", results[0].failures);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, jobs: usize, mut done: impl FnMut(&CaseResult)) -> Vec<CaseResult> {
        let domains: Arc<Domains> = Arc::default();
        let runs = self.cases.iter().cloned().map(|case| {
            let (domains, name) = (Arc::clone(&domains), (case.case_id.clone(), case.origin.clone()));
            let run = async move {
                match prepare(&case, &domains, &RunOptions::default()) {
                    Ok(prepared) => run_prepared(&case, prepared).await,
                    Err(failed) => *failed,
                }
            };
            (name, run)
        });
        let broken = |(case_id, file): (String, _), error| CaseResult::failed(&case_id, file, error);
        let mut each = |result: &CaseResult| {
            done(result);
            true
        };
        in_parallel(runs, jobs, broken, &mut each).await
    }
}

/// Runs everything, at most `jobs` at a time, and returns the results in the order of the runs. `done` is called with
/// each result as its run ends, and returns whether to continue.
pub(crate) async fn in_parallel<N, F>(
    runs: impl Iterator<Item = (N, F)>,
    jobs: usize,
    broken: impl Fn(N, String) -> CaseResult,
    done: &mut impl FnMut(&CaseResult) -> bool,
) -> Vec<CaseResult>
where
    F: Future<Output = CaseResult> + Send + 'static,
{
    let broken = &broken;
    let runs = runs.enumerate().map(|(at, (name, run))| async move {
        // A task of its own: another thread, and a panic that ends this case alone.
        let result = tokio::spawn(run).await;
        (at, result.unwrap_or_else(|error| broken(name, format!("the run broke down: {error}"))))
    });
    let mut runs = futures::stream::iter(runs).buffer_unordered(jobs.max(1));
    let mut results: Vec<(usize, CaseResult)> = Vec::new();
    while let Some((at, result)) = runs.next().await {
        let goes_on = done(&result);
        results.push((at, result));
        if !goes_on {
            break;
        }
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs a case and compares the run with its expectations.
///
/// A case that cannot be run has the reason as [`error`](CaseResult::error).
pub async fn run_case(case: &Case) -> CaseResult {
    match prepare(case, &Domains::default(), &RunOptions::default()) {
        Ok(prepared) => run_prepared(case, prepared).await,
        Err(failed) => *failed,
    }
}

/// The case, ready to run, or the result of a case that cannot be run.
pub(crate) fn prepare(
    case: &Case,
    domains: &Domains,
    options: &RunOptions,
) -> Result<PreparedCase, Box<CaseResult>> {
    PreparedCase::new(case, domains, options)
        .map_err(|error| Box::new(CaseResult::failed(&case.case_id, case.origin.clone(), error.to_string())))
}

/// Drives a case that is ready, and compares the run with its expectations.
pub(crate) async fn run_prepared(case: &Case, prepared: PreparedCase) -> CaseResult {
    let failed = |error: String| CaseResult::failed(&case.case_id, case.origin.clone(), error);
    let (beyond, spec, against) =
        (prepared.beyond.clone(), Arc::clone(prepared.runner.spec()), prepared.against);
    let DrivenRun { recorded, outcome, undone } = match drive(case, prepared).await {
        Ok(driven) => driven,
        Err(error) => return failed(format!("{}: {error}", case.shown())),
    };
    let lines = trace::lines(&recorded.entries, recorded.spec.protocol.errors());
    let mut failures = expect::failures(&case.expected, &outcome, &lines);
    failures.extend(beyond.lines());
    failures.extend(undone);
    let replayed = match verify(&recorded) {
        Ok(run) => {
            let same = run.outcome() == Some(&outcome);
            if !same {
                failures.push("the replay of its journal comes to another outcome".to_owned());
            }
            same
        }
        Err(error) => {
            failures.push(format!("the replay of its journal fails: {error}"));
            false
        }
    };
    let (stop, totals) = (&outcome.stop, &outcome.totals);
    let wanted = &case.expected.stop_reason;
    CaseResult {
        case_id: case.case_id.clone(),
        case_digest: case_digest(case).to_string(),
        configuration: String::new(),
        repeat: 0,
        stored: false,
        against,
        domain: spec.domain.to_string(),
        file: case.origin.clone(),
        passed: failures.is_empty(),
        failures,
        error: None,
        run: outcome.run.to_string(),
        stop_reason: stop.name().to_owned(),
        class: stop.class.name().to_owned(),
        also: stop.also.iter().map(|condition| stop.name_of(condition).to_owned()).collect(),
        expected: wanted
            .0
            .iter()
            .flat_map(|name| reasons(name))
            .map(|reason| reason.name().to_owned())
            .collect(),
        expected_class: case.expected.class.clone(),
        correct_reason: (!wanted.is_empty()).then(|| expect::is_expected(&case.expected, stop.reason())),
        stated: StatedByModel::of(case, &spec, &outcome),
        replayed,
        actions: ActionCounts::of(&recorded.entries),
        passes: totals.passes,
        model_calls: totals.model_calls,
        tool_calls: totals.tool_calls,
        tokens: totals.usage.total(),
        cost_usd: totals.cost.total().map(|cost| cost.as_usd()),
        cost_pico_usd: totals.cost.known.0,
        wall_ms: totals.wall_ms,
        trace: lines,
        by_fallback: outcome.passes.iter().any(|pass| pass.tier == Tier::Fallback),
        transcript: transcript(&recorded.entries, &outcome),
    }
}
