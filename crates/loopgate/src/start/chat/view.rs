//! Shows a turn of a chat: the answer on standard output as it is streamed, and its calls on standard error.

use std::path::Path;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use loop_core::run::PersonRequest;
use loop_core::types::{CommandKey, Slot, StopClass};
use loop_core::{EventKind, Outcome, Run, RunSpec};
use loop_runtime::{observe::RunEvent, report::explain};

use crate::output::{TextLine, stream, stream::note};
use crate::shown::{Live, people};

const DIM: Style = Style::new().dimmed();
const ODD: Style = AnsiColor::Yellow.on_default();

/// The label before each answer.
const LABEL: &str = "Agent: ";

/// Shows one turn.
#[derive(Debug)]
pub(super) struct TurnView {
    pub(super) live: Live,
    /// The text of the last reply.
    stated: String,
}

impl TurnView {
    /// `run`: the turn so far, if it began before.
    pub(super) fn new(spec: &Arc<RunSpec>, run: Option<Run>) -> Self {
        Self { live: Live::of_turn(spec, run), stated: String::new() }
    }

    pub(super) fn show(&mut self, event: &RunEvent) {
        self.live.show(event);
        match event {
            RunEvent::Text { key, text, .. } if matches!(key.slot, Slot::Main | Slot::Final) => {
                let label = if self.live.answers() { LABEL } else { "" };
                self.stated.push_str(text);
                self.live.print_answer(&format!("{label}{text}"));
            }
            RunEvent::Recorded(entry) if matches!(entry.event.kind, EventKind::CallStarted { .. }) => {
                self.stated.clear();
            }
            _ => {}
        }
    }

    /// The next action that the person is asked about, with its details. `None` if they were asked about it last.
    /// `manifest` is that of the tools.
    pub(super) fn question(
        &self,
        manifest: &str,
        last: Option<CommandKey>,
    ) -> Option<(PersonRequest, Vec<String>)> {
        let run = self.live.run()?;
        let requested = run.requested().into_iter().next().filter(|it| last != Some(it.key))?;
        let details = people::details(run, manifest, &requested);
        Some((requested, details))
    }

    /// What the turn waits for, for people. `None`: it does not wait for a person.
    pub(super) fn waiting(&self, manifest: &str, journal: Option<&Path>) -> Option<String> {
        let run = self.live.run()?;
        let waits = !run.requested().is_empty();
        waits.then(|| people::in_words(run, manifest, run.now(), journal))
    }

    /// Shows how the turn ended: an answer that was not streamed, or the reason why there is none.
    pub(super) fn finish(&mut self, spec: &RunSpec, outcome: &Outcome) {
        self.live.end_line();
        if let Some(answer) = outcome.answer.as_deref().filter(|answer| answer.trim() != self.stated.trim()) {
            stream::print(&format!("{LABEL}{}\n", answer.trim_end()));
        }
        let stop = &outcome.stop;
        if stop.class != StopClass::Answered {
            let what = format!("stopped: {} ({}). {}", stop.name(), stop.class.name(), explain(stop));
            note(TextLine::from("· ").styled(ODD, what));
        } else if !stop.effects.is_none() {
            note(TextLine::from("· ").styled(DIM, format!("effects: {}", stop.effects)));
        } else if spec.tools.iter().any(|tool| !tool.effect.is_read()) {
            // What an answer says that it did is not what was done.
            note(TextLine::from("· ").styled(DIM, "no effect was requested"));
        }
    }
}
