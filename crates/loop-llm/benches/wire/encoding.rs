//! Nanoseconds to encode the next pass of a run, with what is kept of the passes before and without.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use loop_llm::codec::{Api, Codec, Encoded, Memory};
use loop_llm::{Message, ModelRequest, ToolDefinition, ToolOutput};
use serde_json::json;

use crate::decoding::decode;
use crate::streams::{Kind, stream};
use crate::{PROFILES, codec, cpu, median, model};

/// Which passes are encoded.
const PASSES: [usize; 4] = [2, 8, 32, 128];
/// The pass whose allocations are counted.
const COUNTED: usize = 128;
const RUNS: usize = 40;
/// How often a counted case is done at most.
const TIMES: usize = 2;

pub(crate) fn table() {
    println!(
        "\n{:26} {:>6} {:>9} {:>12} {:>12} {:>7}",
        "encoding", "pass", "KB", "ns, kept", "ns, fresh", "ratio"
    );
    for (api, _) in PROFILES {
        let codec = codec(api);
        for pass in PASSES {
            let request = request(&codec, api, pass);
            // All are there before the first is measured, and none is dropped in between: what the allocator has to
            // clear up after one is not part of the next.
            let requests: Vec<_> =
                (0..RUNS).map(|_| (primed(&codec, &request), with(&request, Memory::default()))).collect();
            let (mut kept, mut fresh, mut made) = (Vec::new(), Vec::new(), Vec::new());
            for (primed, bare) in &requests {
                let (time, encoded) = encode(&codec, primed);
                kept.push(time);
                made.push(encoded);
                let (time, encoded) = encode(&codec, bare);
                fresh.push(time);
                made.push(encoded);
            }
            let bytes = made.first().map_or(0, |encoded| encoded.body.len());
            let (kept, fresh) = (median(kept).as_nanos(), median(fresh).as_nanos());
            println!(
                "{:26} {pass:>6} {:>9.1} {kept:>12} {fresh:>12} {:>7.3}",
                format!("encode-{}", api.name()),
                bytes as f64 / 1e3,
                kept as f64 / fresh as f64
            );
        }
    }
}

fn encode(codec: &Codec, request: &ModelRequest) -> (Duration, Encoded) {
    let start = cpu();
    let encoded = black_box(codec.encode(black_box(request)).unwrap());
    (cpu() - start, encoded)
}

fn with(request: &ModelRequest, memory: Memory) -> ModelRequest {
    ModelRequest { memory, ..request.clone() }
}

/// The request with what is kept after the pass before it, whose turns it shares.
fn primed(codec: &Codec, request: &ModelRequest) -> ModelRequest {
    let mut before = with(request, Memory::default());
    before.messages.truncate(request.messages.len() - 2);
    codec.encode(&before).unwrap();
    with(request, before.memory)
}

/// The request of a pass: rules, tools, and for each pass before it a turn with reasoning, a text and a call, and its
/// result.
fn request(codec: &Codec, api: Api, pass: usize) -> ModelRequest {
    let turn = decode(codec, api, &stream(api, Kind::Turn, 300).0);
    let mut request = ModelRequest::new(model(api), RULES.repeat(40), "Look at the ticket of this morning.");
    let tool = |name: &str| ToolDefinition {
        name: name.into(),
        description: "Writes a note, or reads one that was written before.".into(),
        parameters: json!({"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}),
        strict: Default::default(),
    };
    request.tools = ["note", "look", "ask"].map(tool).into_iter().collect();
    for nth in 1..pass {
        let mut reply = turn.turn();
        if let Message::Assistant(turn) = &mut reply {
            turn.text = format!("{nth}. {}", turn.text).into();
        }
        let Message::Assistant(turn) = &reply else { unreachable!("a reply is a turn of the model's") };
        let results = turn.calls.iter().map(|call| ToolOutput {
            call: Arc::clone(&call.id),
            is_error: false,
            text: format!("{nth}: {}", RULES.repeat(20)).into(),
            ..ToolOutput::default()
        });
        let results = results.collect();
        request.messages.push(reply);
        request.messages.push(Message::Tool { results });
    }
    request
}

fn all() -> impl Iterator<Item = (Api, usize, bool)> {
    PROFILES.iter().flat_map(|(api, _)| [true, false].map(|is_kept| (*api, COUNTED, is_kept)))
}

fn name(api: Api, pass: usize, is_kept: bool) -> String {
    format!("encode-{}-{pass}-{}", api.name(), if is_kept { "kept" } else { "fresh" })
}

pub(crate) fn count(case: &str, times: usize) -> bool {
    let found = all().find(|(api, pass, is_kept)| name(*api, *pass, *is_kept) == case);
    let Some((api, pass, is_kept)) = found else { return false };
    let codec = codec(api);
    let request = request(&codec, api, pass);
    let requests: Vec<ModelRequest> = (0..TIMES)
        .map(|_| if is_kept { primed(&codec, &request) } else { with(&request, Memory::default()) })
        .collect();
    for request in requests.iter().take(times) {
        black_box(codec.encode(black_box(request)).unwrap());
    }
    true
}

const RULES: &str = "Say what was found, and where; cite what you were shown. ";
