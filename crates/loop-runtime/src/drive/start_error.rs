//! Why a run could not begin, or could not be resumed.

use std::sync::Arc;

use loop_core::Rejected;
use loop_core::gate::Remedy;
use loop_core::run::NotTakenOver;
use loop_core::types::{PicoUsd, RunId};
use loop_journal::{JournalError, ReplayError};

/// Why a run could not begin, or could not be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The journal refused.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The recorded run leads to no state that this program may continue.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The request's key belongs to a run of something else.
    #[error(
        "the key `{key}` belongs to run {run}, which is of another domain or another work item; give this request a key of its own"
    )]
    OtherRequest {
        /// The caller's key.
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// The request's key belongs to an imported run, which this journal did not write.
    #[error(
        "run {run} of the key `{key}` was imported and is not this journal's own; use another key, or delete the run with `loopgate journal prune`"
    )]
    ImportedRequest {
        /// The caller's key.
        key: Arc<str>,
        /// The run that has it.
        run: RunId,
    },
    /// The messages that the run would continue cannot be used.
    #[error("the messages before the run: {message}")]
    History {
        /// What is wrong with them.
        message: String,
    },
    /// The work item, or the message, is blank.
    #[error("the {kind} is blank, so there is nothing to work on; give it a text")]
    Blank {
        /// The word for such an item, for example `ticket` or `message`.
        kind: Arc<str>,
    },
    /// The spec has a cost limit, and the price of its model is unknown, so the limit cannot be enforced.
    #[error(
        "the price of `{model}` is unknown, so the limit of {limit} for a run cannot be kept; give the price with ModelSpec::with_price, or set limits.cost to None"
    )]
    CostWithoutPrice {
        /// The limit, in pico-dollars.
        limit: PicoUsd,
        /// The model, by the provider's name for it.
        model: Arc<str>,
    },
    /// The limits of cost and tokens do not pay for the first pass. Nothing was journaled or spent.
    #[error(
        "the limits do not pay for the first pass, so nothing was started; the smallest that work are {}",
        changes(.least)
    )]
    FirstPassUnpaid {
        /// The limits, each with the smallest value that works.
        least: Vec<Remedy>,
    },
    /// The run shares a budget, and the price of a model is unknown, so the budget cannot be enforced.
    #[error(
        "the price of `{model}` is unknown, so the budget that runs share cannot be kept; set the price of the model, or leave the budget out"
    )]
    SharedBudgetWithoutPrice {
        /// The model, by the provider's name for it.
        model: Arc<str>,
    },
    /// An answer or instruction of a person does not count.
    #[error("run {run}: {rejected}")]
    Refused {
        /// The run.
        run: RunId,
        /// Why it does not.
        rejected: Rejected,
    },
    /// A fork cannot begin after this entry.
    #[error("run {run} cannot be forked after entry {entry}: {why}; {}", forkable(*last))]
    NotForked {
        /// The run that was to be forked.
        run: RunId,
        /// The sequence number of the entry.
        entry: u64,
        /// Why not.
        why: NotTakenOver,
        /// The last entry up to this one after which a fork can begin. `None`: there is none.
        last: Option<u64>,
    },
    /// A run has no such entry.
    #[error("run {run} has no entry {entry}: the last one is {last}")]
    NoEntry {
        /// The run.
        run: RunId,
        /// The sequence number that was named.
        entry: u64,
        /// The sequence number of its last entry.
        last: u64,
    },
    /// A run cannot be retried, or what is left of it cannot be continued.
    #[error("run {run}: {why}; {}", instead(why))]
    NotTakenOver {
        /// The run.
        run: RunId,
        /// Why not.
        why: NotTakenOver,
    },
    /// The tools, prompts or settings are not the ones that the run was started with.
    #[error("run {run} was started with other {what}{}; resume it with the domain as it was", named(tools))]
    Changed {
        /// The run.
        run: RunId,
        /// What differs: `tools`, `settings` or `prompts`.
        what: &'static str,
        /// The names of the tools whose declaration or definition differs. Empty if the tools are the same.
        tools: Vec<String>,
    },
}

impl StartError {
    /// Whether the run is left to another version of the program: a newer one has driven it, an entry was decided otherwise,
    /// or an entry is of a kind that this version does not know.
    pub fn is_of_another_version(&self) -> bool {
        match self {
            Self::Replay(error) => error.is_of_another_version(),
            Self::Journal(error) => matches!(error, JournalError::UnknownEntry { .. }),
            _ => false,
        }
    }
}

/// Changes of settings, as a domain file has them.
fn changes(changes: &[Remedy]) -> String {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    changes.join(" and ")
}

/// Where a fork can begin, for a sentence.
fn forkable(last: Option<u64>) -> String {
    match last {
        Some(last) => format!("the last entry before it that can be forked is {last}"),
        None => "no entry before it can be forked".to_owned(),
    }
}

/// What can be done instead of taking a run over.
fn instead(why: &NotTakenOver) -> &'static str {
    match why {
        NotTakenOver::NotOver => "resume it, or fork it",
        NotTakenOver::NoDocument => "fork it: a fork continues the conversation from an entry",
        NotTakenOver::Fixed => "nothing is left to continue; retry it or fork it",
        _ => "take the domain and the settings that it was begun with",
    }
}

/// The names of tools behind a sentence.
fn named(tools: &[String]) -> String {
    if tools.is_empty() { String::new() } else { format!(" ({})", tools.join(", ")) }
}
