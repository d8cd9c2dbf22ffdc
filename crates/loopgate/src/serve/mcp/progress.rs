//! Progress notifications for MCP clients, from the events of a run.

use std::collections::BTreeMap;

use loop_core::run::Decision;
use loop_core::types::{CommandKey, Slot};
use loop_core::{EventKind, Note};
use loop_runtime::observe::{CallNews, RunEvent};

use crate::output::cut;
use crate::shown::calls;

/// The most characters of a message.
const MAX_CHARS: usize = 200;

/// Converts events to progress messages.
pub(crate) struct ProgressMessages {
    passes: u32,
    tools: BTreeMap<CommandKey, String>,
}

impl ProgressMessages {
    /// For runs with this limit of passes.
    pub(crate) fn new(passes: u32) -> Self {
        Self { passes, tools: BTreeMap::new() }
    }

    /// The message of an event. `None`: the event is not worth one.
    pub(crate) fn message(&mut self, event: &RunEvent) -> Option<String> {
        let line = match event {
            RunEvent::Recorded(entry) => {
                let mut line = self.event(&entry.event.kind);
                for note in &entry.notes {
                    line = self.note(note).or(line);
                }
                line?
            }
            RunEvent::Call { news: CallNews::Silent { for_ms: ..1_000 }, .. } => return None,
            RunEvent::Call { key, news, .. } => format!("pass {}: {}", key.pass, calls::news(news)),
            RunEvent::Text { .. } | RunEvent::Part { .. } | RunEvent::Lost { .. } => return None,
        };
        Some(cut(&line, MAX_CHARS))
    }

    fn event(&self, kind: &EventKind) -> Option<String> {
        match kind {
            EventKind::Started(_) => Some("the run has started".to_owned()),
            EventKind::Resumed { .. } => Some("the run is resumed".to_owned()),
            EventKind::CallStarted { key, .. } => Some(match key.slot {
                Slot::Select => "tools are selected".to_owned(),
                Slot::Final => format!("pass {}, the last: the model is called", key.pass),
                Slot::Action(_) => return None,
                _ => format!("pass {} of at most {}: the model is called", key.pass, self.passes),
            }),
            EventKind::ToolStarted { key, .. } => {
                let tool = self.tools.get(key).map_or("a tool", String::as_str);
                Some(format!("pass {}: {tool} runs", key.pass))
            }
            EventKind::ToolFinished { key, observation, .. } => {
                let tool = self.tools.get(key).map_or("a tool", String::as_str);
                Some(format!("pass {}: {tool}: {}", key.pass, observation.summary))
            }
            EventKind::StopRequested { .. } => Some("a stop was requested".to_owned()),
            _ => None,
        }
    }

    fn note(&mut self, note: &Note) -> Option<String> {
        match note {
            Note::ActionJudged(judged) => {
                self.tools.insert(judged.key, judged.tool_name().to_owned());
                None
            }
            Note::GateDecided { pass, confidence, decision } => {
                let what = match decision {
                    Decision::Act { asks: 1.., .. } => "an action waits for a person".to_owned(),
                    Decision::Act { .. } => "continue with tools".to_owned(),
                    Decision::Check { .. } => "the document or the output is checked".to_owned(),
                    Decision::Revise { missing } => format!("revise: {}", missing.join(", ")),
                    Decision::FinalPass { cause } => format!("one final call ({})", cause.reason),
                    Decision::Stop(certificate) => format!("stop ({})", certificate.name()),
                };
                Some(format!("gate after pass {pass} (confidence {}): {what}", confidence.name()))
            }
            _ => None,
        }
    }
}
