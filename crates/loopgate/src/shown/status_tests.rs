//! Tests of the status line in every state, for every wait and width, with simulated time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use loop_core::reply::Reply;
use loop_core::run::{CallModel, PromptSize, Provenance, RunTool, SaveResult};
use loop_core::types::{Digest, FailureKind, ModelFailure, Observation, RunId, Status};
use loop_core::{Command, Event, Facts, RunSpec};
use loop_runtime::journal::Entry;
use loop_testkit::{failure, item};

use super::*;

/// A run, what its calls wait for, and the time.
struct WatchedRun {
    run: Run,
    waits: CallWaits,
    begun: Instant,
    now: Instant,
}

impl WatchedRun {
    fn new(spec: &str) -> Self {
        let spec: RunSpec = serde_json::from_str(spec).unwrap();
        let none = Digest::of("none", b"");
        let provenance = Provenance::default();
        let facts =
            Facts { unix_ms: 0, nonce: "k3j9".into(), prompts: none, tools: none, history: None, provenance };
        let (run, first, notes) = Run::start(RunId::new("r1"), spec.into(), item(), facts);
        let begun = Instant::now();
        let mut watched = Self { run, waits: CallWaits::default(), begun, now: begun };
        let entry = Arc::new(Entry { seq: 0, event: first, notes });
        watched.waits.hear(&RunEvent::Recorded(entry), watched.now);
        watched
    }

    fn after(&mut self, ms: u64) -> &mut Self {
        self.now += Duration::from_millis(ms);
        self
    }

    fn apply(&mut self, kind: EventKind) {
        let at = u64::try_from((self.now - self.begun).as_millis()).unwrap();
        let event = Event { at: loop_core::types::Millis(at), kind };
        let notes = self.run.apply(&event).unwrap();
        let entry = Arc::new(Entry { seq: 1, event, notes });
        self.waits.hear(&RunEvent::Recorded(entry), self.now);
    }

    fn call(&self) -> CallModel {
        let call = self.run.commands().into_iter().find_map(|command| match command {
            Command::CallModel(call) => Some(call),
            _ => None,
        });
        call.unwrap()
    }

    /// The commanded call is sent.
    fn sent(&mut self) -> CallModel {
        let call = self.call();
        let size = PromptSize { bytes: 40_000, shared_bytes: 0 };
        let quote = self.run.quote(&call.key, size).unwrap();
        self.apply(EventKind::CallStarted {
            key: call.key,
            attempt: call.attempt,
            tier: quote.tier,
            prompt_bytes: size.bytes,
            shared_bytes: 0,
            prompt_hash: Digest::of("none", b""),
            max_output_tokens: quote.max_output_tokens,
            reserve: quote.reserve,
        });
        call
    }

    fn replied(&mut self, call: &CallModel, confidence: &str, actions: &str) {
        let text = format!(
            "## Situation\nFull.\n```json\n{{\"analysis_confidence\": \"{confidence}\", \"ai_actions\": {actions}}}\n```\n"
        );
        let reply = Box::new(Reply::text(text));
        self.apply(EventKind::ModelReplied { key: call.key, attempt: call.attempt, reply });
    }

    fn news(&mut self, key: CommandKey, news: CallNews) {
        self.waits.hear(&RunEvent::Call { key, attempt: 1, news }, self.now);
    }

    fn text(&mut self, key: CommandKey) {
        self.waits.hear(&RunEvent::Text { key, attempt: 1, text: "x".into() }, self.now);
    }

    #[track_caller]
    fn shows(&self, expected: &str) {
        self.shows_in(usize::MAX, expected);
    }

    #[track_caller]
    fn shows_in(&self, columns: usize, expected: &str) {
        assert_eq!(line(&self.run, &self.waits, self.now, columns).as_deref(), Some(expected));
    }
}

fn spec() -> String {
    r#"{"version": 1, "domain": "helpdesk",
        "protocol": {"type": "document", "sections": [{"id": "situation", "heading": "Situation"}]},
        "tools": [{"name": "fetch_device", "description": "Device details", "args": {"type": "object", "properties": {"target": {"type": "string"}}},
                   "effect": "read", "timeout_ms": 12000, "attempts": 2}],
        "selection": {"enabled": false}, "save": true,
        "limits": {"passes": 5, "wall_ms": 300000, "cost_usd": "0.5"},
        "models": {"base": {"provider": "p", "model": "gpt-large", "price": {"input": 1000000, "output": 4000000},
                   "context_tokens": 100000, "max_output_tokens": 4096, "timeout_ms": 60000}}}"#.to_owned()
}

const LIMITED: CallNews = CallNews::Queued { wait_ms: Some(2_500) };

fn refused(status: Option<u16>) -> CallNews {
    let (kind, message) = (FailureKind::RateLimited, "Rate limit reached".into());
    CallNews::Retrying { next_try: 2, wait_ms: 2_000, kind, status, message }
}

// W6: nothing waits silently, and the line says what for.
#[test]
fn a_call_says_what_it_waits_for_and_for_how_long() {
    let mut watched = WatchedRun::new(&spec());
    watched.shows("pass 1 of 5 · gpt-large · 0 s passed · 5:00 left · $0.0000 of $0.50");
    let key = watched.after(400).sent().key;
    let rest = "$0.0000 of $0.50 · $0.0364 reserved";
    watched.shows(&format!("pass 1 of 5 · gpt-large · 0 s passed · 4:59 left · {rest}"));
    watched.news(key, LIMITED);
    watched.shows(&format!(
        "pass 1 of 5 · gpt-large · rate limit, again in 3 s · 0 s passed · 4:59 left · {rest}"
    ));
    watched.news(key, CallNews::Queued { wait_ms: None });
    watched.shows(&format!(
        "pass 1 of 5 · gpt-large · behind other calls of a rate limit · 0 s passed · 4:59 left · {rest}"
    ));
    watched.news(key, refused(Some(429)));
    watched.shows(&format!(
        "pass 1 of 5 · gpt-large · 429, again in 2 s, try 2 · 0 s passed · 4:59 left · {rest}"
    ));
    watched.after(1_300);
    watched.shows(&format!(
        "pass 1 of 5 · gpt-large · 429, again in 1 s, try 2 · 1 s passed · 4:58 left · {rest}"
    ));
    watched.news(key, refused(None));
    watched.shows(&format!(
        "pass 1 of 5 · gpt-large · rate limited, again in 2 s, try 2 · 1 s passed · 4:58 left · {rest}"
    ));
    watched.news(key, CallNews::Sent);
    watched.after(9_000);
    watched.shows(&format!("pass 1 of 5 · gpt-large · no reply for 9 s · 10 s passed · 4:49 left · {rest}"));
    watched.text(key);
    watched.shows(&format!("pass 1 of 5 · gpt-large · receiving · 10 s passed · 4:49 left · {rest}"));
    watched.after(130_000);
    watched.shows(&format!("pass 1 of 5 · gpt-large · silent for 2:10 · 2:20 passed · 2:39 left · {rest}"));
    watched.apply(EventKind::StopRequested { how: loop_core::run::StopMode::AtGate });
    watched.shows(&format!(
        "pass 1 of 5, then stop · gpt-large · silent for 2:10 · 2:20 passed · 2:39 left · {rest}"
    ));
}

#[test]
fn a_failed_call_says_why_and_when_it_is_tried_again() {
    let mut watched = WatchedRun::new(&spec());
    let call = watched.sent();
    let failure = ModelFailure {
        kind: FailureKind::Overloaded,
        retry_at: Some(loop_core::types::Millis(4_200)),
        ..failure(true)
    };
    let failed = EventKind::ModelFailed { key: call.key, attempt: 1, failure: Box::new(failure) };
    watched.after(500).apply(failed);
    watched.shows(
        "pass 1 of 5 · gpt-large · overloaded, again in 4 s, try 2 · 0 s passed · 4:59 left · $0.0001 of $0.50",
    );
    // Until it is due.
    watched.after(3_700);
    watched.shows("pass 1 of 5 · gpt-large · try 2 · 4 s passed · 4:55 left · $0.0001 of $0.50");
}

#[test]
fn tools_say_which_of_them_has_not_returned() {
    let mut watched = WatchedRun::new(&spec());
    let call = watched.sent();
    let actions = r#"[{"action_id": "a", "action_type": "fetch_device", "priority": "required", "parameters": {"target": "x"}},
        {"action_id": "b", "action_type": "fetch_device", "priority": "required", "parameters": {"target": "y"}}]"#;
    watched.after(1_000).replied(&call, "low", actions);
    let tools: Vec<(CommandKey, u32)> = watched
        .run
        .commands()
        .into_iter()
        .filter_map(|command| match command {
            Command::RunTool(RunTool { key, attempt, .. }) => Some((key, attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(tools.len(), 2);
    let end = |line: Option<String>| line.unwrap().split(" · $").next().unwrap().to_owned();
    let shown = |watched: &WatchedRun| end(line(&watched.run, &watched.waits, watched.now, usize::MAX));
    assert_eq!(
        shown(&watched),
        "running tools, 0 of 2 done · fetch_device and 1 more · 1 s passed · 4:59 left"
    );
    watched.after(2_000);
    watched.news(tools[1].0, refused(Some(503)));
    let (key, attempt) = tools[0];
    let observation = Observation::new(Status::Ok, "found", "x", "{}").into();
    watched.apply(EventKind::ToolFinished { key, attempt, observation });
    assert_eq!(
        shown(&watched),
        "running tools, 1 of 2 done · fetch_device · 503, again in 2 s, try 2 · 3 s passed · 4:57 left"
    );
}

#[test]
fn a_save_is_a_phase_that_counts_its_tries_and_the_end_has_no_line() {
    let mut watched = WatchedRun::new(&spec());
    let call = watched.sent();
    watched.after(1_000).replied(&call, "high", "[]");
    let line_of = |watched: &WatchedRun| line(&watched.run, &watched.waits, watched.now, usize::MAX);
    let saving = line_of(&watched).unwrap();
    assert!(saving.starts_with("saving · 1 s passed"), "{saving}");
    let retry_at = Some(loop_core::types::Millis(4_000));
    let result = SaveResult::Failed { message: "the disk is full".into(), retry_at };
    watched.after(1_000).apply(EventKind::SaveFinished { attempt: 1, result });
    let saving = line_of(&watched).unwrap();
    assert!(saving.starts_with("saving · again in 2 s, try 2 · "), "{saving}");
    watched.after(2_000).apply(EventKind::DeadlineReached);
    let result = SaveResult::Saved { location: "there".into() };
    watched.apply(EventKind::SaveFinished { attempt: 2, result });
    assert_eq!(line_of(&watched), None);
}

#[test]
fn a_narrow_terminal_loses_the_least_important_part_first() {
    let mut watched = WatchedRun::new(&spec());
    let key = watched.sent().key;
    watched.news(key, refused(Some(429)));
    watched.after(1_000);
    let whole = "pass 1 of 5 · gpt-large · 429, again in 1 s, try 2 · 1 s passed · 4:59 left · $0.0000 of $0.50 · $0.0364 reserved";
    watched.shows_in(columns_of(whole), whole);
    for (columns, expected) in [
        (
            100,
            "pass 1 of 5 · gpt-large · 429, again in 1 s, try 2 · 1 s passed · 4:59 left · $0.0000 of $0.50",
        ),
        (90, "pass 1 of 5 · gpt-large · 429, again in 1 s, try 2 · 1 s passed · 4:59 left"),
        (70, "pass 1 of 5 · 429, again in 1 s, try 2 · 1 s passed · 4:59 left"),
        (60, "pass 1 of 5 · 429, again in 1 s, try 2 · 1 s passed"),
        (40, "pass 1 of 5 · 429, again in 1 s, try 2"),
        (30, "pass 1 of 5"),
        (8, "pass 1 …"),
        (1, "…"),
    ] {
        watched.shows_in(columns, expected);
    }
    for columns in 0..140 {
        let shown = line(&watched.run, &watched.waits, watched.now, columns).unwrap();
        assert!(columns_of(&shown) <= columns, "{columns}: {shown}");
    }
}

#[test]
fn a_name_from_outside_steers_nothing_and_is_cut() {
    let hostile = "m\\u001b[2J\\u202e\\n日本語-".to_owned() + &"x".repeat(60);
    let mut watched = WatchedRun::new(&spec().replace("gpt-large", &hostile));
    watched.sent();
    let shown = line(&watched.run, &watched.waits, watched.now, usize::MAX).unwrap();
    assert!(!shown.contains(char::is_control) && !shown.contains('\u{202e}'), "{shown:?}");
    assert!(shown.starts_with("pass 1 of 5 · m[2J 日本語-xxx") && shown.contains("… · 0 s"), "{shown}");
}

#[test]
fn spans_and_amounts_are_short() {
    let spans =
        [(0, "0 s"), (119_999, "119 s"), (120_000, "2:00"), (3_599_000, "59:59"), (7_265_000, "2:01:05")];
    for (ms, text) in spans {
        assert_eq!(clock(ms), text);
    }
    assert_eq!((ceil(1), ceil(1_000), ceil(0)), ("1 s".into(), "1 s".into(), "0 s".into()));
    let amounts =
        [(0, "$0.0000"), (1, "$0.0001"), (12_345_600_000, "$0.0124"), (3_000_000_000_000, "$3.0000")];
    for (pico, text) in amounts {
        assert_eq!(dollars(PicoUsd(pico)), text);
    }
}
