//! Servers that write on, whatever they were granted, and bill up to a token a byte: no limit that is `strict` is passed.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use common::world::{selections, unselected};
use futures::StreamExt;
use loop_core::spec::{CostMode, OpinionWhen, SecondOpinion};
use loop_core::types::{Effect, PicoUsd, Price, Tier};
use loop_llm::model::ReplyEnd;
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};
use loop_runtime::{
    RunSpec, Runner,
    models::Models,
    tools::{Registry, ToolDeclaration},
};
use loop_testkit::call;
use loop_tools::Smart;

use crate::smart::Documents;

/// Numbers that follow from a seed.
#[derive(Debug)]
struct Draw(AtomicU64);

impl Draw {
    fn below(&self, max: u64) -> u64 {
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % max
    }

    /// Few, or many.
    fn size(&self) -> usize {
        let max = [40, 3_000, 200_000][self.below(3) as usize];
        self.below(max) as usize
    }
}

const DOLLARS: PicoUsd = PicoUsd(PicoUsd::PER_USD);
const PRICE: u64 = 15_000_000;

/// A model that ignores its output limit.
#[derive(Debug)]
struct Liar(Draw);

impl Liar {
    fn reply(&self, request: &ModelRequest) -> ModelReply {
        let draw = &self.0;
        let filler = "word ".repeat(draw.size() / 5);
        let nonce = loop_llm::scripted::nonce_of(request).unwrap_or_default();
        let level = ["low", "medium", "high"][draw.below(3) as usize];
        let action = serde_json::json!({"action_type": "look", "parameters": {"target": draw.below(99).to_string()}, "priority": "required"});
        let document = common::world::answer(level, &[action]).replace("{{nonce}}", nonce);
        let many: Vec<String> = (0..draw.size() / 60).map(|n| format!("ok-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut reply = match draw.below(6) {
            0 => ModelReply::text(selections(&many), None),
            1 => ModelReply::text(filler, None),
            2 => ModelReply::text(document, None),
            _ => ModelReply::text([&*document, &*filler, &*document].concat(), None),
        };
        if draw.below(3) == 0 {
            reply.reasoning = "hm ".repeat(draw.size() / 3).into();
        }
        if draw.below(2) == 0 {
            reply.tool_calls = (0..draw.size() / 20)
                .map(|n| match draw.below(2) {
                    0 => call("", "l", "{}"),
                    _ => call(&n.to_string(), "look", r#"{"target": "ok-1"}"#),
                })
                .collect();
            (reply.stop, reply.finish) = (Some(ReplyEnd::ToolUse), ReplyEnd::ToolUse.finish());
        }
        let bytes = reply.bytes() + 16 * reply.tool_calls.len() as u64;
        let messages = request.messages.iter().map(loop_llm::Message::bytes).sum::<usize>();
        let input = draw.below((request.system.len() + messages) as u64 + 1);
        reply.usage = (draw.below(4) > 0).then(|| loop_core::types::Usage {
            input,
            output: draw.below(bytes + 1),
            ..Default::default()
        });
        // What a gateway says that it costs.
        reply.cost =
            reply.usage.filter(|_| draw.below(3) == 0).map(|usage| Price::flat(PRICE, PRICE).of(&usage));
        reply
    }
}

#[async_trait]
impl ChatModel for Liar {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let reply = self.reply(request);
        let events = match self.0.below(3) {
            0 => vec![Ok(ModelEvent::Finished(Box::new(reply)))],
            1 => {
                let mut events = vec![Ok(ModelEvent::TextDelta { text: Arc::clone(&reply.text) })];
                events.extend(reply.usage.map(|usage| Ok(ModelEvent::Usage(usage))));
                events.push(Ok(ModelEvent::Finished(Box::new(reply))));
                events
            }
            _ => return Ok(loop_llm::model::stream_of(reply, Default::default())),
        };
        Ok(futures::stream::iter(events).boxed())
    }
}

/// A tool whose results a model chooses from.
fn registry() -> Registry {
    let declaration = ToolDeclaration::new("look").title("Docs").effect(Effect::Read);
    Registry::builder().tool(Smart::new(Documents(declaration))).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_server_that_bills_up_to_a_token_a_byte_passes_a_strict_limit() {
    // T7: documents with selection, repairs, opinions and smart tools, and conversations; money and tokens.
    let mut spent = 0;
    for seed in 0..400_u64 {
        let draw = Draw(AtomicU64::new(seed << 20));
        let mut spec = if draw.below(3) == 0 {
            RunSpec::conversation("desk", unselected().models.base)
        } else if draw.below(2) == 0 {
            common::spec()
        } else {
            unselected()
        };
        spec.models.base.price = Some(Price::flat(PRICE, PRICE));
        spec.models.selector = None;
        spec.limits.cost_mode = CostMode::Strict;
        spec.limits.cost = Some(PicoUsd(DOLLARS.0 / 100 * (5 + draw.below(300))));
        spec.limits.tokens = Some(1_000 + draw.below(200_000)).filter(|_| draw.below(2) == 0);
        spec.limits.output_tokens = 256 + draw.below(8_000);
        if draw.below(3) == 0 {
            let opinion = SecondOpinion { tier: Tier::Base, when: OpinionWhen::Always };
            spec.gate.second_opinion = Some(opinion);
        }
        let limits = spec.limits.clone();
        let model = Arc::new(Liar(draw));
        let runner = Runner::new(spec, registry(), Models::one(model));
        let Ok(outcome) = runner.run(common::item()).await else { continue };
        let totals = &outcome.totals;
        assert!(
            totals.cost.known <= limits.cost.unwrap(),
            "{seed}: {} of {:?}",
            totals.cost.known,
            limits.cost
        );
        let tokens = totals.usage.total();
        assert!(limits.tokens.is_none_or(|limit| tokens <= limit), "{seed}: {tokens} of {:?}", limits.tokens);
        spent += u64::from(totals.cost.known.0 * 2 > limits.cost.unwrap().0);
    }
    assert!(spent > 40, "{spent} runs came near their limit");
}
