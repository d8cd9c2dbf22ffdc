//! Runs that another version of the program has driven.

use std::sync::Arc;

use loop_core::EventKind;
use loop_runtime::journal::{Durability, Entry, Header, Journal, StoredJournal, replay};
use loop_runtime::run::{Program, RunId};
use loop_testkit::continued_by;
pub use loop_testkit::{newer, older};

/// Records in a run that this program continues it. `otherwise`: it decides something that this version does not.
pub fn driven_by(journal: &StoredJournal, run: &str, program: Program, otherwise: bool) {
    let run = RunId::new(run);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (recorded, mut writer) = journal.resume(&run).await.unwrap();
        let mut state = replay(&run, &recorded).unwrap();
        let (event, notes) = continued_by(&mut state, program, otherwise);
        let seq = recorded.entries.len() as u64;
        writer.append(&Arc::new(Entry { seq, event, notes }), Durability::Synced).await.unwrap();
    });
}

/// A copy of a run, as a durable engine leaves it in the journal. Its id.
pub fn on_engine(journal: &StoredJournal, run: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let recorded = journal.read(&RunId::new(run)).await.unwrap();
        let mut entries = recorded.entries.into_iter();
        let mut first = entries.next().unwrap();
        let EventKind::Started(started) = &mut first.event.kind else { panic!("{first:?}") };
        started.run = RunId::new(format!("{run}-e"));
        started.provenance.engine = "restate".into();
        let (copy, item) = (started.run.clone(), &started.item);
        let header = Header {
            run: copy.clone(),
            unix_ms: started.unix_ms,
            item: Arc::clone(&item.id),
            title: Arc::clone(&item.title),
            spec: recorded.spec,
            manifest_hash: started.tools,
            manifest: recorded.manifest,
            origin: recorded.origin,
            request_key: None,
        };
        let mut writer = journal.create(&header, &Arc::new(first)).await.unwrap();
        for entry in entries {
            writer.append(&Arc::new(entry), Durability::Synced).await.unwrap();
        }
        copy.to_string()
    })
}
