//! Calibration: of the runs that stated a confidence, how many passed their checks, by domain, model and level.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use loop_core::spec::MeasuredLevel;
use loop_core::types::{Confidence, Tier};
use loop_core::{Outcome, Run, RunSpec, StopReason};
use loop_domain::calibration::{CalibrationFile, CalibrationRow, CountedLevel};
use loop_runtime::journal::label::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::case::Case;
use crate::eval::result::CaseResult;
use crate::interval::Interval;

/// The levels, the highest first.
const LEVELS: [Confidence; 3] = [Confidence::High, Confidence::Medium, Confidence::Low];

/// The file that a calibration is written to. An earlier file is replaced in one atomic step.
#[derive(Debug)]
pub struct CalibrationTarget {
    path: PathBuf,
    file: NamedTempFile,
}

impl CalibrationTarget {
    /// Opens the file at `path` for writing. Its content stays until [`write`](Self::write).
    ///
    /// # Errors
    /// The path is a folder, or no file can be created next to it.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if path.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".calibration-");
        // It holds counts alone, and other users run the domain.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let file = builder.tempfile_in(folder)?;
        Ok(Self { path, file })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the calibration.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(mut self, file: &CalibrationFile) -> io::Result<()> {
        self.file.write_all(file.to_text().as_bytes())?;
        self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// The confidence that a run's model stated last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatedByModel {
    /// The domain's name.
    pub domain: String,
    /// The model as `PROVIDER/NAME`.
    pub model: String,
    /// `high`, `medium` or `low`.
    pub confidence: String,
}

/// How reliable the stated confidence of models is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Reliability {
    /// One row for each domain and model, by their names.
    pub models: Vec<ReliabilityOfModel>,
    /// Runs that are counted nowhere: they could not be run, their provider failed, no model of theirs stated a level, or their
    /// replies are those of the case.
    pub not_counted: u32,
}

/// How reliable the stated confidence of one model in one domain is.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReliabilityOfModel {
    /// The domain's name.
    pub domain: String,
    /// The model as `PROVIDER/NAME`.
    pub model: String,
    /// Runs that stated a level.
    pub runs: u32,
    /// Those of them that passed.
    pub passed: u32,
    /// The Brier score: the mean square of the difference between the forecast and what happened. 0 is perfect. A level
    /// forecasts the middle of its rates: `high` 90 %, `medium` 65 %, `low` 25 %.
    pub brier: f64,
    /// The Brier score that the pass rate of all these runs would have, forecast for each of them.
    pub brier_of_rate: f64,
    /// The levels, the highest first.
    pub levels: Vec<ReliabilityOfLevel>,
}

/// How many of the runs that stated one level passed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReliabilityOfLevel {
    /// `high`, `medium` or `low`.
    pub stated: String,
    /// Runs that passed.
    pub passed: u32,
    /// Runs that stated it.
    pub runs: u32,
    /// The pass rate. 0 if no run stated it.
    pub rate: f64,
    /// The lower end of its interval (95 %, Wilson).
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The least pass rate of the level.
    pub least: f64,
    /// The level of the pass rate. Absent: too few runs stated it for the level to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

impl StatedByModel {
    /// The confidence that the model of a run stated last. `None`: the replies are those of the case, or no level was
    /// stated.
    pub(crate) fn of(case: &Case, spec: &RunSpec, outcome: &Outcome) -> Option<Self> {
        let is_model =
            case.recorded.is_none() && case.model.as_deref().is_some_and(|model| model != "offline");
        is_model.then(|| Self::of_run(spec, outcome)).flatten()
    }

    /// The confidence that the model of a recorded run stated last. `None`: it was the offline stub, it failed, or no
    /// level was stated.
    fn of_run(spec: &RunSpec, outcome: &Outcome) -> Option<Self> {
        let failed = matches!(outcome.stop.reason(), StopReason::ModelFailure | StopReason::StorageFailed);
        let last = outcome.passes.last().filter(|_| !failed)?;
        // The confidence of a cheaper model counts as unknown.
        if last.confidence == Confidence::Unknown || last.tier == Tier::Selector {
            return None;
        }
        let model = spec.model(last.tier);
        (&*model.provider != "offline").then(|| Self {
            domain: spec.domain.to_string(),
            model: format!("{}/{}", model.provider, model.model),
            confidence: last.confidence.name().to_owned(),
        })
    }
}

impl CaseResult {
    /// A labelled run as a result for [`Reliability::of`]: it passed if the label is good. `None`: the run has not
    /// ended.
    pub fn of_label(run: &Run, label: Label) -> Option<Self> {
        let outcome = run.outcome()?;
        Some(Self {
            case_id: run.id().to_string(),
            domain: run.spec().domain.to_string(),
            passed: label == Label::Good,
            stated: StatedByModel::of_run(run.spec(), outcome),
            ..Self::default()
        })
    }
}

impl Reliability {
    /// The reliability of the stated confidence in these runs.
    pub fn of(results: &[CaseResult]) -> Self {
        let mut rows: BTreeMap<(&str, &str), CalibrationRow> = BTreeMap::new();
        let mut not_counted = 0;
        for result in results {
            let level =
                result.stated.as_ref().and_then(|stated| Some((stated, level_of(&stated.confidence)?)));
            let Some((stated, level)) = level.filter(|_| result.error.is_none()) else {
                not_counted += 1;
                continue;
            };
            let row = rows.entry((&stated.domain, &stated.model)).or_default();
            row.domain.clone_from(&stated.domain);
            row.model.clone_from(&stated.model);
            if let Some(counted) = row.level(level) {
                counted.runs += 1;
                counted.passed += u32::from(result.passed);
            }
        }
        Self { models: rows.into_values().map(|row| ReliabilityOfModel::of(&row)).collect(), not_counted }
    }

    /// The calibration file for `gate.calibration`. `None`: no run was counted.
    pub fn file(&self) -> Option<CalibrationFile> {
        let rows: Vec<CalibrationRow> = self.models.iter().map(ReliabilityOfModel::row).collect();
        (!rows.is_empty()).then(|| CalibrationFile::new(rows))
    }

    /// Warnings about levels with too few runs to change them, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let thin = |one: &ReliabilityOfModel| {
            let levels = one.levels.iter().filter(|level| level.measured.is_none());
            let levels: Vec<String> =
                levels.map(|level| format!("{} ({} runs)", level.stated, level.runs)).collect();
            (!levels.is_empty()).then(|| {
                format!(
                    "{} in {}: too few runs stated {}; a level with fewer than {} counts as it is stated. With {} runs that all \
                     pass the 95 % interval begins above {} %, and with fewer it cannot",
                    one.model,
                    one.domain,
                    levels.join(", "),
                    MeasuredLevel::LEAST_RUNS,
                    MeasuredLevel::LEAST_RUNS,
                    MeasuredLevel::least_per_mille(Confidence::High) / 10,
                )
            })
        };
        self.models.iter().filter_map(thin).collect()
    }
}

impl ReliabilityOfModel {
    fn of(row: &CalibrationRow) -> Self {
        let counted = [row.high, row.medium, row.low];
        let runs: u32 = counted.iter().map(|level| level.runs).sum();
        let passed: u32 = counted.iter().map(|level| level.passed).sum();
        let squares = LEVELS.into_iter().zip(counted).map(|(level, counted)| {
            let forecast = forecast(level);
            let (hits, misses) = (f64::from(counted.passed), f64::from(counted.runs - counted.passed));
            hits * (1.0 - forecast).powi(2) + misses * forecast.powi(2)
        });
        let all = f64::from(runs.max(1));
        let rate = f64::from(passed) / all;
        Self {
            domain: row.domain.clone(),
            model: row.model.clone(),
            runs,
            passed,
            brier: squares.sum::<f64>() / all,
            brier_of_rate: rate * (1.0 - rate),
            levels: LEVELS
                .into_iter()
                .zip(counted)
                .map(|(level, counted)| ReliabilityOfLevel::of(level, counted))
                .collect(),
        }
    }

    fn row(&self) -> CalibrationRow {
        let mut row = CalibrationRow {
            domain: self.domain.clone(),
            model: self.model.clone(),
            ..CalibrationRow::default()
        };
        for level in &self.levels {
            let counted = CountedLevel { passed: level.passed, runs: level.runs };
            if let Some(place) = level_of(&level.stated).and_then(|stated| row.level(stated)) {
                *place = counted;
            }
        }
        row
    }
}

impl ReliabilityOfLevel {
    fn of(level: Confidence, CountedLevel { passed, runs }: CountedLevel) -> Self {
        let Interval { rate, low, high } = Interval::of(passed, runs);
        let counted = MeasuredLevel { passed, runs };
        Self {
            stated: level.name().to_owned(),
            passed,
            runs,
            rate,
            low,
            high,
            least: least(level),
            measured: (!counted.is_thin()).then(|| counted.by_rate().name().to_owned()),
        }
    }
}

/// The least pass rate of a level.
fn least(level: Confidence) -> f64 {
    f64::from(MeasuredLevel::least_per_mille(level)) / 1_000.0
}

/// The pass rate that a level forecasts: the middle of its rates.
fn forecast(level: Confidence) -> f64 {
    let above = match level {
        Confidence::High => 1.0,
        Confidence::Medium => least(Confidence::High),
        Confidence::Low | Confidence::Unknown => least(Confidence::Medium),
    };
    (least(level) + above) / 2.0
}

fn level_of(name: &str) -> Option<Confidence> {
    LEVELS.into_iter().find(|level| level.name() == name)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn results(counts: &[(&str, u32, u32)]) -> Vec<CaseResult> {
        let mut all = Vec::new();
        for (confidence, passed, runs) in counts {
            for n in 0..*runs {
                let stated = StatedByModel {
                    domain: "desk".into(),
                    model: "p/m".into(),
                    confidence: (*confidence).to_owned(),
                };
                all.push(CaseResult { passed: n < *passed, stated: Some(stated), ..CaseResult::default() });
            }
        }
        all
    }

    #[test]
    fn runs_are_counted_by_level_and_the_score_is_that_of_brier() {
        // Issue 19, part 5. 20 highs of which 10 pass, 4 lows of which 1 passes.
        let mut all = results(&[("high", 10, 20), ("low", 1, 4)]);
        all.push(CaseResult { passed: true, ..CaseResult::default() });
        let found = Reliability::of(&all);
        assert_eq!((found.models.len(), found.not_counted), (1, 1));
        let one = &found.models[0];
        assert_eq!((one.runs, one.passed), (24, 11));
        // (10 · 0.1² + 10 · 0.9² + 1 · 0.75² + 3 · 0.25²) / 24
        let expected = (10.0 * 0.01 + 10.0 * 0.81 + 0.5625 + 3.0 * 0.0625) / 24.0;
        assert!((one.brier - expected).abs() < 1e-12, "{}", one.brier);
        assert!((one.brier_of_rate - 11.0 * 13.0 / 576.0).abs() < 1e-12);
        let measured: Vec<_> = one.levels.iter().map(|level| level.measured.as_deref()).collect();
        assert_eq!(measured, [Some("medium"), None, None]);
        let warnings = found.warnings();
        assert!(warnings[0].contains("too few runs stated medium (0 runs), low (4 runs); "), "{warnings:?}");
        // What is written says the same.
        let file = found.file().unwrap();
        assert_eq!(file.rows()[0].high, CountedLevel { passed: 10, runs: 20 });
        assert_eq!(CalibrationFile::parse(&file.to_text()).unwrap(), file);
    }

    #[test]
    fn a_perfect_forecast_has_the_least_score_and_nothing_gives_no_file() {
        let sure = Reliability::of(&results(&[("high", 20, 20)]));
        let wrong = Reliability::of(&results(&[("high", 0, 20)]));
        assert!(sure.models[0].brier < 0.011 && wrong.models[0].brier > 0.8);
        assert_eq!(Reliability::of(&results(&[("unknown", 3, 3)])).file(), None);
        assert!(
            Reliability::of(&results(&[("high", 16, 16), ("medium", 16, 16), ("low", 16, 16)]))
                .warnings()
                .is_empty()
        );
    }

    #[test]
    fn the_fewest_runs_are_those_that_the_interval_needs() {
        // The core computes with integers what the interval says with floats.
        assert_eq!(Interval::least_runs(0.8), Some(MeasuredLevel::LEAST_RUNS));
        for runs in 1..80 {
            for passed in 0..=runs {
                let counted = MeasuredLevel { passed, runs };
                for level in [Confidence::High, Confidence::Medium] {
                    let low = Interval::of(passed, runs).low;
                    if (low - least(level)).abs() > 1e-4 {
                        assert_eq!(counted.shows(level), low > least(level), "{passed} of {runs} {low}");
                    }
                }
            }
        }
    }
}
