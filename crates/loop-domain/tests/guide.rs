//! The pages about domains hold: their files load and run, and their pieces fit them.
//!
//! A comment before a block says what it is: `file: PATH` is a whole file, `part of: PATH` stands in that file word for word,
//! `added to: PATH` makes a domain together with that file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use loop_core::StopReason;
use loop_domain::{Domain, LoadOptions};
use loop_runtime::{Outcome, report::explain};

/// A block of the guide and the comment before it.
struct Block {
    what: String,
    path: String,
    text: String,
}

const REFERENCE: &str = "docs/reference/domain-file.md";

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The pages about domains, as one text.
fn guide() -> String {
    ["docs/tutorial/domain.md", "docs/how-to/extend-a-domain.md", REFERENCE].map(page).concat()
}

/// The blocks that are marked with a comment.
fn blocks(guide: &str) -> Vec<Block> {
    let mut lines = guide.lines();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let mark = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")?.split_once(": "));
        let Some((what, path)) = mark else { continue };
        let fence = lines.by_ref().find(|line| !line.is_empty()).unwrap_or_default();
        assert!(fence.starts_with("```"), "after `{line}` stands no block: {fence}");
        let text: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        blocks.push(Block { what: what.to_owned(), path: path.to_owned(), text });
    }
    blocks
}

/// The files of the guide by path.
fn files(blocks: &[Block]) -> BTreeMap<&str, &str> {
    let files = blocks.iter().filter(|block| block.what == "file");
    files.map(|block| (&*block.path, &*block.text)).collect()
}

fn written(files: &BTreeMap<&str, &str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

async fn outcome(folder: &Path, domain: &str, item: &str, set: &[(&str, &str)]) -> Outcome {
    let options = LoadOptions {
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..LoadOptions::default()
    };
    let domain = Domain::load(folder.join(domain), &options).unwrap();
    let text = fs::read_to_string(folder.join(item)).unwrap();
    domain.to_loop().run(domain.item(&text, item).unwrap()).await.unwrap()
}

/// The line about the stop, as the command prints it and the guide shows it.
#[track_caller]
fn check_stop(outcome: &Outcome, reason: StopReason) {
    let stop = &outcome.stop;
    assert_eq!(stop.reason(), reason, "{}", outcome.document.to_markdown());
    let line = format!("stopped: {} ({}). {}", stop.reason(), stop.class.name(), explain(stop));
    assert!(guide().lines().any(|shown| shown == line), "the guide does not show: {line}");
}

#[test]
fn every_domain_of_the_guide_loads() {
    let guide = guide();
    let blocks = blocks(&guide);
    let files = files(&blocks);
    let folder = written(&files);
    let mut domains = 0;
    for path in files.keys().filter(|path| path.ends_with("loopgate.toml")) {
        Domain::load(folder.path().join(path), &LoadOptions::default()).unwrap();
        domains += 1;
    }
    assert_eq!(domains, 2);
    let desk = Domain::load(folder.path().join("desk"), &LoadOptions::default()).unwrap();
    assert!(desk.report().warnings.is_empty(), "{:?}", desk.report().warnings);
    let quick = LoadOptions { profile: Some("quick".to_owned()), ..LoadOptions::default() };
    let quick = Domain::load(folder.path().join("desk"), &quick).unwrap();
    assert_eq!(quick.spec.limits.passes, 1);
}

#[test]
fn every_piece_of_the_guide_fits_its_file() {
    let guide = guide();
    let blocks = blocks(&guide);
    let files = files(&blocks);
    let mut pieces = 0;
    for block in blocks.iter().filter(|block| block.what != "file") {
        let Block { what, path, text } = block;
        let file = files[&**path];
        match &**what {
            "part of" => assert!(file.contains(&**text), "{path} does not hold:\n{text}"),
            "added to" => {
                let whole = format!("{file}\n{text}");
                let mut files = files.clone();
                files.insert(path, &whole);
                let folder = written(&files);
                let loaded = Domain::load(folder.path().join(path), &LoadOptions::default());
                assert!(loaded.is_ok(), "{loaded:?}\n{text}");
            }
            other => panic!("`{other}` is no kind of block"),
        }
        pieces += 1;
    }
    assert!(pieces > 0);
}

#[tokio::test]
async fn the_domains_of_the_guide_end_as_it_says() {
    let guide = guide();
    let blocks = blocks(&guide);
    let folder = written(&files(&blocks));
    let smallest = outcome(folder.path(), "shop", "question.md", &[]).await;
    check_stop(&smallest, StopReason::Confident);
    // Where the stub puts its full stops does not matter here.
    let words = |line: &str| line.replace(|c: char| !c.is_alphanumeric(), "");
    for line in smallest.document.to_markdown().lines() {
        let is_shown = guide.lines().any(|shown| words(shown) == words(line));
        assert!(is_shown, "the guide does not show: {line}");
    }
    let without_hint = [("tools.search.when", "")];
    let unhinted = outcome(folder.path(), "shop", "question.md", &without_hint).await;
    check_stop(&unhinted, StopReason::NoNewActions);
    let desk = outcome(folder.path(), "desk", "request.json", &[]).await;
    check_stop(&desk, StopReason::Confident);
    assert_eq!((desk.totals.passes, desk.totals.tool_calls), (1, 2));
    assert!(folder.path().join("desk/out/R-15.json").is_file());
}
