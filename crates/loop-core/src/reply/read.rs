//! Chooses the protocol that parses a reply. Code outside of this folder does not depend on which one it is.

use std::sync::Arc;

use crate::reply::contract::Echoes;
use crate::reply::model_reply::{FinishReason, Reply, is_cut_at_once};
use crate::reply::parse_warning::ParseWarning;
use crate::reply::proposal::Proposal;
use crate::reply::sections::without_thoughts;
use crate::reply::{conversation, document, native, output};
use crate::spec::{OnInvalid, ProtocolSpec, RunSpec};
use crate::types::{FailureKind, ModelFailure, Usage};

/// The context in which a reply is parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) spec: &'a RunSpec,
    pub(crate) nonce: &'a str,
    pub(crate) echoes: &'a Echoes,
    /// Whether the run has read untrusted text.
    pub(crate) has_read_untrusted: bool,
}

/// The proposal of a main call's reply.
pub(crate) fn read(reply: &Reply, reading: Reading<'_>) -> Proposal {
    let mut proposal = match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::read(reply, document, reading),
        ProtocolSpec::Conversation(_) => conversation::read(reply),
        ProtocolSpec::Output(output) => output::read(reply, output),
    };
    if begins_again(&reply.text) {
        proposal.parse_warnings.push(ParseWarning::DoubledText);
    }
    proposal
}

/// Whether a text of some length holds its own beginning, up to that place, again.
fn begins_again(text: &str) -> bool {
    /// A text with a shorter beginning may repeat it for its own reasons.
    const MIN_CHARS: usize = 16;
    /// How many places are looked at, so that no text is compared with itself at each.
    const MAX_PLACES: usize = 8;
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(MIN_CHARS) else { return false };
    let head = text.get(..end).unwrap_or_default();
    text.match_indices(head).skip(1).take(MAX_PLACES).any(|(at, _)| {
        let first = text.get(..at).unwrap_or_default().trim_end();
        text.get(at..).is_some_and(|again| again.starts_with(first))
    })
}

/// Completes `proposal`, whose contract was missing or malformed, from the reply to a repair call.
pub(crate) fn repair(proposal: &mut Proposal, reply: &Reply, reading: Reading<'_>) {
    match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::repair(proposal, reply, document, reading),
        // These protocols have no contract.
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => {}
    }
}

/// Whether a reply has a call or visible text.
pub(crate) fn is_visible(reply: &Reply) -> bool {
    !native::is_blank(reply)
}

/// The proposal of a partial reply that failed midway: its complete sections, or its text. Its actions never run.
pub(crate) fn salvage(partial: &Arc<str>, reading: Reading<'_>) -> Proposal {
    match &reading.spec.protocol {
        ProtocolSpec::Document(document) => document::salvage(partial, document, reading),
        ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_) => native::salvage(partial),
    }
}

/// Why a reply is unusable, so that the call counts as failed and may be retried. `None`: it is usable. An unusable
/// reply is blank, or its content contradicts its finish reason.
pub(crate) fn unusable(reply: &Reply, spec: &RunSpec) -> Option<ModelFailure> {
    let is_native = spec.protocol.properties().native_calls;
    let is_blank = if is_native {
        native::is_blank(reply)
    } else {
        native::says_nothing(&without_thoughts(&reply.text))
    };
    let at_once = |usage: Usage| is_cut_at_once(usage.total_output(), spec.limits.output_tokens);
    let (kind, message): (_, Arc<str>) = match reply.finish {
        FinishReason::Refusal | FinishReason::Filtered => return None,
        // The protocol itself handles a cut reply.
        FinishReason::MaxTokens | FinishReason::Capped if is_native => return None,
        FinishReason::MaxTokens if is_blank && reply.usage.is_some_and(at_once) => {
            let message = "the reply was cut at its first tokens, long before its output limit: the model's context is \
                           full; give it less to read, or raise the context window of its server";
            (FailureKind::ContextTooLong, message.into())
        }
        FinishReason::MaxTokens | FinishReason::Capped if is_blank => {
            (FailureKind::OutputLimit, "all output tokens were used before any text was visible".into())
        }
        // A blank reply is not an answer, and the setting ends the run for it.
        FinishReason::EndTurn | FinishReason::Other
            if is_blank
                && spec.gate.on_invalid == OnInvalid::Stop
                && spec.protocol.properties().ends_without_calls =>
        {
            return None;
        }
        FinishReason::ToolUse if !is_blank && native::lacks_its_calls(reply, spec) => {
            (FailureKind::MalformedToolCall, "the reply says that it calls tools, and calls none".into())
        }
        _ if is_blank && !is_native && !reply.calls.is_empty() => {
            (FailureKind::UnexpectedToolCall, native_call(reply.calls.first().map(|call| &*call.name)).into())
        }
        FinishReason::ToolUse if is_blank && !is_native => {
            (FailureKind::UnexpectedToolCall, native_call(None).into())
        }
        _ if is_blank && (reply.reasoning.is_some() || !native::says_nothing(&reply.text)) => {
            (FailureKind::EmptyResponse, "the model's reply was empty but for its reasoning".into())
        }
        _ if is_blank => (FailureKind::EmptyResponse, "the model's reply was empty".into()),
        FinishReason::EndTurn
        | FinishReason::MaxTokens
        | FinishReason::Capped
        | FinishReason::ToolUse
        | FinishReason::Other => return None,
    };
    Some(ModelFailure {
        refused: None,
        kind,
        message,
        retryable: true,
        retry_at: None,
        partial: (!is_blank).then(|| Arc::clone(&reply.text)),
        served_model: reply.served_model.clone(),
        usage: None,
        received: reply.received,
    })
}

/// The message about a reply that only calls a tool natively, with the setting that would permit it.
fn native_call(tool: Option<&str>) -> String {
    let what = tool.map_or_else(|| "a tool".to_owned(), |tool| format!("the tool `{tool}`"));
    format!(
        "the reply calls {what} natively and says nothing else, and a document takes actions from its contract block \
         alone; protocol.type = \"conversation\" takes native calls"
    )
}
