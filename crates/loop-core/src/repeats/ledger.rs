//! The ledger: which calls ran in a run, and what they returned.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::repeats::cycle::Trace;
use crate::repeats::fingerprint::{Fingerprint, Query, Rules};
use crate::repeats::rule::RepeatRule;
use crate::repeats::stable::reported_by;
use crate::repeats::three_tier::likeness;
use crate::repeats::waiting::waits;
use crate::spec::{Repeats, ToolRepeats};
use crate::types::{CommandKey, Digest, EvidenceId, Observation, Status, is_default};

/// How many search texts of one tool are remembered.
const QUERIES: usize = 32;

/// How often the same call may tell the same before it is a repeat.
const TWICE: u32 = 2;

/// Every call that ran by its signature: canonical tool and rebuilt arguments (S0-118, S0-d3).
///
/// A plain value: it follows from what was [`started`](Self::started) and [`settled`](Self::settled) alone, and what
/// was settled side by side gives the same ledger in whichever order it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ledger {
    /// Boxed, since a map keeps room for eleven wherever there is one.
    entries: BTreeMap<Digest, Box<Entry>>,
    tools: BTreeMap<Arc<str>, ToolLog>,
    /// What calls that ask for nearly the same told, by what they share.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    near_duplicate: BTreeMap<Digest, LastResult>,
    trace: Trace,
    /// How often the world was changed, as far as can be told.
    changes: u64,
    /// How often something ran that might change it.
    writes: u64,
    /// Writes that may have happened already, and the last try of each that this ledger knows. Only a person settles
    /// that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    doubts: BTreeMap<Digest, Option<LastTry>>,
}

/// The last try of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LastTry {
    key: CommandKey,
    attempt: u32,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    /// Of the first time that it was asked for; every retry reuses it (C26).
    key: CommandKey,
    /// How often it was started.
    attempts: u32,
    /// How often it may be.
    tries: u32,
    /// How many of its attempts were no tries: its tool was not ready and was asked again at once.
    #[serde(default, skip_serializing_if = "is_default")]
    polled: u32,
    /// Whether it changes something and was begun under its key without coming to an end that is known: under another
    /// key it could happen twice.
    #[serde(default, skip_serializing_if = "is_default")]
    is_open: bool,
    /// How the last try ended; `None` while it runs.
    status: Option<Status>,
    /// The number of the last observation.
    evidence: EvidenceId,
    tool: Arc<str>,
    is_read: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    near_duplicate: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Query>,
    /// What it told, failures that may pass apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reported: Option<LastResult>,
    /// The last such failure, if it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<LastResult>,
    /// What was not looked at in the last result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<Arc<str>>,
    /// How often in a row it said that what was asked for is under way, and how often that is no repeat.
    waited: u32,
    polls: u32,
    /// How many of the ledger's changes are its own.
    own: u64,
    /// How much had been written before its last try.
    writes_at: u64,
}

/// What a call told last, and how often in a row with nothing changed between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct LastResult {
    result: Digest,
    times: u32,
    /// Changes by others before it.
    others: u64,
    key: CommandKey,
    evidence: EvidenceId,
    is_failure: bool,
}

/// What one tool did in this scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ToolLog {
    calls: u32,
    last: Option<(CommandKey, EvidenceId)>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    queries: VecDeque<PastQuery>,
}

/// A search text that was asked for, and what that told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct PastQuery {
    query: Query,
    reported: Digest,
    returned: bool,
    key: CommandKey,
    evidence: EvidenceId,
    /// Changes and writes before it.
    changes_at: u64,
    writes_at: u64,
}

/// What the ledger says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// It may run, under a key of its own.
    New,
    /// An earlier try failed in a way that may pass, or was not ready, and tries are left.
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
    /// It may have happened already. A person has to decide whether it runs again.
    InDoubt,
}

/// The result of a call, for the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
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
}

impl Settled {
    /// What came back from a call, its data taken without what is volatile.
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
        Self { signature, key, attempt, polled, status: observation.status, reported, ignored, waits }
    }
}

/// The calls of one reply that were judged before the one at hand and may run. None of them has settled.
#[derive(Clone, Debug, Default)]
pub struct OtherCalls {
    calls: BTreeMap<Digest, OtherCall>,
    tools: BTreeMap<Arc<str>, (u32, CommandKey)>,
    queries: Vec<(Arc<str>, Query, CommandKey)>,
    /// How many may change something.
    changes: u32,
}

#[derive(Clone, Copy, Debug)]
struct OtherCall {
    /// The last one.
    key: CommandKey,
    times: u32,
    /// Changes by others before the last one.
    others: u32,
    own: u32,
}

impl OtherCalls {
    /// A call of the same reply that may run.
    pub fn add(&mut self, fingerprint: &Fingerprint, key: CommandKey) {
        let change = u32::from(!fingerprint.is_read);
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

    /// The same call, where it stands before this one.
    fn same(&self, fingerprint: &Fingerprint) -> Option<OtherCall> {
        self.calls.get(&fingerprint.signature).copied()
    }

    /// How many calls but this one may change something.
    fn changes_by_others(&self, fingerprint: &Fingerprint) -> u32 {
        self.changes.saturating_sub(self.same(fingerprint).map_or(0, |same| same.own))
    }
}

impl Ledger {
    /// A ledger that knows only this: calls that may have happened before it began.
    pub fn in_doubt(calls: &BTreeSet<Digest>) -> Self {
        Self { doubts: calls.iter().map(|signature| (*signature, None)).collect(), ..Self::default() }
    }

    /// What the ledger says to a call, under these rules, with these calls before it in the same reply.
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
            Repeats::NeverRerun => self.never_rerun(fingerprint, other_calls),
            Repeats::Progress => self.progress(fingerprint, other_calls),
            Repeats::ThreeTier => self.three_tier(fingerprint, other_calls),
            Repeats::Reuse => self.reuse(fingerprint, other_calls),
            Repeats::Off => self.off(fingerprint, other_calls),
        };
        if self.is_in_doubt(fingerprint, &call_status) {
            return CallStatus::InDoubt;
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

    /// Whether a call may have happened and a person has to be asked about it, where the policy says this to it. Once
    /// they have said no, what the policy refuses is not asked about again.
    fn is_in_doubt(&self, fingerprint: &Fingerprint, call_status: &CallStatus) -> bool {
        let status = self.entries.get(&fingerprint.signature).and_then(|entry| entry.status);
        let is_answered = status == Some(Status::Denied) && matches!(call_status, CallStatus::Repeat { .. });
        self.doubts.contains_key(&fingerprint.signature) && !is_answered
    }

    /// The key and the next try of a call that was begun before and is to be made again under its key: it failed in a
    /// way that may pass and tries are left, or under another key it could happen twice.
    pub fn next_try(&self, signature: &Digest) -> Option<(CommandKey, u32)> {
        if let Some(doubt) = self.doubts.get(signature) {
            return doubt.map(|last| (last.key, last.attempt.saturating_add(1)));
        }
        let entry = self.entries.get(signature)?;
        // While it runs a second one has a key of its own.
        let is_begun = entry.is_open && entry.status.is_some();
        (entry.has_tries() || is_begun).then(|| (entry.key, entry.attempts.saturating_add(1)))
    }

    /// A person wants a call made although it may have happened already.
    pub fn allowed(&mut self, signature: &Digest) {
        self.doubts.remove(signature);
    }

    /// A call was let run: under which key, which try, and under which number its observation will stand.
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
                status: None,
                evidence,
                tool: Arc::clone(&fingerprint.tool),
                is_read: fingerprint.is_read,
                near_duplicate: fingerprint.near_duplicate,
                query: fingerprint.query.clone(),
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
        (entry.status, entry.evidence) = (None, evidence);
    }

    /// What came back from the calls of one reply, in the order in which they were asked for.
    ///
    /// What one of them changed counts as changed after all of them: nobody knows what those beside it saw.
    pub fn settled(&mut self, batch: &[Settled]) {
        let (mut changed_by, mut writes) = (Vec::new(), 0);
        for settled in batch {
            let (changed, wrote) = self.settle(settled);
            changed_by.extend(changed.then_some(settled.signature));
            writes += u64::from(wrote);
        }
        self.writes += writes;
        self.changes += changed_by.len() as u64;
        for signature in changed_by {
            let entry = self.entries.get_mut(&signature);
            let near_duplicate = entry.and_then(|entry| {
                entry.own += 1;
                entry.near_duplicate
            });
            // Its own change is no reason to do nearly the same again either.
            if let Some(similar) =
                near_duplicate.and_then(|near_duplicate| self.near_duplicate.get_mut(&near_duplicate))
            {
                similar.others += 1;
            }
        }
    }

    /// A scope began: what was told before is forgotten. What may still be tried again keeps its key, and what may have
    /// happened stays in doubt.
    pub fn new_scope(&mut self) {
        let doubts = &self.doubts;
        let stays = |signature: &Digest, entry: &Entry| {
            let is_begun = entry.is_open || doubts.contains_key(signature);
            entry.status.is_none() || entry.status == Some(Status::InDoubt) || entry.has_tries() || is_begun
        };
        self.entries.retain(|signature, entry| stays(signature, entry));
        for entry in self.entries.values_mut() {
            (entry.reported, entry.failed) = (None, None);
        }
        self.tools.clear();
        self.near_duplicate.clear();
        self.trace.clear();
    }

    /// Takes down one call; tells whether it changed something, and whether it might have.
    fn settle(&mut self, settled: &Settled) -> (bool, bool) {
        let Some(entry) = self.entries.get_mut(&settled.signature) else { return (false, false) };
        let status = settled.status;
        // Of two equal calls that ran side by side the last one counts.
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
        if matches!(status, Status::Denied | Status::Skipped | Status::Duplicate) {
            return (false, false);
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
        // A write that says of what it began that it is under way has been done: once more would begin it once more.
        let waits = settled.waits && (entry.is_read || status == Status::Pending);
        entry.waited = if waits { entry.waited + 1 } else { 0 };
        let is_waiting = waits && entry.waited <= entry.polls;
        let may_pass = status.is_retryable();
        let is_news = entry.reported.is_none_or(|reported| reported.result != settled.reported);
        let is_first = entry.reported.is_none();
        if may_pass {
            entry.failed = Some(last.after(entry.failed));
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
        // What its tool could not take is repaired by other arguments: they may be nearly the same.
        let is_violation = status == Status::InvalidInput;
        if let Some(near_duplicate) = entry.near_duplicate.filter(|_| is_over && !is_violation) {
            let before = self.near_duplicate.get(&near_duplicate).copied();
            self.near_duplicate
                .insert(near_duplicate, LastResult { others: self.changes, ..last }.after(before));
        }
        if let Some(query) = entry.query.as_ref().filter(|_| is_over) {
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
            // What is looked at again and is otherwise was changed by somebody, and what is under way is changing.
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
            let named = table.limits.iter().find(|(name, _)| *name == fingerprint.tool);
            named.map_or(table.other, |(_, limit)| *limit)
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

    fn never_rerun(&self, fingerprint: &Fingerprint, other_calls: &OtherCalls) -> CallStatus {
        let repeat = |of, evidence| CallStatus::Repeat { of: Some(of), evidence, rule: None };
        match (self.entries.get(&fingerprint.signature), other_calls.same(fingerprint)) {
            (Some(entry), _) if !entry.has_tries() => {
                repeat(entry.key, entry.status.is_some().then_some(entry.evidence))
            }
            (_, Some(other_call)) => repeat(other_call.key, None),
            (Some(entry), None) => entry.again(),
            (None, None) => CallStatus::New,
        }
    }

    fn three_tier(&self, fingerprint: &Fingerprint, other_calls: &OtherCalls) -> CallStatus {
        let repeat =
            |of, evidence| CallStatus::Repeat { of: Some(of), evidence, rule: Some(RepeatRule::Exact) };
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
            // A second one beside the first is no retry of it.
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
            let failed = entry.failed.filter(|failed| unchanged(failed, entry.own));
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
        // What stands twice before it will hardly tell more the third time.
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

    /// A search text like one before, the other arguments being the same (S3-5). By results it has to have told the
    /// same twice, and an earlier result that no longer stands is not given again.
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
    /// Whether it failed in a way that may pass, and may be tried again under its key.
    fn has_tries(&self) -> bool {
        let tries = self.attempts.saturating_sub(self.polled);
        self.status.is_some_and(Status::is_retryable) && tries < self.tries
    }

    /// What is said to a call which was begun under a key and has come to no end: it never gets another one. One that
    /// was cut off as often as it may be tried is not made again, nor is a second one beside it.
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

    /// Its next try, if there is one.
    fn again(&self) -> CallStatus {
        if !self.has_tries() {
            return CallStatus::New;
        }
        CallStatus::Again { key: self.key, attempt: self.attempts + 1 }
    }
}

impl LastResult {
    /// This, after that: told once more, if it is the same and nobody else has changed anything between.
    fn after(self, before: Option<Self>) -> Self {
        let is_same = |before: &Self| before.result == self.result && before.others == self.others;
        let times = before.filter(is_same).map_or(0, |before| before.times);
        Self { times: times + 1, ..self }
    }
}

/// Whether a call that ended so may have changed something, if it is one that does.
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

/// Whether a write that ended so may be under way or done all the same; `None` where that is as it was before.
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
