//! The calibration file that `gate.calibration` names: how often each confidence level that a model states was right,
//! as counted by `loopgate eval`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use loop_core::spec::{Calibration, MeasuredLevel, MeasuredModel, ModelSpec, ModelSpecs};
use loop_core::types::{Confidence, digest};
use loop_tools::files;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of the format that this crate reads and writes.
const VERSION: u32 = 1;
/// The most bytes of a file. One row takes about 200.
const MAX_BYTES: u64 = 1 << 20;

/// Counts of runs by domain, model and stated confidence. `loopgate eval --calibration FILE` writes it, and
/// `gate.calibration` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationFile {
    /// The version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    version: u32,
    /// One row for each domain and model.
    rows: Vec<CalibrationRow>,
    /// The digest of the rows, so that an edit by hand is noticed. It is not a signature.
    digest: String,
}

/// How often the confidence levels of one model in one domain were right.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRow {
    /// The domain's name.
    pub domain: String,
    /// The model as `PROVIDER/NAME`.
    pub model: String,
    /// Runs whose last confidence was `high`.
    pub high: CountedLevel,
    /// Runs whose last confidence was `medium`.
    pub medium: CountedLevel,
    /// Runs whose last confidence was `low`.
    pub low: CountedLevel,
}

/// How many runs that ended at one level passed all their checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedLevel {
    /// Runs that passed, at most `runs`.
    pub passed: u32,
    /// Runs that were counted.
    pub runs: u32,
}

/// The part of a calibration file that a domain uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    /// The measured levels of the domain's models.
    pub(crate) calibration: Calibration,
    /// The models of the domain without a measurement, or with a small one, a line each.
    pub(crate) warnings: Vec<String>,
}

/// Why a file cannot be used, as the end of a line that names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    #[error("cannot be read: {0}; correct the path, or write the file with `loopgate eval --calibration`")]
    Unreadable(String),
    #[error("it is not a calibration: {0}; write it again with `loopgate eval --calibration`")]
    Malformed(String),
    #[error("written by a newer loopgate: its format is {0}, this one reads {VERSION}; update loopgate")]
    Newer(u64),
    #[error(
        "it was changed after `loopgate eval` wrote it: its digest is not that of its rows; write it again with `loopgate eval --calibration`"
    )]
    Changed,
    #[error(
        "it has no runs of the domain `{domain}`, only of {found}; write one for this domain with `loopgate eval --calibration`"
    )]
    OtherDomain { domain: String, found: String },
    #[error(
        "it has no runs of the base model {model} in the domain `{domain}`, only of {found}; write it again with that model, or take `gate.calibration` out"
    )]
    OtherModel { domain: String, model: String, found: String },
}

impl CalibrationFile {
    /// The file with these rows. Each pair of domain and model has one row.
    pub fn new(rows: Vec<CalibrationRow>) -> Self {
        let digest = digest_of(&rows);
        Self { version: VERSION, rows, digest }
    }

    /// The rows.
    pub fn rows(&self) -> &[CalibrationRow] {
        &self.rows
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// The file with this text.
    ///
    /// # Errors
    /// What is wrong with it, and what to do, on one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|error| error.to_string())
    }

    fn read(text: &str) -> Result<Self, NotTaken> {
        let malformed = |error: serde_json::Error| NotTaken::Malformed(error.to_string());
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(newer) if newer > u64::from(VERSION) => return Err(NotTaken::Newer(newer)),
            _ => return Err(NotTaken::Malformed("it has no known `version`".to_owned())),
        }
        let file: Self = serde_json::from_str(text).map_err(malformed)?;
        if file.digest != digest_of(&file.rows) {
            return Err(NotTaken::Changed);
        }
        let mut seen = BTreeSet::new();
        for row in &file.rows {
            let CalibrationRow { domain, model, high, medium, low } = row;
            if !model.contains('/') {
                return Err(NotTaken::Malformed(format!("`{model}` is not PROVIDER/NAME")));
            }
            if !seen.insert((domain, model)) {
                return Err(NotTaken::Malformed(format!("it has two rows of {model} in `{domain}`")));
            }
            if [high, medium, low].into_iter().any(|level| level.passed > level.runs) {
                return Err(NotTaken::Malformed(format!("more runs of {model} passed than were counted")));
            }
        }
        Ok(file)
    }

    /// Reads the file at `path` for the models of a domain. `is_replaced`: the caller set another base model, so that a
    /// missing measurement is a warning and not an error.
    pub(crate) fn taken(
        path: &Path,
        domain: &str,
        models: &ModelSpecs,
        is_replaced: bool,
    ) -> Result<Levels, NotTaken> {
        let text = files::text(path, MAX_BYTES).map_err(|error| NotTaken::Unreadable(error.to_string()))?;
        Self::read(&text)?.of_domain(domain, models, is_replaced)
    }

    fn of_domain(&self, domain: &str, models: &ModelSpecs, is_replaced: bool) -> Result<Levels, NotTaken> {
        let names = |rows: Vec<&String>| match rows.is_empty() {
            true => "nothing".to_owned(),
            false => rows
                .into_iter()
                .map(String::as_str)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", "),
        };
        let own: Vec<&CalibrationRow> = self.rows.iter().filter(|row| row.domain == domain).collect();
        if own.is_empty() {
            let found = names(self.rows.iter().map(|row| &row.domain).collect());
            return Err(NotTaken::OtherDomain { domain: domain.to_owned(), found });
        }
        let mut taken = Levels { calibration: Calibration { models: Vec::new() }, warnings: Vec::new() };
        // The selector's confidence never counts.
        let others = [models.escalated.as_ref(), models.fallback.as_ref()].into_iter().flatten();
        for (at, model) in std::iter::once(&models.base).chain(others).enumerate() {
            let name = name_of(model);
            let known = taken.calibration.models.iter();
            if known.clone().any(|it| it.provider == model.provider && it.model == model.model) {
                continue;
            }
            match own.iter().find(|row| row.model == name) {
                Some(row) => {
                    let measured = row.measured(model);
                    taken.warnings.extend(thin(&name, &measured));
                    taken.calibration.models.push(measured);
                }
                None if at == 0 && !is_replaced => {
                    let found = names(own.iter().map(|row| &row.model).collect());
                    return Err(NotTaken::OtherModel { domain: domain.to_owned(), model: name, found });
                }
                None => taken.warnings.push(format!(
                    "gate.calibration has no runs of {name}: its confidence counts as it is stated"
                )),
            }
        }
        Ok(taken)
    }
}

impl CalibrationRow {
    /// The counts of a stated level. `None` for `unknown`, which is not a level.
    pub fn level(&mut self, stated: Confidence) -> Option<&mut CountedLevel> {
        match stated {
            Confidence::Unknown => None,
            Confidence::Low => Some(&mut self.low),
            Confidence::Medium => Some(&mut self.medium),
            Confidence::High => Some(&mut self.high),
        }
    }

    fn measured(&self, model: &ModelSpec) -> MeasuredModel {
        let of = |CountedLevel { passed, runs }| MeasuredLevel { passed, runs };
        MeasuredModel {
            provider: Arc::clone(&model.provider),
            model: Arc::clone(&model.model),
            low: of(self.low),
            medium: of(self.medium),
            high: of(self.high),
        }
    }
}

/// The levels that some runs stated, but too few for a rate.
fn thin(name: &str, measured: &MeasuredModel) -> Option<String> {
    let levels = [Confidence::High, Confidence::Medium, Confidence::Low];
    let thin: Vec<String> = levels
        .into_iter()
        .filter_map(|level| Some((level, measured.level(level)?)))
        .filter(|(level, runs)| runs.is_thin() && (runs.runs > 0 || *level == Confidence::High))
        .map(|(level, runs)| format!("{} ({} runs)", level.name(), runs.runs))
        .collect();
    (!thin.is_empty()).then(|| {
        format!(
            "gate.calibration has fewer than {} runs of {name} for {}: that counts as it is stated",
            MeasuredLevel::LEAST_RUNS,
            thin.join(", ")
        )
    })
}

/// A model as `PROVIDER/NAME`.
fn name_of(model: &ModelSpec) -> String {
    format!("{}/{}", model.provider, model.model)
}

fn digest_of(rows: &[CalibrationRow]) -> String {
    digest("calibration", &json!([VERSION, rows])).to_string()
}

/// The JSON Schema of a calibration file.
pub fn calibration_schema() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<CalibrationFile>().to_value()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn row(domain: &str, model: &str, high: (u32, u32)) -> CalibrationRow {
        let high = CountedLevel { passed: high.0, runs: high.1 };
        CalibrationRow { domain: domain.into(), model: model.into(), high, ..CalibrationRow::default() }
    }

    fn models(base: &str) -> ModelSpecs {
        ModelSpecs { selector: None, base: ModelSpec::new("p", base), escalated: None, fallback: None }
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = CalibrationFile::read(text).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_file_is_read_back_and_what_was_changed_in_it_is_noticed() {
        // Issue 19, part 5.
        let file = CalibrationFile::new(vec![row("desk", "p/m", (3, 4))]);
        let text = file.to_text();
        assert_eq!(CalibrationFile::read(&text).unwrap(), file);
        refused(&text.replace("\"passed\": 3", "\"passed\": 4"), "it was changed after");
        refused(&text.replace("\"version\": 1", "\"version\": 2"), "newer loopgate: its format is 2");
        refused(&text.replace("\"version\": 1", "\"version\": 0"), "no known `version`");
        refused(&text.replace("\"high\"", "\"hihg\""), "unknown field `hihg`");
        refused("", "it is not a calibration");
        refused("{}", "no known `version`");
        for cut in 1..text.trim_end().len() {
            if let Some(head) = text.get(..cut) {
                assert!(CalibrationFile::read(head).is_err(), "{head}");
            }
        }
        let twice = CalibrationFile::new(vec![row("desk", "p/m", (3, 4)), row("desk", "p/m", (3, 4))]);
        refused(&twice.to_text(), "two rows of p/m");
        refused(&CalibrationFile::new(vec![row("desk", "p/m", (5, 4))]).to_text(), "more runs of p/m passed");
        refused(&CalibrationFile::new(vec![row("desk", "m", (3, 4))]).to_text(), "`m` is not PROVIDER/NAME");
    }

    #[test]
    fn another_domain_or_model_is_refused_and_what_is_hardly_measured_is_told() {
        let file = CalibrationFile::new(vec![row("desk", "p/m", (12, 20)), row("shop", "p/m", (2, 3))]);
        let of = |domain: &str, base: &str, is_replaced| file.of_domain(domain, &models(base), is_replaced);
        let taken = of("desk", "m", false).unwrap();
        assert_eq!(taken.calibration.models.len(), 1);
        assert_eq!(taken.warnings, Vec::<String>::new());
        let thin = of("shop", "m", false).unwrap().warnings;
        assert_eq!(
            thin,
            ["gate.calibration has fewer than 16 runs of p/m for high (3 runs): that counts as it is stated"]
        );
        let error = of("home", "m", false).unwrap_err().to_string();
        assert!(error.starts_with("it has no runs of the domain `home`, only of desk, shop; "), "{error}");
        let error = of("desk", "other", false).unwrap_err().to_string();
        assert!(
            error.starts_with("it has no runs of the base model p/other in the domain `desk`, only of p/m; "),
            "{error}"
        );
        let replaced = of("desk", "other", true).unwrap();
        assert_eq!(
            (replaced.calibration.models.len(), &*replaced.warnings),
            (
                0,
                &["gate.calibration has no runs of p/other: its confidence counts as it is stated"
                    .to_owned()][..]
            )
        );
        let mut more = models("m");
        more.escalated = Some(ModelSpec::new("p", "big"));
        more.fallback = Some(ModelSpec::new("p", "m"));
        let taken = file.of_domain("desk", &more, false).unwrap();
        assert_eq!((taken.calibration.models.len(), taken.warnings.len()), (1, 1));
    }
}
