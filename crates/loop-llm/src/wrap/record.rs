//! Records the exchanges of a model.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use loop_core::secrets::Secrets;

use super::exchange::{CompleteExchange, End, Header, RECORDING_VERSION};
use super::{CallerTimeout, Item, Watch, watched};
use crate::error::LlmError;
use crate::model::{ChatModel, EventStream, ModelEvent};
use crate::request::ModelRequest;
use crate::scripted::RequestPurpose;

/// A recording that could not be created or completed: one line, with how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordingError {
    message: String,
}

/// Writes exchanges to a file: one line each, written and flushed when the exchange has ended.
///
/// Several models may share one, each with a clone; every line names its model. A separate thread masks and writes, so
/// that a slow disk does not delay a run. Dropping the last clone waits until everything is written. [`Recorder::finish`]
/// does too, and reports errors.
#[derive(Clone)]
pub struct Recorder {
    writer: Arc<Writer>,
}

struct Writer {
    /// `None` once the last clone was dropped.
    jobs: Option<Sender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Job {
    Write(Box<CompleteExchange>),
    Tell(Sender<Result<u64, RecordingError>>),
}

impl Recorder {
    /// Creates a new file that only its owner can read, as prompts and replies may be confidential. None of `secrets` is
    /// written; headers are never recorded.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(path: impl AsRef<Path>, secrets: Secrets) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let file = new_file(path).map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    format!("the recording {} exists; name another file, or remove it", path.display())
                }
                _ => format!(
                    "cannot begin the recording {}: {error}; name a file that can be written",
                    path.display()
                ),
            };
            RecordingError { message }
        })?;
        Self::start(file, path.display().to_string(), secrets)
    }

    /// Writes to any writer, without `secrets`.
    ///
    /// # Errors
    /// The first line cannot be written.
    pub fn to(sink: impl Write + Send + 'static, secrets: Secrets) -> Result<Self, RecordingError> {
        Self::start(sink, "of this run".to_owned(), secrets)
    }

    fn start(
        sink: impl Write + Send + 'static,
        name: String,
        secrets: Secrets,
    ) -> Result<Self, RecordingError> {
        let mut tape = RecordFile { sink, name, secrets, written: 0, fault: None };
        tape.line(&Header { recording: RECORDING_VERSION })?;
        let (jobs, inbox) = mpsc::channel();
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            for job in inbox {
                match job {
                    Job::Write(received) => tape.write(*received),
                    // The receiver may be gone.
                    Job::Tell(to) => drop(to.send(tape.reported())),
                }
            }
        });
        let thread = thread
            .map_err(|error| RecordingError { message: format!("cannot begin a recording: {error}") })?;
        Ok(Self { writer: Arc::new(Writer { jobs: Some(jobs), thread: Mutex::new(Some(thread)) }) })
    }

    /// Waits until all exchanges that have ended are written, and returns their number. It blocks the thread: call it at
    /// the end of a program.
    ///
    /// # Errors
    /// The error after which nothing more was written.
    pub fn finish(&self) -> Result<u64, RecordingError> {
        let (to, answer) = mpsc::channel();
        self.send(Job::Tell(to));
        let lost =
            |_| Err(RecordingError { message: "the recording broke off: its writer is gone".to_owned() });
        answer.recv().unwrap_or_else(lost)
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.writer.jobs {
            // The writer ends after the last sender; if it is gone, `finish` reports that.
            drop(jobs.send(job));
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the writer was printed already.
        thread.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The file, on its own thread.
struct RecordFile<W> {
    sink: W,
    name: String,
    secrets: Secrets,
    written: u64,
    fault: Option<RecordingError>,
}

impl<W: Write> RecordFile<W> {
    fn write(&mut self, received: CompleteExchange) {
        if self.fault.is_some() {
            return;
        }
        let seq = self.written + 1;
        let result = received.written(seq, &self.secrets).map_err(|_| RecordingError {
            message: format!(
                "the recording {} ends before call {seq}: a secret is also a word of the file's own form; \
                 use another key",
                self.name
            ),
        });
        match result.and_then(|exchange| self.line(&exchange)) {
            Ok(()) => self.written = seq,
            Err(fault) => self.fault = Some(fault),
        }
    }

    fn line(&mut self, line: &impl serde::Serialize) -> Result<(), RecordingError> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| self.failed(&error))?;
        bytes.push(b'\n');
        // One write, so that each line is either complete or missing.
        self.sink.write_all(&bytes).and_then(|()| self.sink.flush()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn fmt::Display) -> RecordingError {
        let message = format!(
            "the recording {} is not whole: {error}; nothing after call {} is in it",
            self.name, self.written
        );
        RecordingError { message }
    }

    fn reported(&self) -> Result<u64, RecordingError> {
        self.fault.clone().map_or(Ok(self.written), Err)
    }
}

/// A model whose exchanges are recorded: the request, every event, and the end, also of a stream that is dropped. The
/// reply is not changed. A recording that fails does not fail the call, and [`Recorder::finish`] reports it.
#[derive(Debug)]
pub struct RecordingModel<M: ?Sized> {
    recorder: Recorder,
    tier: Arc<str>,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> RecordingModel<M> {
    /// Wraps `inner`, recorded by `recorder` under the name `tier`, such as `base`.
    pub fn new(inner: Arc<M>, recorder: Recorder, tier: impl Into<Arc<str>>) -> Self {
        Self { recorder, tier: tier.into(), inner }
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for RecordingModel<M> {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    fn masks(&self) -> bool {
        self.inner.masks()
    }

    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        self.inner.resumes(run, answered);
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let mut hearing = OpenExchange {
            recorder: self.recorder.clone(),
            patience: CallerTimeout::of(request),
            requested: Some((Arc::clone(&self.tier), request.clone())),
            events: Vec::new(),
            end: None,
        };
        match self.inner.stream(request).await {
            Ok(events) => Ok(watched(events, hearing)),
            Err(error) => {
                hearing.end = Some(End::Refused { error: error.clone() });
                Err(error)
            }
        }
    }
}

/// An exchange in progress.
struct OpenExchange {
    recorder: Recorder,
    patience: CallerTimeout,
    requested: Option<(Arc<str>, ModelRequest)>,
    events: Vec<ModelEvent>,
    end: Option<End>,
}

impl Watch for OpenExchange {
    fn see(&mut self, item: &mut Item) {
        match item {
            Ok(ModelEvent::Finished(reply)) => self.end = Some(End::Reply { reply: reply.clone() }),
            Ok(event) => self.events.push(event.clone()),
            Err(error) => self.end = Some(End::failed(error)),
        }
    }

    fn broke_off(&mut self) {
        self.end = Some(End::BrokeOff);
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        let Some((tier, request)) = self.requested.take() else { return };
        let events = std::mem::take(&mut self.events);
        let end = self.end.take().unwrap_or(End::Dropped { is_late: self.patience.is_over() });
        self.recorder.send(Job::Write(Box::new(CompleteExchange { tier, request, events, end })));
    }
}
