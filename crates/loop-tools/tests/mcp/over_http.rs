//! A server that is there, over streamable HTTP.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loop_core::types::{Effect, Status};
use loop_tools::connectors::{McpClient, McpHttp, McpSettings, McpTransport};
use serde_json::json;

use super::world::{call, program, registry};

/// A server that is stopped by its own process id.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn everything(port: u16) -> Started {
    let child = Command::new(program("mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Started(child);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    started
}

#[tokio::test]
#[ignore = "needs MCP servers: cargo xtask servers mcp"]
async fn everything_is_called_over_http_and_comes_back_after_a_restart() {
    // S1-27, S1-31, T12
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = everything(port).await;
    let mut http = McpHttp::new(format!("http://127.0.0.1:{port}/mcp"));
    (http.plain_http, http.private) = (true, vec![format!("127.0.0.1:{port}")]);
    let server = McpClient::new(McpSettings::new("everything", McpTransport::Http(http))).unwrap();
    let registry = registry(&server, Effect::Read).await;
    let seen = call(&registry, "echo", json!({ "message": "hello" })).await;
    assert_eq!((seen.status, &*seen.markdown), (Status::Ok, "Echo: hello"));
    let steps = json!({ "duration": 1, "steps": 4 });
    let seen = call(&registry, "trigger_long_running_operation", steps).await;
    assert!(seen.markdown.contains("completed"), "{}", seen.markdown);
    drop(started);
    let seen = call(&registry, "echo", json!({ "message": "lost" })).await;
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
    // The new server does not know the session of the old one.
    let _started = everything(port).await;
    let last = call(&registry, "echo", json!({ "message": "again" })).await;
    assert_eq!(&*last.markdown, "Echo: again", "{}", last.summary);
}
