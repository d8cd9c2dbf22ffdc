//! Whole conversations with a server that reads as strictly as Google does, and checks every signature.

use crate::common;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::foreign;
use futures::StreamExt;
use loop_core::reply::FinishReason;
use loop_core::types::ToolCall;
use loop_llm::model::ReplyEnd;
use loop_llm::options::{Effort, OutputFormat, Strictness};
use loop_llm::request::Image;
use loop_llm::{
    ChatModel, EventStream, HttpModel, LlmError, Message, ModelEvent, ModelReply, ModelRequest, Profile,
    ToolChoice, ToolDefinition, complete,
};
use loop_mock::{LoopbackServer, Service};
use loop_testkit::{call, llm::result};
use serde_json::json;

/// Gives its replies one after the other.
#[derive(Debug)]
struct Replies(Mutex<VecDeque<ModelReply>>);

#[async_trait]
impl ChatModel for Replies {
    async fn stream(&self, _: &ModelRequest) -> Result<EventStream, LlmError> {
        let reply = self.0.lock().unwrap().pop_front().unwrap();
        Ok(futures::stream::iter([Ok(ModelEvent::Finished(Box::new(reply)))]).boxed())
    }
}

fn serve(replies: impl IntoIterator<Item = ModelReply>) -> LoopbackServer {
    let replies = Replies(Mutex::new(replies.into_iter().collect()));
    LoopbackServer::start(Service::of(Arc::new(replies))).unwrap()
}

fn model(server: &LoopbackServer) -> HttpModel {
    HttpModel::new(Profile::named("gemini").unwrap(), Some(&server.base_url())).unwrap()
}

fn calling(text: &str, calls: Vec<ToolCall>) -> ModelReply {
    ModelReply {
        finish: FinishReason::ToolUse,
        tool_calls: calls,
        reasoning: "Let me see.".into(),
        ..ModelReply::text(text, None)
    }
}

fn request(no_stream: bool) -> ModelRequest {
    let look = |name: &str| ToolDefinition {
        name: name.into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": false}),
        strict: Strictness::Prefer,
    };
    let tools = [
        look("look"),
        look("web.search"),
        ToolDefinition { parameters: json!({"type": "object"}), ..look("now") },
    ];
    ModelRequest {
        tools: tools.into(),
        effort: Some(Effort::Max),
        show_reasoning: true,
        no_stream,
        ..ModelRequest::new("gemini-3-flash-preview", "Rules.", "Look.")
    }
}

/// Answers every call of a reply, the last with an error and a picture.
fn answered(request: &mut ModelRequest, reply: &ModelReply) {
    let mut results: Vec<_> = reply.tool_calls.iter().map(|call| result(&call.id, false, "[1]")).collect();
    if let Some(last) = results.last_mut() {
        last.is_error = true;
        last.images.push(Image { media_type: "image/png".into(), base64: "AAAA".into() });
    }
    results.reverse();
    request.messages.extend([reply.turn(), Message::Tool { results }]);
}

// wire WG02 WG03 WG14 WX03
#[tokio::test]
async fn signed_turns_and_those_of_others_are_taken_by_the_server() {
    for no_stream in [false, true] {
        let two = || vec![call("c1", "look", "{\"q\":\"é\"}"), call("c2", "now", "{}")];
        let server = serve([
            calling("I will.", two()),
            calling("", vec![call("c1", "look", "{}")]),
            ModelReply { reasoning: "Hm.".into(), ..ModelReply::text("Done.", None) },
            ModelReply::text("Fine.", None),
        ]);
        let model = model(&server);
        let mut request = request(no_stream);
        for calls in [2, 1] {
            let reply = complete(&model, &request).await.unwrap();
            assert_eq!((reply.stop, reply.tool_calls.len()), (Some(ReplyEnd::ToolUse), calls));
            assert_eq!((&*reply.reasoning, reply.raw.is_some()), ("Let me see.", true));
            answered(&mut request, &reply);
        }
        let reply = complete(&model, &request).await.unwrap();
        assert_eq!((&*reply.text, reply.raw.is_some()), ("Done.", true));
        request.messages.extend([reply.turn(), Message::user("Now you.")]);
        // Another provider has gone on, and comes back.
        let theirs = calling(
            "Theirs.",
            vec![call("toolu_9", "look", "{\"a\":1.0}"), call("call_1", "web.search", "")],
        );
        answered(&mut request, &theirs);
        request.messages.push(Message::Operator { text: "Come to an end.".into() });
        assert_eq!(&*complete(&model, &request).await.unwrap().text, "Fine.");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn every_option_is_taken_by_the_server() {
    let some = ToolChoice::AnyOf(vec!["look".into(), "web.search".into()]);
    for choice in [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Named("web.search".into()),
        some,
    ] {
        for name in ["gemini-3-pro-preview", "gemini-2.5-pro", "gemini-2.0-flash"] {
            let server = serve([ModelReply::text("Fine.", None)]);
            let request = ModelRequest {
                model: name.into(),
                tool_choice: choice.clone(),
                one_call_at_a_time: true,
                reasoning_tokens: Some(1),
                temperature: Some(1.0),
                top_p: Some(0.5),
                top_k: Some(4),
                seed: Some(-1),
                stop: ["1", "2", "3", "4", "5", "6"].map(Into::into).to_vec(),
                output: OutputFormat::JsonSchema {
                    name: "n".into(),
                    description: "".into(),
                    schema: json!({"type": "object"}),
                    strict: Strictness::Off,
                },
                messages: vec![
                    Message::User {
                        text: "".into(),
                        images: vec![Image { media_type: "image/png".into(), base64: "AAAA".into() }],
                        author: Default::default(),
                    },
                    foreign("", vec![call("x", "now", "no JSON")]),
                    Message::Tool { results: vec![result("x", true, "")] },
                ],
                ..request(false)
            };
            let reply = complete(&model(&server), &request).await;
            assert_eq!(reply.map(|reply| reply.text), Ok("Fine.".into()), "{name} {choice:?}");
            server.shutdown().await;
        }
    }
}
