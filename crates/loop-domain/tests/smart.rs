//! `smart` of a tool: whatever its kind, a model or code chooses among the rows of its result.

use std::fs;

use loop_core::types::Scope;
use loop_domain::{Domain, LoadOptions};
use loop_tools::{Credentials, ToolContext};
use serde_json::json;

#[cfg(all(feature = "command", feature = "files", feature = "http", unix))]
const PARAMETERS: &str = "about = { description = \"What the order is about, in a few words\" }\n";
const BASE: &str = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n[sources.shop]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\n";

/// The example of the page over so many orders.
fn shop(orders: u32) -> (tempfile::TempDir, Domain) {
    let page = include_str!("../../../docs/how-to/tools/smart.md");
    let example = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("loopgate.toml"), format!("{BASE}{example}")).unwrap();
    let rows = (1..=orders)
        .map(|id| format!("({id}, '{}', 'open', '', 'a')", if id % 3 == 0 { "Red pump" } else { "Hose" }));
    let rows = rows.collect::<Vec<_>>().join(", ");
    let script =
        format!("CREATE TABLE orders (id, part, state, note, account_id); INSERT INTO orders VALUES {rows};");
    fs::write(folder.path().join("shop.sql"), script).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    (folder, domain)
}

async fn markdown(domain: &Domain) -> String {
    markdown_of(domain, json!({ "about": "red pump" })).await
}

async fn markdown_of(domain: &Domain, parameters: serde_json::Value) -> String {
    let scope = Scope { account: Some("a".into()), ..Scope::default() };
    let context = ToolContext::new(scope, "A pump leaks", "r/1/action-0");
    let none = Credentials::none();
    let seen = domain.registry.dispatch("fetch_orders", &parameters, context, &none, 5_000, 4_000);
    seen.await.markdown.to_string()
}

// S0-60, S0-76
#[tokio::test]
async fn the_example_of_the_page_keeps_what_fits_the_target_of_a_long_list() {
    let (_folder, domain) = shop(20);
    assert!(domain.spec.tools[0].smart);
    let long = markdown(&domain).await;
    assert!(long.contains("_5 of 20 items, chosen by code._"), "{long}");
    assert_eq!(long.matches("Red pump").count(), 5, "{long}");
    assert!(!long.contains("Hose"), "{long}");

    let (_folder, domain) = shop(7);
    let short = markdown(&domain).await;
    assert!(!short.contains("chosen by"), "{short}");
    assert_eq!(short.matches("| open |").count(), 7, "{short}");
}

/// Domains with one smart tool of each kind that sends its parameters somewhere, and what the tool needs.
#[cfg(all(feature = "command", feature = "files", feature = "http", unix))]
fn with_target(target: &str) -> Vec<String> {
    let kinds = [
        "kind = \"command\"\ncommand = { program = \"cat\", args = [\"orders.txt\"], output = \"lines\" }",
        "kind = \"files\"\nfiles = { folder = \"notes\", do = \"list\" }",
        "kind = \"http\"\nhttp = { url = \"https://api.example.com/orders\" }",
    ];
    let tools = kinds.map(|kind| {
        format!(
            "[tools.fetch_orders]\n{kind}\neffect = \"read\"\nsmart = {{ target = \"{target}\" }}\n\
             [tools.fetch_orders.parameters]\n{PARAMETERS}"
        )
    });
    tools.to_vec()
}

#[cfg(all(feature = "command", feature = "files", feature = "http", unix))]
fn loaded(tool: &str) -> (tempfile::TempDir, Result<Domain, String>) {
    let folder = tempfile::tempdir().unwrap();
    let head = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n";
    fs::write(folder.path().join("loopgate.toml"), format!("{head}{tool}")).unwrap();
    let orders =
        (1..=12).map(|id| format!("order {id}: {}\n", if id % 4 == 0 { "red pump" } else { "hose" }));
    fs::write(folder.path().join("orders.txt"), orders.collect::<String>()).unwrap();
    fs::create_dir(folder.path().join("notes")).unwrap();
    for id in 1..=12 {
        let name = if id % 4 == 0 { "red-pump" } else { "hose" };
        fs::write(folder.path().join(format!("notes/{name}-{id}.md")), "x").unwrap();
    }
    let domain = Domain::load(folder.path(), &LoadOptions::default()).map_err(|error| error.to_string());
    (folder, domain)
}

// S0-76
#[cfg(all(feature = "command", feature = "files", feature = "http", unix))]
#[tokio::test]
async fn a_target_that_only_the_choice_needs_is_accepted_by_every_kind() {
    for tool in with_target("about") {
        let (_folder, domain) = loaded(&tool);
        let domain = domain.unwrap();
        if tool.contains("http") {
            continue;
        }
        let seen = markdown_of(&domain, json!({ "about": "red pump" })).await;
        assert!(seen.contains("_3 of 12 items, chosen by code._"), "{seen}");
        assert_eq!(seen.matches("red").count(), 3, "{seen}");
    }
    // Without `smart`, or with another target, nothing uses it.
    for tool in with_target("about") {
        let plain = tool.replace("smart = { target = \"about\" }\n", "");
        let other = format!("{tool}lost = {{}}\n");
        for (text, parameter) in [(plain, "about"), (other, "lost")] {
            let error = loaded(&text).1.unwrap_err();
            assert!(error.contains(&format!("`{parameter}`")), "{error}");
        }
    }
}

// S0-76
#[cfg(all(feature = "command", feature = "files", feature = "http", unix))]
#[tokio::test]
async fn a_parameter_that_a_files_tool_has_by_itself_may_be_the_target() {
    let tool = "[tools.fetch_orders]\nkind = \"files\"\neffect = \"read\"\nfiles = { folder = \".\", do = \"search\", include = [\"*.txt\"] }\n\
                smart = { target = \"pattern\", fallback = 4 }\n";
    let (_folder, domain) = loaded(tool);
    let seen = markdown_of(&domain.unwrap(), json!({ "pattern": "order" })).await;
    assert!(seen.contains("_4 of 12 items, chosen by code._"), "{seen}");
}
