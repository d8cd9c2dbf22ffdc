//! OpenTelemetry, where the environment names a receiver: what it costs is spent on threads of their own.

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

/// The telemetry of a configuration, if it sends anything or `listens` all the same.
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

/// The runner, whose runs are reported where there is telemetry.
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

/// Lets `/metrics` of the server have the metrics of runs, also where nothing is sent.
#[cfg(feature = "server")]
pub(crate) fn serve_metrics() {
    let config = || TelemetryConfig::from_env().unwrap_or_else(TelemetryConfig::metrics_as_text);
    let telemetry = TELEMETRY.get_or_init(|| started(config(), /*listens*/ true));
    if let Some(telemetry) = telemetry {
        loop_server::more_metrics(|sees| telemetry.prometheus(sees));
    }
}

/// Sends what waits before the process ends, within a bound.
pub(crate) async fn end() {
    if let Some(Some(telemetry)) = TELEMETRY.get() {
        telemetry.shut_down(LIMIT).await;
    }
}

/// How long the end of the process waits for a receiver.
const LIMIT: Duration = Duration::from_secs(2);
