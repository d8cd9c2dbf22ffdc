//! Playing recordings back: what is found, what is given, and what is said where nothing is found.

use crate::{tape, wrap_common};

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loop_core::secrets::Secrets;
use loop_core::types::{FailureKind, PicoUsd, Usage};
use loop_llm::error::{Partial, RetryAdvice};
use loop_llm::model::ReplyEnd;
use loop_llm::request::Raw;
use loop_llm::wrap::{RecordedModel, RetryPolicy, Retrying};
use loop_llm::{ChatModel, ErrorPhase, LlmError, Message, ModelEvent, ModelReply, ModelRequest, complete};
use loop_testkit::call;
use proptest::prelude::*;
use serde_json::json;
use tape::{Tape, hear};
use wrap_common::{Fake, Step, asks, error, finished, patient, request, stated, text};

/// One of every event, and a reply that has everything.
fn everything() -> Vec<ModelEvent> {
    let call = |id: &str, arguments: &str| call(id, "get_order", arguments);
    let reply = ModelReply {
        cost: Some(PicoUsd(12)),
        served_model: Some("m-2026".into()),
        raw: Some(Raw::from_text("openai-chat/p/m\n{\"role\": \"assistant\", \"x\": 1.0}")),
        warnings: vec!["param_dropped(seed)".into()],
        tool_calls: vec![
            call("c1", "{ \"id\": 1.50, \"b\":\"\\u00e9\"}"),
            call("c2", "{\"id\":"),
            call("c3", ""),
        ],
        reasoning: "hm.".into(),
        stop: Some(ReplyEnd::ToolUse),
        raw_stop: Some("tool_calls".into()),
        reply: Some("r-1".into()),
        ..ModelReply::text(
            "Hi there.",
            Some(Usage { input: 10, output: 4, cache_read: 3, ..Usage::default() }),
        )
    };
    vec![
        ModelEvent::Started { reply: Some("r-1".into()), model: None },
        ModelEvent::KeepAlive,
        ModelEvent::ReasoningDelta { text: "hm".into() },
        text("Hi"),
        ModelEvent::ReasoningDelta { text: ".".into() },
        text(" there."),
        text(""),
        ModelEvent::ToolCallStarted { nth: 0, name: "get_order".into() },
        ModelEvent::ToolArgumentsDelta { nth: 0, text: "{ \"id\": 1.50,".into() },
        ModelEvent::ToolArgumentsDelta { nth: 0, text: " \"b\":\"\\u00e9\"}".into() },
        ModelEvent::Usage(Usage { output: 4, ..Usage::default() }),
        ModelEvent::Finished(Box::new(reply)),
    ]
}

fn steps() -> Vec<Step> {
    let mut reported = LlmError::new(FailureKind::ContextTooLong, ErrorPhase::Headers, "too long");
    let detail = reported.detail.get_or_insert_default();
    (detail.status, detail.used_tokens, detail.max_tokens) = (Some(400), Some(9), Some(8));
    let mut cut = LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "cut");
    cut.partial = Some(
        Partial {
            text: "w".into(),
            usage: Some(Usage { output: 1, ..Usage::default() }),
            ..Partial::default()
        }
        .into(),
    );
    vec![
        Step::Give(everything().into_iter().map(Ok).collect(), Duration::ZERO),
        Step::Refuse(reported),
        Step::Refuse(LlmError { detail: None, ..asks(FailureKind::RateLimited, 30) }),
        Step::Give(vec![Ok(text("w")), Err(cut)], Duration::ZERO),
        Step::Give(vec![Ok(text("w"))], Duration::ZERO),
    ]
}

/// What was recorded of these steps, all for the same request.
async fn recording(steps: Vec<Step>, request: &ModelRequest) -> String {
    let tape = Tape::new(Secrets::default());
    let count = steps.len();
    let model = tape.model(Fake::new(steps));
    for _ in 0..count {
        hear(&model, request).await;
    }
    tape.text()
}

fn played(text: &str) -> RecordedModel {
    RecordedModel::read("x.jsonl", text).unwrap()
}

#[tokio::test]
async fn the_same_pieces_and_the_same_end_come_back_in_the_order_in_which_they_were_recorded() {
    let file = recording(steps(), &request()).await;
    let (live, recorded) = (Fake::new(steps()), played(&file));
    for _ in 0..5 {
        assert_eq!(hear(&recorded, &request()).await, hear(&*live, &request()).await);
    }
}

// wire WX05
#[tokio::test]
async fn the_recording_of_a_recording_is_the_same_file() {
    let file = recording(steps(), &request()).await;
    let tape = Tape::new(Secrets::default());
    let model = tape.model(Arc::new(played(&file)));
    for _ in 0..5 {
        hear(&model, &request()).await;
    }
    assert_eq!(tape.text(), file);
}

#[tokio::test]
async fn what_was_recorded_once_is_given_once() {
    let file = recording(vec![Step::Give(stated("one"), Duration::ZERO); 2], &request()).await;
    let recorded = played(&file);
    let clone = recorded.clone();
    assert!(complete(&recorded, &request()).await.is_ok() && complete(&clone, &request()).await.is_ok());
    for _ in 0..2 {
        let error = complete(&recorded, &request()).await.unwrap_err();
        assert_eq!(
            (error.kind, error.phase, error.retry),
            (FailureKind::ScriptExhausted, ErrorPhase::Encode, RetryAdvice::Never)
        );
        assert_eq!(
            &*error.message,
            "x.jsonl: this call was asked of m more than the 2 times that were recorded (line 2, 3); record the run again"
        );
    }
}

/// A conversation of three turns.
fn conversation(last: &str) -> ModelRequest {
    let mut request = ModelRequest::new("m", "Rules.", "First.");
    request.messages.extend([Message::assistant("Second."), Message::user(last)]);
    request
}

#[tokio::test]
async fn a_request_that_was_not_recorded_is_held_against_the_nearest() {
    let tape = Tape::new(Secrets::default());
    let model = tape.model(Fake::new([]));
    for (key, request) in
        [("1/main", request()), ("2/main", conversation("Third one.")), ("3/main", conversation("Other."))]
    {
        let mut request = request;
        request.meta.key = key.into();
        hear(&model, &request).await;
    }
    let recorded = played(&tape.text());
    let check = async |request: &ModelRequest, wanted: &str| {
        let error = complete(&recorded, request).await.unwrap_err();
        assert_eq!(&*error.message, wanted);
        assert_eq!(error.kind, FailureKind::ScriptExhausted);
    };
    let mut requested = conversation("Third two.");
    requested.meta.key = "7/main".into();
    check(
        &requested,
        "x.jsonl: the call 7/main of m was not recorded; the nearest is line 3 (2/main), which differs first in \
         messages[2].text at byte 6: recorded is \"one.\", asked is \"two.\"",
    )
    .await;
    let mut requested = conversation("Third one.");
    requested.max_output_tokens = Some(7);
    check(
        &requested,
        "x.jsonl: this call of m was not recorded; the nearest is line 3 (2/main), which differs first in \
         max_output_tokens at byte 0: recorded is \"4096\", asked is \"7\"",
    )
    .await;
    let mut requested = conversation("Third one.");
    requested.messages.push(Message::user("More."));
    check(
        &requested,
        "x.jsonl: this call of m was not recorded; the nearest is line 3 (2/main), which differs first in what it \
         holds: recorded is max_output_tokens, asked is messages[3].role",
    )
    .await;
    let mut requested = conversation("Third one.");
    requested.model = "n".into();
    check(&requested, "x.jsonl: no call of the model `n` was recorded; recorded is `m`").await;
    assert_eq!(recorded.models(), ["m".into()]);
    assert_eq!((recorded.model_of("base").as_deref(), recorded.model_of("selector")), (Some("m"), None));
    let shown = format!("{recorded:?}");
    assert!(shown.contains("exchanges: 3") && !shown.contains("Rules"), "{shown}");
    let empty = played("{\"recording\":1}\n");
    let error = complete(&empty, &requested).await.unwrap_err();
    assert_eq!(&*error.message, "x.jsonl: no call of the model `n` was recorded; recorded is nothing");
    // What a model does not see makes no other request of it.
    let mut requested = conversation("Third one.");
    (requested.meta, requested.no_stream, requested.service_tier) =
        (patient(3).meta, true, Some("flex".into()));
    requested.cache.long = true;
    assert!(complete(&recorded, &requested).await.is_ok());
}

/// A prompt as a run renders it, with this nonce.
fn prompt(nonce: &str) -> ModelRequest {
    let user = format!(
        "The nonce of this run is `{nonce}`. Put it in.\n\n<<<E0 {nonce}>>>\nA ticket.\n<<<end E0 {nonce}>>>"
    );
    ModelRequest::new("m", "You analyse.", user)
}

/// A prompt of the selector: its nonce stands in marks alone, behind a title that pretends.
fn select(nonce: &str) -> ModelRequest {
    let user = format!(
        "## <<<E0 pretender>>> <<<end E0 pretender>>>\n\n<<<E0 {nonce}>>>\nx <<<end E0 forged-by-item>>>\n<<<end E0 {nonce}>>>\n"
    );
    ModelRequest::new("m", "You select.", user)
}

/// A reply that names its nonce, cut in the middle of it.
fn naming(nonce: &str) -> Vec<Result<ModelEvent, LlmError>> {
    let (one, two) = nonce.split_at(5);
    let whole = format!("{{\"nonce\": \"{nonce}\"}}");
    vec![Ok(text(&format!("{{\"nonce\": \"{one}"))), Ok(text(two)), Ok(text("\"}")), Ok(finished(&whole, 1))]
}

#[tokio::test]
async fn a_run_with_another_nonce_gets_its_own_and_records_the_same_file() {
    for prompt in [prompt, select] {
        let (first, second) = ("0123456789abcdef", "fedcba9876543210");
        let file = recording(vec![Step::Give(naming(first), Duration::ZERO)], &prompt(first)).await;
        assert!(!file.contains(first) && file.contains("\"nonce\":\"{{nonce}}\""), "{file}");
        let recorded = Arc::new(played(&file));
        let tape = Tape::new(Secrets::default());
        let received = hear(&tape.model(Arc::clone(&recorded)), &prompt(second)).await;
        let reported: String = received
            .iter()
            .map(|event| match event {
                Ok(ModelEvent::TextDelta { text }) => text.to_string(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(reported, format!("{{\"nonce\": \"{second}\"}}"));
        assert!(matches!(received.last(), Some(Ok(ModelEvent::Finished(reply))) if *reply.text == *reported));
        assert_eq!(received.len(), 4);
        assert_eq!(tape.text(), file);
    }
}

#[tokio::test]
async fn a_text_that_holds_the_word_for_the_nonce_stays_as_it_is() {
    let nonce = "0123456789abcdef";
    let mut requested = prompt(nonce);
    requested.system = "Write {{nonce}}.".into();
    let word = format!("{{{{nonce}}}} {nonce}");
    let file = recording(vec![Step::Give(stated(&word), Duration::ZERO)], &requested).await;
    assert!(file.contains("\"nonce\":\"{{nonce_2}}\""), "{file}");
    assert_eq!(&*complete(&played(&file), &requested).await.unwrap().text, word);
}

#[tokio::test(start_paused = true)]
async fn what_its_caller_left_ends_with_an_error_at_once() {
    let tape = Tape::new(Secrets::default());
    let model = tape.model(Fake::new([Step::HangAfterWord, Step::Hang]));
    let mut stream = model.stream(&request()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert!(tokio::time::timeout(Duration::from_secs(8), complete(&model, &patient(8))).await.is_err());
    let file = tape.text();
    let again = Tape::new(Secrets::default());
    let model = again.model(Arc::new(played(&file)));
    hear(&model, &request()).await;
    hear(&model, &patient(8)).await;
    assert_eq!(again.text(), file, "what stands for a dropped exchange is written as one");
    let recorded = played(&file);
    let early = hear(&recorded, &request()).now_or_never().expect("nobody waits");
    assert_eq!(early[0], Ok(text("word")));
    let error = early[1].as_ref().unwrap_err();
    assert_eq!((error.kind, error.phase), (FailureKind::Cancelled, ErrorPhase::Stream));
    assert_eq!(&*error.partial.as_ref().unwrap().text, "word");
    // What had come of it is told in the end as well.
    let begun = ModelEvent::Started { reply: None, model: Some("m-2026".into()) };
    let events = [begun, ModelEvent::ReasoningDelta { text: "hm".into() }, text("w")].map(Ok).to_vec();
    let tape = Tape::new(Secrets::default());
    let model = tape.model(Fake::new([Step::Give(events, Duration::ZERO)]));
    let mut stream = model.stream(&request()).await.unwrap();
    for _ in 0..3 {
        assert!(stream.next().await.unwrap().is_ok());
    }
    drop(stream);
    let received = hear(&played(&tape.text()), &request()).await;
    let partial = received.last().unwrap().as_ref().unwrap_err().partial.clone().unwrap();
    assert_eq!((&*partial.text, &*partial.reasoning), ("w", "hm"));
    assert_eq!(partial.served_model.as_deref(), Some("m-2026"));
    let late = hear(&recorded, &patient(8)).now_or_never().expect("nobody waits");
    assert_eq!(late[0].as_ref().unwrap_err().kind, FailureKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn tries_are_played_one_by_one() {
    let refused = Step::Refuse(error(FailureKind::ServerError));
    let steps = vec![refused.clone(), refused, Step::Give(stated("third"), Duration::ZERO)];
    let file = recording(steps, &request()).await;
    let model = Retrying::new(Arc::new(played(&file)), RetryPolicy::default());
    assert_eq!(&*complete(&model, &request()).await.unwrap().text, "third");
    assert_eq!(complete(&model, &request()).await.unwrap_err().kind, FailureKind::ScriptExhausted);
}

#[tokio::test]
async fn a_request_with_a_secret_is_found_with_the_secret_known() {
    let secrets = || Secrets::of(["sk-canary/0123456789"]);
    let requested = ModelRequest::new("m", "s", "The key is sk-canary/0123456789.");
    let tape = Tape::new(secrets());
    hear(&tape.model(Fake::new([])), &requested).await;
    let file = tape.text();
    assert!(complete(&played(&file).with_secrets(secrets()), &requested).await.is_ok());
    let masked = ModelRequest::new("m", "s", "The key is [masked].");
    assert!(complete(&played(&file), &masked).await.is_ok());
    let error = complete(&played(&file).with_secrets(secrets()), &request()).await.unwrap_err();
    assert!(!error.message.contains("canary"));
}

#[tokio::test]
async fn damaged_files_say_what_and_where_and_how_to_revise_it() {
    let file = recording(vec![Step::Give(stated("one"), Duration::ZERO); 2], &request()).await;
    let check = |text: &str, wanted: &str| {
        let error = RecordedModel::read("x.jsonl", text).unwrap_err().to_string();
        assert!(error.starts_with(wanted) && !error.contains('\n'), "{error}");
    };
    let header = "not a recording: the first line has to be {\"recording\":1}; name a file that was recorded";
    for text in ["", "\n", "{}\n", "[\n", "{\"version\": 1, \"replies\": []}"] {
        check(text, &format!("x.jsonl:1: {header}"));
    }
    check(
        "{\"recording\":2}\n",
        "x.jsonl:1: recording version 2 cannot be read; this program reads version 1",
    );
    for cut in 17..file.len() - 1 {
        if file.as_bytes()[cut - 1] == b'\n' {
            continue;
        }
        let number = file[..cut].lines().count();
        let text = &file[..cut];
        match RecordedModel::read("x.jsonl", text) {
            // A line that lost nothing but its end is whole.
            Ok(_) => assert!(text.ends_with('}'), "{text}"),
            Err(error) => assert_eq!(
                error.to_string(),
                format!("x.jsonl:{number}: the line was cut off while it was written; remove it")
            ),
        }
    }
    check(&file.replacen("\"seq\":1", "\"seq\":\"1\"", 1), "x.jsonl:2: not an exchange: invalid type");
    check(&file.replacen("\"seq\":1", "\"sec\":1", 1), "x.jsonl:2: not an exchange: unknown field `sec`");
    let edited = file.replacen("\"system\":\"s\"", "\"system\":\"t\"", 1);
    check(&edited, "x.jsonl:2: the request is not the one that `content` was made of; record the run again");
    // A reply may be edited, and blank lines do no harm.
    let edited = file.replace("\"text\":\"one\"", "\"text\":\"two\"").replace('\n', "\r\n\n");
    assert_eq!(&*complete(&played(&edited), &request()).await.unwrap().text, "two");
    let absent = RecordedModel::open("/no/such.jsonl").unwrap_err().to_string();
    assert!(
        absent.starts_with("/no/such.jsonl: cannot read the recording: ")
            && absent.ends_with("name a file that was recorded")
    );
}

/// The request that the sample of version 1 was recorded with.
fn sample_request() -> ModelRequest {
    serde_json::from_value(json!({
        "model": "m",
        "system": "Rules.",
        "messages": [
            {"role": "user", "text": "The nonce of this run is `0123456789abcdef`."},
            {"role": "assistant", "text": "Wait.", "calls": [{"id": "c1", "name": "get_order", "arguments": "{\"id\":7}"}]},
            {"role": "tool", "results": [{"call": "c1", "text": "The order was sent to sk-canary/0123456789."}]},
        ],
        "max_output_tokens": 100,
        "tools": [{"name": "get_order", "description": "One order.", "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}}}],
        "meta": {"run": "r", "key": "2/main", "attempt": 1},
    })).unwrap()
}

#[tokio::test]
async fn the_sample_of_version_1_still_loads_and_plays() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/recording_1.jsonl");
    let secrets = Secrets::of(["sk-canary/0123456789"]);
    let recorded = RecordedModel::open(path).unwrap().with_secrets(secrets);
    let live = Fake::new(steps());
    for _ in 0..5 {
        assert_eq!(hear(&recorded, &sample_request()).await, hear(&*live, &sample_request()).await);
    }
    let left = hear(&recorded, &sample_request()).await;
    assert_eq!(left[1].as_ref().unwrap_err().kind, FailureKind::Cancelled);
    let named = hear(&recorded, &sample_request()).await;
    assert_eq!(named[0], Ok(text("{\"nonce\": \"0123456789abcdef")));
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z \n\"\\\\{}é/]{0,6}",
        1 => Just("sk-canary/0123456789".to_owned()),
        1 => Just("0123456789abcdef".to_owned()),
        1 => Just("sk-canary\\/01234".to_owned()),
        1 => Just("{{nonce}}".to_owned()),
    ]
}

fn event() -> impl Strategy<Value = ModelEvent> {
    let piece = || prop::collection::vec(word(), 0..3).prop_map(|words| Arc::<str>::from(words.concat()));
    prop_oneof![
        piece().prop_map(|text| ModelEvent::TextDelta { text }),
        piece().prop_map(|text| ModelEvent::ReasoningDelta { text }),
        (0..2_u32, piece()).prop_map(|(nth, text)| ModelEvent::ToolArgumentsDelta { nth, text }),
        piece().prop_map(|name| ModelEvent::ToolCallStarted { nth: 0, name }),
        piece().prop_map(|reply| ModelEvent::Started { reply: Some(reply), model: None }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_recording_plays_back_to_itself_and_holds_no_secret(
        exchanges in prop::collection::vec((word(), prop::collection::vec(event(), 0..8), word()), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async move {
            let secrets = || Secrets::of(["sk-canary/0123456789"]);
            let requested: Vec<ModelRequest> = exchanges.iter().map(|(user, _, _)| {
                let mut request = prompt("0123456789abcdef");
                request.messages.push(Message::user(user.as_str()));
                request
            }).collect();
            let steps = exchanges.iter().map(|(_, events, text)| {
                let end = ModelReply { raw: Some(Raw::from_text(json!({"t": text}).to_string())), ..ModelReply::text(text.as_str(), None) };
                let end = ModelEvent::Finished(Box::new(end));
                Step::Give(events.iter().cloned().chain([end]).map(Ok).collect(), Duration::ZERO)
            });
            let tape = Tape::new(secrets());
            let model = tape.model(Fake::new(steps));
            for request in &requested {
                hear(&model, request).await;
            }
            let file = tape.text();
            assert!(!file.contains("/0123456789"), "{file}");
            assert!(!file.contains("0123456789abcdef"), "{file}");
            let again = Tape::new(secrets());
            let model = again.model(Arc::new(played(&file).with_secrets(secrets())));
            for request in &requested {
                let received = hear(&model, request).await;
                assert!(matches!(received.last(), Some(Ok(ModelEvent::Finished(_)))), "{received:?}");
            }
            assert_eq!(again.text(), file);
        });
    }
}
