//! The register in `examples/crm`: its tools find who is in it, and change what they are asked to change.

use std::fs;
use std::path::{Path, PathBuf};

use loop_core::StopReason;
use loop_core::types::{Effect, Observation, Status, Tier};
use loop_domain::{Domain, LoadOptions};
use loop_tools::ToolContext;
use serde_json::{Value, json};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crm")
}

/// The example in a folder of its own: what is changed there is not changed in the example.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["loopgate.toml", "crm.sql"] {
        fs::copy(example().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn load(folder: &Path) -> Domain {
    Domain::load(folder, &LoadOptions::default()).unwrap()
}

/// The register of those who trust what stands in it, and who asks.
fn load_trusted(folder: &Path) -> Domain {
    let options = LoadOptions { profile: Some("trusted".to_owned()), ..LoadOptions::default() };
    Domain::load(folder, &options).unwrap()
}

async fn call(domain: &Domain, tool: &str, parameters: Value) -> Observation {
    let item = domain.item("Find user named Alice", "question.txt").unwrap();
    let context = ToolContext::new(item.scope.clone(), &*item.title, "r/1/action-0");
    domain.registry.dispatch(tool, &parameters, context, &domain.credentials, 12_000, 4_000).await
}

fn rows(seen: &Observation) -> Vec<Value> {
    serde_json::from_str(&seen.data).unwrap()
}

#[test]
fn only_the_update_writes_and_a_profile_approves_it_by_name() {
    let folder = copy();
    let domain = load(folder.path());
    let tools: Vec<(&str, Effect)> =
        domain.spec.tools.iter().map(|tool| (&*tool.name, tool.effect)).collect();
    let expected = [
        ("search_user", Effect::Read),
        ("get_user_by_id", Effect::Read),
        ("update_user", Effect::WriteIdempotent),
    ];
    assert_eq!(tools, expected);
    assert!(domain.spec.gate.approved.is_empty());
    assert_eq!(*load_trusted(folder.path()).spec.gate.approved, ["update_user".into()]);
    assert!(domain.report().warnings.is_empty(), "{:?}", domain.report().warnings);
}

#[test]
fn its_questions_are_work_items() {
    // S1-42, S1-43
    let folder = copy();
    let domain = load(folder.path());
    for (name, title) in
        [("find-alice", "Find user named Alice"), ("update-bob", "Find Bob and update his company to EPAM")]
    {
        let path = example().join(format!("questions/{name}.txt"));
        let item = domain.item(&fs::read_to_string(&path).unwrap(), &path.display().to_string()).unwrap();
        assert_eq!((&*item.kind, &*item.id, &*item.title), ("request", name, title));
    }
}

#[tokio::test]
async fn fifteen_of_forty_people_are_called_alice() {
    // S1-42
    let folder = copy();
    let domain = load(folder.path());
    let seen = call(&domain, "search_user", json!({ "name": "alice" })).await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Found 15 items"));
    assert!(seen.markdown.starts_with("## Users\n\n| id | name | company |\n"), "{}", seen.markdown);
    let everybody = call(&domain, "search_user", json!({ "name": " " })).await;
    assert_eq!(rows(&everybody).len(), 40);
    let nobody = call(&domain, "search_user", json!({ "name": "Zoltan" })).await;
    assert_eq!(nobody.status, Status::Empty);
}

#[tokio::test]
async fn bob_is_found_looked_up_and_updated_for_good() {
    // S1-6, S1-43
    let folder = copy();
    let domain = load(folder.path());
    let found = rows(&call(&domain, "search_user", json!({ "name": "Bob" })).await);
    let expected = json!({ "id": 42, "name": "Bob Marchetti", "company": "Quillon Freight" });
    assert_eq!(found, [expected]);
    let changed = call(&domain, "update_user", json!({ "id": 42, "company": "EPAM" })).await;
    let says = "## Updated user\n\nChanged 1 row\n\n| id | name | company |\n| --- | --- | --- |\n| 42 | Bob Marchetti | EPAM |";
    assert_eq!((changed.status, &*changed.summary, &*changed.markdown), (Status::Ok, "Changed 1 row", says));
    let again = load(folder.path());
    let seen = rows(&call(&again, "get_user_by_id", json!({ "id": 42 })).await);
    assert_eq!(seen.first().and_then(|row| row["company"].as_str()), Some("EPAM"));
    let unknown = call(&again, "update_user", json!({ "id": 4_200, "company": "EPAM" })).await;
    assert_eq!((unknown.status, &*unknown.summary), (Status::Empty, "No data found"));
}

#[tokio::test]
async fn a_changed_register_begins_anew() {
    let folder = copy();
    let bob = json!({ "id": 42, "company": "EPAM" });
    assert_eq!(call(&load(folder.path()), "update_user", bob).await.status, Status::Ok);
    let script = folder.path().join("crm.sql");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{text}-- Checked.\n")).unwrap();
    let seen = rows(&call(&load(folder.path()), "get_user_by_id", json!({ "id": 42 })).await);
    assert_eq!(seen.first().and_then(|row| row["company"].as_str()), Some("Quillon Freight"));
}

#[tokio::test]
async fn its_requests_are_answered_without_a_person() {
    // S1-6, S1-42, S1-43
    let folder = copy();
    let requests: [(&str, &[&str], &str); 2] = [
        ("find-alice", &["search_user"], "Found 15 users named Alice"),
        ("update-bob", &["search_user", "get_user_by_id", "update_user"], "Updated Bob's company to EPAM"),
    ];
    for (name, tools, says) in requests {
        let script = example().join(format!("scripts/{name}.json"));
        let options = LoadOptions {
            profile: Some("trusted".to_owned()),
            models: vec![(Tier::Base, format!("scripted/{}", script.display()))],
            ..LoadOptions::default()
        };
        let domain = Domain::load(folder.path(), &options).unwrap();
        let path = example().join(format!("questions/{name}.txt"));
        let item = domain.item(&fs::read_to_string(&path).unwrap(), &path.display().to_string()).unwrap();
        let outcome = domain.to_loop().run(item).await.unwrap();
        assert_eq!(outcome.stop.reason(), StopReason::Completed);
        let called: Vec<&str> = outcome.evidence.iter().map(|evidence| &*evidence.tool).collect();
        assert_eq!(called, tools);
        assert_eq!(outcome.answer.as_deref(), Some(says));
    }
    let bob = rows(&call(&load(folder.path()), "get_user_by_id", json!({ "id": 42 })).await);
    assert_eq!(bob.first().and_then(|row| row["company"].as_str()), Some("EPAM"));
}
