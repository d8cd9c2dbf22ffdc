//! The tools for MCP clients: arguments, results and declarations.

use std::sync::Arc;

use loop_core::run::Phase;
use loop_core::types::{StopClass, Totals};
use loop_core::{Run, RunSpec, StopReason};
use loop_inspect::listed::ListedState;
use loop_runtime::journal::RunLine;
use loop_runtime::report::{
    EvidenceReport, PersonRequestReport, Report, StopReport, TotalsReport, counted, warnings,
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::output::time;

/// The longest wait of one request, in milliseconds.
pub(crate) const MAX_WAIT_MS: u64 = 600_000;

/// A work item.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Item {
    /// A text, in Markdown.
    Text(String),
    /// A JSON object.
    Object(JsonObject),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunArguments {
    /// The work item: a text in Markdown, or a JSON object.
    pub(crate) item: Item,
    /// Your own key of this request. A second call with the same key and item returns the run of the first, and starts
    /// none.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// How long to wait for the end, in milliseconds, at most 600000. Default: 600000. If the run has not ended by then,
    /// it continues, and `wait_for_run` waits on.
    #[serde(default = "max_wait")]
    pub(crate) wait_ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartArguments {
    /// The work item: a text in Markdown, or a JSON object.
    pub(crate) item: Item,
    /// Your own key of this request. A second call with the same key and item returns the run of the first, and starts
    /// none.
    #[serde(default)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitArguments {
    /// The run's id.
    pub(crate) run: String,
    /// How long to wait, in milliseconds, at most 600000. Default: 50000.
    #[serde(default = "some_wait")]
    pub(crate) wait_ms: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// The run's id.
    pub(crate) run: String,
    /// Whether to list the tool results that the document cites. Default: false.
    #[serde(default)]
    pub(crate) evidence: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerArguments {
    /// The run's id.
    pub(crate) run: String,
    /// The question's key, for example `2/action-0`, from `waiting`.
    pub(crate) action: String,
    /// The answer. It is recorded as an answer of this client.
    pub(crate) answer: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopArguments {
    /// The run's id.
    pub(crate) run: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// How many runs to list, at most 100. Default: 20.
    #[serde(default = "some_runs")]
    pub(crate) limit: usize,
    /// List only runs that are older than the run with this id. Default: the newest.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(crate) before: Option<String>,
}

fn max_wait() -> u64 {
    MAX_WAIT_MS
}

fn some_wait() -> u64 {
    50_000
}

fn some_runs() -> usize {
    20
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunResult {
    /// The run's id.
    pub(crate) run: String,
    /// `running`, `waiting`, `ended`, `interrupted` or `damaged`.
    pub(crate) state: ListedState,
    /// The title of the work item.
    pub(crate) title: String,
    /// The document so far, in Markdown. Absent if there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) document: Option<String>,
    /// The answer of a conversation. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) answer: Option<String>,
    /// The typed output, if it is valid. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Why the run stopped. Absent if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "StopReport")]
    pub(crate) stop: Option<StopReport>,
    /// What the domain requires and the run does not have. Empty if nothing is missing, or if the run has not ended.
    pub(crate) missing: Vec<String>,
    /// What waits for a person. A question can be answered with `answer_question`; everything else needs an approver.
    pub(crate) waiting: Vec<PersonRequestReport>,
    /// What was used so far.
    pub(crate) totals: TotalsReport,
    /// The tool results that the document cites. Empty if they were not requested.
    pub(crate) evidence: Vec<EvidenceReport>,
    /// What was irregular and did not end the run. Empty if nothing was.
    pub(crate) warnings: Vec<String>,
    /// What to do next, in one sentence.
    pub(crate) next: String,
}

/// Runs in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// The runs, newest first.
    pub(crate) runs: Vec<RunRow>,
    /// Whether there are older runs.
    pub(crate) more: bool,
}

/// A run in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunRow {
    /// The run's id.
    pub(crate) run: String,
    /// When it started, in UTC.
    pub(crate) started: String,
    /// The title of its work item.
    pub(crate) title: String,
    /// Why it stopped. Null if it has not ended.
    pub(crate) stop: Option<String>,
}

impl RunRow {
    pub(crate) fn new(line: &RunLine) -> Self {
        Self {
            run: line.run.to_string(),
            started: time(line.unix_ms),
            title: line.title.to_string(),
            stop: line.stop.map(|reason: StopReason| reason.name().to_owned()),
        }
    }
}

impl RunResult {
    /// The state of a run whose tools declare `manifest`. `is_driven`: a process drives it. `at`: the option that names the journal.
    pub(crate) fn new(run: &Run, manifest: &str, is_driven: bool, evidence: bool, at: &str) -> Self {
        let started = run.started();
        let id = run.id().to_string();
        let outcome = run.outcome();
        let requested = run.requested();
        let state = match run.phase() {
            Phase::Done { .. } => ListedState::Ended,
            _ if is_driven && requested.is_empty() => ListedState::Running,
            _ if requested.is_empty() => ListedState::Interrupted,
            _ => ListedState::Waiting,
        };
        let waiting = PersonRequestReport::all(run, manifest);
        let next = match state {
            ListedState::Running => "Call wait_for_run to wait for the end.".to_owned(),
            ListedState::Ended => "Nothing is left to do: the run has ended.".to_owned(),
            ListedState::Interrupted | ListedState::Damaged => {
                format!("The operator can resume it: loopgate resume {id}{at}")
            }
            ListedState::Waiting if requested.iter().all(|requested| requested.is_question) => {
                "Call answer_question with what the user says, then wait_for_run.".to_owned()
            }
            ListedState::Waiting => format!(
                "An approver has to decide, and cannot do it through this client: loopgate pending {id}{at} shows the \
                 commands. Then call wait_for_run."
            ),
        };
        let document = run.document().to_markdown();
        let so_far = Totals { wall_ms: run.elapsed_ms(), ..*run.totals() };
        let mut result = Self {
            run: id,
            state,
            title: started.item.title.to_string(),
            document: Some(document).filter(|text| !text.trim().is_empty()),
            answer: None,
            output: None,
            stop: None,
            missing: Vec::new(),
            waiting,
            totals: TotalsReport::new(&so_far),
            warnings: warnings(&run.model_calls(), run.warnings()),
            evidence: Vec::new(),
            next,
        };
        if let Some(outcome) = outcome {
            let report = Report::new(started, outcome);
            result.answer = report.answer;
            result.output = report.output.filter(|output| output.valid).map(|output| output.value);
            result.stop = Some(report.stop);
            result.missing = report.missing;
            result.totals = report.totals;
            result.evidence = if evidence { report.evidence } else { Vec::new() };
        }
        result
    }

    /// The result as text, for clients that only read text.
    pub(crate) fn text(&self) -> String {
        let mut parts = Vec::new();
        if let Some(answer) = &self.answer {
            parts.push(answer.trim_end().to_owned());
        } else if let Some(output) = &self.output {
            parts.push(output.to_string());
        } else if let Some(document) = &self.document {
            parts.push(document.trim_end().to_owned());
        }
        let mut lines = Vec::new();
        lines.push(format!("run {}: {}", self.run, self.state.name()));
        if let Some(StopReport { reason, class, explanation, .. }) = &self.stop {
            lines.push(format!("stopped: {reason} ({class}). {explanation}"));
        }
        if !self.missing.is_empty() {
            lines.push(format!("missing: {}", self.missing.join(", ")));
        }
        for PersonRequestReport { action, tool, question, parameters, why, .. } in &self.waiting {
            let what = if *question { "question" } else { "needs an approver" };
            lines.push(format!("waiting: {action} {tool} {parameters} ({what}): {why}"));
        }
        for EvidenceReport { id, tool, status, summary, .. } in &self.evidence {
            lines.push(format!("{id}: {tool}, {status}: {summary}"));
        }
        let TotalsReport { passes, tokens, cost_usd, .. } = &self.totals;
        let cost = cost_usd.map_or_else(|| "cost unknown".to_owned(), |cost| format!("USD {cost}"));
        lines.push(format!("totals: {}, {}, {cost}", counted(*passes, "pass"), counted(*tokens, "token")));
        lines.push(self.next.clone());
        parts.push(lines.join("\n"));
        parts.join("\n\n---\n\n")
    }

    /// Whether the run failed to give what was requested.
    pub(crate) fn is_failed(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.class == StopClass::Failed.name())
    }
}

fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    // The sizes of numbers are formats of OpenAPI, of which validators of JSON Schema warn.
    let settings = settings.with_transform(RecursiveTransform(|schema: &mut schemars::Schema| {
        schema.remove("format");
    }));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    match schema.to_value() {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

/// The declarations of the tools.
pub(crate) fn declared(spec: &RunSpec) -> Vec<Tool> {
    let goal = if spec.goal.is_empty() { String::new() } else { format!(" Purpose: {}", spec.goal) };
    let about = format!("the Loopgate domain `{}`.{goal}", spec.domain);
    // What a run may do follows from the effects of the domain's tools.
    let reads_only = spec.tools.iter().all(|tool| tool.effect.is_read()) && !spec.save;
    let starts = ToolAnnotations::from_raw(None, Some(false), Some(!reads_only), Some(false), Some(true));
    let reads = ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false));
    let changes = ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(false));
    let stops = ToolAnnotations::from_raw(None, Some(false), Some(true), Some(true), Some(false));
    let tool = |name: &'static str, title: &str, text: String, input, output, hints: &ToolAnnotations| {
        let mut tool = Tool::new_with_raw(name, Some(text.into()), input);
        tool.title = Some(title.to_owned());
        tool.output_schema = Some(output);
        tool.annotations = Some(hints.clone());
        tool
    };
    let run = schema::<RunResult>;
    vec![
        tool(
            "answer_question",
            "Answer a question",
            "Answers a question that a run waits for, and resumes the run. Ask the user; do not invent the answer. Actions \
             that need an approval cannot be approved here."
                .to_owned(),
            schema::<AnswerArguments>(),
            run(),
            &changes,
        ),
        tool(
            "list_runs",
            "List runs",
            format!("Lists the runs of {about}"),
            schema::<ListArguments>(),
            schema::<RunList>(),
            &reads,
        ),
        tool(
            "read_document",
            "Read the document",
            "Returns the document of a run as it is now, and the state of the run.".to_owned(),
            schema::<ReadArguments>(),
            run(),
            &reads,
        ),
        tool(
            "run",
            "Run a work item",
            format!(
                "Hands a work item to {about} Waits, and returns the finished document (or answer, or value), why the run \
                 stopped, and what it cost. Cancelling the request stops the run."
            ),
            schema::<RunArguments>(),
            run(),
            &starts,
        ),
        tool(
            "start_run",
            "Start a run",
            format!("Hands a work item to {about} Returns the run's id at once; wait_for_run waits for its end."),
            schema::<StartArguments>(),
            run(),
            &starts,
        ),
        tool(
            "stop_run",
            "Stop a run",
            "Stops a run now. What it has written so far stays, and so does its cost.".to_owned(),
            schema::<StopArguments>(),
            run(),
            &stops,
        ),
        tool(
            "wait_for_run",
            "Wait for a run",
            "Waits until a run has ended or has a question, at most wait_ms, and returns its state and document.".to_owned(),
            schema::<WaitArguments>(),
            run(),
            &reads,
        ),
    ]
}
