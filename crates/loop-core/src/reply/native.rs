//! Parsing that all protocols with native calls share.

use std::sync::Arc;

use crate::reply::model_reply::{FinishReason, Reply};
use crate::reply::parse_warning::ParseWarning;
use crate::reply::proposal::{Ending, Proposal, RefusedBy};
use crate::spec::RunSpec;
use crate::types::{Action, Confidence, Priority, invisible};

/// The calls of a reply as actions. The protocol decides what the reply ends.
pub(super) fn read(reply: &Reply) -> Proposal {
    let actions = reply.calls.iter().map(|call| Action {
        id: Arc::clone(&call.id),
        tool: Arc::clone(&call.name),
        reason: "".into(),
        parameters: call.arguments.clone(),
        priority: Priority::Recommended,
    });
    let cut = reply.finish.is_cut().then_some(ParseWarning::CutReply);
    Proposal {
        sections: Vec::new(),
        confidence: Confidence::Unknown,
        reason: "".into(),
        actions: actions.collect(),
        refused: refused(reply, /*is_work*/ false),
        escalated: None,
        plan: None,
        // These protocols have no contract to repair.
        has_contract: true,
        unread: reply.unread_calls,
        parse_warnings: cut.into_iter().chain(repeated(reply)).collect(),
        ending: Ending::None,
    }
}

/// Warnings about repeated members in the arguments of its calls.
fn repeated(reply: &Reply) -> impl Iterator<Item = ParseWarning> {
    reply.calls.iter().enumerate().flat_map(|(n, call)| {
        let pointers = call.arguments.repeated().iter();
        pointers.map(move |at| ParseWarning::RepeatedMember { pointer: format!("/{n}{at}").into() })
    })
}

/// The proposal of a partial reply: its text, if it has any.
pub(super) fn salvage(partial: &Arc<str>) -> Proposal {
    let reply = Reply { finish: FinishReason::Other, ..Reply::text(Arc::clone(partial)) };
    let ending = if is_blank(&reply) { Ending::None } else { Ending::Cut(Arc::clone(partial)) };
    Proposal { ending, ..read(&reply) }
}

/// Whether a reply has no call and no visible text.
pub(super) fn is_blank(reply: &Reply) -> bool {
    reply.calls.is_empty() && says_nothing(&reply.text)
}

/// Whether a text has no visible character.
pub(super) fn says_nothing(text: &str) -> bool {
    invisible::is_blank(text)
}

/// Whether a reply stops for tool calls and contains none.
pub(super) fn lacks_its_calls(reply: &Reply, spec: &RunSpec) -> bool {
    spec.protocol.properties().native_calls && reply.finish == FinishReason::ToolUse && reply.calls.is_empty()
}

/// The refusal of the work, by the reply's finish reason. `None`: it was not refused. `is_work` says whether the text is
/// what was asked for, which gives no reason.
pub(super) fn refused(reply: &Reply, is_work: bool) -> Option<RefusedBy> {
    match reply.finish {
        FinishReason::Refusal => {
            let text =
                reply.refusal.as_deref().or(Some(&reply.text).filter(|_| !is_work).map(|text| &**text));
            Some(RefusedBy::ByModel(first_line(text.unwrap_or_default())))
        }
        FinishReason::Filtered => Some(RefusedBy::ByFilter),
        FinishReason::EndTurn
        | FinishReason::ToolUse
        | FinishReason::MaxTokens
        | FinishReason::Capped
        | FinishReason::Other => None,
    }
}

/// The first line of a refusal, cut to 500 characters.
pub(super) fn first_line(text: &str) -> Arc<str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}… [cut]", line.get(..end).unwrap_or_default()).into(),
        None => line.into(),
    }
}

/// The maximum characters of a refusal's first line.
const MAX_LINE: usize = 500;
