//! Results compared with an earlier report: what is a regression, what is noise (issue 17, part 10).

use loop_eval::eval::{Baseline, BaselineComparison, CaseResult, FALSE_ALARMS, compare};
use loop_eval::report::{EvalReport, baseline_table, junit};
use loop_testkit::is_full;
use proptest::prelude::*;
use serde_json::json;

/// Runs of a case, so many of which passed.
fn runs(case: &str, passed: u32, all: u32) -> Vec<CaseResult> {
    let run = |at: u32| {
        let mut result = CaseResult::default();
        (result.case_id, result.file) = (case.to_owned(), format!("evals/{case}.json").into());
        (result.passed, result.repeat) = (at < passed, at + 1);
        result
    };
    (0..all).map(run).collect()
}

/// A report as it is printed, and read again.
fn baseline(results: &[CaseResult]) -> Baseline {
    let report = EvalReport::new(results.to_vec(), None);
    Baseline::parse(&serde_json::to_string_pretty(&report).unwrap(), "then.json").unwrap()
}

fn compared(before: &[CaseResult], now: &[CaseResult]) -> BaselineComparison {
    compare(&baseline(before), now, "then.json")
}

/// By case: runs that passed, and all.
fn side(cases: &[(u32, u32)]) -> Vec<CaseResult> {
    cases
        .iter()
        .enumerate()
        .flat_map(|(at, (passed, all))| runs(&format!("case-{at}"), *passed, *all))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_full() { 256 } else { 64 }))]

    #[test]
    fn the_same_rates_are_never_a_regression(
        cases in prop::collection::vec((0_u32..=8, 1_u32..=8), 1..20),
        times in 1_u32..=3,
    ) {
        let cases: Vec<(u32, u32)> = cases.into_iter().map(|(passed, all)| (passed.min(all), all)).collect();
        let more: Vec<(u32, u32)> = cases.iter().map(|(passed, all)| (passed * times, all * times)).collect();
        for (before, now) in [(&cases, &cases), (&cases, &more), (&more, &cases)] {
            let found = compared(&side(before), &side(now));
            prop_assert!(!found.regressed, "{found:?}");
        }
    }

    #[test]
    fn more_passes_than_before_are_never_a_regression(
        cases in prop::collection::vec((0_u32..=5, 0_u32..=5), 1..20),
    ) {
        let before: Vec<(u32, u32)> = cases.iter().map(|(one, other)| (*one.min(other), 5)).collect();
        let now: Vec<(u32, u32)> = cases.iter().map(|(one, other)| (*one.max(other), 5)).collect();
        prop_assert!(!compared(&side(&before), &side(&now)).regressed);
    }
}

#[test]
fn a_fall_from_all_to_half_of_forty_runs_is_a_regression() {
    for (cases, each) in [(40, 1), (8, 5), (4, 10), (1, 40)] {
        let before = side(&vec![(each, each); cases]);
        let mut now = side(&vec![(each, each); cases]);
        for result in now.iter_mut().step_by(2) {
            result.passed = false;
        }
        let found = compared(&before, &now);
        assert!(found.regressed, "{cases} cases: {found:?}");
        assert_eq!(found.configurations[0].passed, 20);
        let report = EvalReport::new(now, Some(found.clone()));
        assert!(!report.is_good());
        let text = baseline_table(&found);
        assert!(
            text.contains("own: REGRESSION") && text.contains("difference -50.0 points (95 % interval -6"),
            "{text}"
        );
        let xml = junit(&report.cases, report.baseline.as_ref());
        let document = roxmltree::Document::parse(&xml).unwrap();
        let failed = document.descendants().filter(|node| node.attribute("type") == Some("regression"));
        assert_eq!(failed.count(), 1, "{xml}");
    }
}

#[test]
fn what_can_be_seen_with_so_many_runs_is_what_the_page_says() {
    // Of so many runs on both sides that all passed before, so many that fail now are a regression, and one less is not.
    let least = |runs: u32| {
        let falls =
            |failing: &u32| compared(&side(&[(runs, runs)]), &side(&[(runs - failing, runs)])).regressed;
        (1..=runs).find(falls)
    };
    let page = std::fs::read_to_string("../../docs/how-to/evals.md").unwrap();
    for runs in [4, 5, 10, 20, 40, 100] {
        let row = format!("| {runs} | {} |\n", least(runs).unwrap());
        assert!(page.contains(&row), "{row}");
    }
    assert_eq!(least(3), None);
}

#[test]
fn one_case_that_breaks_is_found_among_many_that_are_noisy() {
    let noisy = [(12, 20), (9, 20), (15, 20), (11, 20), (8, 20), (13, 20)];
    let mut before = side(&noisy);
    let mut now = side(&noisy);
    before.extend(runs("broken", 19, 20));
    now.extend(runs("broken", 8, 20));
    let found = compared(&before, &now);
    let one = &found.configurations[0];
    assert!(found.regressed && one.fallen[0].regressed && one.fallen[0].case == "broken", "{found:?}");
    assert_eq!(one.fallen.len(), 1);
}

/// Numbers between 0 and 1 that one seed gives.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The share of comparisons that are regressions, of so many, where each case passes with a probability of its own that is
/// lower now by `fall`.
fn share_of_regressions(comparisons: u32, fall: f64) -> f64 {
    let (mut draws, mut regressions) = (Draws(17), 0);
    for _ in 0..comparisons {
        let (cases, each) = (1 + (draws.next() * 12.0) as usize, 1 + (draws.next() * 10.0) as u32);
        let rates: Vec<f64> = (0..cases).map(|_| draws.next()).collect();
        let mut drawn = |fall: f64| -> Vec<(u32, u32)> {
            let passes = |rate: &f64, draws: &mut Draws| {
                (0..each).filter(|_| draws.next() < rate - fall).count() as u32
            };
            rates.iter().map(|rate| (passes(rate, &mut draws), each)).collect()
        };
        let (before, now) = (drawn(0.0), drawn(fall));
        regressions += u32::from(compared(&side(&before), &side(&now)).regressed);
    }
    f64::from(regressions) / f64::from(comparisons)
}

#[test]
fn equal_rates_are_called_a_regression_no_more_often_than_stated() {
    // LOOPGATE_BASELINE_COMPARISONS=20000 measures what docs/how-to/evals.md says.
    let given = std::env::var("LOOPGATE_BASELINE_COMPARISONS").ok().and_then(|text| text.parse().ok());
    let share = share_of_regressions(given.unwrap_or(if is_full() { 600 } else { 150 }), 0.0);
    if given.is_some() {
        use std::io::Write as _;
        writeln!(
            std::io::stderr(),
            "equal rates: {share}, a fall of 30 points: {}",
            share_of_regressions(2_000, 0.3)
        )
        .unwrap();
    }
    assert!(share <= FALSE_ALARMS, "{share}");
    // And the comparison is not blind.
    assert!(share_of_regressions(if is_full() { 200 } else { 60 }, 0.3) > 0.3);
}

#[test]
fn only_what_is_the_same_is_compared_and_the_rest_is_said() {
    let with = |mut results: Vec<CaseResult>, configuration: &str, digest: &str| {
        for result in &mut results {
            (result.configuration, result.case_digest) = (configuration.to_owned(), digest.to_owned());
        }
        results
    };
    let before = [
        with(runs("same", 5, 5), "base=a/b", "1"),
        with(runs("changed", 5, 5), "base=a/b", "1"),
        with(runs("gone", 5, 5), "base=a/b", "1"),
        with(runs("same", 5, 5), "base=a/c", "1"),
    ]
    .concat();
    let now = [
        with(runs("same", 5, 5), "base=a/b", "1"),
        with(runs("changed", 0, 5), "base=a/b", "2"),
        with(runs("new", 0, 5), "base=a/b", "1"),
        with(runs("same", 0, 5), "base=a/d", "1"),
    ]
    .concat();
    let found = compared(&before, &now);
    assert!(!found.regressed, "{found:?}");
    assert_eq!((found.configurations.len(), found.configurations[0].cases), (1, 1));
    let text = baseline_table(&found);
    for line in [
        "not compared, changed since the baseline: changed\n",
        "not compared, cases that the baseline does not have: new\n",
        "not compared, cases of the baseline that were not run: gone\n",
        "not compared, configurations that the baseline does not have: base=a/d\n",
        "not compared, configurations of the baseline that were not run: base=a/c\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // One configuration on each side is one question, whatever the models are.
    let one =
        compared(&with(runs("same", 5, 5), "base=a/b", "1"), &with(runs("same", 0, 5), "base=a/d", "1"));
    assert!(one.regressed && one.configurations[0].against == "base=a/b", "{one:?}");
    // Cases of one name in several files are told apart.
    let mut twice = side(&[(5, 5)]);
    let other = side(&[(0, 5)]).into_iter().map(|mut result| {
        result.file = "b/case-0.json".into();
        result
    });
    twice.extend(other);
    let found = compared(&twice, &twice);
    assert_eq!((found.configurations[0].cases, found.regressed), (2, false), "{found:?}");
    // Nothing in common is not a success.
    let none = compared(&runs("a", 5, 5), &runs("b", 5, 5));
    assert!(none.configurations.is_empty() && !EvalReport::new(runs("b", 5, 5), Some(none)).is_good());
}

#[test]
fn a_file_that_is_no_baseline_is_one_line() {
    let line = |text: &str| Baseline::parse(text, "b.json").unwrap_err().to_string();
    let whole = serde_json::to_string(&EvalReport::new(runs("a", 1, 1), None)).unwrap();
    assert!(Baseline::parse(&whole, "b.json").is_ok());
    // Torn at every byte.
    for cut in 0..whole.len() {
        let message = line(&whole[..cut]);
        assert!(message.starts_with("b.json:1:") && message.contains("is not whole JSON"), "{message}");
    }
    let cases = [
        (json!([1]), "it has no `version`"),
        (json!({ "version": 1 }), "it has no list of `cases`"),
        (json!({ "version": 1, "cases": [{ "case_id": 1 }] }), "/cases/0: "),
        (
            json!({ "version": 2, "cases": [] }),
            "written by a newer loopgate: its format is 2, this one reads 1",
        ),
    ];
    for (text, part) in cases {
        let message = line(&text.to_string());
        assert!(message.contains(part) && message.lines().count() == 1, "{message}");
    }
}
