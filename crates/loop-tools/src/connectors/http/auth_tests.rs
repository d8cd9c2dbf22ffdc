//! Tests of how a request shows who sends it, and that nothing shows the secret.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{Failure, Tool, ToolResult};
use loop_core::types::Effect;
use serde_json::json;

use super::*;
use crate::connectors::http::test_server::{
    Reply, SeenRequest, TestServer, answer, context, declaration, json_answer, reader, redirect,
};
use crate::connectors::http::{HttpDefinition, HttpTool};

const SECRET: &str = "canary/s3cret+v4lue=Zq8Lr4Xw";

fn with(server: &TestServer, auth: HttpAuth) -> HttpDefinition {
    HttpDefinition { auth: Some(auth), ..server.definition("/orders?a=1") }
}

fn credentials() -> Credentials {
    [("SHOP_TOKEN", SECRET)].into_iter().collect()
}

async fn call(tool: &HttpTool) -> ToolResult {
    tool.call(json!({}), &context(), &credentials()).await
}

fn token_env() -> String {
    "SHOP_TOKEN".to_owned()
}

/// Every kind of a secret that is sent as it is.
fn kinds() -> Vec<HttpAuth> {
    vec![
        HttpAuth::Bearer { token_env: token_env() },
        HttpAuth::Header { key_env: token_env(), header: "x-api-key".to_owned() },
        HttpAuth::Query { key_env: token_env(), parameter: "api key".to_owned() },
        HttpAuth::Cookie { value_env: token_env(), cookie: "sid".to_owned() },
        HttpAuth::Basic { user: "ada".to_owned(), password_env: token_env() },
    ]
}

fn oauth(server: &TestServer) -> HttpAuth {
    HttpAuth::ClientCredentials {
        token_url: server.url("/token"),
        client_id: "shop client".to_owned(),
        client_secret_env: token_env(),
        scope: "orders:read".to_owned(),
    }
}

fn token(text: &str, expires_in: u64) -> Reply {
    json_answer(&json!({ "access_token": text, "token_type": "Bearer", "expires_in": expires_in }))
}

#[tokio::test]
async fn each_kind_of_secret_is_sent_where_it_belongs() {
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    for auth in kinds() {
        assert!(call(&reader(&with(&server, auth), &[])).await.success);
    }
    let asked = server.asked();
    let header = |at: usize, name: &str| asked[at].header(name).map(str::to_owned);
    assert_eq!(header(0, "authorization"), Some(format!("Bearer {SECRET}")));
    assert_eq!(header(1, "x-api-key"), Some(SECRET.to_owned()));
    assert_eq!(asked[2].target, "/orders?a=1&api+key=canary%2Fs3cret%2Bv4lue%3DZq8Lr4Xw");
    assert_eq!(header(3, "cookie"), Some(format!("sid={SECRET}")));
    assert_eq!(
        header(4, "authorization"),
        Some(format!("Basic {}", STANDARD.encode(format!("ada:{SECRET}"))))
    );
    assert_eq!(header(0, "cookie").or(header(3, "authorization")), None);
}

#[tokio::test]
async fn a_variable_that_is_not_set_ends_the_call_before_anything_is_sent() {
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    for auth in kinds().into_iter().chain([oauth(&server)]) {
        let tool = reader(&with(&server, auth), &[]);
        for credentials in [Credentials::none(), [("SHOP_TOKEN", " ")].into_iter().collect()] {
            let result = tool.call(json!({}), &context(), &credentials).await;
            let says =
                "the environment variable `SHOP_TOKEN` is not set, and this tool needs the secret in it";
            assert_eq!((result.error.as_deref(), result.kind), (Some(says), Some(Failure::Permanent)));
        }
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_secret_goes_to_its_own_server_alone() {
    // K10: to no other host or port, whatever redirects there.
    let other = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let to = other.url("/");
    let server = TestServer::start(move |asked, _| match asked.target.starts_with("/orders") {
        true => redirect(&to),
        false => json_answer(&json!([1])),
    })
    .await;
    for auth in kinds() {
        let mut definition = with(&server, auth);
        definition.allow = Some(vec!["127.0.0.1".to_owned(), other.place()]);
        definition.private.push(other.place());
        definition.redirects = Some(1);
        definition.headers = vec![("x-customer".to_owned(), "{scope.account}".to_owned())];
        assert!(call(&reader(&definition, &[])).await.success);
    }
    for asked in other.asked() {
        let names: Vec<&str> = asked.headers.keys().map(String::as_str).collect();
        assert_eq!((&*asked.target, names), ("/", vec!["accept", "host", "user-agent"]));
    }
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_masked_wherever_it_does() {
    // K13
    let repeat = |asked: &SeenRequest, status: u16| {
        let all = format!("{} {:?} {}", asked.target, asked.headers, asked.body);
        let link = format!("<http://127.0.0.1/{SECRET}>; rel=\"next\"");
        let body = json!({ "message": all, "echo": [{ &all: SECRET, "n": { "deep": SECRET } }] });
        let content = if status == 299 { "text/plain" } else { "application/json" };
        let body = if status == 299 { all } else { body.to_string() };
        answer(status, &[("content-type", content), ("link", &*link), ("x-echo", SECRET)], &body)
    };
    for status in [200, 299, 302, 400, 401, 403, 404, 409, 418, 422, 429, 500, 503] {
        let server = TestServer::start(move |asked, _| repeat(asked, status)).await;
        for auth in kinds() {
            let basic = STANDARD.encode(format!("ada:{SECRET}"));
            for effect in [Effect::Read, Effect::WriteIrreversible] {
                let tool = HttpTool::new(declaration(effect, &[]), &with(&server, auth.clone())).unwrap();
                let result = call(&tool).await;
                let shown = format!("{result:?} {tool:?} {:?} {:?}", credentials(), context());
                for secret in [SECRET, "canary%2Fs3cret", "s3cret", &basic] {
                    assert!(!shown.contains(secret), "{status} {auth:?}: {shown}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_used_until_its_end() {
    let server = TestServer::start(|asked, _| match &*asked.target {
        "/token" => token("tok-1", 3_600),
        _ => json_answer(&json!([{ "id": 1 }])),
    })
    .await;
    let tool = reader(&with(&server, oauth(&server)), &[]);
    // Side by side, and one after another.
    let (one, two) = tokio::join!(call(&tool), call(&tool));
    assert!(one.success && two.success && call(&tool).await.success);
    let asked = server.asked();
    let tokens: Vec<&SeenRequest> = asked.iter().filter(|asked| asked.target == "/token").collect();
    assert_eq!((tokens.len(), asked.len()), (1, 4));
    assert_eq!(tokens[0].body, "grant_type=client_credentials&scope=orders%3Aread");
    let pair = STANDARD.encode("shop+client:canary%2Fs3cret%2Bv4lue%3DZq8Lr4Xw");
    assert_eq!(tokens[0].header("authorization").unwrap(), format!("Basic {pair}"));
    assert_eq!(tokens[0].header("content-type").unwrap(), "application/x-www-form-urlencoded");
    assert_eq!(asked[3].header("authorization").unwrap(), "Bearer tok-1");
}

#[tokio::test]
async fn a_token_that_is_about_to_end_is_not_kept() {
    let server = TestServer::start(|asked, at| match &*asked.target {
        "/token" => token(&format!("tok-{at}"), 5),
        _ => json_answer(&json!([{ "id": 1 }])),
    })
    .await;
    let tool = reader(&with(&server, oauth(&server)), &[]);
    assert!(call(&tool).await.success && call(&tool).await.success);
    assert_eq!(server.asked().iter().filter(|asked| asked.target == "/token").count(), 2);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_no_more() {
    let server = TestServer::start(|asked, at| match (&*asked.target, asked.header("authorization")) {
        ("/token", _) => token(&format!("token-{at}"), 3_600),
        (_, Some("Bearer token-2")) => json_answer(&json!([{ "id": 1 }])),
        _ => answer(401, &[("content-type", "application/json")], r#"{"message":"token token-0 expired"}"#),
    })
    .await;
    // Also for a write: what was refused was not done.
    let tool =
        HttpTool::new(declaration(Effect::WriteIrreversible, &[]), &with(&server, oauth(&server))).unwrap();
    assert!(call(&tool).await.success);
    let targets: Vec<String> = server.asked().into_iter().map(|asked| asked.target).collect();
    assert_eq!(targets, ["/token", "/orders?a=1", "/token", "/orders?a=1"]);

    let server = TestServer::start(|asked, at| match &*asked.target {
        "/token" => token(&format!("token-{at}"), 3_600),
        _ => answer(401, &[("content-type", "application/json")], r#"{"message":"no"}"#),
    })
    .await;
    let result = call(&reader(&with(&server, oauth(&server)), &[])).await;
    assert_eq!(result.error.as_deref(), Some("access was refused (401 Unauthorized)"));
    assert_eq!(server.asked().len(), 4);
    // A secret that is no token is not sent twice.
    let server = TestServer::always(answer(401, &[], "")).await;
    let bearer = HttpAuth::Bearer { token_env: token_env() };
    let result = call(&reader(&with(&server, bearer), &[])).await;
    assert_eq!((result.kind, server.connections()), (Some(Failure::Permanent), 1));
}

#[tokio::test]
async fn a_token_that_cannot_be_had_says_why_and_sends_nothing() {
    let outcomes = [
        (answer(400, &[], "secret"), Failure::Permanent, "the token's server answered 400 Bad Request"),
        (answer(401, &[], ""), Failure::Permanent, "the token's server answered 401 Unauthorized"),
        (
            answer(302, &[("location", "/orders")], ""),
            Failure::Permanent,
            "the token's server answered 302 Found",
        ),
        (answer(503, &[], ""), Failure::Retryable, "the token's server answered 503 Service Unavailable"),
        (Reply::Close, Failure::Retryable, "the server did not answer: "),
        (json_answer(&json!({})), Failure::Permanent, "the answer of the token's server has none in it"),
        (
            json_answer(&json!({ "access_token": "a\nb" })),
            Failure::Permanent,
            "the answer of the token's server has none in it",
        ),
        (
            json_answer(&json!({ "access_token": 7 })),
            Failure::Permanent,
            "the answer of the token's server has none in it",
        ),
        (
            json_answer(&json!({ "access_token": "a", "token_type": "mac" })),
            Failure::Permanent,
            "the token is not a bearer token",
        ),
    ];
    for (reply, kind, says) in outcomes {
        let server = TestServer::always(reply).await;
        let result = call(&reader(&with(&server, oauth(&server)), &[])).await;
        let error = result.error.unwrap();
        assert!(error.starts_with(&format!("no token for this tool: {says}")), "{error}");
        assert_eq!(result.kind, Some(kind));
        assert!(server.asked().iter().all(|asked| asked.target == "/token"));
    }
}

#[test]
fn a_secret_that_would_be_read_on_its_way_is_refused_when_the_tool_is_made() {
    let definition = |url: &str, auth: HttpAuth| HttpDefinition {
        url: url.to_owned(),
        plain_http: true,
        private: vec!["127.0.0.1:80".to_owned()],
        auth: Some(auth),
        ..HttpDefinition::default()
    };
    let refused = |definition: &HttpDefinition| {
        HttpTool::new(declaration(Effect::Read, &[]), definition).unwrap_err().to_string()
    };
    for auth in kinds() {
        let error = refused(&definition("http://api.example.com/", auth));
        assert!(
            error.contains("`http.url`: the secret in `auth` would go over the network unencrypted"),
            "{error}"
        );
    }
    let oauth = |token_url: &str| HttpAuth::ClientCredentials {
        token_url: token_url.to_owned(),
        client_id: "a".to_owned(),
        client_secret_env: token_env(),
        scope: String::new(),
    };
    let url = "https://api.example.com/";
    for (auth, says) in [
        (
            oauth("http://id.example.com/t"),
            "`http.auth.token_url`: the secret would go over the network unencrypted",
        ),
        (
            oauth("https://u:p@id.example.com/t"),
            "`http.auth.token_url`: the URL of `id.example.com` holds a user",
        ),
        (oauth("https://10.0.0.1/t"), "`http.auth.token_url`: `10.0.0.1` leads to a private network"),
        (oauth("id"), "`http.auth.token_url`: it is not a URL"),
        (
            HttpAuth::Header { key_env: token_env(), header: "a b".to_owned() },
            "`http.auth.header`: it is not the name of a header",
        ),
        (
            HttpAuth::Query { key_env: token_env(), parameter: " ".to_owned() },
            "`http.auth.parameter`: the name of the parameter is empty",
        ),
        (
            HttpAuth::Cookie { value_env: token_env(), cookie: "a=b".to_owned() },
            "`http.auth.cookie`: it is not the name of a cookie",
        ),
        (
            HttpAuth::Basic { user: "a:b".to_owned(), password_env: token_env() },
            "`http.auth.user`: a user's name holds no colon",
        ),
    ] {
        let error = refused(&definition(url, auth));
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_secret_that_no_header_may_hold_is_not_sent() {
    let server = TestServer::always(json_answer(&json!([{ "id": 1 }]))).await;
    let bad: Credentials = [("SHOP_TOKEN", "a\r\nx-admin: 1")].into_iter().collect();
    for auth in
        kinds().into_iter().filter(|auth| !matches!(auth, HttpAuth::Query { .. } | HttpAuth::Basic { .. }))
    {
        let result = reader(&with(&server, auth), &[]).call(json!({}), &context(), &bad).await;
        let error = result.error.unwrap();
        assert_eq!(error, "the secret in `SHOP_TOKEN` holds a character that no header may hold");
    }
    assert_eq!(server.connections(), 0);
}
