//! A run that is called as a tool, as the driver of its caller sees it: the tool, and a call of it as data.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use loop_core::Run;
use loop_core::WorkItem;
use loop_core::run::{CalledBy, RunTool};
use loop_core::spec::{CostMode, GateSettings};
use loop_core::types::{Arguments, CommandKey, EvidenceId, Lease, TraceParent};
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::drive::model::WorkEnd;
use crate::drive::parts::RunParts;

/// A runner as a tool of another runner: each call is a run of its own.
///
/// A call may use what is left of its caller's limits, and at most the limits of its own spec. This lease is reserved
/// before the run starts, and the unused rest is returned. The called run begins with the caller's taint, and its own
/// taint is added to the caller's. The caller's policy applies to both. Both runs are in the caller's journal. A
/// registry takes it like any tool.
#[derive(Clone)]
pub struct RunAsTool {
    pub(super) declaration: ToolDeclaration,
    pub(super) callee: Arc<dyn Callee>,
}

impl fmt::Debug for RunAsTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAsTool").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl Tool for RunAsTool {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, _: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        let ToolDeclaration { name, title, .. } = &self.declaration;
        ToolResult::failed(&**name, title, "it is a run of its own, and no loop made this call")
    }
}

impl RunAsTool {
    /// The parameter of a tool that declares no others: the work for the run, as a text.
    pub const TASK: &str = "task";

    /// The JSON Schema of such a call: an object that must have [`TASK`](Self::TASK) and may have nothing else.
    pub fn task_schema() -> Value {
        let task =
            json!({ "type": "string", "description": "What it is to do, with all that it has to know" });
        let properties = json!({ Self::TASK: task });
        json!({
            "type": "object", "properties": properties, "required": [Self::TASK], "additionalProperties": false,
        })
    }

    /// Makes a call and says how it ended. `cancel` stops the run at once, and `stopping` at its next gate.
    pub(crate) fn run(
        &self,
        call: ChildCall,
        caller: Arc<RunParts>,
        cancel: CancellationToken,
        stopping: CancellationToken,
    ) -> BoxFuture<'static, WorkEnd> {
        Arc::clone(&self.callee).called(self.declaration.clone(), call, caller, cancel, stopping)
    }
}

/// The loop behind such a tool.
pub(crate) trait Callee: Send + Sync {
    /// Makes a call. `cancel` stops the run at once, and `stopping` at its next gate.
    fn called(
        self: Arc<Self>,
        declaration: ToolDeclaration,
        call: ChildCall,
        caller: Arc<RunParts>,
        cancel: CancellationToken,
        stopping: CancellationToken,
    ) -> BoxFuture<'static, WorkEnd>;
}

/// A call of a run that is ready to be made.
pub(crate) struct ChildCall {
    pub(super) key: CommandKey,
    pub(super) attempt: u32,
    pub(super) parameters: Arguments,
    pub(super) lease: Lease,
    pub(super) by: CalledBy,
    /// The idempotency key, under which the journal has the run.
    pub(super) request_key: Arc<str>,
    pub(super) evidence: Option<EvidenceId>,
    /// The work item that the caller works on.
    pub(super) item: WorkItem,
    pub(super) gate: GateSettings,
    pub(super) cost_mode: CostMode,
    pub(super) markdown_chars: usize,
    pub(super) span: Option<TraceParent>,
}

impl ChildCall {
    pub(crate) fn of(run: &Run, command: &RunTool, lease: Lease, span: Option<TraceParent>) -> Self {
        let action = run.actions().iter().find(|action| action.key == command.key);
        let spec = run.spec();
        Self {
            key: command.key,
            attempt: command.attempt,
            parameters: command.parameters.clone(),
            lease,
            by: run.calling(command.key),
            request_key: run.idempotency_key(&command.key),
            evidence: action.and_then(|action| action.evidence),
            item: run.started().item.clone(),
            gate: spec.gate.clone(),
            cost_mode: spec.limits.cost_mode,
            markdown_chars: spec.limits.markdown_chars as usize,
            span,
        }
    }
}
