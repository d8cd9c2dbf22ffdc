//! A domain with a tool of kind `http`: what it asks a server, what its file may say, and that its page is true.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use loop_core::types::{Observation, Status};
use loop_domain::{Domain, DomainError, LoadOptions};
use loop_tools::ToolContext;
use serde_json::{Value, json};

/// A variable that cargo sets for every test, in place of one with a secret.
const SET: &str = "CARGO_MANIFEST_DIR";

/// A server that answers `answers` in turn, with the texts of the requests that it got.
fn server(answers: Vec<String>) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for body in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                let length = |head: &str| {
                    let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    line.map_or(0, |length| length.parse::<usize>().unwrap())
                };
                if text.split_once("\r\n\r\n").is_some_and(|(head, body)| body.len() >= length(head)) {
                    sender.send(text).unwrap();
                    break;
                }
                match stream.read(&mut chunk) {
                    Ok(read) if read > 0 => request.extend_from_slice(&chunk[..read]),
                    _ => break,
                }
            }
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
            _ = write!(stream, "{head} {}\r\n\r\n{body}", body.len());
        }
    });
    (port, requests)
}

fn load(tools: &str) -> Result<Domain, DomainError> {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "version = 1\nname = \"shop\"\n[[section]]\nid = \"answer\"\nheading = \"Answer\"\nrequired = true\n{tools}"
    );
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    Domain::load(folder.path(), &LoadOptions::default())
}

async fn call(domain: &Domain, tool: &str, parameters: Value) -> Observation {
    let (account, item) = (Some("A/7".into()), Some("T-9".into()));
    let scope = loop_core::types::Scope { account, item, ..loop_core::types::Scope::default() };
    let context = ToolContext::new(scope, "Late order", "r/1/action-0");
    domain.registry.dispatch(tool, &parameters, context, &domain.credentials, 12_000, 4_000).await
}

/// A tool that asks the server at `port`, with more lines in its table `http`.
fn find_order(port: u16, more: &str) -> String {
    format!(
        r#"
[tools.find_order]
kind = "http"
effect = "read"
description = "Find orders"
when = "always"

[tools.find_order.parameters.order]
required = true

[tools.find_order.parameters.tags]
type = "array"
items = {{ type = "string" }}

[tools.find_order.http]
url = "http://127.0.0.1:{port}/accounts/{{scope.account}}/orders/{{order}}"
query = {{ tag = "{{tags}}", size = 2 }}
headers = {{ accept-language = "en" }}
plain_http = true
private = ["127.0.0.1:{port}"]
{more}
"#
    )
}

#[tokio::test]
async fn a_tool_of_a_file_asks_a_server_and_returns_a_table() {
    // S0-33, S0-69, S0-70, S0-80
    let answer = json!({ "items": [{ "id": 7, "state": "late" }], "next": null }).to_string();
    let (port, requests) = server(vec![answer]);
    let more = format!(
        "select = \"/items\"\nauth = {{ bearer_env = \"{SET}\" }}\npages = {{ by = \"cursor\", cursor = \"/next\", parameter = \"after\" }}\n"
    );
    let domain = load(&find_order(port, &more)).unwrap();
    let seen = call(&domain, "find_order", json!({ "order": "1/2", "tags": ["a&b", "c"] })).await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Found 1 items"));
    assert_eq!(&*seen.markdown, "## Find order — A/7\n\n| id | state |\n| --- | --- |\n| 7 | late |");
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("GET /accounts/A%2F7/orders/1%2F2?tag=a%26b&tag=c&size=2 HTTP/1.1\r\n"),
        "{request}"
    );
    let secret = std::env::var(SET).unwrap();
    assert!(request.contains(&format!("authorization: Bearer {secret}\r\n")), "{request}");
    assert!(request.contains("accept-language: en\r\n"), "{request}");
}

#[tokio::test]
async fn a_secret_of_a_tool_is_a_secret_of_its_domain() {
    // K13
    let secret = std::env::var(SET).unwrap();
    let (port, _requests) = server(vec![json!({ "echo": secret }).to_string()]);
    let domain =
        load(&find_order(port, &format!("auth = {{ key_env = \"{SET}\", header = \"x-key\" }}"))).unwrap();
    assert_eq!(domain.credentials.names().collect::<Vec<_>>(), [SET]);
    assert_eq!(domain.secrets().mask(&format!("a {secret} b")), "a [masked] b");
    let seen = call(&domain, "find_order", json!({ "order": "1" })).await;
    assert_eq!(&*seen.data, r#"{"echo":"[masked]"}"#);
    let shown = format!("{seen:?} {domain:?} {:?} {:?}", domain.report(), domain.registry.manifest());
    assert!(!shown.contains(&secret), "{shown}");
}

#[tokio::test]
async fn a_graphql_tool_sends_its_parameters_as_variables() {
    // S0-33
    let (port, requests) = server(vec![json!({ "data": { "order": { "id": 7 } } }).to_string()]);
    let tools = format!(
        r#"
[tools.find_order]
kind = "http"
effect = "read"
parameters.order = {{ type = "integer", required = true }}
http.url = "http://127.0.0.1:{port}/graphql"
http.graphql = "query ($order: Int!) {{ order(id: $order) {{ id }} }}"
http.select = "/data/order"
http.markdown = "Order {{/id}}"
http.plain_http = true
http.private = ["127.0.0.1:{port}"]
"#
    );
    let domain = load(&tools).unwrap();
    let seen = call(&domain, "find_order", json!({ "order": 7 })).await;
    assert_eq!(&*seen.markdown, "## Find order — A/7\n\nOrder 7");
    let request = requests.recv().unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        body,
        json!({ "query": "query ($order: Int!) { order(id: $order) { id } }", "variables": { "order": 7 } })
    );
}

#[tokio::test]
async fn a_variable_that_is_not_set_is_a_warning_and_refuses_a_run() {
    let (port, _requests) = server(Vec::new());
    let domain = load(&find_order(port, "auth = { bearer_env = \"LOOPGATE_TEST_UNSET\" }")).unwrap();
    let warnings = domain.report().warnings;
    let says = "the environment variable `LOOPGATE_TEST_UNSET` is not set; set it to the secret";
    assert!(warnings.iter().any(|warning| warning.ends_with(says)), "{warnings:?}");
    assert!(domain.ready(true).unwrap_err().to_string().ends_with(says));
    let seen = call(&domain, "find_order", json!({ "order": "1" })).await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(seen.summary.contains("`LOOPGATE_TEST_UNSET` is not set"), "{}", seen.summary);
}

#[test]
fn what_leads_inside_is_a_warning_of_the_domain() {
    // K10
    let warnings = load(&find_order(8931, "")).unwrap().report().warnings;
    for says in [
        "tool `find_order` may connect to 127.0.0.1:8931 on this machine or in a private network",
        "tool `find_order` may connect without encryption (`plain_http`)",
    ] {
        assert!(warnings.iter().any(|warning| warning == says), "{warnings:?}");
    }
}

#[test]
fn another_definition_is_another_tool_to_an_approval() {
    let digest = |more: &str| load(&find_order(8931, more)).unwrap().registry.manifest_hash();
    assert_eq!(digest(""), digest(""));
    assert_ne!(digest(""), digest("select = \"/items\""));
    assert_ne!(digest("auth = { bearer_env = \"A\" }"), digest("auth = { bearer_env = \"B\" }"));
}

/// The line of an error, without the folder before it.
#[track_caller]
fn error(http: &str, more: &str) -> String {
    let tool = format!("[tools.t]\nkind = \"http\"\neffect = \"read\"\n{more}[tools.t.http]\n{http}\n");
    let error = load(&tool).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error.rsplit_once("loopgate.toml:").unwrap().1.to_owned()
}

#[test]
fn what_is_wrong_with_a_file_is_one_line_that_names_the_key() {
    // K10
    let url = "url = \"https://api.example.com/\"\n";
    let with = |line: &str| error(&format!("{url}{line}"), "");
    let cases = [
        ("querry = {}", "12:1: unknown key `querry`; did you mean `query`?"),
        (
            "method = \"TRACE\"",
            "12:1: tool `t`: `http.method`: `TRACE` is not a method; use one of GET, POST, PUT, PATCH, DELETE",
        ),
        (
            "query = { a = \"{x}\" }",
            "12:11: tool `t`: `http.query.a`: it names `{x}`, which is unknown here; use one of {scope.account}, {scope.account_name}, {scope.asset}, {scope.item}, {scope.person}, {call_key}",
        ),
        ("headers = { a = 7 }", "12:17: 7 stands where a text in quotes is expected; correct the value"),
        (
            "auth = {}",
            "12:1: it names no secret; add one of `bearer_env`, `key_env`, `cookie_env`, `password_env`, `client_secret_env`",
        ),
        (
            "auth = { bearer_env = \"A\", key_env = \"B\" }",
            "12:28: `bearer_env` is there as well; keep one of them",
        ),
        (
            "auth = { bearer_env = \"A B\" }",
            "12:10: this is not the name of an environment variable; write the name alone, for example MODEL_KEY",
        ),
        ("auth = { password_env = \"A\" }", "12:10: `password_env` needs `user`; add it"),
        ("auth = { cookie_env = \"A\", cookie = \" \" }", "12:28: `cookie_env` needs `cookie`; add it"),
        ("auth = { bearer_env = \"A\", user = \"x\" }", "12:28: `user` is for `password_env`; take it out"),
        (
            "auth = { key_env = \"A\", header = \"x\", parameter = \"y\" }",
            "12:39: `header` is there as well; keep one of them",
        ),
        (
            "auth = { client_secret_env = \"A\", client_id = \"x\", token_url = \"http://x/\" }",
            "12:52: tool `t`: `http.auth.token_url`: the secret would go over the network unencrypted; write https://",
        ),
        (
            "allow = [\"cdn.example.com\"]",
            "12:1: tool `t`: `http.allow`: the URL's own host `api.example.com` is not in it; add it",
        ),
        (
            "allow = [\"*\"]",
            "12:1: tool `t`: `http.allow`: `*` is not a host; write HOST or HOST:PORT, for example `api.example.com`",
        ),
        (
            "private = [\"10.0.0.1\"]",
            "12:1: tool `t`: `http.private`: `10.0.0.1` has no port; write HOST:PORT, for example `10.0.0.1:8080`",
        ),
        ("pages = { by = \"links\" }", "12:16: `links` is unknown here; did you mean `link`?"),
        ("pages = { by = \"page\" }", "12:11: pages by `page` need `parameter`; add it"),
        ("pages = { by = \"link\", first = 1 }", "12:24: `first` is not for pages by `link`; take it out"),
    ];
    for (line, expected) in cases {
        // Some values are pointed at, some keys are.
        assert_eq!(with(line), expected, "{line}");
    }
    assert_eq!(error("method = \"GET\"", ""), "10:10: the key `url` is missing; add it");
    let urls = [(
        "http://api.example.com/",
        "`api.example.com` is asked without encryption: the URL must begin with https://; correct it",
    )];
    for (url, expected) in urls {
        let error = error(&format!("url = \"{url}\""), "");
        assert_eq!(error, format!("11:1: tool `t`: `http.url`: {expected}"));
    }
    let unused = error(url, "[tools.t.parameters.order]\n");
    assert!(unused.ends_with("the parameter `order` is declared, and nothing sends it; write `{order}` where it belongs, or take it out"), "{unused}");
}

#[test]
fn keys_of_other_kinds_are_refused() {
    let check = |tool: &str, expected: &str| {
        let error = load(tool).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    };
    check(
        "[tools.t]\nkind = \"http\"\neffect = \"read\"\n",
        "the tool `t` has no `http`; add `http = { url = \"https://HOST/PATH\" }`",
    );
    let http = "http = { url = \"https://h.example/\" }\n";
    check(
        &format!("[tools.t]\nkind = \"http\"\nquery = \"x\"\neffect = \"read\"\n{http}"),
        "`query` is not for tools of kind `http`; take it out",
    );
    check(
        &format!("[tools.t]\nkind = \"docs\"\nfolder = \".\"\neffect = \"read\"\n{http}"),
        "`http` is not for tools of kind `docs`; take it out",
    );
}

/// A block of the page whose hosts are the server at `port`, and whose secrets are set.
fn on_this_machine(block: &str, port: u16) -> String {
    let here = format!("127.0.0.1:{port}");
    let mut text = block.replace("stock.internal:8931", &here);
    for host in ["https://api.example.com", "https://id.example.com"] {
        text = text.replace(host, &format!("http://{here}"));
    }
    for secret in ["SHOP_TOKEN", "SHOP_KEY", "SHOP_SECRET"] {
        text = text.replace(secret, SET);
    }
    match text.contains("plain_http") {
        true => text,
        false => text.replace(".http]\n", &format!(".http]\nplain_http = true\nprivate = [\"{here}\"]\n")),
    }
}

#[tokio::test]
async fn the_examples_of_the_page_ask_what_it_says() {
    // S0-33, S0-80
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/tools/http.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|block| block.split_once("\n```").unwrap().0).collect();
    let secret = std::env::var(SET).unwrap();
    let order = json!({ "items": [{ "id": 7, "state": "late" }] });
    let invoice = json!({ "data": { "invoice": { "id": 4, "total": "9.90", "dueOn": "2026-03-01" } } });
    let token = json!({ "access_token": "token-of-the-shop", "token_type": "Bearer", "expires_in": 600 });
    // The tool and its arguments, the answers, what each request has in it, and what the model reads.
    let cases = [
        (
            "find_orders",
            json!({ "state": "late" }),
            vec![order],
            vec![vec![
                "GET /v1/customers/A%2F7/orders?state=late&sort=-created HTTP/1.1".to_owned(),
                "accept-language: en".to_owned(),
                format!("authorization: Bearer {secret}"),
            ]],
            "| 7 | late |",
        ),
        (
            "find_invoice",
            json!({ "number": "I-4" }),
            vec![invoice],
            vec![vec![
                "POST /graphql HTTP/1.1".to_owned(),
                format!("x-api-key: {secret}"),
                "\"variables\":{\"number\":\"I-4\"}".to_owned(),
            ]],
            "Invoice **4**: 9.90, due on 2026-03-01",
        ),
        (
            "refund_order",
            json!({ "order": "7", "amount": 2.5 }),
            vec![token, json!({ "refund": "R-1" })],
            vec![
                vec!["POST /token HTTP/1.1".to_owned(), "grant_type=client_credentials".to_owned()],
                vec![
                    "POST /v1/orders/7/refunds HTTP/1.1".to_owned(),
                    "authorization: Bearer token-of-the-shop".to_owned(),
                    "idempotency-key: ".to_owned(),
                    "{\"amount\":2.5,\"note\":\"Requested in T-9\"}".to_owned(),
                ],
            ],
            "| R-1 |",
        ),
        (
            "find_stock",
            json!({}),
            vec![json!([{ "part": "pump", "count": 3 }])],
            vec![vec!["GET /parts HTTP/1.1".to_owned()]],
            "| 3 | pump |",
        ),
    ];
    assert_eq!(blocks.len(), cases.len());
    for (block, (tool, parameters, answers, requests, says)) in blocks.iter().zip(cases) {
        load(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
        let (port, received) = server(answers.iter().map(Value::to_string).collect());
        let domain = load(&on_this_machine(block, port)).unwrap();
        let seen = call(&domain, tool, parameters).await;
        assert_eq!(seen.status, Status::Ok, "{tool}: {}", seen.text());
        assert!(seen.markdown.contains(says), "{tool}: {}", seen.markdown);
        for parts in requests {
            let request = received.recv().unwrap();
            for part in parts {
                assert!(request.contains(&part), "{tool}: `{part}` is missing in {request}");
            }
        }
    }
}
