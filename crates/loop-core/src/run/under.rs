//! The same state under another spec: for the question what would have followed.

use std::sync::Arc;

use crate::run::apply::Run;
use crate::run::event::Started;
use crate::spec::{RunSpec, SpecNames};

impl Run {
    /// The same state under another spec, as if the run had come here under it. An event that is applied to it is
    /// judged by the other spec: by its limits, its gate, its models.
    ///
    /// It answers what would have followed. It must not be driven or journaled: what it read so far was decided under
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
