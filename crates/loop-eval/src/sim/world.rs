//! What a simulated run is started with, and the fault that a simulation may show.

use std::sync::Arc;

use loop_core::{Digest, Facts, Provenance, Run, RunId, RunSpec, SpecNames, WorkItem};

/// The nonce of every simulated run.
const NONCE: &str = "n-5e3d";

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the check.
    pub check: &'static str,
    /// What was found.
    pub what: String,
}

/// What a simulated run is started with.
#[derive(Clone, Debug)]
pub struct SimWorld {
    /// The spec.
    pub spec: Arc<RunSpec>,
    names: SpecNames,
    item: WorkItem,
    facts: Facts,
}

impl SimWorld {
    /// A world of this spec and item.
    pub fn new(spec: Arc<RunSpec>, item: WorkItem) -> Self {
        let none = Digest::of("sim", b"");
        let provenance = Provenance::default();
        let facts =
            Facts { unix_ms: 0, nonce: NONCE.into(), prompts: none, tools: none, history: None, provenance };
        Self { names: SpecNames::of(&spec), spec, item, facts }
    }

    /// Starts its run.
    pub fn start(&self) -> (Run, loop_core::Event, Vec<loop_core::Note>) {
        let (spec, id) = (Arc::clone(&self.spec), RunId::new("sim"));
        Run::start_named(id, spec, self.names, self.item.clone(), self.facts.clone())
    }
}
