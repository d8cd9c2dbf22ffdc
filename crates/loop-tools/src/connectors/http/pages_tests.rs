//! Tests of pages: each way to name the next one, and that every way ends.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::ToolResult;
use serde_json::json;

use crate::connectors::http::test_server::{
    Reply, SeenRequest, TestServer, answer, call, json_answer, reader,
};
use crate::connectors::http::{HttpDefinition, HttpPages, HttpPaging};

fn with(server: &TestServer, by: HttpPaging, max: u32) -> HttpDefinition {
    HttpDefinition {
        pages: Some(HttpPages { by, max }),
        select: Some("/items".to_owned()),
        ..server.definition("/orders?state=open")
    }
}

fn cursor(more: Option<&str>) -> HttpPaging {
    HttpPaging::Cursor {
        pointer: "/next".to_owned(),
        parameter: "after".to_owned(),
        more: more.map(str::to_owned),
    }
}

fn number() -> HttpPaging {
    HttpPaging::Number { parameter: "page".to_owned(), first: 1 }
}

fn page(number: usize, link: &str) -> Reply {
    let body = json!({ "items": [{ "id": number * 2 }, { "id": number * 2 + 1 }] }).to_string();
    answer(200, &[("content-type", "application/json"), ("link", link)], &body)
}

fn ids(result: &ToolResult) -> Vec<u64> {
    assert!(result.success, "{result:?}");
    result.data.as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect()
}

fn targets(server: &TestServer) -> Vec<String> {
    server.asked().into_iter().map(|asked| asked.target).collect()
}

#[tokio::test]
async fn links_are_followed_to_the_last_page() {
    let server = TestServer::start(|_, at| match at {
        0 => page(0, r#"</a>; rel="prev", </orders?p=1, 2>; title="a, b"; rel="last next""#),
        1 => page(1, r#"<?p=2#part>; rel=next"#),
        _ => page(2, r#"</x>; rel="first""#),
    })
    .await;
    let result = call(&reader(&with(&server, HttpPaging::Link, 5), &[]), json!({})).await;
    assert_eq!(ids(&result), [0, 1, 2, 3, 4, 5]);
    assert_eq!(targets(&server), ["/orders?state=open", "/orders?p=1,%202", "/orders?p=2"]);
    assert!(result.markdown.starts_with("## Find order — Contoso\n\n| id |"));
}

#[tokio::test]
async fn a_cap_ends_the_pages_and_says_so() {
    let server = TestServer::start(|_, at| page(at, &format!("</orders?p={at}>; rel=next"))).await;
    let result = call(&reader(&with(&server, HttpPaging::Link, 3), &[]), json!({})).await;
    assert_eq!((ids(&result).len(), server.connections()), (6, 3));
    assert!(
        result
            .markdown
            .starts_with("## Find order — Contoso\n\n_Only 3 pages were read: there are more_\n\n|"),
        "{}",
        result.markdown
    );
}

#[tokio::test]
async fn a_next_link_that_points_to_itself_ends() {
    for link in ["</orders?state=open>; rel=next", "<>; rel=next", "<#x>; rel=next"] {
        let server = TestServer::start(move |_, _| page(0, link)).await;
        let result = call(&reader(&with(&server, HttpPaging::Link, 50), &[]), json!({})).await;
        assert_eq!((ids(&result), server.connections()), (vec![0, 1], 1), "{link}");
        assert!(result.summary.contains("a page that was read already"), "{}", result.summary);
    }
}

#[tokio::test]
async fn a_next_link_to_another_host_is_not_followed() {
    // K10
    let canary = TestServer::always(json_answer(&json!({ "items": [] }))).await;
    for to in
        [canary.url("/"), format!("http://user@127.0.0.1:{}/", canary.port), "file:///etc/passwd".to_owned()]
    {
        let server = TestServer::start(move |_, _| page(0, &format!("<{to}>; rel=next"))).await;
        let result = call(&reader(&with(&server, HttpPaging::Link, 50), &[]), json!({})).await;
        assert_eq!((ids(&result), server.connections(), canary.connections()), (vec![0, 1], 1, 0));
        assert!(result.summary.contains("Only 1 page was read: "), "{}", result.summary);
    }
}

#[tokio::test]
async fn a_cursor_is_sent_back_until_there_is_none() {
    for end in [json!(null), json!(""), json!(false)] {
        let server = TestServer::start(move |_, at| {
            let next = if at < 2 { json!(format!("c&{at}")) } else { end.clone() };
            json_answer(&json!({ "items": [{ "id": at }], "next": next }))
        })
        .await;
        let result = call(&reader(&with(&server, cursor(None), 10), &[]), json!({})).await;
        assert_eq!(ids(&result), [0, 1, 2]);
        let after =
            ["/orders?state=open", "/orders?state=open&after=c%260", "/orders?state=open&after=c%261"];
        assert_eq!(targets(&server), after);
    }
}

#[tokio::test]
async fn a_cursor_that_comes_back_ends_the_pages() {
    let server =
        TestServer::start(|_, at| json_answer(&json!({ "items": [{ "id": at }], "next": at % 2 }))).await;
    let result = call(&reader(&with(&server, cursor(None), 50), &[]), json!({})).await;
    assert_eq!(server.connections(), 3);
    assert!(result.summary.contains("a page that was read already"), "{}", result.summary);
    let server = TestServer::start(|_, at| {
        json_answer(&json!({ "items": [{ "id": at }], "next": "c", "more": false }))
    })
    .await;
    let result = call(&reader(&with(&server, cursor(Some("/more")), 50), &[]), json!({})).await;
    assert_eq!((ids(&result), server.connections()), (vec![0], 1));
}

#[tokio::test]
async fn numbers_count_until_a_page_is_empty_or_the_same_again() {
    let items = |asked: &SeenRequest| {
        let is_last = asked.target.ends_with("page=3");
        let items =
            if is_last { json!([]) } else { json!([{ "id": asked.target.len(), "at": asked.target }]) };
        json_answer(&json!({ "items": items }))
    };
    let server = TestServer::start(move |asked, _| items(asked)).await;
    let result = call(&reader(&with(&server, number(), 10), &[]), json!({})).await;
    assert_eq!(ids(&result).len(), 2);
    assert_eq!(targets(&server)[1..], ["/orders?state=open&page=2", "/orders?state=open&page=3"]);
    assert_eq!(result.summary, "Found 2 items");
    // A server that does not know the parameter.
    let server = TestServer::always(json_answer(&json!({ "items": [{ "id": 1 }] }))).await;
    let result = call(&reader(&with(&server, number(), 10), &[]), json!({})).await;
    assert_eq!((ids(&result), server.connections()), (vec![1], 2));
    // One that has no page beyond the last.
    let server = TestServer::start(|_, at| match at {
        0 => json_answer(&json!({ "items": [{ "id": 1 }] })),
        _ => answer(404, &[], ""),
    })
    .await;
    assert_eq!(ids(&call(&reader(&with(&server, number(), 10), &[]), json!({})).await), [1]);
}

#[tokio::test]
async fn the_limit_of_bytes_is_of_all_pages() {
    let server = TestServer::start(|_, at| page(at, &format!("</orders?p={at}>; rel=next"))).await;
    let mut definition = with(&server, HttpPaging::Link, 50);
    definition.max_bytes = Some(100);
    let result = call(&reader(&definition, &[]), json!({})).await;
    assert!(result.error.is_some_and(|error| error.starts_with("the answer has more than ")));
    assert!(server.connections() < 6);
}

#[tokio::test]
async fn a_page_that_fails_fails_the_call() {
    let server = TestServer::start(|_, at| match at {
        0 => page(0, "</orders?p=1>; rel=next"),
        _ => answer(400, &[("content-type", "text/plain")], "bad page"),
    })
    .await;
    let result = call(&reader(&with(&server, HttpPaging::Link, 5), &[]), json!({})).await;
    assert_eq!(result.error.as_deref(), Some("the server answered 400 Bad Request: bad page"));
    let server = TestServer::always(json_answer(&json!({ "items": { "id": 1 } }))).await;
    let result = call(&reader(&with(&server, HttpPaging::Link, 5), &[]), json!({})).await;
    assert_eq!(result.error.as_deref(), Some("`select` does not select a list in the page; correct it"));
}

#[tokio::test]
async fn no_page_at_all_is_nothing_found() {
    for reply in [
        json_answer(&json!({ "items": [] })),
        json_answer(&json!({})),
        answer(204, &[], ""),
        answer(404, &[], ""),
    ] {
        let server = TestServer::always(reply).await;
        let result = call(&reader(&with(&server, HttpPaging::Link, 5), &[]), json!({})).await;
        assert_eq!(result.summary, "No data found");
    }
}

// Issue 43, K2
#[tokio::test]
async fn pages_of_graphql_by_number_are_variables_and_a_cursor_keeps_its_type() {
    let cursor =
        HttpPaging::Cursor { pointer: "/data/next".to_owned(), parameter: "page".to_owned(), more: None };
    for by in [HttpPaging::Number { parameter: "page".to_owned(), first: 1 }, cursor] {
        let server = TestServer::start(|_, at| {
            let next = if at < 1 { json!(at + 2) } else { json!(null) };
            let items = if at < 2 { json!([{ "id": at }]) } else { json!([]) };
            json_answer(&json!({ "data": { "orders": items, "next": next } }))
        })
        .await;
        let definition = HttpDefinition {
            graphql: Some("query ($page: Int) { orders(page: $page) { id } next }".to_owned()),
            select: Some("/data/orders".to_owned()),
            ..with(&server, by, 5)
        };
        let result = call(&reader(&definition, &[]), json!({})).await;
        assert_eq!(ids(&result), [0, 1]);
        let asked = server.asked();
        assert_eq!(asked[1].json()["variables"], json!({ "page": 2 }));
        assert!(asked.iter().all(|asked| !asked.target.contains("page")), "{:?}", asked[0].target);
    }
}

#[tokio::test]
async fn a_cursor_of_graphql_goes_into_a_variable() {
    let server = TestServer::start(|_, at| {
        let info = json!({ "endCursor": format!("c{at}"), "hasNextPage": at < 1 });
        json_answer(&json!({ "data": { "orders": { "nodes": [{ "id": at }], "pageInfo": info } } }))
    })
    .await;
    let by = HttpPaging::Cursor {
        pointer: "/data/orders/pageInfo/endCursor".to_owned(),
        parameter: "after".to_owned(),
        more: Some("/data/orders/pageInfo/hasNextPage".to_owned()),
    };
    let definition = HttpDefinition {
        graphql: Some("query ($after: String) { orders(after: $after) { nodes { id } } }".to_owned()),
        select: Some("/data/orders/nodes".to_owned()),
        ..with(&server, by, 5)
    };
    let result = call(&reader(&definition, &[]), json!({})).await;
    assert_eq!(ids(&result), [0, 1]);
    let variables: Vec<serde_json::Value> =
        server.asked().iter().map(|asked| asked.json()["variables"].clone()).collect();
    assert_eq!(variables, [json!({}), json!({ "after": "c0" })]);
}
