//! The list of runs is kept, and only what changed is read: it says what a list says that begins now.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::EventKind;
use loop_core::types::RunId;
use loop_runtime::journal::{Durability, Entry, Header, Journal as _, RunWriter, StoredJournal};
use loop_server::caller::Role;
use loop_testkit::{Numbers, World};

use super::runs;
use super::served::{Served, caller, over};

/// A run under another id, as it is written.
pub(super) fn copy(world: &World, id: &str, unix_ms: u64) -> (Header, Vec<Arc<Entry>>) {
    let (_, recorded) = runs::recorded(world);
    let mut entries = recorded.entries;
    let mut header = Header {
        run: RunId::new(id),
        unix_ms,
        item: id.replace("run", "T").into(),
        title: "Disk full".into(),
        spec: recorded.spec,
        manifest_hash: loop_core::types::digest("manifest", &serde_json::json!([])),
        manifest: "[]".into(),
        origin: Some(r#"{"tags": ["night"]}"#.into()),
        request_key: None,
    };
    if let EventKind::Started(started) = &mut entries[0].event.kind {
        (started.run, started.unix_ms) = (header.run.clone(), unix_ms);
        (started.item.id, started.item.title) = (Arc::clone(&header.item), Arc::clone(&header.title));
        header.manifest_hash = started.tools;
    }
    (header, entries.into_iter().map(Arc::new).collect())
}

/// A run that is being written, and what is left of it.
type Open = (Box<dyn RunWriter>, Vec<Arc<Entry>>);

// Each list is compared with that of a process that knows nothing yet, over random beginnings, ends, prunings and pauses.
#[tokio::test]
async fn a_list_that_was_kept_is_a_list_that_begins_now() {
    let paths =
        ["/", "/?outcome=cancelled", "/?text=t-1", "/?domain=helpdesk&since=2026-09-22", "/?tag=night"];
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
        let kept = Served::of(over(Arc::clone(&journal)));
        let mut numbers = Numbers(seed);
        let mut open: BTreeMap<String, Open> = BTreeMap::new();
        let mut ended: Vec<String> = Vec::new();
        for n in 0..60_u64 {
            match numbers.below(5) {
                0 | 1 => {
                    let world = if numbers.below(2) == 0 { runs::stopped() } else { runs::half_approved() };
                    // Some begin in an order that is not that of their ids.
                    let (id, unix_ms) =
                        (format!("run-{n}"), 1_790_000_000_000 + numbers.below(9) * 30_000_000);
                    let (header, entries) = copy(&world, &id, unix_ms);
                    let mut writer = journal.create(&header, &entries[0]).await.unwrap();
                    let half = 1 + numbers.below(entries.len() as u64) as usize;
                    writer.append_all(&entries[1..half], Durability::Committed).await.unwrap();
                    open.insert(id, (writer, entries[half..].to_vec()));
                }
                2 => {
                    let Some((id, (mut writer, left))) = open.pop_first() else { continue };
                    writer.append_all(&left, Durability::Committed).await.unwrap();
                    ended.push(id);
                }
                3 => {
                    // The newest one too, whose place the next one takes.
                    let Some(id) = ended.pop() else { continue };
                    _ = journal.prune(&RunId::new(id.as_str())).await;
                }
                _ => drop(open.pop_last()),
            }
            if numbers.below(2) == 0 {
                let fresh = Served::of(over(Arc::clone(&journal)));
                for path in paths {
                    let [kept, fresh] = [&kept, &fresh].map(|of| of.get(caller(&[Role::Read], None), path));
                    assert_eq!(kept.await, fresh.await, "{path} after step {n} of seed {seed}");
                }
            }
        }
    }
}

// Requests share a reading only if it began after them: each sees what was committed before it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_at_once_see_what_was_committed_before_them() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(StoredJournal::open(folder.path().join("runs.db")).unwrap());
    let kept = Arc::new(Served::of(over(Arc::clone(&journal))));
    let world = runs::stopped();
    let mut late = Vec::new();
    for n in 0..30_u64 {
        let (header, entries) = copy(&world, &format!("run-{n}"), 1_790_000_000_000 + n);
        let mut writer = journal.create(&header, &entries[0]).await.unwrap();
        writer.append_all(&entries[1..], Durability::Committed).await.unwrap();
        drop(writer);
        // Some of them are still under way when the next run is committed.
        for _ in 0..6 {
            let kept = Arc::clone(&kept);
            let request = async move { kept.get(caller(&[Role::Read], None), "/").await.1 };
            late.push((n, tokio::spawn(request)));
        }
        for (n, page) in late.drain(..late.len() / 2) {
            let page = page.await.unwrap();
            assert!(
                page.contains(&format!("T-{n}<")) || page.contains(&format!("/runs/run-{n}\"")),
                "run-{n}"
            );
        }
    }
}
