//! The taint that a result adds to a run.

use crate::spec::{RunSpec, ToolPolicy, ToolSpec};
use crate::types::{Status, Taint};

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
}
