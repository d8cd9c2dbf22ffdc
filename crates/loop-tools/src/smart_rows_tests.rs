//! Which rows of another tool's result are kept, and which results are left as they are.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Mutex;

use loop_core::types::{Effect, Observation, Receipt, Scope, Status};
use serde_json::json;

use super::*;
use crate::ask::{AskError, AskModel, ChoiceRequest, SubCallReply};
use crate::registry::Registry;

/// A tool that returns this.
struct Plain {
    declaration: ToolDeclaration,
    result: ToolResult,
}

#[async_trait]
impl Tool for Plain {
    fn spec(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn call(&self, _: Value, _: &ToolContext, _: &Credentials) -> ToolResult {
        self.result.clone()
    }
}

/// A model that replies with this text, if it has one.
struct Model {
    reply: Option<&'static str>,
    requested: Mutex<Vec<ChoiceRequest>>,
}

#[async_trait]
impl AskModel for Model {
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        self.requested.lock().unwrap().push(request.clone());
        let received = Receipt::default();
        match self.reply {
            Some(text) => Ok(SubCallReply { text: text.into(), usage: None, received, served_model: None }),
            None => Err(AskError { message: "overloaded".into(), usage: None, received, served_model: None }),
        }
    }
}

fn orders(count: usize) -> ToolResult {
    let rows = (0..count).map(|n| json!({ "id": n, "what": if n % 4 == 1 { "Red pump" } else { "Hose" } }));
    ToolResult::found("fetch_orders", "Orders", &Scope::default(), rows.collect())
}

/// What the smart tool returns, and what the model was asked.
async fn call(
    result: ToolResult,
    filter: RowFilter,
    reply: Option<&'static str>,
) -> (Observation, Vec<ChoiceRequest>) {
    let declaration = ToolDeclaration::new("fetch_orders")
        .title("Orders")
        .effect(Effect::Read)
        .schema(json!({ "type": "object", "properties": { "words": { "type": "string" } } }));
    let tool: Arc<dyn Tool> = Arc::new(Plain { declaration, result });
    let registry = Registry::builder().tool(Smart::rows(tool, filter)).build().unwrap();
    assert!(registry.specs()[0].smart);
    let model = Arc::new(Model { reply, requested: Mutex::new(Vec::new()) });
    let mut context = ToolContext::new(Scope::default(), "Pump leaks", "r/1/action-0");
    context.ask = Some(model.clone());
    context.sub_call_ms = 1_000;
    let parameters = json!({ "words": "red pump" });
    let seen =
        registry.dispatch("fetch_orders", &parameters, context, &Credentials::none(), 5_000, 4_000).await;
    let requested = model.requested.lock().unwrap().clone();
    (seen, requested)
}

fn data(seen: &Observation) -> Value {
    serde_json::from_str(&seen.data).unwrap()
}

fn filter() -> RowFilter {
    RowFilter {
        threshold: 4,
        instruction: Some("orders that\nwere not paid".to_owned()),
        fallback: 2,
        target: "words".to_owned(),
    }
}

// S0-60, S0-72, S0-75
#[tokio::test]
async fn a_model_chooses_among_the_rows_by_the_instruction() {
    let (seen, requested) = call(orders(6), filter(), Some(r#"[{"index": 4, "reason": "unpaid"}]"#)).await;
    assert_eq!(seen.status, Status::Ok);
    assert_eq!(
        &*seen.markdown,
        "## Orders\n\n_1 of 6 items, chosen by a model._\n\n| id | what |\n| --- | --- |\n| 4 | Hose |"
    );
    assert_eq!(data(&seen), json!([{ "id": 4, "what": "Hose" }]));
    assert_eq!(requested.len(), 1);
    assert_eq!(requested[0].instruction.as_deref(), Some("orders that were not paid"));
    assert_eq!(requested[0].target.as_deref(), Some("red pump"));
    assert_eq!(requested[0].candidates[1], r#"{"id":1,"what":"Red pump"}"#);
}

// S0-76, S0-128
#[tokio::test]
async fn code_keeps_the_rows_with_most_words_where_no_model_chooses() {
    let (seen, requested) = call(orders(6), filter(), None).await;
    assert_eq!(requested.len(), 1);
    assert!(seen.markdown.contains("_2 of 6 items, chosen by code._"), "{}", seen.markdown);
    assert_eq!(data(&seen), json!([{ "id": 1, "what": "Red pump" }, { "id": 5, "what": "Red pump" }]));
}

#[tokio::test]
async fn a_short_list_and_what_is_not_a_list_are_returned_as_they_are() {
    let object = ToolResult::value("fetch_orders", json!({ "id": 1 }));
    let refused = ToolResult::retryable("fetch_orders", "Orders", "the server is down");
    for result in [orders(3), orders(0), object, refused] {
        let (seen, requested) = call(result.clone(), filter(), Some(r#"[{"index": 0}]"#)).await;
        assert!(requested.is_empty());
        let plain = if result.success { &*result.markdown } else { "" };
        assert_eq!(&*seen.markdown, plain);
        assert_eq!(data(&seen), result.data);
        assert_eq!(seen.sub_call, None);
    }
}

#[tokio::test]
async fn rows_that_are_texts_become_a_list() {
    let lines = ["a b", "red\npump", "c", "d"].map(Value::from).to_vec();
    let result = ToolResult::ok("fetch_orders", "Found 4", "raw", lines);
    let (seen, _) =
        call(result, filter(), Some(r#"[{"index": 1, "reason": "a"}, {"index": 0, "reason": "b"}]"#)).await;
    assert!(seen.markdown.ends_with("by a model._\n\n- red\n  pump\n- a b"), "{}", seen.markdown);
}
