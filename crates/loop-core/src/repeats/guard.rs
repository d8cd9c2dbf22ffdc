//! All rules of repeats in one value, for a loop that is not a run of ours.

use crate::action::RepeatRule;
use crate::ids::{CommandKey, Digest, EvidenceId, Slot};
use crate::ledger::{Ledger, Settled, Siblings, Standing};
use crate::observation::Status;
use crate::policy_spec::{Repeats, ThreeTier, ToolRepeats};
use crate::repeats::sign::{CallFacts, Rules, Sign};
use crate::repeats::stable::{stable_digest, told};
use crate::repeats::waiting::is_not_ready;

/// Calls in, verdicts out: ask before each call, tell after it what came back.
///
/// ```
/// use loop_core::repeats::{CallFacts, Guard};
/// use loop_core::{RepeatRule, Repeats, Status, ThreeTier, ToolRepeats};
/// use serde_json::json;
///
/// let mut guard = Guard::new(Repeats::Progress, ThreeTier::default());
/// let (rules, arguments) = (ToolRepeats::default(), json!({"path": "/var/log/app.log"}));
/// let read = CallFacts { tool: "read_log", arguments: &arguments, rules: &rules, is_read: true, tries: 2 };
///
/// for _ in 0..2 {
///     guard.before(&read)?;
///     guard.after(Status::Ok, "no errors");
/// }
/// let rule = guard.before(&read).unwrap_err();
/// assert_eq!(rule, RepeatRule::SameResult { times: 2, ignored: vec![] });
/// assert_eq!(
///     rule.message("read_log"),
///     "Tool 'read_log' has already brought the same result 2 times, and nothing was changed since"
/// );
///
/// // Somebody has changed something: it may be read again.
/// let restart = CallFacts { tool: "restart", arguments: &json!({}), is_read: false, ..read };
/// guard.before(&restart)?;
/// guard.after(Status::Ok, "restarted");
/// guard.before(&read)?;
/// # Ok::<(), RepeatRule>(())
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    repeats: Repeats,
    three_tier: ThreeTier,
    ledger: Ledger,
    open: Option<Open>,
    calls: u32,
}

/// The call that was let run last.
#[derive(Clone, Debug)]
struct Open {
    signature: Digest,
    rules: ToolRepeats,
    key: CommandKey,
    attempt: u32,
}

impl Guard {
    /// A guard that follows this policy and has seen nothing. `three_tier` holds the numbers of that policy, and how
    /// alike search texts have to be under each.
    pub fn new(repeats: Repeats, three_tier: ThreeTier) -> Self {
        Self { repeats, three_tier, ledger: Ledger::default(), open: None, calls: 0 }
    }

    /// Whether a call may be made.
    ///
    /// # Errors
    /// Which rule refuses it. What may have happened already and must not happen twice counts as
    /// [`Failed`](RepeatRule::Failed). What is refused leaves no trace.
    pub fn before(&mut self, call: &CallFacts<'_>) -> Result<(), RepeatRule> {
        let rules = Self::rules(self.repeats, &self.three_tier);
        let sign = Sign::of(call, &rules);
        let own = (CommandKey::new(1, Slot::Action(self.calls)), 1);
        let (key, attempt) = match self.ledger.standing(&sign, &rules, &Siblings::default()) {
            Standing::New => own,
            Standing::Again { key, attempt } => (key, attempt),
            Standing::Repeat { rule, .. } => return Err(rule.unwrap_or(RepeatRule::Exact)),
            Standing::InDoubt => return Err(RepeatRule::Failed),
        };
        self.calls += 1;
        self.ledger.started(&sign, key, attempt, EvidenceId(self.calls));
        self.open = Some(Open { signature: sign.signature(), rules: call.rules.clone(), key, attempt });
        Ok(())
    }

    /// What came back from the call that was let run last: how it ended, and its data or the text of its failure.
    /// Without such a call nothing happens.
    pub fn after(&mut self, status: Status, data: &str) {
        if let Some(open) = self.open.take() {
            self.settle(open, status, data);
        }
    }

    /// The call that was let run last failed, and nothing says whether that may pass: it may be made again until it
    /// has failed twice in the same way.
    pub fn after_failure(&mut self, text: &str) {
        if let Some(open) = self.open.take() {
            // No try under the same key is left, and nothing failed for good.
            self.settle(Open { attempt: u32::MAX, ..open }, Status::RetryableError, text);
        }
    }

    /// The user has said something: what was asked for before may be asked for again (S3-21, S3-38).
    pub fn new_turn(&mut self) {
        self.ledger.new_scope(&Self::rules(self.repeats, &self.three_tier));
        self.open = None;
    }

    fn rules(repeats: Repeats, three_tier: &ThreeTier) -> Rules<'_> {
        Rules { repeats, three_tier, is_careful: true }
    }

    fn settle(&mut self, open: Open, status: Status, data: &str) {
        let Open { signature, rules, key, attempt } = open;
        let (result, ignored) = stable_digest(data, &rules);
        let told = told(status, result);
        let waits = status == Status::Pending || status == Status::Ok && is_not_ready(data);
        let polled = 0;
        self.ledger.settled(&[Settled { signature, key, attempt, polled, status, told, ignored, waits }]);
    }
}
