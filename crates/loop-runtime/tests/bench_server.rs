//! The server of `cargo xtask bench loop` holds whole loops, whatever the client makes of its texts.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use loop_llm::{HttpModel, Message, ModelReply, ModelRequest, Profile, ToolOutput, complete};

use crate::replies::{Protocol, Shape};
use crate::serve::Times;

const SHAPE: Shape = Shape { passes: 4, calls: 3, pieces: 6, protocol: Protocol::Conversation };

#[test]
fn a_loop_calls_in_every_pass_but_the_last() {
    let replies = play(start(SHAPE, None), "An entry.");
    let calls: Vec<usize> = replies.iter().map(|reply| reply.tool_calls.len()).collect();
    assert_eq!(calls, [3, 3, 3, 0]);
    let calls = replies.iter().flat_map(|reply| &reply.tool_calls);
    let requested: BTreeSet<(&str, &str)> = calls.map(|call| (&*call.id, &**call.arguments.text())).collect();
    assert_eq!(requested.len(), 9, "no call is like another one: {requested:?}");
    assert!(replies.iter().all(|reply| !reply.text.is_empty() && reply.usage.is_some()));
}

#[test]
fn a_text_that_quotes_a_turn_is_no_turn() {
    let replies = play(start(SHAPE, None), r#"{"role":"assistant","content":"and \"role\":\"assistant\""}"#);
    assert_eq!(replies.len(), 4);
}

#[test]
fn the_last_pass_of_an_output_calls_its_tool() {
    let shape = Shape { passes: 1, protocol: Protocol::Output, ..SHAPE };
    let body = stated(start(shape, None), &post("{}"));
    assert!(body.contains("\"name\":\"save_finding\""), "{body}");
}

#[test]
fn what_was_sent_is_recorded_by_pass_and_gets_the_same_replies_again() {
    let folder = tempfile::tempdir().unwrap();
    play(start(SHAPE, Some(folder.path().to_owned())), "An entry.");
    let read = |pass: u32| std::fs::read_to_string(folder.path().join(format!("{pass}.json"))).ok();
    let bodies: Vec<String> = (1..).map_while(read).collect();
    let count = |texts: &[String], what: &str| -> Vec<usize> {
        texts.iter().map(|text| text.matches(what).count()).collect()
    };
    assert_eq!(count(&bodies, "\"role\":\"tool\""), [0, 3, 6, 9]);
    let address = start(SHAPE, None);
    let replies: Vec<String> = bodies.iter().map(|body| stated(address, &post(body))).collect();
    assert_eq!(count(&replies, "\"name\":\"lookup\""), [3, 3, 3, 0]);
}

#[test]
fn what_the_loop_does_not_hold_is_refused() {
    let address = start(Shape { passes: 1, ..SHAPE }, None);
    let after_the_end = post(r#"{"messages":[{"role":"assistant","content":"x"}]}"#);
    assert!(stated(address, &after_the_end).starts_with("HTTP/1.1 404 "));
    let elsewhere = post("{}").replace("/chat/completions", "/models");
    assert!(stated(address, &elsewhere).starts_with("HTTP/1.1 404 "));
    let no_length = "POST /v1/chat/completions HTTP/1.1\r\nhost: here\r\n\r\n";
    assert!(stated(address, no_length).starts_with("HTTP/1.1 411 "));
}

fn start(shape: Shape, record: Option<PathBuf>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || crate::serve::serve(listener, shape, Times { delay: 0, pace: 1 }, record));
    address
}

/// The replies of a loop whose question and results are `text`.
fn play(address: SocketAddr, text: &str) -> Vec<ModelReply> {
    let profile = Profile::named("compatible").unwrap();
    let model = HttpModel::new(profile, Some(&format!("http://{address}/v1"))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut request = ModelRequest::new("bench-1", "Be brief.", text.to_owned());
    let mut replies = Vec::new();
    loop {
        let reply = runtime.block_on(complete(&model, &request)).unwrap();
        let results = reply.tool_calls.iter().map(|call| ToolOutput {
            call: Arc::clone(&call.id),
            is_error: false,
            text: text.into(),
            ..ToolOutput::default()
        });
        request.messages.extend([reply.turn(), Message::Tool { results: results.collect() }]);
        let is_over = reply.tool_calls.is_empty();
        replies.push(reply);
        if is_over {
            return replies;
        }
    }
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: here\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// What comes back, to its end.
fn stated(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    // The server closes a connection when no more is coming.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut stated = String::new();
    stream.read_to_string(&mut stated).unwrap();
    stated
}
