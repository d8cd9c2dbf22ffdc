//! What reading a result adds to the taint of a run.

use crate::spec::{RunSpec, ToolSpec};
use crate::types::{Legs, Status};

impl Legs {
    /// The legs before anything is read: the work item's own.
    pub fn at_start(spec: &RunSpec) -> Self {
        Self { untrusted: spec.gate.item_untrusted, private: false }
    }

    /// The legs after an observation of `tool` was read. What a tool never said, because it was not run, marks nothing;
    /// an error can hold its words.
    pub fn after(self, tool: &ToolSpec, status: Status) -> Self {
        match status {
            Status::Denied | Status::Duplicate | Status::Skipped => self,
            Status::Ok
            | Status::Empty
            | Status::RetryableError
            | Status::PermanentError
            | Status::InvalidInput
            | Status::MalformedResult
            | Status::Timeout
            | Status::Cancelled
            | Status::Pending
            | Status::InDoubt => Self {
                untrusted: self.untrusted || tool.policy.returns_untrusted,
                private: self.private || tool.policy.reads_private,
            },
        }
    }
}
