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
    let (mut n, mut bad, mut raws) = (0, 0, 0);
    for line in file.lines() {
        let r: Value = serde_json::from_str(line).unwrap();
        let endpoint = r["endpoint"].as_str().unwrap();
        let status = r["status"].as_u64().unwrap() as u16;
        let body = r["response_body"].as_str().unwrap_or("").as_bytes();
        if status >= 300 {
            let e = classify(
                status,
                &Default::default(),
                body,
                std::time::SystemTime::now(),
                &Secrets::default(),
            );
            println!("ERR {endpoint} {status} {:?} {:?} {}", e.kind, e.retry, e.message);
        }
        if endpoint != "openai_responses" || status != 200 {
            continue;
        }
        n += 1;
        let profile = match r["provider"].as_str().unwrap() {
            "azure" => "azure-responses",
            p => p,
        };
        let codec = Codec::new(Profile::named(profile).unwrap());
        let mut request = ModelRequest::new(r["model"].as_str().unwrap_or("m"), "", "hi");
        if std::env::var("STOP").is_ok() {
            request.stop = vec!["\u{1}\u{2}".into()];
        }
        let items = run(&codec, &request, vec![body]);
        if body.len() < 200_000 {
            assert_eq!(run(&codec, &request, body.chunks(1).collect()), items);
        }
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
                    format!("{:?}", reply.tool_calls.iter().map(|c| c.id.to_string()).collect::<Vec<_>>()),
                    format!(
                        "{:?}",
                        e["tool_calls"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .filter_map(|c| c["id"].as_str())
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    ),
                );
                let stop = match e["finish"].as_str().unwrap_or("") {
                    "completed" if !ours.is_empty() => Stop::ToolUse,
                    "completed"
                        if reply.text.is_empty()
                            && reply.refusal.is_none()
                            && e["server_tools"].as_array().is_none_or(|x| x.is_empty()) =>
                    {
                        Stop::Empty
                    }
                    "completed" => Stop::EndTurn,
                    _ => Stop::Other,
                };
                cmp("stop", format!("{:?}", reply.stop), format!("{:?}", Some(stop)));
                let u = &e["usage"];
                let g = |k: &str| u[k].as_u64().unwrap_or(0);
                cmp(
                    "usage",
                    format!(
                        "{:?}",
                        reply.usage.map(|u| (u.total_input(), u.total_output(), u.reasoning, u.cache_read))
                    ),
                    format!(
                        "{:?}",
                        Some((
                            g("input_tokens"),
                            g("output_tokens"),
                            u["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0),
                            u["input_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0)
                        ))
                    ),
                );
                if let Some(err) = e.get("error").filter(|e| !e.is_null()) {
                    diffs.push(format!("expected error {err}"));
                }
                if !reply.warnings.is_empty() {
                    println!("warn {id} {:?}", reply.warnings);
                }
                if profile == "xai" {
                    println!("cost {:?} tier {:?}", reply.cost, reply.served_tier);
                }
                if let Some(raw) = &reply.raw {
                    raws += 1;
                    let list: Value = serde_json::from_str(&format!("[{}]", raw.json())).unwrap();
                    let kinds: Vec<_> = list
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|i| (i["type"].as_str().unwrap().to_owned(), i.get("id").is_some()))
                        .collect();
                    println!("raw {kinds:?}");
                    if !r["streaming"].as_bool().unwrap() {
                        let all: Value = serde_json::from_slice(body).unwrap();
                        if all["output"] != list {
                            println!("  not all of it");
                        }
                    }
                } else if reply.reasoning.len() > 0 {
                    println!("reasoned without raw {id} {:?}", reply.usage);
                }
            }
            other => panic!("{other:?}"),
        }
        if !diffs.is_empty() {
            bad += 1;
            println!("== {id} {profile} {}\n   {}", r["streaming"], diffs.join("\n   "));
        }
    }
    println!("{n} exchanges, {bad} differ, {raws} raws");
}
