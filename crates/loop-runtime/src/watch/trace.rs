//! The spans that calls receive: the program that is called finds the run in its own traces.

use std::fmt;
use std::sync::Arc;

use loop_core::Run;
use loop_core::run::RunTrace;
use loop_core::types::{CommandKey, RunId, SpanId, TraceId, TraceParent};

/// Decides which runs are traced.
pub trait TraceSampler: Send + Sync + fmt::Debug {
    /// Whether the spans of a run in this trace are recorded. The same run has to get the same decision in every process
    /// that drives it.
    fn samples(&self, run: &RunTrace) -> bool;
}

/// The spans that the calls of a run receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spans {
    /// None: the run is not traced, and its submitter named no span.
    No,
    /// That of the submitter, as it was given.
    Submitter(TraceParent),
    /// Each a span of its own.
    Own { trace: TraceId, is_sampled: bool },
}

impl Spans {
    pub(crate) fn of(sampler: Option<&Arc<dyn TraceSampler>>, run: &Run) -> Self {
        match (sampler, run.started().item.traceparent) {
            (None, None) => Self::No,
            (None, Some(submitter)) => Self::Submitter(submitter),
            (Some(sampler), _) => {
                let place = run.started().trace();
                Self::Own { trace: place.trace, is_sampled: sampler.samples(&place) }
            }
        }
    }

    pub(crate) fn of_call(self, run: &RunId, key: CommandKey, attempt: u32) -> Option<TraceParent> {
        match self {
            Self::No => None,
            Self::Submitter(submitter) => Some(submitter),
            Self::Own { trace, is_sampled } => {
                Some(TraceParent::of(trace, SpanId::of_call(run, key, attempt), is_sampled))
            }
        }
    }
}
