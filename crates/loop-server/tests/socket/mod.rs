//! A server on a loopback socket with two small routes behind its door, and a client that sends bytes as they are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use loop_core::types::PicoUsd;
use loop_runtime::journal::StoredJournal;
use loop_server::caller::{Caller, Role};
use loop_server::doors::tokens::{NewToken, TokenFile};
use loop_server::doors::{
    Audit, AuditPage, AuditQuery, DoorLimits, Doors, DoorsConfig, Hosts, Identity, TokenListener,
    WatchedTokens, serve,
};
use loop_server::problem::HttpProblem;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The tokens of a server, by name: what each may do, and where.
pub(crate) const TOKENS: [(&str, &[Role], Option<&str>); 5] = [
    ("submitter", &[Role::Submit], None),
    ("reader", &[Role::Read], Some("crm")),
    ("approver", &[Role::Approve, Role::Read], Some("helpdesk")),
    ("admin", &[Role::Admin], None),
    ("removed", &[Role::Admin], None),
];

/// A name that a proxy has for the server.
pub(crate) const PUBLIC: &str = "loops.example.org";

pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) doors: Doors,
    pub(crate) journal: Arc<StoredJournal>,
    pub(crate) file: TokenFile,
    pub(crate) secrets: BTreeMap<&'static str, String>,
    /// How often a route changed something.
    pub(crate) changes: Arc<AtomicU32>,
    /// What was told of the file of tokens.
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    leave: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
    pub(crate) folder: TempDir,
}

/// What a test changes of a server.
pub(crate) struct Setup {
    pub(crate) limits: DoorLimits,
    pub(crate) has_tokens: bool,
    /// Whether the client counts as a proxy of the configuration.
    pub(crate) is_behind_proxy: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { limits: DoorLimits::default(), has_tokens: true, is_behind_proxy: false }
    }
}

impl Server {
    pub(crate) async fn start(setup: Setup) -> Self {
        let Setup { limits, has_tokens, is_behind_proxy } = setup;
        let folder = tempfile::tempdir().unwrap();
        let journal = Arc::new(StoredJournal::open(folder.path().join("journal.db")).unwrap());
        let file = TokenFile::at(folder.path().join("tokens.toml"));
        let mut secrets = BTreeMap::new();
        for (name, roles, domain) in TOKENS {
            let domains = domain.map(|domain| [Arc::from(domain)].into());
            let roles = roles.iter().copied().collect();
            let day_limit = (name == "submitter").then_some(PicoUsd(5));
            let new = NewToken { name: name.into(), roles, domains, day_limit, expires: None };
            secrets.insert(name, file.add(new).unwrap().reveal().to_owned());
        }
        let expires = Some("2026-01-01T00:00:00Z".parse().unwrap());
        let expired =
            NewToken { name: "old".into(), roles: [Role::Admin].into(), expires, ..NewToken::default() };
        secrets.insert("old", file.add(expired).unwrap().reveal().to_owned());
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener: TokenListener = {
            let told = Arc::clone(&told);
            Arc::new(move |error| told.lock().unwrap().push(error.to_string()))
        };
        let tokens = has_tokens.then(|| WatchedTokens::open(file.clone(), listener).unwrap());
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap();
        let proxies = if is_behind_proxy { vec![at.ip()] } else { Vec::new() };
        let doors = Doors::new(DoorsConfig {
            listen: at,
            hosts: Hosts::new(at, &[PUBLIC.to_owned()]).unwrap(),
            tokens,
            proxies: proxies.clone(),
            limits: limits.clone(),
            audit: Audit::of(Arc::clone(&journal)),
        })
        .unwrap();
        assert!(file.remove("removed").unwrap());
        let changes = Arc::new(AtomicU32::new(0));
        let router = doors.guard(routes(&changes, &Audit::of(Arc::clone(&journal))));
        let (leave, left) = oneshot::channel();
        let shutdown = async move { drop(left.await) };
        let task = tokio::spawn(serve(socket, router, limits, proxies, shutdown));
        Self { at, doors, journal, file, secrets, changes, told, leave: Some(leave), task, folder }
    }

    /// Begins to end the server.
    pub(crate) fn leave(&mut self) {
        drop(self.leave.take());
    }

    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(crate) fn bearer(&self, name: &str) -> String {
        format!("Authorization: Bearer {}", self.secrets[name])
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Sends these bytes on a connection of their own.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        // The server may have closed the connection before it has read all.
        let _ = stream.write_all(bytes).await;
        Reply::read(&mut stream).await
    }

    /// Sends a request with `Host`, and with these headers.
    pub(crate) async fn request(&self, line: &str, headers: &[&str]) -> Reply {
        self.send(self.text(line, headers, "").as_bytes()).await
    }

    /// Posts a form.
    pub(crate) async fn post(&self, path: &str, headers: &[&str], form: &str) -> Reply {
        let length = format!("Content-Length: {}", form.len());
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let headers: Vec<&str> = headers.iter().copied().chain([kind, &length]).collect();
        self.send(self.text(&format!("POST {path}"), &headers, form).as_bytes()).await
    }

    pub(crate) fn text(&self, line: &str, headers: &[&str], body: &str) -> String {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}Connection: close\r\n\r\n{body}", self.at)
    }

    /// A session of the person at this machine: its cookie, and what its forms send back.
    pub(crate) async fn session(&self) -> (String, String) {
        let code = self.doors.invite().unwrap().unwrap();
        let reply = self.request(&format!("GET /login?code={}", code.reveal()), &[]).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        let cookie = reply.cookie();
        let page = self.request("GET /", &[&cookie]).await;
        (cookie, page.body)
    }
}

fn routes(changes: &Arc<AtomicU32>, audit: &Audit) -> Router {
    Router::new()
        .route("/", get(home))
        .route("/v1/runs", get(list).post(submit))
        .route("/v1/runs/{run}/approve", post(approve))
        .route("/v1/audit", get(audited))
        .route("/healthz", get(|| async { "ok" }))
        .route("/assets/style.css", get(|| async { "body {}" }))
        .route("/v1/panic", get(panics))
        .route("/v1/slow", get(|| async { tokio::time::sleep(Duration::from_secs(3_600)).await }))
        .route("/v1/large", get(|| async { vec![b'x'; 64 << 20] }))
        .with_state(Arc::clone(changes))
        .layer(Extension(audit.clone()))
}

async fn audited(
    Extension(log): Extension<Audit>,
    Extension(caller): Extension<Caller>,
    query: Query<AuditQuery>,
) -> Result<Json<AuditPage>, HttpProblem> {
    log.page(&caller, query.0).await.map(Json)
}

async fn panics() -> &'static str {
    let secret = std::hint::black_box("lgt_secret of src/main.rs");
    assert_eq!(secret, "", "panicked with {secret}");
    "never"
}

/// What a form of the page sends back.
async fn home(Extension(identity): Extension<Identity>) -> String {
    identity.csrf.as_deref().unwrap_or_default().to_owned()
}

async fn list(Extension(caller): Extension<Caller>) -> Result<Json<Vec<&'static str>>, HttpProblem> {
    if !caller.is(Role::Read) {
        return Err(not_allowed());
    }
    Ok(Json(
        [("crm", "r1"), ("helpdesk", "r2")]
            .into_iter()
            .filter(|(of, _)| caller.sees(of))
            .map(|it| it.1)
            .collect(),
    ))
}

async fn submit(
    State(changes): State<Arc<AtomicU32>>,
    Extension(identity): Extension<Identity>,
    body: Json<serde_json::Value>,
) -> Result<(StatusCode, Json<serde_json::Value>), HttpProblem> {
    if !identity.caller.is(Role::Submit) {
        return Err(not_allowed());
    }
    changes.fetch_add(1, Ordering::SeqCst);
    let limit = identity.budget.map(|budget| budget.limit.0);
    let told = serde_json::json!({"who": *identity.caller.name, "limit": limit, "item": body.0, "from": identity.from});
    Ok((StatusCode::CREATED, Json(told)))
}

async fn approve(
    State(changes): State<Arc<AtomicU32>>,
    Extension(identity): Extension<Identity>,
    Path(run): Path<String>,
) -> Result<String, HttpProblem> {
    let domain = match &*run {
        "r1" => "crm",
        "r2" => "helpdesk",
        _ => return Err(unknown()),
    };
    match (identity.caller.sees(domain), identity.caller.is(Role::Approve)) {
        (false, _) => Err(unknown()),
        (true, false) => Err(not_allowed()),
        (true, true) => {
            changes.fetch_add(1, Ordering::SeqCst);
            Ok(identity.approver().to_string())
        }
    }
}

fn not_allowed() -> HttpProblem {
    HttpProblem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "Not allowed",
        "the token does not have this role; use another",
    )
}

fn unknown() -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "not-found", "Not found", "there is no such run; list the runs")
}

/// What the server has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// 0: the connection was closed without an answer.
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    /// Reads until the server closes the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        Self::parse(&Self::ended(stream).await)
    }

    /// What is sent until the server closes the connection.
    pub(crate) async fn ended(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = async {
            let mut part = [0; 16 << 10];
            loop {
                match stream.read(&mut part).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => bytes.extend(&part[..count]),
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the server closes the connection");
        bytes
    }

    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Self::default() };
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|it| it.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.unwrap_or_default(),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The cookie that the reply sets, as a header of the next request.
    pub(crate) fn cookie(&self) -> String {
        format!("Cookie: {}", self.header("set-cookie").split(';').next().unwrap())
    }

    /// The kind of the problem, without `/problems/`.
    pub(crate) fn kind(&self) -> String {
        let problem: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        problem["type"].as_str().unwrap_or_default().trim_start_matches("/problems/").to_owned()
    }
}

/// How long a test waits before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);
