//! Trouble a second time, from the words of its documentation: counted along the way, and what the gate must make of it
//! (S4-67).

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::gate::JudgedAction;
use loop_core::spec::{Breakers, OnDenied, OnInvalid};
use loop_core::types::{Priority, Status};
use loop_core::{Evidence, Note, Run, StopReason, Verdict};

use crate::edge::Edge;
use crate::native;

/// What went wrong in a row on the way to a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// Failures in a row by tool, and how the last one ended.
    failing: BTreeMap<Arc<str>, (u32, Status)>,
    /// Failures that ended alike since a tool that had failed succeeded: the status, how many, the pass of the first.
    alike: Option<(Status, u32, u32)>,
    denied: u32,
    useless: u32,
}

/// What the trouble of a reply says to the gate.
#[derive(Debug, Default)]
pub struct Says {
    /// A denial that ends the run, or a call that is not valid and ends it.
    pub denial: bool,
    /// Too many calls that were denied or of no use.
    pub opened: bool,
    /// A call of a tool that is not run any more: the reason that it gives.
    pub broken: Option<StopReason>,
}

impl Trouble {
    /// What is known after the edge: first the verdicts of a reply, then what has settled, in its order.
    pub fn after(&self, edge: &Edge<'_>) -> Trouble {
        let mut next = self.clone();
        for action in judged(edge) {
            match action.verdict {
                Verdict::Denied { .. } if native::was_denied(edge.before.actions(), action) => {}
                Verdict::Denied { .. } => next.denied += 1,
                Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => next.useless += 1,
                Verdict::Kept => (next.denied, next.useless) = (0, 0),
                _ => {}
            }
        }
        let before = edge.before.evidence().len();
        for Evidence { tool, observation, pass, .. } in &edge.after.evidence()[before..] {
            match observation.status {
                Status::Ok | Status::Empty => {
                    if next.failing.remove(tool).is_some() {
                        next.alike = None;
                    }
                    (next.denied, next.useless) = (0, 0);
                }
                Status::InvalidInput => next.useless += 1,
                status if failed(status) => {
                    let times = next.failing.get(tool).map_or(0, |(times, _)| *times);
                    next.failing.insert(Arc::clone(tool), (times + 1, status));
                    next.alike = match next.alike {
                        Some((before, times, from)) if before == status => Some((status, times + 1, from)),
                        _ => Some((status, 1, *pass)),
                    };
                }
                _ => {}
            }
        }
        next
    }

    /// What the gate must be told of the reply that it decides after; `self` is the trouble before it.
    pub fn says(&self, edge: &Edge<'_>) -> Says {
        let gate = &edge.after.spec().gate;
        let Breakers { denied, bad_arguments, .. } = gate.breakers;
        let mut says = Says::default();
        let mut counted = self.clone();
        let (mut now_denied, mut now_useless) = (false, false);
        for action in judged(edge) {
            match &action.verdict {
                Verdict::Denied { .. } => {
                    counted.denied += u32::from(!native::was_denied(edge.before.actions(), action));
                    now_denied = true;
                    says.denial |= gate.on_denied == OnDenied::Stop;
                }
                Verdict::UnknownTool { .. } | Verdict::InvalidArguments { .. } => {
                    counted.useless += 1;
                    now_useless = true;
                    says.denial |= gate.on_invalid == OnInvalid::Stop;
                }
                Verdict::Kept => (counted.denied, counted.useless) = (0, 0),
                Verdict::BreakerOpen { .. } => {
                    let (_, status) = self.failing[action.tool_name()];
                    let for_good = matches!(status, Status::PermanentError | Status::MalformedResult);
                    let reason = if for_good { StopReason::ToolFailure } else { StopReason::NeedsHuman };
                    says.broken.get_or_insert(reason);
                }
                _ => {}
            }
        }
        says.opened = denied > 0 && now_denied && counted.denied >= denied
            || bad_arguments > 0 && now_useless && counted.useless >= bad_arguments;
        says
    }

    /// How often this tool failed in a row.
    pub fn failures(&self, tool: &str) -> u32 {
        self.failing.get(tool).map_or(0, |(times, _)| *times)
    }

    /// Calls of no use in a row.
    pub fn useless(&self) -> u32 {
        self.useless
    }
}

/// Whether a tool that ended like this has failed.
pub fn failed(status: Status) -> bool {
    use Status::{InDoubt, MalformedResult, PermanentError, RetryableError, Timeout};
    matches!(status, RetryableError | PermanentError | MalformedResult | Timeout | InDoubt)
}

/// The verdicts on a reply that the gate decided after.
fn judged<'a>(edge: &'a Edge<'_>) -> impl Iterator<Item = &'a JudgedAction> {
    let notes = if edge.decision().is_some() { edge.notes } else { &[] };
    let before = notes.iter().take_while(|note| !matches!(note, Note::GateDecided { .. }));
    before.filter_map(|note| match note {
        Note::ActionJudged(action) if action.action.priority != Priority::NiceToHave => Some(&**action),
        _ => None,
    })
}

/// No tool runs that has failed so often that it is not run any more, and none is refused for that which has not.
pub fn a_broken_tool_is_not_run(edge: &Edge<'_>) -> Result<(), String> {
    let max = edge.after.spec().gate.breakers.tool_failures;
    for action in judged(edge) {
        let is_broken = max > 0 && edge.was.trouble.failures(action.tool_name()) >= max;
        let fits = match &action.verdict {
            Verdict::Run | Verdict::NeedsPerson { .. } => !is_broken,
            Verdict::BreakerOpen { .. } => is_broken,
            _ => true,
        };
        if !fits {
            return Err(format!("{action:?} after {:?}", edge.was.trouble));
        }
    }
    Ok(())
}

/// The reasons for which what has settled with this edge ends the run; `then` is the trouble after it.
pub fn ends(edge: &Edge<'_>, then: &Trouble) -> Vec<StopReason> {
    use Status::{InvalidInput, MalformedResult, PermanentError};
    use loop_core::spec::OnToolError::{Continue, EscalateAfter, Stop, StopOrEscalateAfter};
    let run: &Run = edge.after;
    let settled = run.evidence().get(edge.before.evidence().len()..).unwrap_or_default();
    let statuses = || settled.iter().map(|it| it.observation.status);
    let (spec, gate) = (run.spec(), &run.spec().gate);
    let stops = match gate.on_tool_error {
        Continue | EscalateAfter(_) => false,
        Stop => statuses().any(failed),
        StopOrEscalateAfter(_) => statuses().any(|it| matches!(it, PermanentError | MalformedResult)),
    };
    let escalates = match gate.on_tool_error {
        Continue | Stop => false,
        EscalateAfter(max) | StopOrEscalateAfter(max) => {
            settled.iter().any(|it| failed(it.observation.status) && then.failures(&it.tool) >= max)
        }
    };
    let is_useless = statuses().any(|it| it == InvalidInput);
    let max = gate.breakers.bad_arguments;
    let mut reasons = Vec::new();
    reasons.extend(stops.then_some(StopReason::ToolFailure));
    reasons.extend(escalates.then_some(StopReason::NeedsHuman));
    let declared = spec
        .stop_reasons
        .iter()
        .filter(|own| settled.iter().any(|it| it.tool == own.tool && it.observation.status == own.status));
    reasons.extend(declared.map(|own| StopReason::Domain(own.name)));
    reasons.extend((is_useless && gate.on_invalid == OnInvalid::Stop).then_some(StopReason::Refused));
    reasons.extend((is_useless && max > 0 && then.useless() >= max).then_some(StopReason::NeedsHuman));
    // H4: calls of several passes that fail alike lead nowhere.
    let max = 2 * gate.breakers.tool_failures;
    let pass = settled.iter().filter(|it| failed(it.observation.status)).map(|it| it.pass).max();
    let dead_end = then.alike.zip(pass).is_some_and(|((_, times, from), pass)| times >= max && from < pass);
    reasons.extend((max > 0 && dead_end).then_some(StopReason::NeedsHuman));
    reasons
}

/// What settles and ends the run does end it, whatever else could follow.
pub fn what_ends_the_run_ends_it(edge: &Edge<'_>) -> Result<(), String> {
    let reasons = ends(edge, &edge.was.trouble.after(edge));
    if reasons.is_empty() || edge.was.past.stops > 0 {
        return Ok(());
    }
    let stopped = edge.notes.iter().find_map(|note| match note {
        Note::Stopped { certificate } => Some(certificate),
        _ => None,
    });
    let Some(certificate) = stopped else { return Err(format!("{reasons:?}, and the run goes on")) };
    let mut reported = std::iter::once(&certificate.primary).chain(&certificate.also).map(|it| it.reason);
    // Whoever asked for the end gets it, whatever is lost with it.
    let by_hand = certificate.reason() == StopReason::ManualStop;
    match by_hand || reasons.iter().all(|reason| reported.clone().any(|it| it == *reason)) {
        true => Ok(()),
        false => Err(format!("{reasons:?}, and the run says {:?}", reported.by_ref().collect::<Vec<_>>())),
    }
}
