//! Many runs at once: submits them, counts how many have ended, awaits them.

use std::path::Path;

use futures::StreamExt as _;
use loop_restate::wire::EndedReply;
use loop_runtime::run::RunId;

use super::desk::{Desk, patiently, submit_nth};

/// How many requests to the server are under way at once.
const AT_ONCE: usize = 64;

impl Desk {
    /// Submits this many items of a domain, many at a time.
    pub async fn submit_crowd(&self, domain: &str, count: usize) -> Vec<RunId> {
        let client = self.server.client();
        let submitted = futures::stream::iter(0..count).map(|n| {
            let client = client.clone();
            async move { submit_nth(&client, domain, n).await }
        });
        submitted.buffered(AT_ONCE).collect().await
    }

    /// How each run ended, in their order.
    pub async fn wait_crowd(&self, runs: &[RunId]) -> Vec<EndedReply> {
        let client = self.server.client();
        let ended = futures::stream::iter(runs.to_vec()).map(|run| {
            let client = client.clone();
            async move {
                patiently("a run ends", async || {
                    let wait = tokio::time::timeout(std::time::Duration::from_secs(20), client.wait(&run));
                    wait.await.ok()?.ok()
                })
                .await
            }
        });
        ended.buffered(AT_ONCE).collect().await
    }

    /// Waits until this many effects of a tool were made.
    pub async fn until_effects(&self, tool: &str, count: usize) {
        patiently("effects are made", async || {
            (effects_of(&self.effects_file(), tool) >= count).then_some(())
        })
        .await;
    }
}

fn effects_of(file: &Path, tool: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(tool)).count()
}
