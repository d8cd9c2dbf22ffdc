//! Protocols: how a reply becomes a proposal. One file each; nothing outside of this folder asks which one it is.

mod document;

use std::collections::BTreeSet;

use crate::event::Reply;
use crate::ids::Digest;
use crate::proposal::Proposal;
use crate::spec::{ProtocolSpec, RunSpec};

/// What a reply is read against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) nonce: &'a str,
    pub(crate) echoes: &'a BTreeSet<Digest>,
}

/// The proposal of a main call's reply.
pub(crate) fn read(reply: &Reply, reading: Reading<'_>) -> Proposal {
    let ProtocolSpec::Document(document) = &reading.spec.protocol;
    document::read(reply, document, reading)
}

/// Completes `proposal`, whose contract was missing or garbled, from the reply to a repair call.
pub(crate) fn repair(proposal: &mut Proposal, reply: &Reply, reading: Reading<'_>) {
    let ProtocolSpec::Document(document) = &reading.spec.protocol;
    document::repair(proposal, reply, document, reading);
}

/// The complete sections of a reply that failed midway (S0-130, I-19). Actions of such a reply are never run.
pub(crate) fn salvage(partial: &str, reading: Reading<'_>) -> Proposal {
    let ProtocolSpec::Document(document) = &reading.spec.protocol;
    document::salvage(partial, document, reading)
}
