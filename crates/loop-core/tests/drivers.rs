//! Ways to drive the core without a runtime: each gives the same events, decisions, documents and costs.

use loop_testkit::drivers::{EventStream, Recursion, RunDriver, Timing, WorkQueue, cases, conform};

#[test]
fn recursion_replays_and_ends_as_each_case_says() {
    // I-11: the cases are what the other drivers are compared with.
    conform(&Recursion, Timing::Virtual);
    for case in cases() {
        let record = Recursion.drive(&case);
        let run = record.replay(case.setup.spec.clone().into());
        assert_eq!(run.outcome(), record.outcome.as_ref(), "{}", case.name);
    }
}

#[test]
fn a_stream_drives_as_recursion_does() {
    // Issue 20, part 2; S1-45
    conform(&EventStream, Timing::Virtual);
}

#[test]
fn a_queue_without_memory_between_messages_drives_as_recursion_does() {
    // Issue 20, part 2; I-12
    conform(&WorkQueue, Timing::Virtual);
}

#[test]
fn the_page_quotes_the_drivers_as_they_are() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let files = [
        include_str!("../../loop-testkit/src/drivers/recursion.rs"),
        include_str!("../../loop-testkit/src/drivers/stream.rs"),
        include_str!("../../loop-testkit/src/drivers/queue.rs"),
        include_str!("drivers.rs"),
    ];
    let code = files.map(squeezed).join(" ");
    let page = include_str!("../../../docs/how-to/write-a-driver.md");
    let quotes = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    for quote in quotes {
        assert!(code.contains(&squeezed(quote)), "not in the drivers:\n{quote}");
    }
}
