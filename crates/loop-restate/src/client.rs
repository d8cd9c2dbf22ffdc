//! Submits runs to Restate and says something to them, over HTTP.

use loop_core::Digest;
use loop_llm::own_http_client_for;
use loop_runtime::engine::RunMessage;
use loop_runtime::run::RunId;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::{CALLS, Ended, EngineStatus, EngineSubmission, INBOX, RUN, WorkerDomain};

/// Speaks to the ingress of a Restate server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// Why Restate, or a run in it, did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server cannot be reached, or its answer is cut.
    #[error("{url}: {message}; check that Restate runs there")]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        message: String,
    },
    /// Restate does not know what is asked for.
    #[error("{message}")]
    Unknown {
        /// What it says.
        message: String,
    },
    /// The URL is not one of HTTP.
    #[error("`{url}` is not a URL of a Restate server; give one such as http://127.0.0.1:8080")]
    Url {
        /// What was given.
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
    /// Something else than the expected part of Restate answers there.
    #[error(
        "{url}: {status}, which Restate does not answer there; the ingress has port 8080 and the admin API 9070 by default"
    )]
    NotRestate {
        /// The address.
        url: String,
        /// The status of the response.
        status: u16,
    },
    /// No worker has registered itself at the server.
    #[error(
        "{url}: no worker is registered; start one with `loopgate worker --engine restate --register` and the URL of the admin API"
    )]
    NoWorker {
        /// The address.
        url: String,
    },
    /// It refuses.
    #[error("{url}: {status}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The status of the response.
        status: u16,
        /// What it says.
        message: String,
    },
}

/// An error as Restate writes it.
#[derive(Deserialize)]
struct RestateError {
    message: String,
    /// `ingress`: no handler was called.
    #[serde(default)]
    source: Option<String>,
}

/// A run that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedRun {
    /// The run's id.
    pub run: RunId,
    /// Whether it was submitted before: nothing new begins.
    pub is_known: bool,
}

impl Client {
    /// A client of the server whose ingress has this URL, for example `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// If the URL is not one, or there is no HTTP client for this system.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let failed = |message: String| ClientError::Unreachable { url: base.clone(), message };
        let parsed = Url::parse(&base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(parsed) = parsed else { return Err(ClientError::Url { url: url.to_owned() }) };
        let http = own_http_client_for(&parsed).map_err(|error| failed(error.to_string()))?;
        Ok(Self { http, base })
    }

    /// The id of the run of this key in this domain: the same each time, so that an item is submitted once.
    pub fn run_of_key(domain: &str, key: &str) -> RunId {
        let digest = Digest::of("restate-run", format!("{domain}\n{key}").as_bytes()).to_string();
        let hex: String = digest.chars().filter(char::is_ascii_hexdigit).take(32).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        let id = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-");
        RunId::new(id)
    }

    /// Submits an item as this run. Submitting it again begins nothing.
    ///
    /// # Errors
    /// If Restate cannot be reached or refuses, or the run was submitted for another item.
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

    /// Waits until the run has ended.
    ///
    /// # Errors
    /// If Restate cannot be reached, does not know the run, or the run could not begin.
    pub async fn wait(&self, run: &RunId) -> Result<Ended, ClientError> {
        self.send(Method::GET, &format!("restate/workflow/{RUN}/{run}/attach"), None::<&()>).await
    }

    /// What the run does now.
    ///
    /// # Errors
    /// If Restate cannot be reached or does not know the run.
    pub async fn status(&self, run: &RunId) -> Result<EngineStatus, ClientError> {
        self.send(Method::POST, &format!("{RUN}/{run}/status"), None::<&()>).await
    }

    /// Says something to the run. Its number among the run's messages.
    ///
    /// # Errors
    /// If Restate cannot be reached, does not know the run, or the run is over.
    pub async fn post(&self, run: &RunId, message: &RunMessage) -> Result<u64, ClientError> {
        self.send(Method::POST, &format!("{INBOX}/{run}/post"), Some(message)).await
    }

    /// The domains of the workers.
    ///
    /// # Errors
    /// If Restate cannot be reached, or no worker is registered.
    pub async fn domains(&self) -> Result<Vec<WorkerDomain>, ClientError> {
        self.send(Method::POST, &format!("{CALLS}/domains"), None::<&()>).await
    }

    /// Registers the worker at `worker` with the server whose admin API has this client's URL.
    ///
    /// # Errors
    /// If the server cannot be reached, or cannot reach the worker.
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
        let url = format!("{}/{path}", self.base);
        let mut request = self.http.request(method, &url);
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|error| unreachable(&url, &error))?;
            request = request.header("content-type", "application/json").body(text);
        }
        let response = request.send().await.map_err(|error| unreachable(&url, &error))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreachable(&url, &error))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| unreachable(&url, &error));
        }
        let answer = serde_json::from_slice::<RestateError>(&bytes).ok();
        let is_of_ingress = answer.as_ref().is_some_and(|answer| answer.source.as_deref() == Some("ingress"));
        match (status, answer.map(|answer| answer.message)) {
            (StatusCode::NOT_FOUND, Some(_)) if is_of_ingress => Err(ClientError::NoWorker { url }),
            (StatusCode::NOT_FOUND, Some(message)) => Err(ClientError::Unknown { message }),
            (StatusCode::BAD_REQUEST, Some(_)) if is_of_ingress => {
                Err(ClientError::NotRestate { url, status: status.as_u16() })
            }
            (_, Some(message)) => Err(ClientError::Refused { url, status: status.as_u16(), message }),
            (_, None) => Err(ClientError::NotRestate { url, status: status.as_u16() }),
        }
    }
}

fn unreachable(url: &str, error: &(dyn std::error::Error + 'static)) -> ClientError {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let message = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    ClientError::Unreachable { url: url.to_owned(), message }
}
