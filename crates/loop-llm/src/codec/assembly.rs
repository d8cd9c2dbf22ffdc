//! A reply while it is coming: what a protocol tells, put together in neutral terms.

use std::collections::VecDeque;
use std::sync::Arc;

use loop_core::{PicoUsd, ToolCall, Usage};

use super::calls::{Calls, MAX_ARGUMENTS};
use super::escape;
use super::names::Aliases;
use crate::call::{Filtered, ReplyEnd};
use crate::cap::{self, MAX_WARNINGS, MAX_WORD, OutputCap, word};
use crate::error::{LlmError, LlmErrorKind, Partial};
use crate::model::{ModelEvent, ModelReply};
use crate::raw::Raw;
use crate::secrets::{Masker, Secrets};

/// The reply so far, and the events that are still to be told.
///
/// Whatever stands in it is masked: `[masked]` in place of a secret.
#[derive(Debug)]
pub(crate) struct Assembly {
    items: VecDeque<Result<ModelEvent, LlmError>>,
    aliases: Aliases,
    secrets: Secrets,
    /// Whether bytes of the event that is being read were no UTF-8.
    pub(super) is_damaged: bool,
    has_begun: bool,
    /// Whether the last event was a sign of life.
    is_kept_alive: bool,
    received: usize,
    text_masker: Masker,
    reasoning_masker: Masker,
    id: Option<Arc<str>>,
    model: Option<Arc<str>>,
    tier: Option<Arc<str>>,
    text: String,
    reasoning: String,
    refusal: String,
    /// Whether the provider did something that is neither text nor a call of ours.
    has_other: bool,
    calls: Calls,
    stop: Option<(Arc<str>, ReplyEnd)>,
    stop_detail: Option<Arc<str>>,
    filtered: Option<Filtered>,
    usage: Option<Usage>,
    cost: Option<PicoUsd>,
    warnings: Vec<Arc<str>>,
    is_over: bool,
    cap: OutputCap,
    /// Bytes that it may still say.
    left: usize,
    /// Whether it was to say more than it may.
    is_capped: bool,
    /// Whether the word for the end has come, and the end has not.
    is_closing: bool,
}

/// What a server said about the tokens of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// Nothing.
    Nothing,
    /// Something that cannot be counted with: a count is missing, negative or absurd.
    Unusable,
    /// These counts; `is_odd` where they contradicted each other and were made to fit.
    Counts { usage: Usage, is_odd: bool },
}

impl Assembly {
    pub(super) fn new(aliases: Aliases, secrets: Secrets, cap: OutputCap) -> Self {
        Self {
            items: VecDeque::new(),
            text_masker: Masker::new(&secrets),
            reasoning_masker: Masker::new(&secrets),
            aliases,
            secrets,
            is_damaged: false,
            has_begun: false,
            is_kept_alive: false,
            received: 0,
            id: None,
            model: None,
            tier: None,
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            has_other: false,
            calls: Calls::default(),
            stop: None,
            stop_detail: None,
            filtered: None,
            usage: None,
            cost: None,
            warnings: Vec::new(),
            is_over: false,
            cap,
            left: cap.bytes,
            is_capped: false,
            is_closing: false,
        }
    }

    // ---- what a protocol tells

    /// The reply has begun. It may be said again, with more; what was said first stays.
    pub(crate) fn begin(&mut self, id: Option<&str>, model: Option<&str>) {
        if self.id.is_none() {
            self.id = id.map(|id| word(&self.secrets.mask(id)));
        }
        if self.model.is_none() {
            self.model = model.map(|model| word(&self.secrets.mask(model)));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.tell(ModelEvent::Started { reply: self.id.clone(), model: self.model.clone() });
        }
    }

    /// A piece of visible text.
    pub(crate) fn say(&mut self, piece: &str) {
        self.damage("invalid_utf8");
        self.received += piece.len();
        let piece = self.fitting(piece);
        let reported = self.text_masker.push(piece);
        self.add_text(&reported);
    }

    /// A piece of reasoning.
    pub(crate) fn reason(&mut self, piece: &str) {
        self.damage("invalid_utf8");
        self.received += piece.len();
        let piece = self.fitting(piece);
        let reported = self.reasoning_masker.push(piece);
        self.add_reasoning(&reported);
    }

    /// A piece of a refusal.
    pub(crate) fn refuse(&mut self, piece: &str) {
        self.received += piece.len();
        let piece = self.fitting(piece);
        self.refusal.push_str(piece);
    }

    /// The provider did something that counts as a reply and is neither text nor a call of ours.
    pub(crate) fn did_other(&mut self) {
        self.has_other = true;
        self.received += 1;
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// A new call; `index` is its place among the reply's calls, as the provider numbers them. `None` where it is not read
    /// since too many came before it: then `id` tells its first fragment from its later ones, and what it holds is to be
    /// [passed over](Self::pass_over).
    pub(crate) fn add_call(&mut self, id: &str, index: Option<u64>) -> Option<usize> {
        self.received += 1;
        let at = self.calls.add(id, index, &self.secrets);
        if at.is_none() {
            self.pass_over(id.len());
        }
        at
    }

    /// A call that is not read, of this id and at this place: it is counted once.
    pub(crate) fn leave_call(&mut self, id: &str, index: Option<u64>) {
        self.calls.leave(id, index);
        self.pass_over(id.len());
    }

    /// More came than can be kept apart: the reply is cut here.
    pub(crate) fn overflows(&mut self) {
        self.is_capped = true;
    }

    /// So many bytes of calls that are not read: they count like those that are.
    pub(crate) fn pass_over(&mut self, bytes: usize) {
        self.received += bytes;
        self.count(bytes);
    }

    /// What is known of a call's id and name; what was known first stays.
    pub(crate) fn name_call(&mut self, at: usize, id: &str, name: &str) {
        if id.is_empty() && name.is_empty() {
            return;
        }
        // An id that is no id is none: one is made for it.
        let id = if id.len() > MAX_WORD { "" } else { id };
        let mut stated = 0;
        if let Some(call) = self.calls.get_mut(at) {
            if call.id.is_empty() && !id.is_empty() {
                stated += id.len();
                id.clone_into(&mut call.id);
            }
            if call.is_nameless() && !name.is_empty() {
                call.name = word(name).as_ref().to_owned();
                stated += call.name.len();
            }
        }
        self.received += stated;
        self.count(stated);
        self.tell_call(at, /*is_over*/ false);
    }

    /// A piece of a call's arguments. The reply is cut where they are too long.
    ///
    /// # Errors
    /// They were no UTF-8.
    pub(crate) fn add_arguments(&mut self, at: usize, piece: &str) -> Result<(), LlmError> {
        if self.is_damaged {
            return Err(LlmError::unreadable("a tool call that is not UTF-8"));
        }
        let piece = self.fitting(piece);
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.arguments.len() + piece.len() > MAX_ARGUMENTS {
            self.is_capped = true;
            return Ok(());
        }
        self.received += piece.len();
        call.arguments.push_str(piece);
        self.tell_call(at, /*is_over*/ false);
        Ok(())
    }

    /// A call's arguments as a whole, which hold whatever the pieces said. The reply is cut where they are too long.
    ///
    /// # Errors
    /// They were no UTF-8.
    pub(crate) fn set_arguments(&mut self, at: usize, whole: &str) -> Result<(), LlmError> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.arguments == whole {
            return Ok(());
        }
        if let Some(rest) = whole.strip_prefix(&call.arguments) {
            let rest = rest.to_owned();
            return self.add_arguments(at, &rest);
        }
        if whole.len() > MAX_ARGUMENTS {
            self.is_capped = true;
            return Ok(());
        }
        let more = whole.len().saturating_sub(call.arguments.len());
        whole.clone_into(&mut call.arguments);
        self.count(more);
        self.warn("arguments_replaced");
        Ok(())
    }

    /// Tokens so far, in place of what was said before.
    pub(crate) fn set_usage(&mut self, reported: UsageReport) {
        match reported {
            UsageReport::Nothing => {}
            UsageReport::Unusable => {
                self.usage = None;
                self.warn("usage_unusable");
            }
            UsageReport::Counts { usage, is_odd } => {
                if is_odd {
                    self.warn("usage_inconsistent");
                }
                // Whether no tokens at all can be true shows at the end.
                if self.usage.replace(usage) != Some(usage) && usage != Usage::default() {
                    self.tell(ModelEvent::Usage(usage));
                }
            }
        }
    }

    /// What the server itself says that the call cost, in dollars. Nothing is no price.
    pub(crate) fn set_cost(&mut self, dollars: f64) {
        let pico = (dollars * PicoUsd::PER_USD as f64).round();
        if pico >= 1.0 && pico < u64::MAX as f64 {
            self.cost = Some(PicoUsd(pico as u64));
        }
    }

    /// The class of service that served.
    pub(crate) fn set_tier(&mut self, tier: &str) {
        self.tier = Some(word(&self.secrets.mask(tier)));
    }

    /// The word for the end, and what it means. Of several the first holds, unless a later one takes more back.
    pub(crate) fn stop(&mut self, word: &str, stop: ReplyEnd) {
        let word = cap::word(&self.secrets.mask(word));
        match &mut self.stop {
            None => self.stop = Some((word, stop)),
            Some((first, _)) if **first == *word => {}
            Some(reported) => {
                if severity(stop) > severity(reported.1) {
                    *reported = (word, stop);
                }
                self.warn("second_finish_reason");
            }
        }
    }

    /// More on why it ended.
    pub(crate) fn set_stop_detail(&mut self, detail: &str) {
        self.stop_detail = Some(cap::line(&self.secrets.mask(detail)));
    }

    /// Which side of the call a filter stopped.
    pub(crate) fn set_filtered(&mut self, side: Filtered) {
        self.filtered = Some(side);
    }

    /// Whether the word for the end has come.
    pub(crate) fn is_ending(&self) -> bool {
        self.stop.is_some()
    }

    /// The word for the end has come: what is left to come costs nothing more.
    pub(crate) fn closes(&mut self) {
        self.is_closing = true;
    }

    /// Nothing that comes from here on belongs to the reply.
    pub(crate) fn over(&mut self) {
        self.is_over = true;
    }

    /// Something that was not as it should be, once.
    pub(crate) fn warn(&mut self, warning: &str) {
        let is_new = !self.warnings.iter().any(|known| **known == *warning);
        if is_new && self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning.into());
        }
    }

    /// A sign of life; of several on end the first is told.
    pub(crate) fn keep_alive(&mut self) {
        if !self.is_kept_alive {
            self.items.push_back(Ok(ModelEvent::KeepAlive));
            self.is_kept_alive = true;
        }
    }

    /// Whether bytes of what is being read were no UTF-8.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// The credentials of the call, to be kept out of messages.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// As much of a piece as the reply may still say.
    fn fitting<'a>(&mut self, piece: &'a str) -> &'a str {
        let piece = match piece.len() <= self.left {
            true => piece,
            false => {
                self.is_capped = true;
                piece.get(..piece.floor_char_boundary(self.left)).unwrap_or_default()
            }
        };
        self.left -= piece.len();
        piece
    }

    /// Counts bytes that are kept whole.
    fn count(&mut self, bytes: usize) {
        self.is_capped |= bytes > self.left;
        self.left = self.left.saturating_sub(bytes);
    }

    // ---- what the decoder does with it

    /// Whether it was to say more than it may, or has used more tokens than it may, by what was told before its end.
    pub(super) fn is_beyond_cap(&self) -> bool {
        self.is_capped || self.reports_beyond_cap()
    }

    /// Whether more tokens were reported before its end than it may have.
    pub(super) fn reports_beyond_cap(&self) -> bool {
        let tokens = self.usage.filter(|_| self.is_open()).map_or(0, |usage| usage.total_output());
        tokens > self.cap.tokens
    }

    /// Whether its end is still to come: what is reported until then are the tokens of a part.
    fn is_open(&self) -> bool {
        self.stop.is_none() && !self.is_closing
    }

    /// Cuts it here. The provider may go on: tokens that were reported by now are not those of the whole.
    pub(super) fn cap(&mut self) {
        self.is_capped = true;
        if self.is_open() {
            self.usage = None;
        }
        self.warn(cap::CUT);
        if self.stop.is_none() {
            self.stop = Some((Arc::default(), ReplyEnd::Capped));
        }
    }

    /// Whether a reply of the protocol had begun.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether nothing at all came of it.
    pub(super) fn is_silent(&self) -> bool {
        self.is_mute() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// A number that grows with everything that the reply says.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// Whether nothing can be shown of it.
    pub(super) fn is_mute(&self) -> bool {
        self.text.trim().is_empty() && self.refusal.is_empty()
    }

    /// The events that are still to be told.
    pub(super) fn take_items(&mut self) -> Vec<Result<ModelEvent, LlmError>> {
        std::mem::take(&mut self.items).into()
    }

    /// The first of them.
    pub(super) fn next_item(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        self.items.pop_front()
    }

    /// The last item.
    pub(super) fn give(&mut self, last: Result<ModelEvent, LlmError>) {
        self.items.push_back(last);
    }

    /// Tells what was held back.
    pub(super) fn settle(&mut self) {
        let (text, reasoning) = (self.text_masker.finish(), self.reasoning_masker.finish());
        self.add_reasoning(&reasoning);
        self.add_text(&text);
        self.drop_empty_usage();
    }

    /// What had come of a reply that failed.
    pub(super) fn partial(&self) -> Box<Partial> {
        Box::new(Partial {
            text: self.text.as_str().into(),
            reasoning: self.reasoning.as_str().into(),
            served_model: self.model.clone(),
            usage: self.usage.filter(|_| !self.is_open()),
            usage_so_far: self.usage.filter(|_| self.is_open()),
        })
    }

    /// Why it ended, by all that is known: calls decide, unless it was cut, refused or filtered.
    pub(super) fn ending(&self) -> ReplyEnd {
        let has_calls = self.calls.has_named();
        match self.stop.as_ref().map_or(ReplyEnd::Other, |(_, stop)| *stop) {
            _ if !self.refusal.is_empty() => ReplyEnd::Refusal,
            _ if self.is_capped => ReplyEnd::Capped,
            stop @ (ReplyEnd::Refusal
            | ReplyEnd::ContentFilter
            | ReplyEnd::MalformedToolCall
            | ReplyEnd::MaxTokens
            | ReplyEnd::ContextWindow
            | ReplyEnd::Capped
            | ReplyEnd::PauseTurn
            | ReplyEnd::Compaction) => stop,
            _ if has_calls => ReplyEnd::ToolUse,
            ReplyEnd::ToolUse => ReplyEnd::MalformedToolCall,
            // It wanted something, and nobody can know what.
            ReplyEnd::EndTurn if self.is_blank() && !self.calls.is_empty() => ReplyEnd::MalformedToolCall,
            ReplyEnd::EndTurn if self.is_blank() => ReplyEnd::Empty,
            stop => stop,
        }
    }

    /// Whether it has neither text nor anything that the provider did.
    fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && !self.has_other
    }

    /// Whether the calls of a reply that ended like this are meant.
    pub(super) fn keeps_calls(&self) -> bool {
        self.ending() == ReplyEnd::ToolUse
    }

    /// The whole reply; `raw` is what the protocol wants to go back.
    pub(super) fn finish(
        &mut self,
        origin: &str,
        raw: impl FnOnce(/*has_new_ids*/ bool, /*has_nameless*/ bool, &[ToolCall]) -> Option<String>,
    ) -> ModelReply {
        let stop = self.ending();
        let keeps_calls = self.keeps_calls();
        if !self.calls.is_empty() {
            for at in 0..self.calls.open().len() {
                self.tell_call(at, /*is_over*/ true);
            }
        }
        let mut tool_calls = self.calls.finish(&self.aliases, &self.secrets);
        if self.calls.has_nameless {
            self.warn("call_without_name");
        }
        if !keeps_calls && !tool_calls.is_empty() {
            // What was cut off may be incomplete, and what was refused is not meant.
            tool_calls.clear();
            self.warn("dropped_partial_calls");
        }
        let unread_calls = if keeps_calls { self.calls.unread() } else { 0 };
        let (has_new_ids, has_nameless) = (self.calls.has_new_ids, self.calls.has_nameless);
        // Calls that are not read would be without results in it.
        let is_whole = !self.is_capped && self.calls.unread() == 0;
        let mut raw = if is_whole { raw(has_new_ids, has_nameless, &tool_calls) } else { None };
        if raw.as_ref().is_some_and(|json| json.len() > self.cap.raw()) {
            self.warn(cap::RAW_TOO_LARGE);
            raw = None;
        }
        // Half a surrogate pair was read over; no server would take it back.
        if raw.as_ref().is_some_and(|json| !escape::is_sound(json)) {
            self.warn(cap::RAW_UNREADABLE);
            raw = None;
        }
        let raw = raw.map(|json| Raw::new(origin, &self.secrets.mask_json(&json)));
        let refusal = (!self.refusal.is_empty()).then(|| {
            let mark = if self.is_capped { cap::MARK } else { "" };
            [&*self.secrets.mask(&self.refusal), mark].concat().into()
        });
        ModelReply {
            finish: stop.finish(),
            cost: self.cost,
            served_model: self.model.take(),
            served_tier: self.tier.take(),
            raw,
            warnings: std::mem::take(&mut self.warnings),
            tool_calls,
            unread_calls,
            refusal,
            reasoning: std::mem::take(&mut self.reasoning).into(),
            stop: Some(stop),
            stop_detail: self.stop_detail.take(),
            filtered: self
                .filtered
                .or((stop == ReplyEnd::ContentFilter).then_some(Filtered::Output))
                .filter(|_| stop == ReplyEnd::ContentFilter),
            raw_stop: self.stop.take().map(|(word, _)| word).filter(|word| !word.is_empty()),
            reply: self.id.take(),
            ..ModelReply::text(std::mem::take(&mut self.text), self.usage)
        }
    }

    fn tell(&mut self, event: ModelEvent) {
        self.is_kept_alive = false;
        self.received += 1;
        self.items.push_back(Ok(event));
    }

    fn damage(&mut self, warning: &str) {
        if self.is_damaged {
            self.warn(warning);
        }
    }

    fn add_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            self.tell(ModelEvent::TextDelta { text: piece.into() });
        }
    }

    fn add_reasoning(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.reasoning.push_str(piece);
            self.tell(ModelEvent::ReasoningDelta { text: piece.into() });
        }
    }

    fn tell_call(&mut self, at: usize, is_over: bool) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let nth = u32::try_from(at).unwrap_or(u32::MAX);
        let (begins, arguments) = call.news(is_over);
        let arguments = (!arguments.is_empty()).then(|| arguments.into());
        if begins {
            let name = self.aliases.name(&self.secrets.mask(&call.name));
            self.tell(ModelEvent::ToolCallStarted { nth, name });
        }
        if let Some(text) = arguments {
            self.tell(ModelEvent::ToolArgumentsDelta { nth, text });
        }
    }

    /// Whoever says something has used tokens.
    fn drop_empty_usage(&mut self) {
        let is_empty = self.usage.is_some_and(|usage| usage.total_output() == 0);
        if is_empty && (!self.is_mute() || !self.reasoning.is_empty() || !self.calls.is_empty()) {
            self.usage = None;
            self.warn("usage_empty");
        }
    }
}

/// How much of a reply an end takes back.
fn severity(stop: ReplyEnd) -> u8 {
    match stop {
        ReplyEnd::Refusal | ReplyEnd::ContentFilter => 2,
        ReplyEnd::MalformedToolCall => 1,
        _ => 0,
    }
}

/// The error of a reply that ended without saying why.
pub(super) fn interrupted(kind: LlmErrorKind, message: &str) -> LlmError {
    LlmError::new(kind, crate::error::ErrorPhase::Stream, message)
}
