//! The programs beside the load client: a server that answers with ready-made bytes, a bare client, and a lean loop by hand.
//!
//! ```text
//! serve --passes P --calls K [--record DIR]
//! bare --base-url URL --bodies DIR [as the load client]
//! by-hand --base-url URL [as the load client]
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
#[path = "../../examples/load/meter.rs"]
mod meter;
mod replies;
mod serve;

use std::process::ExitCode;

use meter::Options;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(command) = arguments.next() else {
        println!("this serves `cargo xtask bench`");
        return ExitCode::SUCCESS;
    };
    let options = Options::of(arguments);
    let number = |name: &str, usual: u32| options.number(name, usual).unwrap();
    match command.as_str() {
        "serve" => {
            let record = options.text("--record").ok().map(Into::into);
            serve::until_stdin_closes(number("--passes", 5), number("--calls", 3), record)
        }
        "bare" => bare::run(&options),
        "by-hand" => by_hand::run(&options),
        other => panic!("no command {other}"),
    }
}
