//! The live view on standard error: tool selection, tool results, streamed sections, decisions, and a status line.
//!
//! It applies the run's events to a copy of the run, so the cost that it shows is that of the run.

use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use loop_core::gate::{JudgedAction, TierCause};
use loop_core::reply::{LiveText, Merge, Reply};
use loop_core::run::{CheckResult, Decision, EagerRead, Phase, SelectedBy};
use loop_core::spec::Setting;
use loop_core::types::{Action, CommandKey, Millis, Slot, Status, Tier};
use loop_core::{EventKind, Note, Run, RunSpec, Verdict};
use loop_runtime::report::check_in_words;
use loop_runtime::{
    journal::Entry,
    observe::{CallNews, RunEvent},
};
use tokio::time::Instant;

use super::outcome::cost;
use super::status::CallWaits;
use super::{calls, status};
use crate::args::Progress;
use crate::output::{
    TextLine, cut, harmless, screen, screen::in_locale, stream, stream::note, stream::note_part,
    wrap::LineWrapper, wrap::last_rows,
};

/// How often the status line is checked, since its seconds change.
const TICK: Duration = Duration::from_millis(250);
/// How soon the status line follows an event.
const FRAME: Duration = Duration::from_millis(50);
/// The most rows of the streamed section.
const MAX_ROWS: usize = 6;
/// The most bytes of the streamed section that are kept.
const MAX_STREAMED: usize = 8 << 10;

/// The percentage of a limit from which on a warning is shown.
const NEAR: u64 = 70;

/// The most characters of a model's text before its calls.
const MAX_SAID: usize = 300;

const STATUS: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// How much is shown, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A terminal: steps as lines, and below them, updated in place, the end of the streamed section and the status
    /// line.
    InPlace,
    /// A log: steps as lines, and the status line at intervals. `text`: also the streamed sections.
    Log { text: bool },
    /// A pipe: what the run waits for, and the status line at intervals.
    Brief,
}

impl Mode {
    /// The mode for this option. `None`: nothing is shown.
    pub(crate) fn of(progress: Progress) -> Option<Self> {
        match progress {
            Progress::Never => None,
            _ if screen::is_able() => Some(Self::InPlace),
            // On a terminal the document is printed at the end, and once.
            Progress::Auto if stream::is_watched() => Some(Self::Log { text: false }),
            Progress::Auto => Some(Self::Brief),
            Progress::Always => Some(Self::Log { text: !stream::is_watched() }),
        }
    }
}

/// The live view of one run.
#[derive(Debug)]
pub(crate) struct Live {
    spec: Arc<RunSpec>,
    mode: Mode,
    /// Whether it is a turn of a chat. The answer is on standard output, and only calls are shown as steps.
    is_chat: bool,
    run: Option<Run>,
    waits: CallWaits,
    text: LiveText,
    /// The streamed text of the reply in progress, as far as it is drawn.
    streamed: String,
    /// The answer of a chat, wrapped while it is received.
    answer: Option<LineWrapper>,
    /// Whether the last chunk of streamed text ended its line.
    at_line_start: bool,
    /// Whether no recorded entry was missed.
    is_whole: bool,
    /// Whether the warning about a limit was shown.
    is_near_limit: bool,
    /// When the status line is shown next.
    due: Instant,
}

impl Live {
    /// The view of a new run. `None`: nothing is shown.
    pub(crate) fn new(spec: &Arc<RunSpec>, progress: Progress) -> Option<Self> {
        let mode = Mode::of(progress)?;
        if mode == Mode::InPlace {
            // Where the signal cannot be heard, Ctrl-Z leaves a row behind, and all else is as it was.
            let _ = screen::stop_cleanly();
        }
        Some(Self::in_mode(spec, mode))
    }

    fn in_mode(spec: &Arc<RunSpec>, mode: Mode) -> Self {
        Self {
            spec: Arc::clone(spec),
            mode,
            is_chat: false,
            run: None,
            waits: CallWaits::default(),
            text: LiveText::default(),
            streamed: String::new(),
            answer: None,
            at_line_start: true,
            is_whole: true,
            is_near_limit: false,
            due: Instant::now() + mode.every(),
        }
    }

    /// The view of a run that began before.
    pub(crate) fn of(run: Run) -> Option<Self> {
        Self::new(run.spec(), Progress::Auto).map(|live| Self { run: Some(run), ..live })
    }

    /// The view of a turn of a chat. `run`: the turn so far, if it began before.
    pub(crate) fn of_turn(spec: &Arc<RunSpec>, run: Option<Run>) -> Self {
        let mode = if screen::is_able() { Mode::InPlace } else { Mode::Log { text: false } };
        Self { is_chat: true, run, ..Self::in_mode(spec, mode) }
    }

    /// The run so far.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Prints a chunk of a chat's answer, wrapped at words for a person.
    pub(crate) fn print_answer(&mut self, piece: &str) {
        let columns = screen::width(screen::Output::Stdout);
        let answer = self.answer.get_or_insert_with(|| LineWrapper::new(columns));
        stream::print_part(&answer.push(&harmless(piece)));
    }

    /// Notes a chunk of a chat's answer. Returns whether it begins a line.
    pub(crate) fn answers(&mut self) -> bool {
        std::mem::replace(&mut self.at_line_start, false)
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: &RunEvent) {
        let now = Instant::now();
        self.waits.hear(event, now);
        match self.mode {
            Mode::Brief => self.brief(event),
            Mode::InPlace | Mode::Log { .. } => self.in_full(event),
        }
        if self.is_chat {
            return;
        }
        if self.mode == Mode::InPlace {
            // What streams is drawn as often as it can be read, and no more.
            self.due = self.due.min(now + FRAME);
        }
        if self.due <= now {
            self.status();
        }
    }

    /// When [`status`](Self::status) is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Shows the status line.
    pub(crate) fn status(&mut self) {
        let now = Instant::now();
        self.due = now + self.mode.every();
        // An answer that is being written shows by itself what the turn does.
        let run = self.run.as_ref().filter(|_| self.at_line_start || !self.is_chat);
        let line = |columns| status::line(run?, &self.waits, now, columns);
        if self.mode != Mode::InPlace {
            if let Some(line) = line(usize::MAX).filter(|_| !self.is_chat) {
                self.say(format!("running: {line}"));
            }
            return;
        }
        let (columns, rows) = screen::size();
        let Some(line) = line(columns.saturating_sub(1)) else { return screen::hide() };
        let mark = in_locale("  │ ");
        let lines = self.streamed.lines().filter(|line| !line.trim().is_empty());
        let text = in_locale(&harmless(&lines.collect::<Vec<_>>().join("\n")));
        let max_rows = (rows / 3).clamp(1, MAX_ROWS);
        let streamed = last_rows(&text, columns.saturating_sub(5), max_rows);
        let streamed = streamed.into_iter().map(|row| TextLine::new().styled(DIM, format!("{mark}{row}")));
        screen::show(streamed.chain([TextLine::new().styled(STATUS, line)]));
    }

    /// Removes what is shown in place.
    pub(crate) fn rest(&mut self) {
        self.end_line();
        screen::hide();
    }

    fn brief(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Recorded(entry) => self.applied(entry),
            RunEvent::Call { key, news, .. } => self.news(*key, news),
            RunEvent::Lost { entries: 1.., .. } => (self.run, self.is_whole) = (None, false),
            RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Lost { .. } => {}
        }
    }

    fn in_full(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Text { key, text, .. }
                if !self.is_chat && matches!(key.slot, Slot::Main | Slot::Final) =>
            {
                if !self.spec.protocol.properties().has_sections {
                    return self.stream(text);
                }
                let shown = self.text.push(text);
                self.stream(&shown);
            }
            RunEvent::Text { .. } | RunEvent::Part { .. } => {}
            RunEvent::Call { key, news, .. } => self.news(*key, news),
            RunEvent::Recorded(entry) => self.recorded(entry),
            RunEvent::Lost { texts, entries } => self.lost(*texts, *entries),
        }
    }

    /// A line about a call that waits, if it is worth one.
    fn news(&mut self, key: CommandKey, news: &CallNews) {
        let is_worth_a_line = match news {
            CallNews::Retrying { .. } => true,
            // The status counts it.
            _ if self.mode == Mode::InPlace && (self.at_line_start || !self.is_chat) => false,
            _ if self.is_chat => true,
            // The line that comes every 15 seconds counts on.
            CallNews::Silent { for_ms: 15_000.. } => false,
            // The line of the pass was shown when the call began.
            CallNews::Silent { for_ms: ..1_000 } => {
                self.mode != Mode::Brief && matches!(key.slot, Slot::Action(_))
            }
            _ => true,
        };
        if is_worth_a_line {
            let tool = self.action(key).map(|action| format!("{}: ", action.tool_name()));
            let what = format!("{}{}", tool.unwrap_or_default(), calls::news(news));
            self.say(TextLine::from("  ").styled(ODD, what));
        }
    }

    /// Events that this terminal was too slow for. They are in the journal.
    fn lost(&mut self, texts: u64, entries: u64) {
        self.at_line_start = false;
        let what = format!("not shown: {texts} pieces of text, {entries} entries; the journal has them");
        self.say(TextLine::from("  ").styled(ODD, what));
        if entries > 0 {
            // Without every event nothing can be said of the spend.
            self.run = None;
            self.is_whole = false;
        }
    }

    fn applied(&mut self, entry: &Entry) {
        match &mut self.run {
            Some(run) => {
                // What is recorded was applied once already.
                let _ = run.apply(&entry.event);
            }
            None if !self.is_whole => {}
            None => self.run = Run::open(&entry.event, Arc::clone(&self.spec)).ok().map(|(run, _)| run),
        }
        self.near_limit();
    }

    /// Warns once that a limit is near, while there is still something to do.
    fn near_limit(&mut self) {
        let Some(run) = self.run.as_ref().filter(|_| !self.is_near_limit && !self.is_chat) else { return };
        let (totals, limits) = (run.totals(), &run.spec().limits);
        let percent = |used: u64, limit: u64| used.saturating_mul(100).checked_div(limit).unwrap_or_default();
        let shares = [
            (percent(totals.passes.into(), limits.passes.into()), Setting::Passes),
            (percent(totals.cost.known.0, limits.cost.map_or(0, |cost| cost.0)), Setting::Cost),
            (percent(totals.usage.total(), limits.tokens.unwrap_or_default()), Setting::Tokens),
            (percent(totals.model_calls.into(), limits.model_calls.into()), Setting::ModelCalls),
            (percent(totals.tool_calls.into(), limits.tool_calls.into()), Setting::ToolCalls),
            (percent(run.elapsed_ms(), limits.wall_ms), Setting::WallMs),
        ];
        let nearest = shares.into_iter().max_by_key(|(percent, _)| *percent);
        let works = matches!(run.phase(), Phase::Calling { .. } | Phase::Running { .. });
        if let Some((percent @ NEAR.., setting)) = nearest.filter(|_| works) {
            let line = format!("limits:  {percent} % of {setting} is used: {}", spend(run));
            self.is_near_limit = true;
            self.say(TextLine::new().styled(ODD, line));
        }
    }

    fn recorded(&mut self, entry: &Entry) {
        self.applied(entry);
        self.kind(&entry.event.kind);
        // A question has settled with its answer, and nothing of it runs.
        let is_answered = |reported: &Note| {
            let Note::ActionJudged(judged) = reported else { return false };
            let is_it = |it: &Note| matches!(it, Note::ActionSettled { key, .. } if *key == judged.key);
            matches!(judged.verdict, Verdict::Run) && entry.notes.iter().any(is_it)
        };
        let is_chat = self.is_chat;
        for reported in entry.notes.iter().filter(|reported| !is_chat || !is_answered(reported)) {
            self.note(reported, entry.event.at);
        }
    }

    /// Ends an incomplete line, so that another one can begin.
    pub(crate) fn end_line(&mut self) {
        match std::mem::replace(&mut self.at_line_start, true) {
            true => {}
            false if self.is_chat => {
                self.print_answer("\n");
                self.answer = None;
            }
            false => note(""),
        }
    }

    fn say(&mut self, line: impl Into<TextLine>) {
        self.end_line();
        note(line);
    }

    fn kind(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Started(_) | EventKind::CallStarted { .. } if self.is_chat => {}
            EventKind::Started(started) => {
                let item = &started.item;
                let name = format!("{} {}", item.kind, item.id);
                self.say(TextLine::new().styled(BOLD, name).plain("  ").plain(&item.title));
                self.say(TextLine::new().styled(DIM, format!("run {} of {}", started.run, self.spec.domain)));
            }
            EventKind::CallStarted { key, attempt, tier, .. } => {
                let model = &self.spec.model(*tier).model;
                let again = if *attempt > 1 { format!(" (try {attempt})") } else { String::new() };
                let what = match key.slot {
                    Slot::Select => "selecting tools".to_owned(),
                    Slot::Repair => "asking for the contract block again".to_owned(),
                    Slot::Final => format!("pass {}, the last", key.pass),
                    Slot::Main | Slot::Action(_) | Slot::Check | Slot::Save | Slot::Inherited(_) => {
                        format!("pass {}", key.pass)
                    }
                };
                let with = format!("with {model}{}{again}", tier_of(*tier));
                self.say(TextLine::new().styled(BOLD, what).plain(" ").styled(DIM, with));
                self.text = LiveText::default();
                self.streamed.clear();
            }
            EventKind::ModelReplied { .. } | EventKind::ModelFailed { .. } => {
                let rest = self.text.finish();
                self.stream(&rest);
                self.end_line();
                self.streamed.clear();
                if let EventKind::ModelFailed { failure, .. } = kind {
                    let what = format!("the call failed ({}: {})", failure.kind.name(), failure.message);
                    self.say(TextLine::from("  ").styled(BAD, what));
                }
                if let EventKind::ModelReplied { reply, .. } = kind {
                    self.said(reply);
                    for warning in &reply.warnings {
                        self.say(TextLine::from("  ").styled(ODD, warning));
                    }
                }
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                let action = self.action(*key);
                let early = || {
                    let is_it = |read: &&EagerRead| (read.key, read.attempt) == (*key, *attempt);
                    let reads = self.run.as_ref().map_or(&[][..], Run::eager_reads);
                    reads.iter().find(is_it).map(|read| read.tool.to_string())
                };
                let tool =
                    action.map(|action| action.tool_name().to_owned()).or_else(early).unwrap_or_default();
                let id = action
                    .and_then(|action| action.evidence)
                    .map_or_else(String::new, |id| format!(" [{id}]"));
                let style = match observation.status {
                    Status::Ok => GOOD,
                    Status::Empty => ODD,
                    _ => BAD,
                };
                let status = format!("{:<7}", observation.status.name());
                let what = format!(" {tool}: {}", observation.summary);
                self.say(TextLine::from("  ").styled(style, status).plain(what).styled(DIM, id));
            }
            EventKind::CheckStarted { .. } => {
                self.say(TextLine::from("  ").styled(DIM, "checking, a model may be asked"))
            }
            EventKind::Checked { result, .. } => {
                let (style, what) = match result {
                    CheckResult::Passed => (GOOD, String::new()),
                    CheckResult::Failed { .. } | CheckResult::Broken { .. } => {
                        (BAD, format!(" {}", check_in_words(result)))
                    }
                };
                self.say(TextLine::from("  ").styled(style, format!("check {}", result.name())).plain(what));
            }
            EventKind::StopRequested { .. } => self.say(TextLine::new().styled(ODD, "a stop was asked for")),
            EventKind::StopWithdrawn => self.say("the stop was taken back"),
            EventKind::Instruction { text } => {
                self.say(TextLine::new().styled(BOLD, "instruction").plain(" ").plain(text))
            }
            EventKind::Resumed { away_ms, by } => {
                let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
                self.say(format!("resumed after {away_ms} ms{by}"));
            }
            EventKind::EagerStarted { name, arguments, .. } => {
                self.say(TextLine::from("  early  ").plain(format!("{name} {arguments}")));
            }
            EventKind::RunWaits { used, .. } => {
                let run = used.run.as_ref().map_or("", |run| run.as_str());
                self.say(
                    TextLine::from("  ").styled(ODD, "waits").plain(format!("  run {run}, for a person")),
                );
            }
            EventKind::CallRefused { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::DeadlineReached
            | EventKind::SaveFinished { .. } => {}
        }
    }

    fn note(&mut self, reported: &Note, at: Millis) {
        match reported {
            Note::Selected { .. } | Note::ReplyRead { .. } if self.is_chat => {}
            // Only a call that runs has not been shown: the person was asked about it.
            Note::ActionJudged(judged)
                if self.is_chat && matches!(judged.verdict, Verdict::NeedsPerson { .. } | Verdict::Kept) => {}
            Note::GateDecided { decision, .. }
                if self.is_chat && !matches!(decision, Decision::FinalPass { .. }) => {}
            Note::Planned { slots } => {
                for slot in slots {
                    self.say(TextLine::from("  planned: ").plain(slot.to_string()));
                }
            }
            Note::Selected { by: SelectedBy::Selector, runs: 0 } => self.say("  no tool is selected"),
            Note::Selected { by: SelectedBy::Selector, .. } => {}
            Note::Selected { by: SelectedBy::Defaults { why }, runs } => {
                let what = format!("the selector could not: {why}");
                self.say(TextLine::from("  ").styled(ODD, what).plain(format!("; {runs} default tools run")));
            }
            Note::ActionJudged(judged) => {
                let Action { reason, .. } = &judged.action;
                let what = format!(" {} {} ", judged.tool_name(), judged.parameters);
                self.say(match &judged.verdict {
                    Verdict::Run => TextLine::from("  run    ").plain(what).styled(DIM, reason),
                    Verdict::Kept => TextLine::from("  kept   ").plain(what).styled(DIM, judged.reason(&[])),
                    other => {
                        TextLine::from("  ").styled(ODD, other.name()).plain(what).styled(DIM, other.reason())
                    }
                });
            }
            Note::GateDecided { pass, confidence, decision } => {
                let what = match decision {
                    Decision::Act { runs, asks: 0 } => format!("continue, {runs} to run"),
                    Decision::Act { runs, asks } => {
                        format!("continue, {runs} to run, {asks} wait for a person")
                    }
                    Decision::Check { runs: 0 } => "check it".to_owned(),
                    Decision::Check { runs } => format!("{runs} to run, then check the output"),
                    Decision::Revise { missing } => {
                        format!("one more pass, to add what is missing: {}", missing.join(", "))
                    }
                    Decision::FinalPass { cause } => {
                        format!("one final call, without tools, because of {}", cause.reason)
                    }
                    Decision::Stop(certificate) => format!("stop, {}", certificate.name()),
                };
                let spend = self.run.as_ref().map_or_else(String::new, spend);
                let sure = match !self.spec.protocol.properties().has_sections {
                    true => String::new(),
                    false => {
                        let last = self.run.as_ref().and_then(|run| run.passes().last());
                        let stated = last.and_then(|pass| pass.calibrated).map(|it| it.stated);
                        let stated = stated.map_or_else(String::new, |it| format!(" (stated {})", it.name()));
                        format!("confidence {}{stated}; ", confidence.name())
                    }
                };
                let after = format!(" after pass {pass}: {sure}");
                let line = TextLine::new().styled(BOLD, "gate").plain(after).styled(BOLD, what);
                self.say(line.plain(" ").styled(DIM, format!("({spend})")));
            }
            Note::CallRefused { key, refusal } => {
                self.say(TextLine::from("  ").styled(ODD, format!("call {key} refused: {}", refusal.name())))
            }
            Note::CallRetried { key, attempt, not_before, .. } => {
                let wait = calls::wait(not_before.map(|to| to.since(at)));
                self.say(
                    TextLine::from("  ").styled(ODD, format!("{key} is tried again, try {attempt}{wait}")),
                )
            }
            Note::Polled { key, not_before, .. } => {
                let wait = calls::wait(Some(not_before.since(at)));
                self.say(
                    TextLine::from("  ").styled(DIM, format!("{key} is not ready, and is asked again{wait}")),
                )
            }
            Note::ReadDropped(read) => {
                let what = format!(" {} {}: {}", read.tool, read.parameters, read.why.text());
                self.say(TextLine::from("  ").styled(ODD, "dropped").plain(what));
            }
            Note::Lost { key, .. } => self.say(TextLine::from("  ").styled(ODD, format!("{key} was lost"))),
            Note::TierChanged { from, to, why: TierCause::Ended } => {
                let what = format!("back from the {} model to the {} model", from.name(), to.name());
                self.say(TextLine::from("  ").styled(DIM, what));
            }
            Note::TierChanged { from, to, why } => {
                let what = format!(" model in place of the {} model: {}", from.name(), why.words());
                self.say(TextLine::from("  ").plain("the ").styled(ODD, to.name()).plain(what));
            }
            Note::CallsNotRead { limit, count, .. } => {
                let what = format!("{count} more calls are not read: limits.requested_calls is {limit}");
                self.say(TextLine::from("  ").styled(ODD, what));
            }
            Note::AttemptBegan { attempt: 1, .. } => {}
            Note::AttemptBegan { attempt, .. } => {
                self.say(TextLine::new().styled(BOLD, format!("attempt {attempt}")))
            }
            Note::OutputRejected { by, message, .. } => {
                self.say(TextLine::from("  ").styled(BAD, "rejected").plain(format!(" {by}: {message}")));
            }
            Note::ResultNoted { evidence, note: repeats, .. } => {
                let what = format!(" {evidence}: {}", repeats.summary());
                self.say(TextLine::from("  ").styled(ODD, "note").plain(what));
            }
            Note::Compacted { .. } => self.say("  older results are shortened: the prompt did not fit"),
            Note::EvidenceShortened { evidence } => {
                self.say(format!("  {evidence} is shortened: the prompt did not fit"))
            }
            Note::ReplyRead { parse_warnings, .. } => {
                for parse_warning in parse_warnings {
                    let text = serde_json::to_string(parse_warning).unwrap_or_default();
                    self.say(TextLine::from("  ").styled(ODD, "odd").plain(" ").styled(DIM, text));
                }
            }
            Note::Merged { merge, .. } => {
                self.wrote(merge);
                for bad in &merge.bad_citations {
                    let what = format!("section {} cites {}, which says nothing", bad.section, bad.evidence);
                    self.say(TextLine::from("  ").styled(ODD, what));
                }
            }
            Note::Leased { key, lease } => {
                let cost = lease.cost.map_or_else(|| "any cost".to_owned(), |cost| cost.to_string());
                let calls = lease.model_calls;
                let what = format!("{key} is a run, within {cost} and {calls} model calls");
                self.say(TextLine::from("  ").styled(DIM, what));
            }
            Note::CallCharged { .. }
            | Note::LeaseCharged { .. }
            | Note::ReadUsed { .. }
            | Note::ActionSettled { .. }
            | Note::Stopped { .. }
            | Note::StopSettled { .. } => {}
        }
    }

    /// The sections of a reply, if its text is not in the log.
    fn wrote(&mut self, merge: &Merge) {
        let is_logged = self.mode == Mode::Log { text: true };
        let heading = |id: &Arc<str>| {
            let document = self.run.as_ref().map(Run::document)?;
            let section = document.sections.iter().find(|section| section.id == *id)?;
            Some(section.heading.to_string())
        };
        let changed = merge.changed.iter().filter_map(|change| heading(&change.section));
        let changed: Vec<String> = changed.collect();
        if !is_logged && !changed.is_empty() {
            self.say(TextLine::from("  ").styled(GOOD, "wrote").plain(format!("  {}", changed.join(", "))));
        }
    }

    /// A model's text before its calls in a conversation, if its text is not in the log.
    fn said(&mut self, reply: &Reply) {
        let is_logged = self.mode == Mode::Log { text: true };
        let is_part =
            !self.is_chat && !self.spec.protocol.properties().has_sections && !reply.calls.is_empty();
        if !is_logged && is_part && !reply.text.trim().is_empty() {
            self.say(TextLine::from("  said   ").plain(format!(" {}", cut(reply.text.trim(), MAX_SAID))));
        }
    }

    fn stream(&mut self, text: &str) {
        match self.mode {
            Mode::Log { text: true } => {}
            Mode::Log { text: false } | Mode::Brief => return,
            Mode::InPlace => {
                self.streamed.push_str(text);
                // Only the end is drawn.
                if let Some(excess) = self.streamed.len().checked_sub(MAX_STREAMED) {
                    let at = self.streamed.ceil_char_boundary(excess);
                    self.streamed.drain(..at);
                }
                return;
            }
        }
        for part in harmless(text).split_inclusive('\n') {
            let mark = if self.at_line_start { "  │ " } else { "" };
            note_part(TextLine::new().styled(DIM, format!("{mark}{}", part.trim_end_matches('\n'))));
            self.at_line_start = part.ends_with('\n');
            if self.at_line_start {
                note("");
            }
        }
    }

    fn action(&self, key: CommandKey) -> Option<&JudgedAction> {
        // A retried call runs under the key of its first asking; its newest action is what is shown.
        let actions = self.run.as_ref()?.actions();
        actions.iter().map(|action| &**action).find(|action| action.key == key)
    }
}

impl Mode {
    /// How often the status line is shown while nothing happens.
    fn every(self) -> Duration {
        if self == Self::InPlace { TICK } else { status::EVERY }
    }
}

fn tier_of(tier: Tier) -> String {
    if tier == Tier::Base { String::new() } else { format!(", {}", tier.name()) }
}

fn spend(run: &Run) -> String {
    let (totals, limits) = (run.totals(), &run.spec().limits);
    let of = |cost: loop_core::types::PicoUsd| format!(" of {cost}");
    let limit = limits.cost.map_or_else(String::new, of);
    format!(
        "passes {}/{}, {}{limit}, tools {}/{}, calls {}/{}, {:.1}/{} s",
        totals.passes,
        limits.passes,
        cost(&totals.cost),
        totals.tool_calls,
        limits.tool_calls,
        totals.model_calls,
        limits.model_calls,
        run.elapsed_ms() as f64 / 1_000.0,
        limits.wall_ms / 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of a reply's text.
    fn piece() -> RunEvent {
        let key = CommandKey::new(1, Slot::Main);
        RunEvent::Text { key, attempt: 1, text: "x".into() }
    }

    // W6
    #[tokio::test(start_paused = true)]
    async fn a_log_has_a_line_every_15_seconds_and_a_terminal_follows_each_event() {
        let spec = Arc::new(loop_testkit::run().spec);
        let begun = Instant::now();
        let mut log = Live::in_mode(&spec, Mode::Brief);
        for nth in 1..=3 {
            assert_eq!(log.due(), begun + Duration::from_secs(15 * nth), "{nth}");
            log.show(&piece());
            tokio::time::sleep_until(log.due()).await;
            log.status();
        }
        let now = Instant::now();
        let mut terminal = Live::in_mode(&spec, Mode::InPlace);
        assert_eq!(terminal.due(), now + TICK);
        terminal.show(&piece());
        assert_eq!(terminal.due(), now + FRAME);
        // A flood of pieces does not put it off, and does not draw each of them.
        tokio::time::advance(FRAME / 2).await;
        terminal.show(&piece());
        assert_eq!(terminal.due(), now + FRAME);
    }
}
