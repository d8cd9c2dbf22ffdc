//! What a whole exchange costs the client, against one that only sends and drains the same bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loop_llm::codec::Api;
use loop_llm::http::http_client;
use loop_llm::{ChatModel, HttpModel, ModelEvent, ModelRequest, Profile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::streams::{Kind, stream};
use crate::{PROFILES, codec, cpu, median, model};

/// Pieces of a reply: a short one, a usual one, a long one.
const SIZES: [usize; 3] = [10, 150, 3_000];
/// Both clients take turns so often.
const ROUNDS: usize = 25;
/// Exchanges of each in one round, of a usual size.
const BATCH: usize = 12;

pub(crate) fn table() {
    println!(
        "\n{:22} {:>7} {:>8} {:>15} {:>15} {:>7}",
        "exchange", "events", "KB", "us, HttpModel", "us, reqwest", "ratio"
    );
    for (api, name) in PROFILES {
        for pieces in SIZES {
            let (bytes, events) = stream(api, Kind::Turn, pieces);
            let (ours, bare) = measure(api, name, &bytes, (BATCH * 150 / pieces).clamp(2, 40));
            println!(
                "{:22} {events:>7} {:>8.1} {:>15.1} {:>15.1} {:>7.2}",
                api.name(),
                bytes.len() as f64 / 1e3,
                ours.as_secs_f64() * 1e6,
                bare.as_secs_f64() * 1e6,
                ours.as_secs_f64() / bare.as_secs_f64()
            );
        }
    }
}

/// Processor time of this thread for one exchange of each client: the medians of all rounds.
fn measure(api: Api, name: &str, reply: &[u8], batch: usize) -> (Duration, Duration) {
    let address = serve(reply);
    let profile = Profile::named(name).unwrap();
    let model = HttpModel::new(profile, Some(&format!("http://{address}/v1"))).unwrap();
    let mut request = ModelRequest::new(self::model(api), "Be brief.", "What is on the disk? ".repeat(100));
    request.tools = Arc::default();
    let body = codec(api).encode(&request).unwrap().body.to_bytes();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 2 {
            let start = cpu();
            for _ in 0..batch {
                let mut events = model.stream(&request).await.unwrap();
                let mut is_finished = false;
                while let Some(event) = events.next().await {
                    is_finished = matches!(event.unwrap(), ModelEvent::Finished(_));
                }
                assert!(is_finished);
            }
            let between = cpu();
            for _ in 0..batch {
                let post = http_client().unwrap().post(format!("http://{address}/v1/bare"));
                let post = post.header("content-type", "application/json").body(body.clone());
                let mut response = post.send().await.unwrap();
                let mut drained = 0;
                while let Some(piece) = response.chunk().await.unwrap() {
                    drained += piece.len();
                }
                assert_eq!(drained, reply.len());
            }
            let end = cpu();
            // The first rounds make the connections.
            if round >= 2 {
                let each = |time: Duration| time / u32::try_from(batch).unwrap();
                ours.push(each(between - start));
                bare.push(each(end - between));
            }
        }
        (median(ours), median(bare))
    })
}

/// A server on a thread of its own that answers everything with `reply`.
fn serve(reply: &[u8]) -> SocketAddr {
    let mut response =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in reply.chunks(4 << 10) {
        response.extend(format!("{:x}\r\n", piece.len()).bytes());
        response.extend(piece);
        response.extend(b"\r\n");
    }
    response.extend(b"0\r\n\r\n");
    let response: Arc<[u8]> = response.into();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&response)));
            }
        });
    });
    address
}

/// Reads requests and answers them, until the client is gone.
async fn answer(mut stream: TcpStream, response: Arc<[u8]>) -> Option<()> {
    let mut held = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut held).await.ok()? == 0 {
                return None;
            }
        };
        let head = String::from_utf8_lossy(&held[..end]).to_ascii_lowercase();
        let (_, length) = head.split_once("content-length:")?;
        let length: usize = length.split("\r\n").next()?.trim().parse().ok()?;
        while held.len() < end + length {
            if stream.read_buf(&mut held).await.ok()? == 0 {
                return None;
            }
        }
        held.drain(..end + length);
        stream.write_all(&response).await.ok()?;
    }
}
