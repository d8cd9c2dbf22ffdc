//! What breaks under a journal on a server: sessions, the server itself, the connection at a commit, and processes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use loop_core::types::{Digest, PicoUsd, RunId};
use loop_runtime::budget::{BudgetLimit, LedgerAnswer, Reservation, SharedLedger as _};
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditFilter, AuditResult};
use loop_runtime::journal::list::RunQuery;
use loop_runtime::journal::queue::{QueueBounds, Submission, SubmissionState};
use loop_runtime::journal::{Durability, Entry, Journal as _, JournalError, RunWriter, StoredJournal};

use super::World;
use super::conformance::{begun, blank, history};

async fn append(writer: &mut dyn RunWriter, seq: u64) -> Result<(), JournalError> {
    writer.append(&Arc::new(blank(seq)), Durability::Synced).await
}

/// The run has these entries, once each, in an unbroken chain.
async fn has(journal: &StoredJournal, run: &RunId, first: &Entry, count: u64) {
    let recorded = journal.read(run).await.unwrap();
    let expected: Vec<Entry> = std::iter::once(first.clone()).chain((1..count).map(blank)).collect();
    assert_eq!(recorded.entries, expected);
    assert_eq!(recorded.unverified, None);
}

impl World {
    /// Ends all sessions of journals.
    fn end_sessions(&self) {
        let end = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity \
                   WHERE application_name LIKE 'loopgate %'";
        self.server.sql("postgres", end);
    }

    /// As if no process of a journal had been seen for an hour.
    fn end_leases(&self) {
        self.server.sql("loops", "UPDATE loopgate.sessions SET seen = seen - interval '1 hour'");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn entries_survive_the_end_of_sessions_and_of_the_server() {
    // H1, I-13: neither lost nor twice.
    let mut world = World::new();
    let journal = world.journal("");
    let (header, entries) = history("r1");
    let mut writer = begun(&journal, &header, &entries).await;
    let mut seq = 1;
    for _ in 0..5 {
        world.end_sessions();
        append(&mut *writer, seq).await.unwrap();
        seq += 1;
    }
    has(&journal, &header.run, &entries[0], seq).await;
    // The lock is held again, so no other process takes the run.
    let other = world.journal("");
    let busy = other.resume(&header.run).await.unwrap_err();
    assert!(matches!(busy, JournalError::Busy { .. }), "{busy}");
    // A server that is killed recovers, and a server that was stopped starts again; what is appended meanwhile waits.
    let worker = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'loopgate %' LIMIT 1";
    let worker = world.server.sql("postgres", worker);
    assert!(Command::new("kill").args(["-KILL", &worker]).status().unwrap().success());
    append(&mut *writer, seq).await.unwrap();
    seq += 1;
    has(&journal, &header.run, &entries[0], seq).await;
    world.server.stop();
    let appending = tokio::spawn(async move {
        append(&mut *writer, seq).await.unwrap();
        writer
    });
    world.server.run();
    let mut writer = appending.await.unwrap();
    append(&mut *writer, seq + 1).await.unwrap();
    seq += 2;
    has(&journal, &header.run, &entries[0], seq).await;
    drop(writer);
    let (_, mut writer) = other.resume(&header.run).await.unwrap();
    append(&mut *writer, seq).await.unwrap();
    has(&journal, &header.run, &entries[0], seq + 1).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_writer_whose_lease_is_over_is_refused() {
    // I-29, H8: two processes never write one run.
    let world = World::new();
    let zombie = world.journal("");
    let (header, entries) = history("r1");
    let mut writer = begun(&zombie, &header, &entries).await;
    append(&mut *writer, 1).await.unwrap();
    let busy = world.journal("").resume(&header.run).await.unwrap_err();
    assert!(matches!(&busy, JournalError::Busy { pid, .. } if *pid == std::process::id()), "{busy}");
    world.end_leases();
    let other = world.journal("");
    let (recorded, mut taken) = other.resume(&header.run).await.unwrap();
    assert_eq!(recorded.entries.len(), 2);
    append(&mut *taken, 2).await.unwrap();
    // It is as far as it knows the next entry, and it is another program's run by now.
    let refused = append(&mut *writer, 2).await.unwrap_err();
    assert!(matches!(refused, JournalError::Busy { .. }), "{refused}");
    let refused = append(&mut *writer, 3).await.unwrap_err();
    assert!(matches!(refused, JournalError::Busy { .. }), "{refused}");
    append(&mut *taken, 3).await.unwrap();
    has(&other, &header.run, &entries[0], 4).await;
    // The end of the zombie gives no lock up that it no longer has.
    drop(writer);
    drop(zombie);
    let busy = world.journal("").resume(&header.run).await.unwrap_err();
    assert!(matches!(busy, JournalError::Busy { .. }), "{busy}");
    // A process that ended gives its runs up at once.
    drop((taken, other));
    world.journal("").resume(&header.run).await.unwrap();
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The server does not receive the commit.
    Before,
    /// The client does not receive that it was done.
    After,
}

/// Forwards to the server, and cuts each connection at its commit, as often as `cuts` says.
fn proxy(port: u16, cut: Cut, cuts: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, cuts) = (client.unwrap(), Arc::clone(&cuts));
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || {
                _ = std::io::copy(&mut from_server, &mut to_client);
                _ = to_client.shutdown(Shutdown::Both);
            });
            thread::spawn(move || forward(client, server, cut, &cuts));
        }
    });
    own
}

fn forward(mut client: TcpStream, mut server: TcpStream, cut: Cut, cuts: &AtomicUsize) {
    let mut bytes = [0; 64 << 10];
    while let Ok(read) = client.read(&mut bytes) {
        if read == 0 {
            break;
        }
        let is_commit = bytes[..read].windows(7).any(|window| window == b"COMMIT\0");
        let is_cut = is_commit
            && cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_cut {
            // The answer is lost: nothing more reaches the client.
            client.shutdown(Shutdown::Both).unwrap();
        }
        if (!is_cut || cut == Cut::After) && server.write_all(&bytes[..read]).is_err() {
            break;
        }
        if is_cut {
            break;
        }
    }
    _ = server.shutdown(Shutdown::Write);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_commit_whose_answer_is_lost_is_read_back() {
    // I-13, H5: the entry is there once, whether the server received the commit or not.
    let world = World::new();
    drop(world.journal(""));
    for (name, cut) in [("before", Cut::Before), ("after", Cut::After)] {
        let cuts = Arc::new(AtomicUsize::new(0));
        let port = proxy(world.server.port(), cut, Arc::clone(&cuts));
        let state = world.state.path().display();
        let url = format!("postgres://looper@127.0.0.1:{port}/loops?state={state}");
        let journal = StoredJournal::open(url).unwrap();
        let (mut header, entries) = history(name);
        header.request_key = Some(format!("key-{name}").into());
        cuts.store(1, Ordering::SeqCst);
        let mut writer = begun(&journal, &header, &entries).await;
        assert_eq!(cuts.load(Ordering::SeqCst), 0);
        for seq in 1..6 {
            // Also twice in a row, where the first one did not reach the server.
            let again = usize::from(seq == 3 && cut == Cut::Before);
            cuts.store(usize::from(seq % 2 == 1) + again, Ordering::SeqCst);
            append(&mut *writer, seq).await.unwrap();
            assert_eq!(cuts.load(Ordering::SeqCst), 0, "{cut:?}");
        }
        has(&journal, &header.run, &entries[0], 6).await;
        let rows = format!("SELECT count(*), max(epoch) FROM loopgate.entries WHERE run = '{name}'");
        assert_eq!(world.server.sql("loops", &rows), "6|1");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn what_comes_to_the_same_twice_is_tried_again_when_its_connection_breaks() {
    // H1, H5: reads, and writes that are known by their name.
    let world = World::new();
    let journal = world.journal("");
    let (header, entries) = history("r1");
    let mut writer = begun(&journal, &header, &entries).await;
    append(&mut *writer, 1).await.unwrap();
    drop(writer);
    let audit = AuditEntry {
        unix_ms: 1,
        who: "ada".into(),
        account: "".into(),
        from: "".into(),
        action: AuditAction::Stop,
        run: Some(header.run.clone()),
        key: None,
        binding: None,
        result: AuditResult::Done,
        detail: None,
    };
    let bounds = QueueBounds { all: 10, domain: 10 };
    let submission = |run: &str| Submission {
        run: RunId::new(run),
        domain: "helpdesk".into(),
        caller: "ada".into(),
        request_key: None,
        digest: Digest::of("submission", b""),
        priority: 0,
        unix_ms: 1,
        body: "{}".into(),
    };
    for nth in 0..3 {
        let submission = submission(&format!("s{nth}"));
        // Each is the first to notice that its session has ended.
        world.end_sessions();
        assert_eq!(journal.read(&header.run).await.unwrap().unverified, None);
        world.end_sessions();
        assert_eq!(journal.page(&RunQuery::default(), 9).await.unwrap().len(), 1);
        world.end_sessions();
        journal.submit(submission.clone(), bounds).await.unwrap().unwrap();
        world.end_sessions();
        journal.advance_submission(&submission.run, SubmissionState::Over).await.unwrap();
        world.end_sessions();
        assert_eq!(journal.append_audit(&audit).await.unwrap(), nth + 1);
        world.end_sessions();
        let (recorded, writer) = journal.resume(&header.run).await.unwrap();
        assert_eq!(recorded.entries.len(), 2);
        drop(writer);
    }
    let all = AuditFilter { before: None, run: None, limit: 100 };
    // The same where the commit is done and its answer is lost.
    let cuts = Arc::new(AtomicUsize::new(0));
    for cut in [Cut::Before, Cut::After] {
        let port = proxy(world.server.port(), cut, Arc::clone(&cuts));
        let state = world.state.path().display();
        let url = format!("postgres://looper@127.0.0.1:{port}/loops?state={state}");
        let journal = StoredJournal::open(url).unwrap();
        journal.submission(&header.run).await.unwrap();
        let submission = submission(&format!("cut {cut:?}"));
        let before = journal.audit_lines(&all).await.unwrap().len();
        cuts.store(1, Ordering::SeqCst);
        assert!(journal.submit(submission.clone(), bounds).await.unwrap().is_ok());
        cuts.store(1, Ordering::SeqCst);
        journal.append_audit(&audit).await.unwrap();
        assert_eq!(journal.audit_lines(&all).await.unwrap().len(), before + 1, "{cut:?}");
        assert_eq!(journal.broken_audit().await.unwrap(), None);
        cuts.store(1, Ordering::SeqCst);
        let ask = Reservation {
            run: header.run.clone(),
            call: format!("{cut:?}").into(),
            amount: PicoUsd(6),
            hold: None,
        };
        let limits = [BudgetLimit { id: "day".into(), limit: PicoUsd(10) }];
        assert_eq!(journal.reserve(&limits, &ask).await.unwrap(), LedgerAnswer::Reserved);
        cuts.store(1, Ordering::SeqCst);
        journal.settle(&ask.run, &ask.call, PicoUsd(1)).await.unwrap();
        assert_eq!(cuts.load(Ordering::SeqCst), 0, "{cut:?}");
    }
    let queued = world.server.sql("loops", "SELECT count(*) FROM loopgate.submissions WHERE state = 0");
    assert_eq!((queued.as_str(), journal.taken("day").await.unwrap().spent), ("2", PicoUsd(2)));
    // What might be done twice says that it may be done.
    let cut = Arc::new(AtomicUsize::new(0));
    let port = proxy(world.server.port(), Cut::After, Arc::clone(&cut));
    let state = world.state.path().display();
    let other =
        StoredJournal::open(format!("postgres://looper@127.0.0.1:{port}/loops?state={state}")).unwrap();
    other.tidy_up(false).await.unwrap();
    cut.store(1, Ordering::SeqCst);
    let unknown = other.tidy_up(false).await.unwrap_err().to_string();
    assert!(unknown.contains("whether this was done is not known"), "{unknown}");
}

/// A pooler with so many sessions: it answers each login, and whoever comes later gets nothing behind it.
fn pooler(port: u16, sessions: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut waiting = Vec::new();
        for (nth, client) in listener.incoming().enumerate() {
            let mut client = client.unwrap();
            if nth >= sessions {
                _ = client.read(&mut [0; 1024]).unwrap();
                client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
                waiting.push(client);
                continue;
            }
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            for (mut from, mut to) in
                [(server.try_clone().unwrap(), client.try_clone().unwrap()), (client, server)]
            {
                thread::spawn(move || {
                    _ = std::io::copy(&mut from, &mut to);
                    _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    own
}

// Issue 43: poolers
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_pooler_that_has_no_further_session_is_named_within_five_seconds() {
    let world = World::new();
    drop(world.journal(""));
    for sessions in 0..3 {
        let port = pooler(world.server.port(), sessions);
        let state = world.state.path().display();
        let url = format!("postgres://looper@127.0.0.1:{port}/loops?state={state}");
        let began = std::time::Instant::now();
        let refused = match StoredJournal::open(url) {
            Ok(journal) => {
                let (header, entries) = history(&format!("r{sessions}"));
                journal.create(&header, &Arc::new(entries[0].clone())).await.err()
            }
            Err(error) => Some(error),
        };
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_secs(5), "{sessions} sessions: {took:?}");
        let says = refused.unwrap().to_string();
        assert!(says.contains("gives no session within 4 s; where a pooler is between"), "{says}");
    }
}
