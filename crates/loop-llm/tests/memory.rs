//! What is kept of a conversation changes nothing: with a memory and without one the same bytes are sent, however the
//! conversation goes on, branches off or is cut.

use std::sync::Arc;

use crate::common;

use loop_llm::codec::{Codec, Memory};
use loop_llm::profile::CacheMarks;
use loop_llm::request::AssistantTurn;
use loop_llm::{Message, ModelRequest, Profile};
use loop_testkit::{call, llm::result};

fn profiles() -> Vec<Arc<Profile>> {
    let blocks =
        Profile { cache_marks: CacheMarks::Blocks, ..(*Profile::named("anthropic").unwrap()).clone() };
    let mut profiles: Vec<_> =
        ["openai-chat", "openai-responses", "anthropic", "gemini", "mistral", "deepseek"]
            .map(|name| Profile::named(name).unwrap())
            .into();
    profiles.push(Arc::new(blocks));
    profiles
}

/// Numbers that are always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, max: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % max
    }
}

/// A question, and what came of it: an answer, or calls with their results and then an answer.
fn exchange(draw: &mut Draw, n: usize) -> Vec<Message> {
    let mut turns = vec![Message::user(format!("Question {n}, {}", "x".repeat(draw.below(200))))];
    if draw.below(3) == 0 {
        let look = |at: usize| call(&format!("call_{n}_{at}"), "look", &format!("{{\"n\":{n}}}"));
        let calls: Vec<_> = (0..1 + draw.below(3)).map(look).collect();
        let results = calls.iter().map(|call| result(&call.id, false, "found")).collect();
        turns.push(Message::Assistant(AssistantTurn { calls, ..AssistantTurn::default() }));
        turns.push(Message::Tool { results });
    }
    // A turn that says nothing is left out by some.
    turns.push(Message::assistant(if draw.below(9) == 0 { String::new() } else { format!("Answer {n}.") }));
    turns
}

#[test]
fn a_memory_changes_nothing_however_a_conversation_goes_on() {
    for profile in profiles() {
        let codec = Codec::new(Arc::clone(&profile));
        let mut draw = Draw(7);
        let memory = Memory::default();
        let mut history: Vec<Message> = Vec::new();
        let mut longest = 0;
        for n in 0..150 {
            match draw.below(20) {
                // It branches off, a little or far.
                0 => history.truncate(history.len().saturating_sub(1 + draw.below(6))),
                1 => history.truncate(history.len() / 2 + draw.below(history.len() / 2 + 1)),
                // Somebody asks about an earlier moment.
                2 if history.len() > 4 => {
                    let earlier = history.get(..1 + draw.below(history.len())).unwrap().to_vec();
                    same(&codec, earlier, &memory, &profile.name);
                }
                _ => {}
            }
            // A branch may have cut between calls and results.
            while history
                .last()
                .is_some_and(|turn| matches!(turn, Message::Assistant(turn) if !turn.calls.is_empty()))
            {
                history.pop();
            }
            history.extend(exchange(&mut draw, n));
            longest = longest.max(history.len());
            let mut requested = history.clone();
            requested.push(Message::user("And?"));
            same(&codec, requested, &memory, &profile.name);
        }
        assert!(longest > 60, "{longest}");
    }
}

fn same(codec: &Codec, messages: Vec<Message>, memory: &Memory, profile: &str) {
    let request = |memory: Memory| ModelRequest {
        messages: messages.clone(),
        memory,
        ..ModelRequest::new("m", "s", "")
    };
    let (with, without) = (codec.encode(&request(memory.clone())), codec.encode(&request(Memory::default())));
    match (with, without) {
        (Ok(with), Ok(without)) => {
            let text = |body: &loop_llm::codec::Body| String::from_utf8(body.to_bytes().to_vec()).unwrap();
            assert_eq!(text(&with.body), text(&without.body), "{profile}, {} turns", messages.len());
            assert_eq!(with.messages, without.messages);
            serde_json::from_slice::<serde_json::Value>(&with.body.to_bytes()).unwrap();
        }
        (with, without) => assert_eq!(with.map(|_| ()), without.map(|_| ()), "{profile}"),
    }
}

#[test]
fn a_long_conversation_is_sent_in_few_pieces_and_only_grows_at_its_end() {
    for profile in profiles() {
        let codec = Codec::new(Arc::clone(&profile));
        let memory = Memory::default();
        let mut draw = Draw(3);
        let mut request = ModelRequest { memory, ..ModelRequest::new("m", "s", "") };
        request.messages.clear();
        let mut before = None;
        for n in 0..256 {
            request.messages.push(Message::user(format!("Question {n}")));
            let encoded = codec.encode(&request).unwrap();
            if let Some((body, end)) = before.replace((encoded.body.clone(), encoded.messages.end)) {
                let shared = common::shared(&encoded.body, &body);
                let grows = profile.cache_marks != CacheMarks::Blocks;
                assert!(shared >= end || !grows, "{}: {shared} of {end} at {n}", profile.name);
            }
            if profile.cache_marks == CacheMarks::None {
                assert!(encoded.body.pieces().len() < 8, "{} pieces", encoded.body.pieces().len());
            }
            request
                .messages
                .extend(exchange(&mut draw, n).into_iter().skip(1).filter(|turn| !turn.text().is_empty()));
        }
    }
}

#[test]
fn what_comes_next_is_added_in_place_once_a_body_is_sent_and_never_while_it_is_on_its_way() {
    for profile in profiles() {
        let codec = Codec::new(Arc::clone(&profile));
        let question = Message::user("x".repeat(1 << 20));
        let mut request = ModelRequest { messages: vec![question], ..ModelRequest::new("m", "s", "") };
        let mut next = |n: usize| {
            request.messages.push(Message::assistant("Yes."));
            request.messages.push(Message::user(format!("And {n}?")));
            codec.encode(&request).unwrap().body
        };
        // The piece that has the question.
        let place = |body: &loop_llm::codec::Body| {
            body.pieces().iter().find(|piece| piece.len() > 1 << 20).unwrap().as_ptr() as usize
        };
        // With the second turn it gets room for more.
        drop(next(0));
        let sent = place(&next(1));
        let on_its_way = next(2);
        assert_eq!(place(&on_its_way), sent, "{}", profile.name);
        let before = on_its_way.to_bytes();
        let other = next(3);
        assert_ne!(place(&other), sent, "{}", profile.name);
        assert_eq!(on_its_way.to_bytes(), before, "{}", profile.name);
        let shared = common::shared(&other, &on_its_way);
        assert!(shared > 1 << 20 || profile.cache_marks == CacheMarks::Blocks, "{}: {shared}", profile.name);
    }
}
