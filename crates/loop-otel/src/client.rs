//! The HTTP client of the exporters, on a thread of its own, with limits, and with reports of failures to the operator.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loop_llm::http::{http_error, own_http_client_for, own_http_client_trusting};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::header::HeaderMap;
use tokio::runtime::Handle;

use crate::config::Receiver;
use crate::queue::Reports;

/// The client of one OTLP receiver.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    headers: HeaderMap,
    timeout: Duration,
    /// The host and port of the receiver.
    host: String,
    runtime: Handle,
    reports: Arc<Reports>,
}

impl Client {
    /// A client whose requests are driven by `runtime`. The error is for the operator.
    pub(crate) fn new(receiver: &Receiver, runtime: Handle, reports: Arc<Reports>) -> Result<Self, String> {
        let http = match receiver.trusted()? {
            Some(pem) => own_http_client_trusting(&receiver.url, &pem),
            None => own_http_client_for(&receiver.url),
        };
        let url = &receiver.url;
        let port = url.port_or_known_default().map_or_else(String::new, |port| format!(":{port}"));
        Ok(Self {
            http: http.map_err(|error| error.to_string())?,
            headers: receiver.headers.clone(),
            timeout: receiver.timeout,
            host: format!("{}{port}", url.host_str().unwrap_or_default()),
            runtime,
            reports,
        })
    }

    fn report(&self, kind: &'static str, why: &str) {
        self.reports.once(kind, &format!("{}: {why}; runs are not affected", self.host));
    }

    fn report_answer(&self, response: &Response<Bytes>) {
        match response.status().as_u16() {
            200..=299 => {
                if let Some(why) = rejected(response.body().clone()) {
                    self.report("rejected", &why);
                }
            }
            code @ (429 | 502 | 503 | 504) => {
                self.report("later", &format!("it answers {code}; it is tried again"));
            }
            code => {
                self.report("refused", &format!("it answers {code}; what it does not accept is dropped"));
            }
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut request = reqwest::Request::try_from(request)?;
        request.headers_mut().extend(self.headers.clone());
        let (client, timeout) = (self.http.clone(), self.timeout);
        // The SDK's threads have no runtime.
        let task =
            self.runtime.spawn(async move { tokio::time::timeout(timeout, exchange(client, request)).await });
        let answered =
            task.await?.unwrap_or_else(|_| Err(format!("it does not answer in {} ms", timeout.as_millis())));
        match &answered {
            Ok(response) => self.report_answer(response),
            Err(why) => self.report("later", &format!("{why}; it is tried again")),
        }
        Ok(answered?)
    }
}

/// The partial rejection in a receiver's response, with its reason. `None`: there is none, or the response cannot be
/// parsed.
fn rejected(answer: Bytes) -> Option<String> {
    // The answers of the three signals have the same fields.
    let partial = ExportTraceServiceResponse::decode(answer).ok()?.partial_success?;
    let why = partial.error_message.chars().filter(|letter| !letter.is_control());
    let why: String = why.take(MAX_REASON).collect();
    (partial.rejected_spans > 0).then(|| format!("{} items were not accepted: {why}", partial.rejected_spans))
}

/// Sends one request, and reads the first bytes of its response.
async fn exchange(client: reqwest::Client, request: reqwest::Request) -> Result<Response<Bytes>, String> {
    let mut answer = client.execute(request).await.map_err(http_error)?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = answer.headers().clone();
    }
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    response.body(body.into()).map_err(|error| error.to_string())
}

/// The most bytes of a response that are read, up to the end of a chunk.
const MAX_ANSWER: usize = 16 << 10;
/// The most characters of a receiver's reason.
const MAX_REASON: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_rejected_is_read_and_bytes_of_another_kind_are_not() {
        let answer = b"\x0a\x0c\x08\xac\x02\x12\x07too old";
        assert_eq!(
            rejected(Bytes::from_static(answer)).as_deref(),
            Some("300 items were not accepted: too old")
        );
        for other in [&b""[..], b"\x0a", b"\x0a\x7f", b"{\"partialSuccess\":{}}", &[0xff; 40], b"\x0a\x00"] {
            assert_eq!(rejected(Bytes::copy_from_slice(other)), None, "{other:?}");
        }
    }
}
