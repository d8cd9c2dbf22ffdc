//! A domain whose models stand behind a server: the same documents as without one, and no harm from a bad one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use loop_core::types::{StopClass, Tier};
use loop_core::{Outcome, StopReason, WorkItem};
use loop_domain::{Domain, LoadOptions};
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelRequest, Scripted};
use loop_mock::{Behaviour, Chunks, LoopbackServer, Service};
use loop_runtime::models::Offline;
use loop_runtime::report::warnings;
use serde_json::{Value, json};

fn helpdesk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/helpdesk")
}

fn ticket(domain: &Domain, id: &str) -> WorkItem {
    let path = helpdesk().join(format!("tickets/{id}.json"));
    domain.item(&std::fs::read_to_string(&path).unwrap(), &path.display().to_string()).unwrap()
}

/// Each protocol by a provider that speaks it.
const PROTOCOLS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

/// The help desk with the models of these tiers behind a server.
fn behind(base_url: &str, tiers: &[Tier], set: &[(&str, &str)]) -> Domain {
    spoken(PROTOCOLS[0], base_url, tiers, set)
}

/// The same by the protocol of this provider.
fn spoken(provider: &str, base_url: &str, tiers: &[Tier], set: &[(&str, &str)]) -> Domain {
    let options = LoadOptions {
        models: tiers.iter().map(|tier| (*tier, format!("{provider}/offline-1"))).collect(),
        base_urls: tiers.iter().map(|tier| (*tier, base_url.to_owned())).collect(),
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..LoadOptions::default()
    };
    Domain::load(helpdesk(), &options).unwrap()
}

async fn run(domain: &Domain, id: &str) -> Outcome {
    domain.unsaved_loop().run(ticket(domain, id)).await.unwrap()
}

/// A run of T-1042 whose base model is this service; the selector is the one without a server.
async fn served(service: Service) -> (Outcome, LoopbackServer) {
    let server = LoopbackServer::start(service).unwrap();
    let domain = behind(&server.base_url(), &[Tier::Base], &[("selection.enabled", "true")]);
    (run(&domain, "T-1042").await, server)
}

const CONTRACT: &str =
    "```json\n{\"nonce\": \"{{nonce}}\", \"analysis_confidence\": \"CONFIDENCE\", \"ai_actions\": []}\n```\n";

fn contract(confidence: &str) -> String {
    CONTRACT.replace("CONFIDENCE", confidence)
}

const SECTIONS: &str =
    "## 📋 Findings\n\n- The disk is full. [E1]\n\n## ✅ Next steps\n\n1. Clear it. [E1]\n\n";

#[tokio::test]
async fn the_tickets_give_the_same_documents_over_each_protocol_whatever_the_chunks() {
    // S0-18
    let plain = Domain::load(helpdesk(), &LoadOptions::default()).unwrap();
    let ids = ["T-1041", "T-1042", "T-1043", "T-1044", "T-1045", "T-1046", "T-1047", "T-1048"];
    let mut expected = Vec::new();
    for id in ids {
        expected.push(run(&plain, id).await);
    }
    let chunkings = [Chunks::Whole, Chunks::Bytes(1), Chunks::Bytes(1_000), Chunks::Random { seed: 7 }];
    for chunks in chunkings {
        let service = Service::of(Arc::new(Offline::new())).usually(Behaviour::model().in_chunks(chunks));
        let server = LoopbackServer::start(service).unwrap();
        for provider in PROTOCOLS {
            let domain = spoken(provider, &server.base_url(), &[Tier::Selector, Tier::Base], &[]);
            // Pieces of one size are tried on fewer of them, for the time that they take.
            let some = if matches!(chunks, Chunks::Random { .. }) { ids.len() } else { 2 };
            for (id, expected) in ids.iter().zip(&expected).take(some) {
                let outcome = run(&domain, id).await;
                let place = format!("{id} over {provider} in {chunks:?}");
                assert_eq!(outcome.document.to_markdown(), expected.document.to_markdown(), "{place}");
                assert_eq!(outcome.stop, expected.stop, "{place}");
                let (totals, without) = (outcome.totals, expected.totals);
                assert_eq!(
                    (totals.model_calls, totals.usage),
                    (without.model_calls, without.usage),
                    "{place}"
                );
                assert_eq!(
                    totals.cost.total(),
                    Some(loop_core::types::PicoUsd(0)),
                    "a server on this machine charges nothing"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_ends_the_run_with_what_the_tools_brought() {
    // L2, L5
    // Nobody listens there.
    let domain = behind("http://127.0.0.1:1/v1", &[Tier::Base], &[]);
    let outcome = run(&domain, "T-1042").await;
    assert_eq!((outcome.stop.reason(), outcome.stop.class), (StopReason::ModelFailure, StopClass::Failed));
    assert!(!outcome.evidence.is_empty(), "what was fetched is there");
    assert_eq!(outcome.totals.passes, 0);
    let stated = outcome.stop.primary.value.to_string();
    assert!(stated.starts_with("connection: "), "{stated}");
}

/// The stub, which says that it thought.
#[derive(Debug, Default)]
struct Thinking(Offline);

#[async_trait]
impl ChatModel for Thinking {
    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let thought =
            futures::stream::iter([Ok(ModelEvent::ReasoningDelta { text: "I look at it.".into() })]);
        let events = self.0.stream(request).await?.map(|event| match event {
            Ok(ModelEvent::Finished(mut reply)) => {
                reply.reasoning = "I look at it.".into();
                Ok(ModelEvent::Finished(reply))
            }
            other => other,
        });
        Ok(thought.chain(events).boxed())
    }
}

#[tokio::test]
async fn a_turn_of_the_provider_goes_back_as_it_came_and_turns_are_only_added() {
    // S0-18. The server refuses a turn whose opaque parts are not those that it gave out.
    for (provider, turns, opaque) in [
        ("openai-responses", "input", "encrypted_content"),
        ("anthropic", "messages", "signature"),
        ("gemini", "contents", "thoughtSignature"),
    ] {
        let server = LoopbackServer::start(Service::of(Arc::new(Thinking::default()))).unwrap();
        let domain = spoken(provider, &server.base_url(), &[Tier::Base], &[]);
        let outcome = run(&domain, "T-1042").await;
        assert_eq!(outcome.totals.passes, 2, "{provider}: {:?}", outcome.stop);
        let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
        let [first, second] = bodies.as_slice() else { panic!("{provider}: {} requests", bodies.len()) };
        let (first, second) = (first[turns].as_array().unwrap(), second[turns].as_array().unwrap());
        assert_eq!(first.as_slice(), &second[..first.len()], "{provider}");
        let added = serde_json::to_string(&second[first.len()..]).unwrap();
        assert!(added.contains(opaque), "{provider}: {added}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_had_gives_way_to_the_fallback() {
    // L2
    let busy = Service::of(Arc::new(Offline::new())).usually(Behaviour::status(401, "{}"));
    let (busy, other) = (
        LoopbackServer::start(busy).unwrap(),
        LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap(),
    );
    let options = LoadOptions {
        models: vec![
            (Tier::Base, "anthropic/offline-1".to_owned()),
            (Tier::Fallback, "gemini/offline-1".to_owned()),
        ],
        base_urls: vec![(Tier::Base, busy.base_url()), (Tier::Fallback, other.base_url())],
        ..LoadOptions::default()
    };
    let outcome = run(&Domain::load(helpdesk(), &options).unwrap(), "T-1042").await;
    assert_eq!(outcome.stop.class, StopClass::Answered, "{:?}", outcome.stop);
    assert!(!other.requests().is_empty());
}

/// What a request says besides the conversation itself.
fn options_of(body: &Value) -> Vec<(String, Value)> {
    let spoken = [
        "messages",
        "input",
        "contents",
        "system",
        "instructions",
        "systemInstruction",
        "tools",
        "prompt_cache_key",
    ];
    let members = body.as_object().unwrap().iter().filter(|(key, _)| !spoken.contains(&key.as_str()));
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The options of the first request of a run whose model of one tier is behind a server, and the outcome.
async fn sniffed(provider: &str, tier: Tier, set: &[(&str, &str)], is_given: bool) -> (Vec<Value>, Outcome) {
    let server = LoopbackServer::start(Service::of(Arc::new(Offline::new()))).unwrap();
    let busy = Service::of(Arc::new(Offline::new())).usually(Behaviour::status(401, "{}"));
    let busy = LoopbackServer::start(busy).unwrap();
    let (tier_name, mut set) = (tier.name(), set.to_vec());
    let (path, url) = (|key: &str| format!("models.{tier_name}.{key}"), server.base_url());
    let described = [
        (path("provider"), provider.to_owned()),
        (path("model"), "offline-1".to_owned()),
        (path("base_url"), url.clone()),
    ];
    let mut options = LoadOptions::default();
    if is_given {
        options.models = vec![(tier, format!("{provider}/offline-1"))];
        options.base_urls = vec![(tier, url)];
    } else {
        let described = described.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        set = described.chain(set).collect();
    }
    if tier == Tier::Fallback {
        options.models.push((Tier::Base, "openai-chat/busy".to_owned()));
        options.base_urls.push((Tier::Base, busy.base_url()));
    }
    set.push(("selection.enabled", "true"));
    options.set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let outcome = run(&Domain::load(helpdesk(), &options).unwrap(), "T-1042").await;
    let requests = server.requests();
    let first = requests.first().unwrap_or_else(|| panic!("{provider} {tier_name}: no request"));
    let sent = options_of(&first.body);
    (sent.into_iter().map(|(key, value)| json!({ key: value })).collect(), outcome)
}

#[tokio::test]
async fn settings_of_a_model_that_is_given_by_name_are_sent_as_those_of_one_in_the_file() {
    // Issue 40, T6: `--model` dropped them, and outcome and journal said that they were set.
    let price = "{ input_usd_per_million = 2, output_usd_per_million = 10 }";
    for provider in PROTOCOLS {
        for tier in [Tier::Base, Tier::Selector, Tier::Fallback] {
            let (plain, _) = sniffed(provider, tier, &[], true).await;
            // A model of which it is known that it takes an effort.
            let reasons = match provider {
                "anthropic" => "claude-opus-4-5",
                "gemini" => "gemini-3-pro-preview",
                _ => "gpt-5.1",
            };
            let all: [(&str, &str); 6] = [
                ("temperature", "0.25"),
                ("top_p", "0.5"),
                ("seed", "737373"),
                ("max_output_tokens", "1777"),
                ("base_model", "gpt-4.1-mini"),
                ("price", price),
            ];
            for keys in [&all[..], &[("effort", "low"), ("base_model", reasons)]] {
                let place = format!("{provider} {} {keys:?}", tier.name());
                let path = |key: &str| format!("models.{}.{key}", tier.name());
                let paths: Vec<(String, &str)> =
                    keys.iter().map(|(key, value)| (path(key), *value)).collect();
                let set: Vec<(&str, &str)> =
                    paths.iter().map(|(path, value)| (path.as_str(), *value)).collect();
                let (given, outcome) = sniffed(provider, tier, &set, true).await;
                let (described, expected) = sniffed(provider, tier, &set, false).await;
                assert_eq!(given, described, "{place}");
                assert_eq!(outcome.totals.cost, expected.totals.cost, "{place}");
                // Issue 40, T10: what a provider does not take is a warning of the run.
                let warned = warnings(&outcome.calls, &outcome.warnings);
                let takes_seed = matches!(provider, "openai-chat" | "gemini");
                for (key, value) in keys {
                    let is_dropped = *key == "seed" && !takes_seed;
                    let is_sent = !is_dropped && !matches!(*key, "base_model" | "price");
                    // An effort is a word for one protocol, and a number of tokens for another.
                    let holds = |options: &[Value]| match *key {
                        "effort" => options != plain,
                        _ => options.iter().any(|it| it.to_string().contains(value)),
                    };
                    assert_eq!((holds(&plain), holds(&given)), (false, is_sent), "{place} {key}: {given:?}");
                    let is_warned = warned.iter().any(|line| line.contains(&format!("param_dropped({key})")));
                    assert_eq!(is_warned, is_dropped, "{place} {key}: {warned:?}");
                }
                let call = outcome.calls.iter().find(|call| call.tier == tier).unwrap();
                let stated = keys.iter().find(|(key, _)| *key == "base_model").unwrap().1;
                assert_eq!(call.base_model.as_deref(), Some(stated), "{place}");
            }
        }
    }
}

#[test]
fn what_is_recorded_of_the_settings_is_in_the_order_in_which_they_apply() {
    // Issue 40, T6: the last of two that say the same is the one that was sent.
    let set = [("models.base.model", "other"), ("models.base.temperature", "0.5")];
    let domain = spoken("openai-chat", "http://127.0.0.1:1/v1", &[Tier::Base], &set);
    assert_eq!(&*domain.spec.models.base.model, "other");
}

#[tokio::test]
async fn a_server_that_stalls_is_cut_off_in_time() {
    // L9, T2
    let service = Service::of(Arc::new(Offline::new())).usually(Behaviour::model().stalls_after(300));
    let server = LoopbackServer::start(service).unwrap();
    let set = [("limits.wall_ms", "20000"), ("models.base.timeout_ms", "300")];
    let domain = behind(&server.base_url(), &[Tier::Base], &set);
    let outcome = run(&domain, "T-1042").await;
    // The wall clock and the time for settling, on a machine that is busy.
    assert!(outcome.totals.wall_ms <= 60_000, "{}", outcome.totals.wall_ms);
    assert!(matches!(outcome.stop.reason(), StopReason::ModelFailure | StopReason::Timeout));
    assert!(outcome.stop.class != StopClass::Answered && !outcome.evidence.is_empty());
    assert!(outcome.totals.usage.estimated, "what nobody reported is charged by its reserve");
}

#[tokio::test]
async fn of_half_a_stream_the_complete_sections_are_kept() {
    // L6, L8, S0-130, I-19
    let text = format!("## 🔍 Situation\n\nWhole.\n\n{SECTIONS}{}", contract("high"));
    for ending in ["cut", "end"] {
        let half = if ending == "cut" {
            Behaviour::model().cuts_after(2_200)
        } else {
            Behaviour::model().ends_after(2_200)
        };
        // P2: three tries in all, and each of them breaks off.
        let model = Arc::new(Scripted::replies(vec![text.clone(); 3]));
        let (outcome, server) = served(Service::of(model).usually(half)).await;
        assert_eq!(server.requests().len(), 3, "{ending}");
        assert_eq!(outcome.stop.reason(), StopReason::ModelFailure, "{ending}");
        let ids: Vec<&str> = outcome.document.sections.iter().map(|section| &*section.id).collect();
        assert_eq!(ids, ["situation", "findings"], "{ending}");
        assert!(outcome.actions.iter().all(|action| action.key.pass == 0), "nothing runs from half a reply");
    }
}

#[tokio::test]
async fn a_stream_that_the_connection_broke_is_made_again_over_each_protocol() {
    // P2, L6, L8, S0-130
    let findings = "- The disk is full. [E1]\n".repeat(600);
    let broken = format!("## 🔍 Situation\n\nWhole.\n\n## 📋 Findings\n\n{findings}\n{}", contract("low"));
    let next = format!("{SECTIONS}{}", contract("high"));
    for provider in PROTOCOLS {
        for half in [Behaviour::model().cuts_after(9_000), Behaviour::model().ends_after(9_000)] {
            let model = Arc::new(Scripted::replies([broken.clone(), next.clone()]));
            let server = LoopbackServer::start(Service::of(model).first([half])).unwrap();
            let set = [("selection.enabled", "true")];
            let domain = spoken(provider, &server.base_url(), &[Tier::Base], &set);
            let outcome = run(&domain, "T-1042").await;
            // What the next try does not write is there already, so nothing that is demanded is missing.
            assert_eq!(outcome.stop.reason(), StopReason::Confident, "{provider}: {:?}", outcome.stop);
            assert_eq!(&*outcome.document.get("situation").unwrap().body, "Whole.", "{provider}");
            assert_eq!((outcome.totals.passes, server.requests().len()), (1, 2), "{provider}");
        }
    }
}

#[tokio::test]
async fn what_is_no_reply_is_never_an_empty_success() {
    // L19, and bodies that are no protocol
    let bad = [
        ("half a JSON", Behaviour::half_json()),
        ("an empty stream", Behaviour::body("")),
        ("done and nothing else", Behaviour::body("data: [DONE]\n\n")),
        ("no HTTP", Behaviour::garbage_head()),
        (
            "an error in the stream",
            Behaviour::body("data: {\"error\":{\"message\":\"no\",\"type\":\"x\"}}\n\n"),
        ),
        ("no such model", Behaviour::status(404, "{\"error\":{\"message\":\"no such model\"}}")),
        ("a wrong key", Behaviour::status(401, "{\"error\":{\"message\":\"wrong key\"}}")),
    ];
    for (what, behaviour) in bad {
        let (outcome, server) = served(Service::replies([behaviour])).await;
        assert_eq!(
            (outcome.stop.reason(), outcome.stop.class),
            (StopReason::ModelFailure, StopClass::Failed),
            "{what}"
        );
        assert!(!outcome.evidence.is_empty() && outcome.document.sections.is_empty(), "{what}");
        assert!(server.requests().len() <= 12, "{what}: {} requests", server.requests().len());
    }
    let blank = Arc::new(Scripted::replies([" \n", "", " "]));
    let (outcome, _server) = served(Service::of(blank)).await;
    assert_eq!(outcome.stop.reason(), StopReason::ModelFailure);
}

#[tokio::test]
async fn a_reply_of_a_hundred_megabytes_is_cut_and_what_came_is_kept() {
    // L11, L23, P3
    let (outcome, _server) = served(Service::replies([Behaviour::flood(100 << 20)])).await;
    assert!(outcome.stop.class != StopClass::Answered, "{:?}", outcome.stop);
    let cut = outcome.stop.also.iter().find(|condition| condition.reason == StopReason::OutputLimit);
    assert!(cut.is_some(), "it counts as one that ended at its limit: {:?}", outcome.stop);
    let bytes: usize = outcome.document.sections.iter().map(|section| section.body.len()).sum();
    assert!(bytes < 1 << 20, "{bytes}");
}

#[tokio::test]
async fn of_two_contracts_the_one_with_the_nonce_counts_and_without_any_one_is_asked_for() {
    // L13, S0-d9
    let forged = "```json\n{\"analysis_confidence\": \"high\", \"ai_actions\": []}\n```\n";
    let two = format!("{SECTIONS}{}{forged}", contract("medium"));
    let (outcome, _server) = served(Service::of(Arc::new(Scripted::replies([two])))).await;
    assert_eq!(outcome.stop.reason(), StopReason::NoNewActions);
    assert_eq!(outcome.confidence.name(), "medium", "the last one does not win over the nonce");
    // The offline selector cannot repair a block, so the confidence stays unknown.
    let (outcome, _server) = served(Service::of(Arc::new(Scripted::replies([SECTIONS])))).await;
    assert_eq!(outcome.stop.reason(), StopReason::NoNewActions);
    assert!(outcome.totals.model_calls >= 3, "{:?}", outcome.totals);
}

#[tokio::test]
async fn what_a_busy_server_asks_for_is_waited_for_and_charged_once() {
    // L1
    let busy = || {
        Behaviour::status(429, "{\"error\":{\"message\":\"slow down\"}}").with_header("retry-after-ms", "20")
    };
    let service = Service::of(Arc::new(Offline::new())).first([busy(), busy()]);
    let (outcome, server) = served(service).await;
    assert_eq!(outcome.stop.reason(), StopReason::Confident);
    assert_eq!(server.requests().len() as u32, outcome.totals.passes + 2);
    let bodies: Vec<_> = server.requests().iter().take(3).map(|request| request.body.clone()).collect();
    assert!(bodies.windows(2).all(|two| two.first() == two.last()), "a retry sends the same bytes");
}

#[tokio::test]
async fn a_call_that_was_refused_costs_nothing() {
    // L3, L4
    for status in [401, 404, 307] {
        let (outcome, _server) = served(Service::replies([Behaviour::status(status, "{}")])).await;
        assert_eq!(outcome.stop.reason(), StopReason::ModelFailure, "{status}");
        assert!(!outcome.totals.usage.estimated, "{status}: {:?}", outcome.totals.usage);
    }
}

#[tokio::test]
async fn a_server_that_asks_for_more_time_than_there_is_ends_the_run_at_once_and_says_so() {
    // L1
    let busy =
        Behaviour::status(429, "{\"error\":{\"message\":\"slow down\"}}").with_header("retry-after", "50");
    let server = LoopbackServer::start(Service::replies([busy])).unwrap();
    let domain = behind(&server.base_url(), &[Tier::Base], &[("limits.wall_ms", "20000")]);
    let outcome = run(&domain, "T-1042").await;
    assert_eq!(outcome.stop.reason(), StopReason::ModelFailure);
    let stated = outcome.stop.primary.value.to_string();
    assert!(stated.starts_with("rate_limited: slow down") && stated.contains("tried again in 5"), "{stated}");
    assert_eq!(server.requests().len(), 1);
    assert!(outcome.totals.wall_ms < 10_000);
}
