//! Lies: named misbehaviours of a provider, a proxy or a connection.

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::types::{FailureKind, Usage};
use loop_llm::model::{ReplyEnd, Timing, stream_of};
use loop_llm::scripted::{RequestPurpose, estimated as estimated_usage};
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest, complete};

use super::behaviour::{Behaviour, Chunks, ModelStatement};

/// A named misbehaviour of a server. Each works over all four protocols.
pub struct Lie {
    /// Its name for `loopgate mock --behaviour`.
    pub name: &'static str,
    /// What the server does, in one line.
    pub about: &'static str,
    on: LieOn,
    behaviour: fn() -> Behaviour,
}

/// Which requests get the lie. The others get a correct response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LieOn {
    /// Every request.
    Every,
    /// The first request for a main call.
    Once,
    /// Every request for a main call but the first.
    Later,
    /// Every request for a main call, or for the repair of one.
    Main,
    /// Every request for a main call without results of tools.
    First,
    /// Every request for a tool selection.
    Selection,
}

impl Lie {
    /// A lie with this name and behaviour, for the requests in `on`.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        on: LieOn,
        behaviour: fn() -> Behaviour,
    ) -> Self {
        Self { name, about, on, behaviour }
    }

    /// All lies of `loopgate mock --behaviour`: of connections, gateways, streams and replies.
    pub const ALL: &'static [Self] = LIES;

    /// The lie of this name in [`ALL`](Self::ALL).
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|lie| lie.name == name)
    }

    /// The behaviour for a request. `main` is the number of the main call, from 1.
    pub(super) fn answer(&self, purpose: Option<RequestPurpose>, main: u64, has_results: bool) -> Behaviour {
        let is_main = matches!(purpose, Some(RequestPurpose::Main));
        let lies = match self.on {
            LieOn::Every => true,
            LieOn::Once => is_main && main == 1,
            LieOn::Later => is_main && main > 1,
            LieOn::Main => is_main || purpose == Some(RequestPurpose::Repair),
            LieOn::First => is_main && !has_results,
            LieOn::Selection => purpose == Some(RequestPurpose::Select),
        };
        if lies { Behaviour { is_lie: true, ..(self.behaviour)() } } else { Behaviour::model() }
    }
}

impl fmt::Debug for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lie").field("name", &self.name).field("on", &self.on).finish_non_exhaustive()
    }
}

const LIES: &[Lie] = &[
    Lie::new(
        "closed-before-headers",
        "The connection is closed before any byte of an answer",
        LieOn::Main,
        || Behaviour::raw(""),
    ),
    Lie::new("cut-mid-stream", "Every stream is cut after 600 bytes", LieOn::Main, || {
        Behaviour::model().cuts_after(600)
    }),
    Lie::new("cut-once", "The first stream is cut after 900 bytes", LieOn::Once, || {
        Behaviour::model().cuts_after(900)
    }),
    Lie::new(
        "stalls-mid-stream",
        "Every stream says nothing more after 600 bytes and stays open",
        LieOn::Main,
        || Behaviour::model().stalls_after(600),
    ),
    Lie::new(
        "slow-drip",
        "The first reply comes 64 bytes at a time, one millisecond apart",
        LieOn::Once,
        || {
            let pause = std::time::Duration::from_millis(1);
            Behaviour::model().in_chunks(Chunks::Bytes(64)).with_pause(pause)
        },
    ),
    Lie::new("html-page", "A page in HTML with status 200", LieOn::Main, || {
        Behaviour::body("<!doctype html>\n<html><body><h1>It works!</h1></body></html>\n")
            .with_content_type("text/html")
    }),
    Lie::new("empty-body", "Status 200 and no body", LieOn::Main, || Behaviour::body("")),
    Lie::new("rate-limited-once", "Status 429 once, with a wait of one second", LieOn::Once, || {
        Behaviour::status(429, LIMITED).with_header("retry-after", "1")
    }),
    Lie::new("rate-limited-for-an-hour", "Status 429 for good, with a wait of an hour", LieOn::Main, || {
        Behaviour::status(429, LIMITED).with_header("retry-after", "3600")
    }),
    Lie::new("overloaded-once", "Status 503 once, with a wait of one second", LieOn::Once, || {
        Behaviour::status(503, "").with_header("retry-after", "1")
    }),
    Lie::new(
        "overloaded-mid-stream",
        "An error of overload comes as an event after some text",
        LieOn::Main,
        || Behaviour::model().fails(FailureKind::Overloaded),
    ),
    Lie::new("unauthorized", "Status 401 for every main call", LieOn::Main, || {
        Behaviour::status(401, DENIED)
    }),
    Lie::new("unauthorized-later", "Status 401 from the second main call on", LieOn::Later, || {
        Behaviour::status(401, DENIED)
    }),
    Lie::new("zero-usage", "All tokens are reported as 0", LieOn::Every, || {
        Behaviour::model().reporting(|_| Usage::default())
    }),
    Lie::new("huge-usage", "Tokens are reported as the largest number of 64 bits", LieOn::Every, || {
        Behaviour::model().reporting(|_| Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() })
    }),
    Lie::new("empty-reply", "A reply that says nothing and ends as an answer", LieOn::Main, || {
        Behaviour::model().saying(|_, _| ModelReply::text("", None))
    }),
    Lie::new(
        "reasoning-uses-all-tokens",
        "Reasoning uses all output tokens, and no text comes",
        LieOn::Main,
        || {
            Behaviour::model().saying(|request, _| {
                let max = usize::try_from(request.max_output_tokens.unwrap_or(512).min(4_096)).unwrap_or(512);
                let (finish, stop) = (FinishReason::MaxTokens, Some(ReplyEnd::MaxTokens));
                ModelReply {
                    reasoning: "hmm ".repeat(max).into(),
                    finish,
                    stop,
                    ..ModelReply::text("", None)
                }
            })
        },
    ),
    Lie::new("refusal", "The model refuses, in the protocol's own form", LieOn::Main, || {
        Behaviour::model().saying(|_, _| ModelReply {
            refusal: Some("I will not do that.".into()),
            finish: FinishReason::Refusal,
            stop: Some(ReplyEnd::Refusal),
            ..ModelReply::text("", None)
        })
    }),
];

const LIMITED: &str = "{\"error\": {\"message\": \"Rate limit reached\", \"type\": \"rate_limit_error\"}}";
const DENIED: &str =
    "{\"error\": {\"message\": \"Invalid credentials\", \"type\": \"authentication_error\"}}";

/// A model that replaces the reply of the model behind it, or repeats it and reports its usage first. The usage is that
/// of its own reply.
#[derive(Debug)]
pub(super) struct LyingModel<'a> {
    pub(super) honest: &'a dyn ChatModel,
    pub(super) say: Option<&'a ModelStatement>,
}

#[async_trait]
impl ChatModel for LyingModel<'_> {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let honest = complete(self.honest, request).await?;
        let reported = honest.usage.filter(|_| self.say.is_none());
        let mut reply = self.say.map_or(honest.clone(), |say| say.0(request, honest));
        let usage = reported.unwrap_or_else(|| {
            let mut usage = estimated_usage(request, &reply);
            usage.output += reply.refusal.as_ref().map_or(0, |refusal| refusal.len().div_ceil(4) as u64);
            usage
        });
        reply.usage = Some(usage);
        // Its tokens are known before anything else, so that they count also where the client hangs up.
        let tokens = futures::stream::iter([Ok(ModelEvent::Usage(usage))]);
        let mut events = stream_of(reply, Timing::default());
        let started = futures::stream::iter(events.next().await);
        Ok(started.chain(tokens).chain(events).boxed())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Lie;

    #[test]
    fn each_name_is_given_once_and_each_line_is_short() {
        let mut names = BTreeSet::new();
        for lie in Lie::ALL {
            assert!(names.insert(lie.name), "{} is there twice", lie.name);
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(lie.name.chars().all(is_plain), "{}", lie.name);
            assert!((15..=110).contains(&lie.about.len()), "{}: {}", lie.name, lie.about);
        }
    }
}
