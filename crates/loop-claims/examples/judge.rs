//! Reads JSONL `{id, locale?, start_ms?, item?, document, evidence: [{id, status?, markdown?, data?}]}`; prints `{id, claims, ns}`, a line each.
#![allow(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use loop_claims::{ClaimSources, claims};
use loop_core::types::{Arguments, CommandKey, Data, EvidenceId, Locale, Observation, Slot, Status};
use loop_core::{Evidence, WorkItem};
use serde_json::{Value, json};

fn main() {
    let stdin = std::io::stdin();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in stdin.lock().lines() {
        let line = line.unwrap();
        let case: Value = serde_json::from_str(&line).unwrap();
        let locale: Locale =
            case.get("locale").map_or(Locale::En, |l| serde_json::from_value(l.clone()).unwrap());
        let evidence: Vec<Evidence> = case["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                let id = e["id"].as_u64().unwrap() as u32;
                let status: Status =
                    e.get("status").map_or(Status::Ok, |s| serde_json::from_value(s.clone()).unwrap());
                let data: Data = e.get("data").cloned().unwrap_or(Value::Null).into();
                let markdown = e.get("markdown").and_then(Value::as_str).unwrap_or("");
                Evidence {
                    id: EvidenceId(id),
                    key: CommandKey::new(1, Slot::Action(id)),
                    pass: 1,
                    tool: "get".into(),
                    parameters: Arguments::from("{}"),
                    observation: Arc::new(Observation::new(status, "", markdown, data)),
                    shortened: false,
                }
            })
            .collect();
        let item = WorkItem::new("T-1", "ticket", "", case.get("item").and_then(Value::as_str).unwrap_or(""));
        let unix_ms = case.get("start_ms").and_then(Value::as_u64).unwrap_or(1_795_824_000_000);
        let document = loop_testkit::findings(case["document"].as_str().unwrap());
        let begin = Instant::now();
        let found = claims(
            &document,
            ClaimSources { evidence: &evidence, item: &item, unix_ms, utc_offset: 0, locale },
        );
        let ns = begin.elapsed().as_nanos() as u64;
        let list: Vec<Value> = found.iter().map(|c| json!({
            "value": &*c.value, "at": [c.at.start, c.at.end], "kind": c.kind.name(), "state": c.state.name(),
            "why": &*c.why, "wrong": c.wrong_citation, "evidence": c.evidence.iter().map(|e| e.0).collect::<Vec<_>>(),
        })).collect();
        writeln!(out, "{}", json!({"id": case["id"], "claims": list, "ns": ns})).unwrap();
    }
}
