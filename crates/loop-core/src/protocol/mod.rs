//! Protocols: how a reply becomes a proposal. One file each; nothing outside of this folder asks which one it is.

mod conversation;
mod document;
mod native;
mod output;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::event::Reply;
use crate::ids::Digest;
use crate::judge::Judged;
use crate::proposal::{Ending, Proposal};
use crate::protocol_spec::ProtocolSpec;
use crate::spec::RunSpec;

/// What a reply is read against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) nonce: &'a str,
    pub(crate) echoes: &'a BTreeSet<Digest>,
}

/// The proposal of a main call's reply.
pub(crate) fn read(reply: &Reply, reading: Reading<'_>) -> Proposal {
    match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::read(reply, document, reading),
        ProtocolSpec::Conversation(_) => conversation::read(reply),
        ProtocolSpec::Output(output) => output::read(reply, output),
    }
}

/// Completes `proposal`, whose contract was missing or garbled, from the reply to a repair call.
pub(crate) fn repair(proposal: &mut Proposal, reply: &Reply, reading: Reading<'_>) {
    match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::repair(proposal, reply, document, reading),
        // Neither has a contract.
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => {}
    }
}

/// What is kept of a reply that failed midway: its complete sections (S0-130, I-19), or its text. Actions of such a
/// reply are never run.
pub(crate) fn salvage(partial: &Arc<str>, reading: Reading<'_>) -> Proposal {
    match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::salvage(partial, document, reading),
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => native::salvage(partial),
    }
}

/// Whether a reply says nothing at all: it is asked for again, and is never a success.
pub(crate) fn is_blank(reply: &Reply, spec: &RunSpec) -> bool {
    match &spec.protocol {
        ProtocolSpec::Document(_) => reply.text.trim().is_empty(),
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => native::is_blank(reply),
    }
}

/// Whether the protocol takes the call of a tool itself, in place of having it run.
pub(crate) fn keeps(spec: &RunSpec, tool: &str) -> bool {
    spec.protocol.output().is_some_and(|output| output::keeps(output, tool))
}

/// What the calls of a reply end once they are judged; `stored` is the last output of the attempt before them.
pub(crate) fn ending(
    ending: Ending,
    judged: &[Judged],
    stored: Option<&Arc<str>>,
    spec: &RunSpec,
) -> (Ending, Option<Arc<str>>) {
    match &spec.protocol {
        ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_) => (ending, None),
        ProtocolSpec::Output(output) => output::ending(ending, judged, stored, output),
    }
}
