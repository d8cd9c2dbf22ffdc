//! Messages of people to a run, as an engine stores them.

use std::sync::Arc;

use loop_core::run::{PersonAnswer, StopMode};
use loop_core::types::{Approver, CommandKey, Digest};
use serde::{Deserialize, Serialize};

use crate::watch::events::{Answer, Approval, Control};

/// A message to a run from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMessage {
    /// Requests a stop.
    Stop(StopMode),
    /// Withdraws a requested stop.
    WithdrawStop,
    /// An answer to a request.
    Answer {
        /// The action's key.
        key: CommandKey,
        /// The answer.
        answer: PersonAnswer,
        /// The binding that the person saw. `None`: not checked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        binding: Option<Digest>,
    },
    /// A known person approves an action.
    Approve {
        /// The action's key.
        key: CommandKey,
        /// Who approves it.
        by: Approver,
        /// The binding that the person saw.
        binding: Digest,
    },
    /// An instruction, which the next pass reads.
    Tell(Arc<str>),
}

/// What a message to a run changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageReceipt {
    /// It is in the run's journal.
    Counts,
    /// It is stored, because the person is asked about that action only later in the pass. It counts then.
    Kept,
    /// It changed nothing.
    Refused {
        /// Why, for the person who sent it.
        why: String,
    },
}

impl From<RunMessage> for Control {
    fn from(message: RunMessage) -> Self {
        match message {
            RunMessage::Stop(how) => Self::Stop(how),
            RunMessage::WithdrawStop => Self::WithdrawStop,
            RunMessage::Answer { key, answer, binding } => {
                Self::Answer(Box::new(Answer { key, answer, binding }))
            }
            RunMessage::Approve { key, by, binding } => {
                Self::Approve(Box::new(Approval { key, by, binding }))
            }
            RunMessage::Tell(text) => Self::Tell(text),
        }
    }
}
