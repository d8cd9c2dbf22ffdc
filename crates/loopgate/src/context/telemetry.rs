//! OpenTelemetry, if the environment configures a receiver. It runs on threads of its own.

use std::sync::OnceLock;
use std::time::Duration;

use loop_otel::{Telemetry, TelemetryConfig};
use loop_runtime::Runner;

use crate::output::stream;

/// The telemetry of this process. `None`: there is none.
static TELEMETRY: OnceLock<Option<Telemetry>> = OnceLock::new();

fn telemetry() -> Option<&'static Telemetry> {
    TELEMETRY.get_or_init(|| started(TelemetryConfig::from_env()?, /*listens*/ false)).as_ref()
}

/// Starts telemetry, if the configuration sends anything or `listens` is set.
fn started(config: TelemetryConfig, listens: bool) -> Option<Telemetry> {
    let is_needed = config.sends() || listens;
    match Telemetry::start(config, |line| stream::note(line)) {
        Ok(telemetry) => Some(telemetry).filter(|_| is_needed),
        Err(error) => {
            stream::note(format!("telemetry: no thread to send it from: {error}; runs are not affected"));
            None
        }
    }
}

/// Adds telemetry to the runner, if there is any.
pub(crate) fn listen_to(runner: Runner) -> Runner {
    match telemetry() {
        Some(telemetry) => telemetry.listen_to(runner),
        None => runner,
    }
}

/// Whether runs are traced.
pub(crate) fn traces() -> bool {
    telemetry().is_some_and(Telemetry::traces)
}

/// Enables the metrics of runs for `/metrics` of the server, even if nothing is sent.
#[cfg(feature = "server")]
pub(crate) fn serve_metrics() {
    let config = || TelemetryConfig::from_env().unwrap_or_else(TelemetryConfig::metrics_as_text);
    let telemetry = TELEMETRY.get_or_init(|| started(config(), /*listens*/ true));
    if let Some(telemetry) = telemetry {
        loop_server::more_metrics(|sees| telemetry.prometheus(sees));
    }
}

/// Sends the queued items before the process exits, within [`LIMIT`].
pub(crate) async fn end() {
    if let Some(Some(telemetry)) = TELEMETRY.get() {
        telemetry.shut_down(LIMIT).await;
    }
}

/// The most time that the exit of the process waits for a receiver.
const LIMIT: Duration = Duration::from_secs(2);
