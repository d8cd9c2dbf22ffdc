//! Renders a run as trace lines in the form `step:0:validation:execute`.
//!
//! A line is `step:N:EVENT:DETAIL`, where `N` counts passes from 0. Events are
//!
//! | event | detail |
//! |---|---|
//! | `proposal` | `tool:NAME` for each action, `answer`, `refusal`, `escalate` |
//! | `validation` | what was decided: `execute`, `final`, `escalate:WHY`, `deny:WHY`, `skip` |
//! | `person` | `approved`, `denied`, `answered` |
//! | `tool_result` | the status, for example `ok`, `retryable_error` or `pending` |
//! | `error` | how a call to a model failed, for example `rate_limited` |
//! | `resume` | `driver_lost`: another driver continues |
//! | `stop` | the reason |
//!
//! Tools that run before the first pass belong to step 0.

use loop_core::gate::{Condition, DeniedBy, JudgedAction, Measure};
use loop_core::reply::{FinishReason, Reply};
use loop_core::run::{Decision, PersonAnswer};
use loop_core::spec::{EndCall, ErrorStyle};
use loop_core::types::Slot;
use loop_core::{Certificate, EventKind, Note, StopReason, Verdict};
use loop_runtime::journal::Entry;

use crate::case::STATUSES;

/// The trace of a run's entries, line by line. `errors` is the error style of its protocol. With `tagged`, reasons have
/// the names of that style, and a call of an unknown tool counts as a call of a tool that is not allowed.
pub fn lines(entries: &[Entry], errors: ErrorStyle) -> Vec<String> {
    let mut trace = Trace { errors, ..Trace::default() };
    entries.iter().for_each(|entry| trace.hear(entry));
    trace.lines
}

/// Whether a line matches `wanted`: the whole line, the part after the step's number, or a prefix of either up to a
/// colon.
pub fn is(line: &str, wanted: &str) -> bool {
    let begins = |text: &str| {
        text.strip_prefix(wanted)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || wanted.ends_with(':'))
    };
    let behind_step = line.splitn(3, ':').nth(2).unwrap_or_default();
    let is_named = !wanted.is_empty() && (begins(line) || begins(behind_step));
    // A case may have the loop's own name of a reason.
    is_named
        || line.strip_suffix(":max_steps").is_some_and(|before| is(&format!("{before}:max_passes"), wanted))
}

/// Whether `wanted` can match any line at all.
pub fn is_known(wanted: &str) -> bool {
    is_known_with(wanted, &[])
}

/// [`is_known`] for a domain that declares these stop reasons of its own.
pub fn is_known_with(wanted: &str, own: &[&str]) -> bool {
    const OPEN: [&str; 2] = ["proposal:tool:", "error:"];
    let event = match wanted.strip_prefix("step:") {
        None => wanted,
        Some(rest) => {
            let (step, event) = rest.split_once(':').unwrap_or((rest, ""));
            if step.parse::<u32>().is_err() {
                return false;
            }
            if event.is_empty() {
                return true;
            }
            event
        }
    };
    let event = event.strip_suffix(':').unwrap_or(event);
    let begins =
        |known: &str| known.strip_prefix(event).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    let statuses = STATUSES.iter().map(|status| format!("tool_result:{status}"));
    let tagged = StopReason::all().iter().map(|reason| reason.name_in(ErrorStyle::Tagged));
    let names = StopReason::all().iter().map(StopReason::name).chain(tagged).chain(own.iter().copied());
    let stops = names.map(|reason| format!("stop:{reason}"));
    !event.is_empty()
        && (OPEN.iter().any(|open| event.starts_with(open) || begins(open))
            || EVENTS.iter().any(|known| begins(known))
            || statuses.chain(stops).any(|known| begins(&known)))
}

/// Every event except those that name a tool, a status, a failure or a reason.
const EVENTS: [&str; 24] = [
    "proposal:answer",
    "proposal:refusal",
    "proposal:escalate",
    "validation:execute",
    "validation:final",
    "validation:skip",
    "validation:refuse",
    "validation:escalate:needs_person",
    "validation:deny:unknown_tool",
    "validation:deny:invalid_tool_input",
    "validation:deny:tool_not_allowed",
    "validation:deny:duplicate",
    "validation:deny:person",
    "validation:deny:no_answer",
    "validation:deny:over_limit",
    "validation:deny:breaker_open",
    "validation:deny:one_at_a_time",
    "validation:deny:ended",
    "validation:deny:empty_answer",
    "validation:deny:evidence_missing",
    "person:approved",
    "person:denied",
    "person:answered",
    "resume:driver_lost",
];

#[derive(Debug, Default)]
struct Trace {
    lines: Vec<String>,
    /// The last pass so far.
    pass: u32,
    /// The error style of the run's protocol.
    errors: ErrorStyle,
}

impl Trace {
    fn push(&mut self, pass: u32, event: &str) {
        self.lines.push(format!("step:{}:{event}", pass.saturating_sub(1)));
    }

    fn hear(&mut self, entry: &Entry) {
        let judged = entry.notes.iter().filter_map(|note| match note {
            Note::ActionJudged(judged) => Some(&**judged),
            _ => None,
        });
        let judged: Vec<&JudgedAction> = judged.collect();
        match &entry.event.kind {
            EventKind::ModelReplied { key, reply, .. } if matches!(key.slot, Slot::Main | Slot::Final) => {
                self.pass = key.pass;
                self.propose(key.pass, reply, &judged, &entry.notes);
            }
            EventKind::ModelFailed { key, failure, .. } => {
                self.pass = self.pass.max(key.pass);
                self.push(key.pass, &format!("error:{}", failure.kind));
                self.validate(&judged);
            }
            EventKind::PersonAnswered { key, answer, .. } => {
                let stated = match answer {
                    PersonAnswer::Approved => "approved",
                    PersonAnswer::Denied { .. } => "denied",
                    PersonAnswer::Answered { .. } => "answered",
                };
                self.push(key.pass, &format!("person:{stated}"));
                self.validate(&judged);
            }
            EventKind::ApprovedBy { key, .. } => {
                self.push(key.pass, "person:approved");
                self.validate(&judged);
            }
            EventKind::Resumed { .. } => {
                self.push(self.pass, "resume:driver_lost");
                self.validate(&judged);
            }
            _ => self.validate(&judged),
        }
        for note in &entry.notes {
            match note {
                // One that is asked again without a model has not settled.
                // A retry has the key of the first try, and is a step of its own.
                Note::Polled { key, .. } => self.push(self.pass.max(key.pass), "tool_result:pending"),
                Note::ActionSettled { key, status, .. } => {
                    self.push(self.pass.max(key.pass), &format!("tool_result:{}", status.name()));
                }
                Note::Stopped { certificate } => {
                    self.push(self.pass, &format!("stop:{}", certificate.name()));
                }
                _ => {}
            }
        }
    }

    /// Writes the proposal of a reply, and the verdicts on it.
    fn propose(&mut self, pass: u32, reply: &Reply, judged: &[&JudgedAction], notes: &[Note]) {
        let stop = notes.iter().find_map(|note| match note {
            Note::GateDecided { decision: Decision::Stop(certificate), .. } => Some(certificate),
            Note::Stopped { certificate } => Some(certificate),
            _ => None,
        });
        let ends = |end| stop.is_some_and(|stop| says(stop, end));
        // A call that ends the run is the proposal of the reply, below.
        for action in judged.iter().filter(|it| !it.end_call().is_some_and(ends)) {
            self.push(action.key.pass, &format!("proposal:tool:{}", action.tool_name()));
            self.push(action.key.pass, &format!("validation:{}", self.decided(action)));
        }
        let is_blank = reply.calls.is_empty() && reply.text.trim().is_empty();
        let refuses =
            matches!(reply.finish, FinishReason::Refusal | FinishReason::Filtered) || ends(EndCall::Refuse);
        if refuses {
            self.push(pass, "proposal:refusal");
            self.push(pass, "validation:refuse");
        } else if ends(EndCall::Escalate) {
            self.push(pass, "proposal:escalate");
            self.push(pass, "validation:escalate");
        } else if is_blank {
            // S4-78: a blank answer is none.
            self.push(pass, "proposal:answer");
            self.push(pass, "validation:deny:empty_answer");
        } else if judged.is_empty() {
            self.push(pass, "proposal:answer");
            let is_short = stop.is_some_and(|stop| stop.reason() == StopReason::EvidenceMissing)
                || notes
                    .iter()
                    .any(|note| matches!(note, Note::GateDecided { decision: Decision::Revise { .. }, .. }));
            self.push(pass, if is_short { "validation:deny:evidence_missing" } else { "validation:final" });
        }
    }

    fn validate(&mut self, judged: &[&JudgedAction]) {
        for action in judged {
            self.push(action.key.pass, &format!("validation:{}", self.decided(action)));
        }
    }

    /// A verdict in the words of a trace.
    fn decided(&self, action: &JudgedAction) -> &'static str {
        match &action.verdict {
            _ if action.end_call().is_some() => "skip",
            Verdict::UnknownTool { .. } if self.errors == ErrorStyle::Tagged => "deny:tool_not_allowed",
            verdict => decided(verdict),
        }
    }
}

/// Whether the model itself ended the run in this way. `false`: a rule did.
fn says(stop: &Certificate, end: EndCall) -> bool {
    let reason = match end {
        EndCall::Escalate => StopReason::NeedsHuman,
        EndCall::Refuse => StopReason::Refused,
    };
    let is_own =
        |condition: &Condition| matches!(condition.value, Measure::Text(_)) && condition.change.is_none();
    let all = std::iter::once(&stop.primary).chain(&stop.also);
    all.into_iter().any(|condition| condition.reason == reason && is_own(condition))
}

fn decided(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Run => "execute",
        Verdict::Kept => "final",
        Verdict::UnknownTool { .. } => "deny:unknown_tool",
        Verdict::InvalidArguments { .. } => "deny:invalid_tool_input",
        Verdict::Denied { by: DeniedBy::Policy, .. } => "deny:tool_not_allowed",
        Verdict::Denied { by: DeniedBy::Repeat, .. } => "deny:duplicate",
        Verdict::Denied { by: DeniedBy::Person, .. } => "deny:person",
        Verdict::Denied { by: DeniedBy::Silence, .. } => "deny:no_answer",
        Verdict::Duplicate { .. } => "deny:duplicate",
        Verdict::Skipped => "skip",
        Verdict::NeedsPerson { .. } => "escalate:needs_person",
        Verdict::OverLimit { .. } => "deny:over_limit",
        Verdict::BreakerOpen { .. } => "deny:breaker_open",
        Verdict::OneAtATime => "deny:one_at_a_time",
        Verdict::Ended { .. } => "deny:ended",
    }
}

#[cfg(test)]
mod tests {
    use super::{is, is_known};

    #[test]
    fn a_line_is_named_whole_or_by_its_beginning() {
        // S4-56: a fixture names kinds of events.
        let line = "step:0:validation:deny:tool_not_allowed";
        for wanted in
            ["validation", "validation:deny", "step:0", "step:0:validation:deny:tool_not_allowed", "step:0:"]
        {
            assert!(is(line, wanted), "{wanted}");
        }
        for other in ["", "valid", "deny", "step:1", "validation:deny:tool", "step:0:validation:execute"] {
            assert!(!is(line, other), "{other}");
        }
    }

    #[test]
    fn what_no_line_can_be_is_known() {
        let known = [
            "stop",
            "stop:max_passes",
            "step:0",
            "step:0:",
            "step:2:validation:deny",
            "error:rate_limited",
            "proposal:tool",
            "proposal:tool:read_order",
            "validation:escalate",
            "tool_result:ok",
            "resume:driver_lost",
            "person:approved",
        ];
        for wanted in known {
            assert!(is_known(wanted), "{wanted}");
        }
        for wanted in
            ["", "stop:max_pases", "step:x", "validation:exectue", "valid", "tool_result:fine", "deny"]
        {
            assert!(!is_known(wanted), "{wanted}");
        }
    }
}
