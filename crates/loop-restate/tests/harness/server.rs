//! The server of Restate.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loop_restate::Client;

/// A server of one node, or a node of a cluster, with its data in a folder. It is killed when it is dropped.
pub struct Server {
    folder: PathBuf,
    name: String,
    ports: [u16; 3],
    /// Variables of its environment, besides those of each server.
    settings: Vec<(String, String)>,
    child: Option<Child>,
}

impl Server {
    /// Starts a server that keeps its data in `folder`.
    pub async fn start(folder: &Path) -> Self {
        let mut server = Self::named(folder, "n1");
        server.start_again().await;
        server
    }

    /// Starts nodes of one cluster. Each partition and its log are on two of them.
    pub async fn cluster<const N: usize>(folder: &Path) -> [Self; N] {
        let mut nodes: [Self; N] = std::array::from_fn(|n| Self::named(folder, &format!("n{}", n + 1)));
        let addresses: Vec<String> =
            nodes.iter().map(|node| format!("http://127.0.0.1:{}", node.ports[0])).collect();
        for (n, node) in nodes.iter_mut().enumerate() {
            let own = [
                ("RESTATE_CLUSTER_NAME", "desk".to_owned()),
                ("RESTATE_ADVERTISED_ADDRESS", addresses[n].clone()),
                ("RESTATE_METADATA_CLIENT__ADDRESSES", serde_json::to_string(&addresses).unwrap()),
                ("RESTATE_AUTO_PROVISION", (n == 0).to_string()),
                ("RESTATE_DEFAULT_REPLICATION", "2".to_owned()),
            ];
            node.settings.extend(own.map(|(name, value)| (name.to_owned(), value)));
            node.spawn();
        }
        for node in &nodes {
            node.answers().await;
        }
        nodes
    }

    fn named(folder: &Path, name: &str) -> Self {
        let (folder, name) = (folder.to_owned(), name.to_owned());
        Self { folder, name, ports: free_ports(), settings: Vec::new(), child: None }
    }

    /// Starts it again after [`kill`](Self::kill), with what it kept.
    pub async fn start_again(&mut self) {
        self.spawn();
        self.answers().await;
    }

    fn spawn(&mut self) {
        let program = std::env::var_os("LOOPGATE_TEST_RESTATE")
            .expect("LOOPGATE_TEST_RESTATE names the server; run `cargo xtask servers restate`");
        let [node, ingress, admin] = self.ports.map(|port| port.to_string());
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{}.log", self.name)));
        let log = log.unwrap();
        let child = Command::new(program)
            .args(["--no-logo", "--node-name", &self.name, "--base-dir"])
            .arg(self.data())
            .env("RESTATE_LISTEN_MODE", "tcp")
            .env("RESTATE_BIND_IP", "127.0.0.1")
            .env("RESTATE_BIND_PORT", node)
            .env("RESTATE_INGRESS__BIND_PORT", ingress)
            .env("RESTATE_ADMIN__BIND_PORT", admin)
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MB")
            .envs(self.settings.iter().cloned())
            .env("RUST_LOG", "warn,restate=info")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
    }

    async fn answers(&self) {
        let http = loop_llm::http::own_http_client_for(&self.ingress().parse().unwrap()).unwrap();
        for url in [format!("{}/health", self.admin()), format!("{}/restate/health", self.ingress())] {
            answers(&http, &url).await;
        }
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The folder with its data.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data").join(&self.name)
    }

    /// The id of its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The URL of its ingress.
    pub fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// The URL of its admin API.
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[2])
    }

    pub fn client(&self) -> Client {
        Client::new(&self.ingress()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until this URL answers with success, at most two minutes.
pub async fn answers(http: &reqwest::Client, url: &str) {
    let ends = Instant::now() + Duration::from_secs(120);
    loop {
        if http.get(url).send().await.is_ok_and(|response| response.status().is_success()) {
            return;
        }
        assert!(Instant::now() < ends, "{url} does not answer");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Ports that nothing listens at.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    std::array::from_fn(|n| listeners[n].local_addr().unwrap().port())
}
