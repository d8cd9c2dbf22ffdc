//! Logs that are cut off: at every byte, what is lost is noticed before anything is done again.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loop_core::EventKind;
use loop_inspect::audit::JournalAudit;
use loop_runtime::journal::{Durability, Entry, Journal as _, JournalError, StoredJournal};

use super::history::{Numbers, history, in_doubt, is_full};
use super::{beside, copy_all, run, write};

/// Small journals of which the newest entries are in the log.
const JOURNALS: usize = 20;
/// Bytes of a log before its first frame, and of a frame with its page.
const LOG_HEAD: usize = 32;
const FRAME: usize = 24 + 4_096;

/// The journal's files, with the first `stored` entries in `journal.db` and `logged` more in its log, as a kill leaves
/// them.
async fn killed(at: &Path, entries: &[Entry], header: &loop_runtime::journal::Header, stored: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    if stored > 0 {
        write(&StoredJournal::open(&path).unwrap(), header, &entries[..stored]).await;
    }
    let journal = StoredJournal::open(&path).unwrap();
    let mut writer = match stored {
        0 => journal.create(header, &Arc::new(entries[0].clone())).await.unwrap(),
        _ => journal.resume(&header.run).await.unwrap().1,
    };
    for entry in &entries[stored.max(1)..] {
        writer.append(&Arc::new(entry.clone()), Durability::Committed).await.unwrap();
    }
    copy_all(folder.path(), at);
}

#[tokio::test]
#[allow(clippy::print_stdout)]
async fn a_log_that_is_cut_off_anywhere_loses_nothing_unnoticed() {
    // H2, I-12, I-13, B5: at each cut the entries are the first ones of the run. Where one that was acknowledged is
    // missing the run is not resumed, so no effect begins twice, and `verify` says so.
    let (mut cuts, mut noticed) = (0_u64, 0_u64);
    // Half of them are of both kinds of run as well.
    let journals = if is_full() { JOURNALS } else { JOURNALS / 2 };
    for nth in 0..journals {
        let (header, all) = if nth % 2 == 0 { history("r1") } else { in_doubt("r1") };
        // From a run that is in the log alone to one whose last entry is.
        let stored = nth / 2 % all.len();
        let end = all.len().min(stored.max(1) + 1 + nth % 2);
        let entries = &all[..end];
        let folder = tempfile::tempdir().unwrap();
        killed(folder.path(), entries, &header, stored).await;
        let path = folder.path().join("journal.db");
        let log = fs::read(beside(&path, "-wal")).unwrap();
        let database = fs::read(&path).unwrap();
        let mut numbers = Numbers(nth as u64);
        let points: Vec<usize> = if is_full() {
            (0..=log.len()).collect()
        } else {
            // Around the ends of frames, where a commit may end, and anywhere.
            let frames = (0..=log.len() / FRAME).map(|frame| LOG_HEAD + frame * FRAME);
            let around = frames.flat_map(|end| [end - 1, end, end + 1]).filter(|cut| *cut <= log.len());
            around.chain((0..4).map(|_| numbers.below(log.len() + 1))).chain([0, log.len()]).collect()
        };
        let mut most = (0, 0);
        for cut in points {
            fs::write(&path, &database).unwrap();
            fs::write(beside(&path, "-wal"), &log[..cut]).unwrap();
            _ = fs::remove_file(beside(&path, "-shm"));
            cuts += 1;
            let journal = StoredJournal::open(&path).unwrap();
            let read = journal.read(&run()).await;
            let has = match &read {
                Ok(recorded) => {
                    assert_eq!(recorded.entries, entries[..recorded.entries.len()], "{nth}: cut at {cut}");
                    recorded.entries.len()
                }
                Err(JournalError::Unknown { .. }) => 0,
                Err(error) => panic!("{nth}: cut at {cut}: {error}"),
            };
            most = most.max((has, cut));
            let is_whole = has == entries.len();
            let doubted = read.is_ok_and(|recorded| recorded.unverified.is_some());
            assert!(is_whole != doubted || has == 0, "{nth}: cut at {cut}: {has} of {}", entries.len());
            // What is asked more costs more, and depends on the number of entries alone.
            if is_full() && cut % 64 != 0 {
                noticed += u64::from(!is_whole);
                continue;
            }
            let audit = JournalAudit::of_all(&journal).await.unwrap();
            assert_eq!(audit.ok, is_whole, "{nth}: cut at {cut}: {audit:?}");
            noticed += u64::from(!audit.ok);
            let resumed = journal.resume(&run()).await;
            assert_eq!(resumed.is_ok(), is_whole, "{nth}: cut at {cut}");
            // A run that was begun with its effect in flight settles it as lost: it does not begin it again.
            if let Ok((recorded, _writer)) = resumed
                && let EventKind::ToolStarted { .. } = recorded.entries.last().unwrap().event.kind
            {
                let mut state = loop_runtime::journal::replay(&run(), &recorded).unwrap();
                let at = state.now().plus(1);
                state
                    .apply(&loop_core::Event { at, kind: EventKind::Resumed { away_ms: 1, by: None } })
                    .unwrap();
                let runs = |command: &loop_core::Command| matches!(command, loop_core::Command::RunTool(_));
                assert!(!state.commands().iter().any(runs), "{nth}: cut at {cut}");
            }
        }
        assert_eq!(most, (entries.len(), log.len()), "{nth}: the whole log holds the whole run");
    }
    assert!(cuts > 20 * journals as u64 && noticed > cuts / 2, "{cuts} cuts, {noticed} noticed");
    if is_full() {
        println!("{journals} journals, {cuts} cuts, {noticed} with a loss, each noticed");
    }
}
