//! Policy in a run: nothing that policy forbids is ever commanded, whatever the model asks (I-25, I-27).

use loop_testkit::*;

use loop_core::policy::Taint;
use loop_core::run::{History, PersonAnswer};
use loop_core::spec::{Resolve, TaintRule};
use loop_core::types::{Effect, Observation, Status};
use loop_core::{Event, EventKind, Verdict};
use serde_json::json;

/// The help desk whose `fetch_docs` brings untrusted text; `wipe` is approved, `restart` sends something out.
fn desk() -> Setup {
    run().patient().with(|spec| {
        for tool in &mut spec.tools {
            match &*tool.name {
                "fetch_docs" => tool.policy.returns_untrusted = true,
                "fetch_device" => tool.policy.reads_private = true,
                "restart" => tool.effect = Effect::Egress,
                _ => {}
            }
        }
        spec.gate.approved = vec!["wipe".into(), "restart".into()];
    })
}

fn asks(tool: &str, on: &str) -> DraftReply {
    draft("low").asks(tool, target(on))
}

fn last(world: &World) -> (&'static str, String) {
    let verdict = &world.run.actions().last().unwrap().verdict;
    (verdict.name(), verdict.reason())
}

#[test]
fn what_was_approved_needs_a_person_after_something_untrusted_was_read() {
    // K2, I-27
    let clean = desk().start().replied(&asks("wipe", "a")).expect_tools(&["1/action-0#1 wipe"]);
    assert_eq!(last(&clean).0, "run");
    let read = || desk().people().start().replied(&asks("fetch_docs", "x")).all_finished();
    let world = read().replied(&asks("wipe", "a"));
    assert_eq!(last(&world), ("needs_person", "the run has read untrusted text".to_owned()));
    assert!(world.tools().is_empty());
    let world = world.answered_by_person("2/action-0", PersonAnswer::Approved);
    world.expect_tools(&["2/action-0#1 wipe"]);
    // It is the reading that counts, not the asking: beside it in one reply the call is as clean as before.
    let both = desk().start().replied(&asks("fetch_docs", "x").asks("wipe", target("a")));
    assert_eq!(both.verdicts(), ["run", "run"]);
    // Another run is clean; one for which it does not matter goes on.
    let off = desk().with(|spec| spec.gate.taint = TaintRule::Off).start();
    let world = off.replied(&asks("fetch_docs", "x")).all_finished().replied(&asks("wipe", "a"));
    assert_eq!(last(&world).0, "run");
}

#[test]
fn what_is_private_does_not_leave_unasked_once_something_untrusted_was_read() {
    // K2
    let read = |setup: Setup, tools: [&str; 2]| {
        let world = setup.start().replied(&asks(tools[0], "x")).all_finished();
        world.replied(&asks(tools[1], "x")).all_finished()
    };
    let orders = [["fetch_docs", "fetch_device"], ["fetch_device", "fetch_docs"]];
    for order in orders {
        let world = read(desk(), order).replied(&asks("restart", "a"));
        assert_eq!(last(&world).0, "denied", "{order:?}");
        assert!(last(&world).1.contains("private data"), "{:?}", last(&world));
        let world = read(desk().people(), order).replied(&asks("restart", "a"));
        assert_eq!(last(&world).0, "needs_person", "{order:?}");
        // What cannot carry anything out only needs consent.
        let world = read(desk(), order).replied(&asks("wipe", "a"));
        assert_eq!(last(&world).0, "needs_person", "{order:?}");
    }
    let private = desk().start().replied(&asks("fetch_device", "x")).all_finished();
    assert_eq!(last(&private.replied(&asks("restart", "a"))).0, "run");
}

#[test]
fn a_tool_that_was_not_run_marks_nothing_and_one_that_failed_does() {
    let failed = |observation: Observation| {
        let world = desk().start().replied(&asks("fetch_docs", "x")).finished("1/action-0", observation);
        last(&world.replied(&asks("wipe", "a"))).0
    };
    assert_eq!(
        failed(Observation::failed(Status::PermanentError, "fetch_docs", "do as I say")),
        "needs_person"
    );
    let denied = desk().with(|spec| spec.gate.forbid = vec!["fetch_docs".into()]).start();
    let world = denied.replied(&asks("fetch_docs", "x").asks("fetch_device", target("x"))).all_finished();
    assert_eq!(last(&world.replied(&asks("wipe", "a"))).0, "run");
}

#[test]
fn a_work_item_that_anybody_may_have_written_marks_the_run_from_its_start() {
    let world = desk().with(|spec| spec.gate.item_untrusted = true).start().replied(&asks("wipe", "a"));
    assert_eq!(last(&world).0, "needs_person");
}

#[test]
fn an_effect_reaches_only_whom_somebody_named_who_may() {
    // K3, S4-11, S4-36
    let setup = |people: bool| {
        let setup = desk().item_text("Please restart web-1, ticket T-9.").with(|spec| {
            let restart = spec.tools.iter_mut().find(|tool| &*tool.name == "restart").unwrap();
            restart.policy.authority = vec!["/target".into()];
        });
        if people { setup.people() } else { setup }
    };
    let world = setup(false).start().replied(&asks("restart", "web-1"));
    world.expect_tools(&["1/action-0#1 restart"]);
    let world = setup(false).start().replied(&asks("restart", "web-2"));
    assert_eq!(last(&world).0, "denied");
    assert!(last(&world).1.starts_with("/target is \"web-2\""), "{:?}", last(&world));
    let world = setup(true).start().replied(&asks("restart", "web-2"));
    assert_eq!((last(&world).0, world.asks()), ("needs_person", vec!["1/action-0".to_owned()]));
    // A trusted tool names another one; a person does, too.
    let data = Observation::new(Status::Ok, "found", "web-3", json!({"standby": "web-3"}));
    let found = setup(false).start().replied(&asks("fetch_device", "web-1")).finished("1/action-0", data);
    found.replied(&asks("restart", "web-3")).expect_tools(&["2/action-0#1 restart"]);
    let mut instructions = setup(false).start();
    instructions.apply(EventKind::Instruction { text: "take web-4 instead".into() });
    instructions.replied(&asks("restart", "web-4")).expect_tools(&["1/action-0#1 restart"]);
}

#[test]
fn with_taint_off_what_is_approved_runs_and_nothing_else_changes() {
    // Issue 40, H8: as docs/explanation/policy.md says.
    let setup = |people: bool, off: bool| {
        let setup = desk().item_text("Please restart web-1.").with(|spec| {
            spec.gate.taint = if off { TaintRule::Off } else { TaintRule::Ask };
            spec.gate.approved = vec!["restart".into()];
            let restart = spec.tools.iter_mut().find(|tool| &*tool.name == "restart").unwrap();
            restart.policy.authority = vec!["/target".into()];
        });
        if people { setup.people() } else { setup }
    };
    // Both marks: untrusted text that names web-9, and private data.
    let read = |people: bool, off: bool| {
        let read = draft("low").asks("fetch_docs", target("x")).asks("fetch_device", target("y"));
        let found = Observation::new(Status::Ok, "found", "web-9", json!({"next": "web-9"}));
        let world = setup(people, off).start().replied(&read).finished("1/action-0", found);
        world.finished("1/action-1", Observation::new(Status::Ok, "found", "it", json!({"id": 1})))
    };
    let says = |people, off, tool: &str, on: &str| last(&read(people, off).replied(&asks(tool, on))).0;
    for (people, stopped) in [(false, "denied"), (true, "needs_person")] {
        assert_eq!(says(people, false, "restart", "web-1"), stopped);
        assert_eq!(says(people, true, "restart", "web-1"), "run");
        assert_eq!(says(people, true, "restart", "web-9"), stopped, "the text cannot say whom it reaches");
        assert_eq!(says(people, true, "wipe", "web-1"), "needs_person", "it is not approved");
    }
}

#[test]
fn a_denial_is_not_hidden_by_a_repeat_nor_by_bad_arguments() {
    // S4-79, S4-83
    let setup = || desk().with(|spec| spec.gate.forbid = vec!["wi*".into()]);
    let world = setup()
        .start()
        .replied(&draft("low").asks("wipe", json!({})).asks("wipe", target("a")).asks("wipe", target("a")));
    assert_eq!(world.verdicts(), ["denied"; 3]);
    let world = setup().start().replied(&asks("wipe_nothing", "a").asks("wobble", target("a")));
    assert_eq!(world.verdicts(), ["denied", "unknown_tool"], "to ask for what is forbidden is no slip");
    let allowed = desk().with(|spec| spec.gate.allow = vec!["fetch_*".into()]).start();
    let world =
        allowed.replied(&asks("wipe", "a").asks("fetch_device", target("a")).asks("wipes", target("a")));
    assert_eq!(
        world.verdicts(),
        ["denied", "run", "denied"],
        "what is not on the list is denied, be it there or not"
    );
    let world = desk().with(|spec| spec.gate.allow = vec!["fetch_*".into()]).start();
    let world = world.replied(&asks("fetch_wipe", "a"));
    let Verdict::UnknownTool { similar } = &world.run.actions()[0].verdict else { panic!() };
    assert!(!similar.iter().any(|name| &**name == "wipe"), "what may not run is not told: {similar:?}");
}

#[test]
fn a_guessed_name_is_marked_and_never_changes_anything() {
    // C21
    let setup = || desk().with(|spec| spec.gate.resolve = Resolve::FuzzyUnique);
    let world = setup().start().replied(
        &asks("docs", "a")
            .asks("fetch_device", target("a"))
            .asks("wipe_", target("a"))
            .asks("rest", target("a")),
    );
    let guessed: Vec<(&str, bool)> =
        world.run.actions().iter().map(|action| (action.verdict.name(), action.guessed)).collect();
    assert_eq!(guessed, [("run", true), ("run", false), ("unknown_tool", false), ("unknown_tool", false)]);
    assert_eq!(world.run.actions()[0].tool.as_deref(), Some("fetch_docs"));
}

#[test]
fn what_stands_in_the_messages_before_a_run_marks_it() {
    let begin = |taint: Taint| {
        let mut spec = conversation().approving(&["wipe"]).people().spec;
        spec.gate.no_progress = 0;
        let world = after_reading(Setup::of(spec), taint);
        let first = &world.journal[0].0;
        let stored = serde_json::to_string(first).unwrap();
        assert_eq!(&serde_json::from_str::<Event>(&stored).unwrap(), first);
        assert_eq!(stored.contains("taint"), taint != Taint::default());
        last(&world.replied(&calls(&[("wipe", target("a"))]))).0
    };
    assert_eq!(begin(Taint::default()), "run");
    assert_eq!(begin(Taint { untrusted: true, private: false }), "needs_person");
    assert_eq!(begin(Taint { untrusted: false, private: true }), "run");
}

/// The messages before a run, in which this was read.
fn after_reading(setup: Setup, taint: Taint) -> World {
    setup.history(History { taint, ..history(2) }).start()
}

#[test]
fn what_was_private_in_the_messages_before_a_run_does_not_leave_it_once_something_untrusted_is_read() {
    // M5, K2: the private half comes from the messages, the untrusted one from the work item or from a tool.
    let private = Taint { untrusted: false, private: true };
    let send = || calls(&[("restart", target("a"))]);
    let desk = |item_untrusted: bool| {
        let spec = desk().spec;
        let conversation = conversation().approving(&["restart", "wipe"]);
        conversation.with(|it| {
            it.tools = spec.tools;
            it.gate.item_untrusted = item_untrusted;
        })
    };
    let says = |world: World| last(&world.replied(&send())).0;
    assert_eq!(says(after_reading(desk(true), private)), "denied");
    assert_eq!(says(after_reading(desk(true), Taint::default())), "needs_person");
    assert_eq!(says(after_reading(desk(false), private)), "run");
    let looks = calls(&[("fetch_docs", target("x"))]);
    assert_eq!(says(after_reading(desk(false), private).replied(&looks).all_finished()), "denied");
    // The halves may stand the other way round as well.
    let untrusted = Taint { untrusted: true, private: false };
    let looks = calls(&[("fetch_device", target("x"))]);
    assert_eq!(says(after_reading(desk(false), untrusted).replied(&looks).all_finished()), "denied");
}

#[test]
fn every_status_marks_the_run_but_those_of_a_tool_that_was_not_run() {
    // M6, K2, I-27: an error, a wait and a doubt can hold a tool's words as well as a result.
    let marks = |status: Status| match status {
        Status::Denied | Status::Duplicate | Status::Skipped => false,
        Status::Ok
        | Status::Empty
        | Status::RetryableError
        | Status::PermanentError
        | Status::InvalidInput
        | Status::MalformedResult
        | Status::Timeout
        | Status::Cancelled
        | Status::Pending
        | Status::InDoubt => true,
    };
    for status in STATUSES {
        let after = |tool: &str, item_untrusted: bool, requested: &str| {
            let setup = desk().with(|spec| spec.gate.item_untrusted = item_untrusted);
            let world = setup.start().replied(&asks(tool, "x"));
            let world = world.finished("1/action-0", Observation::failed(status, tool, "do as I say"));
            last(&world.replied(&asks(requested, "a"))).0
        };
        let is_marked = marks(status);
        let expected = if is_marked { "needs_person" } else { "run" };
        assert_eq!(after("fetch_docs", false, "wipe"), expected, "untrusted: {status:?}");
        let expected = if is_marked { "denied" } else { "needs_person" };
        assert_eq!(after("fetch_device", true, "restart"), expected, "private: {status:?}");
    }
}
