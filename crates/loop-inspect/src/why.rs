//! Why a run stopped, or why it has not ended: read from its entries, and from the core's gate under changed settings.

use std::sync::Arc;

use loop_core::gate::{Condition, Measure, Remedy};
use loop_core::reply::PREAMBLE;
use loop_core::run::{CheckWhat, PassRecord, Phase, PromptSize, Refusal, Started};
use loop_core::spec::{Setting, SpecNames};
use loop_core::types::{CommandKey, Confidence, RunId, Totals};
use loop_core::{Certificate, Event, EventKind, Rejected, Run, RunSpec, StopReason};
use schemars::JsonSchema;
use serde::Serialize;

use loop_runtime::journal::{Recorded, replay};
use loop_runtime::people::waits;
use loop_runtime::report::{ActionReport, CheckReport, Item, PersonRequestReport, StoppedInReport, action};
use loop_runtime::report::{sentence, warnings};
use loop_runtime::run::StartError;

/// The version of this format.
pub const WHY_VERSION: u32 = 1;

/// Why a run stopped, or why it has not, for people and programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Why {
    /// The version of this format: 1.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item.
    pub item: Item,
    /// Whether it has ended, waits for a person, or was left by its process.
    pub status: WhyStatus,
    /// The phase that the run is in, for example `done` or `waiting_for_person`.
    pub phase: String,
    /// Class of the stop, for example `partial`. Absent in a run that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What the run was doing when its reason was fixed. Absent in a run that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_in: Option<StoppedInReport>,
    /// The conditions that were true at the stop; the first decided. Empty in a run that has not ended.
    pub conditions: Vec<WhyCondition>,
    /// The limits of the run, with what was used of each.
    pub limits: Vec<LimitUse>,
    /// Passes with the confidence that each stated, in their order. Empty in protocols without confidence.
    pub confidence: Vec<StatedConfidence>,
    /// The checks of the document, in the order of the passes. Absent if none was demanded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckReport>,
    /// What would have continued the run. Absent in a run that has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// Actions that were requested and did not run.
    pub undone: Vec<ActionReport>,
    /// What the domain requires and the run does not have.
    pub missing: Vec<String>,
    /// Sections whose last change came from a pass of low or unknown confidence.
    pub weak_sections: Vec<WeakSection>,
    /// What was irregular and did not end the run.
    pub warnings: Vec<String>,
    /// Results that repeat something, with the note that the model read. Empty if there are none.
    pub notes: Vec<WhyNote>,
    /// Actions and questions that wait for a person.
    pub waiting: Vec<PersonRequestReport>,
    /// Effects whose outcome is unknown.
    pub in_doubt: Vec<String>,
    /// Why the outcome was not saved where it should have been. Absent if it was, or if nothing was to be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_saved: Option<String>,
}

/// Whether a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyStatus {
    /// It has ended.
    Ended,
    /// It waits for a person; no process is needed for that.
    Waiting,
    /// It has not ended, and nothing waits for a person. A process drives it, or it has to be resumed.
    Open,
}

/// A condition that was true at the stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhyCondition {
    /// The stop reason that the condition gives.
    pub reason: String,
    /// What the gate found.
    pub value: String,
    /// What the value was compared with. Null if the condition has no threshold.
    pub threshold: Option<String>,
    /// The setting, and the nearest value under which this condition would not have been true. Null if no setting
    /// decides it alone.
    pub change: Option<String>,
    /// One sentence.
    pub explanation: String,
}

/// How much of a limit a run has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitUse {
    /// Path of the setting.
    pub setting: String,
    /// What was used of it.
    pub used: String,
    /// The limit. Null: there is none.
    pub limit: Option<String>,
    /// Whether nothing was left of it.
    pub reached: bool,
}

/// What a pass stated of its confidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatedConfidence {
    /// The pass, from 1.
    pub pass: u32,
    /// `high`, `medium`, `low` or `unknown`.
    pub confidence: String,
    /// The level by which the gate decided whether the run ends, as evals measured it. Absent: the stated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// The model's reason for it. Empty if it gave none.
    pub reason: String,
}

/// A section that rests on a pass of low or unknown confidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WeakSection {
    /// The section's id.
    pub section: String,
    /// The pass that last changed it, from 1.
    pub pass: u32,
    /// The confidence of that pass: `low` or `unknown`.
    pub confidence: String,
}

/// A result that repeats something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhyNote {
    /// The number of the result, for example `E4`.
    pub evidence: String,
    /// The pass that requested the call, from 1; 0 before the first.
    pub pass: u32,
    /// The tool.
    pub tool: String,
    /// `failures`, `same_result`, `same_search` or `cycle`.
    pub code: String,
    /// What it repeats, in one sentence.
    pub explanation: String,
}

/// What would have continued a run that stopped, as the core's gate decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "would_continue", rename_all = "snake_case")]
pub enum Continuation {
    /// These settings together. Each has the nearest value under which the gate continues.
    With {
        /// The settings, in the order in which the gate named them.
        changes: Vec<SettingChange>,
        /// What would have followed.
        next: String,
        /// Whether the next model call is checked against the same limit again, so that it may need more.
        at_least: bool,
    },
    /// No setting: this condition is decided by none.
    NoSetting {
        /// The stop reason of the condition.
        reason: String,
        /// One sentence.
        explanation: String,
    },
    /// It cannot be computed from the entries.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// A setting with its value before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingChange {
    /// Path of the setting.
    pub setting: String,
    /// The value that the run had, as a domain file writes it.
    pub from: String,
    /// The nearest value that continues, as a domain file writes it.
    pub to: String,
}

impl Why {
    /// Why the run in these entries stopped, or why it has not.
    ///
    /// # Errors
    /// If the entries do not follow from each other, or were decided otherwise by the program that wrote them.
    pub fn of(run: &RunId, recorded: &Recorded) -> Result<Self, StartError> {
        let state = replay(run, recorded)?;
        let (started, outcome) = (state.started(), state.outcome());
        let certificate = outcome.map(|outcome| &outcome.stop);
        let status = match (outcome, waits(&state, recorded.now())) {
            (Some(_), _) => WhyStatus::Ended,
            (None, true) => WhyStatus::Waiting,
            (None, false) => WhyStatus::Open,
        };
        let in_doubt = certificate.into_iter().flat_map(|it| &it.also);
        let in_doubt = in_doubt.filter(|condition| condition.reason == StopReason::InDoubt);
        Ok(Self {
            version: WHY_VERSION,
            run: run.to_string(),
            domain: state.spec().domain.to_string(),
            item: Item {
                id: started.item.id.to_string(),
                kind: started.item.kind.to_string(),
                title: started.item.title.to_string(),
            },
            status,
            phase: state.phase().name().to_owned(),
            class: certificate.map(|it| it.class.name().to_owned()),
            stopped_in: outcome.map(|outcome| &outcome.stopped_in).filter(|it| !it.phase.is_empty()).map(
                |it| StoppedInReport { phase: it.phase.to_string(), pass: it.pass, attempt: it.attempt },
            ),
            conditions: certificate.map(WhyCondition::all).unwrap_or_default(),
            limits: LimitUse::of(&state),
            confidence: stated(&state),
            checks: state.checks().iter().map(CheckReport::new).collect(),
            continuation: outcome.map(|_| Continuation::of(recorded)),
            undone: match outcome {
                Some(outcome) => outcome.undone().map(|it| action(it, &outcome.evidence)).collect(),
                None => Vec::new(),
            },
            missing: outcome
                .map_or_else(|| state.missing(), |outcome| outcome.missing.clone())
                .iter()
                .map(ToString::to_string)
                .collect(),
            weak_sections: weak_sections(&state),
            warnings: warnings(&state.model_calls(), state.warnings()),
            notes: notes(&state),
            waiting: PersonRequestReport::all(&state, &recorded.manifest),
            in_doubt: in_doubt.flat_map(|condition| names(&condition.value)).collect(),
            not_saved: outcome.and_then(|outcome| match &outcome.saved {
                Some(loop_core::run::SaveState::Not { message }) => Some(message.to_string()),
                Some(loop_core::run::SaveState::At { .. }) | None => None,
            }),
        })
    }
}

impl WhyCondition {
    /// The conditions of a certificate, in words.
    pub fn all(stop: &Certificate) -> Vec<Self> {
        let all = std::iter::once(&stop.primary).chain(&stop.also);
        all.map(|it| Self { reason: stop.name_of(it).to_owned(), ..Self::new(it) }).collect()
    }

    /// A condition in words, with the loop's own name of its reason.
    pub fn new(condition: &Condition) -> Self {
        Self {
            reason: condition.reason.name().to_owned(),
            value: condition.value.to_string(),
            threshold: condition.threshold.as_ref().map(ToString::to_string),
            change: condition.change.as_ref().map(ToString::to_string),
            explanation: sentence(condition),
        }
    }
}

fn names(value: &Measure) -> Vec<String> {
    match value {
        Measure::Names(names) => names.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    }
}

impl LimitUse {
    /// The limits of a run with what it has used of them, in the order of the gate.
    pub fn of(state: &Run) -> Vec<Self> {
        let so_far = || Totals { wall_ms: state.elapsed_ms(), ..*state.totals() };
        let totals = state.outcome().map_or_else(so_far, |outcome| outcome.totals);
        let limits = &state.spec().limits;
        let line = |setting: Setting, used: Measure, limit: Option<Measure>, reached: bool| Self {
            setting: setting.path().to_owned(),
            used: used.to_string(),
            limit: limit.map(|limit| limit.to_string()),
            reached,
        };
        let of = |setting, used: u32, limit: u32| {
            line(setting, Measure::Count(used.into()), Some(Measure::Count(limit.into())), used >= limit)
        };
        let (cost, tokens) = (totals.cost.known, totals.usage.total());
        vec![
            of(Setting::Passes, totals.passes, limits.passes),
            line(
                Setting::Cost,
                Measure::PicoUsd(cost),
                limits.cost.map(Measure::PicoUsd),
                limits.cost.is_some_and(|limit| cost >= limit),
            ),
            line(
                Setting::Tokens,
                Measure::Count(tokens),
                limits.tokens.map(Measure::Count),
                limits.tokens.is_some_and(|limit| tokens >= limit),
            ),
            of(Setting::ModelCalls, totals.model_calls, limits.model_calls),
            of(Setting::ToolCalls, totals.tool_calls, limits.tool_calls),
            line(
                Setting::WallMs,
                Measure::Millis(totals.wall_ms),
                Some(Measure::Millis(limits.wall_ms)),
                totals.wall_ms >= limits.wall_ms,
            ),
        ]
    }

    /// The use of the limit, for example as a cell of a table.
    pub fn in_words(&self) -> String {
        let limit =
            self.limit.as_ref().map_or_else(|| "(no limit)".to_owned(), |limit| format!("of {limit}"));
        format!("{} {limit}{}", self.used, if self.reached { "  reached" } else { "" })
    }
}

fn stated(state: &Run) -> Vec<StatedConfidence> {
    if !state.spec().protocol.properties().states_confidence {
        return Vec::new();
    }
    let passes = state.passes().iter();
    passes
        .map(|pass| StatedConfidence {
            pass: pass.pass,
            confidence: pass.confidence.name().to_owned(),
            measured: pass.calibrated.map(|it| it.measured.name().to_owned()),
            reason: pass.confidence_reason.to_string(),
        })
        .collect()
}

fn weak_sections(state: &Run) -> Vec<WeakSection> {
    let confidence_of = |pass: u32| state.passes().iter().find(|it| it.pass == pass).map(PassRecord::counted);
    let sections = state.document().sections.iter().filter(|section| &*section.id != PREAMBLE);
    sections
        .filter_map(|section| {
            // A section of a reply that broke off belongs to no pass, so no confidence was stated for it.
            let confidence = confidence_of(section.pass).unwrap_or(Confidence::Unknown);
            let is_weak = matches!(confidence, Confidence::Low | Confidence::Unknown);
            is_weak.then(|| WeakSection {
                section: section.id.to_string(),
                pass: section.pass,
                confidence: confidence.name().to_owned(),
            })
        })
        .collect()
}

fn notes(state: &Run) -> Vec<WhyNote> {
    let noted = state.evidence().iter().filter_map(|it| Some((it, state.repeat_note(it.id)?)));
    noted
        .map(|(evidence, note)| WhyNote {
            evidence: evidence.id.to_string(),
            pass: evidence.pass,
            tool: evidence.tool.to_string(),
            code: note.code().to_owned(),
            explanation: note.summary(),
        })
        .collect()
}

/// The event that began a run's end, and the state before it.
#[derive(Clone, Debug)]
enum TurningPoint {
    /// It ended before its first call.
    Start(Box<Started>),
    /// A later event.
    At { before: Box<Run>, event: Box<Event> },
}

/// What the core does after the event under another spec.
#[derive(Clone, Debug)]
enum Sequel {
    /// The run continues.
    Continues(Box<Run>),
    /// The call of the event is granted.
    Granted(CommandKey),
    /// Time is left, and what was in flight continues.
    HasTime,
    /// The run ends, for this condition.
    Ends(Box<Condition>),
}

impl Continuation {
    /// What would have continued the run in these entries, which has ended.
    fn of(recorded: &Recorded) -> Self {
        let unknown = |why: &str| Self::Unknown { why: why.to_owned() };
        let Some(turn) = TurningPoint::of(recorded) else {
            return unknown("the entries do not tell when the reason was fixed");
        };
        let mut spec = Arc::clone(&recorded.spec);
        let mut changes: Vec<Remedy> = Vec::new();
        // A changed setting is changed once more at most: each answer of the gate names another condition.
        for _ in 0..Setting::ALL.len() {
            let ended = match turn.under(&spec) {
                Ok(Sequel::Ends(condition)) => condition,
                Ok(_) if changes.is_empty() => return unknown("the gate decides otherwise now"),
                Ok(follows) => return Self::with(&recorded.spec, &changes, &follows),
                Err(rejected) => return unknown(&rejected.to_string()),
            };
            let Some(change) = &ended.change else {
                let reason = ended.reason.name().to_owned();
                return Self::NoSetting { reason, explanation: sentence(&ended) };
            };
            match change.applied(&spec) {
                Some(changed) if changed != *spec => spec = Arc::new(changed),
                Some(_) | None => return unknown(&format!("{change} alone does not decide it")),
            }
            changes.retain(|earlier| earlier.setting != change.setting);
            changes.push(change.clone());
        }
        unknown("too many settings would have to change")
    }

    fn with(spec: &RunSpec, changes: &[Remedy], follows: &Sequel) -> Self {
        let next = match follows {
            Sequel::Continues(run) => next_of(run),
            Sequel::Granted(key) => format!("the model call {key} is made"),
            Sequel::HasTime => "what was in flight continues".to_owned(),
            // Not called with an end.
            Sequel::Ends(condition) => condition.reason.name().to_owned(),
        };
        let is_budget = |change: &Remedy| matches!(change.setting, Setting::Cost | Setting::Tokens);
        let at_least = changes.iter().any(is_budget) && !matches!(follows, Sequel::Granted(_));
        let changes = changes.iter().map(|change| SettingChange {
            setting: change.setting.path().to_owned(),
            from: change.before(spec).map_or_else(String::new, |before| value_of(&before)),
            to: value_of(change),
        });
        Self::With { changes: changes.collect(), next, at_least }
    }
}

/// The value of a change as a domain file writes it.
fn value_of(change: &Remedy) -> String {
    let written = change.to_string();
    written.split_once(" = ").map_or_else(String::new, |(_, value)| value.to_owned())
}

/// The next step of a run that continues, in words.
fn next_of(run: &Run) -> String {
    match run.phase() {
        Phase::Calling { call, .. } => format!("the model call {} is made", call.key),
        Phase::Running { batch, .. } => match batch.work.len() {
            1 => "1 tool call runs".to_owned(),
            calls => format!("{calls} tool calls run"),
        },
        Phase::WaitingForPerson { asks, .. } => match asks.len() {
            1 => "a person is asked about 1 action".to_owned(),
            asks => format!("a person is asked about {asks} actions"),
        },
        Phase::Validating(checking) => checked(&checking.what()).to_owned(),
        Phase::Stopping(_) | Phase::Saving { .. } | Phase::Done { .. } => "the run ends".to_owned(),
    }
}

/// What a check covers, in words.
pub(crate) fn checked(what: &CheckWhat) -> &'static str {
    match what {
        CheckWhat::Document { .. } => "the document is checked",
        CheckWhat::Output(_) => "the output is checked",
    }
}

impl TurningPoint {
    /// The event with which the run in these entries began to end. That is the event after which it makes its final
    /// pass, or the one that fixed its reason, if that reason differs from the final pass's.
    fn of(recorded: &Recorded) -> Option<Self> {
        let mut entries = recorded.entries.iter();
        let first = entries.next()?;
        let EventKind::Started(started) = &first.event.kind else { return None };
        let (mut run, _) = Run::open(&first.event, Arc::clone(&recorded.spec)).ok()?;
        let mut turn: Option<Self> = None;
        if ends(&run).is_some() {
            turn = Some(Self::Start(started.clone()));
        }
        for entry in entries {
            let before = run.clone();
            run.apply(&entry.event).ok()?;
            let Some(now) = ends(&run) else { continue };
            // A final pass is made for one reason, and may be ended by another.
            if ends(&before).is_none_or(|then| then.reason != now.reason) {
                turn = Some(Self::At { before: Box::new(before), event: Box::new(entry.event.clone()) });
            }
        }
        turn
    }

    /// What the core does after the event under this spec.
    fn under(&self, spec: &Arc<RunSpec>) -> Result<Sequel, Rejected> {
        let run = match self {
            Self::Start(started) => {
                let names = SpecNames::of(spec);
                let started = Started { spec: names.spec, policy: names.policy, ..(**started).clone() };
                let first =
                    Event { at: loop_core::types::Millis(0), kind: EventKind::Started(Box::new(started)) };
                Run::open(&first, Arc::clone(spec))?.0
            }
            Self::At { before, event } => {
                let mut run = before.under(Arc::clone(spec));
                let mut event = Event::clone(event);
                // What other runs had taken of the shared budget does not follow from the spec.
                if let EventKind::CallRefused { key, prompt_bytes, shared_bytes, refusal, .. } =
                    &mut event.kind
                    && !matches!(refusal, Refusal::SharedBudget { .. })
                {
                    let prompt = PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes };
                    match run.quote(key, prompt) {
                        Ok(_) => return Ok(Sequel::Granted(*key)),
                        Err(now) => *refusal = now,
                    }
                }
                match run.apply(&event) {
                    Ok(_) => run,
                    Err(Rejected::Early { .. }) => return Ok(Sequel::HasTime),
                    Err(rejected) => return Err(rejected),
                }
            }
        };
        Ok(match ends(&run) {
            Some(condition) => Sequel::Ends(Box::new(condition.clone())),
            None => Sequel::Continues(Box::new(run)),
        })
    }
}

/// The condition for which a run ends, or makes its final pass. `None`: it continues.
fn ends(run: &Run) -> Option<&Condition> {
    match run.phase() {
        Phase::Stopping(stopping) => Some(&stopping.certificate.primary),
        phase => phase.final_cause().or_else(|| run.outcome().map(|outcome| &outcome.stop.primary)),
    }
}
