//! The help desk behind a server, over each protocol: the same documents as without one.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::{Outcome, Tier, WorkItem};
use loop_domain::{Domain, LoadOptions};
use loop_llm::Offline;
use loop_llm::testing::{Behaviour, Chunks, Server, Service};

const TICKETS: [&str; 8] = ["T-1041", "T-1042", "T-1043", "T-1044", "T-1045", "T-1046", "T-1047", "T-1048"];

fn helpdesk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/helpdesk")
}

fn ticket(domain: &Domain, id: &str) -> WorkItem {
    let path = helpdesk().join(format!("tickets/{id}.json"));
    domain.item(&std::fs::read_to_string(&path).unwrap(), &path.display().to_string()).unwrap()
}

async fn run(domain: &Domain, id: &str) -> Outcome {
    domain.unsaved_loop().run(ticket(domain, id)).await.unwrap()
}

/// The help desk with every model behind this server.
fn behind(provider: &str, base_url: &str) -> Domain {
    let tiers = [Tier::Picker, Tier::Base];
    let options = LoadOptions {
        models: tiers.iter().map(|tier| (*tier, format!("{provider}/offline-1"))).collect(),
        base_urls: tiers.iter().map(|tier| (*tier, base_url.to_owned())).collect(),
        ..LoadOptions::default()
    };
    Domain::load(helpdesk(), &options).unwrap()
}

#[tokio::test]
async fn one_word_changes_the_protocol_and_the_documents_stay() {
    // S0-18
    let plain = Domain::load(helpdesk(), &LoadOptions::default()).unwrap();
    let mut expected = Vec::new();
    for id in TICKETS {
        expected.push(run(&plain, id).await);
    }
    let providers = [
        ("openai-chat", Chunks::Whole, "/v1/chat/completions"),
        ("openai-responses", Chunks::Random { seed: 7 }, "/v1/responses"),
        ("anthropic", Chunks::Bytes(1_000), "/v1/messages"),
        ("gemini", Chunks::Bytes(1), "/v1/models/offline-1:streamGenerateContent"),
    ];
    for (provider, chunks, path) in providers {
        let service = Service::of(Arc::new(Offline::new())).usually(Behaviour::model().in_chunks(chunks));
        let server = Server::start(service).unwrap();
        let domain = behind(provider, &server.base_url());
        for (id, expected) in TICKETS.iter().zip(&expected) {
            let outcome = run(&domain, id).await;
            assert_eq!(
                outcome.document.to_markdown(),
                expected.document.to_markdown(),
                "{id} over {provider}"
            );
            assert_eq!(outcome.stop, expected.stop, "{id} over {provider}");
            let (totals, without) = (outcome.totals, expected.totals);
            assert_eq!(
                (totals.model_calls, totals.usage),
                (without.model_calls, without.usage),
                "{id} over {provider}"
            );
        }
        assert!(
            server.requests().iter().all(|received| received.path == path && received.status == Some(200))
        );
    }
}
