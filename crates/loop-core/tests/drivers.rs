//! Ways to drive the core without a runtime: each gives the same events, decisions, documents and costs.

use loop_testkit::drivers::{
    DriverClock, DriverRecord, Recursion, RunDriver, StateStream, WorkQueue, cases, conform,
};

#[test]
fn recursion_replays_and_ends_as_each_case_says() {
    // I-11: the cases are what the other drivers are compared with.
    conform(&Recursion, DriverClock::Virtual);
    for case in cases() {
        let record = Recursion.drive(&case);
        let run = record.replay(case.setup.spec.clone().into());
        assert_eq!(run.outcome(), record.outcome.as_ref(), "{}", case.name);
    }
}

#[test]
fn a_stream_drives_as_recursion_does() {
    // Issue 20, part 2; S1-45
    conform(&StateStream, DriverClock::Virtual);
}

#[test]
fn a_queue_without_memory_between_messages_drives_as_recursion_does() {
    // Issue 20, part 2; I-12
    conform(&WorkQueue, DriverClock::Virtual);
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

#[test]
fn a_driver_with_a_clock_of_its_own_is_compared_without_instants_and_the_order_of_a_batch() {
    let batches = ["selected", "parallel batch", "conversation, side by side"];
    for case in cases().into_iter().filter(|case| batches.contains(&case.name)) {
        let mut other = case.clone();
        let plays = other.tools.iter_mut().flat_map(|(_, plays)| plays);
        plays.for_each(|play| play.after_ms = 1_000 - play.after_ms);
        let (record, other) = (Recursion.drive(&case), Recursion.drive(&other));
        assert_eq!(record.compare(&other, DriverClock::Own), Ok(()), "{}", case.name);
        assert_ne!(record.lines(DriverClock::Virtual), other.lines(DriverClock::Virtual), "{}", case.name);
    }
}

#[test]
fn what_a_driver_does_otherwise_is_found() {
    // The suite itself: a decision, an event and a cost that differ.
    for case in cases().into_iter().filter(|case| case.name == "refined") {
        let record = Recursion.drive(&case);
        let differs = |other: &DriverRecord| {
            [DriverClock::Virtual, DriverClock::Own].map(|clock| record.lines(clock) != other.lines(clock))
        };
        assert_eq!(differs(&record), [false, false]);
        let mut less = record.clone();
        less.entries.pop();
        assert_eq!(differs(&less), [true, true]);
        let mut undecided = record.clone();
        assert!(undecided.entries.iter_mut().any(|(_, notes)| notes.pop().is_some()));
        assert_eq!(differs(&undecided), [true, true]);
        let mut dearer = record.clone();
        dearer.outcome.as_mut().unwrap().totals.tool_calls += 1;
        assert_eq!(differs(&dearer), [true, true]);
        let mut later = record.clone();
        later.entries.last_mut().unwrap().0.at.0 += 1;
        assert_eq!(differs(&later), [true, false]);
    }
}
