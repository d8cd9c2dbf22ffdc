//! What our decoder understood, held against what should have been understood.

use std::collections::BTreeMap;

use loop_llm::{Api, LlmError, LlmErrorKind, ModelReply};
use serde_json::{Map, Value};

use super::decoding::Decoded;
use super::exchange::{Exchange, Expect, ExpectedCall};
use super::expected;

/// What can be compared, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Column {
    Decoded,
    Text,
    Reasoning,
    Refusal,
    Calls,
    Stop,
    Usage,
    Errors,
    ServerTools,
    Request,
    Replay,
}

impl Column {
    pub(crate) const ALL: [Self; 11] = [
        Self::Decoded,
        Self::Text,
        Self::Reasoning,
        Self::Refusal,
        Self::Calls,
        Self::Stop,
        Self::Usage,
        Self::Errors,
        Self::ServerTools,
        Self::Request,
        Self::Replay,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decoded => "decoded",
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Refusal => "refusal",
            Self::Calls => "calls",
            Self::Stop => "stop",
            Self::Usage => "usage",
            Self::Errors => "errors",
            Self::ServerTools => "server tools",
            Self::Request => "request",
            Self::Replay => "replay",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What differs, for example `calls/0/arguments`; it begins with the name of the column.
    pub(crate) field: String,
    pub(crate) expected: String,
    pub(crate) ours: String,
}

impl Difference {
    pub(crate) fn new(field: impl Into<String>, expected: impl ToString, ours: impl ToString) -> Self {
        Self { field: field.into(), expected: expected.to_string(), ours: ours.to_string() }
    }
}

/// What was compared of an exchange: of each column, what differs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) columns: BTreeMap<Column, Vec<Difference>>,
}

impl Findings {
    /// The column was compared, with these differences.
    pub(crate) fn add(&mut self, column: Column, differences: impl IntoIterator<Item = Difference>) {
        self.columns.entry(column).or_default().extend(differences);
    }

    fn check<T: PartialEq + ToString>(&mut self, column: Column, expected: &T, ours: &T) {
        let differs = (expected != ours)
            .then(|| Difference::new(column.name(), expected.to_string(), ours.to_string()));
        self.add(column, differs);
    }
}

/// Compares a response. `None` where the recording does not say what should have been understood.
pub(crate) fn judge(api: Api, exchange: &Exchange, decoded: &Decoded) -> Option<Findings> {
    let mut findings = Findings::default();
    let faults =
        decoded.faults.iter().map(|fault| Difference::new("decoded", "one reply however it is cut", fault));
    findings.add(Column::Decoded, faults);
    if !(200..300).contains(&exchange.status) {
        let fitting = expected::kinds(exchange.status, &exchange.body);
        error(&fitting, decoded, &mut findings);
        return Some(findings);
    }
    let expect = exchange.expect.as_ref()?;
    if let Some(reported) = &expect.error {
        error(&expected::kinds_within(reported), decoded, &mut findings);
        return Some(findings);
    }
    let interrupted = [LlmErrorKind::StreamInterrupted, LlmErrorKind::BadResponse];
    if expect.has_no_finish && !is_over(api, exchange, expect) {
        error(&interrupted, decoded, &mut findings);
        return Some(findings);
    }
    match &decoded.end {
        Some(Ok(reply)) => compare(api, exchange, expect, reply, &mut findings),
        Some(Err(error)) => {
            findings
                .add(Column::Decoded, [Difference::new("decoded", "a reply", format!("the error {error}"))]);
        }
        None => findings.add(Column::Decoded, [Difference::new("decoded", "a reply", "nothing")]),
    }
    Some(findings)
}

/// Whether a reply of which nobody said why it ended is over all the same: its body is whole, or the stream says that all
/// has come, and there is something in it.
fn is_over(api: Api, exchange: &Exchange, expect: &Expect) -> bool {
    let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
    let has_calls = expect.calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let says_something = has_text(&expect.text) || has_text(&expect.refusal) || has_calls;
    let is_done = || {
        let body = String::from_utf8_lossy(&exchange.body);
        body.lines().any(|line| line.strip_prefix("data:").is_some_and(|data| data.trim() == "[DONE]"))
    };
    says_something && (!exchange.is_streamed || (api == Api::OpenaiChat && is_done()))
}

fn error(fitting: &[LlmErrorKind], decoded: &Decoded, findings: &mut Findings) {
    let names: Vec<&str> = fitting.iter().map(|kind| kind.name()).collect();
    let ours = match &decoded.end {
        Some(Err(LlmError { kind, .. })) if fitting.contains(kind) => None,
        Some(Err(error)) => Some(error.kind.name().to_owned()),
        Some(Ok(reply)) => Some(format!("a reply: {:?}", reply.text)),
        None => Some("nothing".to_owned()),
    };
    findings.add(Column::Errors, ours.map(|ours| Difference::new("errors", names.join(" or "), ours)));
}

fn compare(api: Api, exchange: &Exchange, expect: &Expect, reply: &ModelReply, findings: &mut Findings) {
    let text = |text: &Option<String>| text.clone();
    if let Some(text) = text(&expect.text) {
        findings.check(Column::Text, &text, &reply.text.to_string());
    }
    if let Some(reasoning) = text(&expect.reasoning) {
        findings.check(Column::Reasoning, &reasoning, &reply.reasoning.to_string());
    }
    if let Some(refusal) = text(&expect.refusal) {
        let ours = reply.refusal.as_deref().unwrap_or_default().to_owned();
        findings.check(Column::Refusal, &refusal, &ours);
    }
    let stops = expected::stops(api, exchange, expect);
    if let Some(stops) = &stops {
        let ours = reply.stop.filter(|stop| stops.contains(stop));
        let names: Vec<&str> = stops.iter().map(|stop| stop.name()).collect();
        let reported = reply.stop.map_or("nothing", |stop| stop.name());
        findings
            .add(Column::Stop, ours.is_none().then(|| Difference::new("stop", names.join(" or "), reported)));
    }
    if let Some(calls) = &expect.calls {
        // Calls of a reply that was cut, refused or filtered are not meant.
        let is_meant = stops.as_ref().is_none_or(|stops| stops.contains(&loop_llm::ReplyEnd::ToolUse));
        findings.add(Column::Calls, self::calls(if is_meant { calls } else { &[] }, reply));
    }
    if let Some(reported) = &expect.usage {
        let expected = expected::usage(api, reported);
        // Whoever says something has used tokens: a count of none is no count.
        let is_silent = reply.usage.is_none() && expected.is_none_or(|usage| usage.total_output() == 0);
        let differs = expected != reply.usage && !is_silent;
        let shown = |usage: &Option<loop_core::Usage>| {
            usage.map_or("nothing".to_owned(), |usage| format!("{usage:?}"))
        };
        findings.add(
            Column::Usage,
            differs.then(|| Difference::new("usage", shown(&expected), shown(&reply.usage))),
        );
    }
    if !expect.server_tools.is_empty() {
        let raw = reply.raw.as_ref().map(|raw| raw.json()).unwrap_or_default();
        let missing = expect.server_tools.iter().filter(|word| !raw.contains(&format!("\"{word}\"")));
        findings.add(
            Column::ServerTools,
            missing.map(|word| Difference::new("server tools", word, "not in the turn that is kept")),
        );
    }
}

fn calls(expected: &[ExpectedCall], reply: &ModelReply) -> Vec<Difference> {
    let ours = &reply.tool_calls;
    if expected.len() != ours.len() {
        let names: Vec<&str> = expected.iter().map(|call| call.name.as_str()).collect();
        let our_names: Vec<&str> = ours.iter().map(|call| &*call.name).collect();
        return vec![Difference::new("calls", names.join(", "), our_names.join(", "))];
    }
    let mut differences = Vec::new();
    for (nth, (expected, ours)) in expected.iter().zip(ours).enumerate() {
        if expected.name != *ours.name {
            differences.push(Difference::new(format!("calls/{nth}/name"), &expected.name, &ours.name));
        }
        if expected.id.as_deref().is_some_and(|id| id != &*ours.id) {
            let id = expected.id.as_deref().unwrap_or_default();
            differences.push(Difference::new(format!("calls/{nth}/id"), id, &ours.id));
        }
        let text = ours.arguments.text();
        let arguments = ours.arguments.value().cloned().unwrap_or_else(|_| Value::String(text.to_string()));
        if !same(&expected.arguments, &arguments) {
            differences.push(Difference::new(
                format!("calls/{nth}/arguments"),
                &expected.arguments,
                &arguments,
            ));
        }
    }
    differences
}

/// Whether two JSON values are the same; `1` and `1.0` are.
fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            let has = |other: &Map<String, Value>, key: &String, value: &Value| {
                other.get(key).is_some_and(|other| same(value, other))
            };
            one.len() == two.len() && one.iter().all(|(key, value)| has(two, key, value))
        }
        _ => one == two,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use loop_llm::{Arguments, ErrorPhase, ReplyEnd, ToolCall};
    use serde_json::json;

    use super::*;

    /// An exchange with everything in it, and a reply that says the same.
    fn pair() -> (Exchange, ModelReply) {
        let call =
            ExpectedCall { id: Some("c1".to_owned()), name: "look".to_owned(), arguments: json!({"at": 1}) };
        let expect = Expect {
            text: Some("I look.".to_owned()),
            reasoning: Some("Where?".to_owned()),
            refusal: Some(String::new()),
            calls: Some(vec![call]),
            finish: Some("stop".to_owned()),
            usage: Some(json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})),
            ..Expect::default()
        };
        let exchange = Exchange { status: 200, expect: Some(expect), ..Exchange::default() };
        let usage = loop_core::Usage { input: 3, output: 2, ..loop_core::Usage::default() };
        let call =
            ToolCall { id: "c1".into(), name: "look".into(), arguments: Arguments::from("{\"at\": 1.0}") };
        let reply = ModelReply {
            reasoning: "Where?".into(),
            tool_calls: vec![call],
            stop: Some(ReplyEnd::ToolUse),
            ..ModelReply::text("I look.", Some(usage))
        };
        (exchange, reply)
    }

    fn differences(exchange: &Exchange, reply: &ModelReply) -> Vec<String> {
        let decoded = Decoded { end: Some(Ok(reply.clone())), faults: Vec::new() };
        let findings = judge(Api::OpenaiChat, exchange, &decoded).unwrap();
        findings.columns.into_values().flatten().map(|difference| difference.field).collect()
    }

    #[test]
    fn the_same_reply_agrees_and_every_fault_in_it_shows() {
        let (exchange, reply) = pair();
        assert!(differences(&exchange, &reply).is_empty());
        let faulty = |change: fn(&mut ModelReply)| {
            let mut reply = reply.clone();
            change(&mut reply);
            differences(&exchange, &reply)
        };
        assert_eq!(faulty(|reply| reply.text = "I look. ".into()), ["text"]);
        assert_eq!(faulty(|reply| reply.reasoning = "".into()), ["reasoning"]);
        assert_eq!(faulty(|reply| reply.refusal = Some("No.".into())), ["refusal"]);
        assert_eq!(faulty(|reply| reply.stop = Some(ReplyEnd::EndTurn)), ["stop"]);
        assert_eq!(faulty(|reply| reply.stop = None), ["stop"]);
        assert_eq!(faulty(|reply| reply.usage = None), ["usage"]);
        assert_eq!(faulty(|reply| reply.usage.as_mut().unwrap().input = 4), ["usage"]);
        assert_eq!(faulty(|reply| reply.tool_calls.clear()), ["calls"]);
        assert_eq!(
            faulty(|reply| reply.tool_calls.push(reply.tool_calls.first().unwrap().clone())),
            ["calls"]
        );
        assert_eq!(faulty(|reply| reply.tool_calls.first_mut().unwrap().id = "c2".into()), ["calls/0/id"]);
        assert_eq!(faulty(|reply| reply.tool_calls.first_mut().unwrap().name = "l".into()), ["calls/0/name"]);
        let arguments = |reply: &mut ModelReply| {
            reply.tool_calls.first_mut().unwrap().arguments = Arguments::from("{\"at\":2}");
        };
        assert_eq!(faulty(arguments), ["calls/0/arguments"]);
        let empty = ModelReply::text("", None);
        assert_eq!(differences(&exchange, &empty), ["text", "reasoning", "calls", "stop", "usage"]);
    }

    #[test]
    fn an_error_or_nothing_in_place_of_a_reply_shows_and_the_other_way_round() {
        let (mut exchange, reply) = pair();
        let judged = |exchange: &Exchange, end: Option<Result<ModelReply, LlmError>>| {
            let findings = judge(Api::OpenaiChat, exchange, &Decoded { end, faults: Vec::new() }).unwrap();
            findings.columns.into_values().flatten().map(|difference| difference.field).collect::<Vec<_>>()
        };
        let error = |kind| Some(Err(LlmError::new(kind, ErrorPhase::Stream, "")));
        assert_eq!(judged(&exchange, error(LlmErrorKind::ServerError)), ["decoded"]);
        assert_eq!(judged(&exchange, None), ["decoded"]);
        exchange.expect.as_mut().unwrap().error = Some(json!({"code": 429}));
        assert_eq!(judged(&exchange, Some(Ok(reply.clone()))), ["errors"]);
        assert_eq!(judged(&exchange, error(LlmErrorKind::ServerError)), ["errors"]);
        assert!(judged(&exchange, error(LlmErrorKind::RateLimited)).is_empty());
        exchange.status = 401;
        assert_eq!(judged(&exchange, error(LlmErrorKind::RateLimited)), ["errors"]);
        assert!(judged(&exchange, error(LlmErrorKind::Auth)).is_empty());
        exchange.status = 200;
        exchange.expect = None;
        assert!(
            judge(Api::OpenaiChat, &exchange, &Decoded { end: Some(Ok(reply)), faults: Vec::new() })
                .is_none()
        );
    }

    #[test]
    fn a_stream_that_nobody_ended_is_no_reply() {
        let (mut exchange, reply) = pair();
        let expect = exchange.expect.as_mut().unwrap();
        expect.finish = None;
        exchange.is_streamed = true;
        assert!(differences(&exchange, &reply).is_empty());
        exchange.expect.as_mut().unwrap().has_no_finish = true;
        assert_eq!(differences(&exchange, &reply), ["errors"]);
        // X3: unless it says that all has come, or is whole. Then an error is a difference.
        let broken_off = |exchange: &Exchange| {
            let error = LlmError::new(LlmErrorKind::StreamInterrupted, ErrorPhase::Stream, "");
            let decoded = Decoded { end: Some(Err(error)), faults: Vec::new() };
            let findings = judge(Api::OpenaiChat, exchange, &decoded).unwrap();
            findings.columns.into_values().flatten().count()
        };
        assert_eq!(broken_off(&exchange), 0);
        exchange.body = b"data: {}\n\ndata: [DONE]\n\n".to_vec();
        assert!(differences(&exchange, &reply).is_empty());
        assert_eq!(broken_off(&exchange), 1);
        exchange.body.clear();
        exchange.is_streamed = false;
        assert!(differences(&exchange, &reply).is_empty());
        assert_eq!(broken_off(&exchange), 1);
    }

    #[test]
    fn a_server_tool_has_to_be_in_the_turn_that_is_kept() {
        let (mut exchange, mut reply) = pair();
        exchange.expect.as_mut().unwrap().server_tools = vec!["web_search_call".to_owned()];
        assert_eq!(differences(&exchange, &reply), ["server tools"]);
        reply.raw = Some(loop_llm::Raw::from_text("a/b/c\n{\"type\":\"web_search_call\"}"));
        assert!(differences(&exchange, &reply).is_empty());
    }
}
