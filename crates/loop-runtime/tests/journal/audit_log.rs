//! The audit log: appended in order, never changed, and what was changed by another program is noticed.

use std::sync::Arc;

use loop_core::types::RunId;
use loop_runtime::journal::StoredJournal;
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditFilter, AuditResult};
use rusqlite::Connection;

use super::place;

fn entry(who: &str, action: AuditAction, run: Option<&str>) -> AuditEntry {
    AuditEntry {
        unix_ms: 1_795_000_000_000,
        who: who.into(),
        account: format!("token {who}").into(),
        from: "127.0.0.1".into(),
        action,
        run: run.map(RunId::new),
        key: None,
        binding: None,
        result: AuditResult::Done,
        detail: None,
    }
}

fn newest(limit: u32) -> AuditFilter {
    AuditFilter { limit, ..AuditFilter::default() }
}

#[tokio::test]
async fn entries_are_read_newest_first_by_page_and_by_run() {
    let (_folder, path) = place();
    let journal = StoredJournal::open(&path).unwrap();
    assert_eq!(journal.audit_lines(&newest(10)).await.unwrap(), []);
    assert_eq!(journal.broken_audit().await.unwrap(), None);
    let entries = [
        entry("ada", AuditAction::Login, None),
        entry("ada", AuditAction::Approve, Some("r1")),
        entry("bob", AuditAction::Stop, Some("r2")),
    ];
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(journal.append_audit(entry).await.unwrap(), at as u64 + 1);
    }
    let lines = journal.audit_lines(&newest(2)).await.unwrap();
    assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [3, 2]);
    assert!(lines.iter().all(|line| line.sealed));
    assert_eq!(lines[1].entry.as_ref(), Some(&entries[1]));
    let older = AuditFilter { before: Some(2), ..newest(10) };
    assert_eq!(journal.audit_lines(&older).await.unwrap()[0].entry.as_ref(), Some(&entries[0]));
    let of_run = AuditFilter { run: Some(RunId::new("r2")), ..newest(10) };
    assert_eq!(journal.audit_lines(&of_run).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_openings_of_a_file_write_one_chain() {
    let (_folder, path) = place();
    let journals = [StoredJournal::open(&path).unwrap(), StoredJournal::open(&path).unwrap()];
    let appended = (0..40).map(|at| {
        let journal = journals[at % 2].clone();
        tokio::spawn(async move { journal.append_audit(&entry("ci", AuditAction::Submit, None)).await })
    });
    for appended in appended.collect::<Vec<_>>() {
        appended.await.unwrap().unwrap();
    }
    assert_eq!(journals[0].broken_audit().await.unwrap(), None);
    assert_eq!(journals[0].audit_lines(&newest(100)).await.unwrap().len(), 40);
}

#[tokio::test]
async fn an_entry_that_another_program_changes_removes_or_adds_is_noticed() {
    // K16: the journal is input.
    let changes = [
        "UPDATE audit SET body = replace(body, 'ada', 'bob') WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "INSERT INTO audit (seq, run, body, seal) SELECT 4, run, body, seal FROM audit WHERE seq = 3",
        "UPDATE audit SET body = '{}' WHERE seq = 2",
        // Issue 40, H3: the column by which entries of a run are chosen.
        "UPDATE audit SET run = 'r2' WHERE seq = 2",
        "UPDATE audit SET run = NULL WHERE seq = 2",
    ];
    for (change, first) in changes.into_iter().zip([2, 3, 4, 2, 2, 2]) {
        let (_folder, path) = place();
        let journal = StoredJournal::open(&path).unwrap();
        for action in [AuditAction::Login, AuditAction::Approve, AuditAction::Stop] {
            journal.append_audit(&entry("ada", action, Some("r1"))).await.unwrap();
        }
        let connection = Connection::open(&path).unwrap();
        if !change.starts_with("INSERT") {
            let refused = connection.execute_batch(change).unwrap_err();
            assert!(refused.to_string().contains("entries of the audit log are not"), "{refused}");
        }
        let without = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted;";
        connection.execute_batch(&format!("{without} {change}")).unwrap();
        assert_eq!(journal.broken_audit().await.unwrap(), Some(first), "{change}");
        let lines = journal.audit_lines(&newest(10)).await.unwrap();
        assert!(lines.iter().any(|line| line.seq == first && !line.sealed), "{change}: {lines:?}");
        if change.contains("SET run") {
            // It is still an entry of its own run, and shown as one that is not sealed.
            let of_run = AuditFilter { run: Some(RunId::new("r1")), ..newest(10) };
            assert_eq!(journal.audit_lines(&of_run).await.unwrap(), lines, "{change}");
        }
    }
}

#[test]
fn an_entry_names_what_its_json_names() {
    let json = serde_json::to_value(entry("ada", AuditAction::DropMessage, None)).unwrap();
    assert_eq!(json["action"], AuditAction::DropMessage.name());
    assert_eq!(json["result"], AuditResult::Done.name());
    let read: Arc<AuditEntry> = serde_json::from_value(json).unwrap();
    assert_eq!(*read, entry("ada", AuditAction::DropMessage, None));
}
