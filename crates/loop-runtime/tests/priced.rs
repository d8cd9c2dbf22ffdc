//! What a reply is said to have cost: by the moment at which its call began and by the class of service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use loop_core::types::{PicoUsd, Usage};
use loop_llm::prices::{Date, find};
use loop_llm::{ChatModel, ModelEvent, ModelReply, ModelRequest, complete};
use loop_runtime::models::Priced;
use loop_testkit::llm::{EventModel, finished};

/// Seconds since 1970, from `2026-11-18 09:59`.
fn at(text: &str) -> u64 {
    let (day, clock) = text.split_once(' ').unwrap();
    let (hour, minute) = clock.split_once(':').unwrap();
    let seconds = hour.parse::<u64>().unwrap() * 3_600 + minute.parse::<u64>().unwrap() * 60;
    day.parse::<Date>().unwrap().start() + seconds
}

const NOON: &str = "2026-11-20 12:00";

const USAGE: Usage = Usage {
    input: 1_000,
    cache_read: 0,
    cache_write_short: 0,
    cache_write_long: 0,
    output: 100,
    reasoning: 10,
    estimated: false,
};

/// A model that shows a sign of life and then replies.
fn says(reply: ModelReply) -> Arc<EventModel> {
    Arc::new(EventModel(vec![Ok(ModelEvent::KeepAlive), finished(reply)]))
}

async fn priced(model: &str, provider: &str, moment: &str, reply: ModelReply) -> ModelReply {
    let row = find(provider, model, at(moment)).unwrap();
    let start = at(moment);
    let priced = Priced::new(says(reply), row.model).with_clock(move || start);
    complete(&priced, &ModelRequest::new(model, "", "")).await.unwrap()
}

#[tokio::test]
async fn a_reply_costs_what_the_class_of_service_costs_that_really_served() {
    // wire WU14
    let in_tier = |tier: Option<&str>| ModelReply {
        served_tier: tier.map(Into::into),
        ..ModelReply::text("", Some(USAGE))
    };
    let standard = PicoUsd(1_000 * 2_000_000 + 110 * 10_000_000);
    for (tier, expected) in [
        (None, standard),
        (Some("default"), standard),
        (Some("priority"), PicoUsd(2 * standard.0)),
        (Some("flex"), PicoUsd(standard.0 / 2)),
    ] {
        let reply = priced("gpt-6.1-sol", "openai", NOON, in_tier(tier)).await;
        assert_eq!((reply.cost, reply.warnings.len()), (Some(expected), 0), "{tier:?}");
    }
    // A class whose price nobody knows: no number is made up.
    let reply = priced("gpt-6.1-sol", "openai", NOON, in_tier(Some("ultra"))).await;
    assert_eq!((reply.cost, reply.warnings.len()), (None, 1));
    assert!(reply.warnings.iter().any(|warning| warning.contains("`ultra`")));
}

#[tokio::test]
async fn a_reply_costs_what_the_hour_cost_at_which_its_call_began() {
    // wire WU16
    let clock = Arc::new(AtomicU64::new(at("2026-11-18 09:59")));
    let row = find("deepseek", "deepseek-flash", at("2026-11-18 09:59")).unwrap();
    let inner = says(ModelReply::text("", Some(USAGE)));
    let now = Arc::clone(&clock);
    let model = Priced::new(inner, row.model).with_clock(move || now.load(Ordering::Relaxed));
    let request = ModelRequest::new("deepseek-flash", "", "");
    let mut events = model.stream(&request).await.unwrap();
    // The reply comes when the hour is over.
    clock.store(at("2026-11-18 10:00"), Ordering::Relaxed);
    let mut cost = None;
    while let Some(event) = events.next().await {
        if let ModelEvent::Finished(reply) = event.unwrap() {
            cost = reply.cost;
        }
    }
    assert_eq!(cost, Some(PicoUsd(1_000 * 300_000 + 110 * 1_200_000)));
    let later = complete(&model, &request).await.unwrap();
    assert_eq!(later.cost, Some(PicoUsd(1_000 * 150_000 + 110 * 600_000)));
}

#[tokio::test]
async fn what_the_provider_reports_stays_and_what_nobody_counted_has_no_cost() {
    // wire WQ22
    let reported = ModelReply { cost: Some(PicoUsd(7)), ..ModelReply::text("", Some(USAGE)) };
    assert_eq!(priced("gpt-6.1-sol", "openai", NOON, reported).await.cost, Some(PicoUsd(7)));
    let uncounted = ModelReply::text("", None);
    assert_eq!(priced("gpt-6.1-sol", "openai", NOON, uncounted).await.cost, None);
}
