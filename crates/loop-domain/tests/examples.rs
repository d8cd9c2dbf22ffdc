//! The domains in `examples/`: each loads without a warning, and its tools bring what is in its data.

use std::path::{Path, PathBuf};

use loop_core::WorkItem;
use loop_core::types::{Effect, Observation, Status};
use loop_domain::{Domain, LoadOptions};
use loop_tools::ToolContext;
use serde_json::{Value, json};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn load(name: &str, options: &LoadOptions) -> Domain {
    Domain::load(example(name), options).unwrap()
}

fn ticket(domain: &Domain, id: &str) -> WorkItem {
    let path = example("helpdesk").join(format!("tickets/{id}.json"));
    domain.item(&std::fs::read_to_string(&path).unwrap(), &path.display().to_string()).unwrap()
}

async fn call(domain: &Domain, item: &WorkItem, tool: &str, parameters: Value) -> Observation {
    let context = ToolContext::new(item.scope.clone(), &*item.title, "r/1/action-0");
    domain.registry.dispatch(tool, &parameters, context, &domain.credentials, 12_000, 4_000).await
}

#[test]
fn the_examples_have_nothing_to_warn_about() {
    // S0-77: a domain says what the item is, what comes with it, which sources enrich it and what done looks like.
    for name in ["helpdesk", "handbook"] {
        let domain = load(name, &LoadOptions::default());
        let report = domain.report();
        let expected: &[&str] = match name {
            "handbook" => {
                &["selecting has no defaults: nothing runs before the first pass where choosing fails"]
            }
            _ => &[],
        };
        assert_eq!(report.warnings, expected, "{name}");
        assert!(domain.spec.sections().iter().any(|section| section.required));
        assert!(!domain.spec.goal.is_empty());
    }
}

#[test]
fn every_tool_is_named_for_its_source_and_only_reads() {
    // S0-78, S0-79, S0-84, S0-85, S0-91
    let domain = load("helpdesk", &LoadOptions::default());
    let names: Vec<&str> = domain.spec.tools.iter().map(|tool| &*tool.name).collect();
    let expected = [
        "fetch_device_info",
        "fetch_user_info",
        "fetch_backup_status",
        "fetch_ticket_history",
        "fetch_account_info",
        "fetch_sop_docs",
    ];
    assert_eq!(names, expected);
    for tool in &domain.spec.tools {
        assert_eq!(tool.effect, Effect::Read, "{}", tool.name);
        assert!(!tool.description.is_empty() && !tool.when.is_empty(), "{}", tool.name);
    }
    assert_eq!(domain.registry.resolve("fetch_devices").as_deref(), Some("fetch_device_info"));
}

#[test]
fn every_ticket_can_be_read() {
    // S0-3, S0-6, S0-140
    let domain = load("helpdesk", &LoadOptions::default());
    for number in 1041..=1048 {
        let id = format!("T-{number}");
        let item = ticket(&domain, &id);
        assert_eq!((&*item.id, &*item.kind), (&*id, "ticket"));
        assert!(item.compact.len() < item.full.len(), "{id}");
        assert!(item.scope.account.is_some() && item.scope.account_name.is_some(), "{id}");
    }
    let item = ticket(&domain, "T-1042");
    assert_eq!(item.scope.asset.as_deref(), Some("HAR-LT-014"));
    assert_eq!(item.scope.person.as_deref(), Some("ingrid.solheim@harborpine.example"));
}

#[tokio::test]
async fn the_tools_find_what_ticket_1042_needs() {
    // S0-64, S0-69, S0-79, S0-80
    let domain = load("helpdesk", &LoadOptions::default());
    let item = ticket(&domain, "T-1042");
    let target = json!({ "target": "HAR-LT-014" });
    let device = call(&domain, &item, "fetch_device_info", target.clone()).await;
    assert_eq!(device.status, Status::Ok);
    assert!(
        device.markdown.starts_with("## Device info — Harbor & Pine Shipping\n\n| hostname |"),
        "{}",
        device.markdown
    );
    assert!(device.markdown.contains("BJ-HAR-07"), "{}", device.markdown);
    let backup = call(&domain, &item, "fetch_backup_status", json!({ "job": "BJ-HAR-07" })).await;
    assert!(backup.markdown.contains("0x8004231f"), "{}", backup.markdown);
    let history = call(&domain, &item, "fetch_ticket_history", target).await;
    assert!(history.markdown.contains("Disk almost full"), "{}", history.markdown);
    let person = json!({ "target": "ingrid.solheim@harborpine.example" });
    let user = call(&domain, &item, "fetch_user_info", person).await;
    assert!(user.markdown.contains("Shipping Coordinator"), "{}", user.markdown);
    let account = call(&domain, &item, "fetch_account_info", json!({})).await;
    assert!(account.markdown.contains("Managed Plus"), "{}", account.markdown);
    let words = json!({ "query": "laptop disk full, backup fails, clean-up" });
    let procedures = call(&domain, &item, "fetch_sop_docs", words).await;
    for file in ["disk-clean-up-windows.md", "backup-job-failed-vss.md"] {
        assert!(procedures.markdown.contains(file), "{}", procedures.markdown);
    }
}

#[tokio::test]
async fn another_customers_device_is_not_seen() {
    // S0-64, S0-80
    let domain = load("helpdesk", &LoadOptions::default());
    let item = ticket(&domain, "T-1043");
    let seen = call(&domain, &item, "fetch_device_info", json!({ "target": "HAR-LT-014" })).await;
    assert_eq!(seen.status, Status::Empty);
    let item = ticket(&domain, "T-1044");
    let seen = call(&domain, &item, "fetch_device_info", json!({ "target": "HAR-LT-999" })).await;
    assert_eq!(seen.status, Status::Empty);
}

#[tokio::test]
async fn the_handbook_searches_any_folder() {
    // S0-3: another kind of work is another folder, not other code.
    let set = vec![("tools.search.folder".to_owned(), "helpdesk/sops".to_owned())];
    let options = LoadOptions { set, cwd: example(""), ..LoadOptions::default() };
    let domain = load("handbook", &options);
    let path = example("handbook/question.md");
    let item = domain.item(&std::fs::read_to_string(path).unwrap(), "question.md").unwrap();
    assert_eq!(
        (&*item.kind, &*item.title),
        ("question", "What makes the loop stop, and where are its limits set?")
    );
    let seen = call(&domain, &item, "search", json!({ "query": "printer offline" })).await;
    assert!(seen.markdown.contains("### printer-offline.md"), "{}", seen.markdown);
}
