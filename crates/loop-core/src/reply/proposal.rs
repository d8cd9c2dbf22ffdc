//! Proposals: what a reply comes to, whatever the protocol.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::parse_warning::ParseWarning;
use crate::reply::sections::ProposedSection;
use crate::types::{Action, Confidence, is_default};

/// What a reply proposes. The model proposes; the gate decides (S4-70).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proposal {
    /// Sections to merge into the document.
    pub sections: Vec<ProposedSection>,
    /// How sure it says it is.
    pub confidence: Confidence,
    /// Why it says so.
    pub reason: Arc<str>,
    /// Tool calls that it asks for, in its order.
    pub actions: Vec<Action>,
    /// The work is refused.
    pub refused: Option<Refused>,
    /// The model hands the work to a person, with its reason.
    pub escalated: Option<Arc<str>>,
    /// Whether a contract was found that counts; without one the confidence is `unknown`.
    pub has_contract: bool,
    /// What was not as it should be.
    pub parse_warnings: Vec<ParseWarning>,
    /// How many calls it asks for beyond those that were read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unread: u32,
    /// What the reply is an end of, in protocols without confidence.
    #[serde(default, skip_serializing_if = "Ending::is_none")]
    pub ending: Ending,
}

/// Who refused the work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", content = "why", rename_all = "snake_case")]
pub enum Refused {
    /// The model, with its reason.
    ByModel(Arc<str>),
    /// A content filter of the provider: the model may not have refused anything.
    ByFilter,
}

/// What a reply ends, where it is not its confidence that tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ending", content = "what", rename_all = "snake_case")]
pub enum Ending {
    /// Nothing: it calls tools, or its confidence tells.
    #[default]
    None,
    /// The run, with this answer.
    Answer(Arc<str>),
    /// The run, with an answer that was cut at the output limit.
    Cut(Arc<str>),
    /// The attempt, with this output: the arguments as the model wrote them.
    Output(Arc<str>),
    /// The run: it submits before there is an output.
    SubmitBeforeOutput,
    /// The run: it is nothing that the protocol allows.
    Invalid(Arc<str>),
}

impl Ending {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}
