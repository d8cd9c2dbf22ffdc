//! What is accepted, in which order it begins, and within which bounds.

use loop_runtime::journal::queue::SubmissionState;
use loop_runtime::journal::{Journal as _, StoredJournal};
use loop_server::engine::{EngineError, EngineLimits, NewRun, RunFilter, RunState, Submitted};

use super::{ended, until};
use crate::bench::{ASKS, Bench, Gate, LONG, asks, limits};

#[tokio::test]
async fn what_is_accepted_is_in_the_journal_and_ends() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine(&gate).await;
    let submitted = engine.submit(asks(ASKS)).await.unwrap();
    assert!(submitted.is_new);
    // Another connection sees it before anything has run.
    let other = StoredJournal::open_existing(bench.path()).unwrap();
    let queued = other.submission(&submitted.run).await.unwrap().unwrap();
    assert!(queued.is_sealed);
    assert_eq!(&*queued.submission.caller, "ada");
    gate.calls.add_permits(100);
    let view = ended(&engine, &submitted).await;
    assert_eq!((view.class.as_deref(), view.caller.as_deref()), (Some("answered"), Some("ada")));
    let queued = other.submission(&submitted.run).await.unwrap().unwrap();
    assert_eq!((queued.state, &*queued.submission.body), (SubmissionState::Over, ""));
    assert_eq!(other.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_higher_priority_begins_first_and_then_the_order_of_arrival() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    let engine = bench.engine_of(&["crm"], &gate, EngineLimits { max_runs: 1, ..limits() }).await;
    let of = |tag: &str, priority| NewRun { priority, tags: vec![tag.to_owned()], ..asks(ASKS) };
    // The first takes the only place.
    let mut all = vec![engine.submit(of("first", 0)).await.unwrap()];
    for (tag, priority) in [("low", -1), ("plain 1", 0), ("plain 2", 0), ("high", 7)] {
        all.push(engine.submit(of(tag, priority)).await.unwrap());
    }
    // A run that begins counts as queued until the journal has it.
    until(async || {
        let filter = RunFilter { state: Some(RunState::Queued), ..RunFilter::default() };
        engine.list(&filter, 10).await.unwrap().runs.len() == 4
    })
    .await;
    gate.calls.add_permits(100);
    for submitted in &all {
        ended(&engine, submitted).await;
    }
    let began = gate.began.lock().unwrap().clone();
    assert_eq!(began, ["first", "high", "plain 1", "plain 2", "low"]);
}

#[tokio::test]
async fn the_queue_is_bounded_by_domain_and_in_all() {
    let (bench, gate) = (Bench::new(), Gate::closed());
    bench.domain("small", "[serve]\nmax_runs = 1\nmax_queued = 1\n");
    let bounds = EngineLimits { max_runs: 2, max_queued: 2, ..limits() };
    let engine = bench.engine_of(&["crm", "small"], &gate, bounds).await;
    let of = |domain: &str| NewRun { domain: Some(domain.to_owned()), ..asks(ASKS) };
    let submit = async |domain: &str| engine.submit(of(domain)).await;
    let queued = async |count: u64| {
        until(async || engine.load().domains.values().map(|load| load.queued).sum::<u64>() == count).await;
        // The rows as well.
        let is_begun = async || {
            let open = engine.journal().open_submissions().await.unwrap();
            open.iter().filter(|queued| queued.state == SubmissionState::Queued).count() as u64 == count
        };
        until(is_begun).await;
    };
    let mut all = vec![submit("small").await.unwrap()];
    queued(0).await;
    all.push(submit("small").await.unwrap());
    let full = submit("small").await.unwrap_err();
    assert!(matches!(&full, EngineError::Full { domain: Some(_), bound: 1 }), "{full:?}");
    assert_eq!(
        full.to_string(),
        "1 submissions wait for small, which is the maximum; send the request again later"
    );
    // The other domain has a place, and then the bound of all of them counts.
    all.push(submit("crm").await.unwrap());
    queued(1).await;
    all.push(submit("crm").await.unwrap());
    let full = submit("crm").await.unwrap_err();
    assert!(matches!(full, EngineError::Full { domain: None, bound: 2 }), "{full:?}");
    assert!(matches!(submit("nope").await, Err(EngineError::UnknownDomain { .. })));
    assert!(matches!(engine.submit(asks(ASKS)).await, Err(EngineError::NoDomain)));
    gate.calls.add_permits(100);
    for submitted in &all {
        ended(&engine, submitted).await;
    }
}

#[tokio::test]
async fn a_key_is_its_callers_own_and_names_one_request() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let keyed = |item: &str| NewRun { key: Some("order-17".to_owned()), ..asks(item) };
    let first = engine.submit(keyed(ASKS)).await.unwrap();
    let again = engine.submit(keyed(ASKS)).await.unwrap();
    assert_eq!(again, Submitted { run: first.run.clone(), is_new: false });
    ended(&engine, &first).await;
    assert_eq!(engine.submit(keyed(ASKS)).await.unwrap(), again, "also when it has ended");
    let other = engine.submit(NewRun { priority: 1, ..keyed(ASKS) }).await.unwrap_err();
    assert!(matches!(&other, EngineError::OtherRequest { run } if *run == first.run), "{other:?}");
    let others = engine.submit(NewRun { caller: "bob".into(), ..keyed(ASKS) }).await.unwrap();
    assert!(others.is_new && others.run != first.run);
    // Many at once are one.
    let key = |n: usize| NewRun { key: Some(format!("key {}", n % 3)), ..asks(ASKS) };
    let many = futures::future::join_all((0..30).map(|n| engine.submit(key(n)))).await;
    let runs: std::collections::BTreeSet<_> =
        many.iter().map(|it| it.as_ref().unwrap().run.clone()).collect();
    assert_eq!((runs.len(), many.iter().filter(|it| it.as_ref().unwrap().is_new).count()), (3, 3));
}

#[tokio::test]
async fn a_request_whose_caller_is_gone_begins_once_it_is_committed() {
    // K16
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    {
        let submitting = std::pin::pin!(engine.submit(asks(ASKS)));
        // It is polled once, and dropped before its row is committed.
        assert!(futures::poll!(submitting).is_pending());
    }
    let ended = RunFilter { state: Some(RunState::Ended), ..RunFilter::default() };
    until(async || engine.list(&ended, 10).await.unwrap().runs.len() == 1).await;
}

#[tokio::test]
async fn a_caller_sets_what_the_domain_lets_them_and_only_tightens() {
    let (bench, gate) = (Bench::new(), Gate::open());
    // The file has one name of it, and callers give either.
    bench.domain("open", "[limits]\npasses = 4\n[serve]\ncaller_may_set = [\"limits.max_passes\"]\n");
    let engine = bench.engine_of(&["open"], &gate, limits()).await;
    let with =
        |key: &str, value: &str| NewRun { settings: vec![(key.to_owned(), value.to_owned())], ..asks(ASKS) };
    let submitted = engine.submit(with("limits.passes", "1")).await.unwrap();
    ended(&engine, &submitted).await;
    assert_eq!(engine.read(&submitted.run).await.unwrap().1.spec().limits.passes, 1);
    for (key, value, says) in [
        ("limits.passes", "5", "limits.passes is more than the domain allows"),
        ("limits.max_passes", "5", "limits.passes is more than the domain allows"),
        ("limits.passes", "\"many\"", "limits.passes"),
        ("gate.people", "false", "a caller may set limits.passes"),
    ] {
        let error = engine.submit(with(key, value)).await.unwrap_err();
        assert!(matches!(error, EngineError::Setting(_)), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_it_is_accepted() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    assert!(matches!(engine.submit(asks("  ")).await, Err(EngineError::Item(_))));
    let named = NewRun { key: Some("a\nb".to_owned()), ..asks(ASKS) };
    assert!(matches!(engine.submit(named).await, Err(EngineError::Invalid(_))));
    let tagged = NewRun { tags: (0..21).map(|n| n.to_string()).collect(), ..asks(ASKS) };
    assert!(matches!(engine.submit(tagged).await, Err(EngineError::Invalid(_))));
    assert!(engine.drain(LONG).await);
    assert!(matches!(engine.submit(asks(ASKS)).await, Err(EngineError::Draining)));
    assert_eq!(engine.journal().open_submissions().await.unwrap(), []);
}

#[tokio::test]
async fn one_server_has_the_queue_of_a_journal() {
    let (bench, gate) = (Bench::new(), Gate::open());
    let engine = bench.engine(&gate).await;
    let second = engine.journal().lock_queue();
    assert!(second.is_err_and(|error| error.to_string().contains("another server uses this journal")));
}

#[tokio::test]
async fn the_settings_of_a_caller_are_read_where_they_hold_up_no_other_request() {
    let (bench, gate) = (Bench::new(), Gate::open());
    bench.domain("open", "[serve]\ncaller_may_set = [\"limits.max_passes\"]\n");
    let engine = bench.engine_of(&["open"], &gate, limits()).await;
    gate.hold_loads(true);
    let settings = vec![("limits.passes".to_owned(), "1".to_owned())];
    let slow = tokio::spawn({
        let engine = engine.clone();
        async move { engine.submit(NewRun { settings, ..asks(ASKS) }).await }
    });
    until(async || gate.waiting_loads() == 1).await;
    // The runtime of this test has one thread, and the domain is being loaded.
    ended(&engine, &engine.submit(asks(ASKS)).await.unwrap()).await;
    gate.hold_loads(false);
    let submitted = slow.await.unwrap().unwrap();
    ended(&engine, &submitted).await;
    assert_eq!(engine.read(&submitted.run).await.unwrap().1.spec().limits.passes, 1);
}
