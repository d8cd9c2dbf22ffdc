//! Why a run stopped: the reason, its class, and a certificate with every condition that was true.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::not_done::NotDone;
use crate::gate::stop_reason::StopReason;
use crate::reply;
use crate::spec::{Calibrated, ErrorStyle, MeasuredLevel, Setting};
use crate::types::{Confidence, Effects, EvidenceId, PicoUsd, StopClass, Tier, is_default};

/// A value that a condition found, or its threshold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case")]
pub enum Measure {
    /// A number of things.
    Count(u64),
    /// An amount in pico-dollars.
    PicoUsd(PicoUsd),
    /// A duration in milliseconds.
    Millis(u64),
    /// A stated confidence.
    Confidence(Confidence),
    /// A stated confidence that counts as another one, as evals measured it.
    Calibrated(Calibrated),
    /// Names of things, for example of missing sections.
    Names(Vec<Arc<str>>),
    /// A text for people, for example the message of a failure.
    Text(Arc<str>),
    /// A question of the model to a person, where no person can be asked.
    Question(Arc<str>),
    /// A validation of the output that failed to run: its name, and why.
    BrokenCheck(Arc<str>),
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// The cost budget that was too small for the next call, in pico-dollars.
    NextCost {
        /// Spent so far, with the reserves of calls in flight.
        spent: PicoUsd,
        /// The least that the call would have cost.
        needs: PicoUsd,
        /// The reserve for the final pass.
        held: PicoUsd,
    },
    /// Time that was too short for anything but the final pass, in milliseconds.
    NextTime {
        /// Milliseconds since the start, without waits for people.
        elapsed_ms: u64,
        /// Milliseconds reserved for the final pass.
        held_ms: u64,
    },
    /// Main calls that were made on another tier.
    Tiers(Vec<TierChange>),
    /// The same failure, several times in a row.
    InARow {
        /// What happened, for example `failures of fetch_device`.
        what: Arc<str>,
        /// How many times in a row, from 1.
        times: u64,
    },
    /// How far a reply got before it was cut.
    Output(CutExtent),
    /// A stop condition that the domain declares.
    Declared {
        /// The class of the stop, as the domain declares it.
        class: StopClass,
        /// What the domain says about it, as a sentence.
        says: Arc<str>,
        /// The result in which it was found.
        evidence: EvidenceId,
    },
    /// Effects that were owed and did not happen.
    NotDone(Vec<NotDone>),
    /// The token budget that was too small for the next call.
    NextTokens {
        /// Tokens used so far, with the reserves of calls in flight.
        used: u64,
        /// The fewest tokens that the call would have taken.
        needs: u64,
        /// Tokens reserved for the final pass.
        held: u64,
    },
}

impl From<u32> for Measure {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u64> for Measure {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<PicoUsd> for Measure {
    fn from(amount: PicoUsd) -> Self {
        Self::PicoUsd(amount)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => n.fmt(f),
            Self::PicoUsd(amount) => amount.fmt(f),
            Self::Millis(ms) => write!(f, "{ms} ms"),
            Self::Confidence(confidence) => f.write_str(confidence.name()),
            Self::Calibrated(Calibrated { stated, measured, runs }) => {
                let (stated, measured) = (stated.name(), measured.name());
                let MeasuredLevel { passed, runs } = runs;
                write!(
                    f,
                    "{measured}, measured; stated {stated}, and {passed} of {runs} runs that stated it passed"
                )
            }
            Self::Names(names) => {
                let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                f.write_str(&names.join(", "))
            }
            Self::Text(text) | Self::Question(text) | Self::BrokenCheck(text) => f.write_str(text),
            Self::ContentFilter => f.write_str("a content filter of the provider stopped the reply"),
            Self::NextCost { spent, needs, held } => {
                write!(f, "{spent} spent, {needs} for the next call, {held} reserved for the final pass")
            }
            Self::NextTime { elapsed_ms, held_ms } => {
                write!(f, "{elapsed_ms} ms passed, {held_ms} ms reserved for the final pass")
            }
            Self::Declared { says, evidence, .. } => write!(f, "{says} [{evidence}]"),
            Self::Tiers(changes) => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                f.write_str(&changes.join("; "))
            }
            Self::NotDone(effects) => {
                let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
                f.write_str(&effects.join("; "))
            }
            // It is written for many: `failures of look`.
            Self::InARow { what, times: 1 } => write!(f, "1 {}", what.replacen("s ", " ", 1)),
            Self::InARow { what, times } => write!(f, "{times} {what} in a row"),
            Self::Output(written) => written.fmt(f),
            Self::NextTokens { used, needs, held } => {
                write!(f, "{used} used, {needs} for the next call, {held} reserved for the final pass")
            }
        }
    }
}

/// How far a reply got that was cut at its output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CutExtent {
    /// Output tokens, reasoning included. `None`: the provider reported none.
    pub tokens: Option<u64>,
    /// How many of them were reasoning; 0 where the provider does not report it.
    pub reasoning: u64,
    /// Whether the reply has any visible text or call.
    pub visible: bool,
    /// Whether the client cut the reply, because the provider exceeded the limit that it was given.
    pub capped: bool,
}

impl CutExtent {
    /// Whether the reply was cut at its first tokens, where many were granted: then the model's context was full.
    pub fn is_cut_at_once(self, granted: u64) -> bool {
        !self.capped && self.tokens.is_some_and(|tokens| reply::is_cut_at_once(tokens, granted))
    }
}

impl fmt::Display for CutExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tokens {
            Some(1) => f.write_str("1 output token")?,
            Some(tokens) => write!(f, "{tokens} output tokens")?,
            None => f.write_str("an unknown number of output tokens")?,
        }
        if self.reasoning > 0 {
            write!(f, ", {} of them reasoning", self.reasoning)?;
        }
        if !self.visible {
            f.write_str(", none of them visible")?;
        }
        if self.capped {
            f.write_str(", cut by loopgate since the provider ignored the limit")?;
        }
        Ok(())
    }
}

/// A condition that was true at the stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The stop reason that the condition gives.
    pub reason: StopReason,
    /// What the gate found.
    pub value: Measure,
    /// What the value was compared with. `None`: the condition has no threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Measure>,
    /// The smallest change of one setting under which the condition would not have been true. `None`: no setting
    /// decides it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Remedy>,
}

impl Condition {
    /// The condition that ends a run for this reason with this measured value, without a threshold or a setting to
    /// change.
    pub fn new(reason: StopReason, value: Measure) -> Self {
        Self { reason, value, threshold: None, change: None }
    }

    /// The condition that a value has reached a limit, which it would not have with this value of a setting.
    pub(crate) fn at_limit(
        reason: StopReason,
        value: impl Into<Measure>,
        limit: impl Into<Measure>,
        setting: Setting,
        to: impl Into<Measure>,
    ) -> Self {
        Self::new(reason, value.into()).threshold(limit.into()).change(setting, to.into())
    }

    /// Adds the threshold with which the value was compared.
    pub(crate) fn threshold(self, threshold: Measure) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// Adds the setting and the value `to` under which the condition would not have been true.
    pub(crate) fn change(self, setting: Setting, to: Measure) -> Self {
        self.change_if(true, setting, to)
    }

    /// As [`change`](Self::change), if `decides`: the setting alone decides the condition.
    pub(crate) fn change_if(self, decides: bool, setting: Setting, to: Measure) -> Self {
        Self { change: decides.then_some(Remedy { setting, to }), ..self }
    }

    /// The class that this condition alone would give.
    pub fn class(&self) -> StopClass {
        match &self.value {
            Measure::Declared { class, .. } => *class,
            _ => self.reason.class(),
        }
    }
}

/// A main call that was made on another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierChange {
    /// The pass, from 1.
    pub pass: u32,
    /// The tier that was due.
    pub from: Tier,
    /// The tier that was called.
    pub to: Tier,
    /// The reason.
    pub why: TierCause,
}

impl fmt::Display for TierChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, from, to, why } = self;
        write!(f, "from pass {pass} {} instead of {}: {}", to.name(), from.name(), why.words())
    }
}

/// Why a main call is made on another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TierCause {
    /// The confidence stayed low.
    LowConfidence,
    /// The model of the tier before could not be called.
    Unavailable,
    /// The cost budget does not cover the model of the tier before.
    Cost,
    /// The prompt does not fit into the context of the tier before.
    Context,
    /// The run stops, so it returns to the base tier.
    Ended,
}

impl TierCause {
    /// The cause in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::LowConfidence => "the confidence stayed low",
            Self::Unavailable => "the model could not be called",
            Self::Cost => "the cost limit does not pay for the model",
            Self::Context => "the prompt does not fit into the model",
            Self::Ended => "the run ends",
        }
    }
}

/// A setting and the value under which a condition would not have been true.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Remedy {
    /// The setting; in JSON its path, for example `limits.passes`.
    pub setting: Setting,
    /// The nearest such value, in the setting's own unit.
    pub to: Measure,
}

impl fmt::Display for Remedy {
    /// In the form of a domain file, for example `limits.cost_usd = 0.045`: dollars and milliseconds without a unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.setting)?;
        match &self.to {
            Measure::PicoUsd(amount) => {
                let amount = amount.to_string();
                let digits = amount.trim_start_matches('$').trim_end_matches('0');
                f.write_str(digits.strip_suffix('.').unwrap_or(digits))
            }
            Measure::Millis(ms) => ms.fmt(f),
            to => to.fmt(f),
        }
    }
}

/// The explanation of a stop: the condition that decided, and every other condition that was true.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// The class of the stop as a whole.
    pub class: StopClass,
    /// The first true condition in the gate's order. It decided.
    pub primary: Condition,
    /// The other true conditions, in the gate's order. Empty if there are none.
    pub also: Vec<Condition>,
    /// How the requested effects ended. All zero until everything has settled. Filled in an outcome's certificate.
    #[serde(default, skip_serializing_if = "Effects::is_none")]
    pub effects: Effects,
    /// The style whose names its reasons are reported by: `tagged` or `plain`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub style: ErrorStyle,
}

impl Certificate {
    /// The certificate of conditions in the gate's order, `primary` first.
    ///
    /// The class is `answered` when `confident` or `completed` is among them, unless the primary is `manual_stop`,
    /// `refused`, `needs_human` or of class `failed`. With `effect_not_done` among them it is `partial` in place of
    /// `answered`. Where `in_doubt` is among them it is `in_doubt`, unless the run was stopped by hand.
    pub fn new(primary: Condition, also: Vec<Condition>) -> Self {
        let own = primary.class();
        let is_declared = matches!(primary.reason, StopReason::Domain(_));
        let stands = matches!(own, StopClass::Cancelled | StopClass::NeedsHuman | StopClass::Failed)
            || primary.reason == StopReason::Refused
            || is_declared && own == StopClass::Refused;
        let is_answer = |reason| matches!(reason, StopReason::Confident | StopReason::Completed);
        let answers = also.iter().any(|condition| is_answer(condition.reason));
        let has = |reason| also.iter().any(|condition| condition.reason == reason);
        let class = match own {
            StopClass::Cancelled => StopClass::Cancelled,
            _ if has(StopReason::InDoubt) => StopClass::InDoubt,
            _ if answers && !stands => StopClass::Answered,
            _ => own,
        };
        let class = match class {
            StopClass::Answered if has(StopReason::EffectNotDone) => StopClass::Partial,
            class => class,
        };
        Self { class, primary, also, effects: Effects::default(), style: ErrorStyle::default() }
    }

    /// The name of the reason that decided, for people and in JSON.
    pub fn name(&self) -> &str {
        self.name_of(&self.primary)
    }

    /// The name of a condition's reason, for people and in JSON. A run with `errors = "tagged"` has that style's names,
    /// for example `max_steps`. The names of the other styles are not words of one form, so such a run has the loop's own.
    pub fn name_of<'a>(&self, condition: &'a Condition) -> &'a str {
        condition.reason.name_in(self.style)
    }

    /// Replaces the effects in doubt and the owed effects that did not happen, and the class that follows.
    pub(crate) fn with_effects(self, in_doubt: Vec<Arc<str>>, not_done: Vec<NotDone>) -> Self {
        let Self { primary, mut also, style, .. } = self;
        let is_of_effects = |reason| {
            matches!(reason, StopReason::InDoubt | StopReason::EffectNotDone | StopReason::EffectBlocked)
        };
        also.retain(|it| !is_of_effects(it.reason));
        let (blocked, owed): (Vec<_>, Vec<_>) = not_done.into_iter().partition(|it| it.unplanned);
        for (reason, effects) in [(StopReason::EffectNotDone, owed), (StopReason::EffectBlocked, blocked)] {
            if !effects.is_empty() {
                also.push(Condition::new(reason, Measure::NotDone(effects)));
            }
        }
        if !in_doubt.is_empty() {
            also.push(Condition::new(StopReason::InDoubt, Measure::Names(in_doubt)));
        }
        Self { style, ..Self::new(primary, also) }
    }

    /// The certificate of conditions in the gate's order, each reason once. `None` if `conditions` is empty.
    pub(crate) fn of(conditions: impl IntoIterator<Item = Condition>) -> Option<Self> {
        let mut reported: Vec<Condition> = Vec::new();
        for condition in conditions {
            if reported.iter().all(|known| known.reason != condition.reason) {
                reported.push(condition);
            }
        }
        let mut reported = reported.into_iter();
        Some(Self::new(reported.next()?, reported.collect()))
    }

    /// Adds more conditions, each reason once.
    pub(crate) fn and(self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        let mut also = self.also;
        for condition in conditions {
            if condition.reason != self.primary.reason
                && also.iter().all(|known| known.reason != condition.reason)
            {
                also.push(condition);
            }
        }
        Self::new(self.primary, also)
    }

    /// Whether this reason was true besides the primary one.
    pub fn also_has(&self, reason: StopReason) -> bool {
        self.also.iter().any(|condition| condition.reason == reason)
    }

    /// Whether an effect that the run owed did not happen, or it needs a person for one.
    pub fn leaves_undone(&self) -> bool {
        let is_owed =
            |it: &Condition| matches!(it.reason, StopReason::EffectNotDone | StopReason::NeedsHuman);
        is_owed(&self.primary) || self.also.iter().any(is_owed)
    }

    /// The primary reason.
    pub fn reason(&self) -> StopReason {
        self.primary.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(reason: StopReason) -> Condition {
        Condition::new(reason, Measure::Count(1))
    }

    #[test]
    fn a_confident_answer_on_the_last_pass_is_answered_and_says_so() {
        // C14: the primary keeps the gate's order, the class tells what it means.
        let certificate =
            Certificate::new(condition(StopReason::MaxPasses), vec![condition(StopReason::Confident)]);
        assert_eq!((certificate.reason(), certificate.class), (StopReason::MaxPasses, StopClass::Answered));
        let stopped =
            Certificate::new(condition(StopReason::ManualStop), vec![condition(StopReason::Confident)]);
        assert_eq!(stopped.class, StopClass::Cancelled);
    }

    #[test]
    fn an_effect_in_doubt_takes_precedence_over_all_but_a_stop_by_hand() {
        // W5
        for reason in StopReason::all().iter().copied() {
            let certificate = Certificate::new(condition(reason), vec![condition(StopReason::Confident)])
                .with_effects(vec!["x".into()], Vec::new());
            let expected =
                if reason == StopReason::ManualStop { StopClass::Cancelled } else { StopClass::InDoubt };
            assert_eq!(certificate.class, expected, "{reason}");
            assert_eq!(certificate.also.last().map(|it| it.reason), Some(StopReason::InDoubt));
            let again = certificate.clone().with_effects(vec!["x".into()], Vec::new());
            assert_eq!(again, certificate, "told once");
            assert_eq!(certificate.with_effects(Vec::new(), Vec::new()).class, {
                Certificate::new(condition(reason), vec![condition(StopReason::Confident)]).class
            });
        }
        assert_eq!(StopClass::InDoubt.exit_code(), 7);
    }
}
