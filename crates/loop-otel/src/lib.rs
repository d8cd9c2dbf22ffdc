//! OpenTelemetry for agent runs: traces, metrics and logs by the GenAI semantic conventions.
//!
//! [`Telemetry`] observes the runs of a [`Runner`], converts their journal entries to spans, metrics and log records, and sends them
//! over OTLP with the exporters of the OpenTelemetry SDK. The environment variables of OpenTelemetry [configure](TelemetryConfig)
//! it. The same metrics are available as [text](Telemetry::prometheus) for Prometheus.
//!
//! **What it is not.** It does not replace the journal and makes no decisions. It cannot delay or fail a run: if a receiver is
//! down, spans are dropped and the operator gets one line.
//!
//! The ids of spans are derived from the run's id, so a run that another process resumes continues its trace.
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use loop_otel::{Telemetry, TelemetryConfig};
//! # use loop_runtime::{Runner, RunSpec, WorkItem, models::{ModelSpec, Models, Scripted}, spec::SectionSpec, tools::Registry};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], ModelSpec::new("scripted", "s"));
//! # let runner = Runner::new(spec, Registry::builder().build()?, Models::one(Arc::new(Scripted::replies(["## Findings\n\nNone."]))));
//! # let item = WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.");
//! let config = TelemetryConfig::from_env().unwrap_or_else(TelemetryConfig::metrics_as_text);
//! let telemetry = Telemetry::start(config, |line| eprintln!("{line}"))?;
//! let runner = telemetry.listen_to(runner);
//! runner.run(item).await?;
//! telemetry.shut_down(Duration::from_secs(2)).await;
//! assert!(telemetry.prometheus(&|_| true).contains("gen_ai_client_inference_duration_seconds"));
//! # Ok(())
//! # }
//! ```
//!
//! | module or type | what you find there |
//! |---|---|
//! | [`Telemetry`] | starts, flushes and shuts down telemetry, and adds it to a runner |
//! | [`TelemetryConfig`] | which signals are sent where, from environment variables |
//! | [`names`] | every span, metric and attribute name, in one file |
//!
//! In the source, `listener` receives the events of runs, `spans` and `calls` convert them, and `send`, `client` and `queue` send
//! them.

mod calls;
mod client;
mod config;
mod content;
mod data;
#[cfg(feature = "grpc")]
mod grpc;
mod listener;
mod meter;
mod model;
pub mod names;
mod queue;
mod sampler;
mod send;
mod shared;
mod spans;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loop_runtime::Runner;
use tokio::time::Instant;

pub use config::TelemetryConfig;

use crate::listener::Listener;
use crate::model::TimedModel;
use crate::queue::Reports;
use crate::send::Sender;
use crate::shared::OtelState;

/// Makes and sends the telemetry of runs. Clones share everything. The sending threads end after the last clone is
/// dropped.
#[derive(Clone)]
pub struct Telemetry {
    shared: Arc<OtelState>,
    reports: Arc<Reports>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Starts the sending threads. `report` gets lines for the operator, one for each kind of failure.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(
        config: TelemetryConfig,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let reports = Arc::new(Reports::new(report));
        for line in config.warnings() {
            reports.line(line);
        }
        let sender = Sender::start(&config, &reports)?;
        Ok(Self { shared: Arc::new(OtelState::new(config, sender)), reports })
    }

    /// The runner with telemetry: all of its runs are reported.
    ///
    /// # Panics
    /// The system cannot start a thread.
    pub fn listen_to(&self, runner: Runner) -> Runner {
        let runner = runner.with_observer(Arc::new(Listener(Arc::clone(&self.shared))));
        let runner = if self.shared.config.traces() {
            runner.with_tracing(Arc::new(self.shared.config.sampler.clone()))
        } else {
            runner
        };
        runner.with_changed_models(|inner| Arc::new(TimedModel { inner, shared: Arc::clone(&self.shared) }))
    }

    /// Whether spans are sent.
    pub fn traces(&self) -> bool {
        self.shared.config.traces()
    }

    /// The metrics in the text format of Prometheus, for the domains that `sees` accepts.
    pub fn prometheus(&self, sees: &dyn Fn(&str) -> bool) -> String {
        self.shared.sender.meter.text(sees)
    }

    /// Waits until runs that have ended are reported and everything queued is sent, at most for `limit`. Returns
    /// whether the queues are empty. Items that a receiver refused do not count.
    pub async fn flush(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let settled = tokio::time::timeout_at(until, self.settled()).await.is_ok();
        self.shared.sender.flush(until).await && settled
    }

    /// Flushes before the process exits, and reports how many spans and log records were dropped or not sent.
    pub async fn shut_down(&self, limit: Duration) {
        self.flush(limit).await;
        let [spans, records] = self.shared.sender.counts().map(|(waiting, dropped)| waiting + dropped);
        if spans + records > 0 {
            self.reports.line(&format!("{spans} spans and {records} log records were not sent"));
        }
    }

    /// Waits until every run whose driver has ended is reported completely.
    async fn settled(&self) {
        loop {
            let settles = self.shared.has_settled.notified();
            tokio::pin!(settles);
            settles.as_mut().enable();
            if !self.shared.runs().values().any(spans::RunSpans::is_settling) {
                return;
            }
            settles.await;
        }
    }
}

/// Milliseconds since 1970 (UTC).
fn unix_ms() -> u64 {
    loop_runtime::journal::unix_ms(SystemTime::now())
}
