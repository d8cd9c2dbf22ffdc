//! What an eval itself can be trusted with: it changes nothing, its replay sees what was tampered with, a recorded run
//! runs again.

use std::path::Path;
use std::sync::Arc;

use loop_core::EventKind;
use loop_domain::{Domain, LoadOptions};
use loop_eval::case::{AnswerKind, Case, CaseRecordError, Expected, case_of_run};
use loop_eval::eval::{Against, VerifyError, run_case, verify};
use loop_runtime::{
    RunSpec, Runner, WorkItem,
    journal::{Journal, MemoryJournal, Recorded},
    models::{ModelSpec, Models, Scripted},
    observe::RunEvent,
    run::StopMode,
    tools::{Registry, ToolContext, ToolDeclaration, ToolResult},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// No arguments.
#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A run of a domain with the stub or with replies, as its journal holds it.
async fn recorded(domain: &str, item: &str, script: Option<&str>) -> Recorded {
    let folder = examples().join(domain);
    let options = LoadOptions { profile: script.map(|_| "scripted".to_owned()), ..LoadOptions::default() };
    let domain = Domain::load(&folder, &options).unwrap();
    let text = std::fs::read_to_string(folder.join(item)).unwrap();
    let item = domain.item(&text, item).unwrap();
    let journal = Arc::new(MemoryJournal::new());
    let runner = match script {
        None => domain.unsaved_loop(),
        Some(script) => {
            let text = std::fs::read_to_string(folder.join(script)).unwrap();
            let model = || Arc::new(Scripted::from_json(&text).unwrap());
            let models = loop_runtime::models::Models {
                selector: model(),
                ..loop_runtime::models::Models::one(model())
            };
            loop_runtime::Runner::new((*domain.spec).clone(), (*domain.registry).clone(), models)
        }
    };
    let outcome = runner.with_journal(journal.clone()).run(item).await.unwrap();
    journal.read(&outcome.run).await.unwrap()
}

#[tokio::test]
async fn a_recorded_run_becomes_a_case_that_passes_at_once() {
    // S4-69
    let runs = [
        ("helpdesk", "tickets/T-1042.json", None),
        ("helpdesk", "tickets/T-1042.json", Some("scripts/max-passes.json")),
        ("helpdesk", "tickets/T-1042.json", Some("scripts/evidence-revised.json")),
        ("helpdesk", "tickets/T-1042.json", Some("scripts/contract-repaired.json")),
        ("helpdesk", "tickets/T-1046.json", Some("scripts/contract-forged.json")),
        ("refunds", "orders/O-104.json", None),
        ("crm", "questions/find-alice.txt", None),
    ];
    for (domain, item, script) in runs {
        let recorded = recorded(domain, item, script).await;
        let case = case_of_run("again", &recorded).unwrap();
        assert!(case.expected.counts.is_some_and(|counts| counts.passes > Some(0)));
        // By its text, as a file would give it.
        let text = serde_json::to_string_pretty(&case).unwrap();
        let nonce = match &recorded.entries[0].event.kind {
            EventKind::Started(started) => started.nonce.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(!text.contains(&nonce), "the nonce of {domain} is written down");
        let result = run_case(&Case::parse(&text, "again.json").unwrap()).await;
        assert!(result.passed, "{domain} {item} {script:?}: {:#?}", result.failures);
    }
}

/// The case of a recorded run, by its text, and whether it passes.
async fn passes_again(recorded: &Recorded) -> Case {
    let case = case_of_run("again", recorded).unwrap();
    let case = Case::parse(&serde_json::to_string(&case).unwrap(), "again.json").unwrap();
    let result = run_case(&case).await;
    assert!(result.passed, "{:#?}", result.failures);
    case
}

#[tokio::test]
async fn a_run_in_which_nobody_answered_becomes_a_case_in_which_nobody_does() {
    // S4-69, U4
    let folder = tempfile::tempdir().unwrap();
    for name in ["loopgate.toml", "crm.sql"] {
        std::fs::copy(examples().join("crm").join(name), folder.path().join(name)).unwrap();
    }
    let set = vec![("limits.person_ms".to_owned(), "30".to_owned())];
    let options = LoadOptions { set, ..LoadOptions::default() };
    let domain = Domain::load(folder.path(), &options).unwrap();
    let journal = Arc::new(MemoryJournal::new());
    let item = domain.item("search_user Bob, get_user_by_id 42, update_user 42 EPAM", "request.txt").unwrap();
    let outcome = domain.unsaved_loop().with_journal(journal.clone()).run(item).await.unwrap();
    let case = passes_again(&journal.read(&outcome.run).await.unwrap()).await;
    assert_eq!(case.people.iter().map(|line| line.say).collect::<Vec<_>>(), [AnswerKind::Nothing]);
}

#[tokio::test]
async fn a_run_that_was_stopped_while_a_tool_ran_becomes_a_case_without_its_counts() {
    let replies = r#"{"version": 1, "replies": [{"calls": [{"name": "wait"}]}]}"#;
    let journal = Arc::new(MemoryJournal::new());
    let wait = ToolDeclaration::read("wait", "Wait.");
    let registry =
        Registry::builder().typed(wait, |_: Nothing, _: ToolContext| std::future::pending::<ToolResult>());
    let models = Models::one(Arc::new(Scripted::from_json(replies).unwrap()));
    let spec = RunSpec::conversation("waits", ModelSpec::new("scripted", "s"));
    let runner = Runner::new(spec, registry.build().unwrap(), models).with_journal(journal.clone());
    let mut handle = runner.run(WorkItem::new("1", "text", "Wait", "Wait.")).start().await.unwrap();
    let mut events = handle.events().unwrap();
    while let Some(event) = events.recv().await {
        if matches!(&event, RunEvent::Recorded(entry) if matches!(entry.event.kind, EventKind::ModelReplied { .. }))
        {
            handle.stop(StopMode::Now);
        }
    }
    let outcome = handle.wait().await;
    let case = passes_again(&journal.read(&outcome.run).await.unwrap()).await;
    assert!(case.stop.is_some() && case.expected.counts.is_none());
}

#[tokio::test]
async fn a_run_that_is_not_over_or_broken_becomes_no_case() {
    let mut run = recorded("refunds", "orders/O-104.json", None).await;
    let whole = run.entries.len();
    run.entries.truncate(whole - 1);
    assert!(matches!(case_of_run("x", &run), Err(CaseRecordError::NotOver)));
    run.entries.remove(2);
    assert!(matches!(case_of_run("x", &run), Err(CaseRecordError::Broken(VerifyError::Rejected { .. }))));
    run.entries.clear();
    assert!(matches!(case_of_run("x", &run), Err(CaseRecordError::Broken(VerifyError::Empty))));
}

#[tokio::test]
async fn a_replay_sees_a_decision_that_was_not_taken() {
    // S4-55, S4-59: replay success is found, not assumed.
    let run = recorded("refunds", "orders/O-104.json", None).await;
    assert!(verify(&run).unwrap().is_done());
    for at in 0..run.entries.len() {
        for note in 0..run.entries[at].notes.len() {
            let mut other = run.clone();
            other.entries[at].notes.remove(note);
            let found = verify(&other).map(|run| run.is_done());
            assert!(matches!(found, Err(VerifyError::Differs { seq, .. }) if seq == at as u64), "{found:?}");
        }
    }
    let mut other = run;
    let kind = other.entries.iter_mut().find_map(|entry| match &mut entry.event.kind {
        EventKind::ToolFinished { observation, .. } => Some(observation),
        _ => None,
    });
    Arc::make_mut(kind.unwrap()).status = loop_core::types::Status::PermanentError;
    assert!(matches!(verify(&other), Err(VerifyError::Differs { .. })), "{:?}", verify(&other).map(|_| ()));
}

#[tokio::test]
async fn an_eval_changes_nothing() {
    // K1: what would change something is not run, approved or not; the register is as it was.
    let folder = tempfile::tempdir().unwrap();
    for name in ["loopgate.toml", "crm.sql"] {
        std::fs::copy(examples().join("crm").join(name), folder.path().join(name)).unwrap();
    }
    let read = |replies: serde_json::Value, contains: &str| {
        let case = json!({
            "case_id": "x", "domain": ".", "profile": "trusted", "text": "Find Bob and update his company to EPAM", "replies": replies,
            "expected": { "evidence": [{ "tool": "get_user_by_id", "contains": [contains] }] },
        });
        Case::parse(&case.to_string(), folder.path().join("x.json")).unwrap()
    };
    let search = json!({ "calls": [{ "name": "search_user", "arguments": { "name": "Bob" } }] });
    let update =
        json!({ "calls": [{ "name": "update_user", "arguments": { "id": 42, "company": "EPAM" } }] });
    let get = json!({ "calls": [{ "name": "get_user_by_id", "arguments": { "id": 42 } }] });
    let case = read(json!([search, update, get, { "text": "Done." }]), "Quillon Freight");
    let result = run_case(&case).await;
    assert!(result.passed, "{:?}", result.failures);
    assert_eq!((result.tool_calls, result.stop_reason.as_str()), (3, "completed"));
}

#[tokio::test]
async fn an_expectation_that_does_not_hold_is_told_and_counted() {
    // S4-47: the trajectory is looked at, not only the answer.
    let case = json!({
        "case_id": "x", "goal": "When does the shop open?",
        "replies": [{ "calls": [{ "name": "read_hours" }] }, { "text": "At nine." }],
        "mocked_tools": { "read_hours": [{ "data": { "opens": "9:00" } }] },
        "expected": {
            "stop_reason": "needs_human", "class": "partial", "also": ["max_passes"], "max_tool_calls": 0,
            "min_tool_calls": 2, "max_passes": 1, "max_model_calls": 1, "max_tokens": 1,
            "counts": { "passes": 3, "evidence": 0 }, "forbidden_tools": ["read_hours"],
            "requires_trace_events": ["person"], "forbids_trace_events": ["stop:completed"],
            "trace": ["step:0:stop:completed"], "document": { "findings": {} },
            "answer": { "equals": "At ten.", "contains": ["ten"], "excludes": ["nine"] }, "output_valid": true,
            "output": [{ "pointer": "/a" }], "evidence": [{ "tool": "read_hours", "status": "empty" }],
            "actions": [{ "tool": "read_hours", "verdict": "denied" }], "missing": ["x"],
        },
    });
    let result = run_case(&Case::parse(&case.to_string(), "x.json").unwrap()).await;
    let expected = [
        "it stopped with completed",
        "the class is answered, expected partial",
        "`max_passes` was not true as well",
        "1 tool calls, expected 0 at most",
        "2 passes, expected 1 at most",
        "2 calls to models, expected 1 at most",
        "tokens, expected 1 at most",
        "1 tool calls, expected 2 at the least",
        "2 passes, expected 3",
        "1 observations, expected 0",
        "`read_hours` ran, and is forbidden",
        "the trace has no `person`",
        "the trace has `step:1:stop:completed`",
        "line 1 of the trace is `step:0:proposal:tool:read_hours`, expected `step:0:stop:completed`",
        "section `findings` is not there",
        "the answer is `At nine.`, expected `At ten.`",
        "the answer does not say `ten`",
        "the answer says `nine`",
        "there is no output",
        "there is no output",
        "there are no observations of read_hours (empty)",
        "there are no actions read_hours (denied)",
        "missing is [], expected [x]",
    ];
    assert_eq!(result.failures.len(), expected.len(), "{:#?}", result.failures);
    for (failure, part) in result.failures.iter().zip(expected) {
        assert!(failure.contains(part), "`{part}` is missing in `{failure}`");
    }
    assert_eq!((result.correct_reason, result.passed), (Some(false), false));
}

#[tokio::test]
async fn a_crash_repeats_nothing_that_has_settled() {
    // S4-55, C25
    let case = std::fs::read_to_string(examples().join("refunds/evals/goes-on-after-a-crash.json")).unwrap();
    let case = Case::parse(&case, examples().join("refunds/evals/goes-on-after-a-crash.json")).unwrap();
    let crashed = run_case(&case).await;
    let whole =
        run_case(&Case { restart_after_pass: None, expected: Expected::default(), ..case.clone() }).await;
    assert!(crashed.passed && whole.passed, "{:?} {:?}", crashed.failures, whole.failures);
    let lost = crashed.trace.iter().position(|line| line == "step:1:resume:driver_lost");
    assert!(
        lost.is_some_and(|at| crashed.trace[at - 1] == "step:1:validation:execute"),
        "{:#?}",
        crashed.trace
    );
    let trace: Vec<&String> = crashed.trace.iter().filter(|line| !line.contains(":resume:")).collect();
    assert_eq!((trace, crashed.tool_calls), (whole.trace.iter().collect(), whole.tool_calls));
}

#[tokio::test]
async fn a_recorded_case_in_a_domain_is_run_against_the_domain_as_it_is_now() {
    // Issue 40, T13: it tested a copy, and passed after its tool was forbidden.
    let folder = tempfile::tempdir().unwrap();
    for name in ["loopgate.toml", "shop.sql"] {
        std::fs::copy(examples().join("refunds").join(name), folder.path().join(name)).unwrap();
    }
    let policies = folder.path().join("policies");
    std::fs::create_dir(&policies).unwrap();
    for entry in std::fs::read_dir(examples().join("refunds/policies")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), policies.join(entry.file_name())).unwrap();
    }
    let recorded = recorded("refunds", "orders/O-104.json", None).await;
    let case = case_of_run("again", &recorded).unwrap();
    let text = serde_json::to_string(&case).unwrap();
    let at = |place: &str| Case::parse(&text, folder.path().join(place)).unwrap();
    let inside = at("evals/again.json");
    let result = run_case(&inside).await;
    assert_eq!((result.passed, result.against), (true, Some(Against::Domain)), "{:#?}", result.failures);
    let mut frozen = inside.clone();
    frozen.recorded.as_mut().unwrap().frozen = true;
    let settings = folder.path().join("loopgate.toml");
    let written = std::fs::read_to_string(&settings).unwrap();
    // A tool that is required could not be forbidden.
    let required = written.lines().find(|line| line.starts_with("required_tools")).unwrap();
    let forbidden =
        written.replace(required, "").replace("forbid = [", "forbid = [\"read_delivery_status\", ");
    assert_ne!(written, forbidden);
    std::fs::write(&settings, forbidden).unwrap();
    let result = run_case(&inside).await;
    assert!(!result.passed && result.error.is_none(), "{:#?}", result.failures);
    let said = "`read_delivery_status` did not run, and is required";
    assert!(result.failures.iter().any(|it| it == said), "{:#?}", result.failures);
    let table = loop_eval::report::table(&[result], &loop_eval::eval::Metrics::of(&[]));
    assert!(table.contains("again (domain)"), "{table}");
    let result = run_case(&frozen).await;
    assert_eq!((result.passed, result.against), (true, Some(Against::Frozen)), "{:#?}", result.failures);
    // A domain of another name is not the run's.
    std::fs::write(&settings, written.replace("name = \"refunds\"", "name = \"other\"")).unwrap();
    assert_eq!(run_case(&inside).await.against, Some(Against::Frozen));
}
