//! The queue of a server: requests for runs that are accepted, and durable before the server says so.
//!
//! A row is there before its run is, under the id that the run will have. Once the run has begun, what it begins with is
//! taken out of the row, and the rest stays: who asked, under which idempotency key, for what.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sql::{self, Connection, NONE, Purpose, Row, params};
use loop_core::run::StopMode;
use loop_core::types::{Digest, RunId};

use super::fault::Fault;
use super::locks::{NotTaken, RunLock};
use super::page::{list_of, named};
use super::seal::Key;
use super::{Files, StoredJournal};
use crate::{Durability, JournalError};

/// Journals that no server uses have no such table.
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS submissions (
        nth         INTEGER PRIMARY KEY AUTOINCREMENT,
        run         TEXT NOT NULL UNIQUE,
        domain      TEXT NOT NULL,
        caller      TEXT NOT NULL,
        request_key TEXT,
        digest      TEXT NOT NULL,
        priority    INTEGER NOT NULL,
        unix_ms     INTEGER NOT NULL,
        body        TEXT NOT NULL,
        seal        TEXT NOT NULL,
        state       INTEGER NOT NULL,
        stop        INTEGER NOT NULL,
        UNIQUE (caller, request_key)
    ) STRICT;
    CREATE INDEX IF NOT EXISTS submissions_open ON submissions (state, domain) WHERE state < 2;";

/// A request for a run, as a server accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The id that the run will have.
    pub run: RunId,
    /// The domain's name.
    pub domain: Arc<str>,
    /// Who asks for the run. An idempotency key is theirs alone.
    pub caller: Arc<str>,
    /// Their idempotency key. `None`: they gave none.
    pub request_key: Option<Arc<str>>,
    /// The digest of all that is asked for: the same key with another digest is another request.
    pub digest: Digest,
    /// A higher one begins first. Of equal ones the one that was accepted first does.
    pub priority: i32,
    /// When it was accepted, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// What the run begins with, for the server alone. Empty: the run has begun.
    pub body: Arc<str>,
}

/// A submission in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedSubmission {
    /// The submission.
    pub submission: Submission,
    /// Its position in the order of arrival.
    pub nth: i64,
    /// Whether its run has begun, and has ended.
    pub state: SubmissionState,
    /// How to stop it as soon as it begins. `None`: it is not stopped.
    pub stop: Option<StopMode>,
    /// Whether it is as this journal's key sealed it. One that is not is never begun.
    pub is_sealed: bool,
}

/// How far a submission has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubmissionState {
    /// Its run may have begun, and the journal does not know it yet.
    Queued,
    /// Its run has begun.
    Begun,
    /// Its run has ended, and its outcome is saved where that was asked for.
    Over,
}

/// How many submissions may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// In all.
    pub all: u64,
    /// Of one domain.
    pub domain: u64,
}

/// The result of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is in the queue, at this position in the order of arrival.
    New(i64),
    /// The queue is full: too many submissions wait, of its domain or in all.
    Full {
        /// Whether the bound is that of the domain.
        of_domain: bool,
        /// The bound.
        bound: u64,
    },
}

/// The queue of a journal, held by one server. Dropping it lets another one serve. Of a journal that
/// [several servers share](StoredJournal::shares_queue), each has one.
#[derive(Debug)]
pub struct QueueLock {
    _lock: Option<RunLock>,
}

const COLUMNS: &str =
    "run, domain, caller, request_key, digest, priority, unix_ms, body, seal, nth, state, stop";

impl StoredJournal {
    /// Takes the queue for this process.
    ///
    /// # Errors
    /// If another process has it, or the lock file cannot be made.
    pub fn lock_queue(&self) -> Result<QueueLock, JournalError> {
        let files = &self.store.files;
        if files.is_shared() {
            return Ok(QueueLock { _lock: None });
        }
        match files.locks.take(&RunId::new("queue of a server")) {
            Ok(lock) => Ok(QueueLock { _lock: Some(lock) }),
            Err(NotTaken::Held(pid)) => Err(JournalError::QueueBusy { pid: pid.unwrap_or_default() }),
            Err(NotTaken::Failed(fault)) => Err(fault.at(&files.path)),
        }
    }

    /// Whether several servers serve the queue of this journal, each what it [claims](Self::claim_submissions).
    pub fn shares_queue(&self) -> bool {
        self.store.files.is_shared()
    }

    /// Claims submissions of a domain for this process, at most so many: those that have not begun in the order of their
    /// priority, or those that have begun and whose process is gone. A claim holds as long as the process has its lease. A
    /// journal that [one server has](Self::shares_queue) gives none. `except`: runs that are not claimed.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn claim_submissions(
        &self,
        domain: &str,
        state: SubmissionState,
        limit: usize,
        except: &[RunId],
    ) -> Result<Vec<QueuedSubmission>, JournalError> {
        let domain = domain.to_owned();
        let except = serde_json::to_string(except).unwrap_or_default();
        let claimed = self.store.writer.alone(move |files, open| {
            let Some(own) = files.process()? else { return Ok(Vec::new()) };
            open.commit_for(Purpose::Rows, files, Durability::Committed, |connection| {
                let claim = format!(
                    "WITH alive AS MATERIALIZED (SELECT id FROM sessions WHERE is_alive(id))
                     UPDATE submissions SET claimed_by = ?1 WHERE nth IN (
                         SELECT nth FROM submissions
                         WHERE state = ?2 AND domain = ?3
                             AND (claimed_by IS NULL
                                 OR claimed_by <> ?1 AND claimed_by NOT IN (SELECT id FROM alive))
                             AND run NOT IN (SELECT jsonb_array_elements_text(CAST(CAST(?5 AS TEXT) AS JSONB)))
                         ORDER BY priority DESC, nth LIMIT ?4 FOR UPDATE SKIP LOCKED
                     ) RETURNING {COLUMNS}"
                );
                let params = params![own, state as i64, domain, limit, except];
                Ok(connection.list(&claim, params, |row| read(row, files.key.as_ref()))?)
            })
        });
        claimed.await
    }

    /// Releases the claim of this process on a run, so that another server may claim it.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn give_back_submission(&self, run: &RunId) -> Result<(), JournalError> {
        let run = run.clone();
        let given = self.store.writer.alone(move |files, open| {
            let Some(own) = files.process()? else { return Ok(()) };
            open.commit_for(Purpose::Rows, files, Durability::Committed, |connection| {
                let give = "UPDATE submissions SET claimed_by = NULL WHERE run = ?1 AND claimed_by = ?2";
                connection.execute(give, params![run.as_str(), own])?;
                Ok(())
            })
        });
        given.await
    }

    /// Whether this process has the claim on a run, or the run was not submitted to a server. Of a journal that one server
    /// has, it has all of them.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn has_claim(&self, run: &RunId) -> Result<bool, JournalError> {
        let run = run.clone();
        self.reading(move |files, connection| {
            let Some(own) = files.process()? else { return Ok(true) };
            let find = "SELECT coalesce(claimed_by, '') FROM submissions WHERE run = ?1";
            let found: Option<String> = connection.find(find, [run.as_str()], |row| row.get(0))?;
            Ok(found.is_none_or(|claimed| claimed == own))
        })
        .await
    }

    /// Accepts a submission, or returns the earlier one with the same key as the inner error. An accepted submission is
    /// as durable as an answer of a person under the journal's [`SyncPolicy`](crate::SyncPolicy).
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn submit(
        &self,
        submission: Submission,
        bounds: QueueBounds,
    ) -> Result<Result<Accepted, QueuedSubmission>, JournalError> {
        // It is known by its run if it was committed already.
        let submit = move |files: &Files, connection: &Connection| {
            let key = files.key(&submission.run)?;
            let Submission { caller, request_key, domain, run, .. } = &submission;
            if let Some(own) = find(connection, "run = ?1", [run.as_str()], Some(key))? {
                return Ok(Ok(Accepted::New(own.nth)));
            }
            if let Some(earlier) = request_key.as_deref() {
                let earlier =
                    find(connection, "caller = ?1 AND request_key = ?2", [&**caller, earlier], Some(key))?;
                if let Some(earlier) = earlier {
                    return Ok(Err(earlier));
                }
            }
            let count = "SELECT count(*), count(CASE WHEN domain = ?1 THEN 1 END) FROM submissions
                             WHERE state = 0";
            let (all, own) =
                connection.query_row(count, [&**domain], |row| Ok((row.count(0)?, row.count(1)?)))?;
            if own >= bounds.domain {
                return Ok(Ok(Accepted::Full { of_domain: true, bound: bounds.domain }));
            }
            if all >= bounds.all {
                return Ok(Ok(Accepted::Full { of_domain: false, bound: bounds.all }));
            }
            Ok(Ok(Accepted::New(insert(connection, &submission, key)?)))
        };
        self.changing(Purpose::Submits, self.sync.of(Durability::Synced), TABLE, submit).await
    }

    /// The earlier submission of this caller with this key.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn submission_of_key(
        &self,
        caller: &str,
        key: &str,
    ) -> Result<Option<QueuedSubmission>, JournalError> {
        let (caller, request_key) = (caller.to_owned(), key.to_owned());
        self.reading_table("submissions", move |files, connection| {
            let wanted = [caller.as_str(), request_key.as_str()];
            find(connection, "caller = ?1 AND request_key = ?2", wanted, files.key.as_ref())
        })
        .await
    }

    /// The submission whose run has this id. `None`: the run was not submitted to a server.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn submission(&self, run: &RunId) -> Result<Option<QueuedSubmission>, JournalError> {
        let run = run.clone();
        self.reading_table("submissions", move |files, connection| {
            find(connection, "run = ?1", [run.as_str()], files.key.as_ref())
        })
        .await
    }

    /// The submissions whose runs have not ended, in the order of arrival.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn open_submissions(&self) -> Result<Vec<QueuedSubmission>, JournalError> {
        self.reading_table("submissions", move |files, connection| {
            let list =
                format!("SELECT {COLUMNS} FROM submissions WHERE state < 2 OR body <> '' ORDER BY nth");
            Ok(connection.list(&list, NONE, |row| read(row, files.key.as_ref()))?)
        })
        .await
    }

    /// Records that the run of a submission has begun, or has ended.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn advance_submission(&self, run: &RunId, state: SubmissionState) -> Result<(), JournalError> {
        let run = run.clone();
        self.change_submission(move |connection, key| {
            let find = find(connection, "run = ?1", [run.as_str()], Some(key))?;
            let Some(QueuedSubmission { submission, is_sealed: true, .. }) = find else { return Ok(()) };
            // What the run began with is in its first entry now.
            let submission = Submission { body: "".into(), ..submission };
            let advance =
                "UPDATE submissions SET state = CASE WHEN state < ?2 THEN ?2 ELSE state END, body = '', seal = ?3
                 WHERE run = ?1";
            let seal = seal(&submission, key);
            connection.execute_one(advance, params![run.as_str(), state as i64, seal])?;
            Ok(())
        })
        .await
    }

    /// Records that a run must stop as soon as it begins. False if it has begun, or was not submitted.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn stop_submission(&self, run: &RunId, how: StopMode) -> Result<bool, JournalError> {
        let run = run.clone();
        self.change_submission(move |connection, _| {
            let stop = "UPDATE submissions SET stop = ?2 WHERE run = ?1 AND state = 0";
            Ok(connection.execute(stop, params![run.as_str(), stop_of(Some(how))])? > 0)
        })
        .await
    }

    /// The submissions of these runs. A run that was not submitted to a server has none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn submissions_of(
        &self,
        runs: Vec<RunId>,
    ) -> Result<BTreeMap<RunId, QueuedSubmission>, JournalError> {
        self.reading_table("submissions", move |files, connection| {
            let list = format!("SELECT {COLUMNS} FROM submissions {}", named(connection));
            let runs = list_of(connection, runs.iter().map(RunId::as_str));
            let found: Vec<_> = connection.list(&list, [runs], |row| read(row, files.key.as_ref()))?;
            Ok(found.into_iter().map(|queued| (queued.submission.run.clone(), queued)).collect())
        })
        .await
    }

    /// Who submitted these runs, for lists. A run that was not submitted to a server has none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn callers_of(&self, runs: Vec<RunId>) -> Result<BTreeMap<RunId, String>, JournalError> {
        self.reading_table("submissions", move |_, connection| {
            let list = format!("SELECT run, caller FROM submissions {}", named(connection));
            let runs = list_of(connection, runs.iter().map(RunId::as_str));
            Ok(connection.list(&list, [runs], |row| Ok((RunId::new(row.lossy(0)), row.lossy(1))))?)
        })
        .await
    }

    /// The submissions that have not begun, the newest first by the ids of their runs, at most `limit`. `before`: only those
    /// of older runs.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn queued_submissions(
        &self,
        before: Option<&RunId>,
        limit: usize,
    ) -> Result<Vec<QueuedSubmission>, JournalError> {
        let before = before.cloned();
        self.reading_table("submissions", move |files, connection| {
            let list = format!(
                "SELECT {COLUMNS} FROM submissions WHERE state = 0 AND (CAST(?1 AS TEXT) IS NULL OR run < ?1)
                 ORDER BY run DESC LIMIT ?2"
            );
            let before = before.as_ref().map(RunId::as_str);
            Ok(connection.list(&list, params![before, limit], |row| read(row, files.key.as_ref()))?)
        })
        .await
    }

    /// The submissions that this process has claimed and whose runs have not ended. Of a journal that one server has, there
    /// are none.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn claimed_submissions(&self) -> Result<Vec<QueuedSubmission>, JournalError> {
        self.reading(move |files, connection| {
            let Some(own) = files.process()? else { return Ok(Vec::new()) };
            let list =
                format!("SELECT {COLUMNS} FROM submissions WHERE state < 2 AND claimed_by = ?1 ORDER BY nth");
            Ok(connection.list(&list, [own], |row| read(row, files.key.as_ref()))?)
        })
        .await
    }

    /// How many submissions of each domain have not begun.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn queue_lengths(&self) -> Result<BTreeMap<Arc<str>, u64>, JournalError> {
        self.reading_table("submissions", move |_, connection| {
            let count = "SELECT domain, count(*) FROM submissions WHERE state = 0 GROUP BY domain";
            Ok(connection.list(count, NONE, |row| Ok((row.get(0)?, row.count(1)?)))?)
        })
        .await
    }

    async fn change_submission<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Key) -> Result<T, Fault> + Clone + Send + 'static,
    ) -> Result<T, JournalError> {
        let work =
            |files: &Files, connection: &Connection| work(connection, files.key(&RunId::new("queue"))?);
        self.changing(Purpose::Rows, Durability::Committed, TABLE, work).await
    }
}

fn insert(connection: &Connection, submission: &Submission, key: &Key) -> Result<i64, Fault> {
    let Submission { run, domain, caller, request_key, digest, priority, unix_ms, body } = submission;
    let insert = "INSERT INTO submissions
                  (run, domain, caller, request_key, digest, priority, unix_ms, body, seal, state, stop)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0) RETURNING nth";
    let params = params![
        run.as_str(),
        domain,
        caller,
        request_key,
        digest.to_string(),
        priority,
        unix_ms,
        body,
        seal(submission, key)
    ];
    Ok(connection.query_row(insert, params, |row| row.get(0))?)
}

fn find<const N: usize>(
    connection: &Connection,
    wanted: &str,
    values: [&str; N],
    key: Option<&Key>,
) -> Result<Option<QueuedSubmission>, Fault> {
    let find = format!("SELECT {COLUMNS} FROM submissions WHERE {wanted}");
    Ok(connection.find(&find, values, |row| read(row, key))?)
}

fn read(row: &Row<'_>, key: Option<&Key>) -> sql::Result<QueuedSubmission> {
    let (digest, found): (String, String) = (row.get(4)?, row.get(8)?);
    let run: String = row.get(0)?;
    let parsed = digest.parse();
    let submission = Submission {
        run: RunId::new(run),
        domain: row.get(1)?,
        caller: row.get(2)?,
        request_key: row.get(3)?,
        digest: *parsed.as_ref().unwrap_or(&Digest([0; 32])),
        priority: row.get(5)?,
        unix_ms: row.count(6)?,
        body: row.get(7)?,
    };
    // The state is not under the seal: of a run that has begun, nothing is left of what it begins with.
    let has_begun = row.get::<i64>(10)? > 0;
    let is_sealed = parsed.is_ok()
        && (submission.body.is_empty() || !has_begun)
        && key.is_some_and(|key| {
            key.check(&found, TAG, &fields(&submission).each_ref().map(|f| &**f)).is_none()
        });
    let state = match row.get(10)? {
        0 => SubmissionState::Queued,
        1 => SubmissionState::Begun,
        _ => SubmissionState::Over,
    };
    let stop = match row.get(11)? {
        0 => None,
        1 => Some(StopMode::AtGate),
        _ => Some(StopMode::Now),
    };
    Ok(QueuedSubmission { submission, nth: row.get(9)?, state, stop, is_sealed })
}

fn stop_of(stop: Option<StopMode>) -> i64 {
    match stop {
        None => 0,
        Some(StopMode::AtGate) => 1,
        Some(StopMode::Now) => 2,
    }
}

fn seal(submission: &Submission, key: &Key) -> String {
    key.seal(TAG, &fields(submission).each_ref().map(|field| &**field))
}

fn fields(submission: &Submission) -> [String; 8] {
    let Submission { run, domain, caller, request_key, digest, priority, unix_ms, body } = submission;
    let request_key = request_key.as_ref().map_or_else(|| "-".to_owned(), |key| format!("+{key}"));
    [
        run.to_string(),
        domain.to_string(),
        caller.to_string(),
        request_key,
        digest.to_string(),
        priority.to_string(),
        unix_ms.to_string(),
        body.to_string(),
    ]
}

const TAG: &str = "submission";
