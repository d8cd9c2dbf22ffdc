//! What can be read of a damaged run: the entries before the damage, and how much is known to be lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use loop_core::types::RunId;

use super::heads::{ChainEnd, Head};
use super::lock::file_name;
use super::pruned;
use super::read::{self, Chain};
use super::rows::{CHANGED, OTHER_KEY, RunRow, corrupt};
use super::seal::SealFault;
use super::sql::{NONE, Row};
use super::{Files, StoredJournal};
use crate::stored::fault::Fault;
use crate::{JournalError, Recorded};

/// The good entries of a run, from the first on.
#[derive(Clone, Debug)]
pub struct SalvagedRun {
    /// The entries whose chain holds and that can be read, with spec, manifest and origin. Its `unverified` is set if the
    /// key's records do not vouch for all of them.
    pub recorded: Recorded,
    /// How many of the entries the key's records vouch for: a program without the key did not make them. The others
    /// belong to an unbroken chain, which a program without the key can make.
    pub vouched: u64,
    /// What is missing behind the entries.
    pub lost: LostEntries,
    /// What is wrong with the stored run. `None`: nothing is.
    pub fault: Option<Arc<str>>,
}

/// What a damaged run has lost behind its good entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostEntries {
    /// Nothing: the key's records count as many entries.
    Nothing,
    /// The key's records count this many more entries. Each of them may have announced an effect.
    Entries(u64),
    /// Not known, because no record of the key can be read. There may have been more entries.
    Unknown,
}

impl StoredJournal {
    /// Reads the good entries of a run, also where [`read`](crate::Journal::read) refuses the run: up to the
    /// first entry that is missing, was changed, or cannot be read. It changes nothing.
    ///
    /// # Errors
    /// If there is no such run, or if not even its first entry, its spec and its tool manifest can be read.
    pub async fn salvage(&self, run: &RunId) -> Result<SalvagedRun, JournalError> {
        let run = run.clone();
        let read = self.reading(move |files, connection| {
            let head = files.head(&run).ok().flatten();
            let transaction = connection.transaction()?;
            let row = RunRow::find(&transaction, &run)?.ok_or_else(|| files.unknown(&run))?;
            let (spec, manifest) = read::given(&transaction, &row)?;
            let beginning = read::beginning(&row);
            let Chain { entries, hashes, fault, .. } = read::chain(&transaction, &run, beginning)?;
            if entries.is_empty() {
                return Err(fault.unwrap_or_else(|| corrupt(&run, 0, "it has no entries")));
            }
            let broken = files.key.as_ref().and_then(|key| row.check(key));
            let sealed = files.key.is_some() && matches!(broken, None | Some(SealFault::Imported));
            let hash_at = |entries: u64| match usize::try_from(entries) {
                Ok(0) => Some(beginning),
                entries => entries.ok().and_then(|entries| hashes.get(entries - 1).copied()),
            };
            let of_row = sealed.then(|| row.position()).transpose()?;
            let known = positions(of_row, head.as_ref());
            let matches = |known: &&ChainEnd| hash_at(known.entries) == Some(known.hash);
            let vouched = known.iter().filter(matches).map(|known| known.entries).max().unwrap_or_default();
            let has = entries.len() as u64;
            let lost = match known.iter().map(|known| known.entries).max() {
                None => LostEntries::Unknown,
                Some(known) if known > has => LostEntries::Entries(known - has),
                Some(_) => LostEntries::Nothing,
            };
            let known_more = matches!(lost, LostEntries::Entries(_)).then(|| {
                super::behind(has, has + if let LostEntries::Entries(more) = lost { more } else { 0 })
            });
            let fault = fault.map(|fault| fault.at(&files.path).to_string());
            let fault = fault.or_else(|| whole(files, &row, &spec, &entries, broken, &known, vouched));
            let fault: Option<Arc<str>> = fault.or(known_more).map(Into::into);
            let recorded = Recorded {
                spec: Arc::new(spec),
                manifest,
                origin: row.origin,
                entries,
                unverified: fault.clone().filter(|_| vouched < has || lost != LostEntries::Nothing),
                imported: broken == Some(SealFault::Imported),
                since_last_ms: None,
            };
            Ok(SalvagedRun { recorded, vouched, lost, fault })
        });
        read.await
    }
}

impl StoredJournal {
    /// The runs of which the records under the key count entries, and which the journal does not have: it was rolled
    /// back, or they were deleted. Each by its id, or by the name of its record where that is not the id.
    ///
    /// # Errors
    /// If the journal or the folder of the records cannot be read.
    pub async fn missing_runs(&self) -> Result<Vec<Arc<str>>, JournalError> {
        let listed = self.reading(|files, connection| {
            let Some(key) = &files.key else { return Ok(Vec::new()) };
            // The records first: a run that begins meanwhile has its record before its row.
            let names = files.heads.names()?;
            let name = |row: &Row<'_>| Ok(file_name(&RunId::new(row.lossy(0))));
            let mut there: BTreeSet<String> = connection.list("SELECT run FROM runs", NONE, name)?;
            there.extend(pruned::runs(connection, key)?.iter().map(file_name));
            let is_missing = |name: &String| {
                let counts = files.heads.read(&RunId::new(name.as_str()), key).ok().flatten();
                // A record whose name is a digest was sealed for an id that is not known. One that was never written
                // whole is of a run that never began.
                let has_entries =
                    counts.map_or_else(|| files.heads.is_whole(name), |head| head.committed.entries > 0);
                !there.contains(name) && has_entries
            };
            Ok(names.into_iter().filter(is_missing).map(Into::into).collect())
        });
        listed.await
    }
}

/// How far the run had come, by each record that the key made.
fn positions(of_row: Option<ChainEnd>, head: Option<&Head>) -> Vec<ChainEnd> {
    let of_head = head.into_iter().flat_map(|head| [head.committed, head.synced]);
    of_row.into_iter().chain(of_head).collect()
}

/// What is wrong with a run whose entries can all be read.
fn whole(
    files: &Files,
    row: &RunRow,
    spec: &loop_core::RunSpec,
    entries: &[crate::Entry],
    broken: Option<SealFault>,
    known: &[ChainEnd],
    vouched: u64,
) -> Option<String> {
    let has = entries.len() as u64;
    let at = |fault: Fault| fault.at(&files.path).to_string();
    if files.key.is_none() {
        return Some(files.no_key());
    }
    match broken {
        Some(SealFault::Changed) => return Some(at(corrupt(&row.run, has.saturating_sub(1), CHANGED))),
        Some(SealFault::OtherKey) => return Some(OTHER_KEY.to_owned()),
        None | Some(SealFault::Imported) => {}
    }
    if known.iter().any(|known| known.entries <= has && known.entries > vouched) {
        return Some(at(corrupt(&row.run, vouched, CHANGED)));
    }
    if row.count() != has {
        let message = format!("{has} entries are there, {} were written", row.count());
        return Some(at(corrupt(&row.run, has, message)));
    }
    read::fits(row, spec, entries).err().map(at)
}
