//! The same state under another spec, to compute what would have followed.

use std::sync::Arc;

use crate::run::apply::Run;
use crate::run::event::Started;
use crate::spec::{RunSpec, SpecNames};

impl Run {
    /// The same state under another spec, as if the run had reached it under that spec. An event that is applied to it
    /// is judged by the other spec: by its limits, its gate, its models.
    ///
    /// Use it to compute what would have followed. Do not drive or journal it: its earlier decisions were made under
    /// the spec that it was started with.
    pub fn under(&self, spec: Arc<RunSpec>) -> Self {
        let names = SpecNames::of(&spec);
        let started =
            Started { spec: names.spec, policy: names.policy, ..Started::clone(&self.state.started) };
        let mut other = self.clone();
        other.spec = spec;
        other.state.started = Arc::new(started);
        other
    }
}
