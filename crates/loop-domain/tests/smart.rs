//! `smart` of a tool: whatever its kind, a model or code chooses among the rows of its result.

use std::fs;

use loop_core::Scope;
use loop_domain::{Domain, LoadOptions};
use loop_tools::{Credentials, ToolContext};
use serde_json::json;

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
    let scope = Scope { account: Some("a".into()), ..Scope::default() };
    let context = ToolContext::new(scope, "A pump leaks", "r/1/action-0");
    let about = json!({ "about": "red pump" });
    let seen =
        domain.registry.dispatch("fetch_orders", &about, context, &Credentials::none(), 5_000, 4_000).await;
    seen.markdown.to_string()
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
