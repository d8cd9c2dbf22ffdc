//! Tests of the document tool, through the registry as a run calls it.

#![allow(clippy::unwrap_used)]

use std::fs;

use crate::{Registry, Smart};
use loop_core::types::{Effect, Observation, Scope, Status};

use super::*;

fn declaration() -> ToolDeclaration {
    ToolDeclaration::new("fetch_sop_docs")
        .schema(json!({
            "type": "object",
            "properties": { "query": { "type": "string" }, "limit": { "type": "integer" } },
            "required": ["query"],
        }))
        .effect(Effect::Read)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("disk.md", "# Full disk\nKeywords: space\n## Steps\nEmpty the disk's temporary folders."),
        ("vpn/client.txt", "The tunnel needs a certificate."),
        ("mail.md", "# Mailbox\nArchive old mail."),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

async fn call(registry: Registry, query: &str) -> Observation {
    let scope = Scope { account_name: Some("Contoso".into()), ..Scope::default() };
    let context = ToolContext::new(scope, "x", "r/1/action-0");
    registry
        .dispatch("fetch_sop_docs", &json!({ "query": query }), context, &Credentials::none(), 5_000, 4_000)
        .await
}

fn plain(folder: &Path) -> Registry {
    Registry::builder().tool(DocsTool::new(declaration(), folder, "query").unwrap()).build().unwrap()
}

fn smart(folder: &Path) -> Registry {
    let source = DocsTool::new(declaration(), folder, "query").unwrap();
    Registry::builder().tool(Smart::new(source)).build().unwrap()
}

#[tokio::test]
async fn the_best_passages_come_with_their_place() {
    // S0-69, S0-79
    let folder = folder();
    let seen = call(plain(folder.path()), "disk is full").await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Found 1 passages"));
    let expected = "## Sop docs — Contoso\n\n### disk.md › Full disk\n\nKeywords: space\n\n#### Steps\n\n\
                    Empty the disk's temporary folders.";
    assert_eq!(&*seen.markdown, expected);
}

#[tokio::test]
async fn words_that_stand_nowhere_find_nothing() {
    // S0-68
    let folder = folder();
    for registry in [plain(folder.path()), smart(folder.path())] {
        let seen = call(registry, "zebra the").await;
        assert_eq!((seen.status, &*seen.summary), (Status::Empty, "No data found"));
    }
}

#[tokio::test]
async fn without_a_model_a_smart_tool_keeps_the_ranking() {
    // S0-60, S0-76, S0-128
    let folder = folder();
    let seen = call(smart(folder.path()), "certificate of the tunnel").await;
    assert_eq!(seen.status, Status::Ok);
    assert!(
        seen.markdown.contains("### vpn/client.txt\n\nThe tunnel needs a certificate."),
        "{}",
        seen.markdown
    );
    assert!(seen.summary.ends_with("chosen by code"), "{}", seen.summary);
}

#[tokio::test]
async fn a_long_passage_is_cut_with_a_mark() {
    // S0-123
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.md"), format!("# Long\n{}", "wörd ".repeat(500))).unwrap();
    let seen = call(plain(folder.path()), "wörd").await;
    assert!(seen.markdown.ends_with("… [cut: 2000 of 2499 characters]"), "{}", seen.markdown);
}

#[tokio::test]
async fn a_candidate_is_a_line_with_its_place_and_first_words() {
    // S0-60, S0-73
    let folder = folder();
    let source = DocsTool::new(declaration(), folder.path(), "query").unwrap();
    let context = ToolContext::new(Scope::default(), "x", "k");
    let found = source.fetch(&json!({ "query": "archive" }), &context, &Credentials::none()).await.unwrap();
    let lines: Vec<&str> = found.iter().map(|candidate| candidate.line.as_str()).collect();
    assert_eq!(lines, ["mail.md › Mailbox: Archive old mail."]);
    assert_eq!(source.documents(), 3);
}

#[test]
fn the_parameter_with_the_words_must_be_a_declared_text() {
    let folder = folder();
    for name in ["words", "limit"] {
        let error = DocsTool::new(declaration(), folder.path(), name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("tool `fetch_sop_docs`: the parameter `{name}`")), "{error}");
    }
}

// Issue 43, K3
#[tokio::test]
async fn a_document_is_read_by_its_mark_and_one_in_no_known_charset_is_named() {
    let folder = folder();
    let wide: Vec<u8> =
        "\u{feff}# Toner\r\nDer Kühlschrank.".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(folder.path().join("wide.txt"), wide).unwrap();
    fs::write(folder.path().join("mark.md"), "\u{feff}# Drucker\r\n\r\nIm Flur.").unwrap();
    fs::write(folder.path().join("latin.txt"), b"Das Ger\xe4t im Flur").unwrap();
    let tool = DocsTool::new(declaration(), folder.path(), "query").unwrap();
    let left_out = "latin.txt: not UTF-8, and names no charset; save it as UTF-8";
    assert_eq!(tool.left_out(), [left_out]);
    let seen = call(plain(folder.path()), "Kühlschrank").await;
    assert!(seen.text().contains("### wide.txt › Toner\n\nDer Kühlschrank."), "{}", seen.text());
    let seen = call(plain(folder.path()), "Drucker Flur").await;
    assert!(seen.text().contains("### mark.md › Drucker\n\nIm Flur."), "{}", seen.text());
    assert!(seen.text().contains(left_out), "{}", seen.text());
    // R53: where nothing is found, that proves nothing while something was not searched.
    fs::write(folder.path().join("large.md"), vec![b'x'; 1 << 21]).unwrap();
    let source = plain(folder.path());
    let seen = call(source, "Kaffeemaschine").await;
    assert_eq!(seen.status, Status::Ok, "{seen:?}");
    let unsearched = format!("_Not looked at: large.md: larger than 1048576 bytes; {left_out}_");
    assert!(seen.text().ends_with(&unsearched), "{}", seen.text());
    let context = ToolContext::new(Scope::default(), "x", "k");
    let query = json!({ "query": "Kaffeemaschine" });
    let fetched = DocsTool::new(declaration(), folder.path(), "query").unwrap();
    let fetched = fetched.fetch(&query, &context, &Credentials::none()).await;
    assert!(fetched.unwrap_err().markdown.ends_with(&unsearched));
}
