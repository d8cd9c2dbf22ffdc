//! A server of Chat Completions on loopback that answers with ready-made bytes and parses nothing: which pass a request
//! is for is told by how many turns of the assistant it holds.

use std::io::{Read, Write};
use std::net::TcpListener as Listener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::replies::responses;

/// Everything that a connection needs.
struct Answers {
    /// One a pass.
    responses: Vec<Vec<u8>>,
    record: Option<PathBuf>,
}

/// Prints the base URL, and serves until whoever started it is gone.
pub fn until_stdin_closes(passes: u32, calls: u32, record: Option<PathBuf>) -> ExitCode {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "http://{}/v1", listener.local_addr().unwrap()).unwrap();
    stdout.flush().unwrap();
    std::thread::spawn(move || serve(listener, passes, calls, record));
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
    ExitCode::SUCCESS
}

/// Serves for ever, on this thread alone.
fn serve(listener: Listener, passes: u32, calls: u32, record: Option<PathBuf>) {
    let answers = Arc::new(Answers { responses: responses(passes, calls), record });
    listener.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(answer(stream, Arc::clone(&answers)));
        }
    });
}

/// Reads requests and answers them, until the client is gone.
async fn answer(mut stream: TcpStream, answers: Arc<Answers>) -> Option<()> {
    let mut held = Vec::with_capacity(32 << 10);
    loop {
        let start = loop {
            if let Some(end) = memmem::find(&held, b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut held).await.ok()? == 0 {
                return None;
            }
        };
        let head = held.get(..start)?.to_ascii_lowercase();
        let Some(length) = content_length(&head) else {
            return stream.write_all(&refusal("411 Length Required")).await.ok();
        };
        let end = start + length;
        held.reserve(end.saturating_sub(held.len()));
        while held.len() < end {
            if stream.read_buf(&mut held).await.ok()? == 0 {
                return None;
            }
        }
        let body = held.get(start..end)?;
        let pass = passes_before(body);
        let is_requested = memmem::find(&head, b"/chat/completions http/").is_some();
        match answers.responses.get(pass).filter(|_| is_requested) {
            Some(response) => {
                if let Some(folder) = &answers.record {
                    std::fs::write(folder.join(format!("{}.json", pass + 1)), body).unwrap();
                }
                stream.write_all(response).await.ok()?;
            }
            None => stream.write_all(&refusal("404 Not Found")).await.ok()?,
        }
        held.drain(..end);
    }
}

/// The length that a head in small letters announces.
fn content_length(head: &[u8]) -> Option<usize> {
    let name = b"\r\ncontent-length:";
    let after = head.get(memmem::find(head, name)? + name.len()..)?;
    let line = after.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// How many turns of the assistant a body holds. A text that quotes one escapes its quotation marks.
fn passes_before(body: &[u8]) -> usize {
    let spellings: [&[u8]; 2] = [b"\"role\":\"assistant\"", b"\"role\": \"assistant\""];
    spellings.iter().map(|spelling| memmem::find_iter(body, spelling).count()).sum()
}

fn refusal(status: &str) -> Vec<u8> {
    let body = r#"{"error":{"message":"the loop has no such pass","type":"invalid_request_error"}}"#;
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
