//! The example that drives the core by hand, and the page that quotes it.

#[allow(dead_code)]
#[path = "../examples/driving.rs"]
mod example;

use std::sync::Arc;

use example::{Driver, item, outcome, replay, spec};
use loop_core::StopReason;

fn driven(events: Option<usize>) -> Driver {
    let mut driver = Driver::start(spec().unwrap(), item().unwrap()).unwrap();
    driver.go_on(events).unwrap();
    driver
}

#[test]
fn the_example_comes_to_a_confident_end_and_replays() {
    // S4-76: model and tools are the example's own functions.
    // S0-1, S0-14, I-11
    let driver = driven(None);
    let found = outcome(&driver.run).unwrap();
    assert_eq!(
        (found.stop.reason(), found.totals.passes, found.totals.tool_calls),
        (StopReason::Confident, 2, 2)
    );
    assert_eq!(replay(spec().unwrap(), &driver.journal).unwrap(), driver.run);
}

#[test]
fn the_example_may_die_after_any_event_and_goes_on() {
    // I-12, H1
    let whole = driven(None);
    for events in 0..whole.journal.len() {
        let died = driven(Some(events));
        let mut driver = Driver::reopen(spec().unwrap(), died.journal, 60_000).unwrap();
        driver.go_on(None).unwrap();
        let (ended, straight) = (outcome(&driver.run).unwrap(), outcome(&whole.run).unwrap());
        assert_eq!((&ended.stop, ended.evidence.len()), (&straight.stop, straight.evidence.len()));
        let bodies = |outcome: &loop_core::Outcome| -> Vec<Arc<str>> {
            outcome.document.sections.iter().map(|section| Arc::clone(&section.body)).collect()
        };
        assert_eq!(bodies(ended), bodies(straight));
    }
}

#[test]
fn a_changed_journal_is_noticed() {
    // I-11
    let mut journal = driven(None).journal;
    let line = journal.iter().position(|line| line.contains("disk 100 %")).unwrap();
    journal[line] = journal[line].replace("\"status\":\"ok\"", "\"status\":\"permanent_error\"");
    assert!(replay(spec().unwrap(), &journal).is_err());
    journal.remove(2);
    assert!(replay(spec().unwrap(), &journal).is_err());
}

#[test]
fn the_page_quotes_the_example_as_it_is() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let example = squeezed(include_str!("../examples/driving.rs"));
    let page = include_str!("../../../docs/how-to/drive-the-core.md");
    let quotes: Vec<&str> =
        page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(quotes.len() >= 3);
    for quote in quotes {
        assert!(example.contains(&squeezed(quote)), "not in the example:\n{quote}");
    }
}
