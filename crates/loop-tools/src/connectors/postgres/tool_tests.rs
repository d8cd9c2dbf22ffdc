//! Tests without a server: what is refused when a tool is made, and what servers that are none do to a call.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Instant;

use crate::Registry;
use loop_core::types::{Observation, Scope, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::connectors::postgres::settings::{PostgresLogin, PostgresSettings, PostgresTls};

const SECRET: &str = "s3cret-of-nobody";

fn settings(port: u16) -> PostgresSettings {
    let mut settings = PostgresSettings::new(PostgresLogin::Parts {
        host: "127.0.0.1".to_owned(),
        port,
        database: "shop".to_owned(),
        user: "reader".to_owned(),
        password_env: Some("DB".to_owned()),
    });
    settings.tls = PostgresTls::Off;
    settings.connect_timeout = Duration::from_millis(400);
    settings
}

fn declaration(effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new("fetch_stock")
        .schema(json!({ "type": "object", "properties": { "target": { "type": "string" } } }))
        .effect(effect)
}

#[track_caller]
fn refused(effect: Effect, query: &str) -> String {
    let mut settings = settings(1);
    settings.writable = true;
    let source = Postgres::new("shop", settings).unwrap();
    let error = PostgresTool::new(declaration(effect), &source, query).unwrap_err().to_string();
    assert!(error.starts_with("tool `fetch_stock`: ") && !error.contains('\n'), "{error}");
    error.replacen("tool `fetch_stock`: ", "", 1)
}

#[test]
fn a_query_is_checked_without_a_server_as_far_as_its_text_shows() {
    // S0-64
    let read = |query: &str| refused(Effect::Read, query);
    let select =
        |what: &str| format!("its query must be one SELECT that changes nothing: {what}; write one SELECT");
    assert_eq!(read("SELECT 1; DROP TABLE t"), select("it is more than one statement"));
    assert_eq!(read("-- nothing"), select("it is empty"));
    for word in
        ["delete", "insert", "copy", "set", "do", "call", "explain", "show", "begin", "lock", "truncate"]
    {
        assert_eq!(read(&format!("{} x", word.to_uppercase())), select(&format!("it begins with `{word}`")));
    }
    assert_eq!(
        read("SELECT 'x"),
        "its query does not prepare: a string is not closed, which begins in its line 1; correct the SQL"
    );
    assert_eq!(
        read("SELECT $1"),
        "its query does not prepare: `$1` has no name; write the placeholder as `:name`; correct the SQL"
    );
    assert!(
        read("SELECT :taget")
            .starts_with("its query names `:taget`, which nobody gives it; use one of :target, ")
    );
    assert!(read("SELECT :call_key").starts_with("its query names `:call_key`"));
    for word in ["SELECT 1", "CREATE TABLE t ()", "DROP TABLE t", "COPY t FROM PROGRAM 'x'", "CALL f()"] {
        let says = refused(Effect::WriteIdempotent, word);
        assert!(
            says.starts_with("with the effect `write_idempotent` its query must be one INSERT"),
            "{says}"
        );
    }
    assert!(refused(Effect::WriteKeyed, "DELETE FROM t").contains("must store `:call_key`"));
    let source = Postgres::new("shop", settings(1)).unwrap();
    let error =
        PostgresTool::new(declaration(Effect::WriteIdempotent), &source, "DELETE FROM t").unwrap_err();
    assert!(matches!(error, ConnectorError::NotWritable { .. }), "{error}");
}

#[test]
fn settings_that_are_wrong_are_refused_with_their_key() {
    let wrong = |change: &dyn Fn(&mut PostgresSettings)| {
        let mut settings = settings(1);
        change(&mut settings);
        match Postgres::new("shop", settings) {
            Err(ConnectorError::Setting { key, message }) => {
                assert!(!message.contains('\n'));
                key
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wrong(&|it| it.pool = 0), "pool");
    assert_eq!(wrong(&|it| it.pool = 65), "pool");
    assert_eq!(wrong(&|it| it.statement_timeout = Duration::ZERO), "statement_timeout_ms");
    assert_eq!(wrong(&|it| it.search_path = vec![" ".to_owned()]), "search_path");
    for setting in ["role", "app", "app.x.y", "app.x'; DROP", ".x", "app."] {
        assert_eq!(
            wrong(&|it| it.scope = vec![(setting.to_owned(), "account".to_owned())]),
            "scope",
            "{setting}"
        );
    }
    assert_eq!(wrong(&|it| it.scope = vec![("app.x".to_owned(), "tenant".to_owned())]), "scope");
    let path = tempfile::NamedTempFile::new().unwrap();
    let ca = Some(path.path().to_owned());
    assert_eq!(wrong(&|it| it.tls = PostgresTls::Verified { ca: ca.clone() }), "ca");
    let ca = Some("/nowhere/ca.pem".into());
    assert_eq!(wrong(&|it| it.tls = PostgresTls::Verified { ca: ca.clone() }), "ca");
    let mut far = settings(1);
    if let PostgresLogin::Parts { host, .. } = &mut far.login {
        *host = "db.example".to_owned();
    }
    let source = Postgres::new("shop", far).unwrap();
    assert!(source.warnings()[0].contains("connects to db.example without encryption"), "{source:?}");
    assert!(!format!("{source:?}").contains(SECRET));
}

/// What a call to a server returns that does `serve` with each connection.
async fn call<F>(
    effect: Effect,
    tls: PostgresTls,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> Observation
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let mut settings = settings(port);
    settings.tls = tls;
    settings.writable = true;
    ask(effect, settings).await
}

async fn ask(effect: Effect, settings: PostgresSettings) -> Observation {
    let source = Postgres::new("shop", settings).unwrap();
    let query = if effect.is_read() { "SELECT 1 AS a" } else { "DELETE FROM t" };
    let tool = PostgresTool::new(declaration(effect), &source, query).unwrap();
    let registry = Registry::builder().tool(tool).build().unwrap();
    let context = ToolContext::new(Scope::default(), "x", "k");
    let credentials: Credentials = [("DB".to_owned(), SECRET.to_owned())].into_iter().collect();
    let began = Instant::now();
    let seen = registry.dispatch("fetch_stock", &json!({}), context, &credentials, 5_000, 4_000).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}: {seen:?}", began.elapsed());
    assert!(!format!("{seen:?}").contains(SECRET), "K13: {seen:?}");
    seen
}

/// The login of a server that asks for no password, and a server that is ready.
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_that_may_pass() {
    // S0-81
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let seen = ask(Effect::Read, settings(free)).await;
    assert_eq!(seen.status, Status::RetryableError);
    assert!(
        seen.summary.starts_with(&format!("no connection to 127.0.0.1 port {free}: ")),
        "{}",
        seen.summary
    );
    let mut nowhere = settings(5_432);
    if let PostgresLogin::Parts { host, .. } = &mut nowhere.login {
        *host = "/nowhere".to_owned();
    }
    let seen = ask(Effect::Read, nowhere).await;
    assert!(seen.summary.starts_with("no connection to /nowhere port 5432: "), "{}", seen.summary);
}

#[tokio::test]
async fn a_server_that_never_answers_ends_the_call_in_time() {
    // S0-81, S0-94: before TLS, before the login, and after it.
    let verified = PostgresTls::Verified { ca: None };
    for tls in [PostgresTls::Off, verified] {
        let seen = call(Effect::Read, tls, |stream| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            drop(stream);
        })
        .await;
        assert_eq!(seen.status, Status::RetryableError);
        assert!(seen.summary.ends_with("no answer within 400 ms"), "{}", seen.summary);
    }
    let seen = call(Effect::Read, PostgresTls::Off, |mut stream| async move {
        stream.write_all(READY).await.unwrap();
        let mut all = Vec::new();
        _ = stream.read_to_end(&mut all).await;
    })
    .await;
    assert!(seen.summary.ends_with("no answer within 400 ms"), "{}", seen.summary);
}

#[tokio::test]
async fn a_server_that_closes_is_a_failure_that_may_pass() {
    // S0-81
    for effect in [Effect::Read, Effect::WriteIrreversible] {
        for bytes in [&b""[..], b"R\0\0", READY] {
            let seen = call(effect, PostgresTls::Off, move |mut stream| async move {
                _ = stream.write_all(bytes).await;
                let mut some = [0; 64];
                _ = stream.read(&mut some).await;
            })
            .await;
            assert_eq!(seen.status, Status::RetryableError, "{bytes:?}: {}", seen.summary);
        }
    }
}

#[tokio::test]
async fn a_server_that_answers_rubbish_is_a_failure_for_good() {
    // S0-81
    let verified = PostgresTls::Verified { ca: None };
    let http = &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..];
    let no_tls = "the server 127.0.0.1 does not offer TLS; ";
    let other = "the server does not answer as PostgreSQL does; check host and port";
    for (tls, bytes, says) in [
        (PostgresTls::Off, http, other),
        (PostgresTls::Off, &b"SSH-2.0-x\r\n"[..], other),
        (PostgresTls::Off, &[0; 64][..], other),
        (verified.clone(), http, other),
        (verified.clone(), b"N", no_tls),
        (verified, b"S\x15\x03\x01\x00\x02\x02\x28", "TLS with 127.0.0.1 fails: "),
    ] {
        let seen = call(Effect::Read, tls, move |mut stream| async move {
            _ = stream.write_all(bytes).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        })
        .await;
        assert_eq!(seen.status, Status::PermanentError, "{bytes:?}: {}", seen.summary);
        assert!(seen.summary.starts_with(says), "{bytes:?}: {}", seen.summary);
    }
}

#[tokio::test]
async fn an_error_of_a_server_is_shown_in_one_clean_line_without_the_secret() {
    // K13
    let seen = call(Effect::Read, PostgresTls::Off, |mut stream| async move {
        let text =
            format!("SFATAL\0VFATAL\0C28000\0Mno {SECRET}\n\u{1b}[2J\u{202e}{}\0\0", "x".repeat(5_000));
        let mut message = vec![b'E'];
        message.extend(u32::try_from(text.len() + 4).unwrap().to_be_bytes());
        message.extend(text.as_bytes());
        _ = stream.write_all(&message).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    })
    .await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(seen.summary.starts_with("the server refuses the login: no [masked]"), "{}", seen.summary);
    assert!(
        seen.summary.len() < 450 && !seen.summary.contains(['\n', '\u{1b}', '\u{202e}']),
        "{}",
        seen.summary
    );
}

#[tokio::test]
async fn a_missing_secret_is_said_by_its_name() {
    // K13
    let source = Postgres::new("shop", settings(1)).unwrap();
    let tool = PostgresTool::new(declaration(Effect::Read), &source, "SELECT 1 AS a").unwrap();
    let context = ToolContext::new(Scope::default(), "x", "k");
    let result = tool.call(json!({}), &context, &Credentials::none()).await;
    assert_eq!(result.error.as_deref(), Some("the secret `DB` is not set, and this source needs it"));
}
