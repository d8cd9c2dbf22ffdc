//! What a call costs beyond its query: `cargo test --release -p loop-tools --features postgres --test it cost -- --ignored
//! --nocapture` prints it.

use std::io::Write;
use std::time::{Duration, Instant};

use loop_core::types::{Effect, Scope};
use loop_tools::connectors::{Postgres, PostgresTool};
use loop_tools::{Tool, ToolContext};
use serde_json::json;
use tokio_postgres::NoTls;

use super::world::{SECRET, credentials, declaration, server, settings_at};

const CALLS: usize = 500;

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_call_costs_two_round_trips() {
    let server = server();
    let socket = server.folder().display().to_string();
    let stream =
        tokio::net::UnixStream::connect(format!("{socket}/.s.PGSQL.{}", server.port())).await.unwrap();
    let mut config = tokio_postgres::Config::new();
    config.user("reader").password(SECRET).dbname("shop");
    let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
    tokio::spawn(connection);
    let query = "SELECT relname::text AS name FROM pg_class WHERE relname = 'pg_class'";
    let statement = client.prepare(query).await.unwrap();
    let source = Postgres::new("shop", settings_at(&socket, server.port(), "reader")).unwrap();
    let tool = PostgresTool::new(declaration(Effect::Read), &source, query).unwrap();
    let (context, credentials) = (ToolContext::new(Scope::default(), "x", "k"), credentials());
    let first = tool.call(json!({}), &context, &credentials).await;
    assert_eq!(first.kind, None, "{}", first.summary);
    // In turns, so that a busy machine is as busy for each.
    let (mut raw, mut by_hand, mut called) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let began = Instant::now();
        assert_eq!(client.query(&statement, &[]).await.unwrap().len(), 1);
        raw.push(began.elapsed());
        // What the same client needs for the same guarantees, one request after the other.
        let began = Instant::now();
        client.batch_execute("BEGIN READ ONLY; SET LOCAL statement_timeout = 10000").await.unwrap();
        client.query("SELECT set_config('loopgate.account', 'a', true)", &[]).await.unwrap();
        client.query(&statement, &[]).await.unwrap();
        client.batch_execute("ROLLBACK").await.unwrap();
        by_hand.push(began.elapsed());
        let began = Instant::now();
        tool.call(json!({}), &context, &credentials).await;
        called.push(began.elapsed());
    }
    let [raw, by_hand, called] = [raw, by_hand, called].map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = called.as_secs_f64() / raw.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "medians of {CALLS}: raw query {raw:?}, transaction and scope by hand {by_hand:?}, call {called:?}: {ratio:.1} times the raw query"
    );
    // A busy machine is as busy for each of them.
    assert!(called < Duration::from_millis(10).max(by_hand * 4), "{called:?}, by hand {by_hand:?}");
}
