//! Metrics: instruments of the SDK, sent by its reader and read as text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    InstrumentKind, ManualReader, PeriodicReader, Pipeline, SdkMeterProvider, Stream, Temporality,
};

use crate::names::DOMAIN;
use crate::send::scope;

/// A metric: its name, unit and description, and the bounds of its buckets. A counter has none.
#[derive(Debug)]
pub(crate) struct Instrument {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    bounds: &'static [f64],
}

/// Bounds of times in seconds, as the conventions advise.
const TIMES: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of times of whole runs.
const RUN_TIMES: &[f64] = &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
/// Bounds of numbers of tokens, as the conventions advise.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Bounds of numbers of calls in a run.
const CALLS: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

macro_rules! instruments {
    ($($id:ident $name:literal $unit:literal $bounds:expr, $help:literal;)*) => {
        $(pub(crate) const $id: &Instrument =
            &Instrument { name: $name, unit: $unit, help: $help, bounds: $bounds };)*
        /// All of them.
        const ALL: &[&Instrument] = &[$($id),*];
    };
}

instruments! {
    CALL_DURATION "gen_ai.client.inference.duration" "s" TIMES, "Time of a model call.";
    CALL_FIRST_CHUNK "gen_ai.client.inference.time_to_first_chunk" "s" TIMES, "Time from the request of a model call to the first piece of its reply.";
    CALL_INPUT "gen_ai.client.inference.operation.input_tokens" "{token}" TOKENS, "Input tokens of a model call, cached ones included.";
    CALL_OUTPUT "gen_ai.client.inference.operation.output_tokens" "{token}" TOKENS, "Output tokens of a model call, reasoning included.";
    INPUT_TOKENS "gen_ai.client.inference.usage.input_tokens" "{token}" &[], "Input tokens, cached ones included.";
    OUTPUT_TOKENS "gen_ai.client.inference.usage.output_tokens" "{token}" &[], "Output tokens, reasoning included.";
    CACHE_READ_TOKENS "gen_ai.client.inference.usage.cache_read.input_tokens" "{token}" &[], "Input tokens read from a cache of the provider.";
    CACHE_WRITE_TOKENS "gen_ai.client.inference.usage.cache_write.input_tokens" "{token}" &[], "Input tokens written to a cache of the provider.";
    REASONING_TOKENS "gen_ai.client.inference.usage.reasoning.output_tokens" "{token}" &[], "Output tokens of reasoning.";
    TOOL_DURATION "gen_ai.execute_tool.duration" "s" TIMES, "Time of a tool call.";
    RUN_DURATION "gen_ai.invoke_agent.duration" "s" RUN_TIMES, "Time of a run from its start to its end.";
    RUN_CALLS "gen_ai.invoke_agent.inference_calls" "{call}" CALLS, "Model calls of a run.";
    RUN_TOOL_CALLS "gen_ai.invoke_agent.tool_calls" "{call}" CALLS, "Tool calls of a run.";
    COST "loopgate.cost.usd" "{USD}" &[], "Cost of model calls in dollars, as far as their price is known.";
    UNPRICED_CALLS "loopgate.cost.unknown_calls" "{call}" &[], "Model calls whose price is not known.";
    GATE_DECISIONS "loopgate.gate.decisions" "{decision}" &[], "Decisions of the gate.";
    RUNS_STOPPED "loopgate.runs.stopped" "{run}" &[], "Runs that stopped, by class and reason.";
}

/// The attributes of one point.
pub(crate) type Labels = Vec<KeyValue>;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) provider: SdkMeterProvider,
    reader: TextReader,
    recorders: BTreeMap<&'static str, Recorder>,
}

#[derive(Debug)]
enum Recorder {
    Counter(Counter<f64>),
    Histogram(Histogram<f64>),
}

impl Meter {
    /// A meter whose metrics `sends` sends. `None`: they are only read as text.
    pub(crate) fn new(resource: &Resource, sends: Option<PeriodicReader<MetricExporter>>) -> Self {
        let reader = TextReader(Arc::new(ManualReader::builder().build()));
        let mut provider = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_reader(reader.clone())
            .with_view(|_: &_| Stream::builder().with_cardinality_limit(MAX_SETS).build().ok());
        if let Some(sends) = sends {
            provider = provider.with_reader(sends);
        }
        let provider = provider.build();
        let meter = provider.meter_with_scope(scope());
        let recorder = |instrument: &Instrument| match instrument.bounds {
            [] => Recorder::Counter(
                meter
                    .f64_counter(instrument.name)
                    .with_unit(instrument.unit)
                    .with_description(instrument.help)
                    .build(),
            ),
            bounds => Recorder::Histogram(
                meter
                    .f64_histogram(instrument.name)
                    .with_unit(instrument.unit)
                    .with_description(instrument.help)
                    .with_boundaries(bounds.to_vec())
                    .build(),
            ),
        };
        let recorders = ALL.iter().map(|instrument| (instrument.name, recorder(instrument))).collect();
        Self { provider, reader, recorders }
    }

    /// Adds to a counter, or a value to a histogram.
    pub(crate) fn record(&self, instrument: &'static Instrument, labels: &[KeyValue], value: f64) {
        match self.recorders.get(instrument.name) {
            Some(Recorder::Counter(counter)) => counter.add(value, labels),
            Some(Recorder::Histogram(histogram)) => histogram.record(value, labels),
            None => {}
        }
    }

    /// The metrics as text for Prometheus, as far as their domain is one of those that a caller `sees`.
    pub(crate) fn text(&self, sees: &dyn Fn(&str) -> bool) -> String {
        let (mut read, mut text) = (ResourceMetrics::default(), String::new());
        if self.reader.collect(&mut read).is_ok() {
            let metrics = read.scope_metrics().flat_map(|scope| scope.metrics());
            metrics.for_each(|metric| write_text(metric, &mut text, sees));
        }
        text
    }
}

fn write_text(metric: &Metric, text: &mut String, sees: &dyn Fn(&str) -> bool) {
    let name = text_name(metric);
    let is_hidden = |label: &KeyValue| label.key.as_str() == DOMAIN && !sees(&label.value.as_str());
    let mut lines = String::new();
    let kind = match metric.data() {
        AggregatedMetrics::F64(MetricData::Sum(sum)) => {
            for point in sum.data_points().filter(|point| !point.attributes().any(is_hidden)) {
                _ = writeln!(lines, "{name}{{{}}} {}", labels(point.attributes()), point.value());
            }
            "counter"
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            for point in histogram.data_points().filter(|point| !point.attributes().any(is_hidden)) {
                let labels = labels(point.attributes());
                let comma = if labels.is_empty() { "" } else { "," };
                let bounds = point.bounds().map(|bound| bound.to_string()).chain(["+Inf".to_owned()]);
                let mut below = 0;
                for (count, bound) in point.bucket_counts().zip(bounds) {
                    below += count;
                    _ = writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
                }
                _ = writeln!(lines, "{name}_sum{{{labels}}} {}", point.sum());
                _ = writeln!(lines, "{name}_count{{{labels}}} {}", point.count());
            }
            "histogram"
        }
        _ => return,
    };
    if !lines.is_empty() {
        _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n{lines}", metric.description());
    }
}

/// The name for Prometheus: with the unit, and `_total` where it is a counter.
fn text_name(metric: &Metric) -> String {
    let unit = if metric.unit() == "s" { "_seconds" } else { "" };
    let is_counter = matches!(metric.data(), AggregatedMetrics::F64(MetricData::Sum(_)));
    let total = if is_counter { "_total" } else { "" };
    format!("{}{unit}{total}", plain(metric.name()))
}

fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    let mut labels: Vec<String> = attributes
        .map(|label| format!("{}=\"{}\"", plain(label.key.as_str()), quoted(&label.value.as_str())))
        .collect();
    labels.sort_unstable();
    labels.join(",")
}

fn plain(name: &str) -> String {
    name.replace('.', "_")
}

/// A value as it is between quotation marks.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A reader that the meter keeps a hold of.
#[derive(Clone, Debug)]
struct TextReader(Arc<ManualReader>);

impl MetricReader for TextReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

/// The most attribute sets of one metric; what comes after them is counted together.
const MAX_SETS: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn meter() -> Meter {
        Meter::new(&Resource::builder_empty().build(), None)
    }

    #[test]
    fn the_attribute_sets_of_a_metric_are_bounded_and_nothing_is_left_out_of_the_sum() {
        let meter = meter();
        for nth in 0..MAX_SETS + 500 {
            meter.record(INPUT_TOKENS, &[KeyValue::new("model", nth.to_string())], 1.0);
        }
        let text = meter.text(&|_| true);
        assert_eq!(text.lines().count(), MAX_SETS + 3);
        assert!(text.contains("{otel_metric_overflow=\"true\"} 500"), "{text}");
    }

    #[test]
    fn text_has_names_by_convention_cumulative_buckets_and_only_domains_that_are_seen() {
        let meter = meter();
        for (domain, seconds) in [("desk", 0.03), ("desk", 500.0), ("secret \"x\"\n", 1.0)] {
            meter.record(CALL_DURATION, &[KeyValue::new(DOMAIN, domain)], seconds);
        }
        let text = meter.text(&|domain| domain == "desk");
        let name = "gen_ai_client_inference_duration_seconds";
        assert!(text.contains(&format!("# TYPE {name} histogram\n")), "{text}");
        assert!(
            text.contains(&format!("{name}_bucket{{loopgate_domain=\"desk\",le=\"0.02\"}} 0\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("{name}_bucket{{loopgate_domain=\"desk\",le=\"0.04\"}} 1\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!("{name}_bucket{{loopgate_domain=\"desk\",le=\"+Inf\"}} 2\n")),
            "{text}"
        );
        assert!(text.contains(&format!("{name}_count{{loopgate_domain=\"desk\"}} 2\n")), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let all = meter.text(&|_| true);
        assert!(all.contains(r#"loopgate_domain="secret \"x\"\n""#), "{all}");
    }

    #[test]
    fn every_metric_has_a_name_of_its_own() {
        let meter = meter();
        ALL.iter().for_each(|instrument| meter.record(instrument, &[], 1.0));
        let text = meter.text(&|_| true);
        let names: BTreeSet<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(names.len(), ALL.len(), "{text}");
    }
}
