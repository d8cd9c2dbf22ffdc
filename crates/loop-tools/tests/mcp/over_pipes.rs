//! Servers that are started as programs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use loop_core::types::{Effect, Status};
use loop_tools::connectors::McpResourceTool;
use loop_tools::{Credentials, Registry, ToolDeclaration};
use serde_json::json;

use super::world::{call, registry, server};

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn everything_offers_content_of_every_kind() {
    // S1-27, S1-31
    let folder = tempfile::tempdir().unwrap();
    let server = server("everything", &[], folder.path());
    let registry = registry(&server, Effect::Read).await;
    let seen = call(&registry, "echo", json!({ "message": "hello" })).await;
    assert_eq!((seen.status, &*seen.markdown), (Status::Ok, "Echo: hello"));
    let seen = call(&registry, "get_sum", json!({ "a": 2, "b": 40 })).await;
    assert!(seen.markdown.contains("42"), "{}", seen.markdown);
    let wrong = call(&registry, "get_sum", json!({ "a": "two", "b": 40 })).await;
    assert_eq!(wrong.status, Status::InvalidInput, "the server's own schema is kept before it is asked");
    let seen = call(&registry, "get_structured_content", json!({ "location": "Chicago" })).await;
    assert!(
        seen.markdown.contains("| temperature |") || seen.markdown.contains("temperature"),
        "{}",
        seen.markdown
    );
    assert!(seen.markdown.starts_with("## "), "structured content is a table: {}", seen.markdown);
    let seen = call(&registry, "get_tiny_image", json!({})).await;
    assert!(seen.markdown.contains("[picture 1, image/png, "), "{}", seen.markdown);
    assert_eq!(seen.pictures.len(), 1);
    let seen = call(&registry, "get_resource_links", json!({ "count": 2 })).await;
    assert!(seen.markdown.matches("demo://").count() >= 2, "{}", seen.markdown);
    let embedded = json!({ "resourceType": "Text", "resourceId": 1 });
    let seen = call(&registry, "get_resource_reference", embedded).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
    let steps = json!({ "duration": 1, "steps": 4 });
    let seen = call(&registry, "trigger_long_running_operation", steps).await;
    assert!(seen.markdown.contains("completed"), "{}", seen.markdown);
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn everything_offers_resources_of_which_only_named_ones_are_read() {
    // S1-31
    let folder = tempfile::tempdir().unwrap();
    let server = server("everything", &[], folder.path());
    let manifest = server.manifest(&Credentials::none()).await.unwrap();
    let uri = manifest.resources.first().unwrap().uri.clone();
    let declaration = ToolDeclaration::read("everything_read_resource", "Reads a document");
    let tool = McpResourceTool::new(declaration, &server, std::slice::from_ref(&uri));
    let registry = Registry::builder().tool(tool).build().unwrap();
    let seen = call(&registry, "everything_read_resource", json!({ "uri": uri })).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
    assert!(seen.markdown.len() > 100, "{}", seen.markdown);
    let other = &manifest.resources.last().unwrap().uri;
    let seen = call(&registry, "everything_read_resource", json!({ "uri": other })).await;
    assert_eq!(seen.status, Status::InvalidInput);
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn filesystem_reads_and_writes_its_folder() {
    // S1-27
    let folder = tempfile::tempdir().unwrap();
    // Its server compares paths without links.
    let path = folder.path().canonicalize().unwrap();
    fs::write(path.join("a.txt"), "what a says").unwrap();
    let server = server("filesystem", &[path.to_str().unwrap()], &path);
    let (reads, writes) =
        (registry(&server, Effect::Read).await, registry(&server, Effect::WriteIdempotent).await);
    let seen = call(&reads, "read_text_file", json!({ "path": path.join("a.txt") })).await;
    assert!(seen.markdown.contains("what a says"), "{} {}", seen.summary, seen.markdown);
    let new = json!({ "path": path.join("b.txt"), "content": "new" });
    assert_eq!(call(&writes, "write_file", new).await.status, Status::Ok);
    assert_eq!(fs::read_to_string(path.join("b.txt")).unwrap(), "new");
    let seen = call(&reads, "read_text_file", json!({ "path": "/etc/passwd" })).await;
    assert_eq!(
        seen.status,
        Status::PermanentError,
        "a failure that the server says is one: {}",
        seen.summary
    );
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn memory_keeps_what_it_is_told() {
    // S1-27
    let folder = tempfile::tempdir().unwrap();
    let server = server("memory", &[], folder.path());
    let registry = registry(&server, Effect::Read).await;
    let entity = json!({ "name": "Contoso", "entityType": "customer", "observations": ["pays late"] });
    let seen = call(&registry, "create_entities", json!({ "entities": [entity] })).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.summary);
    let seen = call(&registry, "search_nodes", json!({ "query": "Contoso" })).await;
    assert!(seen.markdown.contains("pays late"), "{}", seen.markdown);
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn time_and_git_answer() {
    // S1-27
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let done = Command::new("git").current_dir(path).args(identity).args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "--quiet"]);
    fs::write(folder.path().join("a.txt"), "a").unwrap();
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "the first change"]);
    let servers = (server("time", &[], folder.path()), server("git", &["--repository", path], folder.path()));
    let (time, repository) =
        (registry(&servers.0, Effect::Read).await, registry(&servers.1, Effect::Read).await);
    let zones =
        json!({ "source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let seen = call(&time, "convert_time", zones).await;
    assert!(seen.markdown.contains("Asia/Tokyo"), "{}", seen.markdown);
    let wrong = json!({ "timezone": "Middle/Earth" });
    let seen = call(&time, "get_current_time", wrong).await;
    assert!(!matches!(seen.status, Status::Ok | Status::Empty), "{}", seen.markdown);
    let seen = call(&repository, "git_log", json!({ "repo_path": path, "max_count": 3 })).await;
    assert!(seen.markdown.contains("the first change"), "{} {}", seen.summary, seen.markdown);
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn fetch_reads_a_page_on_this_machine() {
    // S1-27
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the process of the tests.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let read = stream.read(&mut request).unwrap();
            let (status, body) = match String::from_utf8_lossy(&request[..read]).contains("robots.txt") {
                true => ("404 Not Found", ""),
                false => ("200 OK", "<html><body><h1>Opening hours</h1><p>Nine to five.</p></body></html>"),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close"
            );
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let server = server("fetch", &["--allow-private-ips"], folder.path());
    let registry = registry(&server, Effect::Read).await;
    let seen = call(&registry, "fetch", json!({ "url": format!("http://{address}/hours") })).await;
    assert!(seen.markdown.contains("Nine to five."), "{} {}", seen.summary, seen.markdown);
}
