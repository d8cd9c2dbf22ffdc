//! Sends spans, log records and metrics over OTLP, on threads of the SDK. A slow or failing receiver delays nothing
//! else.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::{LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, LogExporter, MetricExporter, Protocol, RetryPolicy, SpanExporter,
    WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{self, BatchLogProcessor, LogBatch, SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::metrics::PeriodicReader;
use opentelemetry_sdk::trace::{self, BatchSpanProcessor, SpanData, SpanExporter as _, SpanProcessor as _};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::client::Client;
use crate::config::{Receiver, TelemetryConfig};
use crate::data::{self, Record};
use crate::meter::Meter;
use crate::queue::{Queue, Reports};

/// Queues and sends items. It never blocks.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) meter: Meter,
    spans: Option<Spans>,
    records: Option<Records>,
    longest_text: usize,
    /// The thread that drives the connections ends when this is dropped.
    running: Option<mpsc::Sender<()>>,
}

type Spans = (Arc<BatchSpanProcessor>, Arc<Queue>);
type Records = (SdkLoggerProvider, SdkLogger, Arc<Queue>);

impl Sender {
    /// Starts to send. A signal that cannot be sent is reported.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(config: &TelemetryConfig, reports: &Arc<Reports>) -> io::Result<Self> {
        let resource = &config.resource;
        let longest_text = config.longest_text;
        if !config.sends() {
            let meter = Meter::new(resource, None);
            return Ok(Self { meter, spans: None, records: None, longest_text, running: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, mut ended) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("loop-otel".to_owned());
        thread.spawn(move || runtime.block_on(ended.recv()))?;
        let exporters = Exporters { config, handle, reports };
        let (spans, records) = (exporters.spans(), exporters.records());
        let meter = Meter::new(resource, exporters.metrics());
        Ok(Self { meter, spans, records, longest_text, running: Some(running) })
    }

    /// Queues a span, or counts it as dropped.
    pub(crate) fn send_span(&self, mut span: SpanData) {
        let Some((processor, queue)) = &self.spans else { return };
        if queue.admits(data::limit_span(&mut span, self.longest_text)) {
            processor.on_end(span);
        }
    }

    /// Queues a log record, or counts it as dropped.
    pub(crate) fn send_record(&self, mut record: Record) {
        let Some((_, logger, queue)) = &self.records else { return };
        let body = data::cut(&record.body, self.longest_text).to_owned();
        let size = body.len() + data::limit(&mut record.attributes.0, self.longest_text);
        if !queue.admits(size) {
            return;
        }
        let severity = if record.is_warning { Severity::Warn } else { Severity::Info };
        let context = &record.context;
        let mut sent = logger.create_log_record();
        sent.set_event_name(record.name);
        sent.set_timestamp(record.time);
        sent.set_severity_number(severity);
        sent.set_severity_text(severity.name());
        sent.set_trace_context(context.trace_id(), context.span_id(), Some(context.trace_flags()));
        if !body.is_empty() {
            sent.set_body(body.into());
        }
        let attributes = record.attributes.0.into_iter();
        sent.add_attributes(attributes.map(|attribute| (attribute.key, data::log_value(attribute.value))));
        logger.emit(sent);
    }

    /// Sends the queued items, at most until this instant. Returns whether the queues are empty.
    pub(crate) async fn flush(&self, until: Instant) -> bool {
        let (flushing, mut flushed) = mpsc::channel::<()>(1);
        let spans = self.spans.as_ref().map(|(processor, _)| Arc::clone(processor));
        let logs = self.records.as_ref().map(|(provider, ..)| provider.clone());
        let metrics = self.meter.provider.clone();
        // Not a thread of the caller's runtime, whose end would wait for it.
        let started = std::thread::Builder::new().spawn(move || {
            _ = std::thread::scope(|scope| {
                scope.spawn(|| spans.map(|processor| processor.force_flush()));
                scope.spawn(|| logs.map(|provider| provider.force_flush()));
                metrics.force_flush()
            });
            drop(flushing);
        });
        let is_in_time = timeout_at(until, flushed.recv()).await.is_ok();
        started.is_ok() && is_in_time && self.counts().iter().all(|(waiting, _)| *waiting == 0)
    }

    /// How many spans and log records wait, and how many were dropped.
    pub(crate) fn counts(&self) -> [(u64, u64); 2] {
        let spans = self.spans.as_ref().map(|(_, queue)| queue.counts());
        let records = self.records.as_ref().map(|(_, _, queue)| queue.counts());
        [spans.unwrap_or_default(), records.unwrap_or_default()]
    }
}

impl Drop for Sender {
    /// Shuts the providers down on a thread of their own, since each waits for its receiver.
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let logs = self.records.as_ref().map(|(provider, ..)| provider.clone());
        let metrics = self.meter.provider.clone();
        _ = std::thread::Builder::new().spawn(move || {
            _ = logs.map(|provider| provider.shutdown());
            _ = metrics.shutdown();
            drop(running);
        });
    }
}

/// Builds the exporters of the signals.
struct Exporters<'a> {
    config: &'a TelemetryConfig,
    handle: Handle,
    reports: &'a Arc<Reports>,
}

impl Exporters<'_> {
    fn spans(&self) -> Option<Spans> {
        let mut exporter = self.built(self.config.traces.as_ref(), |receiver| {
            #[cfg(feature = "grpc")]
            if receiver.is_grpc {
                return Ok(crate::grpc::configured(SpanExporter::builder().with_tonic(), receiver)?.build());
            }
            Ok(self.http(SpanExporter::builder().with_http(), receiver)?.build())
        })?;
        exporter.set_resource(&self.config.resource);
        let (exporter, queue) = self.counted(exporter);
        let batches = trace::BatchConfigBuilder::default()
            .with_max_queue_size(self.config.max_queue)
            .with_max_export_batch_size(self.config.max_batch)
            .with_scheduled_delay(self.config.delay);
        Some((Arc::new(BatchSpanProcessor::new(exporter, batches.build())), queue))
    }

    fn records(&self) -> Option<Records> {
        let exporter = self.built(self.config.logs.as_ref(), |receiver| {
            #[cfg(feature = "grpc")]
            if receiver.is_grpc {
                return Ok(crate::grpc::configured(LogExporter::builder().with_tonic(), receiver)?.build());
            }
            Ok(self.http(LogExporter::builder().with_http(), receiver)?.build())
        })?;
        let (exporter, queue) = self.counted(exporter);
        let batches = logs::BatchConfigBuilder::default()
            .with_max_queue_size(self.config.max_queue)
            .with_max_export_batch_size(self.config.max_batch)
            .with_scheduled_delay(self.config.delay);
        let processor = BatchLogProcessor::builder(exporter).with_batch_config(batches.build()).build();
        let provider = SdkLoggerProvider::builder()
            .with_resource(self.config.resource.clone())
            .with_log_processor(processor)
            .build();
        let logger = provider.logger_with_scope(scope());
        Some((provider, logger, queue))
    }

    fn metrics(&self) -> Option<PeriodicReader<MetricExporter>> {
        let exporter = self.built(self.config.metrics.as_ref(), |receiver| {
            #[cfg(feature = "grpc")]
            if receiver.is_grpc {
                return Ok(crate::grpc::configured(MetricExporter::builder().with_tonic(), receiver)?.build());
            }
            Ok(self.http(MetricExporter::builder().with_http(), receiver)?.build())
        })?;
        Some(PeriodicReader::builder(exporter).with_interval(self.config.metric_interval).build())
    }

    fn counted<E>(&self, exporter: E) -> (CountingExporter<E>, Arc<Queue>) {
        let queue = Arc::new(Queue::new(self.config.max_queue, self.reports));
        (CountingExporter { exporter, queue: Arc::clone(&queue) }, queue)
    }

    /// The exporter of a signal. `None`: the signal is not sent, or the exporter cannot be built, which is reported.
    fn built<E>(
        &self,
        receiver: Option<&Receiver>,
        build: impl FnOnce(&Receiver) -> Result<Result<E, ExporterBuildError>, String>,
    ) -> Option<E> {
        let _entered = self.handle.enter();
        let built = build(receiver?).and_then(|built| built.map_err(|error| error.to_string()));
        let report = |why: &String| self.reports.once("exporter", &format!("{why}; nothing is sent there"));
        built.inspect_err(report).ok()
    }

    /// The builder of an exporter over HTTP.
    fn http<B: WithExportConfig + WithHttpConfig>(
        &self,
        builder: B,
        receiver: &Receiver,
    ) -> Result<B, String> {
        let client = Client::new(receiver, self.handle.clone(), Arc::clone(self.reports))?;
        let builder = builder
            .with_endpoint(receiver.url.as_str())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(LONGEST_TRIES)
            .with_retry_policy(retries())
            .with_http_client(client);
        Ok(if receiver.is_compressed { builder.with_compression(Compression::Gzip) } else { builder })
    }
}

pub(crate) fn retries() -> RetryPolicy {
    RetryPolicy::recommended()
        .with_max_retries(MAX_TRIES - 1)
        .with_initial_delay(FIRST_WAIT)
        .with_max_delay(LONGEST_WAIT)
        .with_max_jitter(FIRST_WAIT)
}

/// An exporter that counts the items that its receiver accepts.
#[derive(Debug)]
struct CountingExporter<E> {
    exporter: E,
    queue: Arc<Queue>,
}

impl<E> CountingExporter<E> {
    fn settled(&self, items: usize, sent: OTelSdkResult) -> OTelSdkResult {
        self.queue.settles(items, sent.is_ok());
        sent
    }
}

impl trace::SpanExporter for CountingExporter<SpanExporter> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let items = batch.len();
        self.settled(items, self.exporter.export(batch).await)
    }
}

impl logs::LogExporter for CountingExporter<LogExporter> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let items = batch.iter().count();
        self.settled(items, self.exporter.export(batch).await)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The instrumentation scope of spans, metrics and records.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("loopgate").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The most attempts to send a batch.
const MAX_TRIES: usize = 6;
/// The time limit of all attempts of a batch.
const LONGEST_TRIES: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(16);
