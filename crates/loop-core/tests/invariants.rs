//! The invariants of `loop_core::invariants` see a fault: each is shown a state or a step that the core does not make,
//! forged by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_core::invariants::{Checker, OF_A_STATE, OF_A_STEP, Past, StartedEffect, Transition};
use loop_core::run::{PersonAnswer, Refusal, State, StopMode};
use loop_core::spec::Repeats;
use loop_core::types::{Millis, PicoUsd, Status};
use loop_core::{Event, EventKind, Note, Run, StopReason};
use loop_testkit::*;
use serde_json::{Value, json};

/// A step, with what is remembered of those before it and of itself.
#[derive(Clone)]
struct Step {
    before: Run,
    event: Event,
    notes: Vec<Note>,
    after: Run,
    was: Past,
    is: Past,
}

/// The last step of a world.
fn last(world: &World) -> Step {
    let before = world.cut(world.journal.len() - 1);
    let (event, notes, _) = world.journal.last().unwrap().clone();
    let (was, is) = (before.checker.past().clone(), world.checker.past().clone());
    Step { before: before.run, event, notes, after: world.run.clone(), was, is }
}

/// The run with these parts of its state replaced.
fn forged(run: &Run, changes: &[(&str, Value)]) -> Run {
    let mut state = serde_json::to_value(run.state()).unwrap();
    for (pointer, value) in changes {
        *state.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value.clone();
    }
    let state: State = serde_json::from_value(state).unwrap();
    Run::restore(state, Arc::clone(run.spec())).unwrap()
}

/// The names of the invariants that do not hold.
fn violated(step: &Step) -> BTreeSet<&'static str> {
    let Step { before, event, notes, after, was, is } = step;
    let transition = Transition { before, event, notes, after };
    let of_step = OF_A_STEP.iter().filter(|it| (it.check)(&transition, was).is_err()).map(|it| it.name);
    let of_state = OF_A_STATE.iter().filter(|it| (it.check)(after, is).is_err()).map(|it| it.name);
    of_step.chain(of_state).collect()
}

fn note(of: &Note, pointer: &str, value: Value) -> Note {
    let mut json = serde_json::to_value(of).unwrap();
    *json.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    serde_json::from_value(json).unwrap()
}

/// Steps that no run takes, each with the invariant that must see it.
fn forgeries() -> Vec<(&'static str, Step)> {
    let mut all: Vec<(&'static str, Step)> = Vec::new();
    let mut see = |name: &'static str, of: &Step, forge: &dyn Fn(&mut Step)| {
        assert_eq!(violated(of), BTreeSet::new(), "{name}: the step itself is sound");
        let mut step = of.clone();
        forge(&mut step);
        all.push((name, step));
    };
    // A result of a read came, and a write waits for a person.
    let asked = draft("low").asks("fetch_docs", target("a")).asks("wipe", target("b"));
    let waiting = last(&run().people().start().replied(&asked).all_finished());
    let part = |run: &Run, pointer: &str| {
        serde_json::to_value(run.state()).unwrap().pointer(pointer).cloned().unwrap_or_default()
    };
    see("limits", &waiting, &|it| it.after = forged(&it.after, &[("/budget/totals/passes", json!(99))]));
    see("each action has its result", &waiting, &|it| {
        it.after = forged(&it.after, &[("/calls/actions/0/evidence", json!(null))]);
    });
    see("order of evidence", &waiting, &|it| {
        it.after = forged(&it.after, &[("/knowledge/evidence/0/id", json!(2))]);
    });
    see("what is done is not run again", &waiting, &|it| {
        let evidence = part(&it.after, "/knowledge/evidence/0");
        it.after = forged(&it.after, &[("/knowledge/evidence", json!([evidence, evidence]))]);
    });
    see("approvals are bound", &waiting, &|it| {
        it.after = forged(&it.after, &[("/calls/actions/1/verdict", json!({"verdict": "run"}))]);
    });
    see("silence after the reason", &waiting, &|it| it.is.stops = 1);
    see("nothing is lost", &waiting, &|it| {
        it.after = forged(&it.after, &[("/knowledge/evidence/0/observation/digest", json!("00".repeat(32)))]);
    });
    see("merge", &waiting, &|it| {
        it.after = forged(&it.after, &[("/draft/document/sections/0/body", json!("Something else."))]);
    });
    see("the sum of the costs", &waiting, &|it| {
        it.after = forged(&it.after, &[("/budget/totals/cost/known", json!(1))]);
    });
    see("the rank falls", &waiting, &|it| it.after = it.before.clone());
    see("at most one escalation", &waiting, &|it| {
        it.after = forged(&it.after, &[("/route/tier", json!("escalated"))]);
    });
    let progress = run().people().repeating(Repeats::Progress).start().replied(&asked).all_finished();
    see("rules of repeats", &last(&progress), &|it| {
        let verdict = json!({"verdict": "duplicate", "of": "1/action-0", "evidence": 1});
        it.after = forged(&it.after, &[("/calls/actions/1/verdict", verdict)]);
    });
    // A call was announced under a limit of cost.
    let started = last(&run().start().started());
    see("cost and tokens within the limits", &started, &|it| {
        it.after = forged(&it.after, &[("/budget/totals/cost/known", json!(u64::MAX / 4))]);
    });
    // A write begins that the domain approved.
    let mut world = run().approving(&["wipe"]).start().replied(&draft("low").asks("wipe", target("a")));
    let commanded = last(&world);
    let tool = world.tools().remove(0);
    see("tries", &commanded, &|it| {
        it.is.settled.insert(tool.key, (1, Some(Status::Ok)));
    });
    let denied = || json!({"verdict": "denied", "why": "no"});
    see("policy first", &commanded, &|it| {
        it.after = forged(&it.after, &[("/calls/actions/0/verdict", denied())]);
    });
    world.apply(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt });
    let begun = last(&world);
    see("a verdict before each effect", &begun, &|it| {
        it.before = forged(&it.before, &[("/calls/actions/0/verdict", denied())]);
    });
    see("dispatches of an effect", &begun, &|it| {
        it.was.effects.insert(tool.key, StartedEffect { runs: false, unknown: true });
    });
    // A person allowed a write after something untrusted was read.
    let tainted = run().people().with(|spec| {
        spec.tools.iter_mut().for_each(|tool| tool.policy.returns_untrusted = tool.effect.is_read());
    });
    let world = tainted.start().replied(&draft("low").asks("fetch_docs", target("a"))).all_finished();
    let world = world.replied(&draft("low").asks("wipe", target("b")));
    let answered = last(&world.answered_by_person("2/action-0", PersonAnswer::Approved));
    see("taint", &answered, &|it| it.is.approved.clear());
    see("an approval counts once", &answered, &|it| it.before = it.after.clone());
    // The budget that runs share leaves less than what was started takes.
    let mut world = run().with(|spec| spec.models.selector = None).start();
    let left = Refusal::SharedBudget { left: PicoUsd(900_000_000) };
    let refusal = refused(&world.call(), PROMPT, left);
    world.apply(refusal);
    let started = last(&world.started_with(PROMPT));
    see("the rest of a shared budget", &started, &|it| {
        it.after = forged(&it.after, &[("/budget/shared", json!(1_000_000))]);
    });
    // The end.
    let ended = last(&run().start().replied(&draft("high")));
    let stopped = |it: &Step| it.notes.iter().position(|note| matches!(note, Note::Stopped { .. })).unwrap();
    see("the base tier at the end", &ended, &|it| {
        it.after = forged(&it.after, &[("/route/tier", json!("escalated"))]);
    });
    see("effects in doubt are reported", &ended, &|it| {
        it.is.effects.insert(key("1/action-0"), StartedEffect { runs: false, unknown: true });
    });
    let slots = json!({"slots": [{"tool": "wipe"}]});
    let planned = last(&conversation().start().replied(&calls(&[("plan", slots)])));
    see("plans", &planned, &|it| {
        let twice = json!({"1/action-0": it.after.started().policy, "1/action-1": it.after.started().policy});
        it.after = forged(
            &it.after,
            &[("/knowledge/plan/slots/0", json!({"slot": {"tool": "wipe"}, "used": twice}))],
        );
    });
    see("plans", &planned, &|it| {
        it.after = forged(&it.after, &[("/knowledge/plan/policy", json!(it.after.started().spec))]);
    });
    see("one reason", &ended, &|it| it.was.stops = 1);
    see("nothing begins after the reason", &ended, &|it| it.was.stops = 1);
    see("the reason is true", &ended, &|it| {
        let at = stopped(it);
        it.notes[at] = note(&it.notes[at], "/certificate/primary/reason", json!("manual_stop"));
    });
    all
}

#[test]
fn each_invariant_sees_a_step_that_breaks_it() {
    let mut seen = BTreeSet::new();
    for (name, step) in forgeries() {
        let found = violated(&step);
        assert!(found.contains(name), "`{name}` does not see its fault; {found:?} do");
        seen.insert(name);
    }
    let names = OF_A_STATE.iter().map(|it| it.name).chain(OF_A_STEP.iter().map(|it| it.name));
    let unseen: Vec<_> = names.filter(|name| !seen.contains(name)).collect();
    // Every phase has commands or a deadline by its type.
    assert_eq!(unseen, ["a live run is owed an event"]);
}

#[test]
fn a_checker_names_the_entry() {
    let (mut run, _, notes) = {
        let setup = run();
        Run::start(loop_core::types::RunId::new("r1"), setup.spec.into(), setup.item, setup.facts)
    };
    let (mut checker, violations) = Checker::start(&run, &notes);
    assert_eq!(violations, []);
    let before = run.clone();
    let event = Event { at: Millis(1), kind: EventKind::StopRequested { how: StopMode::Now } };
    let mut notes = run.apply(&event).unwrap();
    let at = notes.iter().position(|note| matches!(note, Note::Stopped { .. })).unwrap();
    notes.push(notes[at].clone());
    let violations = checker.step(&Transition { before: &before, event: &event, notes: &notes, after: &run });
    let found: Vec<_> = violations.iter().map(|it| (it.id, it.name, it.seq)).collect();
    assert!(found.contains(&("I-8", "one reason", 1)), "{violations:?}");
    assert!(violations[0].to_string().starts_with("entry 1: "), "{}", violations[0]);
    assert_eq!(run.outcome().map(|outcome| outcome.stop.reason()), Some(StopReason::ManualStop));
}

#[test]
fn the_page_lists_every_invariant() {
    let page = include_str!("../../../docs/reference/invariants.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| I-").or(line.strip_prefix("| W5").map(|_| "")).map(|_| line))
        .filter_map(|line| line.trim_matches('|').split_once('|'))
        .map(|(id, rest)| (id.trim(), rest.split('|').next().unwrap_or_default().trim()))
        .collect();
    let state = OF_A_STATE.iter().map(|it| (it.id, it.name));
    let expected: BTreeSet<_> = state.chain(OF_A_STEP.iter().map(|it| (it.id, it.name))).collect();
    assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!(rows.len(), expected.len());
}
