//! Sends what waits, on a thread of its own: a receiver that is down, slow or full holds nothing else up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use loop_llm::{http_error, own_http_client_for, retry_after};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::config::Receiver;
use crate::data::request;
use crate::proto::rejected;
use crate::shared::{Shared, Signal};

/// Tells the operator one line.
pub(crate) type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Everything that waits is to be sent until then.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) until: Instant,
    pub(crate) done: oneshot::Sender<()>,
}

/// What sends.
pub(crate) struct Exporter {
    shared: Arc<Shared>,
    orders: UnboundedReceiver<Flush>,
    flush: Option<Flush>,
    is_closed: bool,
    report: Report,
    reported: BTreeSet<&'static str>,
    traces: Kept,
    logs: Kept,
    clients: BTreeMap<Url, Client>,
}

/// A batch that a receiver has not accepted yet.
#[derive(Default)]
struct Kept {
    items: Vec<Vec<u8>>,
    tries: u32,
    /// When it is sent again.
    due: Option<Instant>,
}

/// What became of a request.
enum Answer {
    Accepted(Option<(u64, String)>),
    /// Not this time, for this reason; and how long the receiver asks to wait.
    Later(String, Option<Duration>),
    Refused(String),
}

impl Exporter {
    pub(crate) fn new(shared: Arc<Shared>, orders: UnboundedReceiver<Flush>, report: Report) -> Self {
        Self {
            shared,
            orders,
            flush: None,
            is_closed: false,
            report,
            reported: BTreeSet::new(),
            traces: Kept::default(),
            logs: Kept::default(),
            clients: BTreeMap::new(),
        }
    }

    /// Sends until nothing can give an order any more.
    pub(crate) async fn run(mut self) {
        let interval = self.shared.config.metric_interval;
        let mut metrics_due = Instant::now() + interval;
        while !self.is_closed {
            if self.flush.is_none() {
                let tick = Instant::now() + self.shared.config.delay;
                let shared = Arc::clone(&self.shared);
                tokio::select! {
                    biased;
                    order = self.orders.recv() => match order {
                        Some(flush) => self.flush = Some(flush),
                        None => return,
                    },
                    () = shared.is_full.notified() => {}
                    () = sleep_until(tick.min(metrics_due)) => {}
                }
            }
            self.send_all(Signal::Traces).await;
            self.send_all(Signal::Logs).await;
            if self.flush.is_some() || Instant::now() >= metrics_due {
                metrics_due = Instant::now() + interval;
                self.send_metrics().await;
            }
            // One that came meanwhile is carried out in another turn.
            if let Some(flush) = self.flush.take() {
                if self.is_drained() || Instant::now() >= flush.until || self.has_kept() {
                    _ = flush.done.send(());
                } else {
                    self.flush = Some(flush);
                }
            }
            self.report_dropped();
        }
    }

    fn is_drained(&self) -> bool {
        [Signal::Traces, Signal::Logs].iter().all(|signal| self.shared.counts(*signal).0 == 0)
    }

    fn has_kept(&self) -> bool {
        !self.traces.items.is_empty() || !self.logs.items.is_empty()
    }

    fn kept(&mut self, signal: Signal) -> &mut Kept {
        match signal {
            Signal::Traces => &mut self.traces,
            Signal::Logs => &mut self.logs,
        }
    }

    /// Sends what waits of a signal, batch by batch, until a receiver does not accept one.
    async fn send_all(&mut self, signal: Signal) {
        let config = &self.shared.config;
        let receiver = match signal {
            Signal::Traces => config.traces.clone(),
            Signal::Logs => config.logs.clone(),
        };
        let Some(receiver) = receiver else { return };
        loop {
            let is_flushing = self.flush.is_some();
            let shared = Arc::clone(&self.shared);
            let kept = self.kept(signal);
            if kept.items.is_empty() {
                *kept = Kept { items: shared.take(signal), ..Kept::default() };
            }
            let is_due = is_flushing || kept.due.is_none_or(|due| due <= Instant::now());
            if kept.items.is_empty() || !is_due {
                return;
            }
            kept.tries += 1;
            let (tries, count) = (kept.tries, kept.items.len() as u64);
            let body = request(&shared.config.resource, &kept.items);
            match self.post(&receiver, body).await {
                Answer::Accepted(rejected) => {
                    *self.kept(signal) = Kept::default();
                    self.shared.accepted(signal, count);
                    if let Some((count, why)) = rejected {
                        self.once("rejected", format!("{count} items were not accepted: {why}"), &receiver);
                    }
                }
                Answer::Refused(why) => {
                    *self.kept(signal) = Kept::default();
                    self.shared.give_up(signal, count);
                    self.once("refused", format!("{why}; what it does not accept is dropped"), &receiver);
                }
                Answer::Later(why, asked) => {
                    self.once("later", format!("{why}; it is tried again"), &receiver);
                    if self.wait_again(signal, tries, asked).await {
                        continue;
                    }
                    return;
                }
            }
        }
    }

    /// Puts a batch off; whether it is to be sent again at once, since the time to flush allows it.
    async fn wait_again(&mut self, signal: Signal, tries: u32, asked: Option<Duration>) -> bool {
        let backoff = FIRST_WAIT * 2_u32.saturating_pow(tries.saturating_sub(1).min(5));
        let wait = asked.unwrap_or_else(|| jittered(backoff)).min(LONGEST_WAIT);
        let due = Instant::now() + wait;
        if let Some(flush) = &self.flush {
            if due >= flush.until {
                self.kept(signal).due = Some(due);
                return false;
            }
            sleep_until(due).await;
            return true;
        }
        if tries >= MAX_TRIES {
            let given_up = std::mem::take(self.kept(signal)).items.len();
            self.shared.give_up(signal, given_up as u64);
            return false;
        }
        self.kept(signal).due = Some(due);
        false
    }

    /// Sends the metrics as they are now. What does not arrive is part of the next request.
    async fn send_metrics(&mut self) {
        let Some(receiver) = self.shared.config.metrics.clone() else { return };
        let metrics = self.shared.meter.encoded();
        if metrics.is_empty() {
            return;
        }
        match self.post(&receiver, request(&self.shared.config.resource, &metrics)).await {
            Answer::Accepted(None) => {}
            Answer::Accepted(Some((count, why))) => {
                self.once("rejected metrics", format!("{count} metrics were not accepted: {why}"), &receiver);
            }
            Answer::Later(why, _) => self.once("later", format!("{why}; it is tried again"), &receiver),
            Answer::Refused(why) => self.once("refused metrics", why, &receiver),
        }
    }

    /// One request, within its time and the time to flush. An order to flush is heard meanwhile.
    async fn post(&mut self, receiver: &Receiver, body: Vec<u8>) -> Answer {
        let client = match self.clients.get(&receiver.url) {
            Some(client) => client.clone(),
            None => match own_http_client_for(&receiver.url) {
                Ok(client) => {
                    self.clients.insert(receiver.url.clone(), client.clone());
                    client
                }
                Err(error) => return Answer::Refused(error.to_string()),
            },
        };
        let sent = client.post(receiver.url.clone()).headers(receiver.headers.clone());
        let sent = sent.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let exchange = async {
            let mut response = match sent.send().await {
                Ok(response) => response,
                Err(error) => return Answer::Later(http_error(error), None),
            };
            let (status, headers) = (response.status(), response.headers().clone());
            let mut answer = Vec::new();
            while answer.len() < MAX_ANSWER {
                match response.chunk().await {
                    Ok(Some(chunk)) => answer.extend_from_slice(&chunk),
                    Ok(None) | Err(_) => break,
                }
            }
            match status.as_u16() {
                200..=299 => Answer::Accepted(rejected(&answer)),
                code @ (429 | 502 | 503 | 504) => {
                    Answer::Later(format!("it answers {code}"), retry_after(&headers))
                }
                code => Answer::Refused(format!("it answers {code}")),
            }
        };
        tokio::pin!(exchange);
        let ends = Instant::now() + receiver.timeout;
        loop {
            let until = self.flush.as_ref().map_or(ends, |flush| ends.min(flush.until));
            tokio::select! {
                biased;
                answer = &mut exchange => return answer,
                order = self.orders.recv(), if self.flush.is_none() && !self.is_closed => match order {
                    Some(flush) => self.flush = Some(flush),
                    None => self.is_closed = true,
                },
                () = sleep_until(until) => {
                    return Answer::Later(format!("it does not answer in {} ms", receiver.timeout.as_millis()), None);
                }
            }
        }
    }

    /// Reports a kind of trouble, once in the life of the process.
    fn once(&mut self, kind: &'static str, why: String, receiver: &Receiver) {
        if self.reported.insert(kind) {
            let (host, port) =
                (receiver.url.host_str().unwrap_or_default(), receiver.url.port_or_known_default());
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            (self.report)(&format!("telemetry: {host}{port}: {why}; runs are not affected"));
        }
    }

    fn report_dropped(&mut self) {
        let dropped = self.shared.counts(Signal::Traces).1 + self.shared.counts(Signal::Logs).1;
        if dropped > 0 && self.reported.insert("dropped") {
            (self.report)(
                "telemetry: spans or log records are dropped, because the receiver does not accept them as fast as they come",
            );
        }
    }
}

/// Between half of a time and all of it, so that many processes do not come back together.
fn jittered(wait: Duration) -> Duration {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    wait / 2 + wait.mul_f64(f64::from(nanos % 1_000) / 2_000.0)
}

/// How often a batch is sent, while nobody waits for it.
const MAX_TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait, also where the receiver asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 16 << 10;
