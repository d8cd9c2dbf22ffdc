//! The `document` protocol: sections and a contract block.

use std::sync::Arc;

use crate::reply::contract::{self, ContractRules, FoundContract};
use crate::reply::loose::lay_out;
use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::native::refused;
use crate::reply::parse_warning::ParseWarning;
use crate::reply::proposal::{Ending, Proposal, RefusedBy};
use crate::reply::read::Reading;
use crate::reply::sections::{self, Names};
use crate::spec::{DocumentSpec, NonceMode};
use crate::types::{Confidence, ToolCall};

pub(super) fn read(reply: &Reply, document: &DocumentSpec, reading: Reading<'_>) -> Proposal {
    if reply.finish == FinishReason::Capped {
        // The client's cap may have cut anywhere, as a lost connection does.
        let mut proposal = salvage(&reply.text, document, reading);
        proposal.parse_warnings.push(ParseWarning::CutReply);
        return proposal;
    }
    let names = Names::of(&document.sections);
    let (text, layout, odd) = lay_out(&reply.text, &names);
    let mut found = contract::find(&text, &layout, rules(document, reading));
    found.hidden.extend(layout.thoughts.iter().cloned());
    found.hidden.sort_by_key(|range| range.start);
    let parsed = sections::parse(&text, &layout, &found.hidden, &names);
    let mut proposal = Proposal {
        sections: parsed.sections,
        confidence: Confidence::Unknown,
        reason: "".into(),
        actions: Vec::new(),
        refused: None,
        escalated: None,
        plan: None,
        has_contract: false,
        unread: 0,
        parse_warnings: odd.into_iter().chain(parsed.parse_warnings).collect(),
        ending: Ending::None,
    };
    take(&mut proposal, found);
    match reply.finish {
        FinishReason::Refusal | FinishReason::Filtered if proposal.refused.is_none() => {
            proposal.refused = refused(reply, /*is_work*/ !layout.headings.is_empty());
            proposal.has_contract = true;
        }
        FinishReason::MaxTokens => proposal.parse_warnings.push(ParseWarning::CutReply),
        FinishReason::EndTurn
        | FinishReason::ToolUse
        | FinishReason::Refusal
        | FinishReason::Filtered
        | FinishReason::Capped
        | FinishReason::Other => {}
    }
    let ignored = |call: &ToolCall| ParseWarning::IgnoredCall { tool: Arc::clone(&call.name) };
    proposal.parse_warnings.extend(reply.calls.iter().map(ignored));
    proposal
}

pub(super) fn repair(proposal: &mut Proposal, reply: &Reply, document: &DocumentSpec, reading: Reading<'_>) {
    take(proposal, contract::find_repaired(&reply.text, rules(document, reading)));
}

pub(super) fn salvage(partial: &str, document: &DocumentSpec, reading: Reading<'_>) -> Proposal {
    // The text after the last heading may be cut anywhere, unless a contract follows it. The text before it is complete.
    let (text, layout, _) = lay_out(partial, &Names::of(&document.sections));
    let complete = layout.headings.last().map_or(0, |heading| heading.line.start);
    let complete = contract::end_of_last(&text, &layout).map_or(complete, |end| end.max(complete));
    let text = text.get(..complete).unwrap_or_default();
    let reply = Reply { finish: FinishReason::Other, ..Reply::text(text) };
    // Its contract, if there is one, does not count: nothing of a reply that broke off is run or ends a run.
    Proposal {
        confidence: Confidence::Unknown,
        reason: "".into(),
        actions: Vec::new(),
        refused: None,
        escalated: None,
        plan: None,
        has_contract: false,
        ..read(&reply, document, reading)
    }
}

fn rules<'a>(document: &DocumentSpec, reading: Reading<'a>) -> ContractRules<'a> {
    ContractRules {
        nonce: reading.nonce,
        mode: match document.nonce {
            // A model can decode or join untrusted text into a contract that no text contained, so only the nonce
            // proves its origin.
            NonceMode::Prefer if reading.has_read_untrusted => NonceMode::Require,
            mode => mode,
        },
        echoes: reading.echoes,
    }
}

fn take(proposal: &mut Proposal, found: FoundContract) {
    proposal.parse_warnings.extend(found.parse_warnings);
    if let Some(contract) = found.contract {
        proposal.confidence = contract.confidence;
        proposal.reason = contract.reason;
        proposal.actions = contract.actions;
        proposal.refused = contract.refused.map(RefusedBy::ByModel);
        proposal.escalated = contract.escalated;
        proposal.plan = contract.plan;
        proposal.has_contract = true;
    }
}
