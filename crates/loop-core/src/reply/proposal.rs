//! Proposals: the meaning of a reply, the same type for each protocol.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::parse_warning::ParseWarning;
use crate::reply::sections::ProposedSection;
use crate::types::{Action, Arguments, Confidence, is_default};

/// What a reply proposes. The model proposes; the gate decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proposal {
    /// Sections to merge into the document. Empty outside of documents.
    pub sections: Vec<ProposedSection>,
    /// How sure the model says it is. `unknown` in protocols without confidence.
    pub confidence: Confidence,
    /// The model's reason for its confidence. Empty if it gave none.
    pub reason: Arc<str>,
    /// The tool calls that it requests, in its order.
    pub actions: Vec<Action>,
    /// The effects that it plans, as its contract has them. `None`: it has no such member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Arguments>,
    /// Who refused the work. `None`: it was not refused.
    pub refused: Option<RefusedBy>,
    /// The model's reason for handing the work to a person. `None`: it did not.
    pub escalated: Option<Arc<str>>,
    /// Whether the reply has a contract block that counts. Without one the confidence is `unknown`.
    pub has_contract: bool,
    /// What was irregular in the reply.
    pub parse_warnings: Vec<ParseWarning>,
    /// How many requested calls were counted and not read, beyond `limits.requested_calls`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread: u32,
    /// The end that the reply states, in protocols without confidence.
    #[serde(default, skip_serializing_if = "Ending::is_none")]
    pub ending: Ending,
}

/// Who refused the work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", content = "why", rename_all = "snake_case")]
pub enum RefusedBy {
    /// The model, with its reason.
    ByModel(Arc<str>),
    /// A content filter of the provider. The model itself may not have refused.
    ByFilter,
}

/// The end that a reply states, of the run or of an attempt, in protocols without confidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ending", content = "what", rename_all = "snake_case")]
pub enum Ending {
    /// Nothing: it requests tool calls, or the confidence decides.
    #[default]
    None,
    /// The run, with this answer.
    Answer(Arc<str>),
    /// The run, with an answer that was cut at the output limit.
    Cut(Arc<str>),
    /// The attempt, with this output: the arguments as the model wrote them.
    Output(Arc<str>),
    /// The run: the model submitted before there was an output.
    SubmitBeforeOutput,
    /// The run: the reply has a form that the protocol does not allow. The text says which.
    Invalid(Arc<str>),
}

impl Ending {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}
