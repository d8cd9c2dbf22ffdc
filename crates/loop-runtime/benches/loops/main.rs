//! The programs beside the load client: a server that answers with ready-made bytes, a bare client, a lean loop by hand, and
//! a loop by hand over our model client.
//!
//! ```text
//! serve --passes P --calls K [--pieces N] [--delay-ms D] [--pace-ms D] [--protocol NAME] [--record DIR]
//! bare --base-url URL --bodies DIR --loops N --concurrency C --warmup W
//! by-hand --base-url URL --loops N --concurrency C --warmup W
//! by-hand-over-client --base-url URL --loops N --concurrency C --warmup W
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

mod bare;
mod by_hand;
mod by_hand_over_client;
#[path = "../../examples/load/meter.rs"]
mod meter;
mod replies;
mod serve;

use std::process::ExitCode;

use replies::{Protocol, Shape};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some((command, options)) = arguments.split_first() else {
        println!("this serves `cargo xtask bench loop`");
        return ExitCode::SUCCESS;
    };
    let option = |name: &str| options.iter().skip_while(|word| *word != name).nth(1).map(String::as_str);
    let number = |name: &str, usual: u32| option(name).map_or(usual, |word| word.parse().unwrap());
    let base_url = || option("--base-url").unwrap();
    let work = || meter::Work {
        loops: number("--loops", 1),
        concurrency: number("--concurrency", 1),
        warmup: number("--warmup", 0),
    };
    match command.as_str() {
        "serve" => {
            let protocol =
                option("--protocol").map_or(Protocol::Conversation, |name| Protocol::named(name).unwrap());
            let shape = Shape {
                passes: number("--passes", 5),
                calls: number("--calls", 3),
                pieces: number("--pieces", 8),
                protocol,
            };
            let times = serve::Times { delay: number("--delay-ms", 0), pace: number("--pace-ms", 0) };
            serve::until_stdin_closes(shape, times, option("--record").map(Into::into))
        }
        "bare" => bare::run(base_url(), option("--bodies").unwrap().as_ref(), work()),
        "by-hand" => by_hand::run(base_url(), work()),
        "by-hand-over-client" => by_hand_over_client::run(base_url(), work()),
        other => panic!("no command {other}"),
    }
}
