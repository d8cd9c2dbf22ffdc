//! A client without a loop: it sends the bodies of a recorded loop one after the other, and drains the replies.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loop_llm::http::http_client;
use reqwest::{Client, Url};

use crate::meter::{Ended, Work, measure};

pub fn run(base_url: &str, bodies: &Path, work: Work) -> ExitCode {
    let url: Url = format!("{}/chat/completions", base_url.trim_end_matches('/')).parse().unwrap();
    let client = http_client().unwrap();
    // They live as long as the process, so that sending copies none of them.
    let bodies: &'static [&'static [u8]] = recorded(bodies).leak();
    measure(work, move || one(client.clone(), url.clone(), bodies))
}

/// The bodies in a folder, in the order of the passes.
fn recorded(folder: &Path) -> Vec<&'static [u8]> {
    let read = |pass: u32| std::fs::read(folder.join(format!("{pass}.json"))).ok();
    let bodies: Vec<&'static [u8]> = (1..).map_while(read).map(|body| &*body.leak()).collect();
    assert!(!bodies.is_empty(), "no bodies in {}", folder.display());
    bodies
}

async fn one(client: Client, url: Url, bodies: &'static [&'static [u8]]) -> Ended {
    let began = Instant::now();
    let mut ended = Ended::default();
    for body in bodies {
        match exchange(&client, &url, body).await {
            Ok(first_bytes) => {
                ended.first_text.get_or_insert_with(|| first_bytes.duration_since(began));
            }
            Err(why) => ended.wrong = Some(why),
        }
    }
    ended
}

/// When the first bytes of the reply were there.
async fn exchange(client: &Client, url: &Url, body: &'static [u8]) -> Result<Instant, String> {
    let post = client.post(url.clone()).header("content-type", "application/json").bearer_auth("unused");
    let post = post.header("accept", "text/event-stream, application/json").timeout(LONGEST);
    let mut response = post.body(body).send().await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(response.status().to_string());
    }
    let mut first = None;
    while let Some(piece) = response.chunk().await.map_err(|error| error.to_string())? {
        if !piece.is_empty() {
            first.get_or_insert_with(Instant::now);
        }
    }
    first.ok_or_else(|| "an empty reply".to_owned())
}

const LONGEST: Duration = Duration::from_secs(120);
