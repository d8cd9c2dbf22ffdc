//! The live view on standard error: what was selected and why, what tools bring, sections as they stream, decisions.
//!
//! It applies the run's events to a run of its own, so what it says of the spend is what the run itself holds.

use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use loop_core::{
    Action, Decision, EagerRead, EventKind, JudgedAction, LiveText, Millis, Note, Run, RunSpec, SelectedBy,
    Slot, Status, Tier, TierCause, Validation, Verdict,
};
use loop_runtime::{
    journal::Entry,
    observe::{CallNews, RunEvent},
};

use crate::run::cost;
use crate::stream::{self, Line, harmless, note, note_part};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Draws one run.
#[derive(Debug)]
pub(crate) struct Live {
    spec: Arc<RunSpec>,
    run: Option<Run>,
    text: LiveText,
    /// Whether the last piece of streamed text ended its line.
    at_line_start: bool,
    /// Whether no recorded entry was left out.
    is_whole: bool,
}

impl Live {
    pub(crate) fn new(spec: &Arc<RunSpec>) -> Self {
        Self {
            spec: Arc::clone(spec),
            run: None,
            text: LiveText::default(),
            at_line_start: true,
            is_whole: true,
        }
    }

    /// Draws the rest of a run that was begun before.
    pub(crate) fn of(run: Run) -> Self {
        Self { run: Some(run.clone()), ..Self::new(run.spec()) }
    }

    pub(crate) fn show(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Text { key, text, .. } if matches!(key.slot, Slot::Main | Slot::Final) => {
                if !self.spec.protocol.properties().has_sections {
                    return self.stream(text);
                }
                let shown = self.text.push(text);
                self.stream(&shown);
            }
            RunEvent::Text { .. } | RunEvent::Part { .. } => {}
            // The line of the pass was shown when the call began.
            RunEvent::Call { key, news: CallNews::Silent { for_ms: ..1_000 }, .. }
                if !matches!(key.slot, Slot::Action(_)) => {}
            RunEvent::Call { key, news, .. } => {
                self.end_line();
                let tool = self.action(*key).map(|action| format!("{}: ", action.tool_name()));
                let what = format!("{}{}", tool.unwrap_or_default(), stream::news(news));
                note(Line::from("  ").styled(ODD, what));
            }
            RunEvent::Recorded(entry) => self.recorded(entry),
            RunEvent::Lost { texts, entries } => self.lost(*texts, *entries),
        }
    }

    /// This terminal was too slow: what it missed is in the journal.
    fn lost(&mut self, texts: u64, entries: u64) {
        self.at_line_start = true;
        note("");
        let what = format!("not shown: {texts} pieces of text, {entries} entries; the journal has them");
        note(Line::from("  ").styled(ODD, what));
        if entries > 0 {
            // Without every event nothing can be said of the spend.
            self.run = None;
            self.is_whole = false;
        }
    }

    fn recorded(&mut self, entry: &Entry) {
        match &mut self.run {
            Some(run) => {
                // What is recorded was applied once already.
                let _ = run.apply(&entry.event);
            }
            None if !self.is_whole => {}
            None => self.run = Run::open(&entry.event, Arc::clone(&self.spec)).ok().map(|(run, _)| run),
        }
        self.kind(&entry.event.kind);
        for reported in &entry.notes {
            self.note(reported, entry.event.at);
        }
    }

    fn end_line(&mut self) {
        if !std::mem::replace(&mut self.at_line_start, true) {
            note("");
        }
    }

    fn kind(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Started(started) => {
                let item = &started.item;
                let name = format!("{} {}", item.kind, item.id);
                note(Line::new().styled(BOLD, name).plain("  ").plain(&item.title));
                note(Line::new().styled(DIM, format!("run {} of {}", started.run, self.spec.domain)));
            }
            EventKind::CallStarted { key, attempt, tier, .. } => {
                let model = &self.spec.model(*tier).model;
                let again = if *attempt > 1 { format!(" (try {attempt})") } else { String::new() };
                let what = match key.slot {
                    Slot::Select => "selecting tools".to_owned(),
                    Slot::Repair => "asking for the contract block again".to_owned(),
                    Slot::Final => format!("pass {}, the last", key.pass),
                    Slot::Main | Slot::Action(_) | Slot::Validate | Slot::Save | Slot::Inherited(_) => {
                        format!("pass {}", key.pass)
                    }
                };
                let with = format!("with {model}{}{again}", tier_of(*tier));
                note(Line::new().styled(BOLD, what).plain(" ").styled(DIM, with));
                self.text = LiveText::default();
            }
            EventKind::ModelReplied { .. } | EventKind::ModelFailed { .. } => {
                let rest = self.text.finish();
                self.stream(&rest);
                self.end_line();
                if let EventKind::ModelFailed { failure, .. } = kind {
                    let what = format!("the call failed ({}: {})", failure.kind.name(), failure.message);
                    note(Line::from("  ").styled(BAD, what));
                }
                if let EventKind::ModelReplied { reply, .. } = kind {
                    for warning in &reply.warnings {
                        note(Line::from("  ").styled(ODD, warning));
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
                note(Line::from("  ").styled(style, status).plain(what).styled(DIM, id));
            }
            EventKind::Validated { result, .. } => match result {
                Validation::Valid => note(Line::from("  ").styled(GOOD, "valid")),
                // The notes tell of it.
                Validation::Invalid { .. } => {}
                Validation::Broken { by, message } => {
                    note(Line::from("  ").styled(BAD, "broken").plain(format!(" {by}: {message}")));
                }
            },
            EventKind::StopRequested { .. } => note(Line::new().styled(ODD, "a stop was asked for")),
            EventKind::StopWithdrawn => note("the stop was taken back"),
            EventKind::Instruction { text } => {
                note(Line::new().styled(BOLD, "instruction").plain(" ").plain(text))
            }
            EventKind::Resumed { away_ms } => note(format!("resumed after {away_ms} ms")),
            EventKind::EagerStarted { name, arguments, .. } => {
                note(Line::from("  early  ").plain(format!("{name} {arguments}")));
            }
            EventKind::CallRefused { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::PersonAnswered { .. }
            | EventKind::ApprovedBy { .. }
            | EventKind::DeadlineReached
            | EventKind::SaveFinished { .. } => {}
        }
    }

    fn note(&self, reported: &Note, at: Millis) {
        match reported {
            Note::Selected { by: SelectedBy::Selector, runs: 0 } => note("  no tool is selected"),
            Note::Selected { by: SelectedBy::Selector, .. } => {}
            Note::Selected { by: SelectedBy::Defaults { why }, runs } => {
                let what = format!("the selector could not: {why}");
                note(Line::from("  ").styled(ODD, what).plain(format!("; {runs} default tools run")));
            }
            Note::ActionJudged(judged) => {
                let Action { reason, .. } = &judged.action;
                let what = format!(" {} {} ", judged.tool_name(), judged.parameters);
                note(match &judged.verdict {
                    Verdict::Run => Line::from("  run    ").plain(what).styled(DIM, reason),
                    Verdict::Kept => Line::from("  kept   ").plain(what).styled(DIM, judged.verdict.reason()),
                    other => {
                        Line::from("  ").styled(ODD, other.name()).plain(what).styled(DIM, other.reason())
                    }
                });
            }
            Note::GateDecided { pass, confidence, decision } => {
                let what = match decision {
                    Decision::Act { runs, asks: 0 } => format!("continue, {runs} to run"),
                    Decision::Act { runs, asks } => {
                        format!("continue, {runs} to run, {asks} wait for a person")
                    }
                    Decision::Validate { runs: 0 } => "validate the output".to_owned(),
                    Decision::Validate { runs } => format!("{runs} to run, then validate the output"),
                    Decision::Revise { missing } => {
                        format!("one more pass, to add what is missing: {}", missing.join(", "))
                    }
                    Decision::FinalPass { cause } => {
                        format!("one final call, without tools, because of {}", cause.reason)
                    }
                    Decision::Stop(certificate) => format!("stop, {}", certificate.reason()),
                };
                let spend = self.run.as_ref().map_or_else(String::new, spend);
                let sure = match !self.spec.protocol.properties().has_sections {
                    true => String::new(),
                    false => format!("confidence {}; ", confidence.name()),
                };
                let after = format!(" after pass {pass}: {sure}");
                let line = Line::new().styled(BOLD, "gate").plain(after).styled(BOLD, what);
                note(line.plain(" ").styled(DIM, format!("({spend})")));
            }
            Note::CallRefused { key, refusal } => {
                note(Line::from("  ").styled(ODD, format!("call {key} refused: {}", refusal.name())))
            }
            Note::CallRetried { key, attempt, not_before } => {
                let wait = stream::wait(not_before.map(|to| to.since(at)));
                note(Line::from("  ").styled(ODD, format!("{key} is tried again, try {attempt}{wait}")))
            }
            Note::Polled { key, not_before, .. } => {
                let wait = stream::wait(Some(not_before.since(at)));
                note(Line::from("  ").styled(DIM, format!("{key} is not ready, and is asked again{wait}")))
            }
            Note::ReadDropped(read) => {
                let what = format!(" {} {}: {}", read.tool, read.parameters, read.why.text());
                note(Line::from("  ").styled(ODD, "dropped").plain(what));
            }
            Note::Lost { key, .. } => note(Line::from("  ").styled(ODD, format!("{key} was lost"))),
            Note::TierChanged { from, to, why: TierCause::Ended } => {
                let what = format!("back from the {} model to the {} model", from.name(), to.name());
                note(Line::from("  ").styled(DIM, what));
            }
            Note::TierChanged { from, to, why } => {
                let what = format!(" model in place of the {} model: {}", from.name(), why.words());
                note(Line::from("  ").plain("the ").styled(ODD, to.name()).plain(what));
            }
            Note::CallsNotRead { limit, count, .. } => {
                let what = format!("{count} more calls are not read: limits.requested_calls is {limit}");
                note(Line::from("  ").styled(ODD, what));
            }
            Note::AttemptBegan { attempt: 1, .. } => {}
            Note::AttemptBegan { attempt, .. } => {
                note(Line::new().styled(BOLD, format!("attempt {attempt}")))
            }
            Note::OutputRejected { by, message, .. } => {
                note(Line::from("  ").styled(BAD, "rejected").plain(format!(" {by}: {message}")));
            }
            Note::Compacted { .. } => note("  older results are shortened: the prompt did not fit"),
            Note::EvidenceShortened { evidence } => {
                note(format!("  {evidence} is shortened: the prompt did not fit"))
            }
            Note::ReplyRead { parse_warnings, .. } => {
                for parse_warning in parse_warnings {
                    let text = serde_json::to_string(parse_warning).unwrap_or_default();
                    note(Line::from("  ").styled(ODD, "odd").plain(" ").styled(DIM, text));
                }
            }
            Note::Merged { merge, .. } => {
                for bad in &merge.bad_citations {
                    let what = format!("section {} cites {}, which says nothing", bad.section, bad.evidence);
                    note(Line::from("  ").styled(ODD, what));
                }
            }
            Note::CallCharged { .. }
            | Note::ReadUsed { .. }
            | Note::ActionSettled { .. }
            | Note::Stopped { .. } => {}
        }
    }

    fn stream(&mut self, text: &str) {
        for part in harmless(text).split_inclusive('\n') {
            let mark = if self.at_line_start { "  │ " } else { "" };
            note_part(Line::new().styled(DIM, format!("{mark}{}", part.trim_end_matches('\n'))));
            self.at_line_start = part.ends_with('\n');
            if self.at_line_start {
                note("");
            }
        }
    }

    fn action(&self, key: loop_core::CommandKey) -> Option<&JudgedAction> {
        // A retried call runs under the key of its first asking; its newest action is what is shown.
        let actions = self.run.as_ref()?.actions();
        actions.iter().map(|action| &**action).find(|action| action.key == key)
    }
}

fn tier_of(tier: Tier) -> String {
    if tier == Tier::Base { String::new() } else { format!(", {}", tier.name()) }
}

fn spend(run: &Run) -> String {
    let (totals, limits) = (run.totals(), &run.spec().limits);
    let of = |cost: loop_core::PicoUsd| format!(" of {cost}");
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
