//! The sampler: which runs are traced. It depends on the trace id alone, so that each process that drives a run decides
//! alike.

use loop_core::run::RunTrace;
use loop_core::types::{Digest, TraceId};
use loop_runtime::observe::TraceSampler;

/// Which runs are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sampler {
    On,
    Off,
    /// Runs whose trace id yields at least this number, out of 2⁵⁶.
    From(u64),
    /// As the submitter's trace context says. Without one, as this sampler says.
    BySubmitter(Box<Sampler>),
}

impl Sampler {
    /// This share of all traces, from 0 to 1.
    pub(crate) fn ratio(share: f64) -> Self {
        let all = (1_u64 << RANDOM_BITS) as f64;
        Self::From((all * (1.0 - share)) as u64)
    }

    pub(crate) fn by_submitter(self) -> Self {
        Self::BySubmitter(Box::new(self))
    }
}

impl TraceSampler for Sampler {
    fn samples(&self, run: &RunTrace) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::From(least) => random(&run.trace) >= *least,
            Self::BySubmitter(other) => {
                run.submitter.map_or_else(|| other.samples(run), |submitter| submitter.is_sampled())
            }
        }
    }
}

/// A number derived from a trace id. The id itself may be a time-ordered UUID, so that neighbours are similar.
fn random(trace: &TraceId) -> u64 {
    let digest = Digest::of("sample", trace.bytes());
    digest.0.iter().take(RANDOM_BITS as usize / 8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const RANDOM_BITS: u32 = 56;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use loop_core::types::{RunId, TraceParent};
    use loop_runtime::Runner;

    use super::*;

    fn place(submitter: Option<TraceParent>) -> RunTrace {
        RunTrace::new(&RunId::new("r"), submitter)
    }

    #[test]
    fn the_submitter_decides_where_it_may() {
        let given =
            |flags| TraceParent { flags, ..TraceParent::of(place(None).trace, place(None).span, true) };
        let by = Sampler::Off.by_submitter();
        assert!(by.samples(&place(Some(given(1)))) && !by.samples(&place(Some(given(0)))));
        assert!(!by.samples(&place(None)) && Sampler::On.samples(&place(Some(given(0)))));
    }

    #[test]
    fn a_share_of_runs_is_about_that_share_and_none_and_all_are_exact() {
        let runs: Vec<RunTrace> = (0..4_000).map(|_| RunTrace::new(&Runner::new_id(), None)).collect();
        let share = |ratio| runs.iter().filter(|run| Sampler::ratio(ratio).samples(run)).count();
        assert_eq!((share(0.0), share(1.0)), (0, runs.len()));
        // Six standard deviations.
        assert!((400 - 180..=400 + 180).contains(&share(0.1)), "{}", share(0.1));
    }
}
