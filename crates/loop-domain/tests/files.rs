//! Tools over the files of a folder, from the file to the result.

use std::fs;

use loop_core::types::{Observation, Scope, Status};
use loop_domain::{Domain, LoadOptions};
use loop_tools::ToolContext;
use serde_json::{Value, json};

const HEAD: &str = "version = 1\nname = \"shop\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n";

/// A domain with this text behind its head, and the folder in which it stands.
fn load(text: &str) -> (tempfile::TempDir, Result<Domain, String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("notes/2026")).unwrap();
    fs::write(folder.path().join("notes/a.md"), "# Hours\nOpen from nine to five.\n").unwrap();
    fs::write(folder.path().join("notes/2026/b.md"), "Closed on Sunday.\n").unwrap();
    fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default());
    let place = format!("{}/", folder.path().display());
    let domain = domain.map_err(|error| error.to_string().replace(&place, ""));
    (folder, domain)
}

async fn call(domain: &Domain, tool: &str, parameters: Value) -> Observation {
    let context = ToolContext::new(Scope::default(), "item", "run-1/1/action-0");
    domain.registry.dispatch(tool, &parameters, context, &domain.credentials, 12_000, 4_000).await
}

fn tool(work: &str, effect: &str, rest: &str) -> String {
    format!(
        "[tools.use_{work}]\nkind = \"files\"\neffect = \"{effect}\"\ndescription = \"Files\"\n{rest}\
         files = {{ folder = \"notes\", do = \"{work}\" }}\n"
    )
}

#[tokio::test]
async fn each_work_is_a_tool_of_its_own() {
    let works = [
        ("list", "read"),
        ("read", "read"),
        ("search", "read"),
        ("write", "write_idempotent"),
        ("patch", "write_irreversible"),
    ];
    let text: String = works.iter().map(|(work, effect)| tool(work, effect, "")).collect();
    let (folder, domain) = load(&text);
    let domain = domain.unwrap();
    assert!(domain.report().lines.iter().any(|line| line == "  use_patch: files, write_irreversible"));
    let list = call(&domain, "use_list", json!({})).await;
    assert!(list.text().contains("| 2026/b.md | 18 |"), "{}", list.text());
    let search = call(&domain, "use_search", json!({ "pattern": "sunday", "ignore_case": true })).await;
    assert!(search.text().contains("2026/b.md:1: Closed on Sunday."), "{}", search.text());
    let read = call(&domain, "use_read", json!({ "path": "a.md", "from": 2 })).await;
    assert!(read.text().contains("     2\tOpen from nine to five."), "{}", read.text());
    let patch = json!({ "path": "a.md", "old": "five", "new": "six" });
    assert_eq!(call(&domain, "use_patch", patch).await.status, Status::Ok);
    let write = json!({ "path": "2026/c.md", "content": "New.\n" });
    assert_eq!(call(&domain, "use_write", write).await.status, Status::Ok);
    let notes = folder.path().join("notes");
    assert_eq!(fs::read_to_string(notes.join("a.md")).unwrap(), "# Hours\nOpen from nine to six.\n");
    assert_eq!(fs::read_to_string(notes.join("2026/c.md")).unwrap(), "New.\n");
    for path in ["../loopgate.toml", "/etc/passwd"] {
        let seen = call(&domain, "use_read", json!({ "path": path })).await;
        assert_eq!(seen.status, Status::InvalidInput);
        assert!(seen.text().ends_with("leads out of the folder"), "{}", seen.text());
    }
    assert_eq!(
        call(&domain, "use_read", json!({ "path": "a.md", "lines": 3 })).await.status,
        Status::InvalidInput
    );
}

#[test]
fn what_is_wrong_with_files_is_one_line_at_its_place() {
    let with = |files: &str| {
        format!("[tools.x]\nkind = \"files\"\neffect = \"read\"\ndescription = \"X\"\n{files}\n")
    };
    let cases = [
        (with(""), "the tool `x` has no `files`; add `files = { folder = \"notes\", do = \"read\" }`"),
        (with("files = { folder = \"notes\" }"), "the key `do` is missing; add it"),
        (with("files = { do = \"read\" }"), "the key `folder` is missing; add it"),
        (
            with("files = { folder = \"notes\", do = \"delete\" }"),
            "`delete` is unknown here; use one of `list`, `read`",
        ),
        (with("files = { folder = \"none\", do = \"read\" }"), "none: there is no such folder"),
        (with("files = { folder = \"notes\", do = \"read\", glob = \"*\" }"), "unknown key `glob`"),
        (with("files = { folder = \"notes\", do = \"read\", include = [\"[\"] }"), "`[` is not a glob: "),
        (
            with("files = { folder = \"notes\", do = \"write\" }"),
            "`write` does not have the effect `read`; write `effect = \"write_idempotent\"`",
        ),
        (
            tool("read", "read", "parameters = { lines = {} }\n"),
            "`read` has no parameter `lines`; it has `path`",
        ),
        (tool("read", "read", "authority = [\"target\"]\n"), "there is no parameter `target`"),
        (
            tool("read", "read", "folder = \"notes\"\n"),
            "`folder` is not for tools of kind `files`; take it out",
        ),
        (
            "[tools.x]\nkind = \"mock\"\neffect = \"read\"\nfiles = { folder = \".\", do = \"read\" }\n"
                .to_owned(),
            "`files` is not for tools of kind `mock`; take it out",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let (_folder, domain) = load(&text);
        let error = domain.map(|_| ()).unwrap_err();
        let is_right =
            error.starts_with("loopgate.toml:") && error.contains(expected) && !error.contains('\n');
        if !is_right {
            wrong.push(format!("{error}\n  and not: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_operator_may_declare_the_parameters_and_say_which_one_an_effect_reaches() {
    let own = "authority = [\"path\"]\n";
    let (_folder, domain) = load(&tool("write", "write_idempotent", own));
    let domain = domain.unwrap();
    assert_eq!(domain.spec.tools[0].policy.authority, ["/path".into()]);
    let declared = "parameters = { path = { required = true, enum = [\"a.md\"] } }\n";
    let (_folder, domain) = load(&tool("read", "read", declared));
    let domain = domain.unwrap();
    assert!(domain.registry.schema_violations("use_read", &json!({ "path": "2026/b.md" })).is_some());
    assert!(domain.registry.schema_violations("use_read", &json!({ "path": "a.md" })).is_none());
}

#[tokio::test]
async fn the_example_of_the_page_loads_and_does_what_it_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/tools/files.md");
    let page = fs::read_to_string(path).unwrap();
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text = blocks.into_iter().find(|block| block.starts_with("version = 1")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("notes")).unwrap();
    fs::write(folder.path().join("notes/plan.md"), "# Plan\n- ship it\n").unwrap();
    fs::write(folder.path().join("notes/key.pem"), "not for the model").unwrap();
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    let warnings = domain.report().warnings;
    assert!(warnings.iter().all(|warning| warning.contains("consent")), "{warnings:?}");
    let seen = call(&domain, "search_notes", json!({ "pattern": "ship" })).await;
    assert!(seen.text().contains("plan.md:2: - ship it"), "{}", seen.text());
    let seen = call(&domain, "list_notes", json!({})).await;
    assert!(seen.text().contains("plan.md") && !seen.text().contains("key.pem"), "{}", seen.text());
    let seen = call(&domain, "read_note", json!({ "path": "plan.md" })).await;
    assert!(seen.text().contains("2\t- ship it"), "{}", seen.text());
    assert_eq!(call(&domain, "read_note", json!({ "path": "key.pem" })).await.status, Status::InvalidInput);
    let patch = json!({ "path": "plan.md", "old": "- ship it", "new": "- shipped" });
    assert_eq!(call(&domain, "change_note", patch).await.status, Status::Ok);
    assert_eq!(fs::read_to_string(folder.path().join("notes/plan.md")).unwrap(), "# Plan\n- shipped\n");
}
