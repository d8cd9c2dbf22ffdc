//! One conversation over four protocols and real sockets: the same reply comes out, and what goes back is taken by a
//! server that reads as strictly as the provider does.

use crate::sockets;

use std::sync::Arc;

use loop_core::types::{FailureKind, Usage};
use loop_llm::codec::Api;
use loop_llm::model::ReplyEnd;
use loop_llm::options::{Caching, Effort};
use loop_llm::request::{AssistantTurn, Image, Raw};
use loop_llm::wrap::{RetryPolicy, Retrying};
use loop_llm::{
    LlmError, Message, ModelReply, ModelRequest, ToolChoice, ToolDefinition, ToolOutput, complete,
};
use loop_mock::{Behaviour, Chunks, LoopbackServer};
use loop_testkit::{
    call, is_full,
    llm::{full_reply, result, weather},
};
use serde_json::json;
use sockets::{client, replying, soon};

/// The full reply, of which one call has no arguments.
fn full() -> ModelReply {
    ModelReply {
        tool_calls: vec![weather("call_a", "Oslo"), call("call_b", "weather", "{}")],
        stop: Some(ReplyEnd::ToolUse),
        ..full_reply()
    }
}

fn results() -> Message {
    Message::Tool {
        results: vec![result("call_a", false, "3 degrees"), result("call_b", true, "no such city")],
    }
}

/// A question with a tool.
fn question() -> ModelRequest {
    let mut request = ModelRequest::new("m", "Be brief.", "Oslo and Rome?");
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = ToolDefinition {
        name: "weather".into(),
        description: "Looks.".into(),
        parameters,
        strict: Default::default(),
    };
    request.tools = vec![weather].into();
    request
}

// P5
#[tokio::test]
async fn of_a_thousand_calls_the_first_are_read_and_the_rest_is_counted() {
    let requested = 1_000;
    let mut many = full();
    many.tool_calls = (0..requested).map(|nth| weather(&format!("call_{nth}"), "Oslo")).collect();
    for api in Api::ALL {
        for no_stream in [false, true] {
            let server = LoopbackServer::start(replying(many.clone())).unwrap();
            let mut request = question();
            (request.no_stream, request.max_output_tokens) = (no_stream, Some(100_000));
            let reply = send(api, &server, &request).await.unwrap();
            let place = format!("{} {no_stream}", api.name());
            assert_eq!((reply.tool_calls.len(), reply.unread_calls), (128, requested - 128), "{place}");
            assert_eq!((reply.stop, &reply.raw), (Some(ReplyEnd::ToolUse), &None), "{place}");
            // What goes back names no call without a result.
            let results = reply.tool_calls.iter().map(|call| result(&call.id, false, "3 degrees")).collect();
            request.messages.push(reply.turn());
            request.messages.push(Message::Tool { results });
            let reply = send(api, &server, &request).await.unwrap();
            assert_eq!(reply.tool_calls.len(), 128, "{place}");
        }
    }
}

async fn send(api: Api, server: &LoopbackServer, request: &ModelRequest) -> Result<ModelReply, LlmError> {
    soon(complete(&client(api, server), request)).await
}

/// The tokens as far as a protocol has words for them.
fn known(api: Api, mut usage: Usage) -> Usage {
    let written = usage.cache_write_short + usage.cache_write_long;
    match api {
        Api::Anthropic => return usage,
        Api::OpenaiChat | Api::OpenaiResponses => usage.cache_write_short = written,
        Api::Gemini => {
            usage.input += written;
            usage.cache_write_short = 0;
        }
    }
    usage.cache_write_long = 0;
    usage
}

#[tokio::test]
async fn the_same_reply_comes_out_of_every_protocol_streamed_or_not() {
    // wire WC04, WR02, WR03, WA02, WG03; WU01 to WU03 and WU05
    for api in Api::ALL {
        for chunks in [Chunks::Whole, Chunks::Bytes(1), Chunks::Random { seed: 11 }] {
            let service = replying(full()).usually(Behaviour::model().in_chunks(chunks));
            let server = LoopbackServer::start(service).unwrap();
            for no_stream in [false, true] {
                let reply = send(api, &server, &ModelRequest { no_stream, ..question() }).await.unwrap();
                let what = format!("{} {chunks:?} {no_stream}: {reply:?}", api.name());
                assert_eq!((&*reply.text, &*reply.reasoning), ("I will check.", "Two cities."), "{what}");
                assert_eq!(
                    (&reply.tool_calls, reply.stop),
                    (&full().tool_calls, Some(ReplyEnd::ToolUse)),
                    "{what}"
                );
                assert_eq!(reply.usage, Some(known(api, full().usage.unwrap())), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_turn_goes_back_as_it_came_and_the_loop_goes_on() {
    // wire WR04, WA04, WA06, WA07, WG02, WG03 and WX02
    for api in Api::ALL {
        for no_stream in [false, true] {
            let server = LoopbackServer::start(replying(full())).unwrap();
            let mut request = ModelRequest { no_stream, ..question() };
            for _ in 0..3 {
                let reply = send(api, &server, &request).await.unwrap();
                assert_eq!(reply.raw.is_some(), api != Api::OpenaiChat, "{}: {reply:?}", api.name());
                request.messages.extend([reply.turn(), results()]);
            }
            let end = send(api, &server, &request).await;
            assert!(end.is_ok(), "{}: {end:?}", api.name());
            let received = soon(server.ended(4)).await;
            let received = received.last().unwrap().request().unwrap();
            assert_eq!(received.messages.len(), 7, "{}: {received:?}", api.name());
        }
    }
}

#[tokio::test]
async fn reasoning_that_the_server_does_not_know_is_left_out_once() {
    // wire WE12, WE18 and WR18
    for api in [Api::OpenaiResponses, Api::Anthropic, Api::Gemini] {
        let server = LoopbackServer::start(replying(full())).unwrap();
        let mut request = question();
        let mut turn = match send(api, &server, &request).await.unwrap().turn() {
            Message::Assistant(turn) => turn,
            other => panic!("{other:?}"),
        };
        let raw = turn.raw.as_ref().unwrap().text().replace("LoopSeal", "LoopSea1");
        turn.raw = Some(Raw::from_text(raw));
        request.messages.extend([Message::Assistant(turn), results()]);
        let error = send(api, &server, &request).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::StaleReasoning, "{} {error:?}", api.name());
        let model = Retrying::new(Arc::new(client(api, &server)), RetryPolicy::default());
        let reply = soon(complete(&model, &request)).await.unwrap();
        assert!(
            reply.warnings.iter().any(|warning| &**warning == "reasoning_stripped"),
            "{:?}",
            reply.warnings
        );
        assert_eq!(server.requests().len(), 4, "{}", api.name());
    }
}

#[tokio::test]
async fn a_turn_of_one_provider_is_taken_by_every_other() {
    // wire WR16, WA24, WG14 and WX03
    for from in Api::ALL {
        let server = LoopbackServer::start(replying(full())).unwrap();
        let mut request = question();
        let reply = send(from, &server, &request).await.unwrap();
        request.messages.extend([reply.turn(), results()]);
        for to in Api::ALL {
            let end = send(to, &server, &request).await;
            assert!(end.is_ok(), "from {} to {}: {end:?}", from.name(), to.name());
            let received = soon(server.ended(1)).await.last().unwrap().request().unwrap();
            let calls = match received.messages.get(1) {
                Some(Message::Assistant(turn)) => turn.calls.len(),
                other => panic!("from {} to {}: {other:?}", from.name(), to.name()),
            };
            assert_eq!(calls, 2, "from {} to {}", from.name(), to.name());
        }
    }
}

#[tokio::test]
async fn histories_of_any_kind_are_taken_by_every_protocol() {
    // I-16; wire WX01 and WX04
    let server = LoopbackServer::start(replying(ModelReply::text("Fine.", None))).unwrap();
    for seed in 0..if is_full() { 300 } else { 100 } {
        let mut request = history(seed);
        for api in Api::ALL {
            let models = models(api);
            request.model = models.get(seed as usize % models.len()).copied().unwrap().into();
            if let Err(error) = send(api, &server, &request).await {
                panic!(
                    "seed {seed} over {}: {error:?}\n{:#?}\n{:?}",
                    api.name(),
                    request.messages,
                    server.requests().last()
                );
            }
        }
    }
}

/// Models with different abilities, and one that nobody knows.
fn models(api: Api) -> &'static [&'static str] {
    match api {
        Api::OpenaiChat => &["m", "gpt-4.1"],
        Api::OpenaiResponses => &["m", "gpt-4.1", "gpt-5.6-sol", "gpt-6.2-sol"],
        Api::Anthropic => {
            &["m", "claude-opus-5-5", "claude-sonnet-4-5", "claude-haiku-5-5", "claude-fable-5-2"]
        }
        Api::Gemini => &["m", "gemini-2.5-flash", "gemini-3.1-pro", "gemini-4-argon"],
    }
}

/// A history that a loop may have: everything in it is drawn from the seed.
fn history(seed: u64) -> ModelRequest {
    let mut draw = Draw(seed);
    let mut request = question();
    if draw.below(4) == 0 {
        request.system = "".into();
    }
    request.messages = vec![Message::user(draw.text("Begin"))];
    for turn in 0..draw.below(6) {
        match draw.below(5) {
            0 => request.messages.push(Message::user(draw.text("More"))),
            1 => request.messages.push(Message::Operator { text: draw.text("Note").into() }),
            2 => {
                let images = vec![Image { media_type: "image/png".into(), base64: "AAAA".into() }];
                request.messages.push(Message::User {
                    text: draw.text("See").into(),
                    images,
                    author: Default::default(),
                });
            }
            _ => {
                let calls: Vec<_> = (0..draw.below(4))
                    .map(|n| {
                        let arguments = ["", "{}", "{\"city\":\"Oslo\"}", "{\"city\":", "[1]"];
                        let id = ["call.a/", "call_", "c-"].get(draw.below(3)).unwrap();
                        call(&format!("{id}{turn}{n}"), "weather", arguments.get(draw.below(5)).unwrap())
                    })
                    .collect();
                let mut results: Vec<ToolOutput> = calls
                    .iter()
                    .map(|call| {
                        let text = ["", "3 degrees", "  ", "{\"c\":3}"].get(draw.below(4)).unwrap();
                        result(&call.id, draw.below(2) == 0, text)
                    })
                    .collect();
                if draw.below(2) == 0 {
                    results.reverse();
                }
                let text = ["", "I will check.", " \n"].get(draw.below(3)).unwrap();
                let turn = AssistantTurn { text: (*text).into(), calls, ..AssistantTurn::default() };
                request.messages.push(Message::Assistant(turn));
                if !results.is_empty() {
                    request.messages.push(Message::Tool { results });
                }
            }
        }
    }
    if matches!(request.messages.last(), Some(Message::Assistant(_) | Message::Operator { .. })) {
        request.messages.push(Message::user("Go on."));
    }
    request.tool_choice =
        [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required].get(draw.below(3)).unwrap().clone();
    request.one_call_at_a_time = draw.below(2) == 0;
    request.effort =
        [None, Some(Effort::None), Some(Effort::Low), Some(Effort::Max)].get(draw.below(4)).copied().unwrap();
    request.show_reasoning = draw.below(2) == 0;
    request.max_output_tokens = [None, Some(5), Some(30_000)].get(draw.below(3)).copied().unwrap();
    request.temperature = [None, Some(0.2), Some(1.7)].get(draw.below(3)).copied().unwrap();
    request.seed = [None, Some(7)].get(draw.below(2)).copied().unwrap();
    request.stop = (0..draw.below(7)).map(|n| format!("END{n}").into()).collect();
    request.cache = Caching {
        off: draw.below(3) == 0,
        key: Some("run".into()),
        long: draw.below(2) == 0,
        ..Default::default()
    };
    request.no_stream = draw.below(2) == 0;
    request
}

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, max: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % max
    }

    fn text(&mut self, text: &str) -> String {
        let ends = ["", ".", " \n", "\u{e9}\u{1f600}", "\u{0}\u{202e}\"\\"];
        format!("{text}{}", ends.get(self.below(5)).unwrap())
    }
}

/// What the error of a call behind a proxy must say; the test below runs itself in another process.
const BEHIND: &str = "LOOPGATE_TEST_BEHIND";

// Issue 43, P8
#[tokio::test]
async fn a_proxy_that_is_none_or_does_not_let_through_is_named() {
    if let Some(expected) = std::env::var_os(BEHIND) {
        let expected = expected.into_string().unwrap();
        for (url, is_behind) in [
            ("https://api.example/v1", true),
            ("http://api.example/v1", true),
            ("https://direct.invalid/v1", false),
        ] {
            let profile = loop_llm::Profile::named("compatible").unwrap();
            let model = loop_llm::HttpModel::new(profile, Some(url)).unwrap();
            let error = complete(&model, &question()).await.unwrap_err();
            let is_named = error.message.contains(&expected) && error.message.contains("_PROXY`");
            assert_eq!(is_named, is_behind, "{url}: {error} and {expected:?}");
            assert!(!error.message.contains("hunter2"), "{url}: {error}");
        }
        return;
    }
    let refusing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = refusing.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in refusing.incoming().flatten() {
            _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
            _ = std::io::Write::write_all(&mut stream, answer);
        }
    });
    for (value, expected) in [
        ("not a url".to_owned(), "http://HOST:PORT"),
        ("socks5://ada:hunter2@127.0.0.1:9".to_owned(), "socks5://127.0.0.1:9"),
        ("http://ada:hunter2@127.0.0.1:9".to_owned(), "http://127.0.0.1:9"),
        (format!("ada:hunter2@127.0.0.1:{port}"), "user and"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "over_http::a_proxy_that_is_none_or_does_not_let_through_is_named"]);
        ["http_proxy", "https_proxy", "ALL_PROXY", "no_proxy"]
            .iter()
            .for_each(|name| _ = child.env_remove(name));
        child.env("HTTP_PROXY", &value).env("HTTPS_PROXY", value).env("NO_PROXY", "direct.invalid");
        child.env(BEHIND, expected);
        let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
