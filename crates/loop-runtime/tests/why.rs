//! Why a run stopped, and what would have continued it: checked against runs that are driven again under the changed
//! settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::gate::{Measure, Remedy};
use loop_core::run::{Phase, StopMode};
use loop_core::spec::Setting;
use loop_core::types::Status;
use loop_core::{EventKind, Note, Run, RunSpec};
use loop_inspect::audit::JournalAudit;
use loop_inspect::diff::RunDiff;
use loop_inspect::listed::{ListedRuns, StatsReport};
use loop_inspect::replay::Replay;
use loop_inspect::why::{Continuation, Why, WhyStatus};
use loop_inspect::{Plan, RunReport};
use loop_runtime::journal::{Entry, Recorded};
use loop_runtime::report::BatchLine;
use loop_testkit::*;

fn recorded(world: &World) -> Recorded {
    let entry = |(seq, (event, notes, _)): (usize, &(loop_core::Event, Vec<Note>, _))| Entry {
        seq: seq as u64,
        event: event.clone(),
        notes: notes.clone(),
    };
    Recorded {
        spec: Arc::clone(&world.spec),
        manifest: "[]".into(),
        origin: None,
        entries: world.journal.iter().enumerate().map(entry).collect(),
        unverified: None,
        imported: false,
        since_last_ms: None,
    }
}

/// The index of the event with which a run began to end.
fn ended_at(world: &World) -> usize {
    let is_end = |run: &Run| {
        run.outcome().is_some()
            || run.phase().final_cause().is_some()
            || matches!(run.phase(), Phase::Stopping(_))
    };
    let states = world
        .journal
        .iter()
        .map(|(_, _, state)| Run::restore(state.clone(), Arc::clone(&world.spec)).unwrap());
    states.enumerate().find(|(_, run)| is_end(run)).unwrap().0
}

/// The spec with the changes of a continuation.
fn changed(spec: &RunSpec, continuation: &Continuation) -> Option<RunSpec> {
    let Continuation::With { changes, .. } = continuation else { return None };
    changes.iter().try_fold(spec.clone(), |spec, change| {
        let setting = Setting::of_path(&change.setting).unwrap();
        let to = match (setting, change.to.parse::<u64>()) {
            (Setting::WallMs, Ok(ms)) => Measure::Millis(ms),
            (Setting::Cost, _) => Measure::PicoUsd(change.to.parse().ok()?),
            (_, Ok(count)) => Measure::Count(count),
            (_, Err(_)) => Measure::Text(change.to.as_str().into()),
        };
        Remedy { setting, to }.applied(&spec)
    })
}

#[test]
fn a_run_that_is_driven_again_under_what_would_have_continued_it_continues() {
    // C14, S4-65: what is read of the gate's answers is what the core then does.
    let (mut ways, mut continued, mut parted) = (BTreeMap::<&str, u32>::new(), 0, 0);
    for seed in 0..800_u64 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        let world = random_run(setup.clone(), &mut numbers.clone());
        let recorded = recorded(&world);
        let why = Why::of(world.run.id(), &recorded).unwrap();
        assert_eq!(why.status, WhyStatus::Ended);
        let continuation = why.continuation.unwrap();
        *ways
            .entry(match &continuation {
                Continuation::With { .. } => "with",
                Continuation::NoSetting { .. } => "no setting",
                Continuation::Unknown { why } => panic!("seed {seed}: {why}: {:?}", world.outcome().stop),
            })
            .or_default() += 1;
        let Some(spec) = changed(&world.spec, &continuation) else { continue };
        let again = random_run(setup.with(|of| *of = spec), &mut numbers);
        let end = ended_at(&world);
        // An earlier grant may differ where a budget is larger, and all that follows with it.
        let is_same =
            |at: usize| again.journal.get(at).map(|it| &it.0.kind) == Some(&world.journal[at].0.kind);
        if (1..end).all(is_same) {
            continued += 1;
            assert!(ended_at(&again) > end, "seed {seed} ends at the same event: {continuation:?}");
        } else {
            parted += 1;
        }
    }
    assert!(continued > 400, "{ways:?} {continued} continued, {parted} parted before");
}

#[test]
fn a_run_equals_itself_and_differs_from_every_run_that_decided_otherwise() {
    let worlds: Vec<World> = (0..25_u64)
        .map(|seed| {
            let mut numbers = Numbers(seed);
            let setup = random_setup(&mut numbers);
            random_run(setup, &mut numbers)
        })
        .collect();
    for a in &worlds {
        let recorded_a = recorded(a);
        for b in &worlds {
            let recorded_b = recorded(b);
            let diff = RunDiff::of((a.run.id(), &recorded_a), (b.run.id(), &recorded_b)).unwrap();
            let is_same = a.run.actions() == b.run.actions()
                && a.run.outcome().map(|it| (&it.stop.primary, &it.document, &it.answer))
                    == b.run.outcome().map(|it| (&it.stop.primary, &it.document, &it.answer))
                && a.spec == b.spec
                && a.run.totals().cost == b.run.totals().cost;
            assert!(!diff.equal || is_same, "{diff:?}");
            if std::ptr::eq(a, b) {
                assert!(diff.equal, "{diff:?}");
            }
        }
    }
}

#[test]
fn entries_that_were_decided_otherwise_are_not_explained() {
    // I-11: an explanation of what this program would decide is not one of what was decided.
    let world = run().start().replied(&draft("high"));
    let mut other = recorded(&world);
    for note in other.entries.iter_mut().flat_map(|entry| &mut entry.notes) {
        if let Note::ReplyRead { confidence, .. } = note {
            *confidence = loop_core::types::Confidence::Low;
        }
    }
    let error = Why::of(world.run.id(), &other).unwrap_err().to_string();
    assert!(error.contains("was decided otherwise by the program that wrote it"), "{error}");
    let same = recorded(&world);
    assert!(RunDiff::of((world.run.id(), &same), (world.run.id(), &other)).is_err());
    let nothing = Recorded { entries: Vec::new(), ..same };
    assert!(Why::of(world.run.id(), &nothing).is_err());
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let schemas = [
        ("why", schemars::schema_for!(Why)),
        ("verify", schemars::schema_for!(JournalAudit)),
        ("diff", schemars::schema_for!(RunDiff)),
        ("plan", schemars::schema_for!(Plan)),
        ("report", schemars::schema_for!(RunReport)),
        ("engine-status", schemars::schema_for!(loop_runtime::engine::EngineStatus)),
        ("replay", schemars::schema_for!(Replay)),
        ("batch-line", schemars::schema_for!(BatchLine)),
        ("hook", schemars::schema_for!(loop_runtime::hooks::HookBody)),
        ("runs", schemars::schema_for!(ListedRuns)),
        ("audit", schemars::schema_for!(loop_runtime::journal::audit::AuditReport)),
        ("journal-stats", schemars::schema_for!(StatsReport)),
    ];
    for (name, schema) in schemas {
        let file = format!("../../docs/schema/{name}.schema.json");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{file} is old: run this test with UPDATE_SCHEMA=1");
    }
}

#[test]
fn an_effect_in_doubt_is_left_and_named() {
    // W5: whatever stopped the run, a person looks before anything is done again.
    let setup = run().patient().approving(&["restart", "wipe"]);
    let mut world = setup.start().replied(&draft("low").asks("wipe", target("a")));
    let tool = world.tools().remove(0);
    world.apply(EventKind::ToolStarted { key: tool.key, attempt: tool.attempt });
    let observation = observed(Status::Timeout);
    world.apply(EventKind::ToolFinished {
        key: tool.key,
        attempt: tool.attempt,
        observation: Arc::new(observation),
    });
    let world = world.autopilot(&draft("high"));
    let why = Why::of(world.run.id(), &recorded(&world)).unwrap();
    assert_eq!(why.class.as_deref(), Some("in_doubt"));
    assert!(why.in_doubt.len() == 1 && why.in_doubt[0].contains("wipe"), "{:?}", why.in_doubt);
}

// Issue 43, P6
#[test]
fn what_was_irregular_is_told() {
    let mut world = run().start().started();
    let call = world.call();
    let warnings = vec!["context_truncated_suspected: half of it".into()];
    let reply = loop_core::reply::Reply { warnings, ..draft("high").reply() };
    world.apply(EventKind::ModelReplied { key: call.key, attempt: call.attempt, reply: reply.into() });
    let why = Why::of(world.run.id(), &recorded(&world)).unwrap();
    assert_eq!(why.status, WhyStatus::Ended);
    assert!(why.warnings.len() == 1 && why.warnings[0].ends_with(": half of it"), "{:?}", why.warnings);
}

#[test]
fn a_run_that_has_not_ended_is_explained_without_an_end() {
    let open = run().start().started();
    let why = Why::of(open.run.id(), &recorded(&open)).unwrap();
    assert_eq!((why.status, why.conditions.len(), why.continuation), (WhyStatus::Open, 0, None));
    // The time to answer of a run of 1970 is over, so the next driver takes silence for a denial.
    for (person_ms, status) in [(None, WhyStatus::Waiting), (Some(1_000), WhyStatus::Open)] {
        let asking = run().people().limits(|limits| limits.person_ms = person_ms);
        let waiting = asking.start().replied(&draft("low").asks("wipe", target("a")));
        let why = Why::of(waiting.run.id(), &recorded(&waiting)).unwrap();
        assert_eq!((why.status, why.waiting.len()), (status, 1));
    }
    let stopped = run().start().started().stop(StopMode::Now).deadline();
    let why = Why::of(stopped.run.id(), &recorded(&stopped)).unwrap();
    let reason = "manual_stop".to_owned();
    assert!(
        matches!(&why.continuation, Some(Continuation::NoSetting { reason: found, .. }) if *found == reason),
        "{why:?}"
    );
}
