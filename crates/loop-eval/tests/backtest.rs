//! Recorded runs under other policies: checked against runs that are driven under them with the same numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::spec::{CostMode, Stale};
use loop_core::types::{PicoUsd, RunId};
use loop_core::{EventKind, Run, RunSpec, WorkItem};
use loop_domain::PolicyFile;
use loop_inspect::backtest::{
    BacktestReport, Backtested, Finding, FindingKind, NamedSpec, NotTested, Policies, Policy, RunsOf,
    backtest,
};
use loop_runtime::journal::{Durability, Entry, Header, Journal, MemoryJournal, Recorded};
use loop_testkit::*;

fn recorded(world: &World) -> Recorded {
    let entries = world.journal.iter().enumerate().map(|(seq, (event, notes, _))| Entry {
        seq: seq as u64,
        event: event.clone(),
        notes: notes.clone(),
    });
    Recorded {
        spec: Arc::clone(&world.spec),
        manifest: "[]".into(),
        origin: None,
        entries: entries.collect(),
        unverified: None,
        imported: false,
        since_last_ms: None,
    }
}

fn tested(world: &World, specs: &[RunSpec]) -> Backtested {
    let under: Vec<NamedSpec> = specs.iter().map(|spec| NamedSpec::new(Arc::new(spec.clone()))).collect();
    backtest(world.run.id(), &recorded(world), &NamedSpec::new(Arc::clone(&world.spec)), &under).unwrap()
}

fn one(world: &World, spec: &RunSpec) -> Finding {
    tested(world, std::slice::from_ref(spec)).findings.remove(0)
}

/// Another policy for a run of this spec, as the numbers choose it.
fn other(spec: &RunSpec, numbers: &mut Numbers) -> RunSpec {
    let mut spec = spec.clone();
    for _ in 0..=numbers.below(2) {
        let (which, how) = (numbers.below(15), numbers.below(6));
        let (limits, gate) = (&mut spec.limits, &mut spec.gate);
        match which {
            0 | 1 => limits.passes = how as u32,
            2 => limits.model_calls = 2 * how as u32,
            3 => limits.tool_calls = how as u32,
            4 => limits.cost = Some(PicoUsd(how * 400_000_000)),
            5 => limits.cost = None,
            6 => limits.tokens = Some(1_000 + how * 4_000),
            7 => limits.wall_ms = 1_000 + how * 9_001,
            8 => {
                limits.cost_mode = [CostMode::Estimated, CostMode::Strict, CostMode::After][how as usize % 3]
            }
            9 => gate.no_progress = how as u32,
            10 => gate.stale = [Stale::Off, Stale::Equal, Stale::NotImproved][how as usize % 3],
            11 => gate.high_is_final = !gate.high_is_final,
            12 => gate.final_pass = !gate.final_pass,
            13 => gate.forbid.push(["wipe", "fetch_docs", "restart"][how as usize % 3].into()),
            _ => gate.breakers.tool_failures = how as u32,
        }
    }
    spec
}

/// Whether a reply of the run is longer than what was granted, which no provider returns.
fn breaks_its_grant(world: &World) -> bool {
    let mut granted = u64::MAX;
    world.journal.iter().any(|(event, _, _)| match &event.kind {
        EventKind::CallStarted { max_output_tokens, .. } => {
            granted = *max_output_tokens;
            false
        }
        EventKind::ModelReplied { reply, .. } => reply.usage.is_some_and(|usage| usage.output > granted),
        _ => false,
    })
}

fn result(run: &Run) -> impl PartialEq + std::fmt::Debug + use<> {
    let outcome = run.outcome().unwrap();
    (outcome.document.clone(), outcome.answer.clone(), outcome.output.clone())
}

#[test]
fn the_same_policy_gives_no_difference() {
    // Issue 16, part 6: whatever the protocol, the limits, the failures and the people.
    for seed in 0..300_u64 {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        let world = random_run(setup, &mut numbers);
        let tested = tested(&world, &[(*world.spec).clone()]);
        let finding = &tested.findings[0];
        assert_eq!(finding.kind, FindingKind::Same, "seed {seed}: {finding:?}");
        assert_eq!(finding.totals, world.outcome().totals, "seed {seed}");
        assert_eq!((finding.is_same_result, finding.is_exact, &finding.more), (true, true, &None));
        assert_eq!(tested.recorded, world.run);
    }
}

#[test]
fn what_is_found_is_what_a_run_under_the_other_policy_does() {
    // Issue 16, part 6: an earlier stop is exact, and nothing else exceeds its bound.
    let mut kinds = BTreeMap::<FindingKind, u32>::new();
    let (seeds, of_each) = if is_full() { (1_000_u64, 8) } else { (300, 2) };
    for seed in 0..seeds {
        let mut numbers = Numbers(seed);
        let setup = random_setup(&mut numbers);
        let policy = other(&setup.clone().start().spec, &mut numbers);
        let world = random_run(setup.clone(), &mut numbers.clone());
        let finding = one(&world, &policy);
        let again = random_run(setup.with(|spec| *spec = policy), &mut numbers);
        *kinds.entry(finding.kind).or_default() += 1;
        let really = again.outcome();
        let shown =
            || format!("seed {seed}: {finding:?}\nreally {:?} {:?}", really.stop.primary, really.totals);
        let stop = Some((really.stop.reason(), really.stop.class));
        match finding.kind {
            FindingKind::Same | FindingKind::OtherReason => {
                assert_eq!(finding.stop, stop, "{}", shown());
                assert_eq!(finding.totals, really.totals, "{}", shown());
                assert_eq!(result(&again.run), result(&world.run), "{}", shown());
            }
            FindingKind::StopsEarlier => {
                let outcome = finding.outcome.as_deref().unwrap();
                assert_eq!(finding.stop, stop, "{}", shown());
                assert_eq!(
                    (&outcome.document, &outcome.answer),
                    (&really.document, &really.answer),
                    "{}",
                    shown()
                );
                assert_eq!(finding.is_same_result, result(&again.run) == result(&world.run), "{}", shown());
                if finding.is_exact {
                    assert_eq!(finding.totals, really.totals, "{}", shown());
                } else {
                    assert!(finding.totals.cost.known >= really.totals.cost.known, "{}", shown());
                }
            }
            FindingKind::FinalPass | FindingKind::Continues | FindingKind::Differs => {
                let (at, more) = (finding.at.unwrap(), finding.more.unwrap());
                assert!(finding.totals.cost.known <= really.totals.cost.known, "{}", shown());
                assert!(at.entry < world.journal.len() as u64, "{}", shown());
                if breaks_its_grant(&again) {
                    continue;
                }
                let calls = really.totals.model_calls - finding.totals.model_calls;
                // A call in flight is counted in both.
                assert!(calls <= more.model_calls, "{}", shown());
                if let Some(cost) = more.cost {
                    let at_most = finding.totals.cost.known.plus(cost);
                    assert!(really.totals.cost.known <= at_most, "{}", shown());
                }
            }
        }
    }
    let all = FindingKind::ALL.iter().all(|kind| kinds.get(kind).is_some_and(|runs| *runs >= of_each));
    assert!(all, "{kinds:?}");
}

/// The worlds as runs of a journal, each under a name of its own.
pub(crate) async fn stored(worlds: &[World]) -> RunsOf {
    let journal = MemoryJournal::new();
    let mut runs = Vec::new();
    for world in worlds {
        let recorded = recorded(world);
        let started = world.run.started();
        let header = Header {
            run: world.run.id().clone(),
            unix_ms: started.unix_ms,
            item: Arc::clone(&started.item.id),
            title: Arc::clone(&started.item.title),
            spec: recorded.spec,
            manifest_hash: started.tools,
            manifest: recorded.manifest,
            origin: None,
            request_key: None,
        };
        let entries: Vec<Arc<Entry>> = recorded.entries.into_iter().map(Arc::new).collect();
        let mut writer = journal.create(&header, &entries[0]).await.unwrap();
        writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
        runs.push(header.run);
    }
    RunsOf { handles: vec![Arc::new(journal.clone()), Arc::new(journal)], runs }
}

/// Runs that ask for a tool until they are sure, after so many passes. The item decides the half of a run.
pub(crate) fn sure_after(name: &str, passes: u32) -> World {
    let item = WorkItem::new(format!("item-{name}"), "ticket", "T", "It is slow.");
    let setup = run().item(item).gate(|gate| (gate.stale, gate.no_progress) = (Stale::Off, 0));
    let mut world = setup.start_as(name);
    for pass in 1..passes {
        let host = format!("h{pass}");
        let asks =
            draft("low").section("Situation", &format!("pass {pass}")).asks("fetch_device", target(&host));
        world = world.replied(&asks).all_finished();
    }
    world.replied(&draft("high").section("Situation", "It is the disk."))
}

fn policies(texts: &[&str]) -> Arc<Policies> {
    let file = |(at, text): (usize, &&str)| {
        let file = PolicyFile::of_text(format!("p{at}.toml").into(), (*text).to_owned(), &[]).unwrap();
        Policy::new(file.name().to_owned(), file.settings(), move |spec| file.applied(spec))
    };
    Arc::new(Policies::new(texts.iter().enumerate().map(file).collect()))
}

async fn report(worlds: &[World], texts: &[&str]) -> BacktestReport {
    let (policies, of) = (policies(texts), stored(worlds).await);
    let tested = policies.over(&of, &Arc::default(), /*documents*/ true).await;
    BacktestReport::new(&policies, tested)
}

#[tokio::test]
async fn an_earlier_stop_has_the_document_of_its_pass() {
    // Issue 16, part 6: the document at that pass is in the journal, and so are its cost and its time.
    let worlds = [sure_after("a", 3), sure_after("b", 1)];
    let two_passes = "[limits]\npasses = 2\n[gate]\nfinal_pass = false\n";
    let report = report(&worlds, &["", two_passes, "[limits]\npasses = 2\n"]).await;
    let kinds: Vec<Vec<FindingKind>> =
        report.runs.iter().map(|run| run.under.iter().map(|under| under.finding).collect()).collect();
    use FindingKind::{FinalPass, Same, StopsEarlier};
    assert_eq!(kinds, [[Same, StopsEarlier, FinalPass], [Same, Same, Same]]);
    let early = &report.runs[0].under[1];
    let situation =
        early.document.as_ref().unwrap().iter().find(|section| section.id == "situation").unwrap();
    assert!(situation.body.ends_with("pass 2") && situation.pass == 2 && !early.same_result, "{early:?}");
    assert_eq!((early.reason.as_deref(), early.class.as_deref()), (Some("max_passes"), Some("partial")));
    // What is saved is the cost of the third pass.
    let saved = report.runs[0].cost_pico_usd.unwrap() - early.cost_pico_usd.unwrap();
    assert!(saved > 0 && report.policies[1].saved_pico_usd == saved, "{:?}", report.policies[1]);
    assert_eq!((report.policies[1].unknown, report.policies[2].unknown), (0, 1));
    assert!(report.policies[2].unknown_at_most_pico_usd > Some(report.policies[2].unknown_at_least_pico_usd));
}

#[tokio::test]
async fn a_tool_that_is_forbidden_changes_nothing_until_it_is_requested() {
    let both = draft("low").asks("fetch_device", target("h")).asks("fetch_docs", target("h"));
    let asks = run().start_as("a").replied(&both).all_finished().replied(&draft("high"));
    let worlds = [asks, sure_after("b", 1)];
    let report = report(&worlds, &["[gate]\nforbid = [\"fetch_device\"]\n"]).await;
    assert_eq!(report.policies[0].assumptions, ["the list of tools lacks `fetch_device`"]);
    let [a, b] = [&report.runs[0].under[0], &report.runs[1].under[0]];
    assert_eq!((a.finding, b.finding), (FindingKind::Differs, FindingKind::Same));
    assert!(
        a.what.contains("the verdict on fetch_device") && a.what.contains("`denied` and was `run`"),
        "{}",
        a.what
    );
}

#[tokio::test]
async fn a_larger_limit_continues_with_a_bound() {
    let short = run().limits(|limits| limits.passes = 1).gate(|gate| gate.final_pass = false);
    let world = short.start_as("a").replied(&draft("low").asks("fetch_device", target("h"))).all_finished();
    let report = report(&[world], &["[limits]\npasses = 4\n"]).await;
    let under = &report.runs[0].under[0];
    assert_eq!(under.finding, FindingKind::Continues, "{under:?}");
    assert_eq!(under.what, "the model call 2/main is made");
    assert!(under.more_at_most.unwrap().cost_pico_usd.is_some_and(|cost| cost > 0));
}

#[tokio::test]
async fn a_run_that_has_not_ended_is_the_same_so_far() {
    let open = run().start_as("a").started();
    let report = report(&[open], &["", "[limits]\npasses = 0\n"]).await;
    let [same, none] = [0, 1].map(|at| &report.runs[0].under[at]);
    assert_eq!((same.finding, report.recorded.open, &report.runs[0].class), (FindingKind::Same, 1, &None));
    assert_eq!((none.finding, none.entry, none.cost_pico_usd), (FindingKind::StopsEarlier, Some(0), Some(0)));
}

#[tokio::test]
async fn entries_that_were_decided_otherwise_are_not_tested() {
    // I-11: what this program would decide says nothing about what was decided.
    let world = sure_after("a", 2);
    let mut other = recorded(&world);
    other.entries.iter_mut().for_each(|entry| entry.notes.clear());
    let error = policies(&[""]).backtest(world.run.id(), &other).unwrap_err().to_string();
    assert!(error.contains("was decided otherwise by the program that wrote it"), "{error}");
    other.entries.clear();
    assert!(policies(&[""]).backtest(world.run.id(), &other).is_err());
    let gone = RunsOf { runs: vec![RunId::new("gone")], ..stored(&[world]).await };
    let missing = policies(&[""]).over(&gone, &Arc::default(), false).await;
    assert!(matches!(missing[0].1, Err(NotTested::Journal(_))));
}

#[test]
fn the_schema_is_that_of_the_type() {
    let file = "../../docs/schema/backtest.schema.json";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = serde_json::to_string_pretty(&schemars::schema_for!(BacktestReport)).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{file} is old: run this test with UPDATE_SCHEMA=1");
}
