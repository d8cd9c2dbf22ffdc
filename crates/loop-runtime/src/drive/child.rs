//! Runs that are called as tools: begun within a lease, taken up after a crash, and told as a result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_core::run::{CalledBy, PersonRequest, Phase, RunTool, StopMode};
use loop_core::spec::GateSettings;
use loop_core::types::{
    Arguments, ChildUse, CommandKey, Effect, EvidenceId, Lease, Observation, RunId, Status, StopClass, Taint,
    TraceParent,
};
use loop_core::{EventKind, Outcome, Run, RunSpec, WorkItem};
use loop_journal::{JournalError, replay};
use loop_llm::Message;
use loop_tools::{Credentials, Tool, ToolContext, ToolDeclaration, ToolResult};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::drive::driver::{Ended, Opening, Pace};
use crate::drive::model::Settled;
use crate::drive::parts::Parts;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;

/// How long to wait for the driver of another process that still has the run, before it is asked for again.
const BUSY: Duration = Duration::from_millis(200);

/// What a call asks a run to work on: its item, and the messages before it.
type ItemOf = dyn Fn(&Value) -> Result<(WorkItem, Vec<Message>), String> + Send + Sync;

/// A loop as a tool of another loop: each call is a run of its own.
///
/// A call may use what is left to its caller and no more than the loop's own limits; that lease is taken before the run
/// starts, and what is not used returns. Taint flows down with the call and up with the result, the caller's policy holds
/// below, and both runs are in the caller's journal. A registry takes it as any tool.
#[derive(Clone)]
pub struct RunAsTool {
    declaration: ToolDeclaration,
    runner: Runner,
    item: Arc<ItemOf>,
}

impl fmt::Debug for RunAsTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAsTool").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}

impl RunAsTool {
    /// The loop `runner` as the tool that `declaration` describes. Its effect is to read: each effect of the run is judged
    /// in the run. `item` makes the run's item of the arguments, which fit the declared schema; an error is the result that
    /// the model reads.
    pub fn new(
        declaration: ToolDeclaration,
        runner: Runner,
        item: impl Fn(&Value) -> Result<WorkItem, String> + Send + Sync + 'static,
    ) -> Self {
        Self::answering(declaration, runner, move |arguments| Ok((item(arguments)?, Vec::new())))
    }

    /// The same, of a loop that answers messages.
    pub(crate) fn answering(
        declaration: ToolDeclaration,
        runner: Runner,
        item: impl Fn(&Value) -> Result<(WorkItem, Vec<Message>), String> + Send + Sync + 'static,
    ) -> Self {
        let mut declaration = declaration.effect(Effect::Read).attempts(1);
        declaration.policy.lease = Some(runner.spec().limits.lease());
        Self { declaration, runner, item: Arc::new(item) }
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

/// A call of a run that is ready to be made.
pub(crate) struct ChildCall {
    key: CommandKey,
    attempt: u32,
    parameters: Arguments,
    lease: Lease,
    by: CalledBy,
    /// The idempotency key, under which the journal has the run.
    request_key: Arc<str>,
    evidence: Option<EvidenceId>,
    /// The work item that the caller works on.
    item: WorkItem,
    gate: GateSettings,
    markdown_chars: usize,
    span: Option<TraceParent>,
}

/// How far a run below came.
enum Came {
    Ended(Outcome, Taint),
    /// It waits for people, whom it asks this.
    Waits(Outcome, Taint, Vec<PersonRequest>),
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
            markdown_chars: spec.limits.markdown_chars as usize,
            span,
        }
    }

    /// Makes the call and says how it ended. `cancel` stops the run at once, and `stopping` at its next gate.
    pub(crate) async fn run(
        self,
        tool: RunAsTool,
        caller: Arc<Parts>,
        cancel: CancellationToken,
        stopping: CancellationToken,
    ) -> Settled {
        let (key, attempt, cap) = (self.key, self.attempt, self.markdown_chars);
        let ToolDeclaration { name, title, .. } = &tool.declaration;
        let (result, child) = match self.came(&tool, &caller, &cancel, &stopping).await {
            Ok(Came::Waits(outcome, taint, asks)) => {
                let used = Box::new(used(&outcome, taint));
                return Settled { asks, ..Settled::of(EventKind::RunWaits { key, attempt, used }) };
            }
            Ok(Came::Ended(outcome, taint)) => (self.told(name, title, &outcome), used(&outcome, taint)),
            Err(why) => (told_failure(name, title, &why), ChildUse::default()),
        };
        let (result, status) = result;
        let observed = caller.registry.observe(result, cap);
        let status = status.unwrap_or(observed.status);
        let observation = Observation { status, child: Some(Box::new(child)), ..observed };
        Settled::of(EventKind::ToolFinished { key, attempt, observation: observation.into() })
    }

    async fn came(
        &self,
        tool: &RunAsTool,
        caller: &Parts,
        cancel: &CancellationToken,
        stopping: &CancellationToken,
    ) -> Result<Came, Why> {
        let arguments = self.parameters.value().map_err(|error| Why::Arguments(error.to_string()))?;
        let (item, history) = (tool.item)(arguments).map_err(Why::Arguments)?;
        let runner = self.runner(&tool.runner, caller);
        let item = WorkItem {
            scope: self.item.scope.clone(),
            caller: self.item.caller.clone(),
            trace: Some(self.item.trace.clone().unwrap_or_else(|| Arc::clone(&self.by.root.0))),
            traceparent: self.span.or(self.item.traceparent),
            ..item
        };
        let opening = match self.open(&runner, item, history).await? {
            Opened::Ended(outcome, taint) => return Ok(Came::Ended(*outcome, taint)),
            Opened::Here(opening) => opening,
        };
        let (driver, events, remote) = runner.driver(*opening, Pace::Own, Some(cancel));
        // Its observers are the caller's.
        drop(events);
        let mut driving = Box::pin(driver.drive());
        let Ended { outcome, requested, taint, .. } = tokio::select! {
            ended = &mut driving => ended,
            () = stopping.cancelled() => {
                remote.stop(StopMode::AtGate);
                driving.await
            }
        };
        Ok(match requested {
            Some(requested) => Came::Waits(outcome, taint, requested),
            None => Came::Ended(outcome, taint),
        })
    }

    /// The loop within the lease, with everything that flows down.
    fn runner(&self, of: &Runner, caller: &Parts) -> Runner {
        of.clone().with(|parts| {
            let own = RunSpec::clone(&parts.spec);
            let (limits, gate) = (own.limits.clone().under(&self.lease), own.gate.clone().under(&self.gate));
            parts.spec = Arc::new(RunSpec { limits, gate, ..own });
            parts.called_by = Some(self.by.clone());
            parts.journal = Arc::clone(&caller.journal);
            parts.secrets.extend(&caller.secrets);
            parts.leaves = caller.leaves;
            parts.said = Arc::clone(&caller.said);
            parts.shared = caller.shared.clone().or_else(|| parts.shared.take());
            parts.watchers = caller.watchers.clone();
            parts.sampler = caller.sampler.clone();
            parts.hooks = caller.hooks.clone();
            parts.program = caller.program.clone();
        })
    }

    /// The run of the call: a new one, or the one that an earlier driver of the caller began.
    async fn open(
        &self,
        runner: &Runner,
        item: WorkItem,
        history: Vec<Message>,
    ) -> Result<Opened, StartError> {
        loop {
            let key = Some(Arc::clone(&self.request_key));
            let run = match runner.open_keyed(item.clone(), history.clone(), key, None).await {
                Ok(opening) => return Ok(Opened::Here(Box::new(opening))),
                Err(StartError::Journal(JournalError::KeyTaken { run, .. })) => run,
                Err(error) => return Err(error),
            };
            let state = replay(&run, &runner.journal().read(&run).await?)?;
            if let Phase::Done { outcome } = state.phase() {
                return Ok(Opened::Ended(outcome.clone(), state.taint()));
            }
            match runner.reopen_with(&run, runner.parts().take_said(&run)).await {
                Ok(opening) => return Ok(Opened::Here(Box::new(opening))),
                Err(StartError::Journal(JournalError::Busy { .. })) => tokio::time::sleep(BUSY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// The result of a run that ended, and its status where that does not follow from the result.
    fn told(&self, name: &Arc<str>, title: &str, outcome: &Outcome) -> (ToolResult, Option<Status>) {
        let reason = outcome.stop.reason();
        let (text, data) = match (&outcome.output, &outcome.answer) {
            (Some(output), _) => (output.value.to_string(), json!(&*output.value)),
            (None, Some(answer)) => (answer.to_string(), json!(&**answer)),
            (None, None) => {
                let text = outcome.document.to_markdown();
                let sections = &outcome.document.sections;
                let sections = sections.iter().map(|it| (it.id.to_string(), json!(&*it.body)));
                (text, Value::Object(sections.collect()))
            }
        };
        let text = match self.evidence {
            Some(evidence) => below(&text, evidence),
            None => text,
        };
        let cost = &outcome.totals.cost;
        let summary = format!("run {} ended: {} ({cost})", outcome.run, reason.name());
        let is_blank = loop_core::types::is_blank(&text);
        let status = match outcome.stop.class {
            StopClass::InDoubt => Some(Status::InDoubt),
            StopClass::Cancelled => Some(Status::Cancelled),
            StopClass::Answered | StopClass::Partial if !is_blank => None,
            StopClass::Answered | StopClass::Partial | StopClass::Failed => Some(Status::RetryableError),
            StopClass::Refused | StopClass::NeedsHuman => Some(Status::PermanentError),
        };
        if is_blank {
            return (ToolResult::failed(&**name, title, &summary), status);
        }
        let ended = match outcome.stop.class {
            StopClass::Answered => String::new(),
            _ => format!("\n\nThis run ended before it had all that it needs: {}.", reason.name()),
        };
        let data = json!({ "run": &*outcome.run.0, "reason": reason.name(), "result": data });
        (ToolResult::ok(&**name, summary, format!("{}{ended}", text.trim_end()), data), status)
    }
}

/// Why a call comes to no run.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("{0}")]
    Arguments(String),
    #[error("it could not begin: {0}")]
    Start(#[from] StartError),
}

/// The run of a call.
enum Opened {
    Here(Box<Opening>),
    Ended(Box<Outcome>, Taint),
}

fn told_failure(name: &Arc<str>, title: &str, why: &Why) -> (ToolResult, Option<Status>) {
    let result = match why {
        Why::Arguments(message) => ToolResult::invalid_input(&**name, title, message),
        Why::Start(_) => ToolResult::failed(&**name, title, why),
    };
    (result, None)
}

fn used(outcome: &Outcome, taint: Taint) -> ChildUse {
    let totals = &outcome.totals;
    ChildUse {
        run: Some(outcome.run.clone()),
        usage: totals.usage,
        cost: totals.cost,
        model_calls: totals.model_calls,
        tool_calls: totals.tool_calls,
        undone: outcome.stop.leaves_undone(),
        taint,
    }
}

/// A text whose citations of its own evidence are written as those of a run below: `[E1, E2]` as `(E3.1, E3.2)`, where the
/// run is evidence `E3`. In brackets they would cite the caller's.
fn below(text: &str, of: EvidenceId) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("[E") {
        let (before, cited) = rest.split_at(at);
        out.push_str(before);
        let inner = cited.get(1..).unwrap_or_default();
        let end = inner.find(|c: char| !matches!(c, 'E' | ',' | ' ') && !c.is_ascii_digit());
        let names = end.and_then(|end| inner.split_at_checked(end));
        let names = names.and_then(|(names, after)| Some((names, after.strip_prefix(']')?)));
        let Some((names, after)) = names.filter(|(names, _)| is_citation(names)) else {
            out.push_str("[E");
            rest = cited.get(2..).unwrap_or_default();
            continue;
        };
        let numbers = names.split(',').map(|name| format!("{of}.{}", name.trim().trim_start_matches('E')));
        out.push_str(&format!("({})", numbers.collect::<Vec<_>>().join(", ")));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_citation(names: &str) -> bool {
    let is_one = |name: &str| {
        let digits = name.trim().strip_prefix('E');
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    names.split(',').all(is_one)
}

impl Parts {
    /// What people said to this run before its caller was resumed. It is taken once.
    fn take_said(&self, run: &RunId) -> Vec<EventKind> {
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        said.remove(run).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_below_does_not_cite_the_caller_s_evidence() {
        let told = |text| below(text, EvidenceId(3));
        assert_eq!(told("Full [E1], [E2, E10]. [E] [Ex] [E1"), "Full (E3.1), (E3.2, E3.10). [E] [Ex] [E1");
        assert_eq!(told(&"[E".repeat(3)), "[E[E[E");
    }
}
