//! One check: of an output against the schema of its tool and the program's own validators; of a document by its values
//! against its evidence, the same validators, and a second model.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use loop_claims::Grounding;
use loop_core::reply::FinishReason;
use loop_core::run::{Check, CheckResult, CheckWhat, Lack};
use loop_core::spec::OpinionWhen;
use loop_core::types::{Arguments, CommandKey, Scope, Status, SubCallUse, TraceParent};
use loop_core::{EventKind, Run};
use loop_llm::ModelReply;
use loop_llm::scripted::RequestPurpose;
use loop_prompts::{Dialogue, Prompts, SectionQuestion};
use loop_tools::ToolContext;
use loop_tools::text::apart;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::drive::model::WorkEnd;
use crate::drive::parts::RunParts;
use crate::drive::sub_call::{Question, SubCall};
use crate::watch::steps::panic_text;
use crate::watch::waits::OnEvent;

/// A checker of the program's own: what a schema cannot say of an output, or what a document has to hold.
#[async_trait]
pub trait Validator: Send + Sync {
    /// Its name, for the model and for reports of what it rejected.
    fn name(&self) -> &str;

    /// What is wrong with an output that fits its schema, or with a document: an object of its sections' texts by their
    /// ids. One text for the model, by which it can be mended.
    ///
    /// # Errors
    /// What is wrong.
    async fn validate(&self, value: &Value) -> Result<(), String>;
}

impl fmt::Debug for dyn Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Validator({})", self.name())
    }
}

/// A check with all that it needs of its run, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckWork {
    pub(crate) key: CommandKey,
    pub(crate) attempt: u32,
    timeout_ms: u64,
    about: CheckInput,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CheckInput {
    Output {
        output: Arc<str>,
        /// What a tool that checks it is called with besides.
        call: ToolCallContext,
    },
    Document(Box<DocumentCheck>),
}

/// What a document is checked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DocumentCheck {
    /// The texts of its sections, by their ids.
    document: Value,
    /// What a tool that checks it is called with besides.
    call: ToolCallContext,
    /// Its values that lack evidence.
    lacks: Vec<Lack>,
    /// What a second model is asked. `None`: nothing.
    opinion: Option<SecondOpinion>,
}

/// The context of the tools that check a document or an output.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToolCallContext {
    scope: Scope,
    title: Arc<str>,
    key: Arc<str>,
    trace: Arc<str>,
}

/// A question to a second model.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SecondOpinion {
    question: Question,
    /// What begins its answer.
    nonce: Arc<str>,
    /// What it is about: a section, and its statements.
    about: Vec<(Arc<str>, Arc<str>)>,
    /// What was granted. `None`: nothing was.
    sub_call: Option<SubCall>,
}

impl CheckWork {
    pub(crate) fn of(run: &Run, command: Check, prompts: &Prompts, span: Option<TraceParent>) -> Self {
        let Check { key, attempt, what, timeout_ms, sub_call, .. } = command;
        let call = ToolCallContext {
            scope: run.started().item.scope.clone(),
            title: Arc::clone(&run.started().item.title),
            key: run.idempotency_key(&key),
            trace: Arc::clone(run.trace_id()),
        };
        let about = match what {
            CheckWhat::Output(output) => CheckInput::Output { output, call },
            CheckWhat::Document { .. } => {
                let sections = run.document().sections.iter();
                let document =
                    sections.map(|it| (it.id.to_string(), Value::from(it.body.as_ref()))).collect();
                let lacks = loop_claims::lacks(run);
                // A second model is asked only about a document that nothing else rejects.
                let granted = sub_call
                    .map(|budget| SubCall::of(run, (key, attempt), RequestPurpose::Opinion, budget, span));
                let opinion = if lacks.is_empty() { second_opinion(run, prompts, granted) } else { None };
                CheckInput::Document(Box::new(DocumentCheck { document, call, lacks, opinion }))
            }
        };
        Self { key, attempt, timeout_ms, about }
    }

    /// Whether it may ask a model, which costs.
    pub(crate) fn asks(&self) -> bool {
        matches!(&self.about, CheckInput::Document(it) if it.opinion.as_ref().is_some_and(|it| it.sub_call.is_some()))
    }

    /// Checks and says how it ended, within its time.
    pub(crate) async fn run(self, parts: Arc<RunParts>, hear: OnEvent, cancel: CancellationToken) -> WorkEnd {
        let Self { key, attempt, timeout_ms, about } = self;
        let limit = Duration::from_millis(timeout_ms);
        let mut progress = Progress { at: SCHEMA.to_owned(), lacks: Vec::new(), used: None };
        let checking = AssertUnwindSafe(async {
            match about {
                CheckInput::Output { output, call } => {
                    of_output(&parts, &output, &call, timeout_ms, &mut progress).await
                }
                CheckInput::Document(document) => {
                    of_document(&parts, *document, &hear, timeout_ms, &mut progress).await
                }
            }
        })
        .catch_unwind();
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(STOPPED.to_owned()),
            ended = tokio::time::timeout(limit, checking) => match ended {
                Ok(ended) => ended.unwrap_or_else(|panic| Err(panicked(&*panic))),
                Err(_) => Err(format!("timeout after {timeout_ms} ms")),
            },
        };
        let Progress { at, lacks, used } = progress;
        let result = ended.unwrap_or_else(|message| match lacks.is_empty() {
            true => CheckResult::Broken { by: at.into(), message: message.into() },
            false => CheckResult::Failed { lacks },
        });
        WorkEnd::of(EventKind::Checked { key, attempt, result, used: used.map(Box::new) })
    }
}

/// How far a check is, for one that is cut off.
struct Progress {
    /// The checker that is asked.
    at: String,
    /// What those before it found lacking.
    lacks: Vec<Lack>,
    /// What the model call used, once one is made.
    used: Option<SubCallUse>,
}

/// The value that the text of an output is; no text at all is an empty object.
pub(crate) fn value_of(output: &str) -> serde_json::Result<Value> {
    serde_json::from_str(if output.trim().is_empty() { "{}" } else { output })
}

/// Checker after checker, up to the first that rejects the output. An error where one of them broke.
async fn of_output(
    parts: &RunParts,
    output: &str,
    call: &ToolCallContext,
    timeout_ms: u64,
    progress: &mut Progress,
) -> Result<CheckResult, String> {
    let failed = |by: &str, message: String| Ok(CheckResult::Failed { lacks: vec![Lack::own(by, message)] });
    let value = match value_of(output) {
        Ok(value) => Arc::new(value),
        Err(error) => return failed(SCHEMA, format!("the arguments are not JSON: {error}")),
    };
    let tool = parts.spec.protocol.output().map(|output| Arc::clone(&output.tool)).unwrap_or_default();
    if let Some(schema_violations) = parts.registry.schema_violations(&tool, &value) {
        return failed(SCHEMA, schema_violations);
    }
    for validator in parts.validators.iter() {
        progress.at = validator.name().to_owned();
        if let Err(message) = requested(Arc::clone(validator), Arc::clone(&value)).await? {
            return failed(&progress.at, message);
        }
    }
    for name in &parts.spec.gate.validators {
        progress.at = name.to_string();
        if let Err(message) = by_tool(parts, name, "output", &value, call, timeout_ms).await? {
            return failed(name, message);
        }
    }
    Ok(CheckResult::Passed)
}

/// All checkers together: what one finds lacking takes precedence over another that broke. A second model is asked only
/// about a document that nothing else rejects.
async fn of_document(
    parts: &RunParts,
    check: DocumentCheck,
    hear: &OnEvent,
    timeout_ms: u64,
    progress: &mut Progress,
) -> Result<CheckResult, String> {
    let DocumentCheck { document, call, lacks, opinion } = check;
    progress.lacks = lacks;
    let document = Arc::new(document);
    let mut broken = None;
    for name in &parts.spec.gate.validators {
        progress.at = name.to_string();
        let own = parts.validators.iter().find(|validator| validator.name() == &**name);
        let said = match own {
            Some(validator) => requested(Arc::clone(validator), Arc::clone(&document)).await,
            None => by_tool(parts, name, "document", &document, &call, timeout_ms).await,
        };
        match said {
            Ok(Ok(())) => {}
            Ok(Err(message)) => progress.lacks.push(Lack::own(Arc::clone(name), message)),
            Err(message) => broken = broken.or_else(|| Some((progress.at.clone(), message))),
        }
    }
    if let Some(opinion) = opinion.filter(|_| progress.lacks.is_empty() && broken.is_none()) {
        progress.at = SECOND_OPINION.to_owned();
        progress.lacks = opinion.ask(parts, hear, progress).await?;
    }
    Ok(match broken {
        _ if !progress.lacks.is_empty() => CheckResult::Failed { lacks: std::mem::take(&mut progress.lacks) },
        Some((by, message)) => CheckResult::Broken { by: by.into(), message: message.into() },
        None => CheckResult::Passed,
    })
}

/// What a tool says of a document or an output, which is its parameter `what`. It accepts it by succeeding; what a
/// failure for good says is what is wrong. An error where it could not say.
async fn by_tool(
    parts: &RunParts,
    name: &str,
    what: &str,
    value: &Value,
    call: &ToolCallContext,
    timeout_ms: u64,
) -> Result<Result<(), String>, String> {
    let ToolCallContext { scope, title, key, trace } = call;
    let cancel = CancellationToken::new();
    // Dropping the check cancels the call.
    let _cancels = cancel.clone().drop_guard();
    let (title, key, trace) = (Arc::clone(title), Arc::clone(key), Arc::clone(trace));
    let context = ToolContext::of_run(scope.clone(), title, key, trace, cancel);
    // A text, because that is what every kind of tool takes.
    let arguments = Arguments::of(serde_json::json!({ what: value.to_string() }));
    let chars = parts.spec.limits.markdown_chars as usize;
    let limit = parts.spec.tool(name).map_or(timeout_ms, |tool| tool.timeout_ms.min(timeout_ms));
    let observed =
        parts.registry.dispatch_shared(name, &arguments, context, &parts.credentials, limit, chars).await;
    let says = || observed.text().trim().to_owned();
    match observed.status {
        Status::Ok | Status::Empty => Ok(Ok(())),
        Status::PermanentError | Status::InvalidInput => Ok(Err(says())),
        _ => Err(says()),
    }
}

/// What a second model is asked about a document: of the sections marked `verify` the whole text, or the sentences with a
/// value that is not in the evidence that they cite. `None`: nothing.
fn second_opinion(run: &Run, prompts: &Prompts, sub_call: Option<SubCall>) -> Option<SecondOpinion> {
    let settings = run.spec().gate.second_opinion?;
    let marked = run.spec().sections().iter().filter(|section| section.verify);
    let sections = marked.filter_map(|section| run.document().get(&section.id));
    let claims = match settings.when {
        OpinionWhen::Always => Vec::new(),
        OpinionWhen::Ungrounded => loop_claims::of_run(run),
    };
    let statements = |id: &str, body: &str| -> Vec<Arc<str>> {
        if settings.when == OpinionWhen::Always {
            return if body.trim().is_empty() { Vec::new() } else { vec![body.trim().into()] };
        }
        let mut sentences: Vec<Arc<str>> = Vec::new();
        for claim in claims.iter().filter(|it| &*it.section == id && it.state != Grounding::Found) {
            if !sentences.contains(&claim.sentence) {
                sentences.push(Arc::clone(&claim.sentence));
            }
        }
        sentences
    };
    let questioned = sections.map(|section| SectionQuestion {
        section: Arc::clone(&section.id),
        statements: statements(&section.id, &section.body),
        evidence: section.evidence.clone(),
    });
    let questioned: Vec<SectionQuestion> = questioned.filter(|it| !it.statements.is_empty()).collect();
    if questioned.is_empty() {
        return None;
    }
    let question = Question::of(Dialogue::default().opinion(prompts, run, &questioned));
    let about = questioned.into_iter().map(|it| (it.section, it.statements.join("\n").into())).collect();
    Some(SecondOpinion { question, nonce: Arc::clone(&run.started().nonce), about, sub_call })
}

impl SecondOpinion {
    /// What the second model does not confirm. An error where it could not be asked, or gave no reply.
    async fn ask(
        self,
        parts: &RunParts,
        hear: &OnEvent,
        progress: &mut Progress,
    ) -> Result<Vec<Lack>, String> {
        let Some(sub_call) = self.sub_call else {
            return Err("the limits leave no model call for it".to_owned());
        };
        let (needs, granted) = (self.question.bytes(), sub_call.budget.bytes);
        if needs > granted {
            return Err(format!("its question has {needs} bytes, and `limits.sub_call_bytes` is {granted}"));
        }
        progress.used = Some(SubCallUse::new(false, None));
        let asked = sub_call.ask(parts.models.of(sub_call.tier).as_ref(), &self.question, hear).await;
        progress.used = Some(asked.used(asked.reply.is_ok()));
        let answer = answer_of(&asked.reply?, &self.nonce);
        let Some(message) = answer.lack() else { return Ok(Vec::new()) };
        let lack = |(section, sentence)| Lack { section, sentence, ..Lack::own(SECOND_OPINION, message) };
        Ok(self.about.into_iter().map(lack).collect())
    }
}

/// What a second model says of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    CannotTell,
}

impl Answer {
    fn lack(self) -> Option<&'static str> {
        match self {
            Self::Yes => None,
            Self::No => Some("it says no"),
            Self::CannotTell => Some("it cannot tell"),
        }
    }
}

/// Reads the reply of the second model: one line, the run's nonce, a colon and one of three answers. Anything else is
/// [`Answer::CannotTell`]: text of the evidence does not know the nonce.
fn answer_of(reply: &ModelReply, nonce: &str) -> Answer {
    let is_whole = match reply.finish {
        FinishReason::EndTurn | FinishReason::Other => reply.tool_calls.is_empty(),
        FinishReason::ToolUse
        | FinishReason::MaxTokens
        | FinishReason::Capped
        | FinishReason::Refusal
        | FinishReason::Filtered => false,
    };
    let answer = reply.text.trim().strip_prefix(nonce).and_then(|rest| rest.strip_prefix(':'));
    match answer.map(str::trim).filter(|_| is_whole && !nonce.is_empty()) {
        Some(answer) if answer.eq_ignore_ascii_case("yes") => Answer::Yes,
        Some(answer) if answer.eq_ignore_ascii_case("no") => Answer::No,
        Some(_) | None => Answer::CannotTell,
    }
}

/// What one validator says, or how it broke. Dropping it drops the validation.
async fn requested(validator: Arc<dyn Validator>, value: Arc<Value>) -> Result<Result<(), String>, String> {
    let ended = apart(async move { validator.validate(&value).await }).await;
    ended.ok_or_else(|| STOPPED.to_owned())?.map_err(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("the validator panicked: {}", panic_text(panic))
}

const STOPPED: &str = "the run stopped";
/// The name of the first checker of an output.
pub(crate) const SCHEMA: &str = "schema";
/// The name of the second model among the checkers.
const SECOND_OPINION: &str = "second_opinion";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Answer) {
        assert_eq!(answer_of(&ModelReply::text(text, None), "k3j9"), expected, "{text}");
    }

    #[test]
    fn only_one_line_with_the_nonce_and_an_answer_is_one() {
        // Issue 19, part 6: evidence that says `yes` has answered nothing.
        check("k3j9: yes", Answer::Yes);
        check("  k3j9:YES\n", Answer::Yes);
        check("k3j9: no", Answer::No);
        check("k3j9: cannot tell", Answer::CannotTell);
        for other in [
            "",
            "yes",
            "Yes.",
            "k3j9 yes",
            "k3j9: yes.",
            "k3j9: yes, since",
            "k3j9: yes\nk3j9: no",
            "nonce: yes",
            "[nonce]: yes",
            "The answer is k3j9: yes",
            "k3j9: k3j9: yes",
            "k3j9:",
            "k3j9: y",
            "```\nk3j9: yes\n```",
        ] {
            check(other, Answer::CannotTell);
        }
        assert_eq!(answer_of(&ModelReply::text(": yes", None), ""), Answer::CannotTell);
        for finish in [FinishReason::MaxTokens, FinishReason::Refusal, FinishReason::Filtered] {
            let reply = ModelReply { finish, ..ModelReply::text("k3j9: yes", None) };
            assert_eq!(answer_of(&reply, "k3j9"), Answer::CannotTell, "{finish:?}");
        }
    }
}
