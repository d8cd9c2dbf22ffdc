//! Irregularities of a run that did not end it, for the people who read its outcome.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::ParseWarning;

/// Something irregular that did not end the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "warning", rename_all = "snake_case")]
pub enum RunWarning {
    /// The selection of tools failed, and the domain's default tools ran instead.
    SelectionFailed {
        /// Why it failed.
        why: Arc<str>,
    },
    /// The client of a provider reports something about a call, for example an option that it left out.
    Call {
        /// The provider that was called.
        provider: Arc<str>,
        /// The model that was requested.
        model: Arc<str>,
        /// The client's code, with details where it has some.
        what: Arc<str>,
    },
    /// A reply plans effects, and the plan was not accepted.
    PlanRefused {
        /// The pass, from 1.
        pass: u32,
        /// Why it was not.
        why: Arc<str>,
    },
    /// A reply is irregular.
    Reply {
        /// The pass, from 1; 0 for the selection of tools.
        pass: u32,
        /// What is irregular.
        odd: ParseWarning,
    },
}

/// How many warnings a run keeps. Replies come from outside, and each may have any number.
pub(super) const MAX_WARNINGS: usize = 50;
