//! The tool results that a model reads: one for every call that it made, whether or not a tool ran.

use std::sync::Arc;

use loop_core::gate::{Breaker, DeniedBy, JudgedAction, Limit};
use loop_core::policy::ResultOrigin;
use loop_core::repeats::RepeatRule;
use loop_core::spec::{EndCall, ErrorStyle, OnDuplicate, Repeats};
use loop_core::types::{Digest, Observation, ResultPicture, Status};
use loop_core::{Evidence, Run, Verdict};
use loop_llm::ToolOutput;
use loop_llm::request::Image;

use crate::failure::{doubted, markdown_of, quote};
use crate::notes::{note, with_note};
use crate::text::{cut, line};

/// The result that the model reads for a call, whether or not a tool ran: the tool's own, or the reason why there is none, in
/// the error style of the run's protocol. The loop decides by its status and origin, not by its text.
///
/// The text of a success is the observation's Markdown unchanged, because tool text is cleaned when its observation is
/// made. A result that repeats something ends with a line `(note: …)`. An earlier result that is
/// returned for a repeat begins with the line `(cached, pass N)`, so that the model does not take it for a new result.
pub fn call_result(run: &Run, action: &JudgedAction) -> ToolOutput {
    with_digest(run, action).0
}

/// The result of a call, and the digest of its text where it is known already.
pub(crate) fn with_digest(run: &Run, action: &JudgedAction) -> (ToolOutput, Option<Digest>) {
    let reported = match &action.verdict {
        Verdict::Run => match settled(run, action) {
            Some(evidence) => noted(run, evidence, observed(run, action, &evidence.observation)),
            None => wrong(run, action, Failure::refused("cancelled", CUT_OFF)),
        },
        Verdict::Kept => kept(run, action),
        Verdict::UnknownTool { similar } => {
            Rendered::error(unknown_tool(run.spec().protocol.errors(), &action.action.tool, similar))
        }
        Verdict::InvalidArguments { .. } => {
            let message = invalid_arguments(&action.verdict.reason());
            wrong(run, action, Failure::refused("invalid_tool_input", &message))
        }
        Verdict::Denied { why, by } => {
            let (code, message) = match by {
                DeniedBy::Policy | DeniedBy::Repeat => ("tool_not_allowed", format!("Not permitted: {why}")),
                DeniedBy::Person => ("denied_by_person", format!("A person denied it: {why}")),
                DeniedBy::Silence => ("no_answer", format!("Not run: {why}")),
            };
            wrong(run, action, Failure::refused(code, &message))
        }
        Verdict::Duplicate { .. } => duplicate(run, action),
        Verdict::Skipped => Rendered::plain("skipped: nice_to_have"),
        Verdict::NeedsPerson { why, .. } => {
            let message = match why {
                None => format!("Not run: {}, and nobody gave it", action.verdict.reason()),
                Some(why) => format!("Not run: a person has to decide about it, and nobody did ({why})"),
            };
            wrong(run, action, Failure::refused("needs_human", &message))
        }
        Verdict::OverLimit { limit: Limit::OfTool { calls } } => {
            // S3-28
            let limit = RepeatRule::Limit { limit: *calls };
            wrong(run, action, Failure::refused(limit.code(), &limit.message(&name(action))))
        }
        Verdict::OverLimit { limit } => not_run(run, action, limit.code()),
        Verdict::BreakerOpen { breaker } => {
            let code = match breaker {
                Breaker::ToolFailures => "tool_failure",
                Breaker::Denied => "tool_not_allowed",
                Breaker::BadArguments => "invalid_tool_input",
            };
            not_run(run, action, code)
        }
        Verdict::OneAtATime => not_run(run, action, "one_at_a_time"),
        Verdict::Ended { reason } => not_run(run, action, reason.name()),
    };
    let status = status_of(run, action, reported.is_error);
    let images = settled(run, action).map(|evidence| images(&evidence.observation)).unwrap_or_default();
    let Rendered { is_error, text, digest } = reported;
    let output = ToolOutput {
        call: Arc::clone(&action.action.id),
        is_error,
        text,
        images,
        status: Some(status),
        origin: Some(origin_of(run, action)),
    };
    (output, digest)
}

/// The pictures of a result, for a model.
pub(crate) fn images(observation: &Observation) -> Vec<Image> {
    let image = |picture: &ResultPicture| Image {
        media_type: Arc::clone(&picture.media_type),
        base64: Arc::clone(&picture.base64),
    };
    observation.pictures.iter().map(image).collect()
}

/// The status of a call. `is_error` says whether the model reads an error.
fn status_of(run: &Run, action: &JudgedAction, is_error: bool) -> Status {
    let observed = || settled(run, action).map(|evidence| evidence.observation.status);
    match &action.verdict {
        Verdict::Run => observed().unwrap_or(Status::Cancelled),
        Verdict::Kept if is_error => Status::InvalidInput,
        Verdict::Kept => Status::Ok,
        Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => Status::InvalidInput,
        Verdict::Denied { .. }
        | Verdict::NeedsPerson { .. }
        | Verdict::OverLimit { .. }
        | Verdict::BreakerOpen { .. } => Status::Denied,
        // An earlier result that is returned again keeps its status.
        Verdict::Duplicate { .. } => observed().filter(|_| replays(run)).unwrap_or(Status::Duplicate),
        Verdict::Skipped | Verdict::OneAtATime => Status::Skipped,
        Verdict::Ended { .. } => Status::Cancelled,
    }
}

/// Who wrote the result that the model reads: the tool, if one settled for the call, else the loop.
fn origin_of(run: &Run, action: &JudgedAction) -> ResultOrigin {
    let Some(evidence) = settled(run, action) else { return ResultOrigin::Verdict };
    match run.spec().tool(&evidence.tool) {
        Some(tool) => ResultOrigin::of(tool, &evidence.observation),
        None => ResultOrigin::Tool { untrusted: true, private: true },
    }
}

/// Whether a repeat returns the earlier result.
fn replays(run: &Run) -> bool {
    let (repeats, gate) = (run.spec().repeats(), &run.spec().gate);
    repeats == Repeats::Reuse || gate.on_duplicate == OnDuplicate::ReplayCached
}

/// The text of [`call_result`] for an observation that a tool has just returned and the run does not hold yet, without a
/// note: whether it repeats something is decided once all calls of its reply have settled.
pub fn observation_text(run: &Run, action: &JudgedAction, observation: &Observation) -> Arc<str> {
    observed(run, action, observation).text
}

/// The result shortened to one line: number, tool, status and summary.
pub(crate) fn short_result(run: &Run, action: &JudgedAction) -> ToolOutput {
    let whole = call_result(run, action);
    let tool = name(action);
    let text = match settled(run, action) {
        Some(Evidence { id, observation, .. }) => {
            format!("[{id}] {tool}: {} — {}", observation.status.name(), line(&observation.summary))
        }
        None => format!("{tool}: {} — {}", action.verdict.name(), line(&action.reason(&[]))),
    };
    ToolOutput { text: cut(&text, SHORT_CHARS).into(), images: Vec::new(), ..whole }
}

/// The text of a result, whether it is an error, and its digest if known.
struct Rendered {
    is_error: bool,
    text: Arc<str>,
    digest: Option<Digest>,
}

impl Rendered {
    fn plain(text: impl Into<Arc<str>>) -> Self {
        Self { is_error: false, text: text.into(), digest: None }
    }

    fn error(text: impl Into<Arc<str>>) -> Self {
        Self { is_error: true, text: text.into(), digest: None }
    }
}

/// A failure before the error style is applied.
struct Failure<'a> {
    /// The code of the style `tagged`.
    code: &'a str,
    /// A sentence without its full stop.
    message: &'a str,
    /// Whether the style `tagged` shows the code alone, without the message.
    is_refusal: bool,
}

impl<'a> Failure<'a> {
    /// The failure of a call that was not run, or not to its end.
    fn refused(code: &'a str, message: &'a str) -> Self {
        Self { code, message, is_refusal: true }
    }
}

fn wrong(run: &Run, action: &JudgedAction, failure: Failure<'_>) -> Rendered {
    let Failure { code, message, is_refusal } = failure;
    Rendered::error(match run.spec().protocol.errors() {
        // Many tools begin their message so themselves.
        ErrorStyle::Plain | ErrorStyle::Prefixed if message.starts_with("Error: ") => message.to_owned(),
        ErrorStyle::Plain | ErrorStyle::Prefixed => format!("Error: {message}"),
        ErrorStyle::Quoted => quote(&name(action), message),
        ErrorStyle::Named => format!("Error executing {}: {message}", name(action)),
        ErrorStyle::Tagged if is_refusal => code.to_owned(),
        ErrorStyle::Tagged => format!("{code}: {message}"),
    })
}

/// The result of a call that was not run: the reason of its verdict.
fn not_run(run: &Run, action: &JudgedAction, code: &str) -> Rendered {
    wrong(run, action, Failure::refused(code, &format!("Not run: {}", action.verdict.reason())))
}

/// The result of a call whose name no tool has, with similar tool names.
fn unknown_tool(style: ErrorStyle, name: &str, similar: &[Arc<str>]) -> String {
    let name = cut(&line(name), NAME_CHARS);
    match style {
        ErrorStyle::Plain if name.is_empty() => "Error: The call names no tool".to_owned(),
        ErrorStyle::Plain if !similar.is_empty() => {
            format!("Error: Unknown tool {name}. Did you mean: {}?", similar.join(", "))
        }
        ErrorStyle::Plain | ErrorStyle::Prefixed => format!("Error: Unknown tool {name}"),
        ErrorStyle::Quoted => "Unknown tool".to_owned(),
        ErrorStyle::Named => format!("Error executing {name}: Unknown tool"),
        ErrorStyle::Tagged => "tool_not_allowed".to_owned(),
    }
}

fn observed(run: &Run, action: &JudgedAction, observation: &Observation) -> Rendered {
    if observation.status == Status::Ok && observation.failure.is_none() {
        let digest = observation.markdown_digest();
        return Rendered { digest, ..Rendered::plain(Arc::clone(&observation.markdown)) };
    }
    let message = message_of(observation);
    let code = match observation.status {
        Status::Ok | Status::Skipped => return Rendered::plain(message),
        Status::Empty | Status::Pending => {
            return match run.spec().protocol.errors() {
                ErrorStyle::Quoted => Rendered::plain(markdown_of(observation)),
                ErrorStyle::Plain | ErrorStyle::Named | ErrorStyle::Prefixed | ErrorStyle::Tagged => {
                    Rendered::plain(message)
                }
            };
        }
        Status::InDoubt => {
            let message = doubted(&message);
            return wrong(run, action, Failure { code: "in_doubt", message: &message, is_refusal: false });
        }
        Status::RetryableError => "retryable_error",
        Status::Timeout => "upstream_timeout",
        Status::Cancelled => "cancelled",
        Status::InvalidInput => "invalid_tool_input",
        Status::Denied => "tool_not_allowed",
        Status::Duplicate => "duplicate",
        Status::PermanentError | Status::MalformedResult => "tool_failure",
    };
    if run.spec().protocol.errors() == ErrorStyle::Quoted && !observation.text().trim().is_empty() {
        // As a quotation under the tool's title, or the tool's own text.
        return Rendered::error(markdown_of(observation));
    }
    let is_invalid = observation.status == Status::InvalidInput;
    let message = match is_invalid && run.spec().protocol.errors() != ErrorStyle::Tagged {
        true => invalid_arguments(&message),
        false => message,
    };
    let is_refusal = observation.status == Status::Cancelled;
    wrong(run, action, Failure { code, message: &message, is_refusal })
}

/// A result with the note that it repeats something, if it carries one.
fn noted(run: &Run, evidence: &Evidence, rendered: Rendered) -> Rendered {
    match note(run, evidence) {
        Some(note) => Rendered { text: with_note(&rendered.text, &note), digest: None, ..rendered },
        None => rendered,
    }
}

/// The message of a call whose arguments fail validation.
fn invalid_arguments(message: &str) -> String {
    format!("Invalid arguments: {message}")
}

/// The whole message of a failure; its one-line summary if the message is empty.
fn message_of(observation: &Observation) -> String {
    let text = observation.text().trim();
    if text.is_empty() { observation.summary.to_string() } else { text.to_owned() }
}

/// The result of a call that the protocol handles itself: an output, the call that submits one, or a proposed end.
fn kept(run: &Run, action: &JudgedAction) -> Rendered {
    if let Some(end) = action.end_call() {
        let is_last = run.outcome().is_some() && run.passes().len() as u32 <= action.key.pass;
        return Rendered::plain(match end {
            EndCall::Escalate if is_last => "A person takes over.".to_owned(),
            EndCall::Refuse if is_last => "The work is refused.".to_owned(),
            _ => format!("Not yet: the run continues. Call {} alone if it still applies.", end.name()),
        });
    }
    if action.is_plan(run.spec()) {
        return Rendered::plain("The plan holds.");
    }
    let output = run.spec().protocol.output();
    let Some(output) = output.filter(|output| output.submit.as_deref() == Some(action.tool_name())) else {
        return Rendered::plain("Output received.");
    };
    let begun = run.attempts().partition_point(|attempt| attempt.from_pass <= action.key.pass);
    let attempt = begun.checked_sub(1).and_then(|at| run.attempts().get(at));
    if attempt.is_some_and(|attempt| attempt.output.is_some()) {
        return Rendered::plain("Output submitted.");
    }
    let message = format!("Nothing to submit: call {} first", output.tool);
    wrong(run, action, Failure::refused("submit_before_output", &message))
}

/// The result of a refused repeat (a duplicate): the earlier result again, or the reason and the pass of that result.
/// The second time that the same call is refused, the text adds that asking again does not help.
fn duplicate(run: &Run, action: &JudgedAction) -> Rendered {
    let Verdict::Duplicate { rule, .. } = &action.verdict else { return Rendered::plain("") };
    let repeats = run.spec().repeats();
    let earlier = settled(run, action);
    // `three_tier` has fixed texts, and `reuse` adds no text to an earlier result.
    let is_plain = matches!(repeats, Repeats::ThreeTier | Repeats::Reuse);
    let is_second = !is_plain && is_refused_again(run, action);
    if replays(run) {
        if let Some(earlier) = earlier {
            let Rendered { is_error, text, .. } = observed(run, action, &earlier.observation);
            let nudge = if is_second { format!(": {NUDGE}") } else { String::new() };
            let text = format!("(cached, pass {}{nudge})\n{text}", earlier.pass);
            return Rendered { is_error, text: text.into(), digest: None };
        }
        if repeats == Repeats::Reuse {
            let message = "Not run: the same call before it was not run";
            return wrong(run, action, Failure::refused("duplicate", message));
        }
    }
    if let Some(denied) = earlier.filter(|earlier| earlier.observation.status == Status::Denied) {
        let nudge = if is_second { format!("; {NUDGE}") } else { String::new() };
        let message =
            format!("Not run: the same call was denied before: {}{nudge}", line(&denied.observation.summary));
        return wrong(run, action, Failure::refused("duplicate", &message));
    }
    let (code, mut message) = match rule {
        Some(rule) => (rule.code(), rule.message(&name(action))),
        // S3-29
        None => ("duplicate", RepeatRule::Exact.message(&name(action))),
    };
    if let (Some(earlier), false) = (earlier, rule.is_none() || repeats == Repeats::ThreeTier) {
        message.push_str(&format!("; its result is that of pass {}", earlier.pass));
    }
    if is_second {
        message.push_str(&format!("; {NUDGE}"));
    }
    wrong(run, action, Failure::refused(code, &message))
}

/// Whether the same call was refused as a repeat once before.
fn is_refused_again(run: &Run, action: &JudgedAction) -> bool {
    let before = run.actions().partition_point(|earlier| earlier.key < action.key);
    let earlier = run.actions().get(..before).unwrap_or_default();
    let is_same = |earlier: &&Arc<JudgedAction>| {
        matches!(earlier.verdict, Verdict::Duplicate { .. })
            && earlier.tool == action.tool
            && earlier.parameters == action.parameters
    };
    // Backwards, and only up to the second match: a call that is refused again and again has its last refusal close by.
    earlier.iter().rev().filter(is_same).take(2).count() == 1
}

/// The evidence of a call; for a repeat, that of the earlier call.
fn settled<'a>(run: &'a Run, action: &JudgedAction) -> Option<&'a Evidence> {
    let id = match &action.verdict {
        Verdict::Duplicate { of, evidence, .. } => evidence.or_else(|| {
            let at = run.actions().binary_search_by_key(of, |earlier| earlier.key).ok()?;
            run.actions().get(at)?.evidence
        }),
        Verdict::Run
        | Verdict::Kept
        | Verdict::UnknownTool { .. }
        | Verdict::InvalidArguments { .. }
        | Verdict::Denied { .. }
        | Verdict::Skipped
        | Verdict::NeedsPerson { .. }
        | Verdict::OverLimit { .. }
        | Verdict::BreakerOpen { .. }
        | Verdict::OneAtATime
        | Verdict::Ended { .. } => action.evidence,
    }?;
    Evidence::find(run.evidence(), id)
}

/// The tool's name as the model wrote it, cleaned and cut to one line.
fn name(action: &JudgedAction) -> String {
    cut(&line(&action.action.tool), NAME_CHARS)
}

/// The result text of a call that never settled.
const CUT_OFF: &str = "cancelled: the run stopped before it ended";
/// Added to the result of a call that is refused as a repeat for the second time.
const NUDGE: &str = "asking again changes nothing; use what you have, try something else, or finish";
/// The maximum characters of a shortened result.
const SHORT_CHARS: usize = 200;
/// The maximum characters of a name that a model wrote.
const NAME_CHARS: usize = 128;
