//! Lies of gateways and proxies that respond in place of a provider: pages and errors.

use super::LieOn::{Every, Main, Once};
use super::{Behaviour, Lie};

lies! {
    "html-page-once", Once, "A page in HTML with status 200 for the first main call" => html_page();
    "html-page-for-everything", Every, "A page in HTML with status 200 for every request" => html_page();
    "html-bad-gateway", Once, "A page in HTML with status 502, once" =>
        Behaviour::status(502, HTML).with_content_type("text/html");
    "empty-body-once", Once, "Status 200 and no body for the first main call" => Behaviour::body("");
    "no-content", Main, "Status 204 without a body" => Behaviour::status(204, "");
    "half-json", Main, "A JSON object that ends in its middle" => Behaviour::half_json();
    "json-null", Main, "The body is `null`" => json("null");
    "json-list", Main, "The body is an empty list" => json("[]");
    "json-of-a-stranger", Main, "The body is an object of no protocol" =>
        json("{\"completion\": \"All is well.\", \"ok\": true}");
    "plain-text", Main, "The body is a sentence of plain text" =>
        Behaviour::body("upstream is warming up, come back later").with_content_type("text/plain");
    "error-with-status-200", Main, "Status 200 and an error object as the body" =>
        json("{\"error\": {\"message\": \"model is loading\", \"type\": \"server_error\", \"code\": 503}}");
    "whole-body-for-a-stream", Every, "A true reply in one piece where a stream was asked for" =>
        Behaviour::model().in_one_piece();
    "wrong-content-type", Every, "A true stream that calls itself HTML" =>
        Behaviour::model().with_content_type("text/html; charset=latin1");
    "redirect", Main, "Status 307 to another machine" =>
        Behaviour::status(307, "").with_header("location", "http://127.0.0.1:9/v1/elsewhere");
    "captive-portal", Main, "Status 302 to a page for signing in" =>
        Behaviour::status(302, HTML)
            .with_content_type("text/html")
            .with_header("location", "http://portal.invalid/login");
    "rate-limited-with-a-negative-wait", Once, "Status 429 once, with a wait of minus five seconds" =>
        Behaviour::status(429, LIMITED).with_header("retry-after", "-5");
    "rate-limited-until-the-year-9999", Main, "Status 429 for good, until a date far away" =>
        Behaviour::status(429, LIMITED).with_header("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT");
    "overloaded-for-an-hour", Main, "Status 503 for good, with a wait of an hour" =>
        Behaviour::status(503, "").with_header("retry-after", "3600");
    "server-error-once", Once, "Status 500 once, in plain text" =>
        Behaviour::status(500, "Internal LoopbackServer Error").with_content_type("text/plain");
    "forbidden", Main, "Status 403 for every main call" => Behaviour::status(403, DENIED);
    "payment-required", Main, "Status 402 for every main call" =>
        Behaviour::status(402, "{\"error\": {\"message\": \"Insufficient credit\"}}");
    "model-not-found", Main, "Status 404 for every main call" =>
        Behaviour::status(
            404,
            "{\"error\": {\"message\": \"The model does not exist\", \"code\": \"model_not_found\"}}",
        );
    "proxy-wants-a-password", Main, "Status 407 for every main call" => Behaviour::status(407, "");
    "teapot", Main, "A status that no provider documents" => Behaviour::status(418, "short and stout");
    "status-999", Main, "A status beyond all that HTTP knows" => Behaviour::status(999, "");
    "error-of-a-megabyte", Main, "Status 400 with an error of a megabyte" => {
        let message = "no ".repeat(350_000);
        Behaviour::status(400, format!("{{\"error\": {{\"message\": \"{message}\"}}}}"))
    };
    "error-with-escapes", Main, "Status 400 with an error that would clear a terminal" =>
        Behaviour::status(
            400,
            "{\"error\": {\"message\": \"\\u001b[2J\\u001b]0;owned\\u0007 no\\r\\nstopped: confident\"}}",
        );
    "echoes-the-key", Main, "Status 401 that repeats the key of the request" => Behaviour::echo();
}

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
