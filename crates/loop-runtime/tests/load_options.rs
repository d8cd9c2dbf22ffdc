//! The load client's command line.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../examples/load/args.rs"]
mod args;
#[allow(dead_code, reason = "it is measured with elsewhere")]
#[path = "../examples/load/meter.rs"]
mod meter;

use args::{Asked, HELP, Kept, Options, Protocol, Synced, parse};
use meter::Work;

fn requested(line: &str) -> Result<Asked, String> {
    parse(line.split_whitespace().map(str::to_owned))
}

#[track_caller]
fn options(line: &str) -> Options {
    match requested(line).unwrap() {
        Asked::Load(options) => *options,
        Asked::Help => panic!("{line} asks for help"),
    }
}

const LEAST: &str = "--base-url http://127.0.0.1:8080/v1 --model m --loops 7";

#[test]
fn what_is_left_out_has_its_usual_value() {
    let expected = Options {
        base_url: "http://127.0.0.1:8080/v1".to_owned(),
        model: "m".to_owned(),
        work: Work { loops: 7, concurrency: 1, warmup: 0 },
        protocol: Protocol::Conversation,
        journal: Kept::InMemory,
        sync: Synced::Effects,
    };
    assert_eq!(options(LEAST), expected);
}

#[test]
fn every_option_is_read_with_a_space_or_an_equals_sign() {
    let rest = "--concurrency=64 --warmup 3 --protocol=output --journal runs=1.db";
    let options = options(&format!("{rest} {LEAST}"));
    assert_eq!(options.work, Work { loops: 7, concurrency: 64, warmup: 3 });
    assert_eq!((options.protocol, options.journal), (Protocol::Output, Kept::InFile("runs=1.db".into())));
    for (word, protocol) in [
        ("conversation", Protocol::Conversation),
        ("output", Protocol::Output),
        ("document", Protocol::Document),
    ] {
        assert_eq!(self::options(&format!("{LEAST} --protocol {word}")).protocol, protocol);
    }
    for (word, journal) in [("none", Kept::Nowhere), ("memory", Kept::InMemory)] {
        assert_eq!(self::options(&format!("{LEAST} --journal {word}")).journal, journal);
    }
    for (word, sync) in [("full", Synced::Full), ("effects", Synced::Effects), ("none", Synced::Nothing)] {
        assert_eq!(self::options(&format!("{LEAST} --sync {word}")).sync, sync);
    }
    // No loop at a time would never end.
    assert_eq!(self::options(&format!("{LEAST} --concurrency 0")).work.concurrency, 1);
}

#[test]
fn help_names_every_option() {
    for help in ["--help", "-h", &format!("{LEAST} --help")] {
        assert_eq!(requested(help), Ok(Asked::Help));
    }
    for option in LEAST.split_whitespace().chain(["--concurrency", "--warmup", "--protocol", "--journal"]) {
        assert!(!option.starts_with("--") || HELP.contains(option), "{option}");
    }
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    for (line, message) in [
        ("", "--loops is missing; --help lists the options"),
        ("--loops 1", "--base-url is missing; --help lists the options"),
        ("--loops 1 --base-url u", "--model is missing; --help lists the options"),
        ("--loops", "--loops needs a value"),
        ("--loops -1", "--loops is no number: -1"),
        ("--warmup=many", "--warmup is no number: many"),
        ("--protocol seance", "no protocol seance; there are conversation, output and document"),
        ("--verbose", "no option --verbose; --help lists them"),
    ] {
        assert_eq!(requested(line), Err(message.to_owned()), "{line}");
    }
}
