//! Entries of a later version: they are whole, and this one does not know them.

use super::power_tests::{blank, opening};
use super::*;

/// A journal whose run has an entry with this event and these decisions at the end, written as any other entry.
async fn with_last(event: &str, notes: &str, more: bool) -> (tempfile::TempDir, JournalError) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let journal = StoredJournal::open(&path).unwrap();
    let (header, first) = opening();
    let run = header.run.clone();
    let mut writer = journal.create(&header, &first).await.unwrap();
    writer.append(&blank(1), Durability::Synced).await.unwrap();
    drop(writer);
    let (of, event, notes) = (run.clone(), event.to_owned(), notes.to_owned());
    let written = journal.store.writer.alone(move |files, open| {
        let key = files.key(&of)?;
        open.commit(files, Durability::Synced, |connection| {
            let claim = rows::take_over(connection, &of, key)?.unwrap();
            let mut entries = vec![rows::Text::stated(2, event, notes)];
            if more {
                entries.push(rows::Text::of(&of, &blank(3), u64::MAX)?);
            }
            Ok(rows::append(connection, &claim, None, &entries, key)?.is_some())
        })
    });
    assert!(written.await.unwrap());
    let read = journal.read(&run).await.unwrap_err();
    let resumed = journal.resume(&run).await.map(drop).unwrap_err();
    assert_eq!(read.to_string(), resumed.to_string());
    (folder, read)
}

#[tokio::test]
async fn an_event_or_a_decision_of_a_later_version_is_refused_in_one_line() {
    // Issue 20, part 5; S4-68
    let known = r#"{"at":2,"kind":{"type":"stop_withdrawn"}}"#;
    let later = r#"{"at":2,"kind":{"type":"handed_over","to":"b"}}"#;
    for more in [false, true] {
        for (event, notes, unknown) in
            [(later, "[]", "handed_over"), (known, r#"[{"type":"weighed","by":3}]"#, "weighed")]
        {
            let (_folder, error) = with_last(event, notes, more).await;
            assert!(matches!(error, JournalError::UnknownEntry { seq: 2, .. }), "{error:?}");
            let line = error.to_string();
            assert!(line.contains("run r1, entry 2: it is whole"), "{line}");
            assert!(line.contains(unknown) && line.contains("use the version that wrote it"), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_is_not_json_is_damaged() {
    let (_folder, error) = with_last("{", "[]", /*more*/ false).await;
    assert!(matches!(error, JournalError::Corrupt { seq: 2, .. }), "{error:?}");
}
