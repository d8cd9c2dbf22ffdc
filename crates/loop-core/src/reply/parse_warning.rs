//! What in a reply was not as it should be: kept and reported, never dropped.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::Confidence;

/// Something in a reply that was not as it should be; it is kept and reported, never dropped (S0-d11).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "odd", rename_all = "snake_case")]
pub enum ParseWarning {
    /// A heading that the domain does not declare.
    UnknownHeading {
        /// As written.
        heading: Arc<str>,
    },
    /// A heading that came more than once; the bodies were joined.
    DoubledHeading {
        /// The section's id.
        section: Arc<str>,
    },
    /// A fence without an end; it was taken to end at the next heading.
    UnclosedFence,
    /// A contract block that does not count: a wrong nonce, or an echo of something that was read.
    IgnoredContract {
        /// Why it does not count.
        why: Arc<str>,
    },
    /// A contract block that is no JSON object of the agreed form.
    GarbledContract {
        /// What is wrong with it.
        why: Arc<str>,
    },
    /// A member of the contract, of a selection of tools or of a native call's arguments that is given more than once: the
    /// last one counts, except that a call which changes something is refused.
    RepeatedMember {
        /// JSON pointer to it; in native calls it begins with the position of the call, from 0.
        pointer: Arc<str>,
    },
    /// A part of the contract that was repaired or left out.
    RepairedContract {
        /// What was done.
        what: Arc<str>,
    },
    /// The reply was cut at the output limit.
    CutReply,
    /// A tool that is called natively, where actions stand in the contract: it is not run.
    IgnoredCall {
        /// The tool's name as the model wrote it.
        tool: Arc<str>,
    },
    /// A confidence that a cheaper tier's model stated: it counts as unknown.
    CheaperConfidence {
        /// What it stated.
        stated: Confidence,
    },
}
