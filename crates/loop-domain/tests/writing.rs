//! Sources that may be written: which file is changed, and what those who only read see.

use std::fs;
use std::path::Path;

use loop_core::types::{Observation, Scope, Status};
use loop_domain::{Domain, LoadOptions};
use loop_tools::ToolContext;
use serde_json::json;

const SCRIPT: &str = "CREATE TABLE stock (name TEXT, pieces INTEGER); INSERT INTO stock VALUES ('nut', 7);";

/// A domain over a writable source that is given by `data`, and a source that is only read.
fn folder(data: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.sql"), SCRIPT).unwrap();
    let look = "kind = \"sql\"\neffect = \"read\"\nquery = \"SELECT pieces FROM stock WHERE name = 'nut'\"\n";
    let text = format!(
        "version = 1\nname = \"shop\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n\
         [sources.shop]\nkind = \"sqlite\"\n{data}\nwritable = true\n\
         [sources.script]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\n\
         [tools.take]\nkind = \"sql\"\nsource = \"shop\"\neffect = \"write_irreversible\"\n\
         query = \"UPDATE stock SET pieces = pieces - 1 WHERE name = 'nut'\"\n\
         [tools.look]\nsource = \"shop\"\n{look}[tools.look_at_script]\nsource = \"script\"\n{look}"
    );
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    folder
}

fn load(folder: &Path) -> Domain {
    Domain::load(folder, &LoadOptions::default()).unwrap()
}

async fn call(domain: &Domain, tool: &str) -> Observation {
    let context = ToolContext::new(Scope::default(), "x", "r/1/action-0");
    domain.registry.dispatch(tool, &json!({}), context, &domain.credentials, 12_000, 4_000).await
}

async fn pieces(domain: &Domain, tool: &str) -> String {
    call(domain, tool).await.data.to_string()
}

#[tokio::test]
async fn a_writable_script_is_changed_in_a_copy_that_is_kept() {
    let folder = folder("made_from = \"shop.sql\"");
    for left in [6, 5] {
        let domain = load(folder.path());
        assert_eq!(call(&domain, "take").await.status, Status::Ok);
        assert_eq!(pieces(&domain, "look").await, format!("[{{\"pieces\":{left}}}]"));
        assert_eq!(pieces(&domain, "look_at_script").await, "[{\"pieces\":7}]");
    }
    assert_eq!(fs::read_to_string(folder.path().join("shop.sql")).unwrap(), SCRIPT);
}

#[tokio::test]
async fn a_writable_file_is_changed_itself() {
    let folder = folder("file = \"shop.db\"");
    // What the source that is only read made of the script is a database as good as any.
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("there is no such file"), "{error}");
    let made_elsewhere = self::folder("made_from = \"shop.sql\"");
    load(made_elsewhere.path());
    let made =
        fs::read_dir(made_elsewhere.path().join(".loopgate")).unwrap().map(|entry| entry.unwrap().path());
    let made = made.into_iter().find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
    let file = folder.path().join("shop.db");
    fs::copy(made, &file).unwrap();
    let before = fs::read(&file).unwrap();
    let toml = folder.path().join("loopgate.toml");
    let text = fs::read_to_string(&toml).unwrap();
    fs::write(&toml, text.replace("writable = true\n", "")).unwrap();
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the source `shop` is not writable"), "{error}");
    fs::write(&toml, text).unwrap();
    let domain = load(folder.path());
    assert_eq!(call(&domain, "take").await.status, Status::Ok);
    assert_eq!(pieces(&load(folder.path()), "look").await, "[{\"pieces\":6}]");
    assert_ne!(fs::read(&file).unwrap(), before);
}
