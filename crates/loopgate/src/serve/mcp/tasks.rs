//! Runs as MCP tasks: the run's id is the task's, and the journal stores it. A question becomes a request for input. An
//! approval never does, since a client cannot give one.

use loop_core::types::{RunId, StopClass};
use rmcp::model::{
    CreateTaskResult, DetailedTask, InputRequest, InputRequests, ProtocolVersion, Task, TaskPayload,
    TaskStatus, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::runs::LivePhase;
use super::service::{Service, is_question, read};
use super::tools::{RunArguments, RunResult};

use crate::output::Failure;

/// The recommended poll interval of clients, in milliseconds.
const POLL_MS: u64 = 1_000;

/// The recorded answer if the user gives none.
const NO_ANSWER: &str = "The user was asked and gave no answer.";

/// Whether the client of this request accepts a task in place of a result.
pub(crate) fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    let is_newer = context.protocol_version().is_some_and(|it| it >= ProtocolVersion::V_2026_07_28);
    is_newer && context.client_capabilities().is_some_and(|it| it.supports_tasks())
}

impl Service {
    /// Starts a run and returns its task at once.
    pub(crate) async fn run_as_task(
        &self,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CreateTaskResult, Failure> {
        let RunArguments { item, key, .. } = read(arguments)?;
        let id = self.start(item, key, context).await?.id;
        let mut task = self.task(id.as_str(), context).await?.task;
        // How it ended is said when the task is read.
        task.status = TaskStatus::Working;
        Ok(CreateTaskResult::new(task))
    }

    /// The state of a run as a task.
    pub(crate) async fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<DetailedTask, Failure> {
        let line = self.runs.line(id).await?;
        let (recorded, run) = self.runs.read(&line.run).await?;
        let at = |unix_ms: u64| {
            let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
            jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default()
        };
        let updated = at(line.unix_ms.saturating_add(run.elapsed_ms()));
        let mut task = Task::new(id, TaskStatus::Working, at(line.unix_ms), updated);
        task.poll_interval_ms = Some(POLL_MS);
        let payload = match run.outcome() {
            Some(outcome) if outcome.stop.primary.reason.class() == StopClass::Cancelled => {
                TaskPayload::Cancelled
            }
            Some(_) => match serde_json::to_value(self.shown(&line.run, false).await?)? {
                Value::Object(result) => TaskPayload::Completed { result },
                _ => TaskPayload::Working,
            },
            None => {
                let live = self.runs.live(&line.run).map(|live| live.borrow().clone());
                let live = live.filter(|live| live.phase == LivePhase::Running);
                let message = match &live {
                    Some(live) => live.message.to_string(),
                    None => {
                        RunResult::new(&run, &recorded.manifest, line.is_written, false, &self.runs.at()).next
                    }
                };
                task.status_message = Some(self.masked(&message));
                let may_ask = context.client_capabilities().is_some_and(|it| it.elicitation.is_some());
                // An answer of a client is not taken where the domain does not trust its work items.
                let asks = may_ask && live.is_none() && is_question(&run) && !run.spec().gate.item_untrusted;
                if asks {
                    TaskPayload::InputRequired { input_requests: self.questions(&run)? }
                } else {
                    TaskPayload::Working
                }
            }
        };
        Ok(DetailedTask::new(task, payload))
    }

    fn questions(&self, run: &loop_core::Run) -> Result<InputRequests, Failure> {
        let mut questions = InputRequests::new();
        for asked in run.requested() {
            let parameters: Value = serde_json::from_str(&asked.parameters.to_string()).unwrap_or_default();
            let question = parameters.get("question").and_then(Value::as_str);
            let message = question.map_or_else(|| parameters.to_string(), str::to_owned);
            let request: InputRequest = serde_json::from_value(json!({
                "method": "elicitation/create",
                "params": {
                    "mode": "form",
                    "message": self.masked(&message),
                    "requestedSchema": {
                        "type": "object",
                        "properties": { "answer": { "type": "string", "title": "Answer" } },
                        "required": ["answer"],
                    },
                },
            }))?;
            questions.insert(asked.key.to_string(), request);
        }
        Ok(questions)
    }

    /// Receives answers to questions. An answer to a question that is no longer open is ignored.
    pub(crate) async fn answers(
        &self,
        update: UpdateTaskParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), Failure> {
        let id: RunId = self.runs.line(&update.task_id).await?.run;
        for (key, response) in update.input_responses {
            let (_, run) = self.runs.read(&id).await?;
            if !run.requested().iter().any(|asked| asked.key.to_string() == key) {
                continue;
            }
            let answer = match response.get("action").and_then(Value::as_str) {
                Some("accept") => response.pointer("/content/answer").and_then(Value::as_str),
                _ => Some(NO_ANSWER),
            };
            let answer = answer
                .ok_or_else(|| Failure::new(format!("inputResponses.{key}: `content.answer` is missing")))?;
            self.answer(&id, &key, answer, context).await?;
        }
        Ok(())
    }
}
