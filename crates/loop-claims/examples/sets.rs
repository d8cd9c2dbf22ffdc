//! How the reader does on sets of texts that people labelled: `cargo xtask claims --public FOLDER`. Each file `*.jsonl` of the
//! folder is a set, each line a text:
//!
//! ```text
//! {"document": "It holds 20 GB [E1].", "evidence": [{"id": 1, "status": "ok", "markdown": "…", "data": …}], "item": "…",
//!  "locale": "en", "start_ms": 1795662600000, "bad": [[9, 14, "number"]], "skip": [], "marks": [[9, 14, "number"]]}
//! ```
//!
//! Places are in characters. `bad` is what the evidence does not support, `skip` what is in doubt, `marks` are true values;
//! without them all values of the reader outside of `bad` and `skip` are. All but `document` and `evidence` may be absent.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_claims::{Claim, ClaimSources, Grounding, claims};
use loop_core::types::{Arguments, CommandKey, EvidenceId, Locale, Observation, Slot, Status};
use loop_core::{Evidence, WorkItem};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Text {
    document: String,
    evidence: Vec<Piece>,
    #[serde(default)]
    item: String,
    #[serde(default)]
    locale: Locale,
    #[serde(default)]
    start_ms: u64,
    #[serde(default)]
    bad: Vec<Value>,
    #[serde(default)]
    skip: Vec<Value>,
    marks: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Piece {
    id: u32,
    status: Option<Status>,
    #[serde(default)]
    markdown: String,
    #[serde(default)]
    data: Value,
}

#[derive(Default)]
struct Counts {
    values: usize,
    flagged: usize,
    lies: usize,
    lies_found: usize,
}

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let files: BTreeMap<String, String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .map(|path| (path.file_stem().unwrap().display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect();
    println!("| set | texts | true values | contradicted | lies | contradicted |\n|---|---|---|---|---|---|");
    for (name, lines) in files {
        let texts: Vec<Text> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut all = Counts::default();
        texts.iter().for_each(|text| count(text, &mut all));
        let Counts { values, flagged, lies, lies_found } = all;
        println!("| {name} | {} | {values} | {flagged} | {lies} | {lies_found} |", texts.len());
    }
}

fn count(text: &Text, all: &mut Counts) {
    let found = read(text);
    let place = |at: usize| text.document[..at].chars().count();
    let read: Vec<(usize, usize, bool)> = found
        .iter()
        .map(|it| (place(it.at.start), place(it.at.end), it.state == Grounding::Contradicted))
        .collect();
    let meets = |from: usize, to: usize| move |it: &&(usize, usize, bool)| it.0 < to && from < it.1;
    let is_flagged = |from: usize, to: usize| read.iter().filter(meets(from, to)).any(|it| it.2);
    let span = |it: &Value| (usize_of(&it[0]), usize_of(&it[1]));
    let doubtful: Vec<(usize, usize)> = text.bad.iter().chain(&text.skip).map(span).collect();
    let marks: Vec<(usize, usize)> = match &text.marks {
        Some(marks) => marks.iter().map(span).collect(),
        None => read.iter().map(|it| (it.0, it.1)).collect(),
    };
    for (from, to) in marks {
        if doubtful.iter().all(|(start, end)| *end <= from || to <= *start) {
            all.values += 1;
            all.flagged += usize::from(is_flagged(from, to));
        }
    }
    for (from, to) in text.bad.iter().map(span) {
        // Only what the reader sees as a value counts: some texts are labelled as a whole.
        if read.iter().any(|it| meets(from, to)(&it)) {
            all.lies += 1;
            all.lies_found += usize::from(is_flagged(from, to));
        }
    }
}

fn usize_of(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn read(text: &Text) -> Vec<Claim> {
    let piece = |piece: &Piece| {
        let status = piece.status.unwrap_or(Status::Ok);
        Evidence {
            id: EvidenceId(piece.id),
            key: CommandKey::new(1, Slot::Action(piece.id)),
            pass: 1,
            tool: "get".into(),
            parameters: Arguments::from("{}"),
            observation: Arc::new(Observation::new(status, "", piece.markdown.as_str(), piece.data.clone())),
            shortened: false,
        }
    };
    let evidence: Vec<Evidence> = text.evidence.iter().map(piece).collect();
    let item = WorkItem::new("T-1", "ticket", "", &text.item);
    let (unix_ms, locale) = (text.start_ms, text.locale);
    claims(
        &loop_testkit::findings(&text.document),
        ClaimSources { evidence: &evidence, tools: &[], item: &item, unix_ms, utc_offset: 0, locale },
    )
}
