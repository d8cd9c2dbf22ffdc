//! The trace context of a run.

use crate::run::event::Started;
use crate::types::{RunId, SpanId, TraceId, TraceParent};

/// The trace and the span of a run. The trace is that of the submitter, or the run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTrace {
    /// The trace.
    pub trace: TraceId,
    /// The span of the run.
    pub span: SpanId,
    /// The span of the submitter. `None`: the run begins the trace.
    pub submitter: Option<TraceParent>,
}

impl RunTrace {
    /// The trace and the span of a run with this submitter.
    pub fn new(run: &RunId, submitter: Option<TraceParent>) -> Self {
        let trace = submitter.map_or_else(|| TraceId::of_run(run), |submitter| submitter.trace);
        Self { trace, span: SpanId::of_run(run), submitter }
    }
}

impl Started {
    /// The trace and the span of the run.
    pub fn trace(&self) -> RunTrace {
        RunTrace::new(&self.run, self.item.traceparent)
    }

    /// The trace and the span of the run whose work it continues. A fork or a retry has its parent's item, so both runs
    /// have the same submitter. `None`: it began with its work item alone.
    pub fn parent_trace(&self) -> Option<RunTrace> {
        let parent = self.parent.as_deref()?;
        Some(RunTrace::new(&parent.run, self.item.traceparent))
    }
}
