//! Parses a model's reply into a proposal: sections of a document, a contract, calls, an ending.
//!
//! This module turns text and native calls into a [`Proposal`], and merges sections into the [`Document`]. It reads the
//! reply, the spec and the texts that a contract may be an echo of. Each protocol has a file, and `read.rs` chooses it.
//!
//! It does not decide what runs or whether the run ends, and it does not read limits or the ledger.

mod citation;
mod contract;
mod conversation;
mod document;
mod loose;
mod markdown;
mod merge;
mod model_reply;
mod native;
mod output;
mod parse_warning;
mod proposal;
mod read;
mod sections;
#[cfg(test)]
mod steps_tests;

pub use citation::citations;
pub use merge::{BadCitation, Document, Merge, MergeContext, Section, SectionChange};
pub(crate) use model_reply::is_cut_at_once;
pub use model_reply::{FinishReason, Reply};
pub use parse_warning::ParseWarning;
pub use proposal::{Ending, Proposal, RefusedBy};
pub use sections::{LiveText, PREAMBLE, ProposedSection};

pub(crate) use citation::{cited_in, own_words};
pub(crate) use contract::{Echoes, parameters_of};
pub use markdown::fenced;
pub(crate) use read::{Reading, is_visible, read, repair, salvage, unusable};
