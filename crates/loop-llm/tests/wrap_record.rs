//! What a recorder writes, when, and what it never writes.

use crate::{tape, wrap_common};

use std::io::{self, Write};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loop_core::secrets::Secrets;
use loop_core::types::FailureKind;
use loop_llm::error::Partial;
use loop_llm::request::Raw;
use loop_llm::wrap::{Recorder, RecordingModel};
use loop_llm::{ChatModel, ErrorPhase, LlmError, Message, ModelEvent, ModelReply, ModelRequest, complete};
use loop_testkit::call;
use serde_json::{Value, json};
use tape::{Tape, hear};
use wrap_common::{Fake, Step, asks, broken, error, finished, patient, request, stated, text};

fn give(events: impl IntoIterator<Item = ModelEvent>) -> Step {
    Step::Give(events.into_iter().map(Ok).collect(), Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn every_exchange_is_a_line_however_it_ends() {
    let fake = Fake::new([
        Step::Give(stated("hi"), Duration::ZERO),
        broken(FailureKind::StreamInterrupted),
        Step::Refuse(asks(FailureKind::RateLimited, 30)),
        Step::Give(Vec::new(), Duration::ZERO),
        Step::HangAfterWord,
        Step::Hang,
        Step::Hang,
    ]);
    let tape = Tape::new(Secrets::default());
    let model = tape.model(fake);
    for _ in 0..4 {
        hear(&model, &request()).await;
    }
    let mut stream = model.stream(&request()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    assert!(model.stream(&request()).now_or_never().is_none());
    let late = tokio::time::timeout(Duration::from_secs(8), complete(&model, &patient(8))).await;
    assert!(late.is_err());

    let lines = tape.lines();
    let ends: Vec<&Value> = lines.iter().map(|line| &line["end"]).collect();
    assert_eq!(ends[0]["type"], "reply");
    assert_eq!((&ends[0]["reply"]["text"], &ends[0]["reply"]["usage"]["input"]), (&json!("hi"), &json!(1)));
    assert_eq!(
        (&ends[1]["type"], &ends[1]["error"]["kind"]),
        (&json!("failed"), &json!("stream_interrupted"))
    );
    assert_eq!(ends[2]["type"], "refused");
    assert_eq!(ends[2]["error"]["retry"], json!({"after": {"secs": 30, "nanos": 0}}));
    assert_eq!(*ends[3], json!({"type": "broke_off"}));
    assert_eq!(*ends[4], json!({"type": "dropped", "is_late": false}));
    assert_eq!(*ends[5], json!({"type": "dropped", "is_late": false}));
    assert_eq!(*ends[6], json!({"type": "dropped", "is_late": true}));
    let word = json!([{"event": "text_delta", "text": "w"}]);
    let events: Vec<&Value> = lines.iter().map(|line| &line["events"]).collect();
    assert_eq!((events[1], events[2]), (&word, &json!([])));
    assert_eq!(events[4], &json!([{"event": "text_delta", "text": "word"}]));
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(tape.recorder.finish(), Ok(7));
    assert!(tape.text().starts_with("{\"recording\":1}\n") && tape.text().ends_with("}\n"));
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_one_run_alone_is_left_out() {
    let tape = Tape::new(Secrets::default());
    let model = tape.model(Fake::new([]));
    let mut requested = patient(8);
    requested.meta.run = "0192-run".into();
    requested.meta.key = "0192-run/2/action(1)".into();
    requested.meta.attempt = 3;
    requested.cache.key = Some("0192-run".into());
    hear(&model, &requested).await;
    let line = &tape.lines()[0];
    assert_eq!(
        (&line["key"], &line["attempt"], &line["model"], &line["tier"]),
        (&json!("2/action(1)"), &json!(3), &json!("m"), &json!("base"))
    );
    assert!(!tape.text().contains("0192-run"));
    assert!(!tape.text().contains("timeout_ms"));
    let request = line["request"].as_object().unwrap();
    assert!(!request.contains_key("meta") && !request.contains_key("model"));
    assert_eq!(request["system"], "s");
    // The digest is of what the model sees: another run, another try, and the same digest.
    hear(&model, &request_of(&requested)).await;
    assert_eq!(tape.lines()[0]["content"], tape.lines()[1]["content"]);
    requested.max_output_tokens = Some(1);
    hear(&model, &requested).await;
    assert_ne!(tape.lines()[0]["content"], tape.lines()[2]["content"]);
}

fn request_of(requested: &ModelRequest) -> ModelRequest {
    ModelRequest { meta: Default::default(), cache: Default::default(), ..requested.clone() }
}

#[tokio::test]
async fn models_of_one_run_share_a_file() {
    let tape = Tape::new(Secrets::default());
    let tiers = ["selector", "base", "escalated"];
    let models: Vec<_> =
        tiers.iter().map(|tier| RecordingModel::new(Fake::new([]), tape.recorder.clone(), *tier)).collect();
    let requested = request();
    let calls = (0..60).map(|n| hear(&models[n % 3], &requested));
    futures::future::join_all(calls).await;
    let lines = tape.lines();
    assert_eq!(lines.len(), 60);
    for tier in tiers {
        assert_eq!(lines.iter().filter(|line| line["tier"] == *tier).count(), 20);
    }
}

const KEY: &str = "sk-canary/\"0123456789+x";
const PASSWORD: &str = "p@ss/word-in-url";

/// A reply that tells the key wherever a reply can hold something.
fn leak() -> Vec<ModelEvent> {
    let arguments =
        json!({"url": format!("https://me:{PASSWORD}@host/?k=sk-canary%2F%220123456789%2Bx"), "key": KEY})
            .to_string();
    let calls = vec![call(KEY, "get", &arguments), call("c2", "get", &format!("{{\"key\": \"{KEY}"))];
    let wire =
        json!({"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}], "note": KEY});
    let reply = ModelReply {
        tool_calls: calls,
        raw: Some(Raw::from_text(format!("openai-chat/p/m\n{}", wire.to_string().replace('/', "\\/")))),
        reasoning: format!("the key is {KEY}").into(),
        refusal: Some(KEY.into()),
        raw_stop: Some(KEY.into()),
        warnings: vec![format!("odd({KEY})").into()],
        served_model: Some(KEY.into()),
        ..ModelReply::text(format!("you are {KEY}, are you?"), None)
    };
    let mut events = vec![ModelEvent::Started { reply: Some(KEY.into()), model: Some(KEY.into()) }];
    events.extend(pieces("you are ", KEY).map(|text| ModelEvent::TextDelta { text }));
    events.extend(pieces("the key is ", KEY).map(|text| ModelEvent::ReasoningDelta { text }));
    events.push(ModelEvent::ToolCallStarted { nth: 0, name: KEY.into() });
    let half = arguments.len() / 2;
    events.extend(
        [&arguments[..half], &arguments[half..]]
            .map(|piece| ModelEvent::ToolArgumentsDelta { nth: 0, text: piece.into() }),
    );
    events.push(ModelEvent::Finished(Box::new(reply)));
    events
}

/// A text in pieces of three bytes.
fn pieces(before: &str, secret: &str) -> impl Iterator<Item = Arc<str>> {
    let bytes = format!("{before}{secret}").into_bytes();
    let pieces: Vec<Arc<str>> = bytes.chunks(3).map(|piece| str::from_utf8(piece).unwrap().into()).collect();
    pieces.into_iter()
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_written_in_any_form() {
    let reported = |phase| {
        let partial = Partial { text: format!("so far {KEY}").into(), ..Partial::default() };
        let mut error = LlmError::new(FailureKind::Auth, phase, format!("wrong key {KEY}"));
        error.partial = Some(partial.into());
        error.detail.get_or_insert_default().request = Some(KEY.into());
        error
    };
    let broken = Step::Give(vec![Ok(text(&KEY[..15])), Err(reported(ErrorPhase::Stream))], Duration::ZERO);
    let fake = Fake::new([give(leak()), broken, Step::Refuse(reported(ErrorPhase::Headers)), Step::Hang]);
    let tape = Tape::new(Secrets::of([KEY, PASSWORD, &KEY.to_lowercase()]));
    let model = RecordingModel::new(fake, tape.recorder.clone(), KEY);
    let mut requested =
        ModelRequest::new(format!("model-{KEY}"), format!("rules {KEY}"), format!("user {KEY}"));
    requested.meta.key = KEY.into();
    requested.messages.push(ModelReply { raw: None, ..reply_of(&leak()) }.turn());
    requested.messages.push(reply_of(&leak()).turn());
    let results = vec![
        serde_json::from_value(json!({"call": KEY, "text": format!("{{\"env\": {:?}}}", KEY)})).unwrap(),
    ];
    requested.messages.push(Message::Tool { results });
    requested.stop = vec![KEY.into()];
    requested.extra.insert(KEY.into(), json!({"deep": [KEY]}));
    for _ in 0..3 {
        hear(&model, &requested).await;
    }
    assert!(model.stream(&requested).now_or_never().is_none());

    let file = tape.text();
    assert_eq!(tape.recorder.finish(), Ok(4));
    for shown in ["0123456789", "canary", "p@ss", "word-in-url", "word%2D"] {
        assert!(!file.contains(shown), "{shown} in {file}");
    }
    // Pieces are as many as they were, and say the same as the whole text.
    let line = &tape.lines()[0];
    let reported: Vec<&str> = line["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event"] == "text_delta")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!((reported.len(), reported.concat().as_str()), (11, "you are [masked]"));
    assert_eq!(line["end"]["reply"]["text"], "you are [masked], are you?");
    let arguments = line["end"]["reply"]["tool_calls"][0]["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments["key"], "[masked]");
    assert_eq!(tape.lines()[1]["events"][0]["text"], "[masked]", "more than half of a secret is one");
}

fn reply_of(events: &[ModelEvent]) -> ModelReply {
    match events.last() {
        Some(ModelEvent::Finished(reply)) => (**reply).clone(),
        _ => unreachable!("a reply ends with its end"),
    }
}

#[tokio::test]
async fn short_secrets_are_masked_in_messages_alone() {
    let refused =
        Step::Refuse(LlmError::new(FailureKind::Auth, ErrorPhase::Headers, "the key dummy is wrong"));
    let tape = Tape::new(Secrets::of(["dummy"]));
    let model = tape.model(Fake::new([refused]));
    hear(&model, &ModelRequest::new("m", "s", "a dummy")).await;
    let line = &tape.lines()[0];
    assert_eq!(line["end"]["error"]["message"], "the key [masked] is wrong");
    assert_eq!(line["request"]["messages"][0]["text"], "a dummy");
}

#[tokio::test]
async fn a_secret_that_is_a_word_of_the_form_ends_the_recording_and_not_the_run() {
    let tape = Tape::new(Secrets::of(["end_turn"]));
    let model = tape.model(Fake::new([]));
    assert!(complete(&model, &request()).await.is_ok());
    assert!(complete(&model, &request()).await.is_ok());
    let error = tape.recorder.finish().unwrap_err().to_string();
    assert_eq!(
        error,
        "the recording of this run ends before call 1: a secret is also a word of the file's own form; use another key"
    );
}

/// Takes so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_full_disk_ends_the_recording_and_not_the_run() {
    let recorder = Recorder::to(Full(1_000), Secrets::default()).unwrap();
    let model = RecordingModel::new(Fake::new([]), recorder.clone(), "base");
    for _ in 0..9 {
        assert!(complete(&model, &request()).await.is_ok());
    }
    let error = recorder.finish().unwrap_err().to_string();
    assert!(
        error.starts_with("the recording of this run is not whole: no space left; nothing after call "),
        "{error}"
    );
    let error = Recorder::to(Full(3), Secrets::default()).unwrap_err().to_string();
    assert_eq!(error, "the recording of this run is not whole: no space left; nothing after call 0 is in it");
}

/// Cuts the second exchange in the middle, and then takes everything.
struct Flaky(u32, Arc<Mutex<Vec<u8>>>);

impl Write for Flaky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        match self.0 {
            3 => self.1.lock().unwrap().write(&bytes[..9]),
            4 => Err(io::Error::other("no answer")),
            _ => self.1.lock().unwrap().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_is_written_behind_a_line_that_was_cut() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder::to(Flaky(0, Arc::clone(&written)), Secrets::default()).unwrap();
    let model = RecordingModel::new(Fake::new([]), recorder.clone(), "base");
    for _ in 0..4 {
        assert!(complete(&model, &request()).await.is_ok());
    }
    let error = recorder.finish().unwrap_err().to_string();
    assert_eq!(error, "the recording of this run is not whole: no answer; nothing after call 1 is in it");
    let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
    assert!(text.ends_with("}\n{\"seq\":2,"), "{text}");
}

/// Takes bytes when it is let.
struct Slow(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.starts_with(b"{\"recording\"") {
            let _ = self.0.recv();
        }
        self.1.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_disk_that_stalls_holds_up_no_run_and_loses_nothing() {
    let (go, stop) = mpsc::channel();
    let written = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder::to(Slow(stop, Arc::clone(&written)), Secrets::default()).unwrap();
    let model = RecordingModel::new(Fake::new([]), recorder, "base");
    for _ in 0..3 {
        assert!(complete(&model, &request()).await.is_ok());
    }
    assert_eq!(
        written.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(),
        1,
        "nothing but the first line"
    );
    drop(go);
    // The last clone goes, and what has ended is written by then.
    drop(model);
    assert_eq!(written.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 4);
}

#[tokio::test]
async fn a_file_is_new_and_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let recorder = Recorder::create(&path, Secrets::default()).unwrap();
    let model = RecordingModel::new(Fake::new([give([finished("hi", 1)])]), recorder.clone(), "base");
    hear(&model, &request()).await;
    assert_eq!(recorder.finish(), Ok(1));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let again = Recorder::create(&path, Secrets::default()).unwrap_err().to_string();
    assert_eq!(again, format!("the recording {} exists; name another file, or remove it", path.display()));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    let nowhere =
        Recorder::create(folder.path().join("no/x.jsonl"), Secrets::default()).unwrap_err().to_string();
    assert!(
        nowhere.starts_with("cannot begin the recording ")
            && nowhere.ends_with("name a file that can be written")
    );
    assert!(format!("{recorder:?} {model:?}").contains("Recorder"));
}

#[tokio::test]
async fn recording_changes_nothing_that_the_caller_sees() {
    let steps = || {
        [
            give(leak()),
            broken(FailureKind::Overloaded),
            Step::Refuse(error(FailureKind::Auth)),
            Step::Give(Vec::new(), Duration::ZERO),
        ]
    };
    let tape = Tape::new(Secrets::of([KEY]));
    let (bare, recorded) = (Fake::new(steps()), tape.model(Fake::new(steps())));
    for _ in 0..4 {
        assert_eq!(hear(&*bare, &request()).await, hear(&recorded, &request()).await);
    }
}
