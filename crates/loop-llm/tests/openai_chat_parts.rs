//! Chat streams of which a part is not read, or does not come.

use loop_core::types::{FailureKind, Usage};
use loop_llm::ModelEvent;
use serde_json::json;

use crate::common::sse;
use crate::openai_chat_decode::{decode, fragment, granted_much, stop, text};

// P5
#[test]
fn fragments_of_calls_that_are_not_read_are_counted_once_and_stay_apart() {
    let begin = |nth: usize, index: Option<usize>, id: &str| {
        let mut call = json!({"id": id, "function": {"name": format!("f{nth}"), "arguments": ""}});
        if let Some(index) = index {
            call["index"] = index.into();
        }
        fragment(call)
    };
    let more = |index: Option<usize>, piece: &str| {
        let mut call = json!({"function": {"arguments": piece}});
        if let Some(index) = index {
            call["index"] = index.into();
        }
        fragment(call)
    };
    // By their index, by their id alone, and with one index for all, as some servers number them.
    for place in [Some, |_| None, |_| Some(0)] as [fn(usize) -> Option<usize>; 3] {
        let chunks = (0..300).flat_map(|nth| {
            let again = begin(nth, place(nth), &format!("c{nth}"));
            [again.clone(), more(place(nth), "{\"n\":"), again, more(place(nth), "1}")]
        });
        // Where all have one place, pieces without an id belong to nobody in particular.
        let chunks = chunks.filter(|chunk| place(1) != Some(0) || chunk.to_string().contains("\"id\":\"c"));
        let mut chunks: Vec<_> = chunks.collect();
        chunks.push(stop("tool_calls"));
        let items = decode(&[sse(&chunks).as_bytes()]);
        let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { panic!("{items:?}") };
        assert_eq!((reply.tool_calls.len(), reply.unread_calls), (128, 172));
        assert_eq!(reply.raw, None);
        if place(1) != Some(0) {
            assert!(reply.tool_calls.iter().all(|call| &**call.arguments.text() == "{\"n\":1}"));
        }
    }
}

// P4
#[test]
fn a_count_in_every_chunk_is_not_that_of_the_whole_where_the_stream_breaks() {
    let mut counted = text("So far");
    counted["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 2});
    let mut decoder = granted_much();
    decoder.push(sse(&[counted]).as_bytes());
    let broken = decoder.interrupt(FailureKind::StreamInterrupted, "gone").pop().unwrap();
    let partial = *broken.unwrap_err().partial.unwrap();
    let so_far = Usage { input: 9, output: 2, ..Usage::default() };
    assert_eq!((partial.usage, partial.usage_so_far), (None, Some(so_far)));
}
