//! Recordings in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use loop_core::secrets::Secrets;
use loop_llm::wrap::{Recorder, RecordingModel};
use loop_llm::{ChatModel, LlmError, ModelEvent, ModelRequest};
use serde_json::Value;

/// Bytes that were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A recorder, and what it writes.
pub(crate) struct Tape {
    pub(crate) recorder: Recorder,
    sink: Sink,
}

impl Tape {
    pub(crate) fn new(secrets: Secrets) -> Self {
        let sink = Sink::default();
        Self { recorder: Recorder::to(sink.clone(), secrets).unwrap(), sink }
    }

    pub(crate) fn model<M: ChatModel + ?Sized>(&self, inner: Arc<M>) -> RecordingModel<M> {
        RecordingModel::new(inner, self.recorder.clone(), "base")
    }

    /// Everything that was written.
    pub(crate) fn text(&self) -> String {
        self.recorder.finish().unwrap();
        String::from_utf8(self.sink.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines after the first.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Everything that a call gives, the error before the reply too.
pub(crate) async fn hear(model: &dyn ChatModel, request: &ModelRequest) -> Vec<Result<ModelEvent, LlmError>> {
    match model.stream(request).await {
        Ok(events) => events.collect().await,
        Err(error) => vec![Err(error)],
    }
}
