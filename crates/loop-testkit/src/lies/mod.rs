//! Misbehaviours of servers that only tests serve: how a connection, a gateway, a provider or a model lies.
//!
//! Each is defined once, and served in every protocol of the mock server. What the model says is changed before it is
//! written, so that each protocol writes it in its own form; what a provider does to its events is a [`Twist`].

/// A group of lies, one a row: its name, when it lies, what it is about, and the behaviour of the server.
macro_rules! lies {
    ($($name:literal, $on:ident, $about:literal => $behaviour:expr;)*) => {
        pub(super) const LIES: &[Lie] = &[$(Lie::new($name, $about, $on, || $behaviour)),*];
    };
}

mod calls;
mod connection;
mod dialect;
mod document;
mod gateway;
mod prompt;
mod reply;
mod stream;
mod twist;
mod values;
mod words;

use loop_llm::ModelReply;
use loop_mock::{Behaviour, Lie, LieOn};

use prompt::Prompt;
use twist::{Twist, Twister};

/// All of them, by what lies, those that `loopgate mock --behaviour` knows among them.
pub fn groups() -> [(&'static str, &'static [Lie]); 8] {
    [
        ("command", Lie::ALL),
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
pub fn all() -> impl Iterator<Item = &'static Lie> {
    groups().into_iter().flat_map(|(_, lies)| lies)
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Lie> {
    all().find(|lie| lie.name == name)
}

/// What a model says in the place of an honest reply.
type Say = fn(&Prompt<'_>, ModelReply) -> ModelReply;

/// The model says this in the place of its honest reply.
fn saying(say: Say) -> Behaviour {
    Behaviour::model().saying(move |request, honest| say(&Prompt::of(request), honest))
}

/// The provider changes its events so.
fn twisted(behaviour: Behaviour, twist: Twist) -> Behaviour {
    behaviour.rewritten(move |api| {
        let mut twister = Twister::new(api, twist);
        Box::new(move |frames| twister.frames(frames))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn each_name_is_given_once_and_each_line_is_short() {
        let mut names = BTreeSet::new();
        for lie in super::all() {
            assert!(names.insert(lie.name), "{} is there twice", lie.name);
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(lie.name.chars().all(is_plain), "{}", lie.name);
            assert!((15..=110).contains(&lie.about.len()), "{}: {}", lie.name, lie.about);
        }
    }
}
