//! Trials: cases run with several models, several times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loop_core::StopReason;
use loop_core::spec::ErrorStyle;
use loop_core::types::Tier;

use crate::case::Case;
use crate::eval::build::{Domains, PreparedCase};
use crate::eval::configuration::{Configuration, ConfigurationError, RunOptions};
use crate::eval::content::{Folders, RunContent};
use crate::eval::result::CaseResult;
use crate::eval::store::ResultStore;
use crate::eval::suite::{Suite, in_parallel, prepare, run_prepared};

/// How cases are run: with which models, how often, and how many at a time.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The models, one configuration after the other.
    pub configurations: Vec<Configuration>,
    /// How often each case is run with each configuration. 0 is 1.
    pub repeat: u32,
    /// How many runs are under way at a time. 0 is 1.
    pub jobs: usize,
    /// Options that apply to all runs.
    pub options: RunOptions,
    /// Where results are stored. `None`: nowhere.
    pub store: Option<ResultStore>,
}

/// The results of [`Suite::trials`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialResults {
    /// One for each run: by configuration, in it by case, in it by repeat.
    pub results: Vec<CaseResult>,
    /// How many results could not be stored. They are complete, but their runs are repeated the next time.
    pub not_stored: u32,
}

impl Suite {
    /// Runs each case with each configuration, as often as `repeat` says. If a result is stored for exactly this run
    /// (domain, case, models, settings and repeat), it is used instead. The order of the results does not depend on
    /// which run ends first. `done` is called with each result as its run ends.
    ///
    /// # Errors
    /// Before any run: a configuration replaces models and no case can be run with them, for example because a key is
    /// missing, or a case is a recorded run, which has no domain whose models could be replaced. During the runs: a
    /// provider refused a key, after which no other run begins.
    pub async fn trials(
        &self,
        trials: &Trials,
        mut done: impl FnMut(&CaseResult),
    ) -> Result<TrialResults, ConfigurationError> {
        let replaces = trials.configurations.iter().any(|configuration| !configuration.models.is_empty())
            || !trials.options.set.is_empty()
            || trials.options.profile.is_some();
        if let Some(case) = self.cases.iter().find(|case| replaces && case.recorded.is_some()) {
            return Err(ConfigurationError::Recorded { case: case.shown() });
        }
        let shared = Arc::new(TrialEnv {
            domains: Domains::default(),
            folders: Arc::default(),
            options: trials.options.clone(),
            store: trials.store.clone(),
            not_stored: AtomicU32::new(0),
        });
        for configuration in &trials.configurations {
            self.is_usable(configuration, &shared)?;
        }
        let repeats = trials.repeat.max(1);
        let mut runs = Vec::new();
        for configuration in &trials.configurations {
            for case in &self.cases {
                let case = Arc::new(configuration.applied(case));
                for repeat in 1..=repeats {
                    let label = RunLabel {
                        case_id: case.case_id.clone(),
                        file: case.origin.clone(),
                        // Of what there is only one, nothing is said.
                        configuration: match configuration.models.as_slice() {
                            [] => String::new(),
                            _ => configuration.name.clone(),
                        },
                        repeat: if repeats > 1 { repeat } else { 0 },
                    };
                    let (case, shared, own) = (Arc::clone(&case), Arc::clone(&shared), label.clone());
                    runs.push((label, async move { own.on(shared.result(&case, repeat).await) }));
                }
            }
        }
        let broken = |label: RunLabel, error| {
            let failed = CaseResult::failed(&label.case_id, label.file.clone(), error);
            label.on(failed)
        };
        let mut refused = None;
        let mut each = |result: &CaseResult| {
            done(result);
            let is_key = result.trace.iter().any(|line| line.ends_with(":error:auth"));
            let why = result.error.clone().filter(|_| is_key && !result.configuration.is_empty());
            refused = why.map(|message| (result.configuration.clone(), message));
            refused.is_none()
        };
        let results = in_parallel(runs.into_iter(), trials.jobs, broken, &mut each).await;
        if let Some((configuration, message)) = refused {
            return Err(ConfigurationError::Refused { configuration, message });
        }
        Ok(TrialResults { results, not_stored: shared.not_stored.load(Ordering::Relaxed) })
    }

    /// Checks that at least one case can be run with the models of a configuration.
    fn is_usable(&self, configuration: &Configuration, shared: &TrialEnv) -> Result<(), ConfigurationError> {
        let mut first = None;
        for case in &self.cases {
            match prepare(&configuration.applied(case), &shared.domains, &shared.options) {
                Ok(_) => return Ok(()),
                Err(failed) => first = first.or(failed.error),
            }
        }
        let RunOptions { profile, set, .. } = &shared.options;
        let option = match configuration.models.is_empty() {
            true if profile.is_none() && set.is_empty() => return Ok(()),
            true => "--set, --profile",
            false => "--model",
        };
        let configuration = configuration.name.clone();
        first.map_or(Ok(()), |message| Err(ConfigurationError::Unusable { option, configuration, message }))
    }
}

/// The configuration, the case and the repeat of one run.
#[derive(Clone)]
struct RunLabel {
    case_id: String,
    file: std::path::PathBuf,
    configuration: String,
    repeat: u32,
}

impl RunLabel {
    fn on(self, mut result: CaseResult) -> CaseResult {
        (result.case_id, result.file) = (self.case_id, self.file);
        (result.configuration, result.repeat) = (self.configuration, self.repeat);
        result
    }
}

/// What all runs share.
struct TrialEnv {
    domains: Domains,
    folders: Arc<Folders>,
    options: RunOptions,
    store: Option<ResultStore>,
    not_stored: AtomicU32,
}

impl TrialEnv {
    async fn result(&self, case: &Case, repeat: u32) -> CaseResult {
        let prepared = match prepare(case, &self.domains, &self.options) {
            Ok(prepared) => prepared,
            Err(failed) => return *failed,
        };
        let key = self.store.as_ref().and_then(|_| self.content(case, &prepared, repeat).key(&self.folders));
        if let Some(stored) = self.store.as_ref().zip(key).and_then(|(store, key)| store.get(key)) {
            return CaseResult { stored: true, ..stored };
        }
        let result = without_model(case, run_prepared(case, prepared).await);
        if let Some(store) = &self.store
            && is_lasting(&result)
            && key.is_none_or(|key| store.put(key, &result).is_err())
        {
            self.not_stored.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn content<'a>(&self, case: &'a Case, prepared: &'a PreparedCase, repeat: u32) -> RunContent<'a> {
        let urls = self.options.base_urls.iter();
        let base_urls = urls.map(|(tier, url)| format!("{}={url}", tier.name())).collect();
        RunContent { case, made: prepared.made.clone(), searched: &prepared.searched, base_urls, repeat }
    }
}

/// The result as one that could not be run, if the model of the command was unavailable. A failure to reach it says
/// nothing about its quality, and neither do replies of a fallback model.
fn without_model(case: &Case, mut result: CaseResult) -> CaseResult {
    let is_named = case.model.as_ref().is_some_and(|model| model.contains('/'));
    let is_other = result.by_fallback && case.models.get(Tier::Fallback.name()).is_none();
    let is_failed = !result.passed && stopped_for(&result, StopReason::ModelFailure);
    if is_named && result.error.is_none() && (is_other || is_failed) {
        let end = result.transcript.last().map(|line| line.text.clone()).unwrap_or_default();
        let why = if is_other { "the domain's fallback model answered in its place".to_owned() } else { end };
        result.passed = false;
        result.failures.insert(0, why.clone());
        result.error = Some(why);
    }
    result
}

/// Whether the result is worth storing. If a provider could not be reached or a case could not be run, it is tried
/// again the next time.
fn is_lasting(result: &CaseResult) -> bool {
    let passing = [StopReason::ModelFailure, StopReason::StorageFailed];
    result.error.is_none() && !passing.into_iter().any(|reason| stopped_for(result, reason))
}

fn stopped_for(result: &CaseResult, reason: StopReason) -> bool {
    [reason.name(), reason.name_in(ErrorStyle::Tagged)].contains(&result.stop_reason.as_str())
}
