//! Serves a model's events in a protocol, as a stream or as a whole.

use futures::StreamExt;

use super::behaviour::Behaviour;
use super::http::{Answer, EVENT_STREAM, JSON};
use super::protocol::{
    self, ErrorDelivery, Format, Frames, Head, ModelCall, ReportedFailure, Writer, bytes_of, wire,
};
use super::server::ConnectionEnd;
use loop_core::types::{FailureKind, Usage};
use loop_llm::codec::Api;
use loop_llm::error::RetryAdvice;
use loop_llm::{ChatModel, ErrorPhase, EventStream, LlmError, ModelEvent, ModelReply};

/// A request and its response in progress.
pub(super) struct Exchange<'a, 'b> {
    pub(super) api: Api,
    /// From 1.
    pub(super) number: u64,
    /// The id of the request.
    pub(super) request: String,
    /// How the response misbehaves.
    pub(super) behaviour: &'a Behaviour,
    pub(super) answer: &'a mut Answer<'b>,
}

impl Exchange<'_, '_> {
    /// Asks the model and writes its reply.
    pub(super) async fn ask(
        mut self,
        model: &dyn ChatModel,
        requested: &ModelCall,
    ) -> Result<(), ConnectionEnd> {
        let started = self.answer.wait(model.stream(&requested.request)).await?;
        let mut events = match started {
            Ok(events) => events,
            Err(error) => return self.refuse(&error, requested).await,
        };
        let first = self.answer.wait(events.next()).await?;
        let mut head = self.head(requested);
        match &first {
            // What fails before there is anything to show still gets a status.
            Some(Err(error)) => return self.refuse(error, requested).await,
            Some(Ok(ModelEvent::Started { reply, model })) => {
                head.id = reply.as_ref().map(ToString::to_string);
                if let Some(model) = model {
                    head.model = model.to_string();
                }
            }
            Some(Ok(_)) | None => {}
        }
        let events = futures::stream::iter(first).chain(events).boxed();
        if requested.ways.streams {
            self.stream(events, head).await
        } else {
            self.whole(events, head, requested).await
        }
    }

    /// Responds with an error.
    pub(super) async fn say(
        &mut self,
        kind: FailureKind,
        message: &str,
        param: Option<&str>,
    ) -> Result<(), ConnectionEnd> {
        let words = protocol::words(self.api, kind);
        let reported = ReportedFailure { words, message, param, wait: None, request: &self.request };
        let (header, body) = protocol::error(self.api, &reported);
        self.answer.json(words.status, header.as_slice(), &bytes_of(&body)).await
    }

    /// Streams a flood of visible text.
    pub(super) async fn flood(mut self, mut bytes: u64) -> Result<(), ConnectionEnd> {
        let lines = format!("{}\n", "x".repeat(1_023)).repeat(16);
        let ways = Format { streams: true, ..Format::default() };
        let head = Head { number: self.number, id: None, model: "flood".to_owned(), input_guess: 1, ways };
        let mut writer = protocol::writer(self.api, head);
        let mut out = Frames::new();
        self.answer.events().await?;
        writer.begin(&mut out);
        while bytes > 0 {
            let length = bytes.min(lines.len() as u64);
            writer.text(lines.get(lines.len() - length as usize..).unwrap_or_default(), &mut out);
            self.write(&mut out).await?;
            bytes -= length;
        }
        writer.end(&ModelReply::text("", None), &mut out);
        self.write(&mut out).await?;
        self.answer.finish().await
    }

    /// Streams one line of this length.
    pub(super) async fn endless_line(self, bytes: u64) -> Result<(), ConnectionEnd> {
        let block = [b'x'; 8 * 1_024];
        let begin = protocol::line(self.api).as_bytes();
        self.answer.events().await?;
        self.answer.write(begin).await?;
        let mut left = bytes.saturating_sub(begin.len() as u64);
        while left > 0 {
            let length = left.min(block.len() as u64);
            self.answer.write(block.get(..length as usize).unwrap_or_default()).await?;
            left -= length;
        }
        self.answer.write(b"\n\n").await?;
        self.answer.finish().await
    }

    fn head(&self, requested: &ModelCall) -> Head {
        Head {
            number: self.number,
            id: None,
            model: requested.request.model.to_string(),
            input_guess: (requested.request.bytes() / 4).max(1) as u64,
            ways: requested.ways,
        }
    }

    async fn stream(mut self, mut events: EventStream, head: Head) -> Result<(), ConnectionEnd> {
        let is_array = head.ways.is_array;
        let rewrite = self.behaviour.rewrite.as_ref().filter(|_| !is_array);
        let mut rewrite = rewrite.map(|rewrite| rewrite.0(self.api));
        let mut writer = protocol::writer(self.api, head);
        if is_array {
            self.answer.head(200, JSON, &[], None).await?;
        } else {
            self.answer.events().await?;
        }
        let mut out = Frames::new();
        let mut reported = Progress::default();
        loop {
            let event = self.answer.wait(events.next()).await?;
            // Held until something is known of the reply, so that tokens which are known at once are in it.
            if !reported.has_begun
                && !matches!(event, Some(Ok(ModelEvent::Started { .. } | ModelEvent::Usage(_))))
            {
                writer.begin(&mut out);
                reported.has_begun = true;
            }
            match event {
                Some(Ok(ModelEvent::Finished(reply))) => {
                    let reply = self.reported_reply(*reply);
                    reported.rest(&reply, writer.as_mut(), &mut out);
                    writer.end(&reply, &mut out);
                    if let Some(rewrite) = &mut rewrite {
                        rewrite(&mut out);
                    }
                    self.write(&mut out).await?;
                    return self.answer.finish().await;
                }
                Some(Ok(ModelEvent::Usage(usage))) => {
                    self.answer.usage = Some(usage);
                    writer.usage(self.reported_usage(usage));
                }
                Some(Ok(event)) => {
                    let fails =
                        self.behaviour.fails.filter(|_| matches!(event, ModelEvent::TextDelta { .. }));
                    reported.pass_on(event, writer.as_mut(), &mut out);
                    if let Some(kind) = fails {
                        let message = "the upstream failed in the middle of its reply";
                        let error = LlmError::new(kind, ErrorPhase::Stream, message);
                        return self.break_off(&error, writer.as_mut(), out).await;
                    }
                }
                Some(Err(error)) => return self.break_off(&error, writer.as_mut(), out).await,
                None => return self.break_off(&without_end(), writer.as_mut(), out).await,
            }
            if let Some(rewrite) = &mut rewrite {
                rewrite(&mut out);
            }
            self.write(&mut out).await?;
        }
    }

    async fn whole(
        mut self,
        mut events: EventStream,
        head: Head,
        requested: &ModelCall,
    ) -> Result<(), ConnectionEnd> {
        let mut writer = protocol::writer(self.api, head);
        let mut unused = Frames::new();
        loop {
            match self.answer.wait(events.next()).await? {
                Some(Ok(ModelEvent::Finished(reply))) => {
                    let reply = self.reported_reply(*reply);
                    Progress::default().rest(&reply, writer.as_mut(), &mut unused);
                    let body = bytes_of(&writer.whole(&reply));
                    return self.answer.json(200, &[], &body).await;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return self.refuse(&error, requested).await,
                None => return self.refuse(&without_end(), requested).await,
            }
        }
    }

    /// The reported usage in place of the true one.
    fn reported_usage(&self, usage: Usage) -> Usage {
        self.behaviour.report.map_or(usage, |report| report(usage))
    }

    /// The reply with the reported usage. The true usage is noted.
    fn reported_reply(&mut self, reply: ModelReply) -> ModelReply {
        self.answer.usage = reply.usage;
        ModelReply { usage: reply.usage.map(|usage| self.reported_usage(usage)), ..reply }
    }

    async fn write(&mut self, out: &mut Frames) -> Result<(), ConnectionEnd> {
        for frame in out.drain(..) {
            self.answer.write(&frame).await?;
        }
        Ok(())
    }

    /// Responds with an error before anything of a reply was written.
    async fn refuse(&mut self, error: &LlmError, requested: &ModelCall) -> Result<(), ConnectionEnd> {
        match wire(error) {
            ErrorDelivery::ErrorWords => {
                let reported = self.reported(error);
                let status = reported.words.status;
                let (header, body) = protocol::error(self.api, &reported);
                self.answer.json(status, header.as_slice(), &bytes_of(&body)).await
            }
            ErrorDelivery::NoAnswer => Err(ConnectionEnd::Cut),
            ErrorDelivery::BrokenOff => {
                let content_type = if requested.ways.streams { EVENT_STREAM } else { JSON };
                self.answer.head(200, content_type, &[], None).await?;
                Err(ConnectionEnd::Cut)
            }
            ErrorDelivery::Nonsense => self.answer.json(200, &[], b"{").await,
        }
    }

    /// Ends a stream in progress with an error.
    async fn break_off(
        &mut self,
        error: &LlmError,
        writer: &mut dyn Writer,
        mut out: Frames,
    ) -> Result<(), ConnectionEnd> {
        match wire(error) {
            ErrorDelivery::ErrorWords => writer.fail(&self.reported(error), &mut out),
            ErrorDelivery::NoAnswer | ErrorDelivery::BrokenOff => {
                self.write(&mut out).await?;
                self.answer.flush().await?;
                return Err(ConnectionEnd::Cut);
            }
            ErrorDelivery::Nonsense => writer.nonsense(&mut out),
        }
        self.write(&mut out).await?;
        self.answer.finish().await
    }

    fn reported<'e>(&'e self, error: &'e LlmError) -> ReportedFailure<'e> {
        let wait = match error.retry {
            RetryAdvice::After(delay) => Some(delay),
            RetryAdvice::Never | RetryAdvice::Backoff | RetryAdvice::AfterChange(_) => None,
        };
        ReportedFailure {
            words: protocol::words(self.api, error.kind),
            message: &error.message,
            param: None,
            wait,
            request: &self.request,
        }
    }
}

/// How much of a reply was sent.
#[derive(Default)]
struct Progress {
    has_begun: bool,
    /// Bytes of visible text.
    text: usize,
    /// Bytes of reasoning.
    reasoning: usize,
}

impl Progress {
    fn pass_on(&mut self, event: ModelEvent, writer: &mut dyn Writer, out: &mut Frames) {
        match event {
            ModelEvent::TextDelta { text } => {
                self.text += text.len();
                writer.text(&text, out);
            }
            ModelEvent::ReasoningDelta { text } => {
                self.reasoning += text.len();
                writer.reasoning(&text, out);
            }
            ModelEvent::KeepAlive => writer.keep_alive(out),
            // Calls are sent at the end, where it is sure which of them count.
            ModelEvent::ToolCallStarted { .. }
            | ModelEvent::ToolArgumentsDelta { .. }
            | ModelEvent::ToolCallCompleted { .. }
            | ModelEvent::Started { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Finished(_) => {}
        }
    }

    /// Writes the rest of a reply at the end, if the model streamed only a part or nothing.
    fn rest(&self, reply: &ModelReply, writer: &mut dyn Writer, out: &mut Frames) {
        let reasoning = reply.reasoning.get(self.reasoning..).unwrap_or_default();
        if !reasoning.is_empty() {
            writer.reasoning(reasoning, out);
        }
        // The pieces of a refusal may have come as visible text.
        let text = reply.text.get(self.text..).unwrap_or_default();
        if !text.is_empty() {
            writer.text(text, out);
        }
        if let Some(refusal) = reply.refusal.as_deref().filter(|_| self.text <= reply.text.len()) {
            writer.refusal(refusal, out);
        }
        for call in &reply.tool_calls {
            writer.call(call, out);
        }
    }
}

fn without_end() -> LlmError {
    let message = "the model ended without its end";
    LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, message)
}
