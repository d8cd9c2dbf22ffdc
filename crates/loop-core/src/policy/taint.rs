//! The taint that a result adds to a run.

use crate::spec::{RunSpec, ToolPolicy, ToolSpec};
use crate::types::{Evidence, Observation, Status, Taint};

impl Taint {
    /// The taint before anything is read: untrusted if the work item is.
    pub fn at_start(spec: &RunSpec) -> Self {
        Self { untrusted: spec.gate.item_untrusted, private: false }
    }

    /// The taint after an observation of `tool` was read. A call that was not run adds none, since its result is the
    /// loop's own text. A failure adds taint, because it can contain the tool's text.
    pub fn after(self, tool: &ToolSpec, status: Status) -> Self {
        if status.is_unrun() {
            return self;
        }
        let ToolPolicy { returns_untrusted, reads_private, .. } = tool.policy;
        self.and(Self { untrusted: returns_untrusted, private: reads_private })
    }

    /// The taint after this result of `tool` was read: that of the tool, and what a run that it called had read.
    pub fn after_result(self, tool: &ToolSpec, result: &Observation) -> Self {
        let below = result.child.as_ref().map_or(Self::default(), |child| child.taint);
        self.after(tool, result.status).and(below)
    }
}

impl Evidence {
    /// The taint of a run that has read it, and nothing else. A tool that the spec does not have counts as untrusted and
    /// private.
    pub fn taint(&self, spec: &RunSpec) -> Taint {
        spec.tool(&self.tool).map_or(Taint { untrusted: true, private: true }, |tool| {
            Taint::default().after_result(tool, &self.observation)
        })
    }
}
