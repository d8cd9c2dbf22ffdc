//! The client of a Restate server: submits runs, waits for them, and sends them messages, over HTTP.

use std::future::Future;
use std::time::{Duration, Instant};

use loop_core::types::Digest;
use loop_llm::http::own_http_client_for;
use loop_runtime::engine::{MessageReceipt, RunMessage};
use loop_runtime::run::RunId;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::{CALLS, EndedReply, EngineStatus, EngineSubmission, INBOX, RUN, WorkerDomain};

/// A client of the ingress of a Restate server. Each method but [`wait`](Self::wait) waits 30 s for a response. Then it
/// returns [`ClientError::Silent`], or [`ClientError::NotRead`] if the message has arrived.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    /// The time limit of a response that does not wait for the end of a run.
    patience: Duration,
}

/// Why a request to Restate, or to a run in it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server cannot be reached, or its response was cut.
    #[error("{url}: {message}; check that Restate runs there")]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        message: String,
    },
    /// The server can be reached but does not respond. It may have received the request.
    #[error(
        "{url}: no answer for {seconds} s; check that Restate runs there, and a worker of the domain. What was sent may arrive"
    )]
    Silent {
        /// The address.
        url: String,
        /// How long the client waited.
        seconds: u64,
    },
    /// Restate does not know the run or service.
    #[error("{message}")]
    Unknown {
        /// The message of Restate.
        message: String,
    },
    /// It is not an HTTP URL.
    #[error("`{url}` is not a URL of a Restate server; give one such as http://127.0.0.1:8080")]
    Url {
        /// The URL as given.
        url: String,
    },
    /// The run of this key was submitted for another item.
    #[error(
        "the key belongs to run {run}, which is of another work item; give this submission a key of its own"
    )]
    OtherItem {
        /// The run that has the key.
        run: RunId,
    },
    /// A response that Restate would not give there, for example because the port is that of the admin API.
    #[error(
        "{url}: {status}, which Restate does not answer there; the ingress has port 8080 and the admin API 9070 by default"
    )]
    NotRestate {
        /// The address.
        url: String,
        /// The status of the response.
        status: u16,
    },
    /// No worker is registered with the server.
    #[error(
        "{url}: no worker is registered; start one with `loopgate engine worker --register` and the URL of the admin API"
    )]
    NoWorker {
        /// The address.
        url: String,
    },
    /// The run has received a message and has not read it.
    #[error(
        "run {run} has the message and has not read it for {seconds} s; it reads it as soon as a worker of its domain runs"
    )]
    NotRead {
        /// The run.
        run: RunId,
        /// How long the client waited.
        seconds: u64,
    },
    /// The run has read a message that has no effect.
    #[error("run {run} does not take it: {why}")]
    NotTaken {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// The run ended in Restate without an outcome: an operator killed it, or it could not begin.
    #[error("run {run} ended in Restate without an outcome: {why}; submit the item with another key")]
    Killed {
        /// The run.
        run: RunId,
        /// The message of Restate.
        why: String,
    },
    /// Restate refused the request.
    #[error("{url}: {status}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The status of the response.
        status: u16,
        /// The message of Restate.
        message: String,
    },
}

/// An error as Restate writes it.
#[derive(Deserialize)]
struct RestateError {
    message: String,
    /// `ingress`: no handler was called. `invocation`: the run or a handler failed.
    #[serde(default)]
    source: Option<String>,
}

/// A submitted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedRun {
    /// The run's id.
    pub run: RunId,
    /// Whether it was submitted before, so that nothing new begins.
    pub is_known: bool,
}

/// The state of a run in Restate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvocationState {
    /// It is in progress.
    Open,
    /// It has ended with an outcome.
    Ended,
    /// It has ended without an outcome: an operator killed it, or it could not begin.
    Killed {
        /// The message of Restate.
        why: String,
    },
    /// Restate does not know it: it was never submitted there, or Restate no longer stores it.
    Unknown,
}

/// A message that a run has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedMessage {
    /// Its number among the run's messages, from 0.
    pub number: u64,
    /// Whether the run stores it until it asks about the action, since other calls of the pass still run.
    pub is_kept: bool,
}

impl Client {
    /// A client of the server whose ingress has this URL, for example `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// The URL is not valid, or this system has no HTTP client.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let failed = |message: String| ClientError::Unreachable { url: base.clone(), message };
        let parsed = Url::parse(&base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(parsed) = parsed else { return Err(ClientError::Url { url: url.to_owned() }) };
        let http = own_http_client_for(&parsed).map_err(|error| failed(error.to_string()))?;
        Ok(Self { http, base, patience: PATIENCE })
    }

    /// The run id of a key in a domain. It is always the same, so that an item is submitted once.
    pub fn run_of_key(domain: &str, key: &str) -> RunId {
        let digest = Digest::of("restate-run", format!("{domain}\n{key}").as_bytes()).to_string();
        let hex: String = digest.chars().filter(char::is_ascii_hexdigit).take(32).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        let id = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-");
        RunId::new(id)
    }

    /// Submits an item as this run. A second submission begins nothing.
    ///
    /// # Errors
    /// Restate cannot be reached or refuses, or the run was submitted for another item.
    pub async fn submit(
        &self,
        run: &RunId,
        submission: &EngineSubmission,
    ) -> Result<SubmittedRun, ClientError> {
        let sent: Value = self.send(Method::POST, &format!("{RUN}/{run}/run/send"), Some(submission)).await?;
        let is_known = sent.get("status").and_then(Value::as_str) == Some("PreviouslyAccepted");
        if is_known {
            let path = format!("{RUN}/{run}/submitted");
            let submitted: String = self.send(Method::POST, &path, None::<&()>).await?;
            if submitted != submission.digest() {
                return Err(ClientError::OtherItem { run: run.clone() });
            }
        }
        Ok(SubmittedRun { run: run.clone(), is_known })
    }

    /// Waits until the run has ended. A broken connection is re-established for two minutes, since a restarted server
    /// continues its runs.
    ///
    /// # Errors
    /// Restate cannot be reached, does not know the run, or the run could not begin.
    pub async fn wait(&self, run: &RunId) -> Result<EndedReply, ClientError> {
        let url = format!("{}/restate/workflow/{RUN}/{run}/attach", self.base);
        let mut lost: Option<Instant> = None;
        loop {
            let asked = Instant::now();
            let error = match self.http.get(&url).send().await {
                Ok(response) => match Answer::of(response).await {
                    Ok(answer) => return answer.read(),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let since = match lost {
                None if error.is_connect() => return Err(unreachable(&url, &error)),
                Some(since) if asked.elapsed() < SHORT => since,
                // There was a connection until now.
                None | Some(_) => Instant::now(),
            };
            if since.elapsed() > RECONNECTS {
                return Err(unreachable(&url, &error));
            }
            lost = Some(since);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What the run is doing.
    ///
    /// # Errors
    /// Restate cannot be reached or does not know the run.
    pub async fn status(&self, run: &RunId) -> Result<EngineStatus, ClientError> {
        self.send(Method::POST, &format!("{RUN}/{run}/status"), None::<&()>).await
    }

    /// The state of the run in Restate.
    ///
    /// # Errors
    /// Restate cannot be reached.
    pub async fn state(&self, run: &RunId) -> Result<InvocationState, ClientError> {
        let path = format!("restate/workflow/{RUN}/{run}/output");
        let answer = self.within(&path, self.answer(Method::GET, &path, None::<&()>)).await?;
        if answer.status.is_success() {
            return Ok(InvocationState::Ended);
        }
        match answer.error() {
            // The code of an invocation that failed may be any, also one that the ingress has another meaning for.
            Some(error) if error.source.as_deref() == Some("invocation") => {
                Ok(InvocationState::Killed { why: error.message })
            }
            Some(_) if answer.status.as_u16() == NOT_READY => Ok(InvocationState::Open),
            Some(_) if answer.status == StatusCode::NOT_FOUND => Ok(InvocationState::Unknown),
            _ => Err(answer.refused()),
        }
    }

    /// Sends a message to the run, and waits until the run has read it. The message stays in the run's inbox even if
    /// this times out.
    ///
    /// # Errors
    /// Restate cannot be reached or does not know the run, the run has ended or has not read the message for 30 s, or
    /// the message has no effect.
    pub async fn post(&self, run: &RunId, message: &RunMessage) -> Result<PostedMessage, ClientError> {
        // A run that was killed keeps its status, and would never read it.
        if let InvocationState::Killed { why } = self.state(run).await? {
            return Err(ClientError::Killed { run: run.clone(), why });
        }
        let number: u64 = self.send(Method::POST, &format!("{INBOX}/{run}/post"), Some(message)).await?;
        let path = format!("{RUN}/{run}/receipt");
        let receipt = self.send(Method::POST, &path, Some(&number)).await;
        let receipt = receipt.map_err(|error| match error {
            ClientError::Silent { seconds, .. } => ClientError::NotRead { run: run.clone(), seconds },
            error => error,
        })?;
        let is_kept = match receipt {
            MessageReceipt::Counts => false,
            MessageReceipt::Kept => true,
            MessageReceipt::Refused { why } => return Err(ClientError::NotTaken { run: run.clone(), why }),
        };
        Ok(PostedMessage { number, is_kept })
    }

    /// The domains of the workers.
    ///
    /// # Errors
    /// Restate cannot be reached, or no worker is registered.
    pub async fn domains(&self) -> Result<Vec<WorkerDomain>, ClientError> {
        self.send(Method::POST, &format!("{CALLS}/domains"), None::<&()>).await
    }

    /// Registers the worker at URL `worker` with the server. This client must have the URL of the server's admin API.
    ///
    /// # Errors
    /// The server cannot be reached, or cannot reach the worker.
    pub async fn register(&self, worker: &str) -> Result<(), ClientError> {
        let deployment = json!({"uri": worker, "force": true});
        self.send::<Value>(Method::POST, "deployments", Some(&deployment)).await.map(drop)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, ClientError> {
        self.within(path, self.answer(method, path, body)).await?.read()
    }

    async fn within<T>(
        &self,
        path: &str,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let silent =
            || ClientError::Silent { url: format!("{}/{path}", self.base), seconds: self.patience.as_secs() };
        tokio::time::timeout(self.patience, work).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<Answer, ClientError> {
        let url = format!("{}/{path}", self.base);
        let mut request = self.http.request(method, &url);
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|error| unreachable(&url, &error))?;
            request = request.header("content-type", "application/json").body(text);
        }
        let response = request.send().await.map_err(|error| unreachable(&url, &error))?;
        Answer::of(response).await.map_err(|error| unreachable(&url, &error))
    }
}

/// A response of the server.
struct Answer {
    url: String,
    status: StatusCode,
    bytes: Vec<u8>,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Result<Self, reqwest::Error> {
        let (url, status) = (response.url().to_string(), response.status());
        Ok(Self { url, status, bytes: response.bytes().await?.to_vec() })
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        if self.status.is_success() {
            return serde_json::from_slice(&self.bytes).map_err(|error| unreachable(&self.url, &error));
        }
        Err(self.refused())
    }

    fn error(&self) -> Option<RestateError> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// The error of a failed response.
    fn refused(self) -> ClientError {
        let answer = self.error();
        let Self { url, status, .. } = self;
        let is_of_ingress = answer.as_ref().is_some_and(|answer| answer.source.as_deref() == Some("ingress"));
        match (status, answer.map(|answer| answer.message)) {
            (StatusCode::NOT_FOUND, Some(_)) if is_of_ingress => ClientError::NoWorker { url },
            (StatusCode::NOT_FOUND, Some(message)) => ClientError::Unknown { message },
            (StatusCode::BAD_REQUEST, Some(_)) if is_of_ingress => {
                ClientError::NotRestate { url, status: status.as_u16() }
            }
            (_, Some(message)) => ClientError::Refused { url, status: status.as_u16(), message },
            (_, None) => ClientError::NotRestate { url, status: status.as_u16() },
        }
    }
}

fn unreachable(url: &str, error: &(dyn std::error::Error + 'static)) -> ClientError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let message = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    ClientError::Unreachable { url: url.to_owned(), message }
}

/// The status of the ingress for an invocation that has not ended.
const NOT_READY: u16 = 470;
/// The time limit of a response. Restate responds, and a worker reads a message, within milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a broken connection is re-established.
const RECONNECTS: Duration = Duration::from_secs(120);
/// A connection that breaks sooner counts as a failed attempt.
const SHORT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A client of a server that answers one request and no further, what the server listens on, and what it received then.
    fn of_a_silent_server() -> (Client, TcpListener, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        client.patience = Duration::from_secs(1);
        let accepts = listener.try_clone().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = accepts.accept().unwrap();
            let body = r#"{"message":"not ready"}"#;
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 {NOT_READY} Not Ready\r\ncontent-length: {}", body.len());
            write!(stream, "{head}\r\n\r\n{body}").unwrap();
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            received
        });
        (client, listener, server)
    }

    /// What the server received. The runtime closes the connection meanwhile, so this must not block it.
    async fn received(client: Client, server: std::thread::JoinHandle<Vec<u8>>) -> Vec<u8> {
        drop(client);
        tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_not_said_to_have_the_message() {
        let (client, _listener, server) = of_a_silent_server();
        let run = RunId::new("r1");
        let error = client.post(&run, &RunMessage::Tell("continue".into())).await.unwrap_err();
        assert!(matches!(error, ClientError::Silent { seconds: 1, .. }), "{error}");
        assert!(String::from_utf8(received(client, server).await).unwrap().contains("continue"));
    }

    #[tokio::test]
    async fn no_question_is_waited_for_without_an_end() {
        let (client, _listener, server) = of_a_silent_server();
        let run = RunId::new("r1");
        assert_eq!(client.state(&run).await.unwrap(), InvocationState::Open);
        let asked = [
            client.state(&run).await.map(drop).unwrap_err(),
            client.status(&run).await.map(drop).unwrap_err(),
            client.domains().await.map(drop).unwrap_err(),
            client.register("http://127.0.0.1:9080").await.unwrap_err(),
        ];
        for error in asked {
            assert!(matches!(error, ClientError::Silent { .. }), "{error}");
        }
        received(client, server).await;
    }

    #[tokio::test]
    async fn a_wait_survives_a_server_that_is_started_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            // One connection breaks before the answer, one within it.
            for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let ended = json!({"run": "r1", "class": "completed", "reason": "confident", "exit_code": 0, "text": "done", "report": {}});
            let body = ended.to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        });
        let ended = client.wait(&RunId::new("r1")).await.unwrap();
        assert_eq!((ended.text.as_str(), ended.exit_code), ("done", 0));
        server.join().unwrap();
        // A server that was never there is not waited for.
        let error = client.wait(&RunId::new("r1")).await.map(drop).unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }
}
