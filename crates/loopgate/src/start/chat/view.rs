//! A turn as it is shown: the answer on standard output as it comes, a line for each call beside it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use loop_core::gate::{JudgedAction, TierCause};
use loop_core::run::{Decision, PersonRequest};
use loop_core::types::{CommandKey, EvidenceId, Millis, Observation, Slot, Status, StopClass};
use loop_core::{EventKind, Note, Outcome, Run, RunSpec, Verdict};
use loop_runtime::{
    journal::Entry,
    observe::{CallNews, RunEvent},
    report::explain,
};
use tokio::time::Instant;

use crate::output::{Line, cut, screen, stream, stream::note, stream::note_part};
use crate::shown::{calls, people, status, status::Waits};

const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// The mark before each answer.
const LABEL: &str = "Agent: ";
/// Characters of a call's parameters that are shown while no person has to decide about them.
const MAX_PARAMETERS: usize = 160;
/// Characters of a call's news that are shown.
const MAX_SUMMARY: usize = 200;

/// Shows one turn.
#[derive(Debug)]
pub(super) struct View {
    spec: Arc<RunSpec>,
    /// The run again, from its entries.
    run: Option<Run>,
    /// Calls that have not settled, and refused ones behind them, in the order in which they were asked for.
    calls: VecDeque<Shown>,
    /// When a call ended last: where an order is kept, the next begins then.
    ended: Millis,
    /// The reads that started before their reply was complete, with the time of their start and of their end.
    early: BTreeMap<(CommandKey, u32), (Millis, Option<Millis>)>,
    /// The admitted actions whose reads had ended by then, with the time of their end.
    ran_early: BTreeMap<CommandKey, Millis>,
    open: Open,
    /// The text of the reply that came last.
    stated: String,
    waits: Waits,
    /// Whether a line says in place what the turn does now.
    in_place: bool,
}

/// A call that has its place in the order of calls.
#[derive(Debug)]
enum Shown {
    /// It runs, or is to run: since its verdict.
    Runs(CommandKey, Millis),
    /// A person is to be asked.
    Asks(CommandKey),
    /// It was refused: its line, which waits until the calls before it are shown.
    Refused(Line),
}

impl Shown {
    fn is(&self, key: CommandKey) -> bool {
        matches!(self, Self::Runs(of, _) | Self::Asks(of) if *of == key)
    }
}

/// What the line under the cursor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Answer,
    Call(CommandKey),
}

impl View {
    /// `run`: the turn so far, where it was begun before.
    pub(super) fn new(spec: &Arc<RunSpec>, run: Option<Run>) -> Self {
        Self {
            spec: Arc::clone(spec),
            run,
            calls: VecDeque::new(),
            ended: Millis(0),
            early: BTreeMap::new(),
            ran_early: BTreeMap::new(),
            open: Open::Nothing,
            stated: String::new(),
            waits: Waits::default(),
            in_place: screen::is_able(),
        }
    }

    /// Shows what the turn does now, where no line is open: an answer that is being written shows it by itself.
    pub(super) fn status(&self) {
        let columns = screen::size().0.saturating_sub(1);
        let line = || status::line(self.run.as_ref()?, &self.waits, Instant::now(), columns);
        match line().filter(|_| self.in_place && self.open == Open::Nothing) {
            Some(line) => screen::show([Line::new().styled(DIM, line)]),
            None => screen::hide(),
        }
    }

    pub(super) fn show(&mut self, event: &RunEvent) {
        self.waits.hear(event, Instant::now());
        match event {
            RunEvent::Text { key, text, .. } if matches!(key.slot, Slot::Main | Slot::Final) => {
                self.answer(text);
            }
            RunEvent::Text { .. } | RunEvent::Part { .. } => {}
            // The status counts it.
            RunEvent::Call { news, .. }
                if self.in_place
                    && self.open == Open::Nothing
                    && !matches!(news, CallNews::Retrying { .. }) => {}
            RunEvent::Call { key, news, .. } => {
                // The question of a smart tool is not the turn's own call.
                let tool = self.run.as_ref().and_then(|run| action(run, *key));
                let tool = tool.map_or_else(String::new, |action| format!("{}: ", action.tool_name()));
                self.remark(&format!("{tool}{}", calls::news(news)));
            }
            RunEvent::Recorded(entry) => self.recorded(entry),
            RunEvent::Lost { texts, .. } => {
                self.end_line();
                note(Line::from("· ").styled(ODD, format!("{texts} pieces of text are not shown")));
            }
        }
    }

    /// The action that a person is to be asked about.
    pub(super) fn question(&self) -> Option<PersonRequest> {
        self.run.as_ref()?.requested().into_iter().next()
    }

    /// What the turn waits for, for people; empty where it waits for no person.
    pub(super) fn waiting(&self, journal: Option<&Path>) -> Option<String> {
        let run = self.run.as_ref()?;
        let requested = run.requested();
        (!requested.is_empty()).then(|| people::in_words(run.started(), &requested, run.now(), journal))
    }

    /// Ends the line that is open, so that another one can begin.
    pub(super) fn end_line(&mut self) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Answer => stream::print("\n"),
            Open::Call(_) => note(""),
        }
    }

    /// Shows how the turn ended: an answer that did not come piece by piece, and a reason that is not an answer.
    pub(super) fn finish(&mut self, outcome: &Outcome) {
        self.end_line();
        // What is left of the order was cut off by the end.
        self.calls.retain(|call| matches!(call, Shown::Refused(_)));
        self.show_refused();
        if let Some(answer) = outcome.answer.as_deref().filter(|answer| answer.trim() != self.stated.trim()) {
            stream::print(&format!("{LABEL}{}\n", answer.trim_end()));
        }
        let stop = &outcome.stop;
        if stop.class == StopClass::Answered {
            // What an answer says that it did is not what was done.
            let writes = self.spec.tools.iter().any(|tool| !tool.effect.is_read());
            match stop.effects.is_none() {
                true if writes => self.remark("no effect was requested"),
                true => {}
                false => self.remark(&format!("effects: {}", stop.effects)),
            }
        } else {
            let what = format!("stopped: {} ({}). {}", stop.name(), stop.class.name(), explain(stop));
            note(Line::from("· ").styled(ODD, what));
        }
    }

    fn answer(&mut self, text: &str) {
        if self.open != Open::Answer {
            self.end_line();
            stream::print(LABEL);
            self.open = Open::Answer;
        }
        self.stated.push_str(text);
        stream::print(text);
    }

    fn recorded(&mut self, entry: &Entry) {
        match &mut self.run {
            Some(run) => {
                // What is recorded was applied once already.
                let _ = run.apply(&entry.event);
            }
            None => self.run = Run::open(&entry.event, Arc::clone(&self.spec)).ok().map(|(run, _)| run),
        }
        match &entry.event.kind {
            EventKind::CallStarted { .. } => {
                self.end_line();
                self.stated.clear();
            }
            EventKind::ModelReplied { reply, .. } => {
                self.end_line();
                reply.warnings.iter().for_each(|warning| self.remark(warning));
            }
            EventKind::ModelFailed { failure, .. } => {
                self.remark(&format!("the call failed ({}: {})", failure.kind.name(), failure.message));
            }
            EventKind::EagerStarted { key, attempt, .. } => {
                self.early.insert((*key, *attempt), (entry.event.at, None));
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                if let Some((_, ended)) = self.early.get_mut(&(*key, *attempt)) {
                    *ended = Some(entry.event.at);
                }
                if let Some(evidence) = settled(entry) {
                    self.finished(evidence, entry.event.at, observation);
                }
            }
            EventKind::Started(_)
            | EventKind::CallRefused { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::Instruction { .. }
            | EventKind::StopRequested { .. }
            | EventKind::StopWithdrawn
            | EventKind::DeadlineReached
            | EventKind::Resumed { .. }
            | EventKind::CheckStarted { .. }
            | EventKind::Checked { .. }
            | EventKind::SaveFinished { .. } => {}
        }
        for reported in &entry.notes {
            self.note(reported, entry.event.at);
        }
        self.begin_call();
    }

    fn note(&mut self, reported: &Note, at: Millis) {
        match reported {
            Note::ActionJudged(judged) => {
                let shown = match &judged.verdict {
                    Verdict::Run => Some(Shown::Runs(judged.key, at)),
                    // It is asked about when its turn comes; a run that cannot ask has left it undone.
                    Verdict::NeedsPerson { .. } if self.spec.gate.people => Some(Shown::Asks(judged.key)),
                    Verdict::NeedsPerson { .. } | Verdict::Kept => None,
                    other => {
                        let why = format!("{}, {}", other.name(), other.reason());
                        Some(Shown::Refused(call_line(judged).styled(ODD, cut(&why, MAX_SUMMARY))))
                    }
                };
                // What a person was asked about keeps its place.
                let requested = self.calls.iter_mut().find(|call| call.is(judged.key));
                match (requested, shown) {
                    (Some(place), Some(shown)) => *place = shown,
                    (None, Some(shown)) => self.calls.push_back(shown),
                    (_, None) => {}
                }
                self.show_refused();
            }
            Note::ReadUsed { action, key, attempt } => {
                let Some((since, ended)) = self.early.remove(&(*key, *attempt)) else { return };
                if let Some(call) = self.calls.iter_mut().find(|call| call.is(*action)) {
                    *call = Shown::Runs(*action, since);
                }
                self.ran_early.extend(ended.map(|ended| (*action, ended)));
            }
            Note::ActionSettled { evidence, .. }
                if let Some((at, observation)) = self.settled_early(*evidence) =>
            {
                self.finished(*evidence, at, &observation);
            }
            Note::ReadDropped(read) => {
                self.early.remove(&(read.key, read.attempt));
                self.remark(&format!("the result of {} is not used: {}", read.tool, read.why.text()));
            }
            // What a person has answered has settled without having run.
            Note::ActionSettled { key, .. } => {
                self.calls.retain(|call| !call.is(*key));
                self.show_refused();
            }
            Note::CallRetried { attempt, not_before, .. } => {
                let wait = calls::wait(not_before.map(|to| to.since(at)));
                self.remark(&format!("the model is asked again (try {attempt}{wait})"));
            }
            Note::Compacted { .. } => self.remark("what was said earlier is shortened: it did not fit"),
            Note::GateDecided { decision: Decision::FinalPass { cause }, .. } => {
                self.remark(&format!("one final reply, without tools, because of {}", cause.reason));
            }
            Note::TierChanged { why: TierCause::Ended, .. } => {}
            Note::TierChanged { from, to, why } => {
                let (from, to, why) = (from.name(), to.name(), why.words());
                self.remark(&format!("the {to} model in place of the {from} model: {why}"));
            }
            Note::CallsNotRead { limit, count, .. } => {
                self.remark(&format!("{count} more calls are not read: limits.requested_calls is {limit}"));
            }
            Note::ResultNoted { note, .. } => {
                self.remark(&format!("a note with the result: {}", note.summary()))
            }
            Note::Selected { .. }
            | Note::CallCharged { .. }
            | Note::CallRefused { .. }
            | Note::Polled { .. }
            | Note::Lost { .. }
            | Note::EvidenceShortened { .. }
            | Note::AttemptBegan { .. }
            | Note::OutputRejected { .. }
            | Note::ReplyRead { .. }
            | Note::Merged { .. }
            | Note::GateDecided { .. }
            | Note::Stopped { .. }
            | Note::StopSettled { .. } => {}
        }
    }

    fn remark(&mut self, what: &str) {
        self.end_line();
        note(Line::from("· ").styled(DIM, what));
    }

    /// Shows refused calls as soon as no call before them is open.
    fn show_refused(&mut self) {
        while let Some(Shown::Refused(_)) = self.calls.front() {
            let Some(Shown::Refused(line)) = self.calls.pop_front() else { return };
            self.end_line();
            note(line);
        }
    }

    /// Shows the call that runs, where there is only one at a time.
    fn begin_call(&mut self) {
        let is_ordered = self.spec.protocol.execution().is_ordered();
        let next = self.calls.iter().find_map(|call| match call {
            Shown::Runs(key, _) => Some(*key),
            Shown::Asks(_) | Shown::Refused(_) => None,
        });
        if let (true, Open::Nothing, Some(key)) = (is_ordered, self.open, next)
            && let Some(action) = self.run.as_ref().and_then(|run| action(run, key))
        {
            note_part(call_line(action));
            self.open = Open::Call(key);
        }
    }

    /// When a call ended that ran before its reply was complete, and its result.
    fn settled_early(&mut self, evidence: EvidenceId) -> Option<(Millis, Arc<Observation>)> {
        let run = self.run.as_ref()?;
        let action = run.actions().iter().rev().find(|action| action.evidence == Some(evidence))?;
        let observation = Arc::clone(run.observation(evidence)?);
        self.ran_early.remove(&action.key).map(|at| (at, observation))
    }

    fn finished(&mut self, evidence: EvidenceId, at: Millis, observation: &Observation) {
        let actions = self.run.as_ref().map_or(&[][..], Run::actions);
        let Some(judged) = actions.iter().rev().find(|it| it.evidence == Some(evidence)) else {
            return;
        };
        let (key, line) = (judged.key, call_line(judged));
        let begun = self.calls.iter().position(|call| call.is(key));
        let since = match begun.and_then(|at| self.calls.remove(at)) {
            Some(Shown::Runs(_, since)) => since,
            Some(Shown::Asks(_) | Shown::Refused(_)) | None => at,
        };
        let is_ordered = self.spec.protocol.execution().is_ordered();
        let since = if is_ordered { since.max(self.ended) } else { since };
        self.ended = at;
        let line = if self.open == Open::Call(key) {
            self.open = Open::Nothing;
            Line::new()
        } else {
            self.end_line();
            line
        };
        let style = match observation.status {
            Status::Ok => GOOD,
            Status::Empty => ODD,
            _ => BAD,
        };
        let status = observation.status.name();
        let what = format!(", {} ({} ms)", cut(&observation.summary, MAX_SUMMARY), at.since(since));
        note(line.styled(style, status).plain(what));
    }
}

/// The number of the result that settled in an entry.
fn settled(entry: &Entry) -> Option<EvidenceId> {
    entry.notes.iter().find_map(|note| match note {
        Note::ActionSettled { evidence, .. } => Some(*evidence),
        _ => None,
    })
}

/// The beginning of a call's line.
fn call_line(judged: &JudgedAction) -> Line {
    let parameters = cut(&judged.parameters, MAX_PARAMETERS);
    Line::from("· ").plain(judged.tool_name()).plain(" ").styled(DIM, parameters).plain(" … ")
}

fn action(run: &Run, key: CommandKey) -> Option<&JudgedAction> {
    run.actions().iter().map(|action| &**action).find(|action| action.key == key)
}
