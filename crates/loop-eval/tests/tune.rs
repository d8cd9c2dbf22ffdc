//! Settings that are chosen on labelled runs.

use std::path::Path;
use std::sync::Arc;

use loop_eval::backtest::RunsOf;
use loop_eval::tune::{Labels, TuneError, TuneOptions, TuneReport, TuneVerdict, tune};
use loop_testkit::{Numbers, World};

use crate::backtest::{stored, sure_after};

async fn tuned(of: &RunsOf, labels: &str, keep: f64, seed: u64) -> Result<TuneReport, TuneError> {
    let labels = Arc::new(Labels::of_text(Path::new("labels"), labels).unwrap());
    tune(std::slice::from_ref(of), &labels, TuneOptions { keep, seed }, &Arc::default()).await
}

/// Runs that make three passes, and one in `one_in` that makes five.
fn worlds(count: u32, one_in: u32) -> Vec<World> {
    let passes = |n: u32| if n.is_multiple_of(one_in) { 5 } else { 3 };
    (0..count).map(|n| sure_after(&format!("r{n}"), passes(n))).collect()
}

fn all_good(count: u32, from_pass: Option<u32>) -> String {
    let pass = from_pass.map_or_else(String::new, |pass| format!(", \"good_from_pass\": {pass}"));
    (0..count).map(|n| format!("{{\"run\": \"r{n}\", \"good\": true{pass}}}\n")).collect()
}

#[tokio::test]
async fn passes_that_no_good_outcome_needed_are_saved() {
    // Issue 16, part 6: the labels say that the document is good from pass 2 on.
    let of = stored(&worlds(160, 8)).await;
    let report = tuned(&of, &all_good(160, Some(2)), 0.95, 1).await.unwrap();
    assert_eq!(report.verdict, TuneVerdict::Shown, "{:?} {:?}", report.settings, report.held_out);
    assert_eq!((report.held_out.kept, report.held_out.good, report.held_out.unknown), (80, 80, 0));
    let saved = report.held_out.cost_pico_usd.unwrap() < report.held_out.recorded_cost_pico_usd;
    assert!(saved && report.choosing.cost_pico_usd < Some(report.choosing.recorded_cost_pico_usd));
    // A policy file, and the same each time.
    assert!(report.toml.contains("final_pass = false"), "{}", report.toml);
    assert_eq!(tuned(&of, &all_good(160, Some(2)), 0.95, 1).await.unwrap(), report);
}

#[tokio::test]
async fn without_a_label_for_its_pass_an_earlier_stop_is_not_good() {
    let of = stored(&worlds(24, 100)).await;
    let report = tuned(&of, &all_good(24, None), 1.0, 1).await.unwrap();
    assert_eq!(report.choosing.kept, report.choosing.good, "{report:?}");
    assert!(!report.toml.contains("passes = 1") && !report.toml.contains("passes = 2"), "{}", report.toml);
    for tried in report.tried.iter().filter(|tried| tried.settings.contains(&"limits.passes = 2".to_owned()))
    {
        assert_eq!(tried.on_choosing.kept, 0, "{tried:?}");
    }
}

#[tokio::test]
async fn few_runs_do_not_suffice_and_that_is_what_is_said() {
    let of = stored(&worlds(20, 100)).await;
    let report = tuned(&of, &all_good(20, Some(2)), 0.95, 1).await.unwrap();
    assert_eq!((report.verdict, report.held_out.kept, report.held_out.good), (TuneVerdict::NotShown, 10, 10));
    assert!(report.held_out.low < 0.95 && report.held_out.rate >= 0.95);
    let error = tuned(&of, "run,good\nr1,true\nr2,false\n", 0.95, 1).await.unwrap_err();
    assert_eq!(error, TuneError::TooFew { labelled: 2, items: 2 });
    for keep in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(matches!(tuned(&of, &all_good(20, None), keep, 1).await, Err(TuneError::Keep { .. })));
    }
}

#[tokio::test]
async fn what_is_chosen_keeps_the_demanded_share_on_the_half_it_was_chosen_on() {
    // Issue 16, part 6: whatever the labels, the share and the seed.
    let of = stored(&worlds(30, 4)).await;
    let (mut chosen, mut demanded) = (0, Vec::new());
    for seed in 0..12_u64 {
        let mut numbers = Numbers(seed);
        let keep = [0.5, 0.8, 0.95, 1.0][numbers.below(4) as usize];
        let mut labels = String::from("run,good,good_from_pass\n");
        for n in 0..30 {
            let (good, pass) = (numbers.below(5) > 0, numbers.below(5));
            let pass = if good && pass > 0 { pass.to_string() } else { String::new() };
            labels.push_str(&format!("r{n},{good},{pass}\n"));
        }
        let Ok(report) = tuned(&of, &labels, keep, seed).await else { continue };
        assert!(report.choosing.keeps(keep), "seed {seed}: {:?}", report.choosing);
        assert_eq!(report.choosing.runs + report.held_out.runs, 30);
        chosen += u32::from(report.verdict != TuneVerdict::NothingCheaper);
        demanded.push(keep);
    }
    assert!(chosen >= 4 && demanded.contains(&1.0), "{chosen} {demanded:?}");
}
