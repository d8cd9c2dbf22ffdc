//! A recorded response through our decoder: whole, byte by byte, and cut at random.

use std::collections::BTreeMap;
use std::time::SystemTime;

use loop_llm::{Aliases, Codec, LlmError, ModelEvent, ModelReply, ModelRequest, Secrets, classify};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::exchange::Exchange;

/// What our decoder made of a response.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// The reply or the error at the end; `None` where there was neither.
    pub(crate) end: Option<Result<ModelReply, LlmError>>,
    /// What is wrong with the way to it: how the bytes were cut made a difference, two ends, deltas that do not add up.
    pub(crate) faults: Vec<String>,
}

type Items = Vec<Result<ModelEvent, LlmError>>;

/// Decodes a response in all ways.
pub(crate) fn decode(exchange: &Exchange, codec: &Codec, request: &ModelRequest) -> Decoded {
    if !(200..300).contains(&exchange.status) {
        let secrets = Secrets::default();
        let error =
            classify(exchange.status, &headers(exchange), &exchange.body, SystemTime::UNIX_EPOCH, &secrets);
        return Decoded { end: Some(Err(error)), faults: Vec::new() };
    }
    let (items, faults) = all_ways(&exchange.body, &|pieces| {
        let aliases = Aliases::of(&request.tools).unwrap_or_default();
        let mut decoder = codec.decoder(request, aliases, Secrets::default());
        let mut items: Items = pieces.flat_map(|piece| decoder.push(piece)).collect();
        items.extend(decoder.finish());
        items
    });
    let end = items.into_iter().rev().find_map(|item| match item {
        Ok(ModelEvent::Finished(reply)) => Some(Ok(*reply)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    Decoded { end, faults }
}

/// The items of a body that comes as a whole, and what is wrong with them and with those of other cuts.
fn all_ways(body: &[u8], run: &dyn Fn(&mut dyn Iterator<Item = &[u8]>) -> Items) -> (Items, Vec<String>) {
    let whole = run(&mut std::iter::once(body));
    let mut faults = Vec::new();
    if run(&mut body.chunks(1)) != whole {
        faults.push("byte by byte another reply comes out".to_owned());
    }
    for seed in SEEDS {
        if run(&mut Cuts { rest: body, state: seed }) != whole {
            faults.push(format!("cut at random (seed {seed}) another reply comes out"));
        }
    }
    faults.extend(way(&whole));
    (whole, faults)
}

/// What is wrong with the items of a reply.
fn way(items: &Items) -> Vec<String> {
    let mut faults = Vec::new();
    let is_end = |item: &Result<ModelEvent, LlmError>| matches!(item, Err(_) | Ok(ModelEvent::Finished(_)));
    let ends = items.iter().filter(|item| is_end(item)).count();
    if ends != 1 {
        faults.push(format!("{ends} ends in place of one"));
    }
    if !items.last().is_some_and(is_end) {
        faults.push("the end is not the last item".to_owned());
    }
    let Some(Ok(ModelEvent::Finished(reply))) = items.last() else { return faults };
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut calls: BTreeMap<u32, (String, String)> = BTreeMap::new();
    for item in items {
        match item {
            Ok(ModelEvent::TextDelta { text: piece }) => text.push_str(piece),
            Ok(ModelEvent::ReasoningDelta { text: piece }) => reasoning.push_str(piece),
            Ok(ModelEvent::ToolCallStarted { nth, name }) => {
                if name.trim().is_empty() {
                    faults.push(format!("the call {nth} names no tool"));
                }
                calls.insert(*nth, (name.to_string(), String::new()));
            }
            Ok(ModelEvent::ToolArgumentsDelta { nth, text }) => match calls.get_mut(nth) {
                Some((_, arguments)) => arguments.push_str(text),
                None => faults.push(format!("arguments of call {nth}, which has not begun")),
            },
            _ => {}
        }
    }
    if text != *reply.text {
        faults.push("the pieces of the text do not add up to the text".to_owned());
    }
    if reasoning != *reply.reasoning {
        faults.push("the pieces of the reasoning do not add up to the reasoning".to_owned());
    }
    let reported =
        reply.tool_calls.iter().map(|call| (call.name.to_string(), call.arguments.text().to_string()));
    let is_replaced = reply.warnings.iter().any(|warning| &**warning == "arguments_replaced");
    if !reply.tool_calls.is_empty() && !is_replaced && !reported.eq(calls.into_values()) {
        faults.push("the pieces of the calls do not add up to the calls".to_owned());
    }
    faults
}

fn headers(exchange: &Exchange) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &exchange.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// Pieces of 1 to 97 bytes.
struct Cuts<'a> {
    rest: &'a [u8],
    state: u64,
}

impl<'a> Iterator for Cuts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let length = usize::try_from(self.state % 97).unwrap_or(0) + 1;
        let (piece, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

/// Where the random cuts begin.
const SEEDS: [u64; 4] = [1, 7, 1_234_567, 0x9e37_79b9_7f4a_7c15];

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(text: &str) -> Result<ModelEvent, LlmError> {
        Ok(ModelEvent::Finished(Box::new(ModelReply::text(text, None))))
    }

    #[test]
    fn a_way_has_one_end_and_pieces_that_add_up() {
        let delta = |text: &str| Ok(ModelEvent::TextDelta { text: text.into() });
        assert!(way(&vec![delta("a"), delta("b"), finished("ab")]).is_empty());
        assert_eq!(way(&vec![delta("a"), finished("ab")]).len(), 1);
        assert_eq!(way(&vec![finished(""), finished("")]).len(), 1);
        assert_eq!(way(&vec![finished(""), delta("")]), ["the end is not the last item"]);
        assert_eq!(way(&Vec::new()).len(), 2);
        // X4: a call without a name, and arguments without a call.
        let begins = |name: &str| Ok(ModelEvent::ToolCallStarted { nth: 1, name: name.into() });
        let goes_on = Ok(ModelEvent::ToolArgumentsDelta { nth: 1, text: "{}".into() });
        assert_eq!(way(&vec![begins(""), finished("")]), ["the call 1 names no tool"]);
        assert_eq!(way(&vec![goes_on, finished("")]), ["arguments of call 1, which has not begun"]);
    }

    #[test]
    fn a_decoder_that_minds_the_cuts_shows() {
        let body = "a b".repeat(100).into_bytes();
        let (items, faults) = all_ways(&body, &|pieces| vec![finished(&format!("{}", pieces.count()))]);
        assert_eq!((items.len(), faults.len()), (1, 1 + SEEDS.len() + 1));
        // This one loses pieces of a single byte.
        let loses = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let kept: Vec<u8> = pieces.filter(|piece| piece.len() != 1).flatten().copied().collect();
            let text = String::from_utf8(kept).unwrap_or_default();
            vec![Ok(ModelEvent::TextDelta { text: text.as_str().into() }), finished(&text)]
        };
        let (_, faults) = all_ways(&body, &loses);
        assert!(faults.contains(&"byte by byte another reply comes out".to_owned()));
    }

    #[test]
    fn the_cuts_lose_nothing() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        let pieces: Vec<&[u8]> = Cuts { rest: &bytes, state: 7 }.collect();
        assert!(pieces.len() > 50);
        assert_eq!(pieces.concat(), bytes);
    }
}
