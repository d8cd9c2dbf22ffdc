//! Logging in: what is encrypted, whom is trusted, and what a refused login says.

use loop_core::types::{Effect, Observation, Status};
use loop_testkit::postgres::PostgresServer;
use loop_tools::Credentials;
use loop_tools::connectors::{Postgres, PostgresLogin, PostgresSettings, PostgresTls};
use serde_json::json;

use super::world::{Caller, SECRET, SECRET_NAME, SHOP, connections, data, server, settings, settings_at};

async fn ask(settings: PostgresSettings, secret: &str) -> Observation {
    let source = Postgres::new("shop", settings).unwrap();
    let query = "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let credentials: Credentials = [(SECRET_NAME.to_owned(), secret.to_owned())].into_iter().collect();
    let seen = Caller::new(&source, Effect::Read, query).call_with(json!({}), &credentials, "k").await;
    assert!(!format!("{seen:?}").contains(secret), "K13: {seen:?}");
    seen
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_connection_is_encrypted_and_the_certificate_is_verified() {
    // K13
    let seen = ask(settings("reader"), SECRET).await;
    assert_eq!(data(&seen), json!([{ "ssl": true, "version": "TLSv1.3" }]));
    let refused = |seen: &Observation, says: &str| {
        assert_eq!(seen.status, Status::PermanentError, "{}", seen.summary);
        assert!(seen.summary.contains(says), "{}", seen.summary);
    };
    // The operating system does not know the authority.
    let mut unknown = settings("reader");
    unknown.tls = PostgresTls::Verified { ca: None };
    refused(&ask(unknown, SECRET).await, "TLS with localhost fails: ");
    // The certificate is for localhost.
    let mut address = settings_at("127.0.0.1", server().port(), "reader");
    address.tls = PostgresTls::Verified { ca: Some(server().folder().join("ca.pem")) };
    refused(&ask(address, SECRET).await, "TLS with 127.0.0.1 fails: ");
    // The server's own certificate is not an authority.
    let mut own = settings("reader");
    own.tls = PostgresTls::Verified { ca: Some(server().folder().join("server.pem")) };
    assert_ne!(ask(own, SECRET).await.status, Status::RetryableError);
    let mut off = settings_at("127.0.0.1", server().port(), "reader");
    off.tls = PostgresTls::Off;
    assert_eq!(data(&ask(off, SECRET).await)[0]["ssl"], json!(false));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_server_without_tls_gets_no_login() {
    let own = PostgresServer::start();
    own.sql("postgres", "ALTER SYSTEM SET ssl = off");
    own.sql("postgres", "SELECT pg_reload_conf()");
    own.sql("postgres", "CREATE DATABASE shop");
    own.sql("shop", SHOP);
    let seen = ask(settings_at("localhost", own.port(), "reader"), SECRET).await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(seen.summary.starts_with("the server localhost does not offer TLS; "), "{}", seen.summary);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_refused_login_says_why_and_shows_no_secret() {
    // K13
    let seen = ask(settings("reader"), "wrong-s3cret").await;
    let says = "the server refuses the login: password authentication failed for user \"reader\"";
    assert_eq!((seen.status, &*seen.summary), (Status::PermanentError, says));
    let seen = ask(settings("nobody_there"), SECRET).await;
    assert!(seen.summary.starts_with("the server refuses the login: "), "{}", seen.summary);
    let mut elsewhere = settings("reader");
    if let PostgresLogin::Parts { database, .. } = &mut elsewhere.login {
        *database = "nowhere".to_owned();
    }
    let seen = ask(elsewhere, SECRET).await;
    let says = "the server refuses the login: database \"nowhere\" does not exist";
    assert_eq!((seen.status, &*seen.summary), (Status::PermanentError, says));
    let source = Postgres::new("shop", settings("reader")).unwrap();
    let tool = Caller::new(&source, Effect::Read, "SELECT 1 AS a");
    let seen = tool.call_with(json!({}), &Credentials::none(), "k").await;
    assert_eq!(&*seen.summary, "the secret `SHOP_PASSWORD` is not set, and this source needs it");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_url_is_a_secret_as_a_whole() {
    // K13
    let url = format!("postgres://reader:{SECRET}@localhost:{}/shop?sslmode=require", server().port());
    let mut settings = PostgresSettings::new(PostgresLogin::Url { url_env: SECRET_NAME.to_owned() });
    settings.tls = PostgresTls::Verified { ca: Some(server().folder().join("ca.pem")) };
    let seen = ask(settings.clone(), &url).await;
    assert_eq!(data(&seen)[0]["ssl"], json!(true));
    let source = Postgres::new("shop", settings).unwrap();
    let credentials: Credentials = [(SECRET_NAME.to_owned(), url)].into_iter().collect();
    let query = format!("SELECT '<{SECRET}>' AS v, array['{SECRET}'] AS list");
    let seen = Caller::new(&source, Effect::Read, &query).call_with(json!({}), &credentials, "k").await;
    assert_eq!(data(&seen), json!([{ "v": "<[masked]>", "list": ["[masked]"] }]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn too_many_connections_is_a_failure_that_may_pass() {
    let hold = Postgres::new("shop", settings("single")).unwrap();
    let slow = Caller::new(&hold, Effect::Read, "SELECT 1 AS a FROM pg_sleep(600) AS marked_single");
    let other = Postgres::new("shop", settings("single")).unwrap();
    let quick = Caller::new(&other, Effect::Read, "SELECT 1 AS a");
    let cancel = slow.cancel.clone();
    let first = tokio::spawn(async move { slow.call(json!({})).await });
    let running = "state = 'active' AND query LIKE '%marked_single%'";
    assert_eq!(connections(server(), running, "1"), "1");
    let second = quick.call(json!({})).await;
    cancel.cancel();
    assert_ne!(first.await.unwrap().status, Status::Ok);
    let says = "too many connections for role \"single\"";
    assert_eq!((second.status, &*second.summary), (Status::RetryableError, says));
}
