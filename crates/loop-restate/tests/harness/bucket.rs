//! Stores of blobs: a folder, or a bucket of `moto`, a server for S3 that others wrote.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::server::{answers, free_ports};

/// A store of blobs for workers.
#[derive(Clone, Debug)]
pub struct Blobs {
    /// Its URL.
    pub url: String,
    /// For how many seconds blobs stay after the end of their run.
    pub stay: u64,
    /// The server of the bucket.
    pub endpoint: Option<String>,
}

impl Blobs {
    pub fn folder(folder: &Path) -> Self {
        Self { url: format!("file://{}", folder.display()), stay: 0, endpoint: None }
    }

    /// The environment of a worker that uses the bucket.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let of = |endpoint: &String| {
            let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| (name, "test".to_owned()));
            keys.into_iter().chain([("AWS_ENDPOINT_URL", endpoint.clone())]).collect()
        };
        self.endpoint.as_ref().map(of).unwrap_or_default()
    }
}

/// A server for S3 with one bucket. It is killed when it is dropped.
pub struct Bucket {
    child: Child,
    endpoint: String,
    http: reqwest::Client,
}

impl Bucket {
    pub async fn start() -> Self {
        let program = std::env::var_os("LOOPGATE_MOTO")
            .expect("LOOPGATE_MOTO names the server; run `cargo xtask servers restate`");
        let [port] = free_ports();
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let endpoint = format!("http://127.0.0.1:{port}");
        let http = loop_llm::http::own_http_client_for(&endpoint.parse().unwrap()).unwrap();
        let bucket = Self { child, endpoint, http };
        answers(&bucket.http, &format!("{}/moto-api/", bucket.endpoint)).await;
        let made =
            bucket.http.put(format!("{}/bucket", bucket.endpoint)).header("authorization", OTHER).send();
        assert!(made.await.unwrap().status().is_success());
        bucket
    }

    pub fn blobs(&self) -> Blobs {
        Blobs { url: "s3://bucket/runs".to_owned(), stay: 0, endpoint: Some(self.endpoint.clone()) }
    }

    /// How many blobs are there, at most a thousand.
    pub async fn count(&self) -> usize {
        let list =
            self.http.get(format!("{}/bucket?list-type=2", self.endpoint)).header("authorization", OTHER);
        list.send().await.unwrap().text().await.unwrap().matches("<Key>").count()
    }
}

/// `moto` asks who it is, and checks no signature.
const OTHER: &str =
    "AWS4-HMAC-SHA256 Credential=other/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

impl Drop for Bucket {
    fn drop(&mut self) {
        // It may be over.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The blobs below a folder: a folder of each first two digits.
pub fn files(store: &Path) -> Vec<PathBuf> {
    let of = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    of(store).iter().filter(|path| path.is_dir()).flat_map(|folder| of(folder)).collect()
}
