//! What is sent of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use loop_core::EventKind;
use loop_core::run::PersonAnswer;
use loop_core::types::TraceParent;

use loop_runtime::engine::{EngineRun, Projection, Settlement};
use loop_runtime::journal::MemoryJournal;
use loop_runtime::models::{ModelSpec, Models, Scripted};
use loop_runtime::run::{CancellationToken, DriveResult};
use loop_runtime::tools::{Effect, Registry, ToolContext, ToolDeclaration, ToolResult};
use loop_runtime::{RunSpec, Runner, WorkItem};

use crate::receiver::Receiver;
use crate::runs::{CALLS, Noted, WRITES, item, runner, telemetry};
use crate::wire::Span;

const LONG: Duration = Duration::from_secs(60);

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = named(spans, name);
    assert_eq!(found.len(), 1, "{name}: {:#?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

/// Every span has a parent that is there, in the same trace and around it; ids are there once.
fn check_tree(spans: &[Span], root_parent: &str) {
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "an id is there twice");
    let roots: Vec<&Span> = spans.iter().filter(|span| span.parent == root_parent).collect();
    assert_eq!(roots.len(), 1, "{roots:#?}");
    for span in spans {
        assert_eq!(span.trace, roots[0].trace);
        assert!(span.start <= span.end, "{span:#?}");
        if span.parent != root_parent {
            let parent = by_id.get(span.parent.as_str()).unwrap_or_else(|| panic!("no parent: {span:#?}"));
            assert!(parent.start <= span.start && span.end <= parent.end, "{parent:#?} {span:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_tree_of_spans_with_its_tokens_and_money() {
    // S4-12, S4-18, S4-46
    let receiver = Receiver::accepting();
    let (telemetry, lines) = telemetry(&receiver.url, &[("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k")]);
    let noted = Noted::default();
    let outcome = telemetry.listen_to(runner(CALLS, &noted)).run(item()).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let spans = receiver.spans();
    check_tree(&spans, "");
    let root = one(&spans, "invoke_agent desk");
    let uuid: String = outcome.run.as_str().chars().filter(|digit| *digit != '-').collect();
    assert_eq!(root.trace, uuid);
    assert_eq!(root.has("loopgate.stop.reason"), outcome.stop.reason().name());
    assert_eq!((root.has("loopgate.model_calls"), root.has("loopgate.tool_calls")), ("2", "1"));
    assert_eq!(
        (root.has("gen_ai.usage.input_tokens"), root.has("gen_ai.usage.output_tokens")),
        ("340", "35")
    );
    let usd: f64 = root.has("loopgate.cost.usd").parse().unwrap();
    assert_eq!(usd, outcome.totals.cost.total().unwrap().as_usd());
    assert!(usd > 0.0);
    let (first, last) = (one(&spans, "pass 1"), one(&spans, "pass 2"));
    assert_eq!((&first.parent, &last.parent), (&root.id, &root.id));
    let chats = named(&spans, "chat gpt-test");
    let parents: BTreeSet<&String> = chats.iter().map(|chat| &chat.parent).collect();
    assert_eq!(parents, [&first.id, &last.id].into());
    let chat = chats.iter().find(|chat| chat.parent == first.id).unwrap();
    assert_eq!((chat.has("gen_ai.provider.name"), chat.has("gen_ai.operation.name")), ("openai", "chat"));
    // Input counts what was cached, output counts reasoning.
    assert_eq!(
        (chat.has("gen_ai.usage.input_tokens"), chat.has("gen_ai.usage.output_tokens")),
        ("140", "25")
    );
    assert_eq!(chat.has("gen_ai.usage.cache_read.input_tokens"), "40");
    assert_eq!(chat.has("gen_ai.usage.reasoning.output_tokens"), "5");
    assert!(chat.has("gen_ai.response.time_to_first_chunk").parse::<f64>().unwrap() >= 0.0);
    assert!(chat.has("loopgate.cost.usd").parse::<f64>().unwrap() > 0.0);
    let tool = one(&spans, "execute_tool look_up");
    assert_eq!((&tool.parent, tool.has("gen_ai.tool.call.id")), (&first.id, "call-a"));
    assert!(!named(&spans, "gate").is_empty() && !root.is_error && !tool.is_error);
    // Each call was told of the span that was recorded of it.
    let noted_spans: Vec<(String, String)> =
        noted.all().into_iter().map(|(what, span)| (what, span.unwrap().span.to_string())).collect();
    let chat_ids: BTreeSet<&String> = chats.iter().map(|chat| &chat.id).collect();
    let of_models: BTreeSet<&String> =
        noted_spans.iter().filter(|(what, _)| what == "model").map(|(_, span)| span).collect();
    assert_eq!(of_models, chat_ids);
    assert!(noted_spans.contains(&("look_up".to_owned(), tool.id.clone())));
    let metrics = receiver.metrics();
    for name in [
        "gen_ai.client.inference.duration",
        "gen_ai.client.inference.time_to_first_chunk",
        "gen_ai.client.inference.usage.input_tokens",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
        "loopgate.cost.usd",
    ] {
        assert_eq!(metrics.get(name), Some(&1), "{name}: {metrics:#?}");
    }
    let records = receiver.records();
    let stopped = records.iter().find(|(name, _)| name == "loopgate.run.stopped").unwrap();
    assert_eq!(stopped.1["loopgate.run.id"], outcome.run.as_str());
    // Nothing of the content goes anywhere, and no metric has a label of a run or an item.
    let all = receiver.got();
    for got in &all {
        assert!(got.head.to_ascii_lowercase().contains("api-key: k"), "{}", got.head);
        for mark in ["MARK-ITEM", "MARK-REPLY", "MARK-ARGUMENT", "MARK-RESULT"] {
            assert!(!holds(&got.body, mark), "{mark} in {}", got.path);
        }
        if got.path == "/v1/metrics" {
            assert!(!holds(&got.body, outcome.run.as_str()) && !holds(&got.body, "T-1"));
        }
    }
    assert_eq!(*lines.lock().unwrap(), Vec::<String>::new());
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_sent_where_it_is_asked_for_and_secrets_never() {
    // S4-46
    let receiver = Receiver::accepting();
    let content = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_and_event");
    let (telemetry, _) = telemetry(&receiver.url, &[content]);
    let secrets = loop_core::secrets::Secrets::of(["MARK-RESULT"]);
    let runner = telemetry.listen_to(runner(CALLS, &Noted::default()).with_secrets(&secrets));
    let huge = WorkItem::new("T-".repeat(20_000), "ticket", "x".repeat(2_000), &"MARK-ITEM ".repeat(5_000));
    runner.run(huge).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let spans = receiver.spans();
    let chats = named(&spans, "chat gpt-test");
    let last = chats.iter().max_by_key(|chat| chat.start.max(chat.end)).unwrap();
    assert!(chats.iter().any(|chat| chat.has("gen_ai.output.messages").contains("MARK-REPLY")), "{last:#?}");
    assert!(chats.iter().any(|chat| chat.has("gen_ai.input.messages").contains("MARK-ITEM")));
    assert!(one(&spans, "execute_tool look_up").has("gen_ai.tool.call.arguments").contains("MARK-ARGUMENT"));
    for span in &spans {
        for (name, value) in &span.attributes {
            assert!(value.chars().count() <= 48 << 10, "{name} of {} has {}", span.name, value.len());
            if !name.starts_with("gen_ai.") {
                assert!(value.chars().count() <= 4_096, "{name}");
            }
        }
    }
    for messages in chats.iter().filter_map(|chat| chat.attributes.get("gen_ai.input.messages")) {
        assert!(serde_json::from_str::<serde_json::Value>(messages).unwrap().is_array());
    }
    assert!(receiver.records().iter().any(|(name, _)| name == "gen_ai.client.inference.operation.details"));
    for got in receiver.got() {
        assert!(!holds(&got.body, "MARK-RESULT"), "{}", got.path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_failed_is_a_record_under_the_name_of_the_conventions() {
    let receiver = Receiver::accepting();
    let (telemetry, _) = telemetry(&receiver.url, &[]);
    let fails = r#"{"version": 1, "replies": [{"fails": "gone"}, {"text": "Done."}]}"#;
    telemetry.listen_to(runner(fails, &Noted::default())).run(item()).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let names: Vec<String> = receiver.records().into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"gen_ai.client.inference.exception".to_owned()), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.contains("operation.exception")).count(), 0, "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_part_of_the_submitters_trace_and_its_flag_decides() {
    // S4-12
    let submitter: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let receiver = Receiver::accepting();
    let (telemetry, _) = telemetry(&receiver.url, &[]);
    let noted = Noted::default();
    let of = |traceparent| WorkItem { traceparent: Some(traceparent), ..item() };
    telemetry.listen_to(runner(CALLS, &noted)).run(of(submitter)).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let spans = receiver.spans();
    check_tree(&spans, "00f067aa0ba902b7");
    assert_eq!(spans[0].trace, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(noted.all().iter().all(|(_, span)| span.is_some_and(|span| span.is_sampled())));
    // One that is not sampled has no spans, and its calls are told so. Metrics count it all the same.
    let noted = Noted::default();
    let unsampled = TraceParent { flags: 0, ..submitter };
    telemetry.listen_to(runner(CALLS, &noted)).run(of(unsampled)).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    assert_eq!(receiver.spans().len(), spans.len());
    assert!(noted.all().iter().all(|(_, span)| span.is_some_and(|span| !span.is_sampled())));
    let text = telemetry.prometheus(&|_| true);
    assert!(text.contains("gen_ai_invoke_agent_duration_seconds_count{gen_ai_agent_name=\"desk\",gen_ai_request_model=\"gpt-test\",loopgate_domain=\"desk\"} 2"), "{text}");
    // Without telemetry the calls are told of the submitter's span as it was given, and of nothing without one.
    let noted = Noted::default();
    runner(CALLS, &noted).run(of(submitter)).await.unwrap();
    assert!(noted.all().iter().all(|(_, span)| *span == Some(submitter)));
    let noted = Noted::default();
    runner(CALLS, &noted).run(item()).await.unwrap();
    assert!(noted.all().iter().all(|(_, span)| span.is_none()) && noted.all().len() == 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_another_process_resumes_continues_its_trace() {
    // S4-12, I-12
    let journal = Arc::new(MemoryJournal::new());
    let (first, second) = (Receiver::accepting(), Receiver::accepting());
    let (before, _) = telemetry(&first.url, &[]);
    let (after, _) = telemetry(&second.url, &[]);
    let of = |telemetry: &loop_otel::Telemetry, replies| {
        let runner = runner(replies, &Noted::default()).with_people().leave_when_waiting();
        telemetry.listen_to(runner.with_journal(Arc::clone(&journal) as _))
    };
    let handle = of(&before, WRITES).run(item()).start().await.unwrap();
    let DriveResult::Waiting(waiting) = handle.driven().await else { panic!("it asks") };
    assert!(before.flush(LONG).await);
    let answer = waiting.requested.iter().map(|requested| EventKind::PersonAnswered {
        key: requested.key,
        answer: PersonAnswer::Approved,
        binding: Some(requested.binding),
    });
    let rest = r#"{"version": 1, "replies": [{"text": "Done.", "usage": {"input": 20, "output": 2}}]}"#;
    of(&after, rest).resume_with(&waiting.outcome.run, answer).await.unwrap();
    assert!(after.flush(LONG).await);
    let (early, late) = (first.spans(), second.spans());
    assert_eq!(named(&early, "invoke_agent desk").len(), 0, "it has not ended");
    assert_eq!(named(&early, "chat gpt-test").len(), 1);
    let root = one(&late, "invoke_agent desk");
    assert_eq!(root.has("loopgate.model_calls"), "2");
    assert!(
        root.events.contains(&"loopgate.resumed".to_owned())
            && root.events.contains(&"loopgate.person".to_owned())
    );
    // The pass that began in the first process ends in the second, and is there once.
    let all: Vec<Span> = early.into_iter().chain(late).collect();
    check_tree(&all, "");
    assert_eq!(named(&all, "execute_tool reboot").len(), 1);
    one(&all, "pass 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_and_a_retry_link_to_the_run_that_they_continue() {
    // S4-12
    let journal = Arc::new(MemoryJournal::new());
    let receiver = Receiver::accepting();
    let (telemetry, _) = telemetry(&receiver.url, &[]);
    let of = |replies| {
        telemetry.listen_to(runner(replies, &Noted::default()).with_journal(Arc::clone(&journal) as _))
    };
    let parent = of(CALLS).run(item()).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let before = receiver.spans().len();
    let root = one(&receiver.spans(), "invoke_agent desk").clone();
    let rest = r#"{"version": 1, "replies": [{"text": "Again.", "usage": {"input": 20, "output": 2}}]}"#;
    of(rest).fork(&parent.run, None).await.unwrap();
    assert!(telemetry.flush(LONG).await);
    let spans = receiver.spans().split_off(before);
    check_tree(&spans, "");
    let fork = one(&spans, "invoke_agent desk");
    assert_eq!(fork.links, [(root.trace.clone(), root.id.clone())]);
    assert_eq!(fork.has("loopgate.parent.how"), "fork");
    assert_ne!(fork.trace, root.trace);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_an_engine_repeats_has_each_span_once_as_on_one_machine() {
    // I-12, S4-12
    let (of_local, of_engine) = (Receiver::accepting(), Receiver::accepting());
    let (local, _) = telemetry(&of_local.url, &[]);
    let (engine, _) = telemetry(&of_engine.url, &[]);
    let on_one_machine = local.listen_to(runner(CALLS, &Noted::default()));
    let outcome = on_one_machine.run(item()).await.unwrap();
    assert!(local.flush(LONG).await);
    // The same run again: its ids follow from its name, which is in the first event.
    let first = on_one_machine.journal().read(&outcome.run).await.unwrap().entries[0].event.clone();
    let on_engine = engine.listen_to(runner(CALLS, &Noted::default()));
    let mut known: Vec<Settlement> = Vec::new();
    loop {
        let mut run = EngineRun::open(&on_engine, first.clone(), None).unwrap();
        let mut projection = Projection::open(&on_engine, &run).await.unwrap();
        let mut open = Vec::new();
        for settled in known.iter().map(Some).chain([None]) {
            open.extend(run.step().unwrap().start);
            projection.write(&mut run).await.unwrap();
            if let Some(settled) = settled {
                open.retain(|work| work.key() != settled.of);
                run.settle(settled.clone()).unwrap();
            }
        }
        if run.is_done() {
            break;
        }
        known.push(on_engine.perform(open.remove(0), CancellationToken::new()).await);
    }
    assert!(engine.flush(LONG).await);
    let spans = of_engine.spans();
    check_tree(&spans, "");
    let shape = |spans: &[Span]| -> BTreeSet<(String, String, String)> {
        spans.iter().map(|span| (span.name.clone(), span.id.clone(), span.parent.clone())).collect()
    };
    assert_eq!(shape(&spans), shape(&of_local.spans()));
    let tool = one(&spans, "execute_tool look_up");
    assert_eq!(tool.has("gen_ai.tool.call.id"), "call-a");
    let root = one(&spans, "invoke_agent desk");
    assert_eq!((root.has("loopgate.model_calls"), root.has("loopgate.tool_calls")), ("2", "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_a_run_has_the_class_of_its_outcome_also_where_an_effect_is_in_doubt() {
    // Issue 40, T6b
    let receiver = Receiver::accepting();
    let (telemetry, _) = telemetry(&receiver.url, &[]);
    let reboot = ToolDeclaration::new("reboot").effect(Effect::WriteIrreversible).timeout_ms(50);
    let hangs = |_, _: ToolContext, _| std::future::pending::<ToolResult>();
    let tools = Registry::builder().tool_fn(reboot, hangs).build().unwrap();
    let mut spec = RunSpec::conversation("desk", ModelSpec::new("openai", "gpt-test"));
    spec.gate.approved = vec!["reboot".into()];
    let runner = Runner::new(spec, tools, Models::one(Arc::new(Scripted::from_json(WRITES).unwrap())));
    let outcome = telemetry.listen_to(runner).run(item()).await.unwrap();
    assert_eq!((outcome.stop.reason().name(), outcome.stop.class.name()), ("completed", "in_doubt"));
    assert!(telemetry.flush(LONG).await);
    let spans = receiver.spans();
    let root = one(&spans, "invoke_agent desk");
    assert_eq!((root.has("loopgate.stop.class"), root.is_error), ("in_doubt", true));
}
