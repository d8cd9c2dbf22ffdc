//! How long looking for the values of documents takes. `360 100 10` does it ten times for a document of 360 lines in 100
//! pieces of evidence and prints nothing, for a program that counts instructions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs, unreachable_pub)]

use std::hint::black_box;

use loop_claims::{ClaimSources, claims};
use loop_core::reply::Document;
use loop_core::types::{Locale, Status};
use loop_core::{Evidence, WorkItem};
use loop_testkit::{evidence, findings};
use serde_json::Value;

#[expect(clippy::disallowed_methods, reason = "a bench program reads its own arguments")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<u32> = arguments.iter().map(|argument| argument.parse().unwrap()).collect();
    match arguments[..] {
        [lines, pieces, times] => {
            let claimed = Claimed::new(lines, pieces);
            for _ in 0..times {
                claimed.read();
            }
        }
        _ => claims_table(),
    }
}

/// A document of so many lines, each with three values, and so many pieces of evidence that it cites in turn.
struct Claimed {
    document: Document,
    evidence: Vec<Evidence>,
    item: WorkItem,
}

impl Claimed {
    fn new(lines: u32, pieces: u32) -> Self {
        let body: String = (0..lines)
            .map(|n| {
                format!(
                    "- SRV-{} holds {}.{} GB, since {} November 2026 [E{}].\n",
                    1_000 + n,
                    n + 10,
                    n % 10,
                    n % 28 + 1,
                    n % pieces + 1
                )
            })
            .collect();
        let row = |n: u32| {
            serde_json::json!({"id": format!("SRV-{}", 1_000 + n), "size_gb": f64::from(n + 10) + f64::from(n % 10) / 10.0,
                "at": format!("2026-11-{:02}T03:10:00Z", n % 28 + 1), "note": "The job ran as planned and left no message."})
        };
        let one = |id: u32| {
            let rows: Vec<Value> = (0..20).map(|n| row(id - 1 + n * pieces)).collect();
            evidence(id, "fetch_servers", Status::Ok, &serde_json::json!({"servers": rows}))
        };
        Self {
            document: findings(&body),
            evidence: (1..=pieces).map(one).collect(),
            item: WorkItem::new("T-1", "ticket", "Servers", "Which servers are full?"),
        }
    }

    /// How many values the document has.
    fn read(&self) -> usize {
        let sources = ClaimSources {
            evidence: &self.evidence,
            tools: &[],
            item: &self.item,
            unix_ms: 1_795_662_600_000,
            utc_offset: 0,
            locale: Locale::En,
        };
        black_box(claims(black_box(&self.document), sources)).len()
    }
}

/// How long it takes to look for the values of documents of 2 to 80 kB in 10 to 400 pieces of evidence.
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench program measures time")]
fn claims_table() {
    println!("| document | evidence | values | median | 99th percentile |\n|---|---|---|---|---|");
    for (lines, pieces) in [(36, 10), (75, 25), (150, 50), (360, 100), (600, 200), (1_200, 400)] {
        let claimed = Claimed::new(lines, pieces);
        let mut times: Vec<u128> = Vec::new();
        let mut values = 0;
        for _ in 0..101 {
            let begun = std::time::Instant::now();
            values = claimed.read();
            times.push(begun.elapsed().as_micros());
        }
        times.sort_unstable();
        let size = |bytes: usize| (bytes + 500) / 1_000;
        let bytes = claimed.document.sections.iter().map(|section| section.body.len()).sum();
        let of_evidence = claimed.evidence.iter().map(|it| it.observation.data.len()).sum();
        let (kb, data) = (size(bytes), size(of_evidence));
        let (median, most) = (times[50], times[99]);
        println!("| {kb} kB | {pieces} pieces, {data} kB | {values} | {median} µs | {most} µs |");
    }
}
