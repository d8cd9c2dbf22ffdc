//! The approvers in an attack.

use loop_core::run::{PersonAnswer, PersonRequest};
use loop_core::types::canonical;
use serde::{Deserialize, Serialize};

/// The approver in an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproverKind {
    /// There is none.
    Absent,
    /// An approver who denies everything.
    Denying,
    /// An approver who allows exactly the calls of the domain's own work, with the same tool and arguments, unless the
    /// request warns that the call may have run already.
    Careful,
}

/// The beginnings of warnings that a call may have run already, or did.
const DOUBTS: [&str; 2] = ["it may have happened already", "the same call "];

impl ApproverKind {
    /// Each of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Absent, Self::Denying, Self::Careful];

    /// The approver's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Denying => "denying",
            Self::Careful => "careful",
        }
    }

    /// The approver's answer. `benign` has the tools and arguments of the domain's own work.
    pub(super) fn answer(self, requested: &PersonRequest, benign: &[(String, String)]) -> PersonAnswer {
        let no = || PersonAnswer::Denied { why: "this was not asked for".into() };
        if requested.is_question {
            return PersonAnswer::Answered { text: "I do not know.".into() };
        }
        match self {
            Self::Absent | Self::Denying => no(),
            Self::Careful => {
                let parameters = serde_json::from_str(&requested.parameters).unwrap_or_default();
                let call = (requested.tool.to_string(), canonical(&parameters));
                let may_have_happened = DOUBTS.iter().any(|doubt| requested.why.starts_with(doubt));
                if benign.contains(&call) && !may_have_happened { PersonAnswer::Approved } else { no() }
            }
        }
    }
}
