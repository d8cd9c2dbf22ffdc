//! Misbehaviours of the mock server that only tests use: of a connection, a gateway, a provider or a model.
//!
//! Each lie is defined once and served in every protocol. A reply of the model is changed before it is written, so that
//! each protocol writes it in its own format. A `Twist` is what a provider does to its events.

/// Defines a group of lies, one a row: the name, the requests, a description, and the behaviour of the server.
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

/// All lies in groups, including those of `loopgate mock --behaviour`.
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

/// All lies, in the order of their groups.
pub fn all() -> impl Iterator<Item = &'static Lie> {
    groups().into_iter().flat_map(|(_, lies)| lies)
}

/// The lie of this name.
pub fn find(name: &str) -> Option<&'static Lie> {
    all().find(|lie| lie.name == name)
}

/// Replaces an honest reply of the model.
type Say = fn(&Prompt<'_>, ModelReply) -> ModelReply;

/// A behaviour that replaces the reply of the model.
fn saying(say: Say) -> Behaviour {
    Behaviour::model().saying(move |request, honest| say(&Prompt::of(request), honest))
}

/// A behaviour whose events are changed by a twist.
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
