//! A bucket of `moto`, a server for S3 that others wrote.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use loop_restate::blobs::{BlobErrorKind, BlobId, BlobOptions, BlobStore, Sweep};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::store::server::options;

/// The program, which ends with this value.
struct Moto {
    program: Child,
    port: u16,
}

impl Moto {
    async fn start(port: u16) -> Self {
        let program =
            std::env::var_os("LOOPGATE_MOTO").expect("LOOPGATE_MOTO is not set; see xtask/src/servers.rs");
        let mut program = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            // Lists of more have several pages.
            .env("MOTO_S3_DEFAULT_MAX_KEYS", "5")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let mut found = None;
        while found.is_none() {
            let line = lines.next_line().await.unwrap().expect("moto ended before it listened");
            found = line.split_once("http://127.0.0.1:").and_then(|(_, port)| port.trim().parse().ok());
        }
        // It logs each request there, and must not wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let moto = Self { program, port: found.unwrap() };
        assert_eq!(moto.put("/bucket", "").await, "200");
        moto
    }

    async fn stop(mut self) {
        self.program.kill().await.unwrap();
    }

    fn options(&self) -> BlobOptions {
        let mut options = options(self.port);
        options.retries = 1;
        options
    }

    async fn store(&self) -> BlobStore {
        BlobStore::open_with("s3://bucket/runs/blobs", self.options()).await.unwrap()
    }

    /// Puts what the store would not put. The status.
    async fn put(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let length = body.len();
        // `moto` asks who it is, and checks no signature.
        let who = "AWS4-HMAC-SHA256 Credential=other/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = format!(
            "PUT {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: {who}\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }
}

fn path(id: BlobId) -> String {
    let digest = id.digest().to_string();
    format!("/bucket/runs/blobs/{}/{digest}", &digest[..2])
}

#[tokio::test]
#[ignore = "needs moto: cargo xtask servers blobs"]
async fn blobs_in_a_bucket() {
    let moto = Moto::start(0).await;
    let store = moto.store().await;

    // Put, read, repeat, delete.
    let large = "0123456789abcdef".repeat(1 << 16);
    let id = store.put(large.clone()).await.unwrap();
    assert_eq!(store.put(large.clone()).await.unwrap(), id);
    assert_eq!(store.get(id).await.unwrap(), large);
    assert_eq!(store.get(store.put("").await.unwrap()).await.unwrap(), "");
    store.delete(id).await.unwrap();
    store.delete(id).await.unwrap();
    assert_eq!(store.get(id).await.unwrap_err().kind, BlobErrorKind::Missing);

    // Content of others under a blob's name.
    let id = store.put("content").await.unwrap();
    assert_eq!(moto.put(&path(id), "Content").await, "200");
    let damaged = BlobErrorKind::Damaged { found: BlobId::of(b"Content"), bytes: 7 };
    assert_eq!(store.get(id).await.unwrap_err().kind, damaged);
    store.put("content").await.unwrap();
    assert_eq!(store.get(id).await.unwrap(), "content");

    // A bucket that is not there.
    let other = BlobStore::open_with("s3://other", moto.options()).await.unwrap();
    assert_eq!(other.put("content").await.unwrap_err().kind, BlobErrorKind::NoBucket);
    assert_eq!(other.get(id).await.unwrap_err().kind, BlobErrorKind::NoBucket);
    assert_eq!(other.sweep(&HashSet::new(), Duration::ZERO).await.unwrap_err().kind, BlobErrorKind::NoBucket);

    // Many at once, then a sweep over several pages of the list.
    let mut tasks = JoinSet::new();
    for number in 0..24 {
        let store = store.clone();
        tasks.spawn(async move { store.put(format!("content {}", number / 2)).await.unwrap() });
    }
    let ids: HashSet<BlobId> = tasks.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 12);
    assert_eq!(moto.put("/bucket/runs/blobs/notes.txt", "mine").await, "200");
    assert_eq!(moto.put("/bucket/runs/blobs2/x", "mine").await, "200");
    // `content` and the empty blob as well.
    let older = store.older(Duration::ZERO, 100).await.unwrap();
    assert_eq!((older.len(), store.older(Duration::ZERO, 3).await.unwrap().len()), (14, 3));
    assert_eq!(store.older(Duration::from_secs(3600), 100).await.unwrap(), []);
    for blob in &older {
        let beginning = store.beginning(blob.id, blob.bytes.min(3)).await.unwrap();
        assert_eq!(beginning, store.get(blob.id).await.unwrap().slice(..blob.bytes.min(3) as usize));
    }
    assert_eq!(store.delete_older(id, Duration::from_secs(3600)).await.unwrap(), None);
    assert_eq!(store.delete_older(id, Duration::ZERO).await.unwrap(), Some(7));
    assert_eq!(store.delete_older(id, Duration::ZERO).await.unwrap(), None);
    store.put("content").await.unwrap();
    let kept: HashSet<BlobId> = ids.iter().copied().take(5).collect();
    let swept = store.sweep(&kept, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(swept, Sweep { referenced: 5, young: 9, ..Sweep::default() });
    let swept = store.sweep(&kept, Duration::ZERO).await.unwrap();
    // `content` and the empty blob as well.
    assert_eq!(
        (swept.deleted, swept.deleted_bytes, swept.referenced, swept.young),
        (9, 7 + bytes(&ids, &kept), 5, 0)
    );
    for id in &ids {
        let got = store.get(*id).await.map_err(|error| error.kind);
        assert_eq!(got.is_ok(), kept.contains(id), "{got:?}");
    }
    moto.stop().await;
}

/// Bytes of what is not kept.
fn bytes(ids: &HashSet<BlobId>, kept: &HashSet<BlobId>) -> u64 {
    let contents = (0..12).map(|number| format!("content {number}"));
    let swept = contents.filter(|content| {
        let id = BlobId::of(content.as_bytes());
        ids.contains(&id) && !kept.contains(&id)
    });
    swept.map(|content| u64::try_from(content.len()).unwrap()).sum()
}

#[tokio::test]
#[ignore = "needs moto: cargo xtask servers blobs"]
async fn a_server_that_ends_in_the_middle_loses_nothing_that_cannot_be_put_again() {
    let moto = Moto::start(0).await;
    let (store, port) = (moto.store().await, moto.port);
    let mut tasks = JoinSet::new();
    for number in 0..32_u32 {
        let store = store.clone();
        tasks.spawn(async move { store.put(number.to_string().repeat(1 << 18)).await });
    }
    tasks.join_next().await.unwrap().unwrap().unwrap();
    moto.stop().await;
    let mut failed = 0;
    while let Some(put) = tasks.join_next().await {
        if let Err(error) = put.unwrap() {
            assert!(error.is_retryable(), "{error:?}");
            failed += 1;
        }
    }
    assert!(failed > 0);

    // The same store, once the server is there again; this one has forgotten all.
    let moto = Moto::start(port).await;
    for number in 0..4_u32 {
        let content = number.to_string().repeat(1 << 18);
        let id = store.put(content.clone()).await.unwrap();
        assert_eq!(store.get(id).await.unwrap(), content);
    }
    moto.stop().await;
}
