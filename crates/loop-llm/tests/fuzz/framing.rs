//! Framing of streams: a reply is the same in whatever pieces its bytes come. L14, L15, I-19.

use loop_core::secrets::Secrets;
use loop_llm::codec::{Aliases, Codec};
use loop_llm::{LlmError, Message, ModelEvent, ModelRequest, Profile};
use loop_testkit::fuzz::Bytes;

const PROFILES: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

/// The first byte names the protocol, the second how the rest is cut.
pub(crate) fn target(data: &[u8]) {
    let mut bytes = Bytes::of(data);
    let profile: &str = bytes.one::<&str>(&PROFILES);
    let codec = Codec::new(Profile::named(profile).unwrap());
    let cut = usize::from(bytes.take());
    let body = data.get(2..).unwrap_or_default();
    let whole = decoded(&codec, [body].into_iter());
    assert_eq!(decoded(&codec, body.chunks(1)), whole, "byte by byte");
    assert_eq!(decoded(&codec, body.chunks(cut + 2)), whole, "in pieces of {}", cut + 2);
    let (head, tail) = body.split_at(cut.min(body.len()));
    assert_eq!(decoded(&codec, [head, &[], tail].into_iter()), whole, "cut at {cut}");
    let last = whole.iter().filter(|item| item.starts_with("Ok(Finished") || item.starts_with("Err")).count();
    assert_eq!(last, 1, "one end: {whole:?}");
    assert!(whole.last().is_some_and(|item| !item.starts_with("Ok(Text")), "the end is the last: {whole:?}");
}

/// The items of a body. Pieces of text that follow each other are one.
fn decoded<'a>(codec: &Codec, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let request = ModelRequest { messages: vec![Message::user("Hello")], ..ModelRequest::new("m", "", "") };
    let mut decoder = codec.decoder(&request, Aliases::default(), Secrets::default());
    let mut items: Vec<Result<ModelEvent, LlmError>> = Vec::new();
    for piece in pieces {
        items.extend(decoder.push(piece));
    }
    items.extend(decoder.finish());
    items.iter().map(|item| format!("{item:?}")).collect()
}
