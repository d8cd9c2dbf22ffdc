//! What has to be true of runs on an engine, whatever was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::StreamExt as _;
use loop_core::EventKind;
use loop_restate::wire::EndedReply;
use loop_runtime::journal::{Entry, Journal as _, replay};
use loop_runtime::run::RunId;
use loop_testkit::timeless;
use serde_json::Value;

use super::desk::Desk;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub runs: usize,
    /// Runs with the entries of the local runtime.
    pub equal: usize,
    /// Runs that were told that a call is lost.
    pub resumed: usize,
    /// Runs that say that an effect is in doubt.
    pub doubts: usize,
    /// Keyed writes that were sent again, under their key.
    pub repeated: usize,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, equal, resumed, doubts, repeated } = self;
        write!(
            f,
            "{runs} runs ended, {equal} with the entries of one machine, {resumed} told of a lost call, \
             {doubts} with an effect in doubt, {repeated} keyed writes sent again under their key, 0 doubled, 0 lost"
        )
    }
}

/// Checks runs of a domain: the n-th is of the n-th item. Each was awaited.
pub async fn intact(desk: &Desk, domain: &str, runs: &[RunId], ended: &[EndedReply]) -> Found {
    let mut effects: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (line, count) in desk.effects() {
        let (tool, key) = line.split_once(' ').unwrap();
        let run =
            runs.iter().find(|run| key.starts_with(&*run.0)).unwrap_or_else(|| panic!("of no run: {line}"));
        effects.entry((tool.to_owned(), run.to_string())).or_default().push(count);
    }
    let locals = futures::stream::iter(0..runs.len()).map(|n| desk.local(domain, n));
    let locals: Vec<Vec<Entry>> = locals.buffered(64).collect().await;
    assert_eq!((runs.len(), runs.iter().collect::<BTreeSet<_>>().len()), (ended.len(), runs.len()));
    let journal = desk.journal();
    let mut found = Found { runs: runs.len(), ..Found::default() };
    for ((run, ended), local) in runs.iter().zip(ended).zip(&locals) {
        let recorded = journal.read(run).await.unwrap();
        let state = replay(run, &recorded).unwrap();
        assert!(state.is_done() && recorded.unverified.is_none(), "{run}");
        let counts =
            |tool: &str| effects.get(&(tool.to_owned(), run.to_string())).cloned().unwrap_or_default();
        // A keyed write has one key, however often it was sent; the receiver makes one effect of it.
        let booked = counts("book");
        assert_eq!(booked.len(), 1, "{run} booked under {} keys: {ended:?}", booked.len());
        found.repeated += booked[0] - 1;
        // An irreversible one is made at most once. Where its end is unknown the run says so.
        let printed: usize = counts("print").iter().sum();
        let is_doubtful = ended.report["stop"]["effects"]["in_doubt"] != 0;
        assert!(printed <= 1 && (printed == 1 || is_doubtful), "{run}: {printed}, {ended:?}");
        assert!(is_doubtful || ended.text == "It is booked.", "{run}: {ended:?}");
        found.doubts += usize::from(is_doubtful);
        match recorded.entries.iter().any(|entry| matches!(entry.event.kind, EventKind::Resumed { .. })) {
            true => found.resumed += 1,
            false => {
                assert_eq!(plain(&recorded.entries), plain(local), "{run}");
                found.equal += 1;
            }
        }
    }
    found
}

/// Entries without what belongs to one run or one process: names, instants, durations.
pub fn plain(entries: &[Entry]) -> Vec<Value> {
    fn nameless(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| {
                    !matches!(name.as_str(), "run" | "nonce" | "prompt_hash" | "unix_ms" | "engine")
                });
                members.values_mut().for_each(nameless);
            }
            Value::Array(elements) => elements.iter_mut().for_each(nameless),
            _ => {}
        }
    }
    let mut values: Vec<Value> =
        entries.iter().map(|entry| timeless(serde_json::to_value(entry).unwrap())).collect();
    values.iter_mut().for_each(nameless);
    values
}
