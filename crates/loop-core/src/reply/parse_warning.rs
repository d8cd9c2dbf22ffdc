//! Irregularities of a reply. They are recorded and reported, never dropped.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::types::Confidence;

/// Something irregular in a reply. It is recorded and reported, never dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "odd", rename_all = "snake_case")]
pub enum ParseWarning {
    /// A heading that the domain does not declare.
    UnknownHeading {
        /// The heading as written.
        heading: Arc<str>,
    },
    /// A line that names a section in another form than a `##` heading. It counts as one.
    HeadingOfAnotherForm {
        /// The line as written.
        heading: Arc<str>,
    },
    /// A reply in a code fence as a whole. Its text counts.
    FencedReply,
    /// A contract without a fence. It counts as in one.
    UnfencedContract,
    /// A reply that begins again from its start, as a stream does that a server restarts.
    DoubledText,
    /// A repeated heading. The bodies were joined, unless they are the same.
    DoubledHeading {
        /// The section's id.
        section: Arc<str>,
    },
    /// A code fence without an end. It is taken to end at the next heading.
    UnclosedFence,
    /// A contract block that does not count: its nonce is wrong, or it is an echo of one that the run has read.
    IgnoredContract {
        /// Why it does not count.
        why: Arc<str>,
    },
    /// A contract block that is not a JSON object of the agreed form.
    GarbledContract {
        /// Why it is invalid.
        why: Arc<str>,
    },
    /// A repeated member in the contract, a selection of tools or a native call. The last one counts, but a call that
    /// changes something is refused.
    RepeatedMember {
        /// JSON pointer to it; in native calls it begins with the position of the call, from 0.
        pointer: Arc<str>,
    },
    /// A part of the contract that was repaired or left out.
    RepairedContract {
        /// The repair.
        what: Arc<str>,
    },
    /// The reply was cut at the output limit.
    CutReply,
    /// A native tool call in a protocol whose actions are in the contract. It is not run.
    IgnoredCall {
        /// The tool's name as the model wrote it.
        tool: Arc<str>,
    },
    /// A confidence stated by the model of a cheaper tier. It counts as unknown.
    CheaperConfidence {
        /// The confidence that it stated.
        stated: Confidence,
    },
}
