//! Every way in which a smart tool comes to its few items.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};

use loop_core::types::{Effect, Observation, Receipt, Scope, Status, Usage};
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::ask::{AskError, SubCallReply};
use crate::registry::Registry;

const USAGE: Usage = Usage {
    input: 9,
    cache_read: 0,
    cache_write_short: 0,
    cache_write_long: 0,
    output: 1,
    reasoning: 0,
    estimated: false,
};

/// What a call that was replied to used.
fn served(answered: bool) -> SubCallUse {
    SubCallUse { served_model: Some("filter-2".into()), ..SubCallUse::new(answered, Some(USAGE)) }
}

/// What the model does when it is asked.
enum Reply {
    Says(&'static str),
    Fails,
    Panics,
    Takes(u64, &'static str),
}

struct Model {
    reply: Reply,
    requested: Mutex<Vec<ChoiceRequest>>,
}

#[async_trait]
impl AskModel for Model {
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        self.requested.lock().unwrap().push(request.clone());
        let text = match self.reply {
            Reply::Says(text) => text,
            Reply::Fails => {
                return Err(AskError {
                    message: "overloaded".into(),
                    usage: Some(USAGE),
                    received: Receipt::default(),
                    served_model: None,
                });
            }
            Reply::Panics => panic!("the client broke"),
            Reply::Takes(ms, text) => {
                sleep(Duration::from_millis(ms)).await;
                text
            }
        };
        let served_model = Some("filter-2".into());
        Ok(SubCallReply { text: text.into(), usage: Some(USAGE), received: Receipt::default(), served_model })
    }
}

/// So many documents, after a while; the ranking is the default one unless it is given.
struct Documents {
    declaration: ToolDeclaration,
    count: usize,
    fetch_ms: u64,
    ranking: Option<Vec<usize>>,
}

fn documents(count: usize) -> Documents {
    let declaration = ToolDeclaration::new("fetch_docs")
        .title("Docs")
        .effect(Effect::Read)
        .schema(json!({ "type": "object", "properties": { "target": { "type": "string" } } }));
    Documents { declaration, count, fetch_ms: 0, ranking: None }
}

#[async_trait]
impl Source for Documents {
    fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    async fn fetch(
        &self,
        parameters: &Value,
        _: &ToolContext,
        _: &Credentials,
    ) -> Result<Vec<Candidate>, ToolResult> {
        sleep(Duration::from_millis(self.fetch_ms)).await;
        if parameters["target"] == "DOWN" {
            return Err(ToolResult::retryable("fetch_docs", "Docs", "the wiki is down"));
        }
        let candidate = |n: usize| Candidate {
            line: format!("Doc {n}\n of wiki"),
            markdown: format!("Body {n}\n"),
            data: json!(n),
        };
        Ok((0..self.count).map(candidate).collect())
    }

    fn fallback(&self, parameters: &Value, candidates: &[Candidate]) -> Vec<usize> {
        match &self.ranking {
            Some(ranking) => ranking.clone(),
            None => Plain.fallback(parameters, candidates),
        }
    }
}

/// The ranking that a source has unless it returns its own.
struct Plain;

#[async_trait]
impl Source for Plain {
    fn declaration(&self) -> &ToolDeclaration {
        unreachable!("only its ranking is asked for")
    }

    async fn fetch(&self, _: &Value, _: &ToolContext, _: &Credentials) -> Result<Vec<Candidate>, ToolResult> {
        unreachable!("only its ranking is asked for")
    }
}

/// What the tool hands on, and what the model was asked.
async fn run(source: Documents, reply: Option<Reply>, target: &str) -> (Observation, Vec<ChoiceRequest>) {
    let registry = Registry::builder().tool(Smart::new(source)).build().unwrap();
    let scope = Scope { account_name: Some("Contoso".into()), ..Scope::default() };
    let mut context = ToolContext::new(scope, "Slow\nlaptop", "r/1/action-0");
    let model = reply.map(|reply| Arc::new(Model { reply, requested: Mutex::new(Vec::new()) }));
    if let Some(model) = &model {
        context = context.with_ask(Arc::clone(model) as Arc<dyn AskModel>, 10_000);
    }
    let parameters = json!({ "target": target });
    let seen =
        registry.dispatch("fetch_docs", &parameters, context, &Credentials::none(), 12_000, 4_000).await;
    let requested = model.map(|model| model.requested.lock().unwrap().clone()).unwrap_or_default();
    (seen, requested)
}

const BY_CODE: &str = "Found 40 items, kept 3, chosen by code";

#[tokio::test]
async fn a_model_chooses_among_many() {
    // S0-39, S0-60, S0-65, S0-73, S0-75
    let reply = Reply::Says(r#"[{"index": 17, "reason": "why"}, {"index": 3, "reason": "why"}]"#);
    let (seen, requested) = run(documents(40), Some(reply), "mail loop").await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, "Found 40 items, kept 2, chosen by a model"));
    assert_eq!(
        &*seen.markdown,
        "## Docs — Contoso\n\n_2 of 40 items, chosen by a model._\n\nBody 17\n\nBody 3"
    );
    assert_eq!(&*seen.data, "[17,3]");
    assert_eq!(seen.sub_call, Some(served(true).into()));
    assert_eq!(
        (requested.len(), &*requested[0].title, requested[0].target.as_deref()),
        (1, "Slow laptop", Some("mail loop"))
    );
    assert_eq!((requested[0].candidates.len(), &*requested[0].candidates[39]), (40, "Doc 39 of wiki"));
}

#[tokio::test]
async fn nobody_is_asked_about_few_or_without_a_grant() {
    // S0-59, S0-65, S0-72
    for (count, granted, asks) in [(4, true, 0), (5, true, 1), (40, false, 0)] {
        let reply = granted.then_some(Reply::Says(r#"[{"index": 1}]"#));
        let (seen, requested) = run(documents(count), reply, "").await;
        assert_eq!(
            (seen.status, requested.len(), seen.sub_call.is_some()),
            (Status::Ok, asks, asks == 1),
            "{count}"
        );
        let (kept, who) = if asks == 1 { (1, "a model") } else { (3, "code") };
        assert_eq!(*seen.summary, format!("Found {count} items, kept {kept}, chosen by {who}"));
    }
    let (few, _) = run(documents(2), None, "").await;
    assert_eq!(&*few.summary, "Found 2 items, kept 2, chosen by code");
}

#[tokio::test]
async fn the_threshold_may_be_another() {
    // S0-72
    assert_eq!((AI_FILTER_THRESHOLD, Smart::new(documents(1)).threshold), (5, 5));
    let model =
        Arc::new(Model { reply: Reply::Says(r#"[{"index": 0}]"#), requested: Mutex::new(Vec::new()) });
    let context =
        ToolContext::new(Scope::default(), "", "").with_ask(Arc::clone(&model) as Arc<dyn AskModel>, 10_000);
    let tool = Smart::new(documents(2)).threshold(2);
    let result = tool.call(json!({}), &context, &Credentials::none()).await;
    assert_eq!(result.summary, "Found 2 items, kept 1, chosen by a model");
    assert_eq!(model.requested.lock().unwrap()[0].target, None);
}

#[tokio::test]
async fn a_reply_that_names_nothing_leaves_it_to_the_code() {
    // S0-76, S0-128, S0-d12, T13: it was paid for all the same.
    for text in ["", "none", "[]", r#"[{"index": 40}]"#, r#"[{"index": -1}]"#, r#"[{"index": 1"#] {
        let (seen, requested) = run(documents(40), Some(Reply::Says(text)), "").await;
        assert_eq!((&*seen.summary, requested.len(), &*seen.data), (BY_CODE, 1, "[0,1,2]"), "{text}");
        assert_eq!(seen.sub_call, Some(served(false).into()));
    }
}

#[tokio::test]
async fn a_model_that_fails_or_panics_leaves_it_to_the_code() {
    // S0-76, S0-128
    for (reply, usage) in [(Reply::Fails, Some(USAGE)), (Reply::Panics, None)] {
        let (seen, _) = run(documents(40), Some(reply), "").await;
        assert_eq!((seen.status, &*seen.summary), (Status::Ok, BY_CODE));
        assert_eq!(seen.sub_call, Some(SubCallUse::new(false, usage).into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_late_leaves_it_to_the_code() {
    // S0-74, S0-76, S0-131, T13
    let began = tokio::time::Instant::now();
    let (seen, _) = run(documents(40), Some(Reply::Takes(10_001, r#"[{"index": 9}]"#)), "").await;
    assert_eq!((seen.status, &*seen.summary), (Status::Ok, BY_CODE));
    assert_eq!(seen.sub_call, Some(SubCallUse::new(false, None).into()));
    assert_eq!(began.elapsed().as_millis(), 10_000);
    let (seen, _) = run(documents(40), Some(Reply::Takes(9_999, r#"[{"index": 9}]"#)), "").await;
    assert_eq!(&*seen.data, "[9]");
}

#[tokio::test(start_paused = true)]
async fn slow_fetching_leaves_less_time_for_the_model_but_always_a_result() {
    // S0-76, S0-94: a fallback always exists, also when the tool's own time runs out.
    let (seen, requested) =
        run(Documents { fetch_ms: 5_000, ..documents(40) }, Some(Reply::Takes(9_999, "")), "").await;
    assert_eq!((seen.status, &*seen.summary, requested.len()), (Status::Ok, BY_CODE, 1));
    let late = Documents { fetch_ms: 11_900, ..documents(40) };
    let (seen, requested) = run(late, Some(Reply::Takes(9_999, "")), "").await;
    assert_eq!((seen.status, &*seen.summary, requested.len(), seen.sub_call), (Status::Ok, BY_CODE, 0, None));
}

#[tokio::test]
async fn the_code_ranks_by_what_the_action_looks_for() {
    // S0-76
    let (seen, _) = run(documents(40), None, "WIKI 21").await;
    assert_eq!(&*seen.data, "[21,0,1]");
}

#[tokio::test]
async fn a_source_may_rank_for_itself_and_its_slips_do_no_harm() {
    // S0-76, S0-d12
    for (ranking, expected) in
        [(vec![7, 99, 7, 2, 1, 0], "[7,2,1,0]"), (vec![], "[0,1,2]"), (vec![99], "[0,1,2]")]
    {
        let (seen, _) = run(Documents { ranking: Some(ranking), ..documents(40) }, None, "").await;
        assert_eq!(&*seen.data, expected);
    }
}

#[tokio::test]
async fn nothing_found_and_a_failed_fetch_are_told_as_such() {
    // S0-68, S0-129
    let (seen, requested) = run(documents(0), Some(Reply::Says("")), "").await;
    assert_eq!((seen.status, &**seen.text(), requested.len()), (Status::Empty, "No data found", 0));
    let (seen, _) = run(documents(40), None, "DOWN").await;
    assert_eq!((seen.status, &*seen.summary), (Status::RetryableError, "the wiki is down"));
}

#[test]
fn a_smart_tool_says_that_it_is_smart() {
    // S0-39
    assert!(!documents(1).declaration.smart);
    assert!(Smart::new(documents(1)).spec().smart);
}
