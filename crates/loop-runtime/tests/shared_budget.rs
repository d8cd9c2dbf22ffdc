//! Budgets that runs share: the ledger under random interleavings over several connections, and runs that end by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use loop_core::spec::{ModelSpec, SectionSpec};
use loop_core::types::{PicoUsd, Price, RunId};
use loop_core::{RunSpec, StopReason, WorkItem};
use loop_llm::Scripted;
use loop_runtime::Runner;
use loop_runtime::budget::{
    BudgetLimit, BudgetUse, LedgerAnswer, MemoryLedger, Reservation, SharedBudget, SharedBudgets,
    SharedLedger, Span,
};
use loop_runtime::journal::{Journal, JournalError, MemoryJournal, StoredJournal};
use loop_runtime::models::Models;
use loop_runtime::run::{Attached, StartError};
use loop_tools::Registry;

/// A generator of numbers that are the same for each seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % n
    }
}

const RUNS: u64 = 6;

fn budget(id: &str, limit: u64) -> BudgetLimit {
    BudgetLimit { id: id.into(), limit: PicoUsd(limit) }
}

/// What the test knows of a budget.
#[derive(Default)]
struct Known {
    spent: u64,
    reserved: BTreeMap<(u64, u32), u64>,
    holds: BTreeMap<u64, u64>,
}

impl Known {
    fn reserved(&self) -> u64 {
        self.reserved.values().sum::<u64>() + self.holds.values().sum::<u64>()
    }
}

/// Reserves, settles and gives up at random, and compares each ledger's sums with those of the test after each step.
async fn walk(ledgers: &[Arc<dyn SharedLedger>], seed: u64, steps: u32) {
    let mut numbers = Numbers(seed);
    let budgets = [budget("day", 1_000), budget("month", 1_400)];
    let mut known = Known::default();
    let mut next = 0;
    for _ in 0..steps {
        let ledger = &ledgers[numbers.below(ledgers.len() as u64) as usize];
        let nth = numbers.below(RUNS);
        let run = RunId::new(format!("batch-{nth}"));
        let own: Vec<u32> =
            known.reserved.keys().filter(|(of, _)| *of == nth).map(|(_, call)| *call).collect();
        match numbers.below(5) {
            0..=2 => {
                next += 1;
                let amount = 1 + numbers.below(200);
                let hold = (numbers.below(4) > 0).then(|| numbers.below(100));
                let call = format!("call {next}").into();
                let ask = Reservation { run, call, amount: PicoUsd(amount), hold: hold.map(PicoUsd) };
                match ledger.reserve(&budgets, &ask).await.unwrap() {
                    LedgerAnswer::Reserved => {
                        known.reserved.insert((nth, next), amount);
                        hold.into_iter().for_each(|hold| _ = known.holds.insert(nth, hold));
                    }
                    LedgerAnswer::Refused { left } => {
                        let held = known.holds.get(&nth).copied().unwrap_or_default();
                        let free = 1_000_u64.saturating_sub(known.spent + known.reserved());
                        assert_eq!(left.0, free + held, "seed {seed}");
                        let needs = amount + hold.unwrap_or(held);
                        assert!(needs > left.0, "seed {seed}: {needs} would have fitted into {left:?}");
                        if hold.is_some() {
                            known.holds.insert(nth, left.0);
                        }
                    }
                    LedgerAnswer::Wait => assert!(hold.is_some() && known.reserved() > 0, "seed {seed}"),
                }
            }
            3 if !own.is_empty() => {
                let call = own[numbers.below(own.len() as u64) as usize];
                let amount = known.reserved.remove(&(nth, call)).unwrap();
                let cost = numbers.below(amount + 1);
                ledger.settle(&run, &format!("call {call}"), PicoUsd(cost)).await.unwrap();
                // It is settled once.
                ledger.settle(&run, &format!("call {call}"), PicoUsd(amount)).await.unwrap();
                known.spent += cost;
            }
            _ if numbers.below(3) == 0 => {
                let is_taken_over = numbers.below(2) == 0;
                ledger.give_up(&run, is_taken_over).await.unwrap();
                for call in own {
                    known.spent += known.reserved.remove(&(nth, call)).unwrap();
                }
                if !is_taken_over {
                    known.holds.remove(&nth);
                }
            }
            _ => {}
        }
        let reader = &ledgers[numbers.below(ledgers.len() as u64) as usize];
        for id in ["day", "month"] {
            let taken = reader.taken(id).await.unwrap();
            let expected = BudgetUse { spent: PicoUsd(known.spent), reserved: PicoUsd(known.reserved()) };
            assert_eq!(taken, expected, "seed {seed}: {id}");
            // I-1, over all runs.
            assert!(taken.total() <= PicoUsd(1_000), "seed {seed}: {id}: {taken:?}");
        }
    }
}

#[tokio::test]
async fn what_is_spent_and_reserved_never_exceeds_a_budget_in_memory() {
    // I-1
    for seed in 0..200 {
        let ledger: Arc<dyn SharedLedger> = Arc::new(MemoryLedger::new());
        walk(&[ledger], seed, 60).await;
    }
}

#[tokio::test]
async fn three_connections_to_a_journal_share_a_budget() {
    // I-1: as three processes do. The runs of this walk are batches, whose locks are taken here: a run without a lock would
    // be given up.
    for seed in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let journals: Vec<StoredJournal> = (0..3).map(|_| StoredJournal::open(&path).unwrap()).collect();
        let mut locks = Vec::new();
        for nth in 0..RUNS {
            locks.push(journals[0].lock_batch(&nth.to_string()).unwrap());
        }
        let ledgers: Vec<Arc<dyn SharedLedger>> =
            journals.into_iter().map(|journal| Arc::new(journal) as Arc<dyn SharedLedger>).collect();
        walk(&ledgers, seed, 60).await;
    }
}

#[tokio::test]
async fn reservations_at_the_same_time_do_not_exceed_a_budget() {
    // I-1: tasks race for the last of it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let journals: Vec<StoredJournal> = (0..4).map(|_| StoredJournal::open(&path).unwrap()).collect();
    let mut tasks = Vec::new();
    let mut locks = Vec::new();
    for nth in 0..16 {
        let (journal, run) = (journals[nth % 4].clone(), RunId::new(format!("batch-{nth}")));
        locks.push(journal.lock_batch(&nth.to_string()).unwrap());
        tasks.push(tokio::spawn(async move {
            let mut reserved = 0;
            for call in 0..10 {
                let call = format!("call {call}").into();
                let ask = Reservation { run: run.clone(), call, amount: PicoUsd(10), hold: None };
                let answer = journal.reserve(&[budget("batch", 505)], &ask).await.unwrap();
                reserved += u64::from(answer == LedgerAnswer::Reserved);
            }
            reserved
        }));
    }
    let mut reserved = 0;
    for task in tasks {
        reserved += task.await.unwrap();
    }
    assert_eq!(reserved, 50);
    let taken = journals[3].taken("batch").await.unwrap();
    assert_eq!((taken.spent, taken.reserved), (PicoUsd(0), PicoUsd(500)));
}

#[tokio::test]
async fn a_run_without_a_process_is_settled_at_its_whole_amount() {
    // H1, H8: the lease is the run's lock.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let (dead, alive) = (StoredJournal::open(&path).unwrap(), StoredJournal::open(&path).unwrap());
    let ask = |run: &str, amount, hold| Reservation {
        run: RunId::new(format!("batch-{run}")),
        call: "1/main 1".into(),
        amount: PicoUsd(amount),
        hold: Some(PicoUsd(hold)),
    };
    let day = [budget("day", 100)];
    let lock = dead.lock_batch("dead").unwrap();
    let _own = alive.lock_batch("alive").unwrap();
    assert_eq!(dead.reserve(&day, &ask("dead", 40, 30)).await.unwrap(), LedgerAnswer::Reserved);
    assert_eq!(alive.reserve(&day, &ask("alive", 40, 10)).await.unwrap(), LedgerAnswer::Wait);
    drop(lock);
    // What it held for its final pass is free again, and what it had in flight is spent.
    assert_eq!(alive.reserve(&day, &ask("alive", 40, 10)).await.unwrap(), LedgerAnswer::Reserved);
    let taken = alive.taken("day").await.unwrap();
    assert_eq!((taken.spent, taken.reserved), (PicoUsd(40), PicoUsd(50)));
    // So it is where nothing is asked for: the process may have been killed after the run had ended.
    let lock = dead.lock_batch("dead").unwrap();
    let month = [budget("month", 100)];
    assert_eq!(dead.reserve(&month, &ask("dead", 7, 3)).await.unwrap(), LedgerAnswer::Reserved);
    alive.settle_leases().await.unwrap();
    assert_eq!(alive.taken("month").await.unwrap().total(), PicoUsd(10), "its process is there");
    drop(lock);
    alive.settle_leases().await.unwrap();
    let given_up = BudgetUse { spent: PicoUsd(7), reserved: PicoUsd(0) };
    assert_eq!(alive.taken("month").await.unwrap(), given_up);
    // A late settlement changes nothing.
    dead.settle(&RunId::new("batch-dead"), "1/main 1", PicoUsd(1)).await.unwrap();
    assert_eq!(alive.taken("day").await.unwrap(), taken);
}

const DOCUMENT: &str =
    "## Findings\n\nIt is done.\n\n```json\n{\"analysis_confidence\": \"high\", \"ai_actions\": []}\n```\n";

fn spec(price: Option<Price>) -> RunSpec {
    let mut model = ModelSpec::new("scripted", "s");
    model.price = price;
    let mut spec = RunSpec::document("help", [SectionSpec::new("findings", "Findings").required()], model);
    spec.selection.enabled = false;
    spec
}

/// A micro-dollar for each token of input, and two for each of output.
fn price() -> Price {
    Price::flat(1_000_000, 2_000_000)
}

fn runner(shared: &SharedBudgets, journal: &Arc<dyn Journal>) -> Runner {
    let replies = serde_json::json!({"version": 1, "replies": [
        {"text": DOCUMENT, "usage": {"input": 100, "output": 50}},
        {"text": DOCUMENT, "usage": {"input": 100, "output": 50}},
    ]});
    let model = Scripted::from_json(&replies.to_string()).unwrap();
    Runner::new(spec(Some(price())), Registry::builder().build().unwrap(), Models::one(Arc::new(model)))
        .with_journal(Arc::clone(journal))
        .with_shared_budgets(shared.clone())
}

fn item() -> WorkItem {
    WorkItem::new("T-1", "ticket", "Backup failed", "The backup failed.")
}

fn day(limit: u64, ledger: &Arc<MemoryLedger>, at: u64) -> SharedBudgets {
    let budget = SharedBudget { span: Span::Day, of: "help".into(), limit: PicoUsd(limit) };
    let clock = Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(at));
    SharedBudgets::new(Arc::clone(ledger) as Arc<dyn SharedLedger>, [budget]).with_clock(clock)
}

const NOON: u64 = 86_400 * 20_000 + 43_200;

#[tokio::test]
async fn a_run_settles_what_it_cost_and_holds_nothing_at_its_end() {
    let ledger = Arc::new(MemoryLedger::new());
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let shared = day(u64::MAX, &ledger, NOON);
    let outcome = runner(&shared, &journal).run(item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let taken = shared.taken().await.unwrap()[0].1;
    assert_eq!((taken.spent, taken.reserved), (outcome.totals.cost.known, PicoUsd(0)));
    assert_eq!(taken.spent, PicoUsd(100 * 1_000_000 + 50 * 2_000_000));
}

#[tokio::test]
async fn a_budget_that_is_used_up_ends_the_next_run_and_the_next_day_does_not() {
    let ledger = Arc::new(MemoryLedger::new());
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    // The first run settles 200 million; what is left then covers no call.
    let limit = 20_000_000_000;
    let mut runs = 0;
    let ended = loop {
        let outcome = runner(&day(limit, &ledger, NOON), &journal).run(item()).await.unwrap();
        let taken = day(limit, &ledger, NOON).taken().await.unwrap()[0].1;
        assert!(taken.spent <= PicoUsd(limit) && taken.reserved == PicoUsd(0), "{taken:?}");
        if outcome.stop.primary.reason == StopReason::SharedBudgetExceeded {
            break outcome;
        }
        runs += 1;
    };
    assert!(runs > 1, "{runs}");
    assert!(ended.document.get("findings").is_some(), "the final pass was held back: {:?}", ended.stop);
    let tomorrow = runner(&day(limit, &ledger, NOON + 86_400), &journal).run(item()).await.unwrap();
    assert_eq!(tomorrow.stop.reason(), StopReason::Confident);
}

#[tokio::test]
async fn a_budget_of_a_token_binds_the_runs_that_were_submitted_with_it() {
    let ledger = Arc::new(MemoryLedger::new());
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let of = |token: &str, limit| {
        let budget = SharedBudget { span: Span::TokenDay, of: token.into(), limit: PicoUsd(limit) };
        day(u64::MAX, &ledger, NOON).and(budget)
    };
    let outcome = runner(&of("ci", 1_000_000), &journal).run(item()).await.unwrap();
    assert_eq!(outcome.stop.primary.reason, StopReason::SharedBudgetExceeded);
    let outcome = runner(&of("team", u64::MAX), &journal).run(item()).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let taken = of("team", u64::MAX).taken().await.unwrap();
    let spent: Vec<_> = taken.iter().map(|(budget, taken)| (budget.span, taken.spent)).collect();
    let cost = outcome.totals.cost.known;
    assert_eq!(spent, [(Span::Day, cost), (Span::TokenDay, cost)]);
}

#[tokio::test]
async fn a_run_waits_for_the_money_of_another_and_then_continues() {
    let ledger = Arc::new(MemoryLedger::new());
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let limit = 20_000_000_000;
    let shared = day(limit, &ledger, NOON);
    let id = day(limit, &ledger, NOON).budgets()[0].at(SystemTime::UNIX_EPOCH + Duration::from_secs(NOON)).id;
    let other = RunId::new("other");
    let all = [BudgetLimit { id, limit: PicoUsd(limit) }];
    let ask =
        Reservation { run: other.clone(), call: "1/main 1".into(), amount: PicoUsd(limit - 1), hold: None };
    assert_eq!(ledger.reserve(&all, &ask).await.unwrap(), LedgerAnswer::Reserved);
    let run = tokio::spawn(runner(&shared, &journal).run(item()).into_future());
    // It asks until the other one has settled.
    while journal.runs().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    ledger.settle(&other, "1/main 1", PicoUsd(5)).await.unwrap();
    let outcome = run.await.unwrap().unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let taken = shared.taken().await.unwrap()[0].1;
    assert_eq!(taken.spent, outcome.totals.cost.known.plus(PicoUsd(5)));
}

/// A ledger in memory that cannot be written for a while.
#[derive(Debug, Default)]
struct Failing {
    inner: MemoryLedger,
    /// How many of the next settlements fail.
    settlements: AtomicU32,
    gives_up: AtomicBool,
}

#[async_trait]
impl SharedLedger for Failing {
    async fn reserve(
        &self,
        budgets: &[BudgetLimit],
        ask: &Reservation,
    ) -> Result<LedgerAnswer, JournalError> {
        self.inner.reserve(budgets, ask).await
    }

    async fn settle(&self, run: &RunId, call: &str, cost: PicoUsd) -> Result<(), JournalError> {
        let one_less = |left: u32| left.checked_sub(1);
        match self.settlements.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Err(unwritten()),
            Err(_) => self.inner.settle(run, call, cost).await,
        }
    }

    async fn give_up(&self, run: &RunId, is_taken_over: bool) -> Result<(), JournalError> {
        match self.gives_up.load(Ordering::Relaxed) {
            true => self.inner.give_up(run, is_taken_over).await,
            false => Err(unwritten()),
        }
    }

    async fn taken(&self, budget: &str) -> Result<BudgetUse, JournalError> {
        self.inner.taken(budget).await
    }
}

fn unwritten() -> JournalError {
    JournalError::Storage { place: "the ledger".into(), message: "no space left on device".into() }
}

/// A run whose reply is durable and not settled, and then the same run resumed. `failures`: how many settlements fail.
/// `gives_up`: whether its first driver can settle the rest.
async fn spent_after_resume(input: u64, failures: u32, gives_up: bool) -> (PicoUsd, PicoUsd) {
    let replies = serde_json::json!({"version": 1, "replies": [
        // It is empty, so the call is made again: the run has more to do when it is resumed.
        {"text": "", "usage": {"input": input, "output": 50}},
        {"text": DOCUMENT, "usage": {"input": input, "output": 50}},
    ]});
    let model = Scripted::from_json(&replies.to_string()).unwrap();
    let ledger = Arc::new(Failing::default());
    ledger.settlements.store(failures, Ordering::Relaxed);
    ledger.gives_up.store(gives_up, Ordering::Relaxed);
    let budget = SharedBudget { span: Span::Batch, of: "b".into(), limit: PicoUsd(u64::MAX) };
    let shared = SharedBudgets::new(Arc::clone(&ledger) as Arc<dyn SharedLedger>, [budget]);
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let mut spec = spec(Some(price()));
    spec.limits.cost = None;
    let runner = Runner::new(spec, Registry::builder().build().unwrap(), Models::one(Arc::new(model)))
        .with_journal(Arc::clone(&journal))
        .with_shared_budgets(shared.clone());
    let first = runner.run(item()).await.unwrap();
    assert_eq!(first.stop.reason(), StopReason::StorageFailed);
    let id = journal.runs().await.unwrap()[0].run.clone();
    ledger.gives_up.store(true, Ordering::Relaxed);
    let outcome = runner.resume(&id).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    let taken = shared.taken().await.unwrap()[0].1;
    assert_eq!(taken.reserved, PicoUsd(0));
    (taken.spent, outcome.totals.cost.known)
}

#[tokio::test]
async fn a_reply_whose_driver_ended_before_it_was_settled_is_settled_at_its_cost() {
    // I-21, H1: the reply is in the journal, and its cost is known, be it more than was reserved or less.
    for input in [100, 100_000] {
        // The driver ends, and so does its process.
        let (spent, cost) = spent_after_resume(input, 2, false).await;
        assert_eq!(spent, cost, "resumed, {input} tokens of input");
        // The driver can write again once it has ended the run.
        let (spent, cost) = spent_after_resume(input, 1, true).await;
        assert_eq!(spent, cost, "at the end, {input} tokens of input");
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_before_the_run_begins() {
    // L22
    let ledger = Arc::new(MemoryLedger::new());
    let mut unpriced = spec(None);
    unpriced.limits.cost = None;
    let model = Scripted::from_json(r#"{"version": 1, "replies": []}"#).unwrap();
    let runner = Runner::new(unpriced, Registry::builder().build().unwrap(), Models::one(Arc::new(model)))
        .with_shared_budgets(day(1_000, &ledger, NOON));
    let error = runner.run(item()).await.unwrap_err();
    assert!(matches!(error, StartError::SharedBudgetWithoutPrice { .. }), "{error}");
    assert!(error.to_string().contains("the price of `s` is unknown"), "{error}");
}

#[tokio::test]
async fn a_retry_has_a_key_of_its_own() {
    let ledger = Arc::new(MemoryLedger::new());
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let runner = runner(&day(u64::MAX, &ledger, NOON), &journal);
    let first = runner.run(item()).with_key("item 1").await.unwrap();
    let second = runner.retry(&first.run).with_key("item 2").await.unwrap();
    assert_eq!(journal.run_of_key("item 2").await.unwrap(), Some(second.run.clone()));
    let attached = runner.run(item()).with_key("item 2").attach().await.unwrap();
    assert!(matches!(attached, Attached::Ended(ended) if ended.outcome.run == second.run));
}
