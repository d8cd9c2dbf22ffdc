//! Our own cap on what a reply may hold, for servers that ignore the limit that they were given.
//!
//! A provider bounds a reply by `max_output_tokens`. Some servers do not, and then a reply would cost, and hold, whatever
//! they like. So everything that a reply says is counted: text, reasoning, the words of a refusal, and the ids, names and
//! arguments of calls. A reply that says more than the cap ends there as [`ReplyEnd::Capped`], and the connection is closed.

use std::sync::Arc;

use loop_core::FinishReason;

use crate::call::ReplyEnd;
use crate::model::ModelReply;

/// What one reply may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCap {
    /// Output tokens that a stream may report before it ends: twice what was granted, and 256.
    pub tokens: u64,
    /// Bytes of all that it says: eight for each of these tokens.
    pub bytes: usize,
}

impl OutputCap {
    /// The cap of a call that was granted so many output tokens. Without a limit of its own a call counts as granted
    /// 131,072, which is what the largest models write.
    pub fn of(max_output_tokens: Option<u64>) -> Self {
        let tokens = max_output_tokens.unwrap_or(UNLIMITED).saturating_mul(2).saturating_add(FLOOR_TOKENS);
        let bytes = usize::try_from(tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX);
        Self { tokens, bytes: bytes.min(MAX_BYTES) }
    }

    /// Bytes of a stream, its frames and signs of life included: 8 MiB, and one KiB a token.
    pub(crate) fn wire(self) -> usize {
        let tokens = usize::try_from(self.tokens).unwrap_or(usize::MAX);
        tokens.saturating_mul(WIRE_BYTES_A_TOKEN).saturating_add(WIRE_FLOOR).min(MAX_BYTES)
    }

    /// Bytes of a provider's own turn that goes back unchanged: what it says, four times for encryption and its frame, and
    /// 1 MiB.
    pub(crate) fn raw(self) -> usize {
        self.bytes.saturating_mul(4).saturating_add(RAW_FLOOR)
    }

    /// The reply with every field of it capped. What our own decoders made is within it already; another model may not be.
    pub fn hold(self, mut reply: ModelReply) -> ModelReply {
        // What our own decoders cut has its mark already.
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
        let of_calls = calls.map(|call| call.id.len() + call.name.len() + call.arguments.text().len());
        fits &= of_calls.fold(0_usize, usize::saturating_add) <= left;
        if !fits {
            reply.tool_calls.clear();
            reply.raw = None;
            reply.warnings.push(CUT.into());
            if reply.refusal.is_none() {
                (reply.finish, reply.stop) = (FinishReason::Capped, Some(ReplyEnd::Capped));
            }
        }
        for call in &mut reply.tool_calls {
            call.name = word(&call.name);
            if call.id.len() > MAX_WORD {
                // A result that names it would not find its call in the provider's turn.
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
            *text = word(text);
        }
        if let Some(detail) = &mut reply.stop_detail {
            *detail = short(detail, MAX_DETAIL);
        }
        reply.warnings.truncate(MAX_WARNINGS);
        reply.warnings.iter_mut().for_each(|warning| *warning = short(warning, MAX_DETAIL));
        reply
    }

    /// What came of a reply that failed, capped.
    pub fn hold_text(self, text: &Arc<str>) -> Arc<str> {
        match text.len() <= self.bytes {
            true => Arc::clone(text),
            false => text.get(..text.floor_char_boundary(self.bytes)).unwrap_or_default().into(),
        }
    }

    /// A reply that was cut here, of which this much had come.
    pub fn cut(self, text: &str, usage: Option<loop_core::Usage>) -> ModelReply {
        let text = text.get(..text.floor_char_boundary(self.bytes)).unwrap_or_default();
        ModelReply {
            finish: FinishReason::Capped,
            stop: Some(ReplyEnd::Capped),
            warnings: vec![CUT.into()],
            ..ModelReply::text(text, usage)
        }
    }
}

/// An id, a name or a word of a provider, of at most 256 bytes.
pub(crate) fn word(text: &str) -> Arc<str> {
    short(text, MAX_WORD)
}

/// A line of a provider on something, of at most 4 KiB.
pub fn line(text: &str) -> Arc<str> {
    short(text, MAX_DETAIL)
}

/// A text of at most `max` bytes, with a mark where it was longer.
fn short(text: &str, max: usize) -> Arc<str> {
    if text.len() <= max {
        return text.into();
    }
    let head = text.get(..text.floor_char_boundary(max)).unwrap_or_default();
    format!("{head}… [cut: {} of {} bytes]", head.len(), text.len()).into()
}

/// What stands behind the words of a refusal that was cut.
pub(crate) const MARK: &str = "… [cut]";
/// The warning that a reply was cut by us.
pub(crate) const CUT: &str = "reply_cut";
/// The warning that a provider's own turn is too large to go back.
pub(crate) const RAW_TOO_LARGE: &str = "raw_too_large";
/// The warning that a provider's own turn holds what no JSON text may hold, and does not go back.
pub(crate) const RAW_UNREADABLE: &str = "raw_unreadable";
/// The most bytes of an id, a name, a model, the word for an end.
pub(crate) const MAX_WORD: usize = 256;
/// The most bytes of what is told in a line.
const MAX_DETAIL: usize = 4 << 10;
/// The most warnings of a reply.
pub(crate) const MAX_WARNINGS: usize = 64;
/// What is granted where no limit is given.
const UNLIMITED: u64 = 128 << 10;
/// Tokens above twice what was granted.
const FLOOR_TOKENS: u64 = 256;
/// The most bytes that a token has on the average of a reply. Prose has about four, code three.
const BYTES_A_TOKEN: u64 = 8;
/// Bytes of a stream for each token, its frame included.
const WIRE_BYTES_A_TOKEN: usize = 1 << 10;
/// Bytes of a stream for what comes with no token: an echo of the request, signs of life.
const WIRE_FLOOR: usize = 8 << 20;
/// The most bytes of anything.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of a provider's own turn for what is not the model's: results of the provider's own tools.
const RAW_FLOOR: usize = 1 << 20;
