//! Throw-away.
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use loop_llm::*;
use serde_json::Value;

fn run(codec: &Codec, request: &ModelRequest, pieces: Vec<&[u8]>) -> Vec<Result<ModelEvent, LlmError>> {
    let mut d = codec.decoder(request, Aliases::default(), Secrets::default());
    let mut items = vec![];
    for p in pieces {
        items.extend(d.push(p));
    }
    items.extend(d.finish());
    items
}

#[test]
fn cassettes() {
    let file = std::fs::read_to_string("/work/shared/corpora/cassettes_dev.jsonl").unwrap();
    let (mut n, mut bad) = (0, 0);
    for line in file.lines() {
        let r: Value = serde_json::from_str(line).unwrap();
        let endpoint = r["endpoint"].as_str().unwrap();
        let profile = match endpoint {
            "gemini_generate" | "gemini_stream" => "gemini",
            "openai_chat" => match r["provider"].as_str().unwrap() {
                "mistral" => "mistral",
                "groq" => "groq",
                "deepseek" => "deepseek",
                "openrouter" => "openrouter",
                "xai" => "xai-chat",
                "openai" => "openai-chat",
                _ => "compatible",
            },
            _ => continue,
        };
        if r["status"] != 200 {
            continue;
        }
        n += 1;
        let codec = Codec::new(Profile::named(profile).unwrap());
        let request = ModelRequest::new(r["model"].as_str().unwrap_or("m"), "", "hi");
        let body = r["response_body"].as_str().unwrap().as_bytes();
        let items = run(&codec, &request, vec![body]);
        assert_eq!(run(&codec, &request, body.chunks(1).collect()), items);
        for seed in 1..4usize {
            assert_eq!(run(&codec, &request, body.chunks(seed * 17 + 1).collect()), items);
        }
        let e = &r["expect"];
        let id = r["id"].as_str().unwrap();
        let mut diffs: Vec<String> = vec![];
        match items.last().unwrap() {
            Err(error) => diffs.push(format!("error {error:?} expected {}", e)),
            Ok(ModelEvent::Finished(reply)) => {
                let mut cmp = |what: &str, a: String, b: String| {
                    if a != b {
                        diffs.push(format!("{what}: ours {a:.300} | expected {b:.300}"))
                    }
                };
                cmp("text", reply.text.to_string(), e["text"].as_str().unwrap_or("").into());
                cmp("reasoning", reply.reasoning.to_string(), e["reasoning"].as_str().unwrap_or("").into());
                cmp(
                    "refusal",
                    reply.refusal.as_deref().unwrap_or("").into(),
                    e["refusal"].as_str().unwrap_or("").into(),
                );
                let ours: Vec<_> = reply
                    .tool_calls
                    .iter()
                    .map(|c| {
                        (
                            c.name.to_string(),
                            match &c.arguments {
                                Arguments::Object { value, .. } => Value::Object(value.clone()),
                                Arguments::Invalid { text, .. } => Value::String(text.to_string()),
                            },
                        )
                    })
                    .collect();
                let theirs: Vec<_> = e["tool_calls"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|c| {
                        (
                            c["name"].as_str().unwrap().to_owned(),
                            match &c["arguments"] {
                                Value::String(s) => {
                                    serde_json::from_str(s).unwrap_or(Value::String(s.clone()))
                                }
                                v => v.clone(),
                            },
                        )
                    })
                    .collect();
                cmp("calls", format!("{ours:?}"), format!("{theirs:?}"));
                cmp(
                    "ids",
                    format!(
                        "{:?}",
                        reply
                            .tool_calls
                            .iter()
                            .zip(e["tool_calls"].as_array().unwrap())
                            .filter(|(_, e)| !e["id"].is_null() && e["id"] != "")
                            .map(|(c, _)| c.id.to_string())
                            .collect::<Vec<_>>()
                    ),
                    format!(
                        "{:?}",
                        e["tool_calls"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .filter_map(|c| c["id"].as_str())
                            .filter(|i| !i.is_empty())
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    ),
                );
                let word = e["finish"].as_str().unwrap_or("");
                let stop = match word.trim_start_matches("blocked:") {
                    "stop" | "STOP" | "tool_calls" | "function_call" if !ours.is_empty() => Stop::ToolUse,
                    "stop" | "STOP"
                        if reply.text.is_empty()
                            && reply.refusal.is_none()
                            && e["server_tools"].as_array().is_none_or(|x| x.is_empty()) =>
                    {
                        Stop::Empty
                    }
                    "stop" | "STOP" if reply.refusal.is_some() => Stop::Refusal,
                    "stop" | "STOP" => Stop::EndTurn,
                    "length" | "MAX_TOKENS" => Stop::MaxTokens,
                    "content_filter" | "MODEL_ARMOR" => Stop::ContentFilter,
                    _ => Stop::Other,
                };
                cmp("stop", format!("{:?}", reply.stop), format!("{:?}", Some(stop)));
                if profile == "gemini" {
                    let u = &e["usage"];
                    let g = |k: &str| u[k].as_u64().unwrap_or(0);
                    let wanted = (u.get("promptTokenCount").is_some()).then(|| {
                        (
                            g("promptTokenCount") - g("cachedContentTokenCount")
                                + g("toolUsePromptTokenCount"),
                            g("cachedContentTokenCount"),
                            g("candidatesTokenCount"),
                            g("thoughtsTokenCount"),
                        )
                    });
                    cmp(
                        "usage",
                        format!("{:?}", reply.usage.map(|u| (u.input, u.cache_read, u.output, u.reasoning))),
                        format!("{wanted:?}"),
                    );
                } else if let Some(u) = e["usage"].as_object() {
                    let g = |k: &str| u.get(k).and_then(Value::as_u64).unwrap_or(0);
                    let (prompt, comp) = (g("prompt_tokens"), g("completion_tokens"));
                    cmp(
                        "usage",
                        format!("{:?}", reply.usage.map(|u| (u.total_input(), u.total_output()))),
                        if prompt + comp == 0 {
                            format!("{:?}", reply.usage.map(|u| (u.total_input(), u.total_output())))
                        } else {
                            format!("{:?}", Some((prompt, comp)))
                        },
                    );
                }
                if let Some(err) = e.get("error").filter(|e| !e.is_null()) {
                    diffs.push(format!("expected error {err}"));
                }
                if !reply.warnings.is_empty() {
                    println!("warn {id} {:?}", reply.warnings);
                }
                if std::env::var("SHOW").is_ok_and(|s| id.contains(&s)) {
                    println!("{id} raw {:?}", reply.raw);
                }
            }
            other => panic!("{other:?}"),
        }
        if !diffs.is_empty() {
            bad += 1;
            println!("== {id} {profile} {}\n   {}", r["streaming"], diffs.join("\n   "));
        }
    }
    println!("{n} exchanges, {bad} differ");
}
