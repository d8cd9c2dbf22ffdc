//! Runs that are called as tools: begun within a lease, continued after a crash, and reported as a result.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use loop_core::run::{PersonRequest, Phase, StopMode};
use loop_core::spec::CostMode;
use loop_core::types::{ChildUse, Effect, EvidenceId, Observation, RunId, Status, StopClass, Taint, Totals};
use loop_core::{EventKind, Outcome, Run, RunSpec, StopReason, WorkItem};
use loop_journal::{JournalError, replay};
use loop_llm::Message;
use loop_tools::{ToolDeclaration, ToolResult};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::drive::approval;
use crate::drive::callee::{Callee, ChildCall, RunAsTool};
use crate::drive::driver::{DriverEnd, Opening, Pace};
use crate::drive::handle::ReadyRun;
use crate::drive::model::WorkEnd;
use crate::drive::parts::RunParts;
use crate::drive::runner::Runner;
use crate::drive::start_error::StartError;

/// How long to wait for the driver of another process that still has the run, before it is asked for again.
const BUSY: Duration = Duration::from_millis(200);

/// What a call asks a run to work on: its item, and the messages before it.
type ItemOf = dyn Fn(&Value) -> Result<(WorkItem, Vec<Message>), String> + Send + Sync;

/// A loop that calls are made to.
struct CalledLoop {
    runner: Runner,
    item: Box<ItemOf>,
}

impl RunAsTool {
    /// The runner as the tool that `declaration` describes. The tool counts as a read, because each effect of the run
    /// is judged in the run itself. `item` makes the work item of the run from the arguments, which match the declared
    /// schema. Its error is the result that the model reads.
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
        Self { declaration, callee: Arc::new(CalledLoop { runner, item: Box::new(item) }) }
    }
}

/// How far a run below came.
enum ChildResult {
    Ended(Outcome, Taint),
    /// It waits for people, whom it asks this.
    Waits(Outcome, Taint, Vec<PersonRequest>),
}

impl Callee for CalledLoop {
    fn called(
        self: Arc<Self>,
        declaration: ToolDeclaration,
        call: ChildCall,
        caller: Arc<RunParts>,
        cancel: CancellationToken,
        stopping: CancellationToken,
    ) -> BoxFuture<'static, WorkEnd> {
        async move {
            let (key, attempt, cap) = (call.key, call.attempt, call.markdown_chars);
            let ToolDeclaration { name, title, .. } = &declaration;
            let ((result, status), child) = match call.came(&self, &caller, &cancel, &stopping).await {
                Ok(ChildResult::Waits(outcome, taint, asks)) => {
                    let used = Box::new(used(&outcome, taint));
                    return WorkEnd { asks, ..WorkEnd::of(EventKind::RunWaits { key, attempt, used }) };
                }
                Ok(ChildResult::Ended(outcome, taint)) => {
                    (call.result(name, title, &outcome), used(&outcome, taint))
                }
                Err(why) => (failed(name, title, &why), why.used()),
            };
            let observed = caller.registry.observe(result, cap);
            let status = status.unwrap_or(observed.status);
            let observation = Observation { status, child: Some(Box::new(child)), ..observed };
            WorkEnd::of(EventKind::ToolFinished { key, attempt, observation: observation.into() })
        }
        .boxed()
    }
}

impl ChildCall {
    async fn came(
        &self,
        called: &CalledLoop,
        caller: &RunParts,
        cancel: &CancellationToken,
        stopping: &CancellationToken,
    ) -> Result<ChildResult, NoRun> {
        let arguments = self.parameters.value().map_err(|error| NoRun::Arguments(error.to_string()))?;
        let (item, history) = (called.item)(arguments).map_err(NoRun::Arguments)?;
        let runner = self.runner(&called.runner, caller);
        let item = WorkItem {
            scope: self.item.scope.clone(),
            caller: self.item.caller.clone(),
            trace: Some(self.item.trace.clone().unwrap_or_else(|| Arc::clone(&self.by.root.0))),
            traceparent: self.span.or(self.item.traceparent),
            ..item
        };
        let opening = match self.open(&runner, item, history).await? {
            ChildRun::Ended(outcome, taint) => return Ok(ChildResult::Ended(*outcome, taint)),
            ChildRun::Here(opening) => opening,
        };
        let begun = approval::begin(&runner, *opening, Pace::Own, Some(cancel));
        let ReadyRun { events, remote, mut driving, .. } = begun;
        // Its observers are the caller's.
        drop(events);
        let DriverEnd { outcome, requested, taint, .. } = tokio::select! {
            ended = &mut driving => ended,
            () = stopping.cancelled() => {
                remote.stop(StopMode::AtGate);
                driving.await
            }
        };
        Ok(match requested {
            Some(requested) => ChildResult::Waits(outcome, taint, requested),
            None => ChildResult::Ended(outcome, taint),
        })
    }

    /// The loop within the lease, with everything that flows down.
    fn runner(&self, of: &Runner, caller: &RunParts) -> Runner {
        of.clone().with(|parts| {
            let own = RunSpec::clone(&parts.spec);
            let mut limits = own.limits.clone().under(&self.lease);
            limits.cost_mode = match (self.cost_mode, limits.cost_mode) {
                (CostMode::Strict, _) => CostMode::Strict,
                (CostMode::Estimated, CostMode::After) => CostMode::Estimated,
                (_, own) => own,
            };
            let mut gate = own.gate.clone().under(&self.gate);
            parts.approver = parts.approver.take().or_else(|| caller.approver.clone());
            // Who answers another run here would not see what this one asks.
            gate.people &= caller.leaves || parts.approver.is_some();
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
    async fn open(&self, runner: &Runner, item: WorkItem, history: Vec<Message>) -> Result<ChildRun, NoRun> {
        loop {
            let key = Some(Arc::clone(&self.request_key));
            let run = match runner.open_keyed(item.clone(), history.clone(), key, None).await {
                Ok(opening) => return Ok(ChildRun::Here(Box::new(opening))),
                Err(StartError::Journal(JournalError::KeyTaken { run, .. })) => run,
                // Nothing is kept of either run, so that neither is continued.
                Err(StartError::Journal(JournalError::NotKept { .. })) => {
                    return Ok(ChildRun::Here(Box::new(runner.open(item, history).await?)));
                }
                Err(error) => return Err(error.into()),
            };
            let read = runner.journal().read(&run).await.map_err(StartError::from)?;
            let state = replay(&run, &read).map_err(StartError::from)?;
            if let Phase::Done { outcome } = state.phase() {
                return Ok(ChildRun::Ended(outcome.clone(), state.taint()));
            }
            match runner.reopen(&run).await {
                Ok(opening) => match self.with_said(runner, opening).await {
                    Ok(opening) => return Ok(ChildRun::Here(Box::new(opening))),
                    Err(error) => return Err(NoRun::Resume(error, Box::new(used_by(&state)))),
                },
                Err(StartError::Journal(JournalError::Busy { .. })) => tokio::time::sleep(BUSY).await,
                Err(error) => return Err(NoRun::Resume(error, Box::new(used_by(&state)))),
            }
        }
    }

    /// The run with what people said to it. What it refuses came too late: then it continues without.
    async fn with_said(&self, runner: &Runner, mut opening: Opening) -> Result<Opening, StartError> {
        let run = opening.run.id().clone();
        let said = runner.parts().take_said(&run);
        if opening.apply(said.into_iter().map(|kind| runner.masked(kind))).is_ok() {
            return Ok(opening);
        }
        drop(opening);
        runner.reopen(&run).await
    }

    /// The result of a run that ended, and its status where that does not follow from the result.
    fn result(&self, name: &Arc<str>, title: &str, outcome: &Outcome) -> (ToolResult, Option<Status>) {
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
            _ if outcome.stop.also_has(StopReason::InDoubt) => Some(Status::InDoubt),
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
enum NoRun {
    #[error("{0}")]
    Arguments(String),
    #[error("{}", not_begun(.0))]
    Start(#[from] StartError),
    /// It was begun before, and used this.
    #[error("it could not be resumed: {0}")]
    Resume(StartError, Box<ChildUse>),
}

/// Why a run did not begin. Its limits are those of its caller as well.
fn not_begun(error: &StartError) -> String {
    let within = match error {
        StartError::FirstPassUnpaid { .. } => " with what its own limits and the rest of its caller's allow",
        _ => "",
    };
    format!("it could not begin{within}: {error}")
}

impl NoRun {
    fn used(self) -> ChildUse {
        match self {
            Self::Arguments(_) | Self::Start(_) => ChildUse::default(),
            Self::Resume(_, used) => *used,
        }
    }
}

/// The run of a call.
enum ChildRun {
    Here(Box<Opening>),
    Ended(Box<Outcome>, Taint),
}

fn failed(name: &Arc<str>, title: &str, why: &NoRun) -> (ToolResult, Option<Status>) {
    let result = match why {
        NoRun::Arguments(message) => ToolResult::invalid_input(&**name, title, message),
        NoRun::Start(_) | NoRun::Resume(..) => ToolResult::failed(&**name, title, why),
    };
    (result, None)
}

fn used(outcome: &Outcome, taint: Taint) -> ChildUse {
    let stop = &outcome.stop;
    let (reason, effects, undone) = (stop.name().into(), stop.effects, stop.leaves_undone());
    ChildUse { reason, effects, undone, taint, ..sum(&outcome.run, &outcome.totals) }
}

/// What a run has used that cannot continue.
fn used_by(run: &Run) -> ChildUse {
    ChildUse { effects: run.effects(), undone: true, taint: run.taint(), ..sum(run.id(), run.totals()) }
}

fn sum(run: &RunId, totals: &Totals) -> ChildUse {
    ChildUse {
        run: Some(run.clone()),
        usage: totals.usage,
        cost: totals.cost,
        model_calls: totals.model_calls,
        tool_calls: totals.tool_calls,
        ..ChildUse::default()
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

impl RunParts {
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
        let renamed = |text| below(text, EvidenceId(3));
        assert_eq!(renamed("Full [E1], [E2, E10]. [E] [Ex] [E1"), "Full (E3.1), (E3.2, E3.10). [E] [Ex] [E1");
        assert_eq!(renamed(&"[E".repeat(3)), "[E[E[E");
    }
}
