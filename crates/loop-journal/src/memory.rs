//! A journal in memory: for programs that need no durable record, and for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loop_core::Note;
use loop_core::types::RunId;

use crate::{Durability, Entry, Header, Journal, JournalError, Recorded, RunLine, RunWriter};

/// A journal in memory. Its runs exist as long as the value and its clones, which share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    // Ordered by nothing: a tree would compare names that lie anywhere in memory, for each run that begins.
    runs: Arc<Mutex<HashMap<RunId, SharedRun>>>,
}

/// What is kept of a run: shared with its writer, who would otherwise look it up for each entry.
type SharedRun = Arc<Mutex<MemoryRun>>;

#[derive(Debug)]
struct MemoryRun {
    header: Header,
    entries: Vec<Arc<Entry>>,
    is_written: bool,
}

#[derive(Debug)]
struct Writer {
    stored: SharedRun,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    fn run(&self, run: &RunId) -> Result<SharedRun, JournalError> {
        let unknown = || JournalError::Unknown { run: run.clone(), place: "memory".to_owned() };
        lock(&self.runs).get(run).map(Arc::clone).ok_or_else(unknown)
    }
}

impl MemoryRun {
    fn recorded(&self) -> Recorded {
        Recorded {
            spec: Arc::clone(&self.header.spec),
            manifest: Arc::clone(&self.header.manifest),
            origin: self.header.origin.clone(),
            entries: self.entries.iter().map(|entry| (**entry).clone()).collect(),
            unverified: None,
            imported: false,
            since_last_ms: None,
        }
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn create(&self, header: &Header, first: &Arc<Entry>) -> Result<Box<dyn RunWriter>, JournalError> {
        let mut runs = lock(&self.runs);
        if runs.contains_key(&header.run) {
            return Err(JournalError::Exists { run: header.run.clone(), place: "memory".to_owned() });
        }
        let has_key = |stored: &&SharedRun| {
            header.request_key.is_some() && lock(stored).header.request_key == header.request_key
        };
        if let (Some(key), Some(stored)) = (&header.request_key, runs.values().find(has_key)) {
            let run = lock(stored).header.run.clone();
            return Err(JournalError::KeyTaken { key: Arc::clone(key), run });
        }
        let stored = MemoryRun { header: header.clone(), entries: vec![Arc::clone(first)], is_written: true };
        let stored = Arc::new(Mutex::new(stored));
        runs.insert(header.run.clone(), Arc::clone(&stored));
        Ok(Box::new(Writer { stored }))
    }

    async fn resume(&self, run: &RunId) -> Result<(Recorded, Box<dyn RunWriter>), JournalError> {
        let shared = self.run(run)?;
        let recorded = {
            let mut stored = lock(&shared);
            if stored.is_written {
                return Err(JournalError::Busy { run: run.clone(), pid: std::process::id() });
            }
            stored.is_written = true;
            stored.recorded()
        };
        Ok((recorded, Box::new(Writer { stored: shared })))
    }

    async fn read(&self, run: &RunId) -> Result<Recorded, JournalError> {
        self.run(run).map(|stored| lock(&stored).recorded())
    }

    async fn run_of_key(&self, key: &str) -> Result<Option<RunId>, JournalError> {
        let runs = lock(&self.runs);
        let mut stored = runs.values().map(|stored| lock(stored));
        let found = stored.find(|stored| stored.header.request_key.as_deref() == Some(key));
        Ok(found.map(|stored| stored.header.run.clone()))
    }

    async fn runs(&self) -> Result<Vec<RunLine>, JournalError> {
        let runs = lock(&self.runs);
        let mut lines: Vec<RunLine> = runs
            .values()
            .map(|stored| {
                let stored = lock(stored);
                let mut notes = stored.entries.iter().flat_map(|entry| &entry.notes);
                let stop = notes.find_map(|note| match note {
                    Note::Stopped { certificate } => Some(certificate.reason()),
                    _ => None,
                });
                RunLine {
                    run: stored.header.run.clone(),
                    unix_ms: stored.header.unix_ms,
                    domain: Arc::clone(&stored.header.spec.domain),
                    item: Arc::clone(&stored.header.item),
                    title: Arc::clone(&stored.header.title),
                    entries: stored.entries.len() as u64,
                    stop,
                    is_written: stored.is_written && stop.is_none(),
                    is_imported: false,
                    origin: stored.header.origin.clone(),
                    trouble: None,
                }
            })
            .collect();
        lines.sort_by(|a, b| b.unix_ms.cmp(&a.unix_ms).then_with(|| b.run.cmp(&a.run)));
        Ok(lines)
    }
}

#[async_trait]
impl RunWriter for Writer {
    async fn append(&mut self, entry: &Arc<Entry>, _: Durability) -> Result<(), JournalError> {
        let mut stored = lock(&self.stored);
        if stored.entries.len() as u64 != entry.seq {
            let message = format!("entry {} cannot follow {} entries", entry.seq, stored.entries.len());
            return Err(JournalError::Storage { place: "memory".to_owned(), message });
        }
        stored.entries.push(Arc::clone(entry));
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.stored).is_written = false;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
