//! One line of a batch: what became of one work item.

use std::sync::Arc;

use loop_core::Outcome;
use loop_core::types::StopClass;
use schemars::JsonSchema;
use serde::Serialize;

/// What became of one work item of a batch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BatchLine {
    /// Where the item came from: a path, or a path and the number of a line.
    pub origin: String,
    /// The item's id.
    pub item: String,
    /// What became of it.
    pub state: BatchState,
    /// Whether an earlier start of the batch had done it, so that nothing was run now.
    pub done_before: bool,
    /// The run's id. Null if none was begun.
    pub run: Option<String>,
    /// The class of its outcome. Null if the run has no outcome.
    pub class: Option<String>,
    /// The reason why it stopped. Null if the run has no outcome.
    pub reason: Option<String>,
    /// The exit code that `loopgate run` would have for it.
    pub exit_code: u8,
    /// Main calls whose replies were read; 0 without an outcome.
    pub passes: u32,
    /// Model calls of every kind; 0 without an outcome.
    pub model_calls: u32,
    /// Dollars. Null if the price of a call is not known, and without an outcome.
    pub cost_usd: Option<f64>,
    /// Pico-dollars of the calls whose price is known; 0 without an outcome.
    pub cost_pico_usd: u64,
    /// Where the outcome is saved. Null if it is not.
    pub saved: Option<String>,
    /// One line for people: why it was not started or could not begin, what it waits for, or why its outcome could not be
    /// saved. Null for a run that ended and saved its outcome, or had nowhere to save it.
    pub message: Option<String>,
}

/// What became of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Its run has ended.
    Ended,
    /// Its run waits for a person.
    Waiting,
    /// Its run could not begin or continue.
    Failed,
    /// It was not started, or its run was begun by an earlier start and did not go on.
    NotStarted,
    /// An earlier start did it, and its run was pruned since then.
    Pruned,
}

impl BatchState {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl BatchLine {
    /// The line of an item whose run has ended, or waits for a person.
    pub fn of(origin: &str, item: &str, outcome: &Outcome, state: BatchState) -> Self {
        let class = if state == BatchState::Waiting { StopClass::NeedsHuman } else { outcome.stop.class };
        let (saved, unsaved) = match &outcome.saved {
            Some(loop_core::run::SaveState::At { location }) => (Some(location.to_string()), None),
            Some(loop_core::run::SaveState::Not { message }) => {
                let run = &outcome.run;
                (None, Some(format!("saved: no: {message}; `loopgate resume {run} --save` saves it").into()))
            }
            None => (None, None),
        };
        Self {
            run: Some(outcome.run.to_string()),
            class: Some(class.name().to_owned()),
            reason: Some(outcome.stop.name().to_owned()),
            exit_code: class.exit_code(),
            passes: outcome.totals.passes,
            model_calls: outcome.totals.model_calls,
            cost_usd: outcome.totals.cost.total().map(|cost| cost.as_usd()),
            cost_pico_usd: outcome.totals.cost.known.0,
            saved,
            ..Self::without(origin, item, state, unsaved)
        }
    }

    /// The line of an item without an outcome. One that was not started counts as partial, one that could not begin as
    /// failed. One whose run was pruned was done, and how it ended is not known any more.
    pub fn without(origin: &str, item: &str, state: BatchState, message: Option<Arc<str>>) -> Self {
        let class = match state {
            BatchState::NotStarted => StopClass::Partial,
            BatchState::Pruned => StopClass::Answered,
            BatchState::Ended | BatchState::Waiting | BatchState::Failed => StopClass::Failed,
        };
        Self {
            origin: origin.to_owned(),
            item: item.to_owned(),
            state,
            done_before: false,
            run: None,
            class: None,
            reason: None,
            exit_code: class.exit_code(),
            passes: 0,
            model_calls: 0,
            cost_usd: None,
            cost_pico_usd: 0,
            saved: None,
            message: message.map(|message| message.to_string()),
        }
    }
}
