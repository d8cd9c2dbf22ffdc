//! Metrics: counters and histograms, each with a bounded number of attribute sets.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::data::{Value, nanos, write_attribute};
use crate::proto::Message;

/// A metric: its name, unit and description, and the bounds of its buckets. A counter has none.
#[derive(Debug)]
pub(crate) struct Instrument {
    pub(crate) name: &'static str,
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
        #[cfg(test)]
        pub(crate) const ALL: &[&Instrument] = &[$($id),*];
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
pub(crate) type Labels = Vec<(&'static str, String)>;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Meter {
    start_ms: u64,
    series: Mutex<BTreeMap<&'static str, Series>>,
}

#[derive(Debug)]
struct Series {
    instrument: &'static Instrument,
    points: BTreeMap<Labels, Point>,
}

#[derive(Clone, Debug, Default)]
struct Point {
    count: u64,
    sum: f64,
    buckets: Vec<u64>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { start_ms: crate::unix_ms(), series: Mutex::default() }
    }

    /// Adds to a counter, or a value to a histogram.
    pub(crate) fn record(&self, instrument: &'static Instrument, labels: Labels, value: f64) {
        let mut all = self.lock();
        let series =
            all.entry(instrument.name).or_insert_with(|| Series { instrument, points: BTreeMap::new() });
        let is_room = series.points.len() < MAX_SETS || series.points.contains_key(&labels);
        let labels = if is_room { labels } else { vec![(OVERFLOW, "true".to_owned())] };
        let point = series.points.entry(labels).or_default();
        point.count += 1;
        point.sum += value;
        if !instrument.bounds.is_empty() {
            point.buckets.resize(instrument.bounds.len() + 1, 0);
            let at =
                instrument.bounds.iter().position(|bound| value <= *bound).unwrap_or(instrument.bounds.len());
            if let Some(bucket) = point.buckets.get_mut(at) {
                *bucket += 1;
            }
        }
    }

    /// The metrics as items of a request, with all that was measured since the start.
    pub(crate) fn encoded(&self) -> Vec<Vec<u8>> {
        let now = nanos(crate::unix_ms());
        let start = nanos(self.start_ms);
        self.lock().values().map(|series| series.encoded(start, now)).collect()
    }

    /// The metrics as text for Prometheus, as far as their domain is one of those that a caller `sees`.
    pub(crate) fn text(&self, sees: &dyn Fn(&str) -> bool) -> String {
        let mut text = String::new();
        for series in self.lock().values() {
            series.write_text(&mut text, sees);
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    fn encoded(&self, start: u64, now: u64) -> Vec<u8> {
        let Self { instrument, points } = self;
        let mut metric = Message::default();
        metric.text(1, instrument.name);
        metric.text(2, instrument.help);
        metric.text(3, instrument.unit);
        let is_counter = instrument.bounds.is_empty();
        metric.message(if is_counter { SUM } else { HISTOGRAM }, |data| {
            for (labels, point) in points {
                data.message(1, |message| {
                    for (name, value) in labels {
                        write_attribute(
                            message,
                            if is_counter { 7 } else { 9 },
                            name,
                            &Value::Text(value.clone()),
                            usize::MAX,
                        );
                    }
                    message.fixed64(2, start);
                    message.fixed64(3, now);
                    if is_counter {
                        message.double(4, point.sum);
                        return;
                    }
                    message.fixed64(4, point.count);
                    message.double(5, point.sum);
                    message.packed(6, point.buckets.iter().map(|count| count.to_le_bytes()));
                    message.packed(7, instrument.bounds.iter().map(|bound| bound.to_le_bytes()));
                });
            }
            data.int(2, CUMULATIVE);
            if is_counter {
                data.int(3, 1);
            }
        });
        metric.into_bytes()
    }

    fn write_text(&self, text: &mut String, sees: &dyn Fn(&str) -> bool) {
        let Self { instrument, points } = self;
        let seen =
            |labels: &Labels| labels.iter().all(|(name, value)| *name != crate::names::DOMAIN || sees(value));
        if !points.keys().any(seen) {
            return;
        }
        let is_counter = instrument.bounds.is_empty();
        let name = instrument.text_name();
        let kind = if is_counter { "counter" } else { "histogram" };
        _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", instrument.help);
        for (labels, point) in points.iter().filter(|(labels, _)| seen(labels)) {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{}=\"{}\"", plain(name), quoted(value))).collect();
            let labels = labels.join(",");
            if is_counter {
                _ = writeln!(text, "{name}{{{labels}}} {}", point.sum);
                continue;
            }
            let comma = if labels.is_empty() { "" } else { "," };
            let mut below = 0;
            for (count, bound) in point.buckets.iter().zip(instrument.bounds) {
                below += count;
                _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
            }
            _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", point.count);
            _ = writeln!(text, "{name}_sum{{{labels}}} {}", point.sum);
            _ = writeln!(text, "{name}_count{{{labels}}} {}", point.count);
        }
    }
}

impl Instrument {
    /// The name for Prometheus: with the unit, and `_total` where it is a counter.
    fn text_name(&self) -> String {
        let unit = if self.unit == "s" { "_seconds" } else { "" };
        let total = if self.bounds.is_empty() { "_total" } else { "" };
        format!("{}{unit}{total}", plain(self.name))
    }
}

fn plain(name: &str) -> String {
    name.replace('.', "_")
}

/// A value as it is between quotation marks.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The most attribute sets of one metric; what comes after them is counted together.
const MAX_SETS: usize = 1_000;
/// The attribute of what is counted together.
const OVERFLOW: &str = "otel.metric.overflow";
const SUM: u32 = 7;
const HISTOGRAM: u32 = 9;
const CUMULATIVE: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::DOMAIN;

    #[test]
    fn the_attribute_sets_of_a_metric_are_bounded_and_nothing_is_left_out_of_the_sum() {
        let meter = Meter::new();
        for nth in 0..MAX_SETS + 500 {
            meter.record(INPUT_TOKENS, vec![("model", nth.to_string())], 1.0);
        }
        let text = meter.text(&|_| true);
        assert_eq!(text.lines().count(), MAX_SETS + 3);
        assert!(text.contains("{otel_metric_overflow=\"true\"} 500"), "{text}");
    }

    #[test]
    fn text_has_names_by_convention_cumulative_buckets_and_only_domains_that_are_seen() {
        let meter = Meter::new();
        for (domain, seconds) in [("desk", 0.03), ("desk", 500.0), ("secret \"x\"\n", 1.0)] {
            meter.record(CALL_DURATION, vec![(DOMAIN, domain.to_owned())], seconds);
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
        let mut names: Vec<String> = ALL.iter().map(|instrument| instrument.text_name()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
