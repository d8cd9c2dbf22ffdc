//! The rate gate: what it lets through, in which order, and whom it does not keep waiting.

use crate::wrap_common;

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use loop_core::types::FailureKind;
use loop_llm::error::RetryAdvice;
use loop_llm::wrap::{RateGate, RateLimited, RateLimits};
use loop_llm::{ChatModel, ErrorPhase, LlmError, ModelRequest, complete};
use proptest::prelude::*;
use tokio::time::Instant;
use wrap_common::{Fake, Step, asks, error, finished, patient, request, stated, text};

fn limits(requests: u32, tokens: u64, at_once: u32) -> RateLimits {
    RateLimits {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU64::new(tokens),
        calls_at_once: NonZeroU32::new(at_once),
        ..RateLimits::default()
    }
}

fn rig(limits: RateLimits, steps: impl IntoIterator<Item = Step>) -> (Arc<Fake>, Arc<RateLimited<Fake>>) {
    let fake = Fake::new(steps);
    let model = Arc::new(RateLimited::new(Arc::clone(&fake), RateGate::new(limits)));
    (fake, model)
}

/// A request of so many tokens.
fn sized(tokens: u64) -> ModelRequest {
    let mut request = ModelRequest::new("m", "", "");
    request.max_output_tokens = Some(tokens);
    request
}

/// A reply that says how many tokens it was.
fn reply(tokens: u64) -> Step {
    Step::Give(vec![Ok(finished("hi", tokens))], Duration::ZERO)
}

/// Makes all calls at once, and waits for them.
async fn all(model: &RateLimited<Fake>, requests: &[ModelRequest]) -> Vec<Result<(), LlmError>> {
    let calls = requests.iter().map(async |request| complete(model, request).await.map(drop));
    let all = futures::future::join_all(calls);
    tokio::time::timeout(Duration::from_secs(86_400), all).await.expect("everybody ends")
}

#[tokio::test(start_paused = true)]
async fn a_call_is_under_way_until_its_stream_ends_or_is_dropped() {
    let (fake, model) = rig(limits(0, 0, 1), [Step::HangAfterWord, Step::Give(stated("hi"), Duration::ZERO)]);
    let mut first = model.stream(&request()).await.unwrap();
    assert!(first.next().await.unwrap().is_ok());
    let requested = request();
    let mut second = Box::pin(model.stream(&requested));
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(fake.count(), 1);
    drop(first);
    let mut second = second.await.unwrap();
    assert!(second.next().await.unwrap().is_ok());
    assert!(model.stream(&request()).now_or_never().is_none());
    // The last event frees the place, while the stream is still held.
    assert!(second.next().await.unwrap().is_ok());
    let third = model.stream(&request()).now_or_never().expect("there is room").unwrap();
    drop((second, third));
    assert_eq!(fake.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_calls_make_room_too() {
    let broken = || wrap_common::broken(FailureKind::StreamInterrupted);
    let steps = [Step::Refuse(error(FailureKind::Auth)), broken(), Step::Give(Vec::new(), Duration::ZERO)];
    let (fake, model) = rig(limits(0, 0, 1), steps);
    for _ in 0..3 {
        assert!(complete(&*model, &request()).await.is_err());
    }
    assert!(complete(&*model, &request()).await.is_ok());
    assert_eq!(fake.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn calls_go_in_the_order_in_which_they_came() {
    let (fake, model) = rig(limits(0, 0, 2), vec![Step::Give(stated("hi"), Duration::from_secs(1)); 9]);
    let requests: Vec<ModelRequest> = (0..9).map(|n| ModelRequest::new("m", "s", n.to_string())).collect();
    let ends = all(&model, &requests).await;
    assert!(ends.iter().all(Result::is_ok));
    let texts: Vec<String> =
        fake.calls.lock().unwrap().iter().map(|(_, request)| request.messages.concat_texts()).collect();
    assert_eq!(texts.concat(), "012345678");
    assert_eq!(fake.most_at_once.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_overtakes_who_was_called_and_has_not_gone_yet() {
    let (fake, model) = rig(limits(0, 0, 1), [Step::HangAfterWord, Step::HangAfterWord]);
    let held = model.stream(&request()).await.unwrap();
    let requested = request();
    let mut first = Box::pin(model.stream(&requested));
    assert!(first.as_mut().now_or_never().is_none());
    drop(held);
    let mut second = Box::pin(model.stream(&requested));
    assert!(second.as_mut().now_or_never().is_none());
    let first = first.now_or_never().expect("it is its turn").unwrap();
    assert!(second.as_mut().now_or_never().is_none());
    drop(first);
    assert!(second.await.is_ok());
    assert_eq!((fake.count(), fake.most_at_once.load(Ordering::SeqCst)), (3, 1));
}

trait Texts {
    fn concat_texts(&self) -> String;
}

impl Texts for Vec<loop_llm::Message> {
    fn concat_texts(&self) -> String {
        self.iter().map(loop_llm::Message::text).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_begin_within_a_minute() {
    let began = Instant::now();
    let (fake, model) = rig(limits(3, 0, 0), []);
    assert!(all(&model, &vec![request(); 8]).await.iter().all(Result::is_ok));
    assert_eq!(fake.seconds(began), [0, 0, 0, 60, 60, 60, 120, 120]);
}

#[tokio::test(start_paused = true)]
async fn so_many_tokens_begin_within_a_minute() {
    let began = Instant::now();
    let (fake, model) = rig(limits(0, 100, 0), [reply(60), reply(40), reply(100), reply(1)]);
    let requests = [sized(60), sized(40), sized(100), sized(1)];
    assert!(all(&model, &requests).await.iter().all(Result::is_ok));
    assert_eq!(fake.seconds(began), [0, 0, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn a_quarter_of_the_bytes_counts_as_tokens() {
    let began = Instant::now();
    let silent = Step::Give(
        vec![Ok(loop_llm::ModelEvent::Finished(Box::new(loop_llm::ModelReply::text("hi", None))))],
        Duration::ZERO,
    );
    let (fake, model) = rig(limits(0, 100, 0), vec![silent; 3]);
    let mut large = ModelRequest::new("m", "x".repeat(100), "y".repeat(100));
    large.max_output_tokens = Some(10);
    assert!(all(&model, &[large, sized(40), sized(1)]).await.iter().all(Result::is_ok));
    assert_eq!(fake.seconds(began), [0, 0, 60]);
}

#[tokio::test(start_paused = true)]
async fn reported_tokens_take_the_place_of_estimated_ones() {
    let began = Instant::now();
    // 90 were thought, 10 were used: another 90 fit at once; those are really 95, so that 10 do not fit.
    let (fake, model) = rig(limits(0, 100, 0), [reply(10), reply(95), reply(10)]);
    for request in [sized(90), sized(90), sized(10)] {
        complete(&*model, &request).await.unwrap();
    }
    assert_eq!(fake.seconds(began), [0, 0, 60]);
    // What no model saw counts as nothing; what broke off counts as far as it was told.
    let began = Instant::now();
    let partial = loop_llm::error::Partial {
        text: "w".into(),
        usage: Some(loop_core::types::Usage { output: 30, ..Default::default() }),
        ..Default::default()
    };
    let broken = LlmError {
        partial: Some(Box::new(partial)),
        ..LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "no")
    };
    let free = LlmError { phase: ErrorPhase::Connect, ..error(FailureKind::Connection) };
    let steps = [
        Step::Refuse(free),
        Step::Give(vec![Ok(text("w")), Err(broken)], Duration::ZERO),
        reply(70),
        reply(1),
    ];
    let (fake, model) = rig(limits(0, 100, 0), steps);
    for request in [sized(100), sized(100), sized(70), sized(1)] {
        drop(complete(&*model, &request).await);
    }
    assert_eq!(fake.seconds(began), [0, 0, 0, 60]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_too_large_for_any_minute_fails_at_once_and_holds_nobody_up() {
    let (fake, model) = rig(limits(0, 100, 0), [reply(1)]);
    complete(&*model, &sized(100)).await.unwrap();
    let error = complete(&*model, &sized(101)).now_or_never().expect("nobody waits").unwrap_err();
    assert_eq!((error.kind, error.retry), (FailureKind::RequestTooLarge, RetryAdvice::Never));
    assert_eq!((error.phase, error.is_free(), fake.count()), (ErrorPhase::Encode, true, 1));
    let stated = "the call may need 101 tokens, and `tokens_per_minute` allows 100, so that it could never begin; \
                raise that limit, or let the call write less";
    assert_eq!(&*error.message, stated);
    assert!(complete(&*model, &sized(99)).now_or_never().expect("there is room").is_ok());
}

// L1
#[tokio::test(start_paused = true)]
async fn a_servers_delay_closes_the_gate_for_all_callers() {
    for kind in [FailureKind::RateLimited, FailureKind::Overloaded] {
        let in_stream = LlmError { phase: ErrorPhase::Stream, ..asks(kind, 30) };
        for step in
            [Step::Refuse(asks(kind, 30)), Step::Give(vec![Ok(text("w")), Err(in_stream)], Duration::ZERO)]
        {
            let began = Instant::now();
            let (fake, model) = rig(limits(0, 0, 0), [step]);
            assert!(complete(&*model, &request()).await.is_err());
            assert!(all(&model, &vec![request(); 3]).await.iter().all(Result::is_ok));
            assert_eq!(fake.seconds(began), [0, 30, 30, 30]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_delay_is_over_nobody_waits_for_another_to_end() {
    let steps =
        [vec![Step::Refuse(asks(FailureKind::Overloaded, 30))], vec![Step::HangAfterWord; 3]].concat();
    let (fake, model) = rig(limits(0, 0, 0), steps);
    let began = Instant::now();
    assert!(complete(&*model, &request()).await.is_err());
    let requested = request();
    let held = futures::future::join_all((0..3).map(|_| model.stream(&requested)));
    let held = tokio::time::timeout(Duration::from_secs(86_400), held).await.expect("everybody goes");
    assert_eq!((held.len(), fake.seconds(began)), (3, vec![0, 30, 30, 30]));
}

#[tokio::test(start_paused = true)]
async fn who_stands_behind_learns_of_a_delay_at_once() {
    let late = LlmError { phase: ErrorPhase::Stream, ..asks(FailureKind::RateLimited, 50) };
    let (_, model) = rig(limits(0, 0, 1), [Step::Give(vec![Err(late)], Duration::from_secs(5))]);
    let began = Instant::now();
    let call = async |request: ModelRequest| {
        (complete(&*model, &request).await.map(drop), began.elapsed().as_secs())
    };
    let calls = [call(request()), call(request()), call(patient(30))];
    let ends = futures::future::join_all(calls).await;
    assert_eq!((ends[0].1, ends[1].1, ends[2].1), (5, 55, 5), "{ends:?}");
    assert_eq!(ends[2].0.as_ref().unwrap_err().retry, RetryAdvice::After(Duration::from_secs(50)));
}

#[tokio::test(start_paused = true)]
async fn who_waits_already_waits_for_the_delay_as_well() {
    let began = Instant::now();
    let refuse_late = Step::Give(
        vec![Err(LlmError { phase: ErrorPhase::Stream, ..asks(FailureKind::RateLimited, 50) })],
        Duration::from_secs(5),
    );
    let (fake, model) = rig(limits(2, 0, 0), [refuse_late]);
    let ends = all(&model, &[request(), request(), request(), patient(20)]).await;
    assert!(ends.iter().skip(1).take(2).all(Result::is_ok));
    assert_eq!(fake.seconds(began), [0, 0, 60]);
    assert!(matches!(ends[3].as_ref().unwrap_err().retry, RetryAdvice::After(_)));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_delay_that_is_too_long() {
    // wire WE23
    let (fake, model) = rig(limits(0, 0, 0), [Step::Refuse(asks(FailureKind::RateLimited, 3_600))]);
    let began = Instant::now();
    let error = complete(&*model, &request()).await.unwrap_err();
    assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(3_600)));
    tokio::time::advance(Duration::from_secs(10)).await;
    let error = complete(&*model, &request()).now_or_never().expect("nobody waits").unwrap_err();
    assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(3_590)));
    assert!(error.is_free() && error.kind == FailureKind::RateLimited);
    assert_eq!(fake.count(), 1);
    // A server cannot lock it for longer than it may be waited for.
    tokio::time::advance(Duration::from_secs(50)).await;
    assert!(complete(&*model, &request()).await.is_ok());
    assert_eq!(fake.seconds(began), [0, 60]);
}

#[tokio::test(start_paused = true)]
async fn what_a_wrapper_said_closes_nothing() {
    let ours = LlmError { phase: ErrorPhase::Encode, ..asks(FailureKind::Overloaded, 30) };
    let other = asks(FailureKind::ServerError, 30);
    let (fake, model) = rig(limits(0, 0, 0), [Step::Refuse(ours), Step::Refuse(other)]);
    let began = Instant::now();
    for _ in 0..3 {
        drop(complete(&*model, &request()).await);
    }
    assert_eq!(fake.seconds(began), [0, 0, 0]);
}

// wire WE23
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_go_in_its_time_fails_at_once() {
    let (fake, model) = rig(limits(1, 0, 0), []);
    complete(&*model, &request()).await.unwrap();
    let error = complete(&*model, &patient(60)).now_or_never().expect("nobody waits").unwrap_err();
    assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(60)));
    assert_eq!(
        error.to_string(),
        "rate_limited: the provider's rate limit lets this call go in 60.0 s, which is longer than it can wait"
    );
    assert!(error.is_free());
    // The third in the line knows that those before it go first.
    let requested = request();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(model.stream(&requested).map(drop))).collect();
    for call in &mut waiting {
        assert!(call.as_mut().now_or_never().is_none());
    }
    let error = complete(&*model, &patient(170)).now_or_never().expect("nobody waits").unwrap_err();
    assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(180)));
    assert_eq!(fake.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_others_gives_up_when_its_time_is_over() {
    let (fake, model) = rig(limits(0, 0, 1), [Step::HangAfterWord]);
    let held = model.stream(&request()).await.unwrap();
    let began = Instant::now();
    let error = complete(&*model, &patient(8)).await.unwrap_err();
    // Half a second before the caller's own clock would end the call as one that was sent.
    assert_eq!((began.elapsed(), error.retry), (Duration::from_millis(7_500), RetryAdvice::Backoff));
    assert_eq!((error.phase, error.is_free(), fake.count()), (ErrorPhase::Encode, true, 1));
    drop(held);
    assert!(complete(&*model, &patient(8)).await.is_ok(), "its place in the line was given back");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_was_waited_is_gone_for_the_call() {
    let (fake, model) = rig(limits(1, 0, 0), []);
    complete(&*model, &patient(100)).await.unwrap();
    complete(&*model, &patient(100)).await.unwrap();
    let calls = fake.calls.lock().unwrap();
    let left: Vec<Option<u64>> = calls.iter().map(|(_, request)| request.meta.timeout_ms).collect();
    assert_eq!(left, [Some(100_000), Some(40_000)]);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_gives_its_place_back() {
    let (fake, model) = rig(limits(0, 0, 1), [Step::HangAfterWord]);
    let held = model.stream(&request()).await.unwrap();
    let requested = request();
    let mut first = Box::pin(model.stream(&requested));
    let mut second = Box::pin(model.stream(&requested));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    drop(held);
    // The first was woken, and leaves without having gone.
    drop(first);
    let second = tokio::time::timeout(Duration::from_secs(1), second).await;
    assert!(second.expect("it is the first now").is_ok());
    assert_eq!(fake.count(), 2);
}

#[derive(Clone, Debug)]
struct Caller {
    arrives_ms: u64,
    takes_ms: u64,
    tokens: u64,
    used_per_cent: u64,
    leaves_after_ms: Option<u64>,
    fails: bool,
}

fn caller() -> impl Strategy<Value = Caller> {
    let times = (0..90_000_u64, 0..30_000_u64);
    let rest =
        (1..60_u64, 0..=100_u64, prop::option::weighted(0.2, 0..60_000_u64), prop::bool::weighted(0.2));
    (times, rest).prop_map(|((arrives_ms, takes_ms), (tokens, used_per_cent, leaves_after_ms, fails))| {
        Caller { arrives_ms, takes_ms, tokens, used_per_cent, leaves_after_ms, fails }
    })
}

/// A model that takes as long as its caller says.
#[derive(Debug, Default)]
struct Timed {
    log: Mutex<Vec<(Instant, usize, u64)>>,
    under_way: Arc<std::sync::atomic::AtomicUsize>,
    max: std::sync::atomic::AtomicUsize,
    callers: Vec<Caller>,
}

struct Live(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl ChatModel for Timed {
    async fn stream(&self, request: &ModelRequest) -> Result<loop_llm::EventStream, LlmError> {
        let nth: usize = request.meta.key.parse().unwrap();
        let caller = self.callers[nth].clone();
        self.max.fetch_max(self.under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let live = Live(Arc::clone(&self.under_way));
        self.log.lock().unwrap().push((Instant::now(), nth, caller.tokens));
        let end = if caller.fails {
            Err(LlmError::new(FailureKind::StreamInterrupted, ErrorPhase::Stream, "no"))
        } else {
            // What was used less than thought frees room: the log then holds what was used.
            let used = caller.tokens * caller.used_per_cent / 100;
            Ok(finished("hi", used))
        };
        Ok(futures::stream::once(async move {
            let _live = live;
            tokio::time::sleep(Duration::from_millis(caller.takes_ms)).await;
            end
        })
        .boxed())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_limit_is_ever_passed_and_everybody_comes_to_a_turn(
        callers in prop::collection::vec(caller(), 1..30),
        (requests, tokens, at_once) in (1..6_u32, 60..200_u64, 1..4_u32),
        are_exact in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let mut callers = callers;
            if are_exact {
                callers.iter_mut().for_each(|caller| caller.used_per_cent = 100);
            }
            let inner = Arc::new(Timed { callers: callers.clone(), ..Timed::default() });
            let model = RateLimited::new(Arc::clone(&inner), RateGate::new(limits(requests, tokens, at_once)));
            let began = Instant::now();
            let mut calls: FuturesUnordered<_> = callers.iter().enumerate().map(|(nth, caller)| {
                let model = &model;
                async move {
                    tokio::time::sleep(Duration::from_millis(caller.arrives_ms)).await;
                    let mut request = sized(caller.tokens);
                    request.meta.key = nth.to_string().into();
                    let call = complete(model, &request);
                    match caller.leaves_after_ms {
                        Some(after) => tokio::time::timeout(Duration::from_millis(after), call).await.is_ok(),
                        None => { drop(call.await); true }
                    }
                }
            }).collect();
            // The clock jumps to its end where nobody will ever be woken.
            let all = async { while calls.next().await.is_some() {} };
            tokio::time::timeout(Duration::from_secs(86_400), all).await.expect("everybody ends");
            let log = inner.log.lock().unwrap();
            assert!(inner.max.load(Ordering::SeqCst) <= at_once as usize);
            let stayed = callers.iter().enumerate().filter(|(_, caller)| caller.leaves_after_ms.is_none());
            for (nth, _) in stayed {
                assert!(log.iter().any(|(_, gone, _)| *gone == nth), "{nth} never went");
            }
            // Who came earlier, by more than a tick of the clock, went earlier.
            for pair in log.windows(2) {
                let came = |nth: usize| callers[nth].arrives_ms;
                assert!(came(pair[0].1) <= came(pair[1].1) + 1, "{pair:?} from {began:?}");
            }
            let mut window: VecDeque<(Instant, u64)> = VecDeque::new();
            for (at, nth, estimated) in log.iter() {
                while window.front().is_some_and(|(begun, _)| *begun + Duration::from_secs(60) <= *at) {
                    window.pop_front();
                }
                let used = if callers[*nth].fails { *estimated } else { estimated * callers[*nth].used_per_cent / 100 };
                window.push_back((*at, used));
                assert!(window.len() <= requests as usize, "{} calls within a minute", window.len());
                let sum: u64 = window.iter().map(|(_, tokens)| tokens).sum();
                assert!(sum <= tokens, "{sum} tokens within a minute");
            }
        });
    }
}
