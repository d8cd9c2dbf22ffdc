//! What reading a result adds to the taint of a run.

use crate::spec::{RunSpec, ToolPolicy, ToolSpec};
use crate::types::{Status, Taint};

impl Taint {
    /// The taint before anything is read: the work item's own.
    pub fn at_start(spec: &RunSpec) -> Self {
        Self { untrusted: spec.gate.item_untrusted, private: false }
    }

    /// The taint after an observation of `tool` was read. What a tool never said, because it was not run, marks nothing;
    /// an error can hold its words.
    pub fn after(self, tool: &ToolSpec, status: Status) -> Self {
        if status.is_unrun() {
            return self;
        }
        let ToolPolicy { returns_untrusted, reads_private, .. } = tool.policy;
        self.and(Self { untrusted: returns_untrusted, private: reads_private })
    }
}
