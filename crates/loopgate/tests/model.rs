//! `loopgate model`: one call over each protocol, recorded bytes, and what a person is told when it does not work.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use loop_llm::{Profile, Scripted};
use loop_mock::{Behaviour, LoopbackServer, Service};
use serde_json::{Value, json};

const PROTOCOLS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

fn loopgate(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopgate"));
    command.arg("model").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "LOOPGATE_PRICES"] {
        command.env_remove(variable);
    }
    let mut child = command.spawn().unwrap();
    // A command that does not want its input may have closed it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn reply(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

/// A server on a thread of its own, since the command is waited for.
fn with_server<T>(service: Service, work: impl FnOnce(&str) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async { LoopbackServer::start(service).unwrap() });
    let result = work(&server.base_url());
    runtime.block_on(server.shutdown());
    result
}

const REQUEST: &[u8] =
    br#"{"model": "m", "system": "Be brief.", "messages": [{"role": "user", "text": "Hello?"}]}"#;

#[test]
fn a_call_has_the_same_reply_over_every_protocol_streamed_and_whole() {
    for provider in PROTOCOLS {
        for more in [&[][..], &["--no-stream"]] {
            let output = with_server(Service::of(Arc::new(Scripted::replies(["Good day."]))), |url| {
                let args =
                    [&["call", "--provider", provider, "--base-url", url, "--request", "-"], more].concat();
                loopgate(&args, REQUEST)
            });
            let reply = reply(&output);
            assert_eq!(output.status.code(), Some(0), "{provider}: {}", line(&output));
            assert_eq!(
                (&reply["text"], &reply["stop"]),
                (&json!("Good day."), &json!("end_turn")),
                "{provider}"
            );
            assert_eq!((&reply["error"], &reply["cost_pico_usd"]), (&Value::Null, &json!(0)));
            assert_eq!((&reply["tool_calls"], &reply["refusal"]), (&json!([]), &json!("")));
            assert!(reply["usage"]["output"].as_u64().unwrap() > 0);
            assert_eq!(reply["turn"]["role"], "assistant");
        }
    }
}

#[test]
fn events_come_as_lines_and_the_reply_is_the_last() {
    let output = with_server(Service::of(Arc::new(Scripted::replies(["One.\nTwo."]))), |url| {
        loopgate(
            &["call", "--provider", "anthropic", "--base-url", url, "--request", "-", "--events"],
            REQUEST,
        )
    });
    let lines: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let text: String = lines
        .iter()
        .filter(|line| line["event"] == "text_delta")
        .map(|line| line["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "One.\nTwo.");
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["text"]), (&json!("finished"), &json!("One.\nTwo.")));
}

#[test]
fn a_call_that_fails_is_told_as_json_and_is_not_tried_again() {
    let busy = Behaviour::status(
        429,
        r#"{"error": {"message": "slow down, sk-live-0123456789abcdef", "type": "rate_limit_error"}}"#,
    )
    .with_header("retry-after", "7");
    for provider in PROTOCOLS {
        let service = Service::of(Arc::new(Scripted::replies(["Good day."]))).first([busy.clone()]);
        let output = with_server(service, |url| {
            loopgate(&["call", "--provider", provider, "--base-url", url, "--request", "-"], REQUEST)
        });
        assert_eq!(output.status.code(), Some(6), "{provider}: {}", line(&output));
        let error = &reply(&output)["error"];
        assert_eq!(
            (&error["kind"], &error["retryable"]),
            (&json!("rate_limited"), &json!(true)),
            "{provider}"
        );
        assert_eq!((&error["retry_after_ms"], &error["status"]), (&json!(7_000), &json!(429)), "{provider}");
        assert!(!error["message"].as_str().unwrap().contains("0123456789abcdef"), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_one_line() {
    let call = |request: &str, more: &[&str]| {
        let args = [&["call", "--request", "-", "--base-url", "http://127.0.0.1:9/v1"], more].concat();
        let output = loopgate(&args, request.as_bytes());
        assert_eq!(output.status.code(), Some(1), "{request}: {}", line(&output));
        assert!(output.stdout.is_empty());
        line(&output)
    };
    let anthropic = &["--provider", "anthropic", "--model", "m"][..];
    let unknown = call(r#"{"messages": [], "temprature": 1}"#, anthropic);
    assert!(unknown.contains("unknown field `temprature`") && unknown.lines().count() == 1, "{unknown}");
    assert!(call("{", anthropic).contains("is not a neutral request"));
    let nameless = call(r#"{"messages": [{"role": "user", "text": "x"}]}"#, &["--provider", "anthropic"]);
    assert_eq!(nameless, "loopgate: no model is named; add --model NAME, or `model` to the request");
    assert!(
        call("{}", &["--provider", "antropic"])
            .contains("--provider antropic: unknown provider; did you mean `anthropic`?")
    );
    // A request that breaks the rules of a history is a call that failed before anything was sent.
    let output = loopgate(
        &[&["call", "--request", "-"], anthropic, &["--base-url", "http://127.0.0.1:9"]].concat(),
        br#"{"messages": [{"role": "assistant", "calls": [{"id": "c", "name": "n", "arguments": {}}]}]}"#,
    );
    let error = &reply(&output)["error"];
    assert_eq!((&error["kind"], &error["phase"]), (&json!("invalid_request"), &json!("encode")));
    // Without a key the provider's own server is not asked.
    let keyless = loopgate(&[&["call", "--request", "-"], anthropic].concat(), REQUEST);
    assert_eq!(
        line(&keyless),
        "loopgate: --provider anthropic: the environment variable `ANTHROPIC_API_KEY` is not set; set it to the model's key"
    );
}

#[test]
fn what_is_wrong_with_the_words_is_said_plainly_and_shows_no_secret() {
    let stated = |request: &str, more: &[&str]| {
        let args = [&["call", "--request", "-"], more].concat();
        let output = loopgate(&args, request.as_bytes());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", line(&output));
        line(&output)
    };
    for (request, expected) in [
        ("7", "expected an object at line 1 column 1"),
        ("[]", "expected an object at line 1 column 2"),
        (r#"{"messages": [], "temperature": "x"}"#, "expected a number at line 1"),
        (r#"{"messages": [], "max_output_tokens": -1}"#, "expected a whole number of 0 or more at line 1"),
        (r#"{"messages": [], "seed": 1.5}"#, "expected a whole number at line 1"),
        (r#"{"messages": {}}"#, "invalid type: object, expected an array at line 1"),
    ] {
        let stated = stated(request, &["--provider", "offline"]);
        assert!(stated.contains(expected), "{stated}");
        for word in ["struct", "u64", "i64", "f64", "enum", "elements"] {
            assert!(!stated.contains(word), "{stated}");
        }
    }
    let request = std::str::from_utf8(REQUEST).unwrap();
    let wrong = stated(request, &["--provider", "compatible", "--base-url", "ftp://me:canary@h"]);
    assert!(
        wrong.starts_with("loopgate: --base-url: the base URL must be") && !wrong.contains("canary"),
        "{wrong}"
    );
    let nowhere = stated(request, &["--provider", "azure"]);
    assert!(
        nowhere.contains("`azure` has no server that is the same for everybody; add a base URL"),
        "{nowhere}"
    );
    let named = stated(request, &["--provider", "groq", "--base-model", ""]);
    assert!(named.starts_with("loopgate: --base-model: the name is empty"), "{named}");
    let tier = Command::new(env!("CARGO_BIN_EXE_loopgate"))
        .args(["domain", "check", "x", "--base-url", "cheap=http://me:canary@h"])
        .output()
        .unwrap();
    assert!(
        line(&tier).contains("or TIER=URL with tier") && !line(&tier).contains("canary"),
        "{}",
        line(&tier)
    );
}

#[test]
fn help_names_every_provider_tier_and_protocol() {
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_loopgate")).args(args).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let call = help(&["model", "call"]);
    let words: Vec<&str> = call.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
    for profile in Profile::all() {
        assert!(words.contains(&&*profile.name), "{}", profile.name);
    }
    assert!(help(&[]).contains("selector, base, escalated or fallback"));
    assert!(help(&["mock"]).contains("OpenAI, Anthropic and Gemini"));
}

#[test]
fn prices_are_read_before_the_call_and_a_key_in_the_open_is_refused() {
    let service = Service::of(Arc::new(Scripted::replies(["Good day."])));
    with_server(service, |url| {
        let args =
            ["model", "call", "--provider", "compatible", "--base-url", url, "--request", "/none/such.json"];
        let run = |prices: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loopgate"));
            line(&command.args(args).env("LOOPGATE_PRICES", prices).output().unwrap())
        };
        assert!(run("/none/such.toml").starts_with("loopgate: /none/such.toml: cannot be read"));
        assert!(run("").starts_with("loopgate: /none/such.json: "));
    });
    let args = ["call", "--provider", "compatible", "--base-url", "http://me:word@no-such-host.invalid/v1"];
    let output = loopgate(&[&args[..], &["--request", "-"]].concat(), REQUEST);
    assert_eq!(
        line(&output),
        "loopgate: --base-url: the key of `compatible` would go over the network unencrypted; write https:// in its base \
         URL, or send none"
    );
}

#[test]
fn the_class_of_service_that_served_is_billed() {
    let body = |tier: &str| {
        json!({
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1_000, "completion_tokens": 1_000, "total_tokens": 2_000},
            "service_tier": tier,
        })
        .to_string()
    };
    let cost = |tier: &str| {
        let answer = Behaviour::status(200, body(tier)).with_header("content-type", "application/json");
        let service = Service::of(Arc::new(Scripted::replies(["unused"]))).first([answer]);
        let output = with_server(service, |url| {
            let named = ["--provider", "openai-chat", "--base-model", "gpt-5.5", "--base-url", url];
            loopgate(&[&["call", "--request", "-", "--no-stream"], &named[..]].concat(), REQUEST)
        });
        reply(&output)["cost_pico_usd"].clone()
    };
    assert_eq!((cost("default"), cost("priority")), (json!(35_000_000_000_u64), json!(87_500_000_000_u64)));
    assert_eq!(cost("of-nobody"), Value::Null, "a price that nobody knows is never the usual one");
}

#[test]
fn bytes_are_decoded_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let decode = |api: &str, body: &str, more: &[&str]| {
        let file = folder.path().join("body");
        fs::write(&file, body).unwrap();
        let args = [&["decode", "--api", api, file.to_str().unwrap()], more].concat();
        let output = loopgate(&args, b"");
        (output.status.code(), reply(&output))
    };
    let chat = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let (code, reply) = decode("openai-chat", chat, &["--stream"]);
    assert_eq!((code, &reply["text"], &reply["usage"]), (Some(0), &json!("Hi"), &Value::Null));
    let call = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"n","args":{"a":1}}}]},"finishReason":"STOP"}]}"#;
    let (code, reply) = decode("gemini", call, &[]);
    assert_eq!((code, &reply["stop"]), (Some(0), &json!("tool_use")));
    assert_eq!(reply["tool_calls"][0]["arguments"], r#"{"a":1}"#);
    for api in PROTOCOLS {
        for (body, kind) in [
            ("", "bad_response"),
            ("<html>", "bad_response"),
            ("null", "bad_response"),
            ("data: {", "stream_interrupted"),
        ] {
            let (code, reply) = decode(api, body, &[]);
            assert_eq!((code, reply["error"]["kind"].as_str()), (Some(6), Some(kind)), "{api} {body:?}");
        }
        let (code, reply) = decode(api, r#"{"error": {"message": "no"}}"#, &["--status", "401"]);
        assert_eq!((code, reply["error"]["kind"].as_str()), (Some(6), Some("auth")), "{api}");
    }
}

#[test]
fn a_run_is_recorded_and_played_back_and_its_cache_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let helpdesk = format!("{}/../../examples/helpdesk", env!("CARGO_MANIFEST_DIR"));
    let ticket = format!("{helpdesk}/tickets/T-1042.json");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopgate"));
        command.current_dir(folder.path()).args([
            "run",
            &helpdesk,
            &ticket,
            "--no-save",
            "--journal",
            "j.db",
        ]);
        command.args(args).output().unwrap()
    };
    let first = run(&["--record", "one.jsonl"]);
    let models = [
        "--model",
        "base=recorded/one.jsonl",
        "--model",
        "selector=recorded/one.jsonl",
        "--record",
        "two.jsonl",
    ];
    let second = run(&models);
    assert_eq!(first.stdout, second.stdout, "{}", line(&second));
    assert!(!first.stdout.is_empty());
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("one.jsonl"), read("two.jsonl"));
    let again = run(&["--record", "one.jsonl"]);
    assert!(again.status.code() == Some(1) && line(&again).contains("one.jsonl exists"), "{}", line(&again));
    let shown = Command::new(env!("CARGO_BIN_EXE_loopgate"))
        .current_dir(folder.path())
        .args(["show", "last", "--cache", "--journal", "j.db"])
        .output()
        .unwrap();
    let table = String::from_utf8(shown.stdout).unwrap();
    let second_pass = table.lines().find(|line| line.starts_with("2/main")).unwrap();
    assert!(
        second_pass.contains("base") && second_pass.contains(" %)") && !second_pass.contains("(0 %)"),
        "{table}"
    );
}
