//! What goes wrong between a client and a server, over real sockets, for every protocol: never an empty success, never
//! a panic, and what came is kept.

use crate::sockets;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loop_core::types::{FailureKind, Usage};
use loop_llm::codec::{Api, OutputCap};
use loop_llm::error::RetryAdvice;
use loop_llm::http::Timers;
use loop_llm::model::ReplyEnd;
use loop_llm::request::RequestMeta;
use loop_llm::wrap::{RetryPolicy, Retrying};
use loop_llm::{ChatModel, ErrorPhase, ModelEvent, ModelReply, ModelRequest, Scripted};
use loop_mock::{Behaviour, Chunks, ConnectionEnd, LoopbackServer, Service};
use loop_testkit::{call, is_full, llm::weather};
use sockets::{
    KEY, answering, ask, bytes_of, client, client_at, error, failed, patient, replying, request, saying,
    soon, text,
};

const TENTH: Duration = Duration::from_millis(100);

/// A reply with a character of several bytes, in pieces.
fn short() -> Service {
    saying(vec![text("H\u{e9}"), text("llo"), finished("H\u{e9}llo")])
}

fn finished(text: &str) -> Result<ModelEvent, loop_llm::LlmError> {
    let usage = Usage { input: 3, output: 2, ..Usage::default() };
    Ok(ModelEvent::Finished(Box::new(ModelReply::text(text, Some(usage)))))
}

/// Where nobody listens. A port that was free a moment ago may be another test's by now.
const NOBODY: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_busy_server_says_when_to_come_back() {
    // L1, L2; wire WE01, WE08 and WE22
    let busy = |status| Behaviour::status(status, "{}");
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    for api in Api::ALL {
        let reported = [
            (busy(429).with_header("retry-after", "7"), RetryAdvice::After(Duration::from_secs(7))),
            (
                busy(429).with_header("retry-after-ms", "1500").with_header("retry-after", "9"),
                RetryAdvice::After(Duration::from_millis(1_500)),
            ),
            (busy(429).with_header("retry-after", past), RetryAdvice::Backoff),
            (busy(429).with_header("retry-after", "soon"), RetryAdvice::Backoff),
            (busy(429), RetryAdvice::Backoff),
        ];
        for (behaviour, advice) in reported {
            let what = format!("{behaviour:?}");
            let error = failed(&what, api, ask(&client(api, &answering(behaviour))).await);
            assert_eq!((error.kind, error.phase), (FailureKind::RateLimited, ErrorPhase::Headers), "{what}");
            assert_eq!(error.retry, advice, "{what}");
            assert!(error.is_free(), "{what}");
        }
        for status in [503, 529] {
            let error = failed("busy", api, ask(&client(api, &answering(busy(status)))).await);
            assert_eq!(
                (error.kind, error.retry),
                (FailureKind::Overloaded, RetryAdvice::Backoff),
                "{status}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_fails_may_be_asked_again_and_one_that_refuses_may_not() {
    // L3, L4; wire WE07 and WQ41
    for api in Api::ALL {
        for status in [500, 502, 504] {
            let page = Behaviour::status(status, "<html><title>Bad gateway</title></html>")
                .with_content_type("text/html");
            let error = failed("down", api, ask(&client(api, &answering(page))).await);
            assert!(matches!(error.kind, FailureKind::ServerError | FailureKind::Timeout), "{error:?}");
            assert_eq!(
                (error.retry, error.is_free()),
                (RetryAdvice::Backoff, false),
                "{status} {}",
                api.name()
            );
            assert!(error.message.contains("Bad gateway"), "{error}");
        }
        let never = Behaviour::status(500, "{}").with_header("x-should-retry", "false");
        let error = failed("never", api, ask(&client(api, &answering(never))).await);
        assert_eq!((error.kind, error.retry), (FailureKind::ServerError, RetryAdvice::Never));
        let refusals = [
            (400, FailureKind::InvalidRequest),
            (401, FailureKind::Auth),
            (403, FailureKind::Permission),
            (413, FailureKind::RequestTooLarge),
        ];
        for (status, kind) in refusals {
            let stated = Behaviour::status(status, format!("{{\"error\":{{\"message\":\"no: {KEY}\"}}}}"));
            let error = failed("refused", api, ask(&client(api, &answering(stated))).await);
            // wire WE25
            assert_eq!((error.kind, &*error.message), (kind, "no: ***"), "{status} {}", api.name());
            assert_eq!((error.retry, error.is_free()), (RetryAdvice::Never, true), "{status}");
        }
    }
}

#[tokio::test]
async fn every_kind_of_failure_is_read_as_what_it_is_in_every_protocol() {
    // L1 to L4 and L7; wire WE02, WE04, WE05, WE08 to WE18
    let kinds = [
        (FailureKind::InvalidRequest, "no luck"),
        (FailureKind::Auth, "no luck"),
        (FailureKind::Permission, "no luck"),
        (FailureKind::Billing, "no luck"),
        (FailureKind::ModelNotFound, "no luck"),
        (FailureKind::QuotaExhausted, "no luck"),
        (FailureKind::RateLimited, "no luck"),
        (FailureKind::Overloaded, "no luck"),
        (FailureKind::ServerError, "no luck"),
        (FailureKind::Timeout, "no luck"),
        (FailureKind::ContextTooLong, "prompt is too long: 208310 tokens > 200000 maximum"),
        (
            FailureKind::StaleReasoning,
            "Invalid `signature` in `thinking` block: thought signature, encrypted content",
        ),
    ];
    for (kind, message) in kinds {
        for api in Api::ALL {
            let reported = loop_llm::LlmError::new(kind, ErrorPhase::Headers, message);
            let server = LoopbackServer::start(saying(vec![Err(reported.clone())])).unwrap();
            let error = failed("a status", api, ask(&client(api, &server)).await);
            assert_eq!((error.kind, error.phase), (kind, ErrorPhase::Headers), "{} {error:?}", api.name());
            assert_eq!(error.is_retryable(), reported.is_retryable(), "{} {error:?}", api.name());
            let detail = error.detail.unwrap();
            assert!(detail.request.is_some() || api == Api::Gemini, "{}", api.name());
            if kind == FailureKind::ContextTooLong {
                assert_eq!((detail.used_tokens, detail.max_tokens), (Some(208_310), Some(200_000)));
            }
            if kind == FailureKind::Billing {
                // Nobody's credit is asked about in the middle of a reply, so there are no words for it.
                continue;
            }
            let server = LoopbackServer::start(saying(vec![text("So far."), Err(reported)])).unwrap();
            let error = failed("in a stream", api, ask(&client(api, &server)).await);
            assert_eq!((error.kind, error.phase), (kind, ErrorPhase::Stream), "{} {error:?}", api.name());
            assert_eq!(&*error.partial.unwrap().text, "So far.", "{}", api.name());
        }
    }
}

#[tokio::test]
async fn what_fails_before_the_first_byte_is_tried_again() {
    // L1, L2, L3 and L5; wire WE19 and WE23
    let policy = RetryPolicy::default();
    for api in Api::ALL {
        let busy = Behaviour::status(429, "{}").with_header("retry-after-ms", "1");
        let service = short().first([busy, Behaviour::status(500, "{}").with_header("retry-after-ms", "1")]);
        let server = LoopbackServer::start(service).unwrap();
        let model = Retrying::new(Arc::new(client(api, &server)), policy);
        let reply = ask(&model).await.unwrap();
        assert_eq!(&*reply.text, "H\u{e9}llo", "{}", api.name());
        let bodies: Vec<_> = soon(server.ended(3)).await.into_iter().map(|received| received.body).collect();
        assert!(
            bodies.len() == 3 && bodies.windows(2).all(|two| two.first() == two.last()),
            "{}",
            api.name()
        );

        let later = Behaviour::status(429, "{}").with_header("retry-after", "3600");
        let server = answering(later);
        let model = Retrying::new(Arc::new(client(api, &server)), policy);
        let error = failed("an hour", api, ask(&model).await);
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(3_600)), "{}", api.name());
        assert_eq!(server.requests().len(), 1, "nobody sleeps for an hour");

        for lost in [Behaviour::refuse(), Behaviour::garbage_head(), Behaviour::model().cuts_after(0)] {
            let server = LoopbackServer::start(short().usually(lost)).unwrap();
            let model = Retrying::new(Arc::new(client(api, &server)), policy);
            let error = failed("lost", api, ask(&model).await);
            assert_eq!((error.is_free(), error.retry), (false, RetryAdvice::Backoff), "{}", api.name());
            assert!(server.requests().len() <= 1, "what may be billed is sent once");
        }
        let cut = LoopbackServer::start(short().usually(Behaviour::model().cuts_after(600))).unwrap();
        let model = Retrying::new(Arc::new(client(api, &cut)), policy);
        failed("cut", api, ask(&model).await);
        assert_eq!(cut.requests().len(), 1, "what has begun is not sent again");
    }
}

#[tokio::test]
async fn nobody_there_and_nothing_sent_are_failed_connections() {
    // L5; wire WE19
    for api in Api::ALL {
        let error = failed("nobody", api, ask(&client_at(api, NOBODY)).await);
        assert_eq!((error.kind, error.phase), (FailureKind::Connection, ErrorPhase::Connect));
        assert_eq!((error.retry, error.is_free()), (RetryAdvice::Never, true));
        for (what, behaviour) in [("closed", Behaviour::refuse()), ("no HTTP", Behaviour::garbage_head())] {
            let error = failed(what, api, ask(&client(api, &answering(behaviour))).await);
            assert_eq!((error.kind, error.phase), (FailureKind::Connection, ErrorPhase::Headers), "{what}");
            assert_eq!(error.retry, RetryAdvice::Backoff, "{what}");
        }
        let after_head = Behaviour::model().cuts_after(0);
        let error = failed(
            "after the head",
            api,
            ask(&client(api, &LoopbackServer::start(short().usually(after_head)).unwrap())).await,
        );
        assert!(matches!(error.kind, FailureKind::Connection | FailureKind::StreamInterrupted), "{error:?}");
        assert_eq!(error.retry, RetryAdvice::Backoff);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_or_ended_at_any_byte_keeps_what_came() {
    // L6, L8 and L15; wire WC13, WR11, WA15 and WG12
    for api in Api::ALL {
        let whole = bytes_of(api, short()).await;
        let complete = whole_from(api, &whole);
        for (n, how) in [Behaviour::cuts_after, Behaviour::ends_after].into_iter().enumerate() {
            let (mut longest, mut kept) = (0, 0);
            // A connection that is lost is slower to serve than a body that ends.
            let step = (if n == 0 { 3 } else { 1 }) * (if is_full() { 1 } else { 6 });
            // The last bytes are always among them: where a line begins to count as complete.
            let is_tried = |at: &usize| at.is_multiple_of(step) || whole.len() - at < 4;
            for after in (0..whole.len()).filter(is_tried) {
                let what = format!("{n} at {after} over {}", api.name());
                let server =
                    LoopbackServer::start(short().usually(how(Behaviour::model(), after as u64))).unwrap();
                let model = client(api, &server).with_timers(Timers { after_end: TENTH, ..patient() });
                match ask(&model).await {
                    Ok(reply) => {
                        assert!(after >= complete, "{what}: {reply:?}");
                        assert_eq!(
                            (&*reply.text, reply.stop),
                            ("H\u{e9}llo", Some(ReplyEnd::EndTurn)),
                            "{what}"
                        );
                        kept += 1;
                    }
                    Err(error) => {
                        assert!(error.is_retryable() && kept == 0, "{what}: {error:?}");
                        let partial = error.partial.unwrap_or_default();
                        assert!("H\u{e9}llo".starts_with(&*partial.text), "{what}: {partial:?}");
                        assert!(partial.text.len() >= longest, "{what}: {partial:?}");
                        longest = partial.text.len();
                    }
                }
            }
            assert_eq!(longest, "H\u{e9}llo".len(), "{n} over {}: all that came is kept", api.name());
            assert!(kept > 0 || n == 0, "{}: the last line may lack its end", api.name());
        }
    }
}

/// The first byte behind which a reply may count as complete: where the word for its end begins.
fn whole_from(api: Api, bytes: &[u8]) -> usize {
    let word: &[u8] = match api {
        Api::OpenaiChat => b"\"finish_reason\":\"stop\"",
        Api::OpenaiResponses => b"event: response.completed",
        Api::Anthropic => b"event: message_stop",
        Api::Gemini => b"\"finishReason\":\"STOP\"",
    };
    bytes.windows(word.len()).position(|window| window == word).unwrap()
}

#[tokio::test]
async fn a_server_that_stalls_or_dribbles_is_left_in_time() {
    // L9 and L10; wire WE20 and WE21
    futures::future::join_all(Api::ALL.map(left_in_time)).await;
}

async fn left_in_time(api: Api) {
    let stalls =
        |after: u64| LoopbackServer::start(short().usually(Behaviour::model().stalls_after(after))).unwrap();
    let server = stalls(0);
    let silent = client(api, &server).with_timers(Timers { first_byte: TENTH, ..patient() });
    let error = failed("silent", api, ask(&silent).await);
    assert_eq!((error.kind, error.phase), (FailureKind::Timeout, ErrorPhase::Headers), "{}", api.name());

    let whole = bytes_of(api, short()).await;
    let middle = (whole_from(api, &whole) - 10) as u64;
    let server = stalls(middle);
    let model = client(api, &server).with_timers(Timers { idle: 10 * TENTH, ..patient() });
    let error = failed("stalled", api, ask(&model).await);
    assert_eq!((error.kind, error.phase), (FailureKind::Timeout, ErrorPhase::Stream), "{}", api.name());
    assert_eq!(&*error.partial.unwrap().text, "H\u{e9}llo", "{}", api.name());
    let received = soon(server.ended(1)).await;
    assert_eq!(received.first().unwrap().ending, Some(ConnectionEnd::HungUp), "the connection is closed");

    let dribbling = LoopbackServer::start(short().usually(Behaviour::model().slow(TENTH))).unwrap();
    let model = client(api, &dribbling).with_timers(Timers { total: 20 * TENTH, ..patient() });
    let error = failed("dribbling", api, ask(&model).await);
    assert_eq!((error.kind, error.phase), (FailureKind::Timeout, ErrorPhase::Stream), "{}", api.name());
}

#[tokio::test]
async fn pings_alone_are_no_progress() {
    // L9 and L10; wire WE21
    for api in Api::ALL {
        let comments = Behaviour::body("").with_keep_alives(u32::MAX).with_pause(TENTH / 10);
        let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
        let events =
            Behaviour::body(ping.repeat(10_000)).in_chunks(Chunks::Bytes(ping.len())).with_pause(TENTH / 10);
        // Only one protocol has pings that are events.
        let kinds = if api == Api::Anthropic { vec![comments, events] } else { vec![comments] };
        for behaviour in kinds {
            let server = answering(behaviour);
            let model = client(api, &server).with_timers(Timers { progress: 3 * TENTH, ..patient() });
            let error = failed("pings", api, ask(&model).await);
            assert_eq!(
                (error.kind, error.phase),
                (FailureKind::Timeout, ErrorPhase::Stream),
                "{}",
                api.name()
            );
            assert_eq!(&*error.partial.unwrap().text, "");
        }
    }
}

/// Such a reply is cut as if it had come to its limit. Each protocol is a test of its own, since they take seconds.
async fn an_endless_reply(api: Api) {
    let server = answering(Behaviour::flood(u64::MAX));
    let reply = ask(&client(api, &server)).await.unwrap();
    assert_eq!((reply.stop, reply.finish), (Some(ReplyEnd::Capped), loop_core::reply::FinishReason::Capped));
    let max = OutputCap::of(request().max_output_tokens).bytes;
    assert!(reply.text.len() > max - 4 && reply.text.len() <= max, "{} bytes", reply.text.len());
    assert!(reply.warnings.iter().any(|warning| warning.contains("cut")), "{:?}", reply.warnings);
    let received = soon(server.ended(1)).await;
    assert_eq!(received.first().unwrap().ending, Some(ConnectionEnd::HungUp));
}

#[tokio::test]
async fn an_endless_reply_of_chat_completions_is_cut() {
    // L11 and L23
    an_endless_reply(Api::OpenaiChat).await;
}

#[tokio::test]
async fn an_endless_reply_of_responses_is_cut() {
    // L11 and L23
    an_endless_reply(Api::OpenaiResponses).await;
}

#[tokio::test]
async fn an_endless_reply_of_messages_is_cut() {
    // L11 and L23
    an_endless_reply(Api::Anthropic).await;
}

#[tokio::test]
async fn an_endless_reply_of_gemini_is_cut() {
    // L11 and L23
    an_endless_reply(Api::Gemini).await;
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_never_held() {
    // L23; wire WE28
    for api in Api::ALL {
        let server = answering(Behaviour::endless_line(100 << 20));
        let error = failed("a line", api, ask(&client(api, &server)).await);
        assert_eq!(
            (error.kind, error.phase),
            (FailureKind::BadResponse, ErrorPhase::Stream),
            "{}",
            api.name()
        );
        let received = soon(server.ended(1)).await;
        let received = received.first().unwrap();
        assert_eq!(received.ending, Some(ConnectionEnd::HungUp), "{}", api.name());
        assert!(received.bytes_out < 50 << 20, "{}: {} bytes were taken", api.name(), received.bytes_out);
    }
}

#[tokio::test]
async fn calls_that_were_cut_are_never_run() {
    // L6 and L12; wire WC09, WR05 and WA09
    let mut calling = ModelReply::text("I will check.", None);
    calling.tool_calls = vec![weather("call_a", "Oslo"), weather("call_b", "Oslo")];
    (calling.stop, calling.finish) = (Some(ReplyEnd::ToolUse), ReplyEnd::ToolUse.finish());
    let mut cut = calling.clone();
    (cut.stop, cut.finish) = (Some(ReplyEnd::MaxTokens), ReplyEnd::MaxTokens.finish());
    for api in Api::ALL {
        let server = LoopbackServer::start(replying(cut.clone())).unwrap();
        let reply = ask(&client(api, &server)).await.unwrap();
        assert_eq!(
            (reply.stop, reply.tool_calls.len()),
            (Some(ReplyEnd::MaxTokens), 0),
            "{}: {reply:?}",
            api.name()
        );
        let whole = bytes_of(api, replying(calling.clone())).await;
        let complete = whole_from_calls(api, &whole);
        for after in (0..whole.len()).step_by(if is_full() { 7 } else { 29 }) {
            let how = Behaviour::model().ends_after(after as u64);
            let server = LoopbackServer::start(replying(calling.clone()).usually(how)).unwrap();
            match ask(&client(api, &server).with_timers(Timers { after_end: TENTH, ..patient() })).await {
                Ok(reply) => assert!(after >= complete && reply.tool_calls.len() == 2, "{after}: {reply:?}"),
                Err(error) => assert!(error.is_retryable(), "{after} over {}: {error:?}", api.name()),
            }
        }
    }
}

fn whole_from_calls(api: Api, bytes: &[u8]) -> usize {
    if api != Api::OpenaiChat {
        return whole_from(api, bytes);
    }
    let word = b"\"finish_reason\":\"tool_calls\"";
    bytes.windows(word.len()).position(|window| window == word).unwrap()
}

#[tokio::test]
async fn bytes_that_are_no_text_harm_nothing_but_themselves() {
    // L15; wire WE26 and WX11
    for api in Api::ALL {
        let whole = bytes_of(api, short()).await;
        let text = String::from_utf8(whole.clone()).unwrap();
        let same = [
            text.clone(),
            format!("\u{feff}{text}"),
            text.replace("\r\n", "\n").replace('\n', "\r\n"),
            text.replace("data: ", "data:"),
            format!(": a comment\n\nid: 7\nretry: 10\n{text}"),
            text.trim_end().to_owned(),
        ];
        for (n, form) in same.into_iter().enumerate() {
            for chunks in [Chunks::Whole, Chunks::Bytes(1), Chunks::Random { seed: n as u64 }] {
                let server = answering(Behaviour::body(form.clone()).in_chunks(chunks));
                let reply = ask(&client(api, &server)).await.unwrap();
                assert_eq!(
                    (&*reply.text, reply.stop),
                    ("H\u{e9}llo", Some(ReplyEnd::EndTurn)),
                    "{n} {}",
                    api.name()
                );
            }
        }
        let mut damaged = whole.clone();
        let at = damaged.iter().position(|byte| *byte == 0xc3).unwrap();
        *damaged.get_mut(at).unwrap() = 0xff;
        let reply = ask(&client(api, &answering(Behaviour::body(damaged)))).await.unwrap();
        assert_eq!(&*reply.text, "H\u{fffd}\u{fffd}llo", "{} {reply:?}", api.name());
        assert!(reply.warnings.contains(&"invalid_utf8".into()), "{} {reply:?}", api.name());
        assert_eq!((reply.stop, reply.raw), (Some(ReplyEnd::EndTurn), None), "{}", api.name());
        // A call that is not exactly what the model wrote must not be run.
        let mut calling = ModelReply::text("", None);
        calling.tool_calls = vec![call("call_a", "look", "{\"at\":\"H\u{e9}\"}")];
        let mut damaged = bytes_of(api, replying(calling)).await;
        let at = damaged.iter().position(|byte| *byte == 0xc3).unwrap();
        *damaged.get_mut(at).unwrap() = 0xff;
        let error =
            failed("a damaged call", api, ask(&client(api, &answering(Behaviour::body(damaged)))).await);
        assert_eq!(error.kind, FailureKind::BadResponse, "{} {error:?}", api.name());
        let broken = text.replacen("H\u{e9}", "H\" \u{e9}", 1);
        let error = failed("broken JSON", api, ask(&client(api, &answering(Behaviour::body(broken)))).await);
        assert_eq!(
            (error.kind, error.phase),
            (FailureKind::BadResponse, ErrorPhase::Stream),
            "{}",
            api.name()
        );
    }
}

#[tokio::test]
async fn what_is_no_reply_is_never_an_empty_success() {
    // L19; wire WE26, WG18 and WQ41
    let lies = [
        ("nothing", Behaviour::status(200, "")),
        ("nothing at all", Behaviour::body("")),
        ("blanks", Behaviour::body("\n\n  \n")),
        ("null", Behaviour::status(200, "null")),
        ("a text", Behaviour::status(200, "\"fine\"")),
        ("a list", Behaviour::status(200, "[]")),
        ("a list of lists", Behaviour::status(200, "[[],[]]")),
        ("an object", Behaviour::status(200, "{}")),
        (
            "a page",
            Behaviour::status(200, "<!doctype html><title>Log in</title>").with_content_type("text/html"),
        ),
        ("half an object", Behaviour::half_json()),
        ("an error", Behaviour::status(200, "{\"error\":{\"message\":\"no\",\"code\":500}}")),
        (
            "a list of an error",
            Behaviour::status(
                200,
                "[{\"error\":{\"message\":\"no\",\"code\":503,\"status\":\"UNAVAILABLE\"}}]",
            ),
        ),
        ("comments", Behaviour::body(": a\n\n: b\n\n")),
        ("the mark of the end", Behaviour::body("data: [DONE]\n\n")),
        ("null in a stream", Behaviour::body("data: null\n\n")),
        ("a list in a stream", Behaviour::body("data: []\n\n")),
        ("an empty object in a stream", Behaviour::body("data: {}\n\n")),
        ("an unknown event", Behaviour::body("event: future\ndata: {\"type\":\"future\"}\n\n")),
        ("bytes", Behaviour::body(vec![0_u8, 159, 146, 150, 255])),
    ];
    for (what, behaviour) in lies {
        for api in Api::ALL {
            match ask(&client(api, &answering(behaviour.clone()))).await {
                Err(_) => {}
                // Google answers with nothing where it has nothing to say, which is no success either.
                Ok(reply) => {
                    assert_eq!(reply.stop, Some(ReplyEnd::Empty), "{what} over {}: {reply:?}", api.name())
                }
            }
        }
    }
    for api in Api::ALL {
        for blank in ["", " \n"] {
            let server = LoopbackServer::start(replying(ModelReply::text(blank, None))).unwrap();
            let reply = ask(&client(api, &server)).await.unwrap();
            assert_eq!(reply.stop, Some(ReplyEnd::Empty), "{blank:?} over {}: {reply:?}", api.name());
        }
        let mut musing = ModelReply::text("", None);
        musing.reasoning = "Hm.".into();
        let reply = ask(&client(api, &LoopbackServer::start(replying(musing)).unwrap())).await.unwrap();
        assert_eq!((reply.stop, &*reply.text), (Some(ReplyEnd::Empty), ""), "{}: {reply:?}", api.name());
    }
}

#[tokio::test]
async fn heads_that_lie_about_the_body_do_no_harm() {
    // wire WE26 and WQ39
    for api in Api::ALL {
        let length = bytes_of(api, short()).await.len() as u64;
        let server = |how: Behaviour| LoopbackServer::start(short().usually(how)).unwrap();
        let too_short = Behaviour::model().with_content_length(length / 2);
        let error = failed("too short", api, ask(&client(api, &server(too_short))).await);
        assert_eq!(error.kind, FailureKind::StreamInterrupted, "{} {error:?}", api.name());
        let too_long = Behaviour::model().with_content_length(length + 100);
        let end =
            ask(&client(api, &server(too_long)).with_timers(Timers { after_end: TENTH, ..patient() })).await;
        // The reply itself was complete.
        assert_eq!(&*end.unwrap().text, "H\u{e9}llo", "{}", api.name());
        for content_type in ["text/html", "application/json", "application/octet-stream", "nonsense"] {
            let server = server(Behaviour::model().with_content_type(content_type));
            let reply = ask(&client(api, &server)).await.unwrap();
            assert_eq!(&*reply.text, "H\u{e9}llo", "{content_type} over {}", api.name());
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    // wire WE27
    let elsewhere = LoopbackServer::start(short()).unwrap();
    for api in Api::ALL {
        for status in [301, 302, 307, 308] {
            let location = format!("{}/v1/messages", elsewhere.url());
            let server = answering(Behaviour::status(status, "").with_header("location", &location));
            let error = failed("a redirect", api, ask(&client(api, &server)).await);
            assert_eq!(
                (error.kind, error.retry),
                (FailureKind::BadResponse, RetryAdvice::Never),
                "{}",
                api.name()
            );
        }
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_caller_who_goes_away_closes_the_connection() {
    // wire WE24
    for api in Api::ALL {
        let server = LoopbackServer::start(
            saying(vec![text("So far."), text(" More."), finished("")])
                .usually(Behaviour::model().in_chunks(Chunks::Bytes(1)).with_pause(Duration::from_millis(1))),
        )
        .unwrap();
        let model = client(api, &server);
        let mut events = soon(model.stream(&request())).await.unwrap();
        while !matches!(soon(events.next()).await, Some(Ok(ModelEvent::TextDelta { .. }))) {}
        drop(events);
        let received = soon(server.ended(1)).await;
        assert_eq!(received.first().unwrap().ending, Some(ConnectionEnd::HungUp), "{}", api.name());
    }
}

#[tokio::test]
async fn refusals_are_replies_and_are_not_tried_again() {
    // L20
    for api in Api::ALL {
        let mut refusal = ModelReply::text("", None);
        refusal.refusal = Some("I will not.".into());
        (refusal.stop, refusal.finish) = (Some(ReplyEnd::Refusal), ReplyEnd::Refusal.finish());
        let server = LoopbackServer::start(replying(refusal)).unwrap();
        let model = Retrying::new(Arc::new(client(api, &server)), RetryPolicy::default());
        let reply = ask(&model).await.unwrap();
        assert!(
            matches!(reply.stop, Some(ReplyEnd::Refusal | ReplyEnd::ContentFilter)),
            "{}: {reply:?}",
            api.name()
        );
        assert_eq!((&**reply.shown(), server.requests().len()), ("I will not.", 1), "{}", api.name());
    }
}

#[tokio::test]
async fn tokens_that_cannot_be_right_do_not_overflow() {
    // L21
    let absurd =
        Usage { input: u64::MAX, cache_read: u64::MAX, output: u64::MAX, reasoning: 7, ..Usage::default() };
    for api in Api::ALL {
        let server = LoopbackServer::start(replying(ModelReply::text("Fine.", Some(absurd)))).unwrap();
        let reply = ask(&client(api, &server)).await.unwrap();
        assert_eq!(&*reply.text, "Fine.", "{}", api.name());
        // Sums saturate; nobody panics.
        let _ = reply.usage.map(|usage| usage.total());
    }
    let silent = LoopbackServer::start(replying(ModelReply::text("Fine.", None))).unwrap();
    for api in [Api::OpenaiChat, Api::OpenaiResponses] {
        assert_eq!(ask(&client(api, &silent)).await.unwrap().usage, None, "unknown is not nothing");
    }
}

#[tokio::test]
async fn another_model_than_was_asked_for_is_named() {
    // L24
    for api in Api::ALL {
        let mut other = ModelReply::text("Fine.", None);
        other.served_model = Some("m-2026-11-20".into());
        let started = ModelEvent::Started { reply: None, model: other.served_model.clone() };
        let server =
            LoopbackServer::start(saying(vec![Ok(started), Ok(ModelEvent::Finished(Box::new(other)))]))
                .unwrap();
        let reply = ask(&client(api, &server)).await.unwrap();
        assert_eq!(reply.served_model.as_deref(), Some("m-2026-11-20"), "{}", api.name());
    }
}

#[tokio::test]
async fn an_error_of_the_model_that_breaks_off_is_no_reply() {
    // L6 and L7
    let kinds = [FailureKind::StreamInterrupted, FailureKind::Connection, FailureKind::BadResponse];
    for api in Api::ALL {
        for kind in kinds {
            let server = LoopbackServer::start(saying(vec![text("So far."), error(kind)])).unwrap();
            let error = failed("broken off", api, ask(&client(api, &server)).await);
            let read = if kind == FailureKind::BadResponse { kind } else { FailureKind::StreamInterrupted };
            assert_eq!((error.kind, error.phase), (read, ErrorPhase::Stream), "{} {error:?}", api.name());
            assert_eq!(&*error.partial.unwrap().text, "So far.", "{}", api.name());
        }
    }
    let script = Arc::new(Scripted::replies(["one"]));
    let server = LoopbackServer::start(Service::of(script)).unwrap();
    assert_eq!(&*ask(&client(Api::Anthropic, &server)).await.unwrap().text, "one");
    for api in Api::ALL {
        let error = failed("exhausted", api, ask(&client(api, &server)).await);
        assert_eq!(error.retry, RetryAdvice::Never, "{}: {error:?}", api.name());
    }
}

/// A call that is granted 256 tokens.
fn small(no_stream: bool) -> ModelRequest {
    ModelRequest { max_output_tokens: Some(256), no_stream, ..request() }
}

async fn granted_little(model: &dyn ChatModel, no_stream: bool) -> ModelReply {
    soon(loop_llm::complete(model, &small(no_stream))).await.unwrap()
}

#[tokio::test]
async fn a_server_that_ignores_the_output_limit_is_cut_at_a_small_multiple_of_it() {
    // P3, L11: text, reasoning and arguments alike, streamed and not
    let cap = OutputCap::of(Some(256));
    assert_eq!((cap.tokens, cap.bytes), (768, 6_144));
    let endless = "word ".repeat(40_000);
    let mut texts = ModelReply::text(endless.as_str(), None);
    texts.usage = Some(Usage { input: 3, output: 250_000, ..Usage::default() });
    let mut thoughts = ModelReply::text("", None);
    thoughts.reasoning = endless.as_str().into();
    let mut arguments = ModelReply::text("I will look.", None);
    arguments.tool_calls = vec![call("call_a", "look", &format!("{{\"at\":\"{endless}\"}}"))];
    (arguments.stop, arguments.finish) = (Some(ReplyEnd::ToolUse), ReplyEnd::ToolUse.finish());
    for api in Api::ALL {
        for no_stream in [false, true] {
            for (what, stated) in [("text", &texts), ("reasoning", &thoughts), ("arguments", &arguments)] {
                let server = LoopbackServer::start(replying(stated.clone())).unwrap();
                let reply = granted_little(&client(api, &server), no_stream).await;
                let what = format!("{what} over {}, whole: {no_stream}", api.name());
                assert_eq!(reply.stop, Some(ReplyEnd::Capped), "{what}: {:?}", reply.warnings);
                assert!(reply.bytes() as usize <= cap.bytes, "{what}: {} bytes", reply.bytes());
                assert_eq!((reply.tool_calls.len(), &reply.raw), (0, &None), "{what}: nothing of it is run");
                assert!(reply.warnings.contains(&"reply_cut".into()), "{what}: {:?}", reply.warnings);
                if no_stream && stated.usage.is_some() {
                    assert_eq!(reply.usage, stated.usage, "{what}: what was reported is kept");
                }
            }
        }
        let server = answering(Behaviour::flood(u64::MAX));
        let reply = granted_little(&client(api, &server), /*no_stream*/ false).await;
        assert_eq!((reply.stop, reply.text.len()), (Some(ReplyEnd::Capped), cap.bytes), "{}", api.name());
        let received = soon(server.ended(1)).await;
        assert_eq!(received.first().unwrap().ending, Some(ConnectionEnd::HungUp), "the connection is closed");
    }
}

#[tokio::test]
async fn where_no_limit_may_be_passed_a_reply_is_cut_at_six_bytes_a_token_and_reports_no_more_than_those() {
    // T7: text, reasoning, arguments and many empty calls, streamed and not
    let meta = RequestMeta { strict_cost: true, ..RequestMeta::default() };
    let strict = |no_stream| ModelRequest { meta: meta.clone(), ..small(no_stream) };
    let cap = OutputCap::of_request(&strict(false));
    assert_eq!((cap.tokens, cap.bytes), (768, 1_536));
    let endless = "word ".repeat(40_000);
    let texts = ModelReply::text(endless.as_str(), None);
    let mut thoughts = ModelReply::text("", None);
    thoughts.reasoning = endless.as_str().into();
    let mut arguments = ModelReply::text("I will look.", None);
    arguments.tool_calls = vec![call("call_a", "look", &format!("{{\"at\":\"{endless}\"}}"))];
    let mut calls = ModelReply::text("", None);
    calls.tool_calls = (0..2_000).map(|_| call("", "l", "{}")).collect();
    for reply in [&mut arguments, &mut calls] {
        (reply.stop, reply.finish) = (Some(ReplyEnd::ToolUse), ReplyEnd::ToolUse.finish());
    }
    let all = [("text", texts), ("reasoning", thoughts), ("arguments", arguments), ("calls", calls)];
    for api in Api::ALL {
        for (no_stream, reported) in [(false, 250_000), (true, 250_000), (true, 1_000)] {
            for (what, stated) in &all {
                let usage = Some(Usage { input: 3, output: reported, ..Usage::default() });
                let server = LoopbackServer::start(replying(ModelReply { usage, ..stated.clone() })).unwrap();
                let reply =
                    soon(loop_llm::complete(&client(api, &server), &strict(no_stream))).await.unwrap();
                let what = format!("{what} over {}, whole: {no_stream}, {reported}", api.name());
                assert_eq!(reply.stop, Some(ReplyEnd::Capped), "{what}: {:?}", reply.warnings);
                assert!(reply.bytes() as usize <= cap.bytes, "{what}: {} bytes", reply.bytes());
                assert_eq!(reply.cost, None, "{what}");
                // A whole reply says what it took; more than a token a byte of what was kept does not count.
                assert!(reply.usage.is_none_or(|usage| usage.output == 1_000), "{what}: {:?}", reply.usage);
                assert_eq!(reply.usage.is_some(), reported == 1_000, "{what}: {:?}", reply.usage);
            }
        }
    }
}

#[tokio::test]
async fn tokens_that_are_reported_while_a_reply_comes_cut_it_and_those_of_a_whole_one_do_not() {
    // P3, L11
    let chat = |usage: u64, end: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"Hi\"}}}}],\"usage\":{{\"prompt_tokens\":8,\"completion_tokens\":{usage}}}}}\n\n{end}"
        )
    };
    let gemini = |usage: u64, end: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"Hi\"}}]}}{end}}}],\"usageMetadata\":{{\"promptTokenCount\":8,\"candidatesTokenCount\":{usage},\"totalTokenCount\":{}}}}}\n\n",
            usage + 8
        )
    };
    let anthropic = |usage: u64, end: &str| {
        let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":8,\"output_tokens\":1}}}\n\n";
        let text = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n";
        format!(
            "{start}{text}event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{{end}}},\"usage\":{{\"output_tokens\":{usage}}}}}\n\nevent: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    let stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let more = "data: {\"choices\":[{\"delta\":{\"content\":\" there\"}}]}\n\n";
    let rows = [
        (Api::OpenaiChat, chat(769, &format!("{more}{stop}")), ReplyEnd::Capped),
        (Api::OpenaiChat, chat(768, stop), ReplyEnd::EndTurn),
        (Api::Gemini, gemini(769, "") + &gemini(770, ",\"finishReason\":\"STOP\""), ReplyEnd::Capped),
        (Api::Gemini, gemini(5_000, ",\"finishReason\":\"STOP\""), ReplyEnd::EndTurn),
        (Api::Anthropic, anthropic(5_000, ""), ReplyEnd::Capped),
        (Api::Anthropic, anthropic(5_000, "\"stop_reason\":\"end_turn\""), ReplyEnd::EndTurn),
    ];
    for (api, body, wanted) in rows {
        let server = answering(Behaviour::body(body.clone()));
        let reply = granted_little(&client(api, &server), /*no_stream*/ false).await;
        assert_eq!((reply.stop, &*reply.text), (Some(wanted), "Hi"), "{}: {body}", api.name());
        // P4: the tokens of a part are not those of what the provider goes on to generate.
        assert_eq!(reply.usage.is_some(), wanted != ReplyEnd::Capped, "{}", api.name());
    }
}

#[tokio::test]
async fn every_field_of_a_reply_is_capped_as_its_text_is() {
    // P8, I-23, L23
    let cap = OutputCap::of(Some(256));
    let endless = "x".repeat(1 << 20);
    let mut refusal = ModelReply::text("", None);
    refusal.refusal = Some(endless.as_str().into());
    (refusal.stop, refusal.finish) = (Some(ReplyEnd::Refusal), ReplyEnd::Refusal.finish());
    let mut words = ModelReply::text("Fine.", None);
    words.served_model = Some(endless.as_str().into());
    words.served_tier = Some(endless.as_str().into());
    words.reply = Some(endless.as_str().into());
    words.stop_detail = Some(endless.as_str().into());
    let mut names = ModelReply::text("Fine.", None);
    names.tool_calls = vec![call(&endless, &endless, "{}")];
    (names.stop, names.finish) = (Some(ReplyEnd::ToolUse), ReplyEnd::ToolUse.finish());
    for api in Api::ALL {
        for no_stream in [false, true] {
            for (what, stated) in [("refusal", &refusal), ("words", &words), ("names", &names)] {
                let server = LoopbackServer::start(replying(stated.clone())).unwrap();
                let reply = granted_little(&client(api, &server), no_stream).await;
                let written = serde_json::to_string(&ModelReply { raw: None, ..reply.clone() }).unwrap();
                let what = format!("{what} over {}, whole: {no_stream}", api.name());
                assert!(written.len() < cap.bytes + (16 << 10), "{what}: {} bytes", written.len());
                assert!(reply.raw.as_ref().is_none_or(|raw| raw.text().len() < 2 << 20), "{what}");
                if stated.refusal.is_some() {
                    let shown = reply.shown();
                    assert!(shown.starts_with("xx"), "{what}");
                    if matches!(api, Api::Gemini | Api::Anthropic) {
                        continue; // What such a server says before it refuses is text, and cut as text is.
                    }
                    assert_eq!(reply.finish, loop_core::reply::FinishReason::Refusal, "{what}");
                    assert!(shown.ends_with("… [cut]"), "{what}: no mark");
                }
            }
        }
        let broken = loop_llm::LlmError::new(FailureKind::ServerError, ErrorPhase::Stream, endless.as_str());
        let server = LoopbackServer::start(saying(vec![text("So far."), Err(broken)])).unwrap();
        let error = failed("a message", api, ask(&client(api, &server)).await);
        assert!(error.message.len() < 4 << 10, "{}: {} bytes", api.name(), error.message.len());
    }
}
