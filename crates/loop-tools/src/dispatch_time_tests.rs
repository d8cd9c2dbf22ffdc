//! Calls that are late, cancelled, dropped, or in parallel.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loop_core::types::{Scope, Usage};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ask::{AskError, ChoiceRequest, SubCallReply};
use crate::tool::Tool;

const HOUR: Duration = Duration::from_secs(3_600);

/// Says that it was dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A tool that never ends, whether its future was dropped, and the token that it got.
fn hanging() -> (Registry, Arc<AtomicBool>, Arc<std::sync::Mutex<Option<CancellationToken>>>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let token = Arc::new(std::sync::Mutex::new(None));
    let (flag, given) = (Arc::clone(&dropped), Arc::clone(&token));
    let registry = one(move |_, context, _| {
        let flag = Flag(Arc::clone(&flag));
        *given.lock().unwrap() = Some(context.cancel);
        async move {
            let _flag = flag;
            sleep(HOUR).await;
            fine()
        }
    });
    (registry, dropped, token)
}

/// Lets aborted tasks be dropped.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_late_is_cut_off_and_cancelled() {
    // S0-94, S0-d6, S0-d7, C32, T2
    let (registry, dropped, token) = hanging();
    let began = Instant::now();
    let outer = CancellationToken::new();
    let context = context().with_cancel(outer.clone());
    let parameters = json!({ "target": "A" });
    let seen = registry.dispatch("fetch_x", &parameters, context, &Credentials::none(), 12_000, 4_000).await;
    failed(&seen, Status::Timeout, "timeout after 12000 ms");
    assert_eq!(began.elapsed().as_millis(), 12_000);
    settle().await;
    assert!(dropped.load(Ordering::SeqCst), "the losing tool must not run on");
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert!(!outer.is_cancelled(), "its other calls of the batch go on");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_just_in_time_is_heard() {
    // S0-94
    let registry = one(|_, context, _| async move {
        assert_eq!(context.remaining(), Some(Duration::from_millis(12_000)));
        sleep(Duration::from_millis(11_999)).await;
        fine()
    });
    assert_eq!(call(&registry).await.status, Status::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_limit_beyond_every_clock_is_no_error() {
    let registry = one(|_, context, _| async move {
        sleep(HOUR).await;
        ToolResult::ok("fetch_x", "s", "m", context.remaining().unwrap() > HOUR)
    });
    let parameters = json!({ "target": "A" });
    let seen = registry.dispatch("fetch_x", &parameters, context(), &Credentials::none(), u64::MAX, 9).await;
    assert_eq!(&*seen.data, "true");
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_stops_the_tool() {
    // S0-d6
    let (registry, dropped, token) = hanging();
    let outer = CancellationToken::new();
    let context = context().with_cancel(outer.clone());
    let parameters = json!({ "target": "A" });
    let credentials = Credentials::none();
    let call = registry.dispatch("fetch_x", &parameters, context, &credentials, 12_000, 4_000);
    let stop = async {
        sleep(Duration::from_millis(50)).await;
        outer.cancel();
    };
    let (seen, ()) = tokio::join!(call, stop);
    failed(&seen, Status::Cancelled, "cancelled");
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_call_ends_with_it_and_one_for_several_calls_does_not() {
    // S0-d6
    let registry = one(|_, context, _| async move {
        assert!(!context.is_own_token, "what a tool passes on is not its own");
        fine()
    });
    let parameters = json!({ "target": "A" });
    for is_own in [true, false] {
        let token = CancellationToken::new();
        let of_run = ToolContext::of_run(Scope::default(), "t", "r/1/action-0", "r", token.clone());
        let context = if is_own { of_run } else { of_run.with_cancel(token.clone()) };
        let seen =
            registry.dispatch("fetch_x", &parameters, context, &Credentials::none(), 12_000, 4_000).await;
        assert_eq!((seen.status, token.is_cancelled()), (Status::Ok, is_own));
    }
    let shared = context();
    for _ in 0..2 {
        let shared = shared.clone();
        registry.dispatch("fetch_x", &parameters, shared, &Credentials::none(), 12_000, 4_000).await;
    }
    assert!(!shared.cancel.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_stops_the_tool() {
    // S0-d6
    let (registry, dropped, token) = hanging();
    let given_up = tokio::time::timeout(Duration::from_millis(50), call(&registry)).await;
    assert!(given_up.is_err());
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn calls_run_in_parallel_and_all_settle_in_their_order() {
    // S0-16, S0-93, S0-122, T1
    let registry = one(|parameters, _, _| async move {
        match parameters["target"].as_str().unwrap() {
            "PANIC" => panic!("oh"),
            "HANG" => sleep(HOUR).await,
            target => sleep(Duration::from_millis(target.get(1..).unwrap().parse().unwrap())).await,
        }
        ToolResult::ok("fetch_x", "s", "m", parameters)
    });
    let call = |(name, target): (&str, &str)| {
        let parameters = json!({ "target": target });
        registry.dispatch(name, &parameters, context(), &Credentials::none(), 12_000, 4_000)
    };
    let requested =
        [("fetch_x", "T900"), ("fetch_x", "PANIC"), ("no", "T1"), ("fetch_x", "HANG"), ("fetch_xs", "T100")];
    let began = Instant::now();
    let seen = futures::future::join_all(requested.into_iter().map(call)).await;
    assert_eq!(began.elapsed().as_millis(), 12_000, "as long as the longest, not the sum");
    let ended: Vec<(Status, &str)> = seen.iter().map(|seen| (seen.status, &*seen.data)).collect();
    assert_eq!(
        ended,
        [
            (Status::Ok, r#"{"target":"T900"}"#),
            (Status::PermanentError, "null"),
            (Status::PermanentError, "null"),
            (Status::Timeout, "null"),
            (Status::Ok, r#"{"target":"T100"}"#),
        ]
    );
}

/// A model that answers after a while.
struct Slow(AtomicU32, Duration);

#[async_trait]
impl AskModel for Slow {
    async fn choose(&self, _request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep(self.1).await;
        Ok(SubCallReply {
            text: String::new(),
            usage: Some(Usage { input: 5, ..Usage::default() }),
            received: loop_core::types::Receipt::default(),
            served_model: None,
        })
    }
}

/// Asks twice, and then does as the parameters say.
struct AsksTwice(ToolDeclaration);

#[async_trait]
impl Tool for AsksTwice {
    fn spec(&self) -> &ToolDeclaration {
        &self.0
    }

    async fn call(&self, parameters: Value, context: &ToolContext, _credentials: &Credentials) -> ToolResult {
        let request =
            ChoiceRequest { title: String::new(), target: None, instruction: None, candidates: Vec::new() };
        let model = context.ask.as_ref().unwrap();
        assert!(model.choose(&request).await.is_ok());
        assert!(model.choose(&request).await.unwrap_err().to_string().contains("one sub-call was granted"));
        assert_ne!(parameters["target"], "PANIC", "it panics after the question");
        fine()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_question_used_is_told_however_the_tool_ends() {
    // S0-65, S0-119, S0-128, T13: one grant, one call, and its cost is never lost.
    let registry = Registry::builder().tool(AsksTwice(declaration())).build().unwrap();
    let used = Some(Usage { input: 5, ..Usage::default() });
    let cases = [
        ("FINE", 10, Status::Ok, used),
        ("PANIC", 10, Status::PermanentError, used),
        ("LATE", 20_000, Status::Timeout, None),
    ];
    for (target, ms, status, usage) in cases {
        let model = Arc::new(Slow(AtomicU32::new(0), Duration::from_millis(ms)));
        let context = context().with_ask(Arc::clone(&model) as Arc<dyn AskModel>, 10_000);
        let parameters = json!({ "target": target });
        let seen =
            registry.dispatch("fetch_x", &parameters, context, &Credentials::none(), 12_000, 4_000).await;
        assert_eq!(
            (seen.status, seen.sub_call),
            (status, Some(SubCallUse::new(false, usage).into())),
            "{target}"
        );
        assert_eq!(model.0.load(Ordering::SeqCst), 1);
    }
}
