//! A client without a loop: it sends the bodies of a recorded loop one after the other, and drains the replies.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use loop_llm::http::http_client;
use reqwest::{Client, Url};

use crate::meter::{Options, measure};

pub fn run(options: &Options) -> ExitCode {
    let [base_url, bodies] = ["--base-url", "--bodies"].map(|name| options.text(name).unwrap());
    let url: Url = format!("{}/chat/completions", base_url.trim_end_matches('/')).parse().unwrap();
    let client = http_client().unwrap();
    // They live as long as the process, so that sending copies none of them.
    let bodies: &'static [&'static [u8]] = recorded(bodies.as_ref()).leak();
    measure(options, move || one(client.clone(), url.clone(), bodies)).unwrap()
}

/// The bodies in a folder, in the order of the passes.
fn recorded(folder: &Path) -> Vec<&'static [u8]> {
    let read = |pass: u32| std::fs::read(folder.join(format!("{pass}.json"))).ok();
    let bodies: Vec<&'static [u8]> = (1..).map_while(read).map(|body| &*body.leak()).collect();
    assert!(!bodies.is_empty(), "no bodies in {}", folder.display());
    bodies
}

async fn one(client: Client, url: Url, bodies: &'static [&'static [u8]]) -> Result<(), String> {
    for body in bodies {
        exchange(&client, &url, body).await?;
    }
    Ok(())
}

async fn exchange(client: &Client, url: &Url, body: &'static [u8]) -> Result<(), String> {
    let post = client.post(url.clone()).header("content-type", "application/json").bearer_auth("unused");
    let post = post.header("accept", "text/event-stream, application/json").timeout(LONGEST);
    let mut response = post.body(body).send().await.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(response.status().to_string());
    }
    let mut bytes = 0;
    while let Some(piece) = response.chunk().await.map_err(|error| error.to_string())? {
        bytes += piece.len();
    }
    if bytes > 0 { Ok(()) } else { Err("an empty reply".to_owned()) }
}

const LONGEST: Duration = Duration::from_secs(120);
