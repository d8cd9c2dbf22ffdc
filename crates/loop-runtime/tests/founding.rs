//! What the founding documents ask of a whole run: who asked for it, what it is traced by, what its parts are called,
//! what a model and an observer read.

use crate::{agents, common};

use std::sync::{Arc, Mutex};

use agents::{Activity, Lead, ask, lead_tool, looks, save_lead, says, scripted, with_tools};
use common::world::{
    Log, Stage, answer, contract, look, runner, says as plays, selections, spec, tools, unselected,
};
use loop_core::spec::{CostMode, GateSettings, RepeatScope, Repeats};
use loop_core::types::Status;
use loop_core::{EventKind, WorkItem};
use loop_llm::scripted::ScriptedReply;
use loop_llm::{Message, Scripted};
use loop_prompts::{Layout, Prompts};
use loop_runtime::{
    Agent, RunSpec, Runner, StopReason,
    agent::AgentError,
    journal::MemoryJournal,
    models::Models,
    observe::{Step, steps},
    report::Report,
    run::{StartError, StopClass},
    spec::Limits,
    tools::{ToolContext, ToolDeclaration},
};
use serde_json::{Value, json};

// ---- the task ----

/// An agent whose one tool says under which trace and key it is called.
fn telling(model: &Arc<Scripted>, received: &Arc<Mutex<Vec<(String, String)>>>) -> Agent {
    let received = Arc::clone(received);
    let declaration = ToolDeclaration::read("look", "Looks a thing up");
    let agent = Agent::new(Arc::clone(model)).parallel();
    let agent = agent.tool(declaration, move |target: agents::Target, context: ToolContext| {
        received.lock().unwrap().push((context.trace.to_string(), context.key.to_string()));
        async move { Ok::<_, String>(format!("saw {}", target.target)) }
    });
    agent.build().unwrap()
}

#[tokio::test]
async fn a_tool_gets_the_callers_trace_apart_from_its_idempotency_key() {
    // S4-30: `executeAction(action, { traceId: task.traceId, idempotencyKey: taskId + ":" + step })`
    for given in [Some("req-7"), None] {
        let received = Arc::default();
        let model = scripted([looks(&["a", "b"]), looks(&["c"]), says("Done.")]);
        let agent = telling(&model, &received);
        let item = WorkItem { trace: given.map(Into::into), ..WorkItem::new("T-1", "task", "Look", "Look.") };
        let outcome = agent.runner().run(item).await.unwrap();
        let run = outcome.run.as_str();
        let received = received.lock().unwrap().clone();
        let trace = given.unwrap_or(run);
        assert!(
            received.iter().all(|(reported, _)| reported == trace),
            "one trace for the whole run: {received:?}"
        );
        let mut keys: Vec<&str> = received.iter().map(|(_, key)| key.as_str()).collect();
        keys.sort_unstable();
        let expected = ["1/action-0", "1/action-1", "2/action-0"].map(|key| format!("{run}/{key}"));
        assert_eq!(keys, expected, "a key for each action, with its step");
    }
}

#[tokio::test]
async fn a_task_has_its_goal_caller_constraints_budget_and_trace_before_the_first_call() {
    // S4-12: "Receive a task with a goal, caller, constraints, budget, and trace ID."
    // S4-60: "Define the loop goal and success criteria before the first model call."
    let log = Log::new();
    let stage = Arc::new(Stage::new(&log).on("main", [plays(answer("high", &[]))]));
    let spec = spec(|spec| {
        spec.selection.enabled = false;
        spec.goal = "Find out why the backup fails.".into();
        spec.gate.forbid = vec!["change".into()];
        spec.gate.required_tools = vec!["look".into()];
        spec.gate.revision_passes = 0;
        spec.limits.passes = 3;
    });
    let runner = Runner::new(spec, tools(&log), Models::one(Arc::clone(&stage) as _));
    let item = WorkItem { caller: Some("desk".into()), trace: Some("req-7".into()), ..common::item() };
    let handle = runner.run(item).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let recorded = runner.journal().read(&outcome.run).await.unwrap();
    let EventKind::Started(first) = &recorded.entries[0].event.kind else {
        panic!("{:?}", recorded.entries[0])
    };
    assert_eq!((first.item.caller.as_deref(), first.item.trace.as_deref()), (Some("desk"), Some("req-7")));
    assert_eq!(
        first.spec,
        recorded.spec.hash(),
        "what is the goal, and what would do, is fixed with the start"
    );
    let RunSpec { goal, limits, gate, .. } = &*recorded.spec;
    assert_eq!((&**goal, limits.passes), ("Find out why the backup fails.", 3));
    assert_eq!((gate.forbid.len(), &*gate.required_tools[0]), (1, "look"));
    let calls = |kind: &EventKind| matches!(kind, EventKind::CallStarted { .. });
    assert!(recorded.entries.iter().position(|entry| calls(&entry.event.kind)) > Some(0));
    // The first prompt holds the goal and what is demanded; and success is held against that, not against a claim.
    let prompt = &stage.requests("main")[0].system;
    for wanted in ["Find out why the backup fails.", "Situation", "Findings", "Next steps"] {
        assert!(prompt.contains(wanted), "no {wanted} in {prompt}");
    }
    assert_eq!(outcome.stop.reason(), StopReason::EvidenceMissing);
    let report = serde_json::to_value(Report::new(&started, &outcome)).unwrap();
    assert_eq!((&report["trace_id"], &report["caller"]), (&"req-7".into(), &"desk".into()));
    // Without either the run's own id is the trace.
    let stage = Stage::new(&log).on("main", [plays(answer("high", &[]))]);
    let handle = common::world::runner(unselected(), &log, stage).run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let report = serde_json::to_value(Report::new(&started, &outcome)).unwrap();
    assert_eq!((&report["trace_id"], report.get("caller")), (&outcome.run.as_str().into(), None));
}

#[tokio::test]
async fn prompts_tools_policies_and_routes_have_versions_of_their_own() {
    // S4-68: "Keep loop prompts, tool manifests, policies, and model routes versioned."
    let log = Log::new();
    let names = async |runner: Runner| {
        let started = runner.run(common::item()).start().await.unwrap().started().clone();
        (started.prompts, started.tools, started.policy, started.spec)
    };
    let of = |change: fn(&mut RunSpec)| {
        let spec = spec(|spec| {
            spec.selection.enabled = false;
            change(spec);
        });
        runner(spec, &log, Stage::new(&log))
    };
    let (prompts, manifest, policy, whole) = names(of(|_| ())).await;
    assert_eq!(
        names(of(|_| ())).await,
        (prompts, manifest, policy, whole),
        "the same parts, the same versions"
    );
    let other = Prompts::with_overrides(std::iter::empty(), Layout::SystemEvidence).unwrap();
    let changed = names(of(|_| ()).with_prompts(Arc::new(other))).await;
    assert!(changed.0 != prompts && changed.1 == manifest && changed.2 == policy && changed.3 == whole);
    let changed =
        names(Runner::new(unselected(), common::registry(), Models::one(Arc::new(Stage::new(&log))))).await;
    assert!(changed.0 == prompts && changed.1 != manifest && changed.3 != whole);
    let changed = names(of(|spec| spec.limits.passes = 4)).await;
    assert!(changed.0 == prompts && changed.1 == manifest && changed.2 != policy && changed.3 != whole);
    let changed = names(of(|spec| spec.models.base.model = "another".into())).await;
    assert!(changed.0 == prompts && changed.1 == manifest && changed.2 == policy && changed.3 != whole);
}

#[tokio::test]
async fn a_blank_item_or_message_begins_no_run() {
    // S4-80, for the loop's own input: what is blank is invalid.
    for blank in ["", " \n\t", "\u{200b}\u{feff}"] {
        let log = Log::new();
        let runner = runner(unselected(), &log, Stage::new(&log));
        let item = WorkItem { full: blank.into(), ..common::item() };
        let error = runner.run(item.clone()).start().await.unwrap_err();
        assert_eq!(error.to_string(), "the ticket is blank, so there is nothing to work on; give it a text");
        assert!(matches!(runner.run(item).await, Err(StartError::Blank { .. })));
        assert!(runner.journal().runs().await.unwrap().is_empty(), "nothing was begun");
        let agent = agents::conversation(&scripted([says("Yes?")]), &Activity::default()).build().unwrap();
        for mut messages in
            [ask(blank), vec![Message::user("Hi"), Message::assistant("Hello."), Message::user(blank)]]
        {
            let before = messages.clone();
            let error = agent.chat(&mut messages).await.unwrap_err();
            assert!(error.to_string().contains("the message is blank"), "{error}");
            assert_eq!(messages, before);
        }
        assert!(agent.runner().journal().runs().await.unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_auto_switch_may_be_flipped_while_a_run_goes_on() {
    // S0-47: "Manual stop: User disabled auto mode or clicked abort."
    let log = Log::new();
    let plays_for =
        || [plays(answer("medium", &[look("ok-1")])).after(5_000), plays(answer("high", &[])).after(5_000)];
    let run = async |flips: &[bool]| {
        let stage = Stage::new(&log).on("main", plays_for());
        let handle = runner(unselected(), &log, stage).run(common::item()).start().await.unwrap();
        let remote = handle.remote();
        for on in flips {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            remote.set_auto(*on);
        }
        handle.wait().await
    };
    // On already: nothing changes. Off and on again before the gate: nothing either.
    for flips in [&[true][..], &[false, true], &[false, false, true, true]] {
        let outcome = run(flips).await;
        assert_eq!((outcome.stop.reason(), outcome.totals.passes), (StopReason::Confident, 2), "{flips:?}");
    }
    // Off at the gate: the reply that was on its way is kept, and nothing more is begun.
    for flips in [&[false][..], &[false, true, false]] {
        let outcome = run(flips).await;
        assert_eq!(
            (outcome.stop.reason(), outcome.stop.class),
            (StopReason::ManualStop, StopClass::Cancelled)
        );
        assert_eq!((outcome.totals.passes, outcome.document.sections.len()), (1, 3));
        assert!(outcome.evidence.is_empty());
    }
}

// ---- what a model reads ----

#[tokio::test]
async fn each_prompt_holds_all_that_was_fetched_before_it() {
    // S0-8: "Analyzes the work item using an LLM, with pre-fetched data injected into the prompt."
    // S0-25: "Markdown accumulated into enriched context", over all passes.
    // S0-62, S0-82: prompts get the Markdown in full, and not just its summary: it "is what the LLM sees".
    let log = Log::new();
    let stage = Arc::new(Stage::new(&log).on("select", [plays(selections(&["ok-0"]))]).on(
        "main",
        [
            plays(answer("low", &[look("ok-1")])),
            plays(contract("medium", &[look("ok-2")])),
            plays(contract("high", &[])),
        ],
    ));
    let spec = spec(|spec| spec.gate.stale = loop_core::spec::Stale::Off);
    let runner = Runner::new(spec, tools(&log), Models::one(Arc::clone(&stage) as _));
    let outcome = runner.run(common::item()).await.unwrap();
    assert_eq!((outcome.stop.reason(), outcome.totals.passes), (StopReason::Confident, 3));
    let main = stage.requests("main");
    for (pass, request) in main.iter().enumerate() {
        let texts = request.messages.iter().map(|message| message.text()).chain([&*request.system]);
        let whole = texts.collect::<Vec<_>>().join("\n");
        for n in 0..=2 {
            // `Saw ok-0.` is the tool's Markdown, `saw ok-0` its summary.
            assert_eq!(whole.contains(&format!("Saw ok-{n}.")), n <= pass, "pass {}: {whole}", pass + 1);
        }
    }
}

/// A conversation under S3's rules, with what its tools are called.
fn guarded(model: &Arc<Scripted>, change: impl FnOnce(&mut GateSettings)) -> Agent {
    let mut builder = Agent::new(Arc::clone(model)).gate(change);
    for name in ["composio_execute", "search_knowledge", "own"] {
        let declaration = ToolDeclaration::read(name, "Does as it is told");
        builder = builder.tool(declaration, |query: Query, _| async move { Ok::<_, String>(query.query) });
    }
    builder.build().unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query {
    query: String,
}

fn searches(tool: &str, queries: &[&str]) -> ScriptedReply {
    queries
        .iter()
        .fold(ScriptedReply::default(), |reply, query| reply.and_call(tool, json!({ "query": query })))
}

/// The last results that a model was shown, as text.
fn shown(request: &loop_llm::ModelRequest) -> Vec<String> {
    let last = request.messages.iter().rev().find_map(|message| match message {
        Message::Tool { results } => Some(results),
        _ => None,
    });
    last.unwrap().iter().map(|result| result.text.to_string()).collect()
}

#[tokio::test]
async fn the_reason_of_a_skip_is_what_the_model_reads_as_its_result() {
    // S3-23: "Tool result injection: ... inject skip reason to LLM"; S3-31: each of the three reasons has a code.
    // S3-7: in the turns of a chat.
    let turn =
        |gate: &mut GateSettings| (gate.repeats, gate.scope) = (Some(Repeats::ThreeTier), RepeatScope::Run);
    let model = scripted([
        searches("search_knowledge", &["fix bug"]),
        searches("search_knowledge", &["fix bug", "fix the bug", "restart the server"]),
        searches("search_knowledge", &["something else again"]),
        says("Done."),
        searches("search_knowledge", &["fix bug"]),
        says("Done again."),
    ]);
    let agent = guarded(&model, turn);
    let mut messages = ask("Fix it");
    let meta = agent.chat(&mut messages).await.unwrap().meta;
    let requests = model.requests();
    let (second, third) = (shown(&requests[2]), shown(&requests[3]));
    let begins = |text: &str, with: &str| {
        assert!(text.strip_prefix("Error: ").unwrap_or(text).starts_with(with), "{text}");
    };
    begins(&second[0], "Tool 'search_knowledge' was already executed with identical parameters");
    begins(&second[1], "Tool 'search_knowledge' was already executed with a similar query");
    assert_eq!(second[2], "restart the server");
    begins(&third[0], "Tool 'search_knowledge' has reached its execution limit (2) for this turn");
    let report = meta.outcome.actions.iter().map(|action| action.verdict.repeat_code());
    let codes: Vec<Option<&str>> = report.collect();
    assert_eq!(codes, [None, Some("exact_duplicate"), Some("similar_query"), None, Some("limit_exceeded")]);
    // The next turn begins with an empty record.
    messages.push(Message::user("Once more"));
    agent.chat(&mut messages).await.unwrap();
    assert_eq!(shown(&model.requests()[5]), ["fix bug"]);
}

// ---- an output ----

/// A reply that used so much.
fn using(reply: ScriptedReply) -> ScriptedReply {
    let usage = loop_core::types::Usage { input: 100, output: 10, ..loop_core::types::Usage::default() };
    ScriptedReply { usage: Some(usage), ..reply }
}

#[tokio::test]
async fn totals_are_there_whether_it_succeeds_or_fails() {
    // S2-54: "Token totals are included in metadata for both success and failure cases (for cost tracking)."
    let strict = || {
        lead_tool().validator("score", |lead: Lead| async move {
            if lead.score <= 100 { Ok(()) } else { Err("too much") }
        })
    };
    type Replies = Vec<ScriptedReply>;
    let cases: [(&str, Replies, u64); 6] = [
        ("", vec![looks(&["x"]), save_lead("Ann", 101), save_lead("Ann", 1)], 3),
        ("MAX_ATTEMPTS", vec![save_lead("Ann", 101), save_lead("Ann", 102)], 2),
        ("MAX_ITERATIONS", vec![looks(&["a"]), looks(&["b"]), looks(&["c"])], 3),
        ("INVALID_RESPONSE", vec![looks(&["a"]), says("I would rather talk.")], 2),
        ("REFUSED", vec![looks(&["a"]), agents::refusal("No.")], 2),
        ("TOKEN_LIMIT", vec![looks(&["a"]), looks(&["b"])], 2),
    ];
    for (code, replies, calls) in cases {
        let model = scripted(replies.into_iter().map(using));
        let builder = Agent::output(model, strict()).attempts(2).passes_per_attempt(3);
        let tokens = (code == "TOKEN_LIMIT").then_some(220);
        let limits = Limits { tokens, cost_mode: CostMode::After, ..Limits::extract(2, 3) };
        let agent = with_tools(builder.limits(limits), &Activity::default()).build().unwrap();
        let result = agent.prompt("Go").await;
        let reported = result.as_ref().err().map(AgentError::code);
        assert_eq!(reported.as_deref().unwrap_or_default(), code, "{result:?}");
        let meta = match &result {
            Ok(found) => found.meta.clone(),
            Err(error) => error.meta().unwrap().clone(),
        };
        let usage = meta.totals.usage;
        assert_eq!((usage.input, usage.output), (100 * calls, 10 * calls), "{code}");
        assert_eq!((u64::from(meta.totals.model_calls), meta.observer_errors.len()), (calls, 0), "{code}");
    }
}

#[tokio::test]
async fn observers_can_follow_the_cost_of_each_iteration() {
    // S2-89: "Callbacks can monitor per-iteration costs if needed."
    let seen: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let costs = Arc::clone(&seen);
    let watching = steps(move |at, step| {
        if step == Step::Pass {
            costs.lock().unwrap().push((at.totals.usage.total(), at.totals.cost.known.0));
        }
        Ok(())
    });
    let log = Log::new();
    let stage = Stage::new(&log).on(
        "main",
        [
            plays(answer("low", &[look("ok-1")])),
            plays(answer("medium", &[look("ok-2")])),
            plays(answer("high", &[])),
        ],
    );
    let spec = spec(|spec| {
        spec.selection.enabled = false;
        spec.gate.stale = loop_core::spec::Stale::Off;
    });
    let runner = runner(spec, &log, stage).with_observer(watching);
    let outcome = runner.run(common::item()).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 3);
    // What an iteration cost is what the totals grew by, and all of them are the cost.
    let before = [(0, 0)].into_iter().chain(seen.iter().copied());
    let each: Vec<(u64, u64)> =
        seen.iter().zip(before).map(|(now, then)| (now.0 - then.0, now.1 - then.1)).collect();
    assert_eq!(each, [(1_100, 1_000 * 100_000 + 100 * 400_000); 3]);
    assert_eq!(seen[2], (outcome.totals.usage.total(), outcome.totals.cost.known.0));
}

#[tokio::test]
async fn a_result_has_its_reason_its_answer_its_state_and_its_trace() {
    // S4-75: `LoopResult = { stopReason, answer?, state, trace }`
    let model = scripted([looks(&["a"]), says("It is full.")]);
    let agent = agents::conversation(&model, &Activity::default())
        .with_journal(Arc::new(MemoryJournal::new()))
        .build()
        .unwrap();
    let mut messages = ask("Why?");
    let meta = agent.chat(&mut messages).await.unwrap().meta;
    let outcome = &meta.outcome;
    assert_eq!(
        (outcome.stop.reason(), outcome.answer.as_deref()),
        (StopReason::Completed, Some("It is full."))
    );
    // The state: steps, observations, what is left to do.
    let observed: Vec<(&str, Status)> =
        outcome.evidence.iter().map(|it| (&*it.tool, it.observation.status)).collect();
    assert_eq!((observed, outcome.totals.passes, outcome.actions.len()), (vec![("look", Status::Ok)], 2, 1));
    assert_eq!(outcome.passes.iter().map(|pass| pass.pass).collect::<Vec<_>>(), [1, 2]);
    // The trace: every step of the way, in its order, as it was when the state was another.
    let recorded = agent.runner().journal().read(&outcome.run).await.unwrap();
    let names: Vec<&str> = recorded.entries.iter().map(|entry| entry.event.kind.name()).collect();
    let replied = names.iter().filter(|name| **name == "model_replied").count();
    assert_eq!((names[0], replied), ("started", 2));
    assert!(names.contains(&"tool_finished"), "{names:?}");
    let replayed = loop_runtime::journal::replay(&outcome.run, &recorded).unwrap();
    assert_eq!(replayed.outcome(), Some(outcome), "the way leads to that result again");
}

/// What stands in the report of a run.
#[tokio::test]
async fn the_report_names_what_a_section_a_pass_and_an_action_are() {
    // S0-49, S0-102, S0-114: heading text, emoji, last pass and time of a section; id and priority of an action;
    // the history of passes.
    let log = Log::new();
    let fixed = answer("medium", &[look("ok-1")]);
    let stage = Stage::new(&log).on(
        "main",
        [plays(fixed), plays(format!("## 📋 Findings\n\nIt is full [E1].\n\n{}", contract("high", &[])))],
    );
    let runner = runner(unselected(), &log, stage);
    let handle = runner.run(common::item()).start().await.unwrap();
    let started = handle.started().clone();
    let outcome = handle.wait().await;
    let report = serde_json::to_value(Report::new(&started, &outcome)).unwrap();
    let sections = report["document"]["sections"].as_array().unwrap();
    let reported: Vec<Value> = sections
        .iter()
        .map(|it| json!([it["type"], it["heading"], it["heading_text"], it["emoji"], it["pass"]]))
        .collect();
    assert_eq!(
        reported,
        [
            json!(["situation", "🔍 Situation", "Situation", "🔍", 1]),
            json!(["findings", "📋 Findings", "Findings", "📋", 2]),
            json!(["next_steps", "✅ Next steps", "Next steps", "✅", 1]),
        ]
    );
    let passes = report["passes"].as_array().unwrap();
    let reported: Vec<Value> = passes
        .iter()
        .map(|it| json!([it["pass"], it["tier"], it["confidence"], it["confidence_reason"], it["changed"]]))
        .collect();
    assert_eq!(
        reported,
        [
            json!([1, "base", "medium", "because", ["situation", "findings", "next_steps"]]),
            json!([2, "base", "high", "because", ["findings"]]),
        ]
    );
    let at = |value: &Value| value.as_u64().unwrap();
    assert!(at(&passes[0]["unix_ms"]) >= started.unix_ms);
    assert_eq!(sections[1]["updated_unix_ms"], passes[1]["unix_ms"]);
    assert_eq!(sections[0]["updated_unix_ms"], passes[0]["unix_ms"]);
    let action = &report["actions"][0];
    assert_eq!((&action["id"], &action["priority"]), (&"ok-1".into(), &"recommended".into()));
}
