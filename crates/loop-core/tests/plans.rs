//! Plans: what a run intends before it has read what others wrote, and what that permits.

use loop_testkit::*;

use loop_core::gate::Measure;
use loop_core::policy::Taint;
use loop_core::run::{PersonAnswer, RunWarning};
use loop_core::spec::{ArgSpec, PlanSlot};
use loop_core::types::{ChildUse, Effect, Observation, Status, StopClass};
use loop_core::{Note, StopReason, Verdict};
use serde_json::{Value, json};

/// Reads pages that anybody wrote and mails that are private; sends and pays without asking.
fn desk(setup: Setup) -> Setup {
    let schema = json!({"type": "object", "properties": {
        "to": {"type": "string"}, "body": {"type": "string"}, "sum": {"type": "number"},
        "copy": {"type": "string", "default": "none"},
    }});
    setup.patient().with(|spec| {
        spec.tools[0].policy.returns_untrusted = true;
        spec.tools[1].policy.reads_private = true;
        let mut send = spec.tools[2].clone();
        (send.name, send.aliases, send.effect) = ("send".into(), vec!["mail".into()], Effect::Egress);
        send.args = ArgSpec::from_schema(&schema);
        let mut pay = send.clone();
        (pay.name, pay.aliases, pay.effect) = ("pay".into(), Vec::new(), Effect::WriteIdempotent);
        pay.policy.authority = vec!["/to".into()];
        spec.tools.extend([send, pay]);
        spec.gate.approved = vec!["send".into(), "pay".into()];
        spec.limits.tool_calls = 50;
    })
}

fn talk() -> Setup {
    desk(conversation().item_text("Pay ann@acme.example and bob@acme.example."))
}

fn plan(slots: Value) -> DraftReply {
    calls(&[("plan", json!({ "slots": slots }))])
}

/// The verdicts of calls that come after a plan and a page, in one reply.
fn after(setup: Setup, slots: Value, wanted: &[(&str, Value)]) -> Vec<&'static str> {
    let world = setup.start().replied(&plan(slots));
    let world = world.replied(&calls(&[("fetch_device", target("page"))])).all_finished();
    let world = world.replied(&calls(wanted));
    let judged = world.run.actions().iter().filter(|action| action.key.pass == 3);
    judged.map(|action| action.verdict.name()).collect()
}

#[test]
fn a_call_that_fits_a_slot_runs_after_untrusted_text() {
    let to = |to: &str| json!({ "to": to, "body": "hi" });
    let slot = || json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}}]);
    assert_eq!(after(talk(), slot(), &[("send", to("ann@acme.example"))]), ["run"]);
    // Another form of the value, a name that the tool has besides, a default.
    let other = json!({"to": "Ann@ACME.example", "copy": "none"});
    assert_eq!(
        after(
            talk(),
            json!([{"tool": "mail", "fixed": {"to": "ann@acme.example"}, "open": []}]),
            &[("mail", other)]
        ),
        ["run"]
    );
    // A second use, another value, another tool.
    for wrong in [("send", to("eve@evil.example")), ("pay", to("ann@acme.example"))] {
        assert_eq!(after(talk(), slot(), &[wrong]), ["needs_person"]);
    }
    let twice = [("send", to("ann@acme.example")), ("send", json!({"to": "ann@acme.example", "body": "ho"}))];
    assert_eq!(after(talk(), slot(), &twice), ["run", "needs_person"]);
    let two = json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}, "count": "2"}]);
    assert_eq!(after(talk(), two, &twice), ["run", "run"]);
    // A parameter that was not to be open.
    let bare = json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}, "open": ["sum"]}]);
    assert_eq!(after(talk(), bare, &[("send", to("ann@acme.example"))]), ["needs_person"]);
    // Without a plan as before.
    let world = talk().start().replied(&calls(&[("fetch_device", target("page"))])).all_finished();
    assert_eq!(
        world.replied(&calls(&[("send", to("ann@acme.example"))])).verdicts().last(),
        Some(&"needs_person")
    );
}

#[test]
fn each_addressee_gets_one_call() {
    let pay = |to: &str, sum: u32| ("pay", json!({ "to": to, "sum": sum }));
    let each = json!([{"tool": "pay", "count": "each"}]);
    let wanted = [pay("ann@acme.example", 1), pay("bob@acme.example", 1), pay("ann@acme.example", 2)];
    assert_eq!(after(talk().people(), each.clone(), &wanted), ["run", "run", "needs_person"]);
    let given_twice = json!([{"tool": "pay", "count": "each"}, {"tool": "pay", "count": "each"}]);
    assert_eq!(after(talk().people(), given_twice, &wanted), ["run", "run", "needs_person"]);
    // Authority holds for a planned call as for any; a fixed value counts where the user's words have it.
    assert_eq!(after(talk(), each, &[pay("eve@evil.example", 1)]), ["denied"]);
    let fixed = |to: &str| json!([{"tool": "pay", "fixed": {"to": to}}]);
    let setup = || desk(conversation().item_text("Let accounting have what Zoe owes."));
    assert_eq!(after(setup(), fixed("Zoe"), &[pay("Zoe", 1)]), ["run"]);
    assert_eq!(after(setup(), fixed("Eve"), &[pay("Eve", 1)]), ["denied"]);
    assert_eq!(after(setup(), json!([{"tool": "pay"}]), &[pay("Zoe", 1)]), ["denied"]);
    // What is sent there has to be fixed too.
    let sends = || {
        setup().with(|spec| {
            spec.tools.iter_mut().for_each(|tool| {
                if &*tool.name == "send" {
                    tool.policy.authority = vec!["/to".into()];
                }
            })
        })
    };
    let send = [("send", json!({"to": "Zoe", "body": "bill"}))];
    assert_eq!(after(sends(), json!([{"tool": "send", "fixed": {"to": "Zoe"}}]), &send), ["denied"]);
    assert_eq!(
        after(sends(), json!([{"tool": "send", "fixed": {"to": "Zoe", "body": "bill"}}]), &send),
        ["run"]
    );
}

#[test]
fn a_plan_is_made_once_and_before_anything_was_read() {
    let slots = || json!([{"tool": "send"}]);
    let verdicts = |world: &World| world.verdicts().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let read = |tool: &str| talk().start().replied(&calls(&[(tool, target("x"))])).all_finished();
    for tool in ["fetch_device", "fetch_docs"] {
        let world = read(tool).replied(&plan(slots()));
        assert_eq!(verdicts(&world), ["run", "denied"]);
        assert!(world.run.plan().is_none());
        // It is no effect that was denied: the run goes on, and nothing is owed.
        let world = world.replied(&text("Done.")).ends(StopReason::Completed);
        assert_eq!(world.outcome().stop.class, StopClass::Answered);
    }
    // Beside what taints, in any order.
    let both = calls(&[("fetch_device", target("x")), ("plan", json!({ "slots": slots() }))]);
    assert!(talk().start().replied(&both).run.plan().is_some());
    // A second one.
    let world = talk().start().replied(&plan(slots())).replied(&plan(json!([{"tool": "pay"}])));
    assert_eq!(verdicts(&world), ["kept", "denied"]);
    assert_eq!(world.run.plan().map(|plan| plan.slots.len()), Some(1));
    // What the messages before the run had read counts, and so does a work item that anybody may have written.
    let mut history = history(2);
    history.taint = Taint { untrusted: true, private: false };
    assert!(talk().history(history).start().replied(&plan(slots())).run.plan().is_none());
    let item = talk().with(|spec| spec.gate.item_untrusted = true);
    assert!(item.start().replied(&plan(slots())).run.plan().is_none());
    // A tool of that name is the domain's own, and a forbidden name is denied.
    let own = talk().with(|spec| spec.tools[0].aliases = vec!["plan".into()]);
    assert!(own.start().replied(&calls(&[("plan", target("x"))])).run.plan().is_none());
    let forbidden = talk().with(|spec| spec.gate.forbid = vec!["plan".into()]);
    assert!(forbidden.start().replied(&plan(slots())).run.plan().is_none());
}

#[test]
fn what_a_plan_cannot_say_is_denied_with_its_reason() {
    for (slots, why) in [
        (json!([{"tool": "nope"}]), "there is no tool `nope`"),
        (json!([{"tool": "send", "fixed": {"too": "x"}}]), "`send` has no parameter `too`"),
        (json!([{"tool": "send", "open": ["x"]}]), "`send` has no parameter `x`"),
        (json!([{"tool": "send", "count": "each"}]), "`send` does not say whom it reaches"),
        (json!([{"tool": "send", "count": 0}]), "a number from 1, or `each`"),
        (json!([{"tool": "send", "often": 2}]), "unknown field `often`"),
        (json!("send"), "it is a list of slots"),
        (json!(vec![json!({"tool": "send"}); 65]), "64 are the most"),
    ] {
        let world = talk().start().replied(&plan(slots.clone()));
        let verdict = &world.run.actions()[0].verdict;
        assert!(
            matches!(verdict, Verdict::Denied { .. }) && verdict.reason().contains(why),
            "{slots}: {verdict:?}"
        );
        assert!(world.run.plan().is_none());
    }
}

#[test]
fn private_data_that_was_not_planned_keeps_everything_in() {
    let send = || calls(&[("send", json!({"to": "ann@acme.example"}))]);
    let read = |world: World, tool: &str| world.replied(&calls(&[(tool, target("x"))])).all_finished();
    let slots = || json!([{"tool": "send"}, {"tool": "pay", "fixed": {"to": "ann@acme.example"}}]);
    let world = || talk().start().replied(&plan(slots()));
    // Before the untrusted text it was the user's wish.
    let wished = read(read(world(), "fetch_docs"), "fetch_device").replied(&send());
    assert_eq!(wished.verdicts().last(), Some(&"run"));
    // After it anybody may have wished it.
    let leaks = read(read(world(), "fetch_device"), "fetch_docs").replied(&send());
    assert_eq!(leaks.verdicts().last(), Some(&"denied"));
    let said = leaks.run.plan().and_then(|plan| plan.slots[0].void).map(|it| it.to_string());
    assert_eq!(said.as_deref(), Some("E2"));
    // So it is where a run that was called read them.
    let child = ChildUse { taint: Taint { untrusted: false, private: true }, ..ChildUse::default() };
    let below = read(world(), "fetch_device").replied(&calls(&[("fetch_device", target("y"))]));
    let result = Observation { child: Some(Box::new(child)), ..found("mails") };
    let below = below.finished("3/action-0", result).replied(&send());
    assert_eq!(below.verdicts().last(), Some(&"denied"));
    // What it intended is owed, since it was not done.
    let outcome = leaks.replied(&text("Done.")).ends(StopReason::Completed).outcome().clone();
    assert_eq!(outcome.stop.class, StopClass::Partial);
    // What sends nothing out runs.
    let pays = read(read(world(), "fetch_device"), "fetch_docs");
    let pays = pays.replied(&calls(&[("pay", json!({"to": "ann@acme.example"}))]));
    assert_eq!(pays.verdicts().last(), Some(&"run"));
    // Named, it is planned.
    let named = json!([{"tool": "send"}, {"tool": "fetch_docs", "fixed": {"target": "x"}}]);
    let named =
        read(read(talk().start().replied(&plan(named)), "fetch_device"), "fetch_docs").replied(&send());
    assert_eq!(named.verdicts().last(), Some(&"run"));
}

#[test]
fn an_effect_that_nobody_planned_is_blocked_and_changes_no_class() {
    let slots = json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}}]);
    let world = talk().people().start().replied(&plan(slots));
    let world = world.replied(&calls(&[("fetch_device", target("page"))])).all_finished();
    let world = world.replied(&calls(&[("send", json!({"to": "ann@acme.example"}))])).all_finished();
    let world = world.replied(&calls(&[("send", json!({"to": "eve@evil.example"}))]));
    let world = world.answered_by_person("4/action-0", PersonAnswer::Denied { why: "no".into() });
    let stop = world.replied(&text("Done.")).ends(StopReason::Completed).outcome().stop.clone();
    assert_eq!(stop.class, StopClass::Answered);
    let blocked = stop.also.iter().find(|it| it.reason == StopReason::EffectBlocked).map(|it| &it.value);
    assert!(matches!(blocked, Some(Measure::NotDone(all)) if all.len() == 1 && all[0].unplanned), "{stop:?}");
}

#[test]
fn a_call_that_its_tool_refused_leaves_its_slot_and_an_approved_one_takes_it() {
    let start = || {
        let slots = json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}}]);
        let world = talk().people().start().replied(&plan(slots));
        world.replied(&calls(&[("fetch_device", target("page"))])).all_finished()
    };
    let send = |body: &str| calls(&[("send", json!({"to": "ann@acme.example", "body": body}))]);
    let refused = start().replied(&send("a")).finished("3/action-0", observed(Status::InvalidInput));
    assert_eq!(refused.replied(&send("b")).verdicts().last(), Some(&"run"));
    // Whether it happened is not known.
    let failed = start().replied(&send("a")).finished("3/action-0", observed(Status::Timeout));
    assert_eq!(failed.replied(&send("b")).verdicts().last(), Some(&"needs_person"));
}

#[test]
fn a_domain_plans_for_runs_whose_item_anybody_may_have_written() {
    let slot = |slot: Value| -> PlanSlot { serde_json::from_value(slot).unwrap() };
    let setup = || {
        desk(run()).with(|spec| {
            spec.gate.item_untrusted = true;
            let send = spec.tools.iter_mut().find(|tool| &*tool.name == "send").unwrap();
            send.policy.authority = vec!["/to".into()];
            spec.plan =
                vec![slot(json!({"tool": "send", "fixed": {"to": "ops@acme.example"}, "open": ["body"]}))];
        })
    };
    let send = |to: &str| draft("low").asks("send", json!({"to": to, "body": "late"}));
    assert_eq!(setup().start().replied(&send("ops@acme.example")).verdicts(), ["run"]);
    assert_eq!(setup().start().replied(&send("eve@evil.example")).verdicts(), ["denied"]);
    // A retry does not get a second one, and a run under another plan begins anew.
    let world = setup().start().replied(&send("ops@acme.example")).all_finished();
    let other = desk(run()).with(|spec| spec.plan = vec![slot(json!({"tool": "pay"}))]).spec;
    let fork = |spec| world.forked_under(world.journal.len(), spec).unwrap();
    let used = |world: &World| world.run.plan().map(|plan| plan.slots[0].used.len());
    assert_eq!(used(&fork(setup().spec)), Some(1));
    assert_eq!(used(&fork(other)), Some(0));
}

#[test]
fn a_plan_of_a_model_is_void_under_another_policy() {
    let world = talk().start().replied(&plan(json!([{"tool": "send"}])));
    let length = world.journal.len();
    assert!(world.forked_under(length, world.spec.as_ref().clone()).unwrap().run.plan().is_some());
    let mut spec = world.spec.as_ref().clone();
    spec.gate.label = "stricter".into();
    assert!(world.forked_under(length, spec).unwrap().run.plan().is_none());
}

#[test]
fn documents_plan_in_their_contract_or_with_the_selection() {
    let slots = json!([{"tool": "send", "fixed": {"to": "ann@acme.example"}}]);
    let asks = |tool: &str, parameters: Value| draft("low").asks(tool, parameters);
    let planned = asks("fetch_device", target("page")).member("plan", slots.clone());
    let world = desk(run()).start().replied(&planned).all_finished();
    let mut notes = world.journal.iter().flat_map(|(_, notes, _)| notes);
    assert!(notes.any(|note| matches!(note, Note::Planned { slots } if slots.len() == 1)));
    let world = world.replied(&asks("send", json!({"to": "ann@acme.example"})));
    assert_eq!(world.verdicts().last(), Some(&"run"));
    // Too late, which the outcome says once.
    let world = desk(run()).start().replied(&asks("fetch_device", target("page"))).all_finished();
    let late = || draft("low").asks("fetch_docs", target("x")).member("plan", slots.clone());
    let world = world.replied(&late()).all_finished();
    assert!(world.run.plan().is_none());
    let warnings = world.replied(&draft("high")).outcome().warnings.clone();
    assert!(matches!(warnings.as_slice(), [RunWarning::PlanRefused { pass: 2, .. }]), "{warnings:?}");
    // The selection's is among what it selects.
    let picked = [("plan", json!({ "slots": slots })), ("fetch_device", target("page"))];
    let world = desk(run().selector(&[])).start().selected(&picked).all_finished();
    let world = world.replied(&asks("send", json!({"to": "ann@acme.example"})));
    assert_eq!(world.verdicts().last(), Some(&"run"));
}
