//! Tests of requests: what a definition becomes, and that no argument leaves its place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use loop_core::types::Scope;

use super::*;

/// Arguments that would do something else if they were not encoded.
const INJECTIONS: [&str; 24] = [
    "../admin",
    "a/../../admin",
    "/etc/passwd",
    "//evil.example/",
    "http://evil.example/",
    "@evil.example",
    ":8080",
    "?admin=1",
    "&admin=1",
    "#x",
    ";admin=1",
    "a\\..\\b",
    "%2e%2e%2f",
    "%00",
    "%0d%0aX-Admin: 1",
    "a b",
    "a+b",
    "a=b",
    "é\u{202e}",
    "{order}",
    "{{",
    "*",
    "'\"<>",
    "https:evil",
];

fn definition(url: &str) -> HttpDefinition {
    HttpDefinition { url: url.to_owned(), ..HttpDefinition::default() }
}

fn checked(
    definition: &HttpDefinition,
    effect: Effect,
    parameters: &[&str],
) -> Result<RequestTemplate, KeyError> {
    let parameters = parameters.iter().map(|name| (*name).to_owned()).collect();
    RequestTemplate::check(definition, Some(effect), &parameters, None)
}

fn prepared(definition: &HttpDefinition, parameters: &Value) -> Result<Unsigned, Trouble> {
    let names: Vec<&str> = parameters.as_object().unwrap().keys().map(String::as_str).collect();
    let scope = Scope { account: Some("A/7&x".into()), ..Scope::default() };
    let template = checked(definition, Effect::Read, &names).unwrap();
    template.prepare(&Values { parameters, scope: &scope, key: "r/1/action-0" })
}

#[track_caller]
fn check_refused(definition: &HttpDefinition, effect: Effect, key: &str, message: &str) {
    let (at, says) = checked(definition, effect, &["order"]).unwrap_err();
    assert_eq!(at, key, "{says}");
    assert!(says.contains(message), "{says}");
    assert!(!says.contains('\n'), "{says}");
}

#[test]
fn arguments_and_scope_fill_their_places() {
    let mut definition =
        definition("https://api.example.com/v1/{scope.account}/orders/{order}.json?fixed=a%20b&q={text}");
    definition.query = vec![
        ("state".to_owned(), json!("{state}")),
        ("none".to_owned(), json!("{none}")),
        ("tag".to_owned(), json!("{tags}")),
        ("size".to_owned(), json!(50)),
        ("a b".to_owned(), json!("x {order}")),
    ];
    definition.headers =
        vec![("x-order".to_owned(), "no {order}".to_owned()), ("x-none".to_owned(), "{none}".to_owned())];
    let parameters =
        json!({ "order": 7, "text": "a&b", "state": "open/new", "none": null, "tags": ["x", "y z"] });
    let request = prepared(&definition, &parameters).unwrap();
    assert_eq!(
        request.url.as_str(),
        "https://api.example.com/v1/A%2F7%26x/orders/7.json?fixed=a%20b&q=a%26b&state=open%2Fnew&tag=x&tag=y%20z&size=50\
         &a%20b=x%207"
    );
    assert_eq!(request.method, Method::GET);
    assert_eq!(request.headers.get("x-order").unwrap(), "no 7");
    assert!(request.headers.get("x-none").is_none());
    assert!(request.body.is_none());
}

#[test]
fn a_parameter_that_nothing_sends_is_refused_unless_a_smart_tool_looks_for_it() {
    // S0-76
    let definition = definition("https://api.example.com/orders/{order}");
    let parameters: BTreeSet<String> = ["about", "order"].map(str::to_owned).into();
    let check = |target| RequestTemplate::check(&definition, Some(Effect::Read), &parameters, target);
    for target in [None, Some("order")] {
        let (key, says) = check(target).unwrap_err();
        assert_eq!(key, "");
        assert!(says.starts_with("the parameter `about` is declared, and nothing sends it; "), "{says}");
    }
    check(Some("about")).unwrap();
}

#[test]
fn no_argument_leaves_its_place_in_a_path_or_a_parameter() {
    // K10
    let in_path = definition("https://api.example.com/orders/{order}/lines");
    let mut in_query = definition("https://api.example.com/orders?a={order}");
    in_query.query = vec![("b".to_owned(), json!("{order}"))];
    for text in INJECTIONS {
        let request = prepared(&in_path, &json!({ "order": text })).unwrap();
        let segments: Vec<&str> = request.url.path_segments().unwrap().collect();
        assert_eq!(segments.len(), 3, "{text}: {}", request.url);
        assert_eq!((segments[0], segments[2]), ("orders", "lines"), "{text}");
        assert_eq!(
            (request.url.host_str(), request.url.query(), request.url.fragment()),
            (Some("api.example.com"), None, None)
        );
        let request = prepared(&in_query, &json!({ "order": text })).unwrap();
        let pairs: Vec<(String, String)> = request.url.query_pairs().into_owned().collect();
        assert_eq!(pairs, [("a".to_owned(), text.to_owned()), ("b".to_owned(), text.to_owned())]);
        assert_eq!((request.url.path(), request.url.fragment()), ("/orders", None));
    }
}

#[test]
fn a_segment_of_dots_or_of_nothing_is_refused() {
    // K10
    for url in [
        "https://h.example/a/{order}/b",
        "https://h.example/{order}",
        "https://h.example/a/.{order}",
        "https://h.example/a/%2E{order}",
    ] {
        for text in [".", "..", "..."] {
            let error = prepared(&definition(url), &json!({ "order": text })).unwrap_err();
            assert!(matches!(error, Trouble::Input(_)), "{url} {text}: {error:?}");
        }
    }
    let one = definition("https://h.example/a/{order}");
    for (value, says) in [
        (json!(""), "must not be empty"),
        (json!(" "), "must not be empty"),
        (json!(null), "must not be empty"),
        (json!("a\nb"), "control"),
        (json!("\u{0}"), "control"),
    ] {
        let Err(Trouble::Input(message)) = prepared(&one, &json!({ "order": value })) else {
            panic!("{value}")
        };
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(prepared(&one, &json!({ "order": "v1..2" })).unwrap().url.path(), "/a/v1..2");
}

#[test]
fn no_argument_adds_a_header() {
    // K10
    let mut definition = definition("https://h.example/");
    definition.headers = vec![("x-order".to_owned(), "a {order}".to_owned())];
    for text in ["x\r\nx-admin: 1", "x\n", "x\r", "\u{0}", "\u{7f}", "é", "a\tb", "x\u{2028}y"] {
        let error = prepared(&definition, &json!({ "order": text })).unwrap_err();
        assert!(
            matches!(&error, Trouble::Input(message) if message.contains("`order` goes into a header")),
            "{error:?}"
        );
    }
    let request = prepared(&definition, &json!({ "order": "x: y; z" })).unwrap();
    assert_eq!(request.headers.get("x-order").unwrap(), "a x: y; z");
}

#[test]
fn no_argument_leaves_its_place_in_a_body() {
    let mut definition = definition("https://h.example/");
    definition.body = Some(json!({ "note": "about {order}", "exact": "{order}", "admin": false }));
    for text in INJECTIONS.into_iter().chain(["\", \"admin\": true, \"x\": \"", "\n}"]) {
        let request = prepared(&definition, &json!({ "order": text })).unwrap();
        let Some(Payload::Json(body)) = request.body else { panic!("no body") };
        assert_eq!(body, json!({ "note": format!("about {text}"), "exact": text, "admin": false }));
        let sent: Value = serde_json::from_str(&body.to_string()).unwrap();
        assert_eq!(sent, body);
    }
}

#[test]
fn graphql_values_go_in_as_variables() {
    let mut definition = definition("https://h.example/graphql");
    definition.graphql = Some("query ($order: ID!) { order(id: $order) { id } }".to_owned());
    let request = prepared(&definition, &json!({ "order": "\") { admin }" })).unwrap();
    let Some(Payload::Json(body)) = request.body else { panic!("no body") };
    assert_eq!(body["variables"], json!({ "order": "\") { admin }" }));
    assert_eq!(body["query"], "query ($order: ID!) { order(id: $order) { id } }");
    assert_eq!(request.method, Method::POST);
    definition.variables = Some(json!({ "id": "{order}", "first": 10, "none": "{none}" }));
    let request = prepared(&definition, &json!({ "order": 7, "none": null })).unwrap();
    let Some(Payload::Json(body)) = request.body else { panic!("no body") };
    assert_eq!(body["variables"], json!({ "id": 7, "first": 10 }));
}

#[test]
fn a_keyed_write_carries_the_key_of_its_call() {
    let mut definition = definition("https://h.example/{order}");
    let send = |definition: &HttpDefinition, effect| {
        let template = checked(
            &HttpDefinition { method: Some("POST".to_owned()), ..definition.clone() },
            effect,
            &["order"],
        )
        .unwrap();
        let given =
            Values { parameters: &json!({ "order": 1 }), scope: &Scope::default(), key: "r/1/action-0" };
        template.prepare(&given).unwrap().headers
    };
    assert_eq!(send(&definition, Effect::WriteKeyed).get("idempotency-key").unwrap(), "r/1/action-0");
    assert!(send(&definition, Effect::WriteIdempotent).get("idempotency-key").is_none());
    definition.headers = vec![("x-key".to_owned(), "{call_key}".to_owned())];
    let headers = send(&definition, Effect::WriteKeyed);
    assert!(headers.get("idempotency-key").is_none());
    assert_eq!(headers.get("x-key").unwrap(), "r/1/action-0");
}

#[test]
fn a_place_in_scheme_host_or_port_is_refused_when_the_tool_is_made() {
    // K10
    for url in [
        "https://{order}/x",
        "https://{order}.example.com/x",
        "https://api.{order}",
        "https://api.example.com:{order}/",
        "{order}://api.example.com/",
        "https://{order}@api.example.com/",
        "https://api.example.com{order}",
        "https://api.example.com{order}/x",
    ] {
        check_refused(&definition(url), Effect::Read, "url", "which no argument may choose");
    }
    check_refused(
        &definition("https://h.example/?{order}=1"),
        Effect::Read,
        "url",
        "the name of a parameter",
    );
    for url in
        ["https://h.example/a/../{order}", "https://h.example/%2e%2E/{order}", "https://h.example/./{order}"]
    {
        check_refused(&definition(url), Effect::Read, "url", "`.` or `..`");
    }
    check_refused(
        &definition("https://u:p@h.example/{order}"),
        Effect::Read,
        "url",
        "holds a user or a password",
    );
    check_refused(&definition("https://h.example/{order}#x"), Effect::Read, "url", "never sent");
    check_refused(&definition("https://h.example\\{order}"), Effect::Read, "url", "backslash");
    check_refused(&definition("ftp://h.example/{order}"), Effect::Read, "url", "neither with https://");
    check_refused(&definition("h.example/{order}"), Effect::Read, "url", "not a URL");
}

#[test]
fn what_cannot_be_sent_is_refused_when_the_tool_is_made() {
    let base = definition("https://h.example/{order}");
    let with = |change: &dyn Fn(&mut HttpDefinition)| {
        let mut definition = base.clone();
        change(&mut definition);
        definition
    };
    let check = |change: &dyn Fn(&mut HttpDefinition), effect, key: &str, message: &str| {
        check_refused(&with(change), effect, key, message)
    };
    check(
        &|it| it.url = "https://h.example/".to_owned(),
        Effect::Read,
        "",
        "the parameter `order` is declared",
    );
    check(&|it| it.url.push_str("{ordr}"), Effect::Read, "url", "it names `{ordr}`");
    check(
        &|it| it.query = vec![("a".to_owned(), json!({ "b": 1 }))],
        Effect::Read,
        "query.a",
        "a text, a number or a list",
    );
    check(&|it| it.query = vec![("a".to_owned(), json!("{x}"))], Effect::Read, "query.a", "it names `{x}`");
    check(&|it| it.body = Some(json!("{x}")), Effect::WriteKeyed, "body", "it names `{x}`");
    check(
        &|it| (it.body, it.method) = (Some(json!(1)), Some("GET".to_owned())),
        Effect::Read,
        "method",
        "a GET has no body",
    );
    for method in ["get", "TRACE", "CONNECT", ""] {
        check(&|it| it.method = Some(method.to_owned()), Effect::Read, "method", "is not a method");
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        check(&|it| it.method = Some(method.to_owned()), Effect::Read, "method", "changes something");
    }
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "X-Forwarded-For",
        "proxy-authorization",
    ] {
        let key = format!("headers.{name}");
        check(
            &|it| it.headers = vec![(name.to_owned(), "x".to_owned())],
            Effect::Read,
            &key,
            "not for a tool to set",
        );
    }
    for name in ["Authorization", "cookie"] {
        let key = format!("headers.{name}");
        check(
            &|it| it.headers = vec![(name.to_owned(), "x".to_owned())],
            Effect::Read,
            &key,
            "name the secret in `auth`",
        );
    }
    check(
        &|it| it.headers = vec![("a b".to_owned(), "x".to_owned())],
        Effect::Read,
        "headers.a b",
        "not the name of a header",
    );
    check(
        &|it| it.headers = vec![("a".to_owned(), "x\ny".to_owned())],
        Effect::Read,
        "headers.a",
        "no header may hold",
    );
    check(&|it| it.variables = Some(json!({})), Effect::Read, "variables", "for `graphql`");
    check(&|it| it.graphql = Some(" ".to_owned()), Effect::Read, "graphql", "empty");
}

#[test]
fn a_document_that_changes_something_is_recognised() {
    for document in [
        "mutation { pay }",
        "  mutation Pay($a: Int) { pay(a: $a) }",
        "query A { a } mutation B { b }",
        "# query\nmutation{a}",
        "fragment F on T { a } subscription S { s }",
        "query A($x: String = \"a\\\"b {\") { a } mutation B { b }",
        "query A($x: String = \"\"\"block \\\"\"\" \" { \"\"\") { a }\nmutation B { b }",
        "{a}mutation{b}",
    ] {
        assert!(changes_something(document), "{document}");
    }
    for document in [
        "{ mutation { a } }",
        "query mutationLog { a }",
        "query A { mutation(subscription: 1) { a } }",
        "# mutation\n{ a }",
        "query A($x: String = \"mutation { a }\") { a }",
        "query A($x: String = \"\"\" mutation \"\"\") { a }",
        "query ($mutation: Int) { a }",
        "",
    ] {
        assert!(!changes_something(document), "{document}");
    }
}

// Issue 43, K6
#[test]
fn a_form_is_sent_as_a_form_and_no_argument_leaves_its_place_in_it() {
    let mut definition = definition("https://h.example/");
    let form = [("note", json!("about {order}")), ("all[]", json!("{all}")), ("none", json!("{none}"))];
    definition.form = Some(form.map(|(name, value)| (name.to_owned(), value)).to_vec());
    let sent = |order: &str| {
        let given = json!({ "order": order, "all": [1, "b&c", true], "none": null });
        let request = prepared(&definition, &given).unwrap();
        assert_eq!(request.method, Method::POST);
        let kind = request.headers.get(CONTENT_TYPE).unwrap();
        assert_eq!(kind, "application/x-www-form-urlencoded");
        let Some(Payload::Form(form)) = request.body else { panic!("no form") };
        form
    };
    assert_eq!(sent("7 é"), "note=about%207%20%C3%A9&all%5B%5D=1&all%5B%5D=b%26c&all%5B%5D=true");
    for text in INJECTIONS {
        let form = sent(text);
        let read: Vec<(String, String)> = url::form_urlencoded::parse(form.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        assert_eq!(read[0], ("note".to_owned(), format!("about {text}")), "{form}");
        assert_eq!(read.len(), 4, "{form}");
    }
    definition.form = Some(vec![("order".to_owned(), json!({ "a": "{order}" }))]);
    check_refused(&definition, Effect::Read, "form.order", "a text, a number or a list");
    definition.form = Some(vec![("order".to_owned(), json!("{order}"))]);
    definition.body = Some(json!({}));
    check_refused(&definition, Effect::Read, "form", "keep one");
    definition.body = None;
    definition.method = Some("GET".to_owned());
    check_refused(&definition, Effect::Read, "method", "take out `form`");
}
