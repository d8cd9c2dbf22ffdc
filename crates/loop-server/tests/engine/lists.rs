//! Runs as they are listed.

use std::time::Duration;

use loop_server::engine::{NewRun, RunFilter, RunState};

use super::{ended, process, until};
use crate::bench::{ASKS, Bench, Gate, asks};

#[test]
fn a_list_has_each_run_once_in_pages() {
    let bench = Bench::new();
    process(async || {
        let gate = Gate::open();
        let engine = bench.engine(&gate).await;
        let mut all = Vec::new();
        for n in 0..7 {
            let new = NewRun { tags: vec![format!("t{}", n % 2)], ..asks(&format!("{ASKS} {n}")) };
            all.push(engine.submit(new).await.unwrap());
        }
        for submitted in &all {
            let view = ended(&engine, submitted).await;
            // The list says the same of it.
            let of_run = RunFilter::default();
            let page = engine.list(&of_run, 50).await.unwrap();
            assert_eq!(page.runs.into_iter().find(|listed| listed.run == view.run), Some(view));
        }
        gate.calls.forget_permits(usize::MAX >> 4);
        for n in 7..12 {
            all.push(engine.submit(asks(&format!("{ASKS} {n}"))).await.unwrap());
        }
        let mut expected: Vec<String> = all.iter().map(|submitted| submitted.run.to_string()).collect();
        expected.reverse();
        for limit in [1, 3, 5, 12, 50] {
            let (mut filter, mut seen) = (RunFilter::default(), Vec::new());
            loop {
                let page = engine.list(&filter, limit).await.unwrap();
                assert!(page.runs.len() <= limit);
                seen.extend(page.runs.iter().map(|view| view.run.clone()));
                let Some(next) = page.next else { break };
                filter.query.before = Some(loop_core::types::RunId::new(next));
            }
            assert_eq!(seen, expected, "{limit}");
        }
        // The two that have a place are there, whether or not they have begun; now they have.
        for submitted in &all[7..9] {
            until(async || {
                let view = engine.view(&submitted.run).await.unwrap();
                view.state == RunState::Running && view.entries > 0
            })
            .await;
        }
        let count = async |change: fn(&mut RunFilter)| {
            let mut filter = RunFilter::default();
            change(&mut filter);
            engine.list(&filter, 50).await.unwrap().runs.len()
        };
        assert_eq!(count(|filter| filter.state = Some(RunState::Ended)).await, 7);
        assert_eq!(count(|filter| filter.state = Some(RunState::Running)).await, 2);
        assert_eq!(count(|filter| filter.state = Some(RunState::Queued)).await, 3);
        assert_eq!(count(|filter| filter.query.tag = Some("t0".into())).await, 4);
        assert_eq!(count(|filter| filter.query.text = Some("BOB? 1".into())).await, 3);
        assert_eq!(count(|filter| filter.query.reason = Some("completed".into())).await, 7);
        assert_eq!(count(|filter| filter.query.domains = Some(vec!["other".into()])).await, 0);
        assert_eq!(count(|filter| filter.query.until_unix_ms = Some(1)).await, 0);
        assert_eq!(count(|filter| filter.query.since_unix_ms = Some(1)).await, 12);
        engine.drain(Duration::from_millis(1)).await;
    });
}
