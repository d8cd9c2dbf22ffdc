//! Saving the outcome: to a file or to a URL.

mod file;
mod http;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use loop_core::run::Started;
use loop_core::secrets::Secrets;
use loop_core::{Outcome, RunSpec};

use crate::watch::report::{EvidenceDetail, Report};

pub use http::{HttpTarget, TargetError};

/// Where outcomes go.
#[async_trait]
pub trait Saver: Send + Sync + fmt::Debug {
    /// Saves an outcome, and returns where it is, for people: a path or an address.
    ///
    /// # Errors
    /// Why it is not saved, and whether to try again.
    async fn save(&self, started: &Started, outcome: &Outcome) -> Result<Arc<str>, SaveError>;

    /// The credentials that it uses: they are masked in all runs that it saves.
    fn secrets(&self) -> Secrets {
        Secrets::default()
    }
}

/// Why an outcome is not saved.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct SaveError {
    /// One line for people: what failed, and where.
    pub message: Arc<str>,
    /// How long to wait before another try. `None`: another try cannot help.
    pub retry: Option<Duration>,
}

/// Where a domain saves its outcomes. The bytes of the report are the same in each case.
#[derive(Clone, Debug)]
pub enum SaveTarget {
    /// A JSON file. `{item}` and `{run}` in its path are replaced by their ids.
    File(PathBuf),
    /// A URL that receives the report as the body of a POST.
    Http(HttpTarget),
}

impl fmt::Display for SaveTarget {
    /// The path or the address, without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Http(target) => target.fmt(f),
        }
    }
}

impl SaveTarget {
    /// Saves a report with this much of the evidence.
    async fn save_report(
        &self,
        started: &Started,
        outcome: &Outcome,
        evidence: EvidenceDetail,
        spec: Option<&RunSpec>,
    ) -> Result<Arc<str>, SaveError> {
        let report = Report::new(started, outcome).with_evidence(outcome, evidence);
        let report = match spec {
            Some(spec) => report.with_claims(spec, started, outcome),
            None => report,
        };
        let mut text = serde_json::to_string_pretty(&report)
            .map_err(|error| SaveError { message: error.to_string().into(), retry: None })?;
        text.push('\n');
        match self {
            Self::File(template) => file::write(template, started, text).await,
            Self::Http(target) => target.post(started, text).await,
        }
    }
}

#[async_trait]
impl Saver for SaveTarget {
    fn secrets(&self) -> Secrets {
        match self {
            Self::File(_) => Secrets::default(),
            Self::Http(target) => target.secrets(),
        }
    }

    /// Saves the report with all its evidence.
    async fn save(&self, started: &Started, outcome: &Outcome) -> Result<Arc<str>, SaveError> {
        self.save_report(started, outcome, EvidenceDetail::Full, None).await
    }
}

/// A target that receives reports with this much of the evidence.
#[derive(Clone, Debug)]
pub struct DetailedTarget {
    /// Where outcomes go.
    pub target: SaveTarget,
    /// How much of its evidence a report holds.
    pub evidence: EvidenceDetail,
    /// The spec of the runs. With it a report shows where the values of its document are found. `None`: it does not.
    pub spec: Option<Arc<RunSpec>>,
}

impl DetailedTarget {
    /// The target for runs of this spec.
    #[must_use]
    pub fn with_spec(self, spec: Arc<RunSpec>) -> Self {
        Self { spec: Some(spec), ..self }
    }
}

#[async_trait]
impl Saver for DetailedTarget {
    fn secrets(&self) -> Secrets {
        self.target.secrets()
    }

    async fn save(&self, started: &Started, outcome: &Outcome) -> Result<Arc<str>, SaveError> {
        self.target.save_report(started, outcome, self.evidence, self.spec.as_deref()).await
    }
}

/// One try to save, bounded in time; a saver that panics has failed.
pub(crate) async fn try_to_save(
    saver: Option<&dyn Saver>,
    started: &Started,
    outcome: &Outcome,
    left: Duration,
    limit: Duration,
) -> Result<Arc<str>, SaveError> {
    let failed = |message: String| SaveError { message: message.into(), retry: None };
    let Some(saver) = saver else { return Err(failed("no place to save to is set".to_owned())) };
    let saving = AssertUnwindSafe(saver.save(started, outcome)).catch_unwind();
    match tokio::time::timeout(left, saving).await {
        Ok(Ok(saved)) => saved,
        Ok(Err(_)) => Err(failed("saving panicked".to_owned())),
        Err(_) => Err(failed(format!("not saved after {}", seconds(limit)))),
    }
}

/// A duration in seconds, for people.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
