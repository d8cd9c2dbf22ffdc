//! Locks of the server: they belong to a session and end with it, so also with a process that is killed. A process that is
//! stopped, or whose machine is gone, keeps its session: after its lease another process ends that session and takes the
//! lock. What it wrote until then is there, and what it writes later is refused by the run's epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loop_core::types::{Digest, RunId};

use super::fault::SessionError;
use super::server::{Server, application};
use super::session::Session;
use crate::stored::fault::Fault;
use crate::stored::locks::NotTaken;
use crate::stored::sql::Cell;

/// The locks of a journal, as this process has them.
#[derive(Clone, Debug)]
pub(in super::super) struct AdvisoryLocks {
    server: Arc<Server>,
    held: Arc<Mutex<HeldLocks>>,
}

/// A lock. Dropping it lets another process take it.
#[derive(Debug)]
pub(in super::super) struct AdvisoryLock {
    locks: AdvisoryLocks,
    name: String,
}

#[derive(Debug, Default)]
struct HeldLocks {
    /// The session that has the locks. `None`: none was needed yet.
    session: Option<Session>,
    /// When the lease was renewed.
    signed: Option<Instant>,
    /// The locks by name.
    names: BTreeMap<String, i64>,
    /// Ends the thread that renews the lease.
    renewing: Option<Sender<()>>,
}

/// A session that has a lock.
struct Holder {
    /// The process's name at the server. `None`: it is not written down.
    id: Option<String>,
    pid: Option<u32>,
    is_expired: bool,
}

/// How often a lock is tried again after its holder has gone.
const TRIES: u32 = 5;

impl AdvisoryLocks {
    pub(super) fn of(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), held: Arc::default() }
    }

    /// Takes the lock of a name, or says at once who holds it.
    pub(in super::super) fn take(&self, name: &RunId) -> Result<AdvisoryLock, NotTaken> {
        let failed = |error: SessionError| NotTaken::Failed(Fault::Sql(error.into()));
        let mut held = self.held();
        let (name, key) = (name.as_str().to_owned(), key_of(name));
        if held.names.contains_key(&name) {
            return Err(NotTaken::Held(Some(std::process::id())));
        }
        held.prepare(&self.server).map_err(failed)?;
        self.renew(&mut held);
        // One that was stopped for long takes nothing under a lease that is over.
        held.sign(&self.server, self.server.url.lease / 3).map_err(failed)?;
        let session = held.session.as_ref().ok_or_else(|| failed(SessionError::Silent))?;
        let mut pid = None;
        for _ in 0..TRIES {
            if try_lock(session, key).map_err(failed)? {
                held.names.insert(name.clone(), key);
                drop(held);
                return Ok(AdvisoryLock { locks: self.clone(), name });
            }
            match holder(session, key).map_err(failed)? {
                // It gave the lock up meanwhile.
                None => {}
                Some(Holder { id: Some(id), is_expired: true, .. }) => evict(session, &id).map_err(failed)?,
                Some(holder) => {
                    pid = holder.pid;
                    break;
                }
            }
        }
        Err(NotTaken::Held(pid))
    }

    /// Whether a process may hold the lock of a name. Where that cannot be found out, it counts as held.
    pub(in super::super) fn is_held(&self, name: &RunId) -> bool {
        let mut held = self.held();
        if held.names.contains_key(name.as_str()) {
            return true;
        }
        if held.prepare(&self.server).is_err() {
            return true;
        }
        let Some(session) = &held.session else { return true };
        holder(session, key_of(name)).map_or(true, |holder| holder.is_some_and(|holder| !holder.is_expired))
    }

    /// Those of these names whose lock a process may hold, found with one question. Where that cannot be found out, all count
    /// as held.
    pub(in super::super) fn held_of(&self, names: &[&RunId]) -> BTreeSet<RunId> {
        let mut held = self.held();
        let is_own = |name: &&&RunId| held.names.contains_key(name.as_str());
        let (own, others): (Vec<&RunId>, Vec<&RunId>) = names.iter().copied().partition(|name| is_own(&name));
        let mut all: BTreeSet<RunId> = own.into_iter().cloned().collect();
        if others.is_empty() {
            return all;
        }
        let keys: BTreeMap<i64, &RunId> = others.iter().map(|name| (key_of(name), *name)).collect();
        let found = held.prepare(&self.server).and_then(|()| match &held.session {
            Some(session) => holders(session, &keys.keys().copied().collect::<Vec<_>>()),
            None => Err(SessionError::Silent),
        });
        match found {
            Ok(found) => all.extend(found.iter().filter_map(|key| keys.get(key).map(|name| (*name).clone()))),
            Err(_) => all.extend(others.into_iter().cloned()),
        }
        all
    }

    /// Begins the lease of this process, if it has none yet.
    pub(in super::super) fn live(&self) -> Result<(), Fault> {
        let mut held = self.held();
        let live =
            held.prepare(&self.server).and_then(|()| held.sign(&self.server, self.server.url.lease / 3));
        self.renew(&mut held);
        live.map_err(|error| Fault::Sql(error.into()))
    }

    /// Takes the locks again that this process has, if their session broke.
    pub(in super::super) fn keep(&self) -> Result<(), Fault> {
        let mut held = self.held();
        if held.session.is_none() {
            return Ok(());
        }
        held.prepare(&self.server).map_err(|error| Fault::Sql(error.into()))
    }

    fn held(&self) -> MutexGuard<'_, HeldLocks> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to renew the lease of this process, as long as it has the journal open.
    fn renew(&self, held: &mut HeldLocks) {
        if held.renewing.is_some() {
            return;
        }
        let (end, ended) = channel::<()>();
        let (weak, server) = (Arc::downgrade(&self.held), Arc::clone(&self.server));
        let renew = move || {
            let every = (server.url.lease / 3).max(Duration::from_millis(100));
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(held) = weak.upgrade() else { return };
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                // Where the server is gone, it is asked again the next time.
                _ = held.prepare(&server).and_then(|()| held.sign(&server, Duration::ZERO));
            }
        };
        let thread = thread::Builder::new().name("loopgate-lease".to_owned()).spawn(renew);
        // Without the thread, the locks hold as long as the lease does.
        held.renewing = thread.is_ok().then_some(end);
    }
}

impl HeldLocks {
    /// Makes the session where there is none, or anew where it broke. Then it has the locks again that no other process
    /// took meanwhile; what this process writes for the others is refused.
    fn prepare(&mut self, server: &Arc<Server>) -> Result<(), SessionError> {
        let is_new = match &mut self.session {
            Some(session) if !session.is_closed() => false,
            Some(session) => {
                session.revive()?;
                true
            }
            none => {
                *none = Some(server.connect()?);
                true
            }
        };
        if is_new {
            self.signed = None;
            self.sign(server, Duration::ZERO)?;
        }
        if let (true, Some(session)) = (is_new, &self.session) {
            for key in self.names.values() {
                try_lock(session, *key)?;
            }
        }
        Ok(())
    }

    /// Renews the lease, unless that was done less than so long ago.
    fn sign(&mut self, server: &Server, ago: Duration) -> Result<(), SessionError> {
        let Some(session) = &self.session else { return Ok(()) };
        if self.signed.is_none_or(|signed| signed.elapsed() >= ago) {
            sign(session, server)?;
            self.signed = Some(Instant::now());
        }
        Ok(())
    }
}

/// Writes down which process has the session, and that it is there.
fn sign(session: &Session, server: &Server) -> Result<(), SessionError> {
    let put = "WITH gone AS (
                   DELETE FROM sessions WHERE id <> ?1
                       AND (backend = ?2 OR seen < clock_timestamp() - make_interval(days => 1))
               )
               INSERT INTO sessions (id, backend, pid, lease_ms, seen) VALUES (?1, ?2, ?3, ?4, clock_timestamp())
               ON CONFLICT (id) DO UPDATE SET backend = excluded.backend, seen = excluded.seen";
    let lease = i64::try_from(server.url.lease.as_millis()).unwrap_or(i64::MAX);
    let values = vec![
        Cell::Text(server.id.clone()),
        Cell::Integer(session.backend()),
        Cell::Integer(std::process::id().into()),
        Cell::Integer(lease),
    ];
    session.execute(put, &values).map(drop)
}

fn try_lock(session: &Session, key: i64) -> Result<bool, SessionError> {
    Ok(session.one("SELECT pg_try_advisory_lock(?1)", &[key])? == [Cell::Integer(1)])
}

/// Who has a lock.
fn holder(session: &Session, key: i64) -> Result<Option<Holder>, SessionError> {
    let find = "SELECT sessions.id, sessions.pid,
                    sessions.seen < clock_timestamp() - sessions.lease_ms * make_interval(secs => 0.001)
                FROM pg_locks LEFT JOIN sessions ON sessions.backend = pg_locks.pid
                WHERE locktype = 'advisory' AND granted AND objsubid = 1
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND (CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT) = ?1";
    let found = session.one(find, &[key])?;
    Ok(match found.as_slice() {
        [] => None,
        [Cell::Text(id), Cell::Integer(pid), Cell::Integer(is_expired)] => {
            Some(Holder { id: Some(id.clone()), pid: u32::try_from(*pid).ok(), is_expired: *is_expired != 0 })
        }
        _ => Some(Holder { id: None, pid: None, is_expired: false }),
    })
}

/// Those of these locks that a process has whose lease is not over.
fn holders(session: &Session, keys: &[i64]) -> Result<Vec<i64>, SessionError> {
    let find = "SELECT (CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)
                FROM pg_locks LEFT JOIN sessions ON sessions.backend = pg_locks.pid
                WHERE locktype = 'advisory' AND granted AND objsubid = 1
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND (CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT) IN (
                        SELECT CAST(value AS BIGINT) FROM jsonb_array_elements_text(CAST(CAST(?1 AS TEXT) AS JSONB))
                    )
                    AND coalesce(sessions.seen >= clock_timestamp() - sessions.lease_ms * make_interval(secs => 0.001), TRUE)";
    let wanted = format!("{keys:?}");
    let key = |row: Vec<Cell>| if let [Cell::Integer(key)] = row.as_slice() { Some(*key) } else { None };
    Ok(session.query(find, &[wanted])?.into_iter().filter_map(key).collect())
}

/// Ends all sessions of a process whose lease is over.
fn evict(session: &Session, id: &str) -> Result<(), SessionError> {
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = ?1";
    session.query(end, &[application(id)]).map(drop)
}

/// The number of a name. A lock has 64 bits.
fn key_of(name: &RunId) -> i64 {
    let digest = Digest::of("journal-lock", name.as_str().as_bytes());
    let [a, b, c, d, e, f, g, h, ..] = digest.0;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl Drop for AdvisoryLock {
    fn drop(&mut self) {
        let mut held = self.locks.held();
        let Some(key) = held.names.remove(&self.name) else { return };
        if let Some(session) = held.session.as_ref().filter(|session| !session.is_closed()) {
            // A session that broke has lost it.
            _ = session.one("SELECT pg_advisory_unlock(?1)", &[key]);
        }
    }
}
