//! Named behaviours: the ways in which a connection, a gateway, a provider or a model lies.
//!
//! Each is defined once, and served in every protocol of the server. What the model says is changed before it is
//! written, so that each protocol writes it in its own form; what a provider does to its events is a
//! [`Twist`](super::twist::Twist).

mod calls;
mod connection;
mod document;
mod gateway;
mod prompt;
mod reply;
mod stream;
mod values;
mod words;

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;

use super::behaviour::Behaviour;
use loop_llm::{
    ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest, RequestPurpose, Timing, complete,
    estimated_usage as estimated, stream_of,
};
use prompt::{Describe, Prompt};

pub use prompt::Described;

/// A named misbehaviour of a server.
pub struct Lie {
    /// Its name for `loopgate mock --behaviour`.
    pub name: &'static str,
    /// What the server does, in one line.
    pub about: &'static str,
    on: On,
    behaviour: fn() -> Behaviour,
}

/// Which requests are answered with the lie; all others are answered as a good server would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// Every request.
    Every,
    /// The first request for a main call.
    Once,
    /// Every request for a main call but the first.
    Later,
    /// Every request for a main call, or for the repair of one.
    Main,
    /// Every request for a main call that no tool has answered yet.
    First,
    /// Every selection of tools.
    Selection,
}

impl Lie {
    const fn new(name: &'static str, about: &'static str, on: On, behaviour: fn() -> Behaviour) -> Self {
        Self { name, about, on, behaviour }
    }

    /// All of them, by what lies: connections, gateways, streams, documents, values, replies, calls.
    pub fn groups() -> [(&'static str, &'static [Self]); 7] {
        [
            ("connections", connection::LIES),
            ("gateways", gateway::LIES),
            ("streams", stream::LIES),
            ("documents", document::LIES),
            ("values", values::LIES),
            ("replies", reply::LIES),
            ("calls", calls::LIES),
        ]
    }

    /// All of them, in the order of their groups.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        Self::groups().into_iter().flat_map(|(_, lies)| lies)
    }

    /// The one of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|lie| lie.name == name)
    }

    /// How a request is answered: the `main`th for a main call, from 1, where it is for one.
    pub(super) fn answer(&self, purpose: Option<RequestPurpose>, main: u64, has_results: bool) -> Behaviour {
        let is_main = matches!(purpose, Some(RequestPurpose::Main));
        let lies = match self.on {
            On::Every => true,
            On::Once => is_main && main == 1,
            On::Later => is_main && main > 1,
            On::Main => is_main || purpose == Some(RequestPurpose::Repair),
            On::First => is_main && !has_results,
            On::Selection => purpose == Some(RequestPurpose::Select),
        };
        if lies { Behaviour { is_lie: true, ..(self.behaviour)() } } else { Behaviour::model() }
    }
}

impl fmt::Debug for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lie").field("name", &self.name).field("on", &self.on).finish_non_exhaustive()
    }
}

/// What a model says in the place of an honest reply.
pub(super) type Say = fn(&Prompt<'_>, ModelReply) -> ModelReply;

/// A model that says something else than the one behind it, or that says the same and tells its tokens first. Its
/// tokens are those of what it says.
#[derive(Debug)]
pub(super) struct Liar<'a> {
    pub(super) honest: &'a dyn ChatModel,
    pub(super) say: Option<Say>,
    pub(super) describe: Describe,
}

#[async_trait]
impl ChatModel for Liar<'_> {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let honest = complete(self.honest, request).await?;
        let reported = honest.usage.filter(|_| self.say.is_none());
        let mut reply =
            self.say.map_or(honest.clone(), |say| say(&Prompt::of(request, self.describe), honest));
        let usage = reported.unwrap_or_else(|| {
            let mut usage = estimated(request, &reply);
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
        for lie in Lie::all() {
            assert!(names.insert(lie.name), "{} is there twice", lie.name);
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(lie.name.chars().all(is_plain), "{}", lie.name);
            assert!((15..=110).contains(&lie.about.len()), "{}: {}", lie.name, lie.about);
        }
    }
}
