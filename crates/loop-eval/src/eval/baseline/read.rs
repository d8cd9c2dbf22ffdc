//! Reads a baseline: the report of an earlier `loopgate eval --json`.

use std::path::{Path, PathBuf};

use loop_tools::files;
use serde::Deserialize;
use serde_json::Value;

use crate::case::Case;
use crate::eval::configuration::OWN_MODELS;
use crate::eval::content::case_digest;
use crate::eval::suite::Suite;
use crate::report::REPORT_VERSION;

/// The runs of an earlier report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    pub(super) runs: Vec<BaselineRun>,
}

/// One run of a report, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct BaselineRun {
    pub(super) case_id: String,
    pub(super) file: PathBuf,
    pub(super) passed: bool,
    pub(super) error: Option<String>,
    #[serde(default = "own")]
    pub(super) configuration: String,
    #[serde(default)]
    pub(super) case_digest: String,
}

fn own() -> String {
    OWN_MODELS.to_owned()
}

/// Why a file cannot be a baseline: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {message}; name a file that `loopgate eval --json` printed")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system says.
        message: String,
    },
    /// The text is not JSON, for example because it is cut.
    #[error("{file}:{line}:{column}: is not whole JSON: {message}; make it anew with `loopgate eval --json`")]
    NotJson {
        /// The file.
        file: String,
        /// Its line, from 1.
        line: usize,
        /// The column in the line, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// It is JSON of another kind.
    #[error("{file}: is not a report of `loopgate eval --json`: {message}; name one")]
    NotAReport {
        /// The file.
        file: String,
        /// What is missing or wrong.
        message: String,
    },
    /// A later version wrote it.
    #[error(
        "{file}: written by a newer loopgate: its format is {found}, this one reads {REPORT_VERSION}; update loopgate"
    )]
    Newer {
        /// The file.
        file: String,
        /// Its version.
        found: u64,
    },
    /// None of its runs can be compared.
    #[error(
        "{file}: it holds no case of this eval as the case is now; make a baseline of these cases with `loopgate eval --json`"
    )]
    NothingInCommon {
        /// The file.
        file: String,
    },
}

impl Baseline {
    /// Reads the baseline in a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, BaselineError> {
        let file = path.display().to_string();
        match files::text(path, files::MAX_BYTES) {
            Ok(text) => Self::parse(&text, &file),
            Err(error) => Err(BaselineError::Unreadable { file, message: error.to_string() }),
        }
    }

    /// Parses a baseline. `file` is its name in messages.
    ///
    /// # Errors
    /// The text is not a report of `loopgate eval --json`, or a newer version wrote it.
    pub fn parse(text: &str, file: &str) -> Result<Self, BaselineError> {
        let file = file.to_owned();
        let report: Value = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line().max(1), error.column().max(1));
            let message = error.to_string().split(" at line ").next().unwrap_or_default().to_owned();
            BaselineError::NotJson { file: file.clone(), line, column, message }
        })?;
        let foreign = |message: String| BaselineError::NotAReport { file: file.clone(), message };
        let Some(found) = report.get("version").and_then(Value::as_u64) else {
            return Err(foreign("it has no `version`".to_owned()));
        };
        if found > u64::from(REPORT_VERSION) {
            return Err(BaselineError::Newer { file, found });
        }
        let Some(cases) = report.get("cases").and_then(Value::as_array) else {
            return Err(foreign("it has no list of `cases`".to_owned()));
        };
        let runs = cases.iter().enumerate().map(|(at, case)| {
            BaselineRun::deserialize(case).map_err(|error| foreign(format!("/cases/{at}: {error}")))
        });
        Ok(Self { runs: runs.collect::<Result<_, _>>()? })
    }

    /// Checks that at least one case can be compared, before any model is called.
    ///
    /// # Errors
    /// The baseline has none of these cases in their current form.
    pub fn check(&self, suite: &Suite, file: &str) -> Result<(), BaselineError> {
        let is_known = |case: &Case| {
            let digest = case_digest(case).to_string();
            self.runs.iter().any(|run| {
                let is_same = run.case_digest.is_empty() || run.case_digest == digest;
                run.error.is_none() && run.case_id == case.case_id && is_same
            })
        };
        match suite.cases.iter().any(is_known) {
            true => Ok(()),
            false => Err(BaselineError::NothingInCommon { file: file.to_owned() }),
        }
    }
}
