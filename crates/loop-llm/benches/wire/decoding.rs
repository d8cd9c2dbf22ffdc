//! Megabytes a second of each decoder.

use std::hint::black_box;

use loop_core::secrets::Secrets;
use loop_llm::codec::{Aliases, Api, Codec};
use loop_llm::{LlmError, ModelEvent, ModelReply, ModelRequest};

use crate::streams::{Kind, stream};
use crate::{PROFILES, codec, cpu, median, model};

/// Pieces of a stream.
const PIECES: usize = 6_000;
/// Pieces of a stream whose allocations are counted.
const COUNTED: usize = 1_000;
/// How a stream is cut.
const CUT: usize = 4 << 10;
const RUNS: usize = 31;

pub(crate) fn table() {
    println!("{:34} {:>9} {:>9} {:>8} {:>12}", "decoding", "events", "MB", "MB/s", "ns an event");
    let cases: Vec<_> = all()
        .map(|(api, kind)| {
            let (bytes, events) = stream(api, kind, PIECES);
            (api, kind, codec(api), bytes, events)
        })
        .collect();
    // All take turns, so that a slow moment of the machine is shared.
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..RUNS {
        for ((api, _, codec, bytes, _), times) in cases.iter().zip(&mut times) {
            let start = cpu();
            black_box(decode(codec, *api, black_box(bytes)));
            times.push(cpu() - start);
        }
    }
    for ((api, kind, _, bytes, events), times) in cases.iter().zip(times) {
        let time = median(times).as_secs_f64();
        let megabytes = bytes.len() as f64 / 1e6;
        println!(
            "{:34} {events:>9} {megabytes:>9.2} {:>8.0} {:>12.0}",
            name(*api, *kind),
            megabytes / time,
            time * 1e9 / *events as f64
        );
    }
}

fn all() -> impl Iterator<Item = (Api, Kind)> {
    PROFILES.iter().flat_map(|(api, _)| Kind::SINGLE.iter().map(|kind| (*api, *kind)))
}

fn name(api: Api, kind: Kind) -> String {
    format!("decode-{}-{}", api.name(), kind.name())
}

pub(crate) fn count(case: &str, times: usize) -> bool {
    let Some((api, kind)) = all().find(|(api, kind)| name(*api, *kind) == case) else { return false };
    let (bytes, _) = stream(api, kind, COUNTED);
    let codec = codec(api);
    for _ in 0..times {
        black_box(decode(&codec, api, black_box(&bytes)));
    }
    true
}

/// The reply in a stream. Events are dropped as they come.
pub(crate) fn decode(codec: &Codec, api: Api, bytes: &[u8]) -> ModelReply {
    let request = ModelRequest::new(model(api), "", "Go on.");
    let mut decoder = codec.decoder(&request, Aliases::default(), Secrets::default());
    let mut reply = None;
    let mut take = |items: Vec<Result<ModelEvent, LlmError>>| {
        for item in items {
            if let ModelEvent::Finished(finished) = black_box(item).unwrap() {
                reply = Some(*finished);
            }
        }
    };
    for piece in bytes.chunks(CUT) {
        take(decoder.push(piece));
    }
    take(decoder.finish());
    reply.unwrap()
}
