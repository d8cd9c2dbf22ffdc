//! One suite for all journals: the same appends, conflicts and reads. It is compiled here for those in memory and in a file,
//! and with the tests of the command for PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use loop_core::spec::SectionSpec;
use loop_core::types::{Confidence, Digest, Millis, PicoUsd, RunId};
use loop_core::{Event, EventKind, StopReason};
use loop_runtime::budget::{BudgetLimit, LedgerAnswer, Reservation, SharedLedger as _};
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditFilter, AuditResult};
use loop_runtime::journal::evals::KeptEval;
use loop_runtime::journal::label::{Label, RunLabel};
use loop_runtime::journal::list::{RunQuery, SearchTerms};
use loop_runtime::journal::queue::{Accepted, QueueBounds, Submission, SubmissionState};
use loop_runtime::journal::{Durability, Entry, Header, Journal, JournalError, RunWriter, StoredJournal};
use loop_testkit::{Setup, draft, read, target};

/// The manifest of its tools.
pub const MANIFEST: &str = r#"[{"name":"fetch_device"}]"#;

/// A run that asks for a tool, reads what it returns, and is confident: its entries in order.
pub fn history(id: &str) -> (Header, Vec<Entry>) {
    let mut setup = Setup::document("helpdesk")
        .goal("Help.")
        .section(SectionSpec::new("situation", "Situation").required())
        .tool(read("fetch_device"));
    setup.facts.tools = Digest::of("manifest", MANIFEST.as_bytes());
    let world = setup
        .start_as(id)
        .wait(10)
        .replied(&draft("medium").asks("fetch_device", target("srv-1")))
        .wait(10)
        .all_finished()
        .wait(10)
        .replied(&draft("high"))
        .ends(StopReason::Confident);
    let spec = Arc::clone(&world.spec);
    let entries = (0..).zip(world.journal).map(|(seq, (event, notes, _))| Entry { seq, event, notes });
    let entries: Vec<_> = entries.collect();
    let EventKind::Started(started) = &entries[0].event.kind else { panic!("{:?}", entries[0]) };
    let header = Header {
        run: started.run.clone(),
        unix_ms: started.unix_ms,
        item: Arc::clone(&started.item.id),
        title: Arc::clone(&started.item.title),
        spec,
        manifest_hash: started.tools,
        manifest: MANIFEST.into(),
        origin: None,
        request_key: None,
    };
    (header, entries)
}

/// An entry that says nothing.
pub fn blank(seq: u64) -> Entry {
    Entry { seq, event: Event { at: Millis(seq), kind: EventKind::StopWithdrawn }, notes: Vec::new() }
}

fn shared(entries: &[Entry]) -> Vec<Arc<Entry>> {
    entries.iter().cloned().map(Arc::new).collect()
}

/// Begins a run with its first entry.
pub async fn begun(journal: &dyn Journal, header: &Header, entries: &[Entry]) -> Box<dyn RunWriter> {
    journal.create(header, &Arc::new(entries[0].clone())).await.unwrap()
}

/// Writes whole runs and ends their writers.
pub async fn write_all(journal: &dyn Journal, ids: &[&str]) {
    for (nth, id) in (0..).zip(ids) {
        let (mut header, entries) = history(id);
        header.origin = Some(format!(r#"{{"tags":["t{nth}"]}}"#).into());
        header.request_key = Some(format!("key-{id}").into());
        let mut writer = begun(journal, &header, &entries).await;
        writer.append_all(&shared(&entries[1..]), Durability::Synced).await.unwrap();
    }
}

/// What every journal does, on an empty one.
pub async fn any_journal(journal: &dyn Journal) {
    // I-13, I-29: what was appended is read, in order.
    let (mut header, entries) = history("r1");
    header.request_key = Some("order-17".into());
    let mut writer = begun(journal, &header, &entries).await;
    writer.append(&Arc::new(entries[1].clone()), Durability::Committed).await.unwrap();
    // A gap and a repetition are refused, and change nothing.
    for wrong in [blank(9), blank(1)] {
        assert!(writer.append(&Arc::new(wrong), Durability::Committed).await.is_err());
    }
    let rest = shared(&entries[2..]);
    writer.append_all(&rest[..1], Durability::Committed).await.unwrap();
    writer.append_all(&rest[1..], Durability::Synced).await.unwrap();
    let recorded = journal.read(&header.run).await.unwrap();
    assert_eq!((&recorded.spec, &*recorded.manifest, &recorded.entries), (&header.spec, MANIFEST, &entries));
    assert_eq!((recorded.unverified, recorded.imported), (None, false));
    // One run of a name, and one of a request key.
    let again = journal.create(&header, &Arc::new(entries[0].clone())).await.unwrap_err();
    assert!(matches!(&again, JournalError::Exists { run, .. } if run.as_str() == "r1"), "{again}");
    let (mut other, others) = history("r2");
    other.request_key = Some("order-17".into());
    let taken = journal.create(&other, &Arc::new(others[0].clone())).await.unwrap_err();
    assert!(matches!(&taken, JournalError::KeyTaken { run, .. } if run.as_str() == "r1"), "{taken}");
    assert_eq!(journal.run_of_key("order-17").await.unwrap(), Some(header.run.clone()));
    assert_eq!(journal.run_of_key("order-18").await.unwrap(), None);
    let none = journal.read(&RunId::new("r9")).await.unwrap_err();
    assert!(matches!(&none, JournalError::Unknown { run, .. } if run.as_str() == "r9"), "{none}");
    // One writer of a run.
    other.request_key = None;
    let writing = begun(journal, &other, &others).await;
    let busy = journal.resume(&other.run).await.unwrap_err();
    assert!(matches!(&busy, JournalError::Busy { pid, .. } if *pid == std::process::id()), "{busy}");
    let lines = journal.runs().await.unwrap();
    let seen: Vec<_> = lines.iter().map(|line| (line.run.as_str(), line.entries, line.is_written)).collect();
    assert_eq!(seen, [("r2", 1, true), ("r1", entries.len() as u64, false)]);
    assert_eq!((lines[1].stop, &*lines[1].domain), (Some(StopReason::Confident), "helpdesk"));
    drop(writing);
    let (recorded, mut writer) = journal.resume(&other.run).await.unwrap();
    assert_eq!(recorded.entries, others[..1]);
    writer.append(&Arc::new(blank(1)), Durability::Committed).await.unwrap();
    assert_eq!(journal.read(&other.run).await.unwrap().entries.len(), 2);
}

/// What a journal in a database does besides, on an empty one.
pub async fn stored_journal(journal: &StoredJournal) {
    write_all(journal, &["s1", "s2", "s3"]).await;
    let runs: Vec<RunId> = ["s1", "s2", "s3"].map(RunId::new).to_vec();
    pages(journal).await;
    words(journal).await;
    queue(journal).await;
    budgets(journal).await;
    audit(journal).await;
    // Twice: the second time they are read from what was kept.
    let summaries = journal.summaries(&runs).await.unwrap();
    assert_eq!((summaries.len(), &summaries), (3, &journal.summaries(&runs).await.unwrap()));
    let of = &summaries[&runs[0]];
    assert_eq!((of.duration_ms, of.confidence), (Some(30), Some(Confidence::High)));
    assert_eq!(of.model, Some(history("s1").0.spec.models.base.model.clone()));
    let stats = journal.stats().await.unwrap();
    assert_eq!((stats.runs, stats.pruned, stats.missing), (3, 0, 0));
    assert!(stats.bytes > 0);
    labels(journal, &runs).await;
    evals(journal).await;
    journal.prune(&runs[2]).await.unwrap();
    let disk = SearchTerms::parse("disk").unwrap();
    assert_eq!(journal.runs_with(&disk).await.unwrap().len(), 2, "a pruned run leaves the index");
    assert_eq!(journal.index_words(Duration::MAX).await.unwrap(), 0);
    assert_eq!(journal.runs_with(&disk).await.unwrap().len(), 2);
    journal.tidy_up(true).await.unwrap();
    let gone = journal.read(&runs[2]).await.unwrap_err();
    assert!(matches!(gone, JournalError::Pruned { .. }), "{gone}");
    assert_eq!(journal.labels(None).await.unwrap().into_keys().collect::<Vec<_>>(), runs[..1], "it left too");
    assert_eq!(journal.run_of_key("key-s3").await.unwrap(), Some(runs[2].clone()), "its key stays taken");
    assert_eq!(journal.missing_runs().await.unwrap(), Vec::<Arc<str>>::new());
    assert_eq!(journal.salvage(&runs[0]).await.unwrap().fault, None);
}

/// The last label counts, and it leaves with its run.
async fn labels(journal: &StoredJournal, runs: &[RunId]) {
    assert_eq!(journal.labels(None).await.unwrap().len(), 0);
    let label = |label, note| RunLabel::new(label, note, "ada").unwrap();
    for run in [&runs[0], &runs[1], &runs[2]] {
        journal.set_label(run, Some(label(Label::Good, ""))).await.unwrap();
    }
    let last = label(Label::Bad, "  wrong\u{0}customer ");
    assert_eq!(&*last.note, "wrongcustomer");
    journal.set_label(&runs[0], Some(last.clone())).await.unwrap();
    journal.set_label(&runs[1], None).await.unwrap();
    let some = journal.labels(Some(&runs[..2])).await.unwrap();
    assert_eq!(some.into_iter().collect::<Vec<_>>(), [(runs[0].clone(), last)]);
    assert_eq!(journal.labels(None).await.unwrap().len(), 2);
    let (header, entries) = history("open");
    let writer = begun(journal, &header, &entries).await;
    let refused = journal.set_label(&header.run, None).await.unwrap_err();
    assert!(matches!(&refused, JournalError::NotEnded { .. }), "{refused}");
    drop(writer);
    let (_, mut writer) = journal.resume(&header.run).await.unwrap();
    writer.append_all(&shared(&entries[1..]), Durability::Synced).await.unwrap();
    drop(writer);
    journal.prune(&header.run).await.unwrap();
    for run in [header.run, RunId::new("none")] {
        let gone = journal.set_label(&run, Some(label(Label::Good, ""))).await.unwrap_err();
        assert!(matches!(gone, JournalError::Pruned { .. } | JournalError::Unknown { .. }), "{gone}");
    }
    assert!(RunLabel::new(Label::Good, &"x".repeat(2_001), "ada").is_err());
}

async fn evals(journal: &StoredJournal) {
    let eval = |name: &str, unix_ms| KeptEval {
        name: name.to_owned(),
        unix_ms,
        domains: vec!["helpdesk".to_owned()],
        passed: 3,
        runs: 4,
        ..KeptEval::default()
    };
    assert_eq!(journal.evals().await.unwrap(), []);
    let first = journal.keep_eval(&eval("before", 10), "{\"a\": 1}".to_owned()).await.unwrap();
    let second = journal.keep_eval(&eval("after", 20), "{}".to_owned()).await.unwrap();
    let names: Vec<_> = journal.evals().await.unwrap().into_iter().map(|it| (it.id, it.name)).collect();
    assert_eq!(names, [(second.clone(), "after".to_owned()), (first.clone(), "before".to_owned())]);
    let read = journal.eval(&first).await.unwrap();
    let whole = KeptEval { id: first.clone(), ..eval("before", 10) };
    assert_eq!(read, Some((whole, "{\"a\": 1}".to_owned())));
    assert_eq!(journal.eval("none").await.unwrap(), None);
    assert_eq!(journal.prune_evals(20, true).await.unwrap(), 1);
    assert_eq!(journal.prune_evals(20, false).await.unwrap(), 1);
    assert_eq!((journal.eval(&first).await.unwrap(), journal.evals().await.unwrap().len()), (None, 1));
}

async fn pages(journal: &StoredJournal) {
    let found = async |query: RunQuery| -> Vec<String> {
        journal.page(&query, 2).await.unwrap().iter().map(|line| line.run.to_string()).collect()
    };
    let all = RunQuery::default;
    assert_eq!(found(all()).await, ["s3", "s2"]);
    assert_eq!(found(RunQuery { before: Some(RunId::new("s2")), ..all() }).await, ["s1"]);
    assert_eq!(found(RunQuery { tag: Some("t1".into()), ..all() }).await, ["s2"]);
    assert_eq!(
        found(RunQuery { domains: Some(vec!["other".into(), "helpdesk".into()]), ..all() }).await.len(),
        2
    );
    assert_eq!(found(RunQuery { domains: Some(vec!["other".into()]), ..all() }).await.len(), 0);
    assert_eq!(found(RunQuery { ended: Some(false), ..all() }).await.len(), 0);
    assert_eq!(
        found(RunQuery { reason: Some("confident".into()), ended: Some(true), ..all() }).await.len(),
        2
    );
    assert_eq!(found(RunQuery { text: Some("DISK".into()), since_unix_ms: Some(1), ..all() }).await.len(), 2);
    assert_eq!(found(RunQuery { until_unix_ms: Some(1), ..all() }).await.len(), 0);
    assert_eq!(journal.line(&RunId::new("s1")).await.unwrap().map(|line| line.is_written), Some(false));
    assert_eq!(journal.free_runs(vec![RunId::new("s1"), RunId::new("none")]).await.unwrap().len(), 1);
    assert_eq!(journal.entries_from(&RunId::new("s1"), 1, 2).await.unwrap().len(), 2);
}

/// Words of documents and evidence. The runs are those of [`stored_journal`].
async fn words(journal: &StoredJournal) {
    let found = async |text: &str| -> Vec<String> {
        let terms = SearchTerms::parse(text).unwrap();
        let found: Vec<String> =
            journal.runs_with(&terms).await.unwrap().iter().map(RunId::to_string).collect();
        let query = RunQuery { words: Some(terms), ..RunQuery::default() };
        let mut page: Vec<String> =
            journal.page(&query, 9).await.unwrap().iter().map(|line| line.run.to_string()).collect();
        page.reverse();
        assert_eq!(found, page, "{text}");
        found
    };
    assert_eq!(journal.index_words(Duration::ZERO).await.unwrap(), 3);
    assert_eq!(journal.index_words(Duration::MAX).await.unwrap(), 0);
    let all = ["s1", "s2", "s3"];
    for text in ["disk", "full DISK", "\"The disk is\"", "1/action-0", "\"result of\" full", "situation"] {
        assert_eq!(found(text).await, all, "{text}");
    }
    for text in ["nothingofit", "\"disk full\"", "dis", "disk nothingofit", "action-1"] {
        assert!(found(text).await.is_empty(), "{text}");
    }
    // What would be syntax of a database is text.
    for text in [
        "disk*",
        "NEAR(disk",
        "disk AND",
        "words:disk",
        "disk'; DROP TABLE runs",
        "!disk | (",
        "disk:*",
        "\\disk",
    ] {
        let terms = SearchTerms::parse(text).unwrap();
        journal.runs_with(&terms).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

async fn queue(journal: &StoredJournal) {
    let submission = |id: &str, key: Option<&str>| Submission {
        run: RunId::new(id),
        domain: "helpdesk".into(),
        caller: "ada".into(),
        request_key: key.map(Into::into),
        digest: Digest::of("submission", id.as_bytes()),
        priority: -1,
        unix_ms: 7,
        body: "{}".into(),
    };
    let bounds = QueueBounds { all: 9, domain: 2 };
    assert_eq!(journal.open_submissions().await.unwrap(), []);
    for (id, key) in [("q1", Some("k1")), ("q2", None)] {
        assert!(matches!(journal.submit(submission(id, key), bounds).await.unwrap(), Ok(Accepted::New(_))));
    }
    let full = journal.submit(submission("q3", None), bounds).await.unwrap();
    assert_eq!(full, Ok(Accepted::Full { of_domain: true, bound: 2 }));
    let again = journal.submit(submission("q4", Some("k1")), bounds).await.unwrap().unwrap_err();
    assert_eq!(again, journal.submission_of_key("ada", "k1").await.unwrap().unwrap());
    assert!(again.is_sealed && again.submission == submission("q1", Some("k1")));
    let first = RunId::new("q1");
    journal.advance_submission(&first, SubmissionState::Over).await.unwrap();
    journal.advance_submission(&first, SubmissionState::Begun).await.unwrap();
    let over = journal.submission(&first).await.unwrap().unwrap();
    assert_eq!((over.state, &*over.submission.body, over.is_sealed), (SubmissionState::Over, "", true));
    let open = journal.open_submissions().await.unwrap();
    assert_eq!(open.iter().map(|open| open.submission.run.as_str()).collect::<Vec<_>>(), ["q2"]);
}

async fn budgets(journal: &StoredJournal) {
    let (run, limits) = (RunId::new("b1"), [BudgetLimit { id: "day".into(), limit: PicoUsd(100) }]);
    let ask = |call: &str, amount| Reservation {
        run: run.clone(),
        call: call.into(),
        amount: PicoUsd(amount),
        hold: Some(PicoUsd(5)),
    };
    assert_eq!(journal.reserve(&limits, &ask("call-1", 60)).await.unwrap(), LedgerAnswer::Reserved);
    assert_ne!(journal.reserve(&limits, &ask("call-2", 60)).await.unwrap(), LedgerAnswer::Reserved);
    journal.settle(&run, "call-1", PicoUsd(10)).await.unwrap();
    assert_eq!(journal.taken("day").await.unwrap().spent, PicoUsd(10));
    assert_eq!(journal.reserve(&limits, &ask("call-3", 60)).await.unwrap(), LedgerAnswer::Reserved);
    journal.give_up(&run, false).await.unwrap();
    let taken = journal.taken("day").await.unwrap();
    assert_eq!((taken.spent, taken.reserved), (PicoUsd(70), PicoUsd(0)));
}

async fn audit(journal: &StoredJournal) {
    let filter = |run: Option<&str>| AuditFilter { before: None, run: run.map(RunId::new), limit: 9 };
    assert_eq!(journal.audit_lines(&filter(None)).await.unwrap().len(), 0);
    for run in ["s1", "s2"] {
        let entry = AuditEntry {
            unix_ms: 1,
            who: "ada".into(),
            account: "token ci".into(),
            from: "127.0.0.1".into(),
            action: AuditAction::Submit,
            run: Some(RunId::new(run)),
            key: None,
            binding: None,
            result: AuditResult::Done,
            detail: None,
        };
        journal.append_audit(&entry).await.unwrap();
    }
    assert_eq!(
        journal.audit_lines(&filter(None)).await.unwrap().iter().map(|line| line.seq).collect::<Vec<_>>(),
        [2, 1]
    );
    assert_eq!(journal.audit_lines(&filter(Some("s1"))).await.unwrap().len(), 1);
    assert_eq!(journal.broken_audit().await.unwrap(), None);
}
