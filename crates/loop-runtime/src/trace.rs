//! The spans that calls are told of: who is called finds the run in its own traces.

use std::fmt;
use std::sync::Arc;

use loop_core::{CommandKey, Run, RunId, RunTrace, SpanId, TraceId, TraceParent};

use loop_llm::ChatModel;

use crate::model::Models;
use crate::parts::{Parts, Runner};

/// Decides which runs are traced.
pub trait TraceSampler: Send + Sync + fmt::Debug {
    /// Whether the spans of a run in this trace are recorded. The same run has to get the same decision in every process
    /// that drives it.
    fn samples(&self, run: &RunTrace) -> bool;
}

impl Runner {
    /// The same loop, whose runs are traced as the sampler decides: their model calls and tool calls are told of a span of
    /// their own ([`SpanId::of_call`](loop_core::SpanId::of_call)) in the submitter's trace, or in one of the run. Somebody
    /// else records the spans: an [`Observer`](crate::observe::Observer). Without a sampler, calls are told of the submitter's span as it was given.
    pub fn with_tracing(self, sampler: Arc<dyn TraceSampler>) -> Self {
        self.with(|parts| parts.sampler = Some(sampler))
    }

    /// The same loop with other models: each is what `change` makes of the one before. One that serves several tiers is
    /// changed for each of them.
    pub fn with_changed_models(
        self,
        mut change: impl FnMut(Arc<dyn ChatModel>) -> Arc<dyn ChatModel>,
    ) -> Self {
        self.with(|parts| {
            let Models { selector, base, escalated, fallback } = parts.models.clone();
            parts.models = Models {
                selector: change(selector),
                base: change(base),
                escalated: change(escalated),
                fallback: change(fallback),
            };
        })
    }
}

/// The spans that the calls of a run are told of.
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
    pub(crate) fn of(parts: &Parts, run: &Run) -> Self {
        match (&parts.sampler, run.started().item.traceparent) {
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
