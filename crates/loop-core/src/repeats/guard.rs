//! All rules against repeats in one value, for a loop that is not a [`Run`](crate::Run).

use crate::repeats::fingerprint::{CallFacts, Fingerprint, Rules};
use crate::repeats::ledger::{CallStatus, Ledger, OtherCalls, SettledCall};
use crate::repeats::note::RepeatNote;
use crate::repeats::rule::RepeatRule;
use crate::repeats::stable::{reported, stable_digest};
use crate::repeats::waiting::is_not_ready;
use crate::spec::{RepeatNotes, Repeats, ThreeTier, ToolRepeats};
use crate::types::{CommandKey, Digest, EvidenceId, Slot, Status};

/// Detects repeated calls: ask [`before`](Self::before) each call, and report its result [`after`](Self::after) it.
/// Calls may overlap: each permitted call is a [`Running`], and its result is reported with that.
///
/// ```
/// use loop_core::repeats::{CallFacts, Guard};
/// use loop_core::repeats::RepeatRule;
/// use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
/// use loop_core::types::Status;
/// use serde_json::json;
///
/// let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
/// let (rules, arguments) = (ToolRepeats::default(), json!({"path": "/var/log/app.log"}));
/// let read = CallFacts { tool: "read_log", arguments: &arguments, rules: &rules, is_read: true, tries: 2 };
///
/// for _ in 0..2 {
///     let running = guard.before(&read)?;
///     guard.after(running, Status::Ok, "no errors");
/// }
/// let rule = guard.before(&read).unwrap_err();
/// assert_eq!(rule, RepeatRule::SameResult { times: 2, ignored: vec![] });
/// assert_eq!(
///     rule.message("read_log"),
///     "Tool 'read_log' has already returned the same result 2 times, and nothing was changed since"
/// );
///
/// // Something was changed, so the log may be read again.
/// let restart = CallFacts { tool: "restart", arguments: &json!({}), is_read: false, ..read };
/// let running = guard.before(&restart)?;
/// guard.after(running, Status::Ok, "restarted");
/// assert!(guard.before(&read).is_ok());
/// # Ok::<(), RepeatRule>(())
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    repeats: Repeats,
    three_tier: ThreeTier,
    ledger: Ledger,
    /// The calls in flight, whose results have not been reported: number, fingerprint, idempotency key.
    open: Vec<(u32, Fingerprint, CommandKey)>,
    calls: u32,
    notes: RepeatNotes,
    /// Calls that were refused since the last one that might run.
    refused: u32,
}

/// Refused calls in a row after which a loop is stuck: as many as the passes of `gate.no_progress` for native calls.
const STUCK_AFTER: u32 = 3;

/// A call that was permitted and has not settled.
#[must_use = "what comes back from the call is told to the guard with it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Running {
    number: u32,
    signature: Digest,
    rules: ToolRepeats,
    key: CommandKey,
    attempt: u32,
}

impl Guard {
    /// A guard with this policy and an empty ledger. `three_tier` holds the limits of that policy, and the threshold of
    /// similar search texts, which applies under each policy.
    pub fn new(repeats: Repeats, three_tier: ThreeTier) -> Self {
        Self {
            repeats,
            three_tier,
            ledger: Ledger::default(),
            open: Vec::new(),
            calls: 0,
            notes: RepeatNotes::default(),
            refused: 0,
        }
    }

    /// The same guard with these thresholds for its notes.
    #[must_use]
    pub fn with_notes(mut self, notes: RepeatNotes) -> Self {
        self.notes = notes;
        self
    }

    /// Whether a call may run. Calls that were permitted and not reported yet count as other calls of the same batch.
    ///
    /// # Errors
    /// The rule that refuses the call. A write that may have happened already counts as [`Failed`](RepeatRule::Failed).
    /// A refused call is not recorded.
    pub fn before(&mut self, call: &CallFacts<'_>) -> Result<Running, RepeatRule> {
        let rules = Self::rules(self.repeats, &self.three_tier);
        let fingerprint = Fingerprint::of(call, &rules);
        let own = (CommandKey::new(1, Slot::Action(self.calls)), 1);
        let mut beside = OtherCalls::default();
        for (_, fingerprint, key) in &self.open {
            beside.add(fingerprint, *key, /*waits*/ false);
        }
        let (key, attempt) = match self.ledger.call_status(&fingerprint, &rules, &beside) {
            CallStatus::New => own,
            CallStatus::Again { key, attempt } => (key, attempt),
            CallStatus::Repeat { rule, .. } => return Err(self.refuse(rule.unwrap_or(RepeatRule::Exact))),
            CallStatus::InDoubt => return Err(self.refuse(RepeatRule::Failed)),
        };
        self.refused = 0;
        self.calls += 1;
        self.ledger.started(&fingerprint, key, attempt, EvidenceId(self.calls));
        let (number, signature) = (self.calls, fingerprint.signature());
        self.open.push((number, fingerprint, key));
        Ok(Running { number, signature, rules: call.rules.clone(), key, attempt })
    }

    /// Reports the result of a call: its status, and its data or the text of its failure. Report a cancelled call as
    /// well: a call without a report counts as running until the next turn.
    ///
    /// Returns the note that the model should read with the result. `None`: the result repeats nothing.
    pub fn after(&mut self, call: Running, status: Status, data: &str) -> Option<RepeatNote> {
        self.settle(call, status, data)
    }

    /// Whether the loop should stop: as many calls in a row were refused as a run permits idle passes.
    pub fn is_stuck(&self) -> bool {
        self.refused >= STUCK_AFTER
    }

    /// Reports a failure of unknown kind. The call may be made again until it has failed twice with the same text.
    pub fn after_failure(&mut self, call: Running, text: &str) -> Option<RepeatNote> {
        // No try is left under the same key, and the failure is not permanent.
        self.settle(Running { attempt: u32::MAX, ..call }, Status::RetryableError, text)
    }

    /// Begins a new turn of the user: what was called before may be called again.
    pub fn new_turn(&mut self) {
        self.ledger.new_scope();
        self.open.clear();
        self.refused = 0;
    }

    fn rules(repeats: Repeats, three_tier: &ThreeTier) -> Rules<'_> {
        Rules { repeats, three_tier }
    }

    fn refuse(&mut self, rule: RepeatRule) -> RepeatRule {
        self.refused = self.refused.saturating_add(1);
        rule
    }

    fn settle(&mut self, call: Running, status: Status, data: &str) -> Option<RepeatNote> {
        let Running { number, signature, rules, key, attempt } = call;
        self.open.retain(|(open, ..)| *open != number);
        let (result, ignored) = stable_digest(data, &rules);
        let reported = reported(status, result);
        let waits = status == Status::Pending || status == Status::Ok && is_not_ready(data);
        let polled = 0;
        let error = SettledCall::error_of(status, data);
        let settled =
            SettledCall { signature, key, attempt, polled, status, reported, ignored, waits, error };
        self.ledger.settled(&[settled], &self.notes).pop().map(|(_, note)| note)
    }
}
