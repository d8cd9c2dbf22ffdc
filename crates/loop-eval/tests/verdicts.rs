//! What is said of each verdict: to the model, to people, in JSON and in traces (W1).
//!
//! An action of a real run gets each verdict in turn. Everything said of it comes from the verdict's own reason, and only a
//! repeat is said to have run before: words that invite a model to cite what never ran are a false citation in waiting.

use std::path::Path;
use std::sync::Arc;

use loop_core::gate::{Breaker, DeniedBy, JudgedAction, Limit};
use loop_core::repeats::RepeatRule;
use loop_core::run::State;
use loop_core::types::{CommandKey, Effect, Slot};
use loop_core::{EventKind, Note, Run, StopReason, Verdict};
use loop_domain::{Domain, LoadOptions};
use loop_eval::trace;
use loop_prompts::{Dialogue, Prompts, call_result};
use loop_runtime::{
    journal::{Entry, Journal, MemoryJournal, Recorded, replay},
    report::Report,
    run::RunId,
};
use serde_json::{Value, json};

/// A document, a conversation and an output: the domain, its item, and what is set beside it.
const DOMAINS: [(&str, &str, Set); 3] = [
    ("helpdesk", "tickets/T-1042.json", &[]),
    ("refunds", "orders/O-104.json", &[]),
    ("crm", "Search user Alice", &[("protocol", "{ type = \"output\" }"), ("output", OUTPUT)]),
];

/// Settings, as on the command line.
type Set = &'static [(&'static str, &'static str)];

const OUTPUT: &str = r#"{ name = "save_finding", description = "Who it is", schema = { type = "object",
    properties = { name = { type = "string" } }, required = ["name"] } }"#;

/// Each verdict with what has to be said of it, and how a trace says it.
fn verdicts(run: &Run) -> Vec<(Verdict, &'static str, &'static str)> {
    let earlier = run.evidence().first().unwrap();
    let duplicate = |rule| Verdict::Duplicate { of: earlier.key, evidence: Some(earlier.id), rule };
    let denied = |why: &str, by| Verdict::Denied { why: why.into(), by };
    vec![
        (
            Verdict::UnknownTool { similar: vec!["fetch_x".into()] },
            "similar names: fetch_x",
            "deny:unknown_tool",
        ),
        (Verdict::UnknownTool { similar: Vec::new() }, "no tool has this name", "deny:unknown_tool"),
        (
            Verdict::InvalidArguments { pointer: "/id".into(), message: "expected text".into() },
            "/id: expected text",
            "deny:invalid_tool_input",
        ),
        (
            denied("forbidden by gate.forbid", DeniedBy::Policy),
            "forbidden by gate.forbid",
            "deny:tool_not_allowed",
        ),
        (denied("a repeat", DeniedBy::Repeat), "a repeat", "deny:duplicate"),
        (denied("not on Sundays", DeniedBy::Person), "not on Sundays", "deny:person"),
        (denied("nobody answered in time", DeniedBy::Silence), "nobody answered in time", "deny:no_answer"),
        (duplicate(None), "already run as", "deny:duplicate"),
        (duplicate(Some(RepeatRule::Exact)), "already run as", "deny:duplicate"),
        (
            duplicate(Some(RepeatRule::SameResult { times: 2, ignored: Vec::new() })),
            "already returned the same result 2 times",
            "deny:duplicate",
        ),
        (duplicate(Some(RepeatRule::Failed)), "already failed as", "deny:duplicate"),
        (
            duplicate(Some(RepeatRule::Cycle { length: 2, times: 2 })),
            "already part of a cycle",
            "deny:duplicate",
        ),
        (
            duplicate(Some(RepeatRule::Similar { query: "late".into(), millis: 900 })),
            "already run with a similar search text",
            "deny:duplicate",
        ),
        (Verdict::Skipped, "nice_to_have", "skip"),
        (Verdict::NeedsPerson { effect: Effect::WriteKeyed, why: None }, "consent", "escalate:needs_person"),
        (
            Verdict::NeedsPerson { effect: Effect::Egress, why: Some("the address is new".into()) },
            "the address is new",
            "escalate:needs_person",
        ),
        (Verdict::OverLimit { limit: Limit::ToolCalls }, "limits.tool_calls", "deny:over_limit"),
        (Verdict::OverLimit { limit: Limit::Selected }, "limits.selected", "deny:over_limit"),
        (Verdict::OverLimit { limit: Limit::OfTool { calls: 3 } }, "its limit of 3 calls", "deny:over_limit"),
        (
            Verdict::BreakerOpen { breaker: Breaker::ToolFailures },
            "gate.breakers.tool_failures",
            "deny:breaker_open",
        ),
        (Verdict::BreakerOpen { breaker: Breaker::Denied }, "gate.breakers.denied", "deny:breaker_open"),
        (
            Verdict::BreakerOpen { breaker: Breaker::BadArguments },
            "gate.breakers.bad_arguments",
            "deny:breaker_open",
        ),
        (Verdict::OneAtATime, "one call is run at a time", "deny:one_at_a_time"),
        (Verdict::Ended { reason: StopReason::Timeout }, "the run was ending (timeout)", "deny:ended"),
    ]
}

async fn recorded(domain: &str, item: &str, set: Set) -> (RunId, Recorded) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(domain);
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), value.replace('\n', ""))).collect();
    let options = LoadOptions { set, ..LoadOptions::default() };
    let domain = Domain::load(&folder, &options).unwrap();
    // A file of the example, or a text.
    let text = std::fs::read_to_string(folder.join(item)).unwrap_or_else(|_| item.to_owned());
    let item = domain.item(&text, item).unwrap();
    let journal = Arc::new(MemoryJournal::new());
    let outcome = domain.unsaved_loop().with_journal(journal.clone()).run(item).await.unwrap();
    let recorded = journal.read(&outcome.run).await.unwrap();
    (outcome.run, recorded)
}

/// The run as it was before its last reply, with another verdict for the action at `at`, which then has not run.
fn changed(run: &Run, at: usize, verdict: &Verdict) -> Run {
    let mut state = serde_json::to_value(run.state()).unwrap();
    let action = &mut state["calls"]["actions"][at];
    assert!(action.is_object(), "{action}");
    action["evidence"] = Value::Null;
    action.as_object_mut().unwrap().remove("by");
    for (name, value) in json!({ "verdict": verdict }).as_object().unwrap() {
        action[name] = value.clone();
    }
    let state: State = serde_json::from_value(state).unwrap();
    let run = Run::restore(state, Arc::clone(run.spec())).unwrap();
    assert_eq!(&run.actions()[at].verdict, verdict);
    run
}

/// Whether a text says that this very call has run before.
fn claims_it_ran(text: &str) -> bool {
    ["already", "(cached", "see E"].iter().any(|claim| text.contains(claim))
}

#[track_caller]
fn check(text: &str, verdict: &Verdict, says: &str, whose: &str) {
    assert!(text.contains(says), "{whose}: {verdict:?}: {text}");
    let is_repeat = matches!(verdict, Verdict::Duplicate { .. });
    assert!(is_repeat || !claims_it_ran(text), "{whose}: {verdict:?}: {text}");
}

#[tokio::test]
async fn every_verdict_is_worded_from_its_own_reason_for_everybody() {
    for (domain, item, set) in DOMAINS {
        let (id, recorded) = recorded(domain, item, set).await;
        // As far as the last call to the model, which reads what became of the actions before.
        let is_call = |entry: &Entry| matches!(&entry.event.kind, EventKind::CallStarted { key, .. } if key.slot == Slot::Main);
        let end = recorded.entries.iter().rposition(is_call).unwrap();
        let before = Recorded { entries: recorded.entries[..end].to_vec(), ..recorded.clone() };
        let run = replay(&id, &before).unwrap();
        let whole = replay(&id, &recorded).unwrap();
        let at = run.actions().iter().rposition(|action| action.verdict == Verdict::Run).unwrap();
        let mut names = Vec::new();
        for (verdict, says, traced) in verdicts(&run) {
            names.push(verdict.name());
            let changed = changed(&run, at, &verdict);
            let action = &changed.actions()[at];

            // The model.
            let key = CommandKey { pass: action.key.pass + 1, slot: Slot::Main };
            if changed.spec().protocol.properties().native_calls {
                let result = call_result(&changed, action);
                let has_reason = result.text.contains(says) || result.is_error;
                assert!(
                    has_reason && !result.text.trim().is_empty(),
                    "{domain}: {verdict:?}: {}",
                    result.text
                );
                let is_repeat = matches!(verdict, Verdict::Duplicate { .. });
                assert!(is_repeat || !claims_it_ran(&result.text), "{domain}: {verdict:?}: {}", result.text);
            } else {
                let prompt = Dialogue::default().prompt(&Prompts::builtin(), &changed, key).unwrap();
                let name = action.tool_name();
                let text: Vec<&str> = prompt.turns.iter().map(|turn| turn.text()).collect();
                let text = text.concat();
                let line = text.lines().rfind(|line| line.starts_with(&format!("- {name}"))).unwrap();
                check(line, &verdict, says, domain);
            }

            // People, and programs.
            check(&action.reason(changed.evidence()), &verdict, says, "people");
            let mut outcome = whole.outcome().unwrap().clone();
            let of_outcome = outcome.actions.iter_mut().find(|other| other.key == action.key).unwrap();
            (of_outcome.verdict, of_outcome.evidence) = (verdict.clone(), None);
            let report = serde_json::to_value(Report::new(whole.started(), &outcome)).unwrap();
            let actions = report["actions"].as_array().unwrap();
            let reported = actions.iter().find(|reported| reported["key"] == action.key.to_string()).unwrap();
            assert_eq!(reported["verdict"], verdict.name());
            check(reported["verdict_reason"].as_str().unwrap(), &verdict, says, "JSON");

            // Traces.
            let judged = JudgedAction { verdict: verdict.clone(), evidence: None, ..(**action).clone() };
            let mut entry = before.entries[0].clone();
            entry.notes = vec![Note::ActionJudged(judged.into())];
            let lines = trace::lines(&[entry], loop_core::spec::ErrorStyle::Plain);
            let line = format!("step:{}:validation:{traced}", action.key.pass.saturating_sub(1));
            assert_eq!(lines, [line], "{verdict:?}");
        }
        names.sort_unstable();
        names.dedup();
        let mut all: Vec<&str> = Verdict::NAMES.to_vec();
        all.retain(|name| !["run", "kept"].contains(name));
        all.sort_unstable();
        assert_eq!(names, all, "every verdict that leaves a call undone");
    }
}
