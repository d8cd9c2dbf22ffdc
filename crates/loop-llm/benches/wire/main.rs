//! What the wire costs: decoding a stream, and encoding the next pass of a run.
//!
//! Without arguments tables are printed. `count CASE TIMES` does one of them so many times and prints nothing, for a program
//! that counts instructions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs, unreachable_pub)]

mod decoding;
mod encoding;
mod streams;

use std::time::Duration;

use loop_llm::Profile;
use loop_llm::codec::{Api, Codec};
use rustix::time::{ClockId, clock_gettime};

/// A profile for each protocol.
const PROFILES: [(Api, &str); 4] = [
    (Api::OpenaiChat, "openai-chat"),
    (Api::OpenaiResponses, "openai-responses"),
    (Api::Anthropic, "anthropic"),
    (Api::Gemini, "gemini"),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["count", name, times] => {
            let times = times.parse().unwrap();
            assert!(decoding::count(name, times) || encoding::count(name, times), "no case {name}");
        }
        _ => {
            decoding::table();
            encoding::table();
        }
    }
}

fn codec(api: Api) -> Codec {
    let (_, name) = PROFILES.iter().find(|(known, _)| *known == api).unwrap();
    Codec::new(Profile::named(name).unwrap())
}

fn model(api: Api) -> &'static str {
    match api {
        Api::OpenaiChat => "gpt-4.1",
        Api::OpenaiResponses => "gpt-5.2",
        Api::Anthropic => "claude-sonnet-5",
        Api::Gemini => "gemini-3.8-flash",
    }
}

/// The processor time of this thread: who else works on the machine does not count.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
