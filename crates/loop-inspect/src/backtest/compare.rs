//! Compares a recorded run with the same run under another policy: whether both command the same, and whether a model
//! would read the same.

use std::sync::Arc;

use loop_core::gate::{Condition, JudgedAction};
use loop_core::run::{Call, Phase, Work};
use loop_core::{Outcome, Run};

/// How far a run is: open, in its final pass, or ended, and the condition for that.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// It continues.
    Open,
    /// It makes its final pass, because of this condition.
    Final(&'a Condition),
    /// Its stop reason is fixed.
    Ended(&'a Condition),
}

impl<'a> End<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        match run.phase() {
            Phase::Stopping(stopping) => Self::Ended(&stopping.certificate.primary),
            phase => match run.outcome() {
                Some(outcome) => Self::Ended(&outcome.stop.primary),
                None => phase.final_cause().map_or(Self::Open, Self::Final),
            },
        }
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }
}

/// What differs between two runs that both continue, in one line. `None`: no model, tool or person would see a
/// difference.
pub(super) fn difference(recorded: &Run, other: &Run) -> Option<String> {
    verdicts(recorded.actions(), other.actions()).or_else(|| {
        let is_same = is_same_phase(recorded.phase(), other.phase())
            && recorded.evidence() == other.evidence()
            && recorded.document() == other.document()
            && recorded.tier() == other.tier()
            && recorded.passes().len() == other.passes().len();
        (!is_same).then(|| format!("{}, and the recorded run was {}", doing(other), doing(recorded)))
    })
}

/// The first action about which the two gates decided differently.
fn verdicts(recorded: &[Arc<JudgedAction>], other: &[Arc<JudgedAction>]) -> Option<String> {
    let mut pairs = recorded.iter().zip(other);
    let differs = pairs.find(|(recorded, other)| recorded != other);
    if let Some((recorded, other)) = differs {
        let (then, now) = (recorded.verdict.name(), other.verdict.name());
        let (key, tool) = (other.key, other.tool_name());
        return Some(match then == now {
            true => format!("the verdict on {tool} ({key}) is worded otherwise"),
            false => format!("the verdict on {tool} ({key}) is `{now}` and was `{then}`"),
        });
    }
    (recorded.len() != other.len())
        .then(|| format!("{} calls are judged, and {} were", other.len(), recorded.len()))
}

/// The phase of a run, in words.
fn doing(run: &Run) -> String {
    match run.phase() {
        Phase::Calling { call, .. } => format!("in the model call {} ({} model)", call.key, call.tier.name()),
        phase => format!("in phase {}", phase.name()),
    }
}

fn is_same_phase(a: &Phase, b: &Phase) -> bool {
    match (a, b) {
        (Phase::Calling { call: a, purpose: of_a }, Phase::Calling { call: b, purpose: of_b }) => {
            // A repair keeps the proposal of the reply, which is the same reply. A final pass is compared by its reason.
            is_same_call(a, b) && std::mem::discriminant(of_a) == std::mem::discriminant(of_b)
        }
        (Phase::Running { batch: a, stage: at_a }, Phase::Running { batch: b, stage: at_b }) => {
            at_a == at_b
                && a.asks == b.asks
                && a.work.len() == b.work.len()
                && a.work.iter().zip(&b.work).all(|(a, b)| is_same_work(a, b))
        }
        (Phase::WaitingForPerson { asks: a, .. }, Phase::WaitingForPerson { asks: b, .. }) => {
            let of = |ask: &loop_core::run::Ask| (ask.action, ask.answered);
            a.iter().map(of).eq(b.iter().map(of))
        }
        (Phase::Validating(a), Phase::Validating(b)) => {
            (a.key, a.attempt, a.what()) == (b.key, b.attempt, b.what())
        }
        (
            Phase::Calling { .. }
            | Phase::Running { .. }
            | Phase::WaitingForPerson { .. }
            | Phase::Validating(_)
            | Phase::Stopping(_)
            | Phase::Saving { .. }
            | Phase::Done { .. },
            _,
        ) => false,
    }
}

/// Whether two model calls are the same call on the same model. The tokens that each is granted may differ.
fn is_same_call(a: &Call, b: &Call) -> bool {
    (a.key, a.attempt, a.not_before, a.shortened) == (b.key, b.attempt, b.not_before, b.shortened)
        && a.started.map(|it| it.tier) == b.started.map(|it| it.tier)
        && (a.started.is_some() || a.tier == b.tier)
        && a.kept == b.kept
        && a.eager == b.eager
}

fn is_same_work(a: &Work, b: &Work) -> bool {
    (a.key, a.attempt, a.action, a.evidence, a.announced)
        == (b.key, b.attempt, b.action, b.evidence, b.announced)
        && a.sub_call == b.sub_call
        && a.observation == b.observation
        && a.poll == b.poll
}

/// Whether two outcomes hold the same document, answer and output.
pub(super) fn is_same_result(a: &Outcome, b: &Outcome) -> bool {
    (&a.document, &a.answer, &a.output) == (&b.document, &b.answer, &b.output)
}
