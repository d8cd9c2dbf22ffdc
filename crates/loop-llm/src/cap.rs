//! Our own cap on the output of a reply, for servers that ignore `max_output_tokens`.
//!
//! Some servers ignore the limit, and the cost and size of a reply would be unbounded. So all output is counted: text,
//! reasoning, refusals, and the ids, names and arguments of calls. A reply that exceeds the cap ends as
//! [`ReplyEnd::Capped`], and the connection is closed.

use std::sync::Arc;

use loop_core::reply::FinishReason;
use loop_core::spec::CostMode;
use loop_core::types::Usage;

use crate::call::ReplyEnd;
use crate::model::ModelReply;
use crate::request::ModelRequest;

/// The output cap of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCap {
    /// Output tokens that a stream may report before it ends: twice the limit plus 256.
    pub tokens: u64,
    /// Bytes of the output: eight for each of these tokens.
    pub bytes: usize,
    /// Whether a cost limit must never be exceeded. A reply that was cut then counts at most one token for each of
    /// these bytes, whatever usage it reports.
    pub strict: bool,
}

impl Default for OutputCap {
    /// The cap of a call without an output limit.
    fn default() -> Self {
        Self::of(None)
    }
}

impl OutputCap {
    /// The cap of a call with this output limit. Without a limit 131,072 tokens count, the most that the largest models
    /// write.
    pub fn of(max_output_tokens: Option<u64>) -> Self {
        let tokens = max_output_tokens.unwrap_or(UNLIMITED).saturating_mul(2).saturating_add(FLOOR_TOKENS);
        let bytes = usize::try_from(tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX);
        Self { tokens, bytes: bytes.min(MAX_BYTES), strict: false }
    }

    /// The cap of the reply to this request. With [`strict_cost`](crate::request::RequestMeta::strict_cost) it has as many bytes as
    /// tokens are reserved, six for each that was granted.
    pub fn of_request(request: &ModelRequest) -> Self {
        let cap = Self::of(request.max_output_tokens);
        let Some(granted) = request.max_output_tokens.filter(|_| request.meta.strict_cost) else {
            return cap;
        };
        let reserved = CostMode::Strict.reserved_output(granted);
        let bytes = usize::try_from(reserved).unwrap_or(usize::MAX).min(MAX_BYTES);
        Self { tokens: cap.tokens.min(reserved), bytes, strict: true }
    }

    /// Whether a cut reply is charged by the usage that it reports.
    pub fn counts(self, usage: Usage) -> bool {
        !self.strict || usage.total_output() <= self.bytes as u64
    }

    /// Maximum bytes of a stream, including framing and keep-alives: 8 MiB, and one KiB for each token.
    pub(crate) fn wire(self) -> usize {
        let tokens = usize::try_from(self.tokens).unwrap_or(usize::MAX);
        tokens.saturating_mul(WIRE_BYTES_A_TOKEN).saturating_add(WIRE_FLOOR).min(MAX_BYTES)
    }

    /// Maximum bytes of a provider's own turn that is sent back: four times the output, for encryption and framing, and 1
    /// MiB.
    pub(crate) fn raw(self) -> usize {
        self.bytes.saturating_mul(4).saturating_add(RAW_FLOOR)
    }

    /// The reply with every field capped. Replies of this crate's decoders are capped already; those of other models may
    /// not be.
    pub fn hold(self, mut reply: ModelReply) -> ModelReply {
        // The decoders' own mark counts extra.
        let mut left = self.bytes + MARK.len();
        let mut take = |text: &mut Arc<str>| {
            let fits = text.len() <= left;
            if !fits {
                *text = text.get(..text.floor_char_boundary(left)).unwrap_or_default().into();
            }
            left -= text.len();
            fits
        };
        let mut fits = take(&mut reply.reasoning);
        fits &= take(&mut reply.text);
        if let Some(refusal) = &mut reply.refusal
            && !take(refusal)
        {
            *refusal = [&**refusal, MARK].concat().into();
            fits = false;
        }
        let calls = reply.tool_calls.iter();
        let of_calls =
            calls.map(|call| CALL_BYTES + call.id.len() + call.name.len() + call.arguments.text().len());
        fits &= of_calls.fold(0_usize, usize::saturating_add) <= left;
        if !fits {
            reply.tool_calls.clear();
            reply.raw = None;
            reply.warnings.push(CUT.into());
            if self.strict {
                reply.cost = None;
                if reply.usage.take_if(|usage| !self.counts(*usage)).is_some() {
                    reply.warnings.push(BEYOND_CUT.into());
                }
            }
            if reply.refusal.is_none() {
                (reply.finish, reply.stop) = (FinishReason::Capped, Some(ReplyEnd::Capped));
            }
        }
        for call in &mut reply.tool_calls {
            keep_word(&mut call.name);
            if call.id.len() > MAX_WORD {
                // A result that refers to a shortened id would not match the call in the provider's own turn.
                call.id = "".into();
                reply.raw = None;
            }
        }
        reply.raw = reply.raw.filter(|raw| raw.text().len() <= self.raw());
        let words = [
            &mut reply.served_model,
            &mut reply.served_tier,
            &mut reply.raw_stop,
            &mut reply.reply,
            &mut reply.request,
        ];
        for text in words.into_iter().flatten() {
            keep_word(text);
        }
        if let Some(detail) = &mut reply.stop_detail {
            *detail = short(detail, MAX_DETAIL);
        }
        reply.warnings.truncate(MAX_WARNINGS);
        let long = reply.warnings.iter_mut().filter(|warning| warning.len() > MAX_DETAIL);
        long.for_each(|warning| *warning = short(warning, MAX_DETAIL));
        reply
    }

    /// The capped text of a failed reply.
    pub fn hold_text(self, text: &Arc<str>) -> Arc<str> {
        match text.len() <= self.bytes {
            true => Arc::clone(text),
            false => text.get(..text.floor_char_boundary(self.bytes)).unwrap_or_default().into(),
        }
    }

    /// A reply that was cut at the cap, with the text received by then.
    pub fn cut(self, text: &str, usage: Option<Usage>) -> ModelReply {
        let text = text.get(..text.floor_char_boundary(self.bytes)).unwrap_or_default();
        ModelReply {
            finish: FinishReason::Capped,
            stop: Some(ReplyEnd::Capped),
            warnings: vec![CUT.into()],
            ..ModelReply::text(text, usage)
        }
    }
}

/// An id, a name or a stop reason, cut to 256 bytes.
pub(crate) fn word(text: &str) -> Arc<str> {
    short(text, MAX_WORD)
}

/// The same, without a copy where nothing is cut.
fn keep_word(text: &mut Arc<str>) {
    if text.len() > MAX_WORD {
        *text = word(text);
    }
}

/// A message of a provider, cut to 4 KiB.
pub fn line(text: &str) -> Arc<str> {
    short(text, MAX_DETAIL)
}

/// A text cut to `max` bytes, with a mark where it was longer.
fn short(text: &str, max: usize) -> Arc<str> {
    if text.len() <= max {
        return text.into();
    }
    let head = text.get(..text.floor_char_boundary(max)).unwrap_or_default();
    format!("{head}… [cut: {} of {} bytes]", head.len(), text.len()).into()
}

/// The mark at the end of a refusal that was cut.
pub(crate) const MARK: &str = "… [cut]";
/// The warning that a reply was cut at the cap.
pub(crate) const CUT: &str = "reply_cut";
/// The warning that a reply reports more than a token for each byte before the cut, and is charged its whole reserve.
pub(crate) const BEYOND_CUT: &str = "usage_beyond_cut";
/// The warning that a provider's own turn is too large to be sent back.
pub(crate) const RAW_TOO_LARGE: &str = "raw_too_large";
/// The warning that a provider's own turn is not valid JSON and is not sent back.
pub(crate) const RAW_UNREADABLE: &str = "raw_unreadable";
/// Maximum bytes of an id, a name, a model or a stop reason.
pub(crate) const MAX_WORD: usize = 256;
/// Maximum bytes of a message.
const MAX_DETAIL: usize = 4 << 10;
/// Maximum warnings of a reply.
pub(crate) const MAX_WARNINGS: usize = 64;
/// Bytes that a call counts for besides its id, name and arguments: even an empty one is output.
pub(crate) const CALL_BYTES: usize = 16;
/// Output tokens of a call without a limit.
const UNLIMITED: u64 = 128 << 10;
/// Tokens above twice the limit.
const FLOOR_TOKENS: u64 = 256;
/// Maximum average bytes of a token in a reply. Prose has about four, code three.
const BYTES_A_TOKEN: u64 = 8;
/// Bytes of a stream for each token, including framing.
const WIRE_BYTES_A_TOKEN: usize = 1 << 10;
/// Bytes of a stream that belong to no token, such as an echo of the request and keep-alives.
const WIRE_FLOOR: usize = 8 << 20;
/// Maximum bytes of any cap.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of a provider's own turn that the model did not write, such as results of server tools.
const RAW_FLOOR: usize = 1 << 20;
