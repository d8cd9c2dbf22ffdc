//! The configuration of telemetry, from the environment variables that OpenTelemetry defines.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::sampler::Sampler;

/// Which signals are sent, to which receivers, with what content.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    pub(crate) traces: Option<Receiver>,
    pub(crate) metrics: Option<Receiver>,
    pub(crate) logs: Option<Receiver>,
    pub(crate) resource: Resource,
    pub(crate) sampler: Sampler,
    /// Whether spans contain the messages of models and the results of tools.
    pub(crate) content_in_spans: bool,
    /// Whether log records contain them.
    pub(crate) content_in_events: bool,
    /// The most characters of a text.
    pub(crate) longest_text: usize,
    pub(crate) max_queue: usize,
    pub(crate) max_batch: usize,
    pub(crate) delay: Duration,
    pub(crate) metric_interval: Duration,
    /// Warnings about the environment, a line each.
    warnings: Vec<String>,
}

/// The receiver of one signal.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Whether it is reached over gRPC.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "only a build with gRPC asks"))]
    pub(crate) is_grpc: bool,
    /// The time limit of one request.
    pub(crate) timeout: Duration,
    /// Whether requests are compressed with gzip.
    pub(crate) is_compressed: bool,
    /// A file with the trusted certificates, in place of those of the operating system.
    pub(crate) certificate: Option<PathBuf>,
}

impl fmt::Debug for Receiver {
    /// Shows the host, but not the path and the headers, which may contain a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Receiver {
    /// The trusted certificates as PEM. The error is for the operator.
    pub(crate) fn trusted(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.certificate else { return Ok(None) };
        let pem = std::fs::read(path);
        pem.map(Some).map_err(|error| format!("the certificates {}: {error}", path.display()))
    }
}

impl TelemetryConfig {
    /// The configuration in the environment of this process. `None`: nothing is sent, see
    /// [`from_variables`](Self::from_variables).
    pub fn from_env() -> Option<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The configuration in these variables. `None`: nothing is sent, because no endpoint or exporter is set, all
    /// signals are turned off, or `OTEL_SDK_DISABLED` is `true`.
    ///
    /// Unlike an SDK, it does not default to a local endpoint: a command without any configuration sends nothing.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let config = Self::read(&variable);
        (config.sends() || !config.warnings.is_empty()).then_some(config)
    }

    /// A configuration that sends nothing. The metrics can be read with
    /// [`Telemetry::prometheus`](crate::Telemetry::prometheus).
    pub fn metrics_as_text() -> Self {
        Self::read(&|_| None)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader { variable, warnings: Vec::new() };
        if reader.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            reader.variable = &|_| None;
        }
        let traces = reader.receiver("TRACES", "v1/traces");
        let metrics = reader.receiver("METRICS", "v1/metrics");
        let logs = reader.receiver("LOGS", "v1/logs");
        let content = reader.text(CONTENT).unwrap_or_default().to_ascii_lowercase();
        let (content_in_spans, content_in_events) = match content.as_str() {
            "" | "false" | "no_content" => (false, false),
            "true" | "span_only" => (true, false),
            "event_only" => (false, true),
            "span_and_event" => (true, true),
            other => {
                let line = format!(
                    "{CONTENT}={other:?} is not known, so no content is sent; write `true` or `false`"
                );
                reader.warnings.push(line);
                (false, false)
            }
        };
        let longest_text = reader
            .number("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
            .or_else(|| reader.number("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"))
            .map_or(LONGEST_TEXT, |longest| LONGEST_TEXT.min(usize::try_from(longest).unwrap_or(usize::MAX)));
        let size = |number: Option<u64>, default: usize, most: usize| {
            number.map_or(default, |number| usize::try_from(number).unwrap_or(most).clamp(1, most))
        };
        let max_queue = size(reader.number("OTEL_BSP_MAX_QUEUE_SIZE"), 2_048, 65_536);
        let max_batch = size(reader.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), 512, max_queue);
        let delay = reader.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5_000);
        let metric_interval = reader.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 60_000);
        let sampler = reader.sampler();
        let resource = reader.resource();
        Self {
            traces,
            metrics,
            logs,
            resource,
            sampler,
            content_in_spans,
            content_in_events,
            longest_text,
            max_queue,
            max_batch: max_batch.min(max_queue),
            delay,
            metric_interval,
            warnings: reader.warnings,
        }
    }

    /// Warnings about the environment, with what is done instead, a line each. Empty: none.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether spans are sent.
    pub fn traces(&self) -> bool {
        self.traces.is_some()
    }

    /// Whether any signal is sent.
    pub fn sends(&self) -> bool {
        self.traces.is_some() || self.metrics.is_some() || self.logs.is_some()
    }

    /// Whether messages and results are recorded.
    pub(crate) fn keeps_content(&self) -> bool {
        self.content_in_spans && self.traces.is_some() || self.content_in_events && self.logs.is_some()
    }
}

struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The value of a variable. `None`: it is not set, or empty.
    fn text(&self, name: &str) -> Option<String> {
        let value = (self.variable)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.warnings
                .push(format!("{name}={text:?} is not a whole number, so it is ignored; correct it"));
        }
        number
    }

    fn milliseconds(&mut self, name: &str, default: u64) -> Duration {
        Duration::from_millis(self.number(name).unwrap_or(default).clamp(1, 24 * 3_600_000))
    }

    /// The variable of one signal, or the general one.
    fn of_signal(&self, signal: &str, rest: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_{signal}_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")];
        names.into_iter().find_map(|name| self.text(&name).map(|value| (name, value)))
    }

    /// The receiver of a signal. `None`: the signal is not sent.
    fn receiver(&mut self, signal: &str, path: &str) -> Option<Receiver> {
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let exporters = self.text(&exporter);
        let named = |name: &str| {
            exporters.as_ref().is_some_and(|text| text.split(',').any(|part| part.trim() == name))
        };
        if exporters.is_some() && !named("otlp") {
            if !named("none") {
                let line = format!(
                    "{exporter} names no exporter that is here, so nothing is sent; write `otlp` or `none`"
                );
                self.warnings.push(line);
            }
            return None;
        }
        let protocol = self.of_signal(signal, "PROTOCOL");
        let is_grpc =
            cfg!(feature = "grpc") && protocol.as_ref().is_some_and(|(_, protocol)| protocol == "grpc");
        let own = self.text(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
        let (name, text, is_own) = match (own, self.text("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(own), _) => (format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"), own, true),
            (None, Some(base)) => ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), base, false),
            (None, None) if named("otlp") => {
                let port = if is_grpc { 4317 } else { 4318 };
                (exporter, format!("http://localhost:{port}"), false)
            }
            (None, None) => return None,
        };
        let url =
            Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(mut url) = url else {
            self.warn_once(format!("{name} is not an http or https URL, so nothing is sent there; write it as http://127.0.0.1:4318"));
            return None;
        };
        if !is_own && !is_grpc {
            let base = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("{base}/{path}"));
        }
        if let Some((name, protocol)) =
            protocol.filter(|(_, protocol)| !is_grpc && protocol != "http/protobuf")
        {
            self.warn_once(format!("{name}={protocol:?} is not spoken here, so http/protobuf is; name the port of your receiver for it"));
        }
        let compression = self.of_signal(signal, "COMPRESSION").filter(|(_, how)| how != "none");
        let is_compressed = compression.as_ref().is_some_and(|(_, how)| how == "gzip");
        if let (Some((name, how)), false) = (compression, is_compressed) {
            self.warn_once(format!(
                "{name}={how:?} is not known, so requests are not compressed; write `gzip` or `none`"
            ));
        }
        let headers = self.headers(signal);
        if !headers.is_empty() && loop_llm::http::is_exposed(&url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            self.warn_once(format!("{name}: the headers would go to {host} unencrypted, so nothing is sent there; use https, or leave out the headers"));
            return None;
        }
        let timeout = self.of_signal(signal, "TIMEOUT").map(|(name, _)| name);
        let timeout = timeout.map_or(Duration::from_secs(10), |name| self.milliseconds(&name, 10_000));
        let certificate = self.of_signal(signal, "CERTIFICATE").map(|(_, path)| path.into());
        Some(Receiver { url, headers, is_grpc, timeout, is_compressed, certificate })
    }

    fn headers(&mut self, signal: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((variable, text)) = self.of_signal(signal, "HEADERS") else { return headers };
        for (name, value) in pairs(&text) {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(&value);
            match (name, value) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                // The text may hold a key.
                _ => self.warn_once(format!("{variable}: one of them is not a header and is left out; write them as name=value,name=value")),
            }
        }
        headers
    }

    fn sampler(&mut self) -> Sampler {
        let name = self.text("OTEL_TRACES_SAMPLER").unwrap_or_default();
        let ratio = |reader: &mut Self| {
            let text = reader.text("OTEL_TRACES_SAMPLER_ARG");
            let ratio = text.as_deref().unwrap_or("1").parse().ok();
            ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or_else(|| {
                let line = "OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1, so every run is sampled; correct it";
                reader.warnings.push(line.to_owned());
                1.0
            })
        };
        match name.as_str() {
            "" | "parentbased_always_on" => Sampler::On.by_submitter(),
            "always_on" => Sampler::On,
            "always_off" => Sampler::Off,
            "traceidratio" => Sampler::ratio(ratio(self)),
            "parentbased_traceidratio" => Sampler::ratio(ratio(self)).by_submitter(),
            "parentbased_always_off" => Sampler::Off.by_submitter(),
            other => {
                let line = format!(
                    "OTEL_TRACES_SAMPLER={other:?} is not known, so parentbased_always_on is used; correct it"
                );
                self.warnings.push(line);
                Sampler::On.by_submitter()
            }
        }
    }

    fn resource(&self) -> Resource {
        let given = self.text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let given = pairs(&given).take(MAX_RESOURCE).map(|(name, value)| KeyValue::new(name, value));
        let instance = format!("{}-{}", std::process::id(), crate::unix_ms());
        let resource = Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_service_name("loopgate")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", instance))
            .with_attributes(given);
        match self.text("OTEL_SERVICE_NAME") {
            Some(name) => resource.with_service_name(name).build(),
            None => resource.build(),
        }
    }

    /// Adds a warning, unless it is there already for another signal.
    fn warn_once(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }
}

/// Parses `name=value,name=value`. Values may be percent-encoded.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = decoded(name.trim());
        (!name.is_empty()).then(|| (name, decoded(value.trim())))
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The variable that enables content: `true`, `false`, or the signal that gets it.
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
/// The most characters of a text that is not content.
const LONGEST_TEXT: usize = 4_096;
/// The most resource attributes from the environment.
const MAX_RESOURCE: usize = 128;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use opentelemetry::{Key, Value};

    use super::*;

    fn config(variables: &[(&str, &str)]) -> Option<TelemetryConfig> {
        let known: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TelemetryConfig::from_variables(|name| known.get(name).cloned())
    }

    #[test]
    fn nothing_is_sent_until_a_receiver_is_named() {
        assert!(config(&[]).is_none());
        assert!(config(&[("OTEL_SERVICE_NAME", "desk")]).is_none());
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        assert!(config(&[at, ("OTEL_SDK_DISABLED", "true")]).is_none());
        let none = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"]
            .map(|name| (name, "none"));
        assert!(config(&[&[at][..], &none].concat()).is_none());
        let config = config(&[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap();
        assert_eq!(config.traces.unwrap().url.as_str(), "http://localhost:4318/v1/traces");
        assert!(config.metrics.is_none() && config.logs.is_none());
    }

    #[test]
    fn the_endpoint_of_all_signals_gets_their_paths_and_one_of_a_signal_is_taken_as_it_is() {
        let config = config(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://example.com/base/"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://logs.example.com/in"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,broken,other=1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_SERVICE_NAME", "desk"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other"),
        ])
        .unwrap();
        let (traces, logs) = (config.traces.unwrap(), config.logs.unwrap());
        assert_eq!(traces.url.as_str(), "https://example.com/base/v1/traces");
        assert_eq!(logs.url.as_str(), "https://logs.example.com/in");
        let key = traces.headers.get("api-key").unwrap().to_str().unwrap();
        assert_eq!((key, traces.headers.len()), ("a b", 2));
        assert_eq!(traces.timeout, Duration::from_millis(250));
        for (name, value) in [("service.name", "desk"), ("deployment.environment.name", "test")] {
            assert_eq!(config.resource.get(&Key::new(name)), Some(Value::from(value)));
        }
        assert_eq!(config.warnings, Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_a_line_that_holds_no_key_and_the_rest_counts() {
        let config = config(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://10.0.0.7:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer s3cret-key"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
        ])
        .unwrap();
        assert!(config.traces.is_none() && config.max_queue == 2_048);
        let lines = config.warnings().join("\n");
        assert!(lines.contains("unencrypted") && lines.contains("OTEL_BSP_MAX_QUEUE_SIZE"), "{lines}");
        assert!(!format!("{config:?}{lines}").contains("s3cret"), "{config:?}");
        assert_eq!(lines.lines().count(), 3, "{lines}");
    }

    #[test]
    fn content_is_off_unless_it_is_asked_for() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for (text, spans, events) in [
            ("false", false, false),
            ("true", true, false),
            ("EVENT_ONLY", false, true),
            ("span_and_event", true, true),
            ("yes please", false, false),
        ] {
            let config = config(&[at, (CONTENT, text)]).unwrap();
            assert_eq!((config.content_in_spans, config.content_in_events), (spans, events), "{text}");
        }
        assert!(!config(&[at]).unwrap().keeps_content());
    }
}
