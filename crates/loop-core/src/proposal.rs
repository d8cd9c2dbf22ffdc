//! Proposals: what a reply comes to, whatever the protocol.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::reply::{Oddity, ProposedSection};
use crate::stop::Confidence;

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
    /// The model refuses the work, with its reason.
    pub refused: Option<Arc<str>>,
    /// The model hands the work to a person, with its reason.
    pub escalated: Option<Arc<str>>,
    /// Whether a contract was found that counts; without one the confidence is `unknown`.
    pub has_contract: bool,
    /// What was not as it should be.
    pub oddities: Vec<Oddity>,
}
