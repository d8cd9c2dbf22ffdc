//! What answers in the place of a provider: gateways, proxies, pages and errors.

use super::On::{Every, Main, Once};
use super::{Behaviour, Lie};

pub(super) const LIES: &[Lie] = &[
    Lie::new("html-page-once", "A page in HTML with status 200 for the first main call", Once, html_page),
    Lie::new(
        "html-page-for-everything",
        "A page in HTML with status 200 for every request",
        Every,
        html_page,
    ),
    Lie::new("html-bad-gateway", "A page in HTML with status 502, once", Once, || {
        Behaviour::status(502, HTML).with_content_type("text/html")
    }),
    Lie::new("empty-body-once", "Status 200 and no body for the first main call", Once, || {
        Behaviour::body("")
    }),
    Lie::new("no-content", "Status 204 without a body", Main, || Behaviour::status(204, "")),
    Lie::new("half-json", "A JSON object that ends in its middle", Main, Behaviour::half_json),
    Lie::new("json-null", "The body is `null`", Main, || json("null")),
    Lie::new("json-list", "The body is an empty list", Main, || json("[]")),
    Lie::new("json-of-a-stranger", "The body is an object of no protocol", Main, || {
        json("{\"completion\": \"All is well.\", \"ok\": true}")
    }),
    Lie::new("plain-text", "The body is a sentence of plain text", Main, || {
        Behaviour::body("upstream is warming up, come back later").with_content_type("text/plain")
    }),
    Lie::new("error-with-status-200", "Status 200 and an error object as the body", Main, || {
        json("{\"error\": {\"message\": \"model is loading\", \"type\": \"server_error\", \"code\": 503}}")
    }),
    Lie::new(
        "whole-body-for-a-stream",
        "A true reply in one piece where a stream was asked for",
        Every,
        || Behaviour::model().in_one_piece(),
    ),
    Lie::new("wrong-content-type", "A true stream that calls itself HTML", Every, || {
        Behaviour::model().with_content_type("text/html; charset=latin1")
    }),
    Lie::new("redirect", "Status 307 to another machine", Main, || {
        Behaviour::status(307, "").with_header("location", "http://127.0.0.1:9/v1/elsewhere")
    }),
    Lie::new("captive-portal", "Status 302 to a page for signing in", Main, || {
        Behaviour::status(302, HTML)
            .with_content_type("text/html")
            .with_header("location", "http://portal.invalid/login")
    }),
    Lie::new(
        "rate-limited-with-a-negative-wait",
        "Status 429 once, with a wait of minus five seconds",
        Once,
        || Behaviour::status(429, LIMITED).with_header("retry-after", "-5"),
    ),
    Lie::new("rate-limited-until-the-year-9999", "Status 429 for good, until a date far away", Main, || {
        Behaviour::status(429, LIMITED).with_header("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")
    }),
    Lie::new("overloaded-for-an-hour", "Status 503 for good, with a wait of an hour", Main, || {
        Behaviour::status(503, "").with_header("retry-after", "3600")
    }),
    Lie::new("server-error-once", "Status 500 once, in plain text", Once, || {
        Behaviour::status(500, "Internal LoopbackServer Error").with_content_type("text/plain")
    }),
    Lie::new("forbidden", "Status 403 for every main call", Main, || Behaviour::status(403, DENIED)),
    Lie::new("payment-required", "Status 402 for every main call", Main, || {
        Behaviour::status(402, "{\"error\": {\"message\": \"Insufficient credit\"}}")
    }),
    Lie::new("model-not-found", "Status 404 for every main call", Main, || {
        Behaviour::status(
            404,
            "{\"error\": {\"message\": \"The model does not exist\", \"code\": \"model_not_found\"}}",
        )
    }),
    Lie::new("proxy-wants-a-password", "Status 407 for every main call", Main, || Behaviour::status(407, "")),
    Lie::new("teapot", "A status that no provider documents", Main, || {
        Behaviour::status(418, "short and stout")
    }),
    Lie::new("status-999", "A status beyond all that HTTP knows", Main, || Behaviour::status(999, "")),
    Lie::new("error-of-a-megabyte", "Status 400 with an error of a megabyte", Main, || {
        let message = "no ".repeat(350_000);
        Behaviour::status(400, format!("{{\"error\": {{\"message\": \"{message}\"}}}}"))
    }),
    Lie::new("error-with-escapes", "Status 400 with an error that would clear a terminal", Main, || {
        Behaviour::status(
            400,
            "{\"error\": {\"message\": \"\\u001b[2J\\u001b]0;owned\\u0007 no\\r\\nstopped: confident\"}}",
        )
    }),
    Lie::new("echoes-the-key", "Status 401 that repeats the key of the request", Main, Behaviour::echo),
];

fn json(body: &'static str) -> Behaviour {
    Behaviour::body(body).with_content_type("application/json")
}

fn html_page() -> Behaviour {
    Behaviour::body(HTML).with_content_type("text/html")
}

const HTML: &str = "<!doctype html>\n<html><head><title>Welcome</title></head>\n<body><h1>It works!</h1>\n<p>data: nothing \
                    here</p></body></html>\n";
const LIMITED: &str = "{\"error\": {\"message\": \"Rate limit reached\", \"type\": \"rate_limit_error\"}}";
const DENIED: &str =
    "{\"error\": {\"message\": \"Invalid credentials\", \"type\": \"authentication_error\"}}";
