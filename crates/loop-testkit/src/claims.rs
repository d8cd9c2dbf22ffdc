//! Fixtures for tests of claims: documents and evidence.

use std::sync::Arc;

use loop_core::Evidence;
use loop_core::reply::{Document, Section};
use loop_core::types::{Arguments, CommandKey, EvidenceId, Millis, Observation, Slot, Status};
use serde_json::Value;

/// A document of one section, `findings`, with this body.
pub fn findings(body: &str) -> Document {
    let section = Section {
        id: "findings".into(),
        heading: "Findings".into(),
        heading_text: "Findings".into(),
        emoji: "".into(),
        body: body.into(),
        pass: 1,
        at: Millis(0),
        evidence: Vec::new(),
        bad_citations: Vec::new(),
        replaced: None,
        known: true,
    };
    Document { sections: vec![section] }
}

/// A piece of evidence of this tool whose data is this value, without a text.
pub fn evidence(id: u32, tool: &str, status: Status, data: &Value) -> Evidence {
    Evidence {
        id: EvidenceId(id),
        key: CommandKey::new(1, Slot::Action(id)),
        pass: 1,
        tool: tool.into(),
        parameters: Arguments::from("{}"),
        observation: Arc::new(Observation::new(status, "", "", data.clone())),
        shortened: false,
    }
}
