//! The ledger: which calls ran in a run, and what they returned.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::repeats::cycle::Trace;
use crate::repeats::fingerprint::{Fingerprint, Query, Rules};
use crate::repeats::note::{NoteLog, RepeatNote, ReturnedCall, error_digest};
use crate::repeats::rule::RepeatRule;
use crate::repeats::stable::reported_by;
use crate::repeats::three_tier::likeness;
use crate::repeats::waiting::waits;
use crate::spec::{RepeatNotes, Repeats, ToolRepeats};
use crate::types::{CommandKey, Digest, EvidenceId, Observation, Status, is_default};

/// The maximum number of search texts of one tool that are remembered.
const QUERIES: usize = 32;

/// Consecutive equal results of a call after which the next call is a repeat.
const TWICE: u32 = 2;

/// The calls of a run by their [`signature`](Fingerprint::signature), with their results.
///
/// The ledger is a plain value. It depends only on the calls that were [`started`](Self::started) and on the results
/// that were [`settled`](Self::settled). The results of one batch give the same ledger in any order of completion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ledger {
    /// Boxed because a `BTreeMap` node allocates space for eleven values.
    entries: BTreeMap<Digest, Box<Entry>>,
    tools: BTreeMap<Arc<str>, Box<ToolLog>>,
    /// The last result of each group of near-duplicates, by the fingerprint that the group shares. Boxed too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    near_duplicate: BTreeMap<Digest, Box<LastResult>>,
    trace: Trace,
    /// What notes need of the results so far.
    #[serde(default, skip_serializing_if = "is_default")]
    noted: NoteLog,
    /// The number of observed changes: writes with a new result that may have changed something, reads whose result
    /// differs from the one before, and reads that report work in progress. Two results count as the same result only
    /// if no other call added to this number in between.
    changes: u64,
    /// The number of writes that ran, whatever their result.
    writes: u64,
    /// Writes in doubt: they may have happened already, and only an approver resolves that. With the last try of each,
    /// `None` if the write ran before this ledger began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    doubts: BTreeMap<Digest, Option<LastTry>>,
    /// The results of writes that ran in this run, in any scope of repeats.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ran: BTreeMap<Digest, EvidenceId>,
    /// Writes that the run before this one started after the place where this one begins, with their idempotency keys
    /// in the order of their starts. Only an approver lets one happen here, under its key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    elsewhere: BTreeMap<Digest, VecDeque<Arc<str>>>,
}

/// The last try of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LastTry {
    key: CommandKey,
    attempt: u32,
}

/// The tries and results of one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    /// The idempotency key, from the first time that the call was made. Every retry reuses it.
    key: CommandKey,
    /// The number of attempts that were started.
    attempts: u32,
    /// The maximum number of tries, retries included.
    tries: u32,
    /// The number of attempts that were polls: the tool was not ready and was called again at once. They do not count
    /// as tries.
    #[serde(default, skip_serializing_if = "is_default")]
    polled: u32,
    /// Whether this is a write that was started under its key and whose end is unknown. Under another key it could
    /// happen twice.
    #[serde(default, skip_serializing_if = "is_default")]
    is_open: bool,
    /// Whether the run before this one made the call, and this one takes over its result. A write that succeeded is
    /// then a repeat under every policy.
    #[serde(default, skip_serializing_if = "is_default")]
    is_inherited: bool,
    /// The status of the last try. `None` while it runs.
    status: Option<Status>,
    /// The evidence number of the last observation.
    evidence: EvidenceId,
    tool: Arc<str>,
    is_read: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    near_duplicate: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Box<Query>>,
    /// The group of searches that differ in their text alone. `None`: it is not a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    search: Option<Digest>,
    /// Whether its results may carry notes.
    #[serde(default, skip_serializing_if = "is_default")]
    is_noted: bool,
    /// The last result, with its digest. Retryable failures are not counted. `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reported: Option<LastResult>,
    /// The last retryable failure. `None` if the last result was not one. Boxed because few are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Box<LastResult>>,
    /// JSON pointers to the parts of the last result that were not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<Arc<str>>,
    /// How many results in a row reported work in progress.
    waited: u32,
    polls: u32,
    /// How many of the ledger's `changes` this call made.
    own: u64,
    /// The ledger's number of `writes` before the last result.
    writes_at: u64,
}

/// The last result of a call, and how often in a row it was the same with no change by other calls between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LastResult {
    result: Digest,
    times: u32,
    /// The number of changes by other calls before this result.
    others: u64,
    key: CommandKey,
    evidence: EvidenceId,
    is_failure: bool,
}

/// The calls of one tool in this scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ToolLog {
    calls: u32,
    last: Option<(CommandKey, EvidenceId)>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    queries: VecDeque<PastQuery>,
}

/// An earlier search text, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct PastQuery {
    query: Query,
    reported: Digest,
    returned: bool,
    key: CommandKey,
    evidence: EvidenceId,
    /// The ledger's `changes` and `writes` before its result.
    changes_at: u64,
    writes_at: u64,
}

/// What the ledger says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// It may run, under a key of its own.
    New,
    /// It is a retry or a poll: an earlier try failed in a retryable way or was not ready, and tries are left. Or it is
    /// a write whose end is unknown, which runs again only under its key.
    Again {
        /// The key of the first try.
        key: CommandKey,
        /// The next try, from 2.
        attempt: u32,
    },
    /// It is a repeat.
    Repeat {
        /// The earlier call. `None`: there was none, because the tool's limit is 0.
        of: Option<CommandKey>,
        /// The earlier call's evidence. `None`: it has not settled.
        evidence: Option<EvidenceId>,
        /// The rule that found it. `None`: the policy has only one.
        rule: Option<RepeatRule>,
    },
    /// It may have happened already. An approver has to decide whether it runs again.
    InDoubt,
}

/// The result of a call, for the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledCall {
    /// [`Fingerprint::signature`] of the call.
    pub signature: Digest,
    /// The key under which it ran.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// How many of the tries before were polls of a tool that was not ready. They do not count as failures.
    pub polled: u32,
    /// How it ended.
    pub status: Status,
    /// The digest of its result without `ignored`. Equal digests mean equal results.
    pub reported: Digest,
    /// JSON pointers to parts of the result that were not compared. Empty if all of it was.
    pub ignored: Vec<Arc<str>>,
    /// Whether the result says that the work is still under way.
    pub waits: bool,
    /// The digest of a failure's text without its numbers and ids. `None`: it did not fail.
    pub error: Option<Digest>,
}

impl SettledCall {
    /// The result of a call. The digest leaves out the volatile parts of the data.
    pub fn of(
        signature: Digest,
        key: CommandKey,
        attempt: u32,
        polled: u32,
        observation: &Observation,
        rules: &ToolRepeats,
    ) -> Self {
        let (reported, ignored) = reported_by(observation, rules);
        let waits = waits(observation);
        let status = observation.status;
        let error = Self::error_of(status, observation.text());
        Self { signature, key, attempt, polled, status, reported, ignored, waits, error }
    }

    /// [`error`](Self::error) of a call that ended with this status and text.
    pub fn error_of(status: Status, text: &str) -> Option<Digest> {
        let is_failed = status.is_failure() || status == Status::InvalidInput;
        is_failed.then(|| error_digest(text))
    }
}

/// The other calls of the batch: those that were judged before the call at hand and may run. None of them has settled.
#[derive(Clone, Debug, Default)]
pub struct OtherCalls {
    calls: BTreeMap<Digest, OtherCall>,
    tools: BTreeMap<Arc<str>, (u32, CommandKey)>,
    queries: Vec<(Arc<str>, Query, CommandKey)>,
    changes: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherCall {
    key: CommandKey,
    times: u32,
    /// The number of writes of the batch, other than this call, before the last of them.
    others: u32,
    own: u32,
}

impl OtherCalls {
    /// Adds a call of the same reply that may run. One that `waits` for an approver runs after the others, or not at
    /// all, so that it changes nothing for them.
    pub fn add(&mut self, fingerprint: &Fingerprint, key: CommandKey, waits: bool) {
        let change = u32::from(!fingerprint.is_read && !waits);
        let fresh = OtherCall { key, times: 0, others: 0, own: 0 };
        let other_call = self.calls.entry(fingerprint.signature).or_insert(fresh);
        other_call.others = self.changes.saturating_sub(other_call.own);
        (other_call.key, other_call.times, other_call.own) =
            (key, other_call.times + 1, other_call.own + change);
        self.changes += change;
        let tool = self.tools.entry(Arc::clone(&fingerprint.tool)).or_insert((0, key));
        *tool = (tool.0 + 1, key);
        if let Some(query) = &fingerprint.query {
            self.queries.push((Arc::clone(&fingerprint.tool), query.clone(), key));
        }
    }

    /// The same call earlier in the batch.
    pub(crate) fn same(&self, fingerprint: &Fingerprint) -> Option<OtherCall> {
        self.calls.get(&fingerprint.signature).copied()
    }

    /// How many other calls of the batch may change something.
    fn changes_by_others(&self, fingerprint: &Fingerprint) -> u32 {
        self.changes.saturating_sub(self.same(fingerprint).map_or(0, |same| same.own))
    }
}

impl Ledger {
    /// A ledger whose only content is these calls in doubt: they may have happened before it began.
    pub fn in_doubt(calls: &BTreeSet<Digest>) -> Self {
        Self { doubts: calls.iter().map(|signature| (*signature, None)).collect(), ..Self::default() }
    }

    /// Records a write that the run before this one started under `key`, and that is not part of this run.
    pub(crate) fn ran_elsewhere(&mut self, signature: Digest, key: Arc<str>) {
        self.elsewhere.entry(signature).or_default().push_back(key);
    }

    /// Whether a call is in the ledger, or in doubt, or was made by a run before this one.
    pub(crate) fn knows(&self, signature: &Digest) -> bool {
        self.entries.contains_key(signature)
            || self.doubts.contains_key(signature)
            || self.elsewhere.contains_key(signature)
    }

    /// The result of the last time that this write ran in this run. `None`: it did not run, or it failed.
    pub(crate) fn last_ran(&self, signature: &Digest) -> Option<EvidenceId> {
        self.ran.get(signature).copied()
    }

    /// Whether the run before this one started the write, not yet allowed here.
    pub(crate) fn is_elsewhere(&self, signature: &Digest) -> bool {
        self.elsewhere.contains_key(signature)
    }

    /// What a retry of the run knows: its writes, and its reads that returned something. A write whose end is unknown is in
    /// doubt, and one that failed in a retryable way has all its tries again. `name` gives the retry's key of a call.
    pub(crate) fn for_retry(&self, mut name: impl FnMut(CommandKey) -> CommandKey) -> Self {
        let mut next =
            Self { doubts: self.doubts.clone(), elsewhere: self.elsewhere.clone(), ..Self::default() };
        for last in next.doubts.values_mut().flatten() {
            last.key = name(last.key);
        }
        for (signature, entry) in &self.entries {
            let was_refused =
                matches!(entry.status, Some(Status::Denied | Status::Duplicate | Status::Skipped));
            let is_kept =
                if entry.is_read { entry.status.is_some_and(Status::is_citable) } else { !was_refused };
            if !is_kept {
                continue;
            }
            let mut entry = entry.clone();
            entry.key = name(entry.key);
            if let Some(reported) = &mut entry.reported {
                (reported.key, reported.others) = (name(reported.key), 0);
            }
            if entry.is_open {
                // It was started, and its end is unknown.
                let last = LastTry { key: entry.key, attempt: entry.attempts };
                next.doubts.entry(*signature).or_insert(Some(last));
            } else if entry.status.is_some_and(Status::is_retryable) {
                (entry.attempts, entry.polled) = (0, 0);
            }
            (entry.failed, entry.own, entry.writes_at, entry.waited) = (None, 0, 0, 0);
            entry.is_inherited = true;
            next.entries.insert(*signature, entry);
        }
        next
    }

    /// The status of a call under these rules. `other_calls` are the calls before it in the same reply.
    pub fn call_status(
        &self,
        fingerprint: &Fingerprint,
        rules: &Rules<'_>,
        other_calls: &OtherCalls,
    ) -> CallStatus {
        if let Some(limit) = self.limit_reached(fingerprint, rules, other_calls) {
            return limit;
        }
        let call_status = match rules.repeats {
            Repeats::NeverRerun => self.once(fingerprint, other_calls, None),
            Repeats::Progress => self.progress(fingerprint, other_calls),
            Repeats::ThreeTier => self.once(fingerprint, other_calls, Some(RepeatRule::Exact)),
            Repeats::Reuse => self.reuse(fingerprint, other_calls),
            Repeats::Off => self.off(fingerprint, other_calls),
        };
        let call_status = self.done_before(fingerprint).unwrap_or(call_status);
        if self.is_in_doubt(fingerprint, &call_status) {
            return match (rules.repeats, other_calls.same(fingerprint)) {
                // The approver decides about one of them, and what it has done is not done again.
                (Repeats::NeverRerun | Repeats::ThreeTier, Some(other_call)) => CallStatus::Repeat {
                    of: Some(other_call.key),
                    evidence: None,
                    rule: (rules.repeats == Repeats::ThreeTier).then_some(RepeatRule::Exact),
                },
                _ => CallStatus::InDoubt,
            };
        }
        let begun = || self.entries.get(&fingerprint.signature).filter(|entry| entry.is_open);
        match call_status {
            CallStatus::New => match begun() {
                Some(entry) => entry.begun_already(other_calls.same(fingerprint)),
                None => self.similar(fingerprint, rules, other_calls).unwrap_or(CallStatus::New),
            },
            CallStatus::Again { .. } | CallStatus::Repeat { .. } | CallStatus::InDoubt => call_status,
        }
    }

    /// The repeat of a write that the run before this one made with success.
    fn done_before(&self, fingerprint: &Fingerprint) -> Option<CallStatus> {
        let entry = self.entries.get(&fingerprint.signature).filter(|entry| entry.is_inherited)?;
        let is_done = !entry.is_read && entry.status.is_some_and(Status::is_citable);
        let (of, evidence) = (Some(entry.key), Some(entry.evidence));
        is_done.then_some(CallStatus::Repeat { of, evidence, rule: Some(RepeatRule::Exact) })
    }

    /// Whether a call is in doubt, so that an approver has to decide. After an approver denied it, a call that the
    /// policy refuses as a repeat does not need another decision.
    fn is_in_doubt(&self, fingerprint: &Fingerprint, call_status: &CallStatus) -> bool {
        let status = self.entries.get(&fingerprint.signature).and_then(|entry| entry.status);
        let is_answered = status == Some(Status::Denied) && matches!(call_status, CallStatus::Repeat { .. });
        let is_open =
            self.doubts.contains_key(&fingerprint.signature) || self.is_elsewhere(&fingerprint.signature);
        is_open && !is_answered
    }

    /// The idempotency key and the number of the next try, for a call that reuses its key: it failed in a retryable way
    /// and tries are left, or it is a write that could happen twice under another key.
    pub fn next_try(&self, signature: &Digest) -> Option<(CommandKey, u32)> {
        if let Some(doubt) = self.doubts.get(signature) {
            return doubt.map(|last| (last.key, last.attempt.saturating_add(1)));
        }
        let entry = self.entries.get(signature)?;
        // A second call gets a key of its own while the first runs.
        let is_begun = entry.is_open && entry.status.is_some();
        (entry.has_tries() || is_begun).then(|| (entry.key, entry.attempts.saturating_add(1)))
    }

    /// An approver permits a call in doubt to run again. Returns the idempotency key under which the run before this one
    /// started it; `None`: it did not.
    pub fn allowed(&mut self, signature: &Digest) -> Option<Arc<str>> {
        if self.doubts.remove(signature).is_some() {
            return None;
        }
        let keys = self.elsewhere.get_mut(signature)?;
        let key = keys.pop_front();
        if keys.is_empty() {
            self.elsewhere.remove(signature);
        }
        key
    }

    /// Records the start of a permitted call: its key, the number of the try, and the evidence number of its
    /// observation.
    pub fn started(
        &mut self,
        fingerprint: &Fingerprint,
        key: CommandKey,
        attempt: u32,
        evidence: EvidenceId,
    ) {
        let entry = self.entries.entry(fingerprint.signature).or_insert_with(|| {
            Box::new(Entry {
                key,
                attempts: attempt,
                tries: fingerprint.tries,
                polled: 0,
                is_open: false,
                is_inherited: false,
                status: None,
                evidence,
                tool: Arc::clone(&fingerprint.tool),
                is_read: fingerprint.is_read,
                near_duplicate: fingerprint.near_duplicate,
                query: fingerprint.query.clone().map(Box::new),
                search: fingerprint.search,
                is_noted: fingerprint.is_noted,
                reported: None,
                failed: None,
                ignored: Vec::new(),
                waited: 0,
                polls: fingerprint.polls,
                own: 0,
                writes_at: 0,
            })
        });
        if entry.key != key {
            (entry.polled, entry.is_open) = (0, false);
        }
        let doubt = self.doubts.get_mut(&fingerprint.signature).and_then(Option::as_mut);
        if let Some(last) = doubt.filter(|last| last.key == key) {
            (last.attempt, entry.is_open) = (attempt, true);
        }
        (entry.key, entry.attempts, entry.tries) = (key, attempt, fingerprint.tries);
        (entry.status, entry.evidence, entry.is_inherited) = (None, evidence, false);
    }

    /// Records the results of the calls of one reply, in the order of the calls. Returns the notes that they carry, each
    /// with the key of its call.
    ///
    /// A change by one of them counts as a change after all of them, because what the others read is unknown.
    pub fn settled(&mut self, batch: &[SettledCall], rules: &RepeatNotes) -> Vec<(CommandKey, RepeatNote)> {
        let (mut changed_by, mut writes, mut notes) = (Vec::new(), 0, Vec::new());
        let mut failed = BTreeSet::new();
        for settled in batch {
            let (changed, wrote) = self.settle(settled);
            changed_by.extend(changed.then_some(settled.signature));
            writes += u64::from(wrote);
            notes.extend(self.note(settled, rules, &mut failed).map(|note| (settled.key, note)));
        }
        self.writes += writes;
        self.changes += changed_by.len() as u64;
        for signature in changed_by {
            let entry = self.entries.get_mut(&signature);
            let near_duplicate = entry.and_then(|entry| {
                entry.own += 1;
                self.noted.changed_by(&entry.tool);
                entry.near_duplicate
            });
            // The call's own change does not justify a near-duplicate of it either.
            if let Some(similar) =
                near_duplicate.and_then(|near_duplicate| self.near_duplicate.get_mut(&near_duplicate))
            {
                similar.others += 1;
            }
        }
        notes
    }

    /// The note of a result that was just recorded. `None`: it repeats nothing, or it has none.
    /// `failed` are the tools of which a call of the same reply failed.
    fn note(
        &mut self,
        settled: &SettledCall,
        rules: &RepeatNotes,
        failed: &mut BTreeSet<Arc<str>>,
    ) -> Option<RepeatNote> {
        let entry = self.entries.get(&settled.signature).filter(|entry| entry.is_noted)?;
        let returned = ReturnedCall {
            tool: &entry.tool,
            call: settled.signature,
            search: entry.search,
            status: settled.status,
            result: settled.reported,
            error: settled.error,
            changes: self.changes,
            may_pass: settled.status.is_retryable() && settled.attempt < entry.tries,
            is_together: settled.error.is_some() && !failed.insert(Arc::clone(&entry.tool)),
        };
        let by_log = self.noted.returned(&returned, rules);
        let is_waiting = entry.waited > 0 && entry.waited <= entry.polls;
        if !settled.status.is_citable() || is_waiting || rules.same == 0 {
            return by_log;
        }
        let reached = |last: &LastResult| last.key == settled.key && last.times >= rules.same.max(TWICE);
        let same = entry.reported.filter(reached);
        let similar = || self.near_duplicate.get(&entry.near_duplicate?).map(|last| **last).filter(reached);
        self.trace
            .closed_cycle()
            .map(|length| RepeatNote::Cycle { length, times: Trace::rounds() })
            .or_else(|| same.map(|last| RepeatNote::SameResult { times: last.times, similar: false }))
            .or_else(|| similar().map(|last| RepeatNote::SameResult { times: last.times, similar: true }))
            .or(by_log)
    }

    /// Begins a new scope: earlier results no longer count as repeats. A call that may be retried keeps its key, and a
    /// write in doubt stays in doubt.
    pub fn new_scope(&mut self) {
        let doubts = &self.doubts;
        let stays = |signature: &Digest, entry: &Entry| {
            let is_begun = entry.is_open || doubts.contains_key(signature) || entry.is_inherited;
            entry.status.is_none() || entry.status == Some(Status::InDoubt) || entry.has_tries() || is_begun
        };
        self.entries.retain(|signature, entry| stays(signature, entry));
        for entry in self.entries.values_mut() {
            (entry.reported, entry.failed) = (None, None);
        }
        self.tools.clear();
        self.near_duplicate.clear();
        self.trace.clear();
        self.noted.clear();
    }

    /// Records one result. Returns whether the call changed something, and whether it was a write.
    fn settle(&mut self, settled: &SettledCall) -> (bool, bool) {
        let Some(entry) = self.entries.get_mut(&settled.signature) else { return (false, false) };
        let status = settled.status;
        // Of two equal calls that ran concurrently the last one counts.
        if entry.key == settled.key {
            entry.attempts = settled.attempt;
            entry.polled += settled.polled;
            entry.status = Some(status);
            entry.is_open =
                !entry.is_read && stays_open(status).unwrap_or(entry.is_open || settled.polled > 0);
        }
        if status == Status::InDoubt && !entry.is_read {
            let last = LastTry { key: settled.key, attempt: settled.attempt };
            self.doubts.insert(settled.signature, Some(last));
        }
        match status {
            Status::Denied | Status::Skipped | Status::Duplicate => return (false, false),
            Status::Ok | Status::Empty | Status::MalformedResult if !entry.is_read => {
                self.ran.insert(settled.signature, entry.evidence);
            }
            _ => {}
        }
        let log = self.tools.entry(Arc::clone(&entry.tool)).or_default();
        log.calls += 1;
        log.last = Some((settled.key, entry.evidence));
        let last = LastResult {
            result: settled.reported,
            times: 1,
            others: self.changes - entry.own,
            key: settled.key,
            evidence: entry.evidence,
            is_failure: !status.is_citable(),
        };
        entry.writes_at = self.writes;
        // A write that reports work in progress has been done. Another one would start the work again, so it does not
        // count as waiting.
        let waits = settled.waits && (entry.is_read || status == Status::Pending);
        entry.waited = if waits { entry.waited + 1 } else { 0 };
        let is_waiting = waits && entry.waited <= entry.polls;
        let may_pass = status.is_retryable();
        let is_news = entry.reported.is_none_or(|reported| reported.result != settled.reported);
        let is_first = entry.reported.is_none();
        if may_pass {
            entry.failed = Some(Box::new(last.after(entry.failed.as_deref().copied())));
        } else {
            entry.reported = Some(last.after(entry.reported.filter(|_| !is_waiting)));
            entry.failed = None;
            entry.ignored.clone_from(&settled.ignored);
            match is_waiting {
                true => self.trace.clear(),
                false => self.trace.push(settled.signature, settled.reported, entry.is_read),
            }
        }
        let is_over = !is_waiting && (!may_pass || settled.attempt >= entry.tries);
        // The model repairs invalid arguments with similar ones, which may be near-duplicates.
        let is_violation = status == Status::InvalidInput;
        if let Some(near_duplicate) = entry.near_duplicate.filter(|_| is_over && !is_violation) {
            let last = LastResult { others: self.changes, ..last };
            match self.near_duplicate.entry(near_duplicate) {
                MapEntry::Vacant(place) => _ = place.insert(Box::new(last.after(None))),
                MapEntry::Occupied(place) => {
                    let before = place.into_mut();
                    **before = last.after(Some(**before));
                }
            }
        }
        if let Some(query) = entry.query.as_deref().filter(|_| is_over) {
            if log.queries.len() == QUERIES {
                log.queries.pop_front();
            }
            log.queries.push_back(PastQuery {
                query: query.clone(),
                reported: settled.reported,
                returned: status.is_citable(),
                key: settled.key,
                evidence: entry.evidence,
                changes_at: self.changes,
                writes_at: self.writes,
            });
        }
        let changed = if entry.is_read {
            // A read with another result than before shows a change from outside, and work in progress is changing.
            is_waiting || is_news && !is_first && status.is_citable()
        } else {
            is_news && may_have_changed(status)
        };
        (changed, !entry.is_read)
    }

    fn limit_reached(
        &self,
        fingerprint: &Fingerprint,
        rules: &Rules<'_>,
        other_calls: &OtherCalls,
    ) -> Option<CallStatus> {
        let listed = || {
            let table = rules.three_tier;
            table.limits.get(&fingerprint.tool).copied().unwrap_or(table.other)
        };
        let limit = fingerprint.max_calls.or_else(|| (rules.repeats == Repeats::ThreeTier).then(listed))?;
        let log = self.tools.get(&fingerprint.tool);
        let beside = other_calls.tools.get(&fingerprint.tool);
        let calls = log.map_or(0, |log| log.calls) + beside.map_or(0, |(calls, _)| *calls);
        if calls < limit {
            return None;
        }
        let last = log.and_then(|log| log.last);
        let (of, evidence) = match (beside, last) {
            (Some((_, key)), _) => (Some(*key), None),
            (None, Some((key, evidence))) => (Some(key), Some(evidence)),
            (None, None) => (None, None),
        };
        Some(CallStatus::Repeat { of, evidence, rule: Some(RepeatRule::Limit { limit }) })
    }

    /// A call that ran is a repeat by this rule, unless a try of it is left.
    fn once(
        &self,
        fingerprint: &Fingerprint,
        other_calls: &OtherCalls,
        rule: Option<RepeatRule>,
    ) -> CallStatus {
        let repeat = |of, evidence| CallStatus::Repeat { of: Some(of), evidence, rule };
        match (self.entries.get(&fingerprint.signature), other_calls.same(fingerprint)) {
            (Some(entry), _) if !entry.has_tries() => {
                repeat(entry.key, entry.status.is_some().then_some(entry.evidence))
            }
            (_, Some(other_call)) => repeat(other_call.key, None),
            (Some(entry), None) => entry.again(),
            (None, None) => CallStatus::New,
        }
    }

    fn reuse(&self, fingerprint: &Fingerprint, other_calls: &OtherCalls) -> CallStatus {
        let entry = self.entries.get(&fingerprint.signature).map(Box::as_ref);
        let still_stands = |entry: &&Entry| {
            let returned = entry.status.is_some_and(Status::is_citable);
            returned && fingerprint.is_read && other_calls.changes == 0 && entry.writes_at == self.writes
        };
        if let Some(entry) = entry.filter(still_stands) {
            return CallStatus::Repeat { of: Some(entry.key), evidence: Some(entry.evidence), rule: None };
        }
        match other_calls.same(fingerprint) {
            Some(other_call) if fingerprint.is_read && other_call.others == other_calls.changes => {
                CallStatus::Repeat { of: Some(other_call.key), evidence: None, rule: None }
            }
            // A second call of the same batch is not a retry of the first.
            Some(_) => CallStatus::New,
            None => entry.map_or(CallStatus::New, Entry::again),
        }
    }

    fn off(&self, fingerprint: &Fingerprint, other_calls: &OtherCalls) -> CallStatus {
        match (self.entries.get(&fingerprint.signature), other_calls.same(fingerprint)) {
            (Some(entry), None) => entry.again(),
            (None, None) | (_, Some(_)) => CallStatus::New,
        }
    }

    fn progress(&self, fingerprint: &Fingerprint, other_calls: &OtherCalls) -> CallStatus {
        let entry = self.entries.get(&fingerprint.signature);
        let beside = other_calls.same(fingerprint);
        let is_quiet = other_calls.changes_by_others(fingerprint) == 0;
        let unchanged = |reported: &LastResult, own: u64| is_quiet && reported.others == self.changes - own;
        let repeat = |of, evidence, rule| CallStatus::Repeat { of: Some(of), evidence, rule: Some(rule) };
        if let Some(entry) = entry {
            let settled = |rule| repeat(entry.key, Some(entry.evidence), rule);
            let reported = entry.reported.filter(|reported| unchanged(reported, entry.own));
            let failed = entry.failed.as_deref().filter(|failed| unchanged(failed, entry.own));
            match entry.status {
                Some(Status::Pending) if beside.is_none() && entry.attempts <= fingerprint.polls => {
                    return CallStatus::Again { key: entry.key, attempt: entry.attempts + 1 };
                }
                Some(_) if beside.is_none() && entry.has_tries() => return entry.again(),
                Some(status)
                    if status.is_retryable() && failed.is_some_and(|reported| reported.times >= TWICE) =>
                {
                    return settled(RepeatRule::Failed);
                }
                Some(
                    Status::PermanentError | Status::InvalidInput | Status::MalformedResult | Status::Denied,
                ) if reported.is_some() || entry.reported.is_none() && is_quiet => {
                    return settled(RepeatRule::Failed);
                }
                Some(_) | None => {}
            }
            if let Some(length) =
                self.trace.cycle(&fingerprint.signature).filter(|_| other_calls.calls.is_empty())
            {
                return settled(RepeatRule::Cycle { length, times: Trace::rounds() });
            }
            if let Some(reported) = reported.filter(|reported| reported.times >= TWICE) {
                let ignored = entry.ignored.clone();
                return settled(RepeatRule::SameResult { times: reported.times, ignored });
            }
        }
        let similar =
            fingerprint.near_duplicate.and_then(|near_duplicate| self.near_duplicate.get(&near_duplicate));
        let similar = similar.filter(|reported| unchanged(reported, 0));
        if let Some(similar) = similar.filter(|similar| similar.times >= TWICE) {
            let rule = RepeatRule::SameResult { times: similar.times, ignored: Vec::new() };
            return repeat(similar.key, Some(similar.evidence), rule);
        }
        // Two equal earlier results, also in the same batch: a third is not expected to differ.
        let earlier =
            entry.and_then(|entry| entry.reported.filter(|reported| unchanged(reported, entry.own)));
        let earlier = earlier.filter(|reported| !reported.is_failure).map_or(0, |reported| reported.times);
        match beside {
            Some(other_call)
                if other_call.times + earlier >= TWICE
                    && other_call.others == other_calls.changes_by_others(fingerprint) =>
            {
                repeat(other_call.key, None, RepeatRule::Exact)
            }
            Some(_) | None => CallStatus::New,
        }
    }

    /// The repeat of an earlier search text that is similar to this one, with equal other arguments. Under `progress`
    /// the two last similar searches must have returned the same result. Under `reuse` a result is not reused after a
    /// write.
    fn similar(
        &self,
        fingerprint: &Fingerprint,
        rules: &Rules<'_>,
        other_calls: &OtherCalls,
    ) -> Option<CallStatus> {
        let query = fingerprint.query.as_ref()?;
        let repeat = |of, evidence, earlier: &Query, millis| {
            let rule = Some(RepeatRule::Similar { query: Arc::clone(&earlier.text), millis });
            CallStatus::Repeat { of: Some(of), evidence, rule }
        };
        let log = self.tools.get(&fingerprint.tool);
        let mut near_duplicate =
            log.into_iter().flat_map(|log| log.queries.iter().rev()).filter_map(|requested| {
                likeness(&requested.query, query, rules.three_tier).map(|millis| (requested, millis))
            });
        let found = match rules.repeats {
            Repeats::NeverRerun | Repeats::ThreeTier | Repeats::Off => near_duplicate.next(),
            Repeats::Reuse => near_duplicate.find(|(requested, _)| {
                requested.returned && requested.writes_at == self.writes && other_calls.changes == 0
            }),
            Repeats::Progress => {
                let last = near_duplicate.next();
                let before = near_duplicate.next();
                last.filter(|(last, _)| {
                    let stands = |requested: &PastQuery| {
                        requested.changes_at == self.changes && other_calls.changes == 0
                    };
                    before.is_some_and(|(before, _)| {
                        stands(last) && stands(before) && last.reported == before.reported
                    })
                })
            }
        };
        if let Some((requested, millis)) = found {
            return Some(repeat(requested.key, Some(requested.evidence), &requested.query, millis));
        }
        if matches!(rules.repeats, Repeats::Progress | Repeats::Reuse) {
            return None;
        }
        other_calls.queries.iter().rev().filter(|(tool, _, _)| *tool == fingerprint.tool).find_map(
            |(_, earlier, key)| {
                likeness(earlier, query, rules.three_tier).map(|millis| repeat(*key, None, earlier, millis))
            },
        )
    }
}

impl Entry {
    /// Whether its last try failed in a retryable way and another try is left under its key.
    fn has_tries(&self) -> bool {
        let tries = self.attempts.saturating_sub(self.polled);
        self.status.is_some_and(Status::is_retryable) && tries < self.tries
    }

    /// The status of a write that was started under a key and whose end is unknown. It never gets another key. After a
    /// timeout or a cancellation it is a repeat, since no try is left, and so is a second one in the same batch.
    fn begun_already(&self, beside: Option<OtherCall>) -> CallStatus {
        let repeat = |of, evidence, rule| CallStatus::Repeat { of: Some(of), evidence, rule: Some(rule) };
        match (self.status, beside) {
            (_, Some(other_call)) => repeat(other_call.key, None, RepeatRule::Exact),
            (Some(Status::Timeout | Status::Cancelled), None) => {
                repeat(self.key, Some(self.evidence), RepeatRule::Failed)
            }
            (_, None) => CallStatus::Again { key: self.key, attempt: self.attempts.saturating_add(1) },
        }
    }

    /// The next try under its key, or a new call if no try is left.
    fn again(&self) -> CallStatus {
        if !self.has_tries() {
            return CallStatus::New;
        }
        CallStatus::Again { key: self.key, attempt: self.attempts + 1 }
    }
}

impl LastResult {
    /// This result after `before`. It counts once more if it is the same and no other call changed anything between.
    fn after(self, before: Option<Self>) -> Self {
        let is_same = |before: &Self| before.result == self.result && before.others == self.others;
        let times = before.filter(is_same).map_or(0, |before| before.times);
        Self { times: times + 1, ..self }
    }
}

/// Whether a write with this status may have changed something.
fn may_have_changed(status: Status) -> bool {
    match status {
        Status::Ok
        | Status::Empty
        | Status::PermanentError
        | Status::MalformedResult
        | Status::Timeout
        | Status::Cancelled
        | Status::Pending
        | Status::InDoubt => true,
        Status::RetryableError
        | Status::InvalidInput
        | Status::Denied
        | Status::Duplicate
        | Status::Skipped => false,
    }
}

/// Whether a write with this status may still be in progress or may have happened. `None`: the status does not say, so
/// the earlier state stays.
fn stays_open(status: Status) -> Option<bool> {
    match status {
        Status::Timeout | Status::Cancelled | Status::Pending | Status::InDoubt => Some(true),
        Status::Ok
        | Status::Empty
        | Status::PermanentError
        | Status::InvalidInput
        | Status::MalformedResult => Some(false),
        Status::RetryableError | Status::Denied | Status::Duplicate | Status::Skipped => None,
    }
}
