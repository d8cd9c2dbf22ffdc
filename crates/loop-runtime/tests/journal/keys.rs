//! Request keys: one run for each, also where two processes ask at once, and as sealed as the rest of the row.

use std::sync::Arc;

use loop_runtime::journal::{Header, Journal, JournalError, MemoryJournal, NoJournal, StoredJournal};

use super::history::history;
use super::{open, place, write};

fn keyed(id: &str) -> (Header, Vec<loop_runtime::journal::Entry>) {
    let (header, entries) = history(id);
    (Header { request_key: Some("order-17".into()), ..header }, entries)
}

#[tokio::test]
async fn a_key_has_one_run() {
    // U2
    let (_folder, path) = place();
    let sqlite = StoredJournal::open(&path).unwrap();
    let journals: [Box<dyn Journal>; 2] = [Box::new(MemoryJournal::new()), Box::new(sqlite)];
    for journal in journals {
        assert_eq!(journal.run_of_key("order-17").await.unwrap(), None);
        let (header, entries) = keyed("r1");
        write(&*journal, &header, &entries).await;
        let (second, entries) = keyed("r2");
        let error = open(&*journal, &second, &entries).await.map(drop).unwrap_err();
        let JournalError::KeyTaken { key, run } = &error else { panic!("{error}") };
        assert_eq!((&**key, run.as_str()), ("order-17", "r1"));
        assert!(!error.to_string().contains('\n'), "{error}");
        assert_eq!(journal.run_of_key("order-17").await.unwrap(), Some(header.run));
        // Another key and no key are other requests.
        for (id, key) in [("r3", Some("order-18")), ("r4", None), ("r5", None)] {
            let (header, entries) = history(id);
            write(&*journal, &Header { request_key: key.map(Arc::from), ..header }, &entries).await;
        }
        assert_eq!(journal.runs().await.unwrap().len(), 4);
    }
    let (header, entries) = keyed("r1");
    assert!(open(&NoJournal, &header, &entries).await.is_err(), "nothing keeps the key");
    // A refused request leaves nothing behind that would be missed.
    assert!(!path.with_file_name("journal.db.heads").join("r2").exists());
}

#[tokio::test]
async fn of_many_requests_at_once_one_creates_the_run() {
    // U2: the transaction that creates the run decides.
    let (_folder, path) = place();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let journal = StoredJournal::open(&path).unwrap();
            let (header, entries) = keyed(&format!("r{n}"));
            tokio::spawn(async move { open(&journal, &header, &entries).await.map(drop) })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => created += 1,
            Err(JournalError::KeyTaken { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(created, 1);
    assert_eq!(StoredJournal::open(&path).unwrap().runs().await.unwrap().len(), 1);
}
