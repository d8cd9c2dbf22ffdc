//! The reply under construction: the protocols report its parts, in neutral terms.

use std::collections::VecDeque;
use std::sync::Arc;

use loop_core::secrets::{Masker, Secrets};
use loop_core::types::{PicoUsd, Usage};

use serde_json::Value;

use super::calls::{Calls, MAX_ARGUMENTS, OpenCall};
use super::decoder::{End, Protocol};
use super::errors::within;
use super::escape;
use super::names::Aliases;
use crate::call::{Filtered, ReplyEnd};
use crate::cap::{self, CALL_BYTES, MAX_WARNINGS, MAX_WORD, OutputCap, word};
use crate::error::{LlmError, Partial};
use crate::model::{ModelEvent, ModelReply};
use crate::raw::Raw;

/// The reply so far, and the events that are not taken yet.
///
/// Its text is masked: `[masked]` in place of a secret.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    items: VecDeque<Result<ModelEvent, LlmError>>,
    /// Whether deltas that follow each other are joined until they are asked for.
    joins: bool,
    /// The delta that is not among the items yet.
    open: Delta,
    aliases: Aliases,
    secrets: Secrets,
    /// Whether the event that is being parsed contains invalid UTF-8.
    pub(crate) is_damaged: bool,
    /// Whether the beginning of a reply was parsed.
    pub(super) has_begun: bool,
    /// Whether the last event was a keep-alive: only the first of several in a row is reported.
    is_kept_alive: bool,
    /// A counter that grows with each delta.
    pub(crate) received: usize,
    text_masker: Masker,
    reasoning_masker: Masker,
    /// What is reported in words and counts; texts and calls are in the members below.
    stated: ModelReply,
    text: String,
    reasoning: String,
    refusal: String,
    /// Whether the provider ran a tool of its own or sent anything else that is neither text nor a tool call.
    has_other: bool,
    calls: Calls,
    /// Whether arguments were received that may belong to one of several calls.
    has_strays: bool,
    stop: Option<(Arc<str>, ReplyEnd)>,
    /// The bytes of a prompt that the server may cut without a word. 0: it does not.
    pub(super) sent_bytes: usize,
    pub(super) is_over: bool,
    cap: OutputCap,
    /// Bytes left before the output cap.
    left: usize,
    /// Whether the reply exceeded the output cap.
    is_capped: bool,
    /// Whether the stop reason was received, but not the end of the stream.
    is_closing: bool,
}

/// The delta that is being received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delta {
    #[default]
    Nothing,
    /// The text from this byte on.
    Text(usize),
    /// The reasoning from this byte on.
    Reasoning(usize),
    /// What was not reported of the arguments of this call.
    Arguments(usize),
}

/// What a server reported about the tokens of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// No usage.
    Nothing,
    /// A count is missing, negative or absurd.
    Unusable,
    /// `is_odd` where the counts contradicted each other and were corrected.
    Counts { usage: Usage, is_odd: bool },
}

impl Assembly {
    pub(super) fn new(aliases: Aliases, secrets: Secrets, cap: OutputCap) -> Self {
        Self {
            text_masker: Masker::new(&secrets),
            reasoning_masker: Masker::new(&secrets),
            aliases,
            secrets,
            left: cap.bytes,
            cap,
            ..Self::default()
        }
    }

    // ---- called by the protocols

    /// The reply has begun. Later calls fill in what is missing; an id or model that is known stays.
    pub(crate) fn begin(&mut self, id: Option<&str>, model: Option<&str>) {
        if self.stated.reply.is_none() {
            self.stated.reply = id.map(|id| word(&self.secrets.mask(id)));
        }
        if self.stated.served_model.is_none() {
            self.stated.served_model = model.map(|model| word(&self.secrets.mask(model)));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.tell(ModelEvent::Started {
                reply: self.stated.reply.clone(),
                model: self.stated.served_model.clone(),
            });
        }
    }

    /// A text delta.
    pub(crate) fn say(&mut self, piece: &str) {
        self.damage("invalid_utf8");
        self.received += piece.len();
        let piece = self.fitting(piece);
        let reported = self.text_masker.push(piece);
        self.add_text(&reported);
    }

    /// A reasoning delta.
    pub(crate) fn reason(&mut self, piece: &str) {
        self.damage("invalid_utf8");
        self.received += piece.len();
        let piece = self.fitting(piece);
        let reported = self.reasoning_masker.push(piece);
        self.add_reasoning(&reported);
    }

    /// A refusal delta.
    pub(crate) fn refuse(&mut self, piece: &str) {
        self.received += piece.len();
        let piece = self.fitting(piece);
        self.refusal.push_str(piece);
    }

    /// The provider ran a tool of its own or sent another block that is neither text nor a tool call.
    pub(crate) fn did_other(&mut self) {
        self.has_other = true;
        self.received += 1;
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Adds a tool call; `index` is its index as the provider numbers calls. `None` above the maximum number of calls:
    /// the call is only counted, `id` tells its first fragment from later ones, and its bytes go to
    /// [`pass_over`](Self::pass_over).
    pub(crate) fn add_call(&mut self, id: &str, index: Option<u64>) -> Option<usize> {
        self.received += 1;
        self.count(CALL_BYTES);
        let at = self.calls.add(id, index, &self.secrets);
        if at.is_none() {
            self.pass_over(id.len());
        }
        at
    }

    /// Whether a fragment with a new id goes on with this call, as servers write that make an id for each fragment.
    pub(crate) fn goes_on_with(&mut self, at: usize, name: &str) -> bool {
        self.calls.get_mut(at).is_some_and(|call| call.goes_on(name))
    }

    /// Counts a tool call above the maximum, once for each id and index.
    pub(crate) fn leave_call(&mut self, id: &str, index: Option<u64>) {
        self.calls.leave(id, index);
        self.pass_over(CALL_BYTES + id.len());
    }

    /// The reply exceeds a limit of the protocol's state: it is cut here.
    pub(crate) fn overflows(&mut self) {
        self.is_capped = true;
    }

    /// Counts the bytes of calls above the maximum against the output cap.
    pub(crate) fn pass_over(&mut self, bytes: usize) {
        self.received += bytes;
        self.count(bytes);
    }

    /// Sets id and name of a call where they are not known yet.
    pub(crate) fn name_call(&mut self, at: usize, id: &str, name: &str) {
        if id.is_empty() && name.is_empty() {
            return;
        }
        // An overlong id is dropped, and a new one is made.
        let id = if id.len() > MAX_WORD { "" } else { id };
        let mut stated = 0;
        if let Some(call) = self.calls.get_mut(at) {
            if call.id.is_empty() && !id.is_empty() {
                stated += id.len();
                id.clone_into(&mut call.id);
            }
            if call.is_nameless() && !name.is_empty() {
                call.name = word(name);
                stated += call.name.len();
            }
        }
        self.received += stated;
        self.count(stated);
        self.tell_call(at, /*is_over*/ false);
    }

    /// A fragment of a call's arguments. The reply is cut where they exceed the limit.
    ///
    /// # Errors
    /// The event contains invalid UTF-8.
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
        if call.arguments.is_empty() {
            call.arguments.reserve(ARGUMENTS_BYTES);
        }
        call.arguments.push_str(piece);
        match self.joins && call.is_reported() {
            true => self.goes_on(Delta::Arguments(at)),
            false => self.tell_call(at, /*is_over*/ false),
        }
        Ok(())
    }

    /// A call's whole arguments, in place of the fragments. The reply is cut where they exceed the limit.
    ///
    /// # Errors
    /// The event contains invalid UTF-8.
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
        // A fragment that is not reported yet is one of the text that is replaced.
        self.tell_open();
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        whole.clone_into(&mut call.arguments);
        call.is_replaced();
        self.count(more);
        self.warn("arguments_replaced");
        Ok(())
    }

    /// A call is complete: no fragment of it follows.
    pub(crate) fn end_call(&mut self, at: usize) {
        if self.is_damaged || self.is_capped {
            return;
        }
        self.tell_call(at, /*is_over*/ true);
        if self.calls.get_mut(at).is_some_and(OpenCall::completes) {
            self.tell(ModelEvent::ToolCallCompleted { nth: u32::try_from(at).unwrap_or(u32::MAX) });
        }
    }

    /// Tokens so far. Replaces the last report.
    pub(crate) fn set_usage(&mut self, reported: UsageReport) {
        match reported {
            UsageReport::Nothing => {}
            UsageReport::Unusable => {
                self.stated.usage = None;
                self.warn("usage_unusable");
            }
            UsageReport::Counts { usage, is_odd } => {
                if is_odd {
                    self.warn("usage_inconsistent");
                }
                // Some servers end with zeros, which take nothing back.
                let known = self.stated.usage.map_or(0, |usage| usage.total_output());
                if known > 0 && usage.total_output() == 0 {
                    return;
                }
                // Whether a usage of zero tokens can be true is decided at the end.
                if self.stated.usage.replace(usage) != Some(usage) && usage != Usage::default() {
                    self.tell(ModelEvent::Usage(usage));
                }
            }
        }
    }

    /// The cost in dollars that the server reports. Zero counts as unknown.
    pub(crate) fn set_cost(&mut self, dollars: f64) {
        let pico = (dollars * PicoUsd::PER_USD as f64).round();
        if pico >= 1.0 && pico < u64::MAX as f64 {
            self.stated.cost = Some(PicoUsd(pico as u64));
        }
    }

    /// The service tier that served the call.
    pub(crate) fn set_tier(&mut self, tier: &str) {
        self.stated.served_tier = Some(word(&self.secrets.mask(tier)));
    }

    /// The stop reason as the provider writes it (`word`) and as it is mapped. The first one counts, unless a later one
    /// is more severe.
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

    /// Details of the stop reason.
    pub(crate) fn set_stop_detail(&mut self, detail: &str) {
        self.stated.stop_detail = Some(cap::line(&self.secrets.mask(detail)));
    }

    /// Whether a filter stopped the input or the output.
    pub(crate) fn set_filtered(&mut self, side: Filtered) {
        self.stated.filtered = Some(side);
    }

    /// Whether the stop reason was received.
    pub(crate) fn is_ending(&self) -> bool {
        self.stop.is_some()
    }

    /// Marks the stop reason as received: what follows adds no cost.
    pub(crate) fn closes(&mut self) {
        self.is_closing = true;
    }

    /// The reply is complete: what follows in the stream is ignored.
    pub(crate) fn over(&mut self) {
        self.is_over = true;
    }

    /// Adds a warning, once.
    pub(crate) fn warn(&mut self, warning: &str) {
        let is_new = !self.stated.warnings.iter().any(|known| **known == *warning);
        if is_new && self.stated.warnings.len() < MAX_WARNINGS {
            self.stated.warnings.push(warning.into());
        }
    }

    /// A keep-alive. Of several in a row the first is reported.
    pub(crate) fn keep_alive(&mut self) {
        self.tell_open();
        if !self.is_kept_alive {
            self.items.push_back(Ok(ModelEvent::KeepAlive));
            self.is_kept_alive = true;
        }
    }

    /// The error that `data` reports in place of a reply.
    pub(crate) fn failure(&self, data: &str) -> LlmError {
        within(
            &serde_json::from_str(data).unwrap_or_else(|_| match data.starts_with(['{', '[']) {
                true => Value::Null,
                false => data.into(),
            }),
            &self.secrets,
        )
    }

    /// As much of a delta as fits into the output cap.
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

    /// Counts bytes that are not cut at the output cap.
    fn count(&mut self, bytes: usize) {
        self.is_capped |= bytes > self.left;
        self.left = self.left.saturating_sub(bytes);
    }

    // ---- called by the decoder

    /// Whether the reply exceeds the output cap, in bytes or in the tokens reported before its end.
    pub(super) fn is_beyond_cap(&self) -> bool {
        self.is_capped || self.reports_beyond_cap()
    }

    /// Whether the tokens reported before its end exceed the output cap.
    pub(super) fn reports_beyond_cap(&self) -> bool {
        let tokens = self.stated.usage.filter(|_| self.is_open()).map_or(0, |usage| usage.total_output());
        tokens > self.cap.tokens
    }

    /// Whether the stream is still open: usage reported until then covers a part of the reply.
    fn is_open(&self) -> bool {
        self.stop.is_none() && !self.is_closing
    }

    /// Cuts the reply here. The provider may continue to write, so the usage reported by now may be too low.
    pub(super) fn cap(&mut self) {
        self.is_capped = true;
        if self.is_open() {
            self.stated.usage = None;
        }
        if self.cap.strict {
            self.stated.cost = None;
            if self.stated.usage.take_if(|usage| !self.cap.counts(*usage)).is_some() {
                self.warn(cap::BEYOND_CUT);
            }
        }
        self.warn(cap::CUT);
        if self.stop.is_none() {
            self.stop = Some((Arc::default(), ReplyEnd::Capped));
        }
    }

    /// Whether no text, refusal, reasoning or call was received.
    pub(super) fn is_silent(&self) -> bool {
        self.is_mute() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// Whether there is no content to show.
    pub(super) fn is_mute(&self) -> bool {
        self.text.trim().is_empty() && self.refusal.is_empty()
    }

    /// The events that are not taken yet.
    pub(super) fn take_items(&mut self) -> Vec<Result<ModelEvent, LlmError>> {
        std::mem::take(&mut self.items).into()
    }

    /// From now on deltas that follow each other are joined until they are [asked for](Self::next_delta).
    pub(crate) fn join_deltas(&mut self) {
        self.joins = true;
    }

    /// The first of them.
    pub(crate) fn next_item(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        self.items.pop_front()
    }

    /// The delta that is being received, as far as it was.
    pub(crate) fn next_delta(&mut self) -> Option<Result<ModelEvent, LlmError>> {
        self.tell_open();
        self.items.pop_front()
    }

    /// Adds the last item.
    pub(super) fn give(&mut self, last: Result<ModelEvent, LlmError>) {
        self.items.push_back(last);
    }

    /// Reports what the maskers held back.
    pub(super) fn settle(&mut self) {
        let (text, reasoning) = (self.text_masker.finish(), self.reasoning_masker.finish());
        self.add_reasoning(&reasoning);
        self.add_text(&text);
        self.tell_open();
        self.drop_empty_usage();
        // A call is not run without the arguments that were sent.
        self.has_strays |= !self.calls.adopt();
    }

    /// The partial reply of a failed call.
    pub(super) fn partial(&self) -> Box<Partial> {
        Box::new(Partial {
            text: self.text.as_str().into(),
            reasoning: self.reasoning.as_str().into(),
            served_model: self.stated.served_model.clone(),
            usage: self.stated.usage.filter(|_| !self.is_open()),
            usage_so_far: self.stated.usage.filter(|_| self.is_open()),
        })
    }

    /// The final stop reason. Tool calls decide, unless the reply was cut, refused or filtered.
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
            _ if has_calls && self.has_strays => ReplyEnd::MalformedToolCall,
            _ if has_calls => ReplyEnd::ToolUse,
            ReplyEnd::ToolUse => ReplyEnd::MalformedToolCall,
            // It called a tool, but the call cannot be read.
            ReplyEnd::EndTurn if self.is_blank() && !self.calls.is_empty() => ReplyEnd::MalformedToolCall,
            ReplyEnd::EndTurn if self.is_blank() => ReplyEnd::Empty,
            stop => stop,
        }
    }

    /// Whether there is neither text nor anything else that the provider did.
    fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && !self.has_other
    }

    /// Warns where the server read far less than it was sent.
    fn suspect_cut(&mut self) {
        let read = self.stated.usage.map_or(0, |usage| usage.total_input());
        let bytes = self.sent_bytes as u64;
        if self.sent_bytes >= LEAST_BYTES && (1..bytes / BYTES_A_TOKEN).contains(&read) {
            self.warn(&format!(
                "context_truncated_suspected: the server read {read} tokens of a prompt of {bytes} bytes, so it cut \
                 the rest off; raise its context window (Ollama: OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size, vLLM: \
                 --max-model-len), or give it less"
            ));
        }
    }

    /// The whole reply, with the provider's own form of the turn for later requests.
    pub(super) fn finish(&mut self, origin: &str, protocol: &mut dyn Protocol) -> ModelReply {
        self.suspect_cut();
        let stop = self.ending();
        let keeps_calls = stop == ReplyEnd::ToolUse;
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
            // The last call of a cut reply may be incomplete, and calls of a refused reply are not run.
            tool_calls.clear();
            self.warn("dropped_partial_calls");
        }
        let unread_calls = if keeps_calls { self.calls.unread() } else { 0 };
        let Calls { has_new_ids, has_nameless, .. } = self.calls;
        let end = End { stop, keeps_calls, has_new_ids, has_nameless };
        // The raw turn contains the calls above the maximum, which get no result.
        let is_whole = !self.is_capped && self.calls.unread() == 0;
        let mut raw = if is_whole { protocol.raw(&end, &tool_calls) } else { None };
        if raw.as_ref().is_some_and(|json| json.len() > self.cap.raw()) {
            self.warn(cap::RAW_TOO_LARGE);
            raw = None;
        }
        // Servers refuse JSON with half a surrogate pair, which the parser accepts.
        if raw.as_ref().is_some_and(|json| !escape::is_sound(json)) {
            self.warn(cap::RAW_UNREADABLE);
            raw = None;
        }
        let raw = raw.map(|json| Raw::new(origin, &self.secrets.mask_json(&json)));
        let refusal = (!self.refusal.is_empty()).then(|| {
            let mark = if self.is_capped { cap::MARK } else { "" };
            [&*self.secrets.mask(&self.refusal), mark].concat().into()
        });
        let raw_stop = self.stop.take().map(|(word, _)| word);
        let is_filtered = stop == ReplyEnd::ContentFilter;
        let stated = std::mem::take(&mut self.stated);
        ModelReply {
            text: self.text_masker.whole(&std::mem::take(&mut self.text)).into(),
            reasoning: self.reasoning_masker.whole(&std::mem::take(&mut self.reasoning)).into(),
            finish: stop.finish(),
            stop: Some(stop),
            raw_stop: raw_stop.filter(|word| !word.is_empty()),
            filtered: stated.filtered.or(Some(Filtered::Output)).filter(|_| is_filtered),
            raw,
            tool_calls,
            unread_calls,
            refusal,
            ..stated
        }
    }

    fn tell(&mut self, event: ModelEvent) {
        self.tell_open();
        self.add_item(event);
    }

    /// A delta follows. It is joined with the one that is being received, where that is of the same kind.
    fn goes_on(&mut self, delta: Delta) {
        self.is_kept_alive = false;
        let is_same = match (self.open, delta) {
            (Delta::Text(_), Delta::Text(_)) | (Delta::Reasoning(_), Delta::Reasoning(_)) => true,
            (open, delta) => open == delta,
        };
        if !is_same {
            self.tell_open();
            self.open = delta;
        }
        if !self.joins {
            self.tell_open();
        }
    }

    /// The delta that was received becomes an item.
    fn tell_open(&mut self) {
        match std::mem::replace(&mut self.open, Delta::Nothing) {
            Delta::Nothing => {}
            Delta::Text(from) => {
                let text = self.text.get(from..).unwrap_or_default().into();
                self.add_item(ModelEvent::TextDelta { text });
            }
            Delta::Reasoning(from) => {
                let text = self.reasoning.get(from..).unwrap_or_default().into();
                self.add_item(ModelEvent::ReasoningDelta { text });
            }
            Delta::Arguments(at) => self.tell_call(at, /*is_over*/ false),
        }
    }

    fn add_item(&mut self, event: ModelEvent) {
        self.is_kept_alive = false;
        self.received += 1;
        // Events that come one by one are taken one by one; those of a whole reply come together.
        if self.items.len() == self.items.capacity() && self.items.len() >= FEW_ITEMS {
            self.items.reserve(MANY_ITEMS);
        }
        self.items.push_back(Ok(event));
    }

    fn damage(&mut self, warning: &str) {
        if self.is_damaged {
            self.warn(warning);
        }
    }

    fn add_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            if self.text.is_empty() {
                self.text.reserve(TEXT_BYTES);
            }
            let from = self.text.len();
            self.text.push_str(piece);
            self.goes_on(Delta::Text(from));
        }
    }

    fn add_reasoning(&mut self, piece: &str) {
        if !piece.is_empty() {
            let from = self.reasoning.len();
            self.reasoning.push_str(piece);
            self.goes_on(Delta::Reasoning(from));
        }
    }

    fn tell_call(&mut self, at: usize, is_over: bool) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let nth = u32::try_from(at).unwrap_or(u32::MAX);
        let (begins, arguments) = call.news(is_over, &self.aliases);
        let arguments = (!arguments.is_empty()).then(|| arguments.into());
        if begins {
            let name = call.reported_name(&self.aliases, &self.secrets);
            self.tell(ModelEvent::ToolCallStarted { nth, name });
        }
        if let Some(text) = arguments {
            self.tell(ModelEvent::ToolArgumentsDelta { nth, text });
        }
    }

    /// A reply with content cannot have used zero tokens, and no reply is made of no prompt.
    fn drop_empty_usage(&mut self) {
        let is_empty =
            self.stated.usage.is_some_and(|usage| usage.total_output() == 0 || usage.total_input() == 0);
        if is_empty && (!self.is_mute() || !self.reasoning.is_empty() || !self.calls.is_empty()) {
            self.stated.usage = None;
            self.warn("usage_empty");
        }
    }
}

/// Which of two stop reasons counts: the higher one.
fn severity(stop: ReplyEnd) -> u8 {
    match stop {
        ReplyEnd::Refusal | ReplyEnd::ContentFilter => 2,
        ReplyEnd::MalformedToolCall => 1,
        _ => 0,
    }
}

/// Bytes of a prompt a token, twice as many as usual.
const BYTES_A_TOKEN: u64 = 8;
/// A shorter prompt fits into the smallest window that a server has by default, 2,048 tokens.
const LEAST_BYTES: usize = 4 << 10;
/// From so many events on, room is made for many.
const FEW_ITEMS: usize = 4;
const MANY_ITEMS: usize = 60;
/// Room for a text, and for the arguments of a call, from their first piece on.
const TEXT_BYTES: usize = 256;
const ARGUMENTS_BYTES: usize = 64;
