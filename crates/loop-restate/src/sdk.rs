//! The Restate services of a worker. No other module uses the SDK.
//!
//! The workflow handler only awaits what Restate records: a call of a service, a durable promise or a durable timer.
//! Order, time and randomness are from these alone, so a replay takes the same steps.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::blobs::BlobId;
use loop_core::run::StopMode;
use loop_core::types::Millis;
use loop_runtime::engine::{
    EngineRun, EngineRunError, EngineStatus, EngineWork, MessageReceipt, Projection, RunMessage, Settlement,
    WorkKey,
};
use loop_runtime::run::RunId;
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::carried::{CarriedValue, CarryError};
use crate::wire::{Delivery, EndedReply, EngineSubmission, MAX_MESSAGES, WorkerDomain};
use crate::worker::{Start, Worker, WorkerError, unix_ms};

/// Serves a worker until `ends` is ready.
pub(crate) async fn serve(worker: Arc<Worker>, listener: TcpListener, ends: impl Future) {
    // A call ends by its own limit. Restate must not ask it to suspend before, since it would be made again.
    let slowest = worker.slowest_call() + SPARE;
    let endpoint = Endpoint::builder()
        .bind(RunWorkflow(Arc::clone(&worker)).into_service_definition().options(retried()))
        .bind(
            CallService(worker)
                .into_service_definition()
                .options(retried().inactivity_timeout(slowest).abort_timeout(slowest)),
        )
        .bind(InboxObject.into_service_definition().options(retried()))
        .build();
    // Each step of a handler is a few small frames. Without this the system holds them back for the acknowledgement of the one
    // before, 40 ms each on Linux. Connections take the option from their listener. A system that refuses it is slower.
    _ = socket2::SockRef::from(&listener).set_tcp_nodelay(true);
    HttpServer::new(endpoint).serve_with_cancel(listener, ends).await;
}

/// The options of a handler, which is retried soon and without an end if its worker is gone.
fn retried() -> ServiceOptions {
    ServiceOptions::new()
        .retry_policy_initial_interval(FIRST_RETRY)
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(LAST_RETRY)
        .retry_policy_max_attempts(MAX_ATTEMPTS)
        .retry_policy_pause_on_max_attempts()
}

const SPARE: Duration = Duration::from_secs(60);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(5);
const MAX_ATTEMPTS: u64 = 1_000_000;

/// The state key of a run's workflow: what it is doing.
const STATUS: &str = "status";
/// The promise of the run's submission digest: see [`EngineSubmission::digest`].
const SUBMITTED: &str = "submitted";
/// The promise of the run's end, for callers that wait for a receipt.
const ENDED: &str = "ended";
/// The state of an inbox: the number of the next message.
const NEXT: &str = "next";

/// What the workflow received.
enum Arrival {
    /// These calls ended, with their output. `None`: the service call failed.
    Calls(Vec<WorkKey>, Option<CallOutput>),
    Message(Delivery),
    Deadline(Millis),
}

type ReceiptWait<'a> = Pin<Box<dyn DurableFuture<Output = Option<Json<MessageReceipt>>> + Send + 'a>>;

type Waiting<'a> = Pin<Box<dyn DurableFuture<Output = Arrival> + Send + 'a>>;

/// Calls for a worker to make.
#[derive(Debug, Serialize, Deserialize)]
struct CallInput {
    run: Arc<str>,
    domain: Arc<str>,
    works: CarriedValue,
}

#[derive(Debug, Serialize, Deserialize)]
struct CallOutput {
    settled: CarriedValue,
}

#[derive(Debug, Serialize, Deserialize)]
struct AbortInput {
    run: Arc<str>,
    of: WorkKey,
}

#[derive(Debug, Serialize, Deserialize)]
struct BeginInput {
    run: Arc<str>,
    submission: EngineSubmission,
}

#[derive(Debug, Serialize, Deserialize)]
struct BeginOutput {
    begun: Start,
    /// Whether large values of this run are in a blob store.
    #[serde(default)]
    by_reference: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct ForgetInput {
    run: Arc<str>,
    blobs: Vec<BlobId>,
}

/// A run as a workflow. Its key is the run's id.
struct RunWorkflow(Arc<Worker>);

#[restate_sdk::workflow(name = "LoopgateRun")]
impl RunWorkflow {
    /// Drives the run to its end.
    #[handler]
    async fn run(
        &self,
        ctx: WorkflowContext<'_>,
        Json(submission): Json<EngineSubmission>,
    ) -> HandlerResult<Json<EndedReply>> {
        let domain = Arc::clone(&submission.domain);
        let runner = self.0.runner(&domain).map_err(again)?;
        let id: Arc<str> = ctx.key().into();
        ctx.resolve_promise(SUBMITTED, submission.digest());
        let key = submission.key.clone();
        let begin = BeginInput { run: Arc::clone(&id), submission };
        let begun = ctx.service_client::<CallServiceClient>().begin(Json(begin)).call().await?;
        let Json(BeginOutput { begun, by_reference }) = begun;
        let first = match begun {
            Start::First(first) => *first,
            Start::Ended(ended) => return Ok(Json(*ended)),
        };
        let mut run = EngineRun::open(runner, first, key).map_err(again)?;
        let mut projection = Projection::open(runner, &run).await.map_err(again)?;
        let inbox: Vec<String> = (0..MAX_MESSAGES).map(promise).collect();
        let mut messages = inbox.iter();
        let mut waiting: DurableFuturesUnordered<Waiting<'_>> = DurableFuturesUnordered::new();
        let mut timer = None;
        let mut blobs: BTreeSet<BlobId> = BTreeSet::new();
        let mut status: Option<EngineStatus> = None;
        if let Some(name) = messages.next() {
            waiting.push(message(&ctx, name));
        }
        loop {
            let step = run.step().map_err(again)?;
            // The journal is compared before anything else follows: where this program decides otherwise, it stops here.
            projection.write(&mut run).await.map_err(again)?;
            let now = run.status();
            if status.as_ref() != Some(&now) {
                ctx.set(STATUS, Json(now.clone()));
                status = Some(now);
            }
            if let Some(outcome) = run.outcome() {
                ctx.resolve_promise(ENDED, true);
                if !blobs.is_empty() {
                    let input = ForgetInput { run: Arc::clone(&id), blobs: blobs.into_iter().collect() };
                    // Not at once: until the engine has the end of this run, another process may have to read them.
                    drop(
                        ctx.service_client::<CallServiceClient>()
                            .forget(Json(input))
                            .send_after(self.0.carrier().stay),
                    );
                }
                return Ok(Json(Worker::ended(run.started(), outcome).map_err(again)?));
            }
            for of in step.abort {
                let input = AbortInput { run: Arc::clone(&id), of };
                // It is sent, and not waited for.
                drop(ctx.service_client::<CallServiceClient>().abort(Json(input)).send());
            }
            for works in grouped(step.start) {
                let keys: Vec<WorkKey> = works.iter().map(EngineWork::key).collect();
                let works = self.0.carrier().give(&id, &works, by_reference).await.map_err(uncarried)?;
                blobs.extend(works.blob());
                let input = CallInput { run: Arc::clone(&id), domain: Arc::clone(&domain), works };
                let call = ctx.service_client::<CallServiceClient>().make(Json(input)).call();
                waiting.push(Box::pin(
                    call.map(move |made| Arrival::Calls(keys, made.ok().map(|Json(output)| output))),
                ));
            }
            if let Some((in_ms, deadline)) = run.deadline()
                && timer != Some(deadline)
            {
                timer = Some(deadline);
                let sleep = ctx.sleep(Duration::from_millis(in_ms));
                waiting.push(Box::pin(sleep.map(move |_| Arrival::Deadline(deadline))));
            }
            match waiting.next().await {
                // An operator cancels the invocation in Restate: the run receives that like any other stop.
                Err(_) => drop(run.hear(0, RunMessage::Stop(StopMode::Now)).map_err(again)?),
                // There is always the promise of a message, or a timer, or a call: a run that waits for nothing is over.
                Ok(None) => return Err(again(stuck(&run))),
                Ok(Some((_, Arrival::Calls(keys, output)))) => {
                    let settled: Vec<Settlement> = match output {
                        Some(output) => {
                            blobs.extend(output.settled.blob());
                            self.0.carrier().take(&id, &output.settled).await.map_err(again)?
                        }
                        // The engine ended the call: it is not known how far it came.
                        None => keys.iter().map(|of| Settlement::lost(*of, 0)).collect(),
                    };
                    for settlement in settled {
                        run.settle(settlement).map_err(again)?;
                    }
                }
                Ok(Some((_, Arrival::Message(Delivery { number, unix_ms, message: received })))) => {
                    let receipt = run.hear(unix_ms, received).map_err(again)?;
                    ctx.resolve_promise(&receipt_of(number), Json(receipt));
                    if let Some(name) = messages.next() {
                        waiting.push(message(&ctx, name));
                    }
                }
                Ok(Some((_, Arrival::Deadline(deadline)))) => {
                    run.deadline_reached(deadline).map_err(again)?
                }
            }
        }
    }

    /// What the run is doing.
    #[handler]
    async fn status(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<EngineStatus>> {
        let status: Option<Json<EngineStatus>> = ctx.get(STATUS).await?;
        status.ok_or_else(|| unknown(ctx.key()).into())
    }

    /// The digest of the run's submission. It waits until the run has begun.
    #[handler]
    async fn submitted(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<String> {
        Ok(ctx.promise::<String>(SUBMITTED).await?)
    }

    /// The result of the message with this number. It waits until the run has read it.
    #[handler]
    async fn receipt(
        &self,
        ctx: SharedWorkflowContext<'_>,
        number: u64,
    ) -> HandlerResult<Json<MessageReceipt>> {
        let name = receipt_of(number);
        let read = ctx.promise::<Json<MessageReceipt>>(&name).map(|receipt| receipt.ok());
        let ended = ctx.promise::<bool>(ENDED).map(|_| None);
        let mut waiting: DurableFuturesUnordered<ReceiptWait<'_>> = DurableFuturesUnordered::new();
        waiting.push(Box::pin(read));
        waiting.push(Box::pin(ended));
        if let Some((_, Some(receipt))) = waiting.next().await? {
            return Ok(receipt);
        }
        // Both may be there: the message was read as the last one.
        match ctx.peek_promise::<Json<MessageReceipt>>(&name).await? {
            Some(receipt) => Ok(receipt),
            None => Err(over(ctx.key()).into()),
        }
    }

    /// Receives a message. Only the inbox calls it.
    #[handler(ingress_private = true)]
    async fn deliver(
        &self,
        ctx: SharedWorkflowContext<'_>,
        Json(delivery): Json<Delivery>,
    ) -> HandlerResult<()> {
        let status: Option<Json<EngineStatus>> = ctx.get(STATUS).await?;
        let Some(Json(status)) = status else { return Err(unknown(ctx.key()).into()) };
        if status.stop.is_some() {
            return Err(over(ctx.key()).into());
        }
        ctx.resolve_promise(&promise(delivery.number), Json(delivery));
        Ok(())
    }
}

/// The service that makes the calls of runs.
struct CallService(Arc<Worker>);

#[restate_sdk::service(name = "LoopgateCalls")]
impl CallService {
    /// Makes the first event of a run, unless the journal has the run.
    #[handler(ingress_private = true)]
    async fn begin(
        &self,
        ctx: Context<'_>,
        Json(input): Json<BeginInput>,
    ) -> HandlerResult<Json<BeginOutput>> {
        let by_reference = self.0.carrier().has_store();
        let BeginInput { run, submission } = input;
        let begin = async || match self.0.begin(RunId::new(run), submission).await {
            Ok(begun) => Ok(Json(BeginOutput { begun, by_reference })),
            Err(error) if error.is_final() => Err(terminal(error).into()),
            Err(error) => Err(again(error)),
        };
        let policy =
            RunRetryPolicy::new().initial_delay(FIRST_RETRY).exponentiation_factor(2.0).max_delay(LAST_RETRY);
        Ok(ctx.run(begin).retry_policy(policy).name("begin").await?)
    }

    /// Makes one call, or the cheap reads of one batch. Each is made once. If the process ended during a call, the run
    /// gets it as lost, unless the call may be repeated.
    ///
    /// The result is recorded before it is returned: Restate may call the handler again although it has the output, and
    /// then the output must be the same.
    #[handler(ingress_private = true)]
    async fn make(&self, ctx: Context<'_>, Json(input): Json<CallInput>) -> HandlerResult<Json<CallOutput>> {
        let runner = self.0.runner(&input.domain).map_err(again)?;
        let works: Vec<EngineWork> = self.0.carrier().take(&input.run, &input.works).await.map_err(again)?;
        let may_repeat = works.iter().all(EngineWork::is_repeatable);
        let is_first = AtomicBool::new(may_repeat);
        if !may_repeat {
            let begin = async || {
                is_first.store(true, Ordering::Relaxed);
                Ok(true)
            };
            // Durable before anything is called. It runs again only where it was not durable.
            ctx.run(begin).name("begin").await?;
        }
        let keys: Vec<WorkKey> = works.iter().map(EngineWork::key).collect();
        let make = async || {
            let settled = match is_first.load(Ordering::Relaxed) {
                true => {
                    let under_way = self.0.begins(&input.run, &keys);
                    let made =
                        works.into_iter().map(|work| runner.perform(work, under_way.cancel.child_token()));
                    futures::future::join_all(made).await
                }
                false => keys.iter().map(|of| Settlement::lost(*of, unix_ms())).collect(),
            };
            let settled = self.0.carrier().give_result(&input.run, &settled).await.map_err(uncarried)?;
            Ok(Json(CallOutput { settled }))
        };
        Ok(ctx.run(make).name("make").await?)
    }

    /// Cancels a call that this worker makes. It does not know the calls of other workers.
    #[handler(ingress_private = true)]
    async fn abort(&self, _ctx: Context<'_>, Json(input): Json<AbortInput>) -> HandlerResult<()> {
        self.0.abort(&input.run, input.of);
        Ok(())
    }

    /// Deletes the blobs of a run that has ended.
    #[handler(ingress_private = true)]
    async fn forget(&self, _ctx: Context<'_>, Json(input): Json<ForgetInput>) -> HandlerResult<()> {
        self.0.carrier().forget(&input.run, &input.blobs).await.map_err(again)
    }

    /// The domains of this worker.
    #[handler]
    async fn domains(&self, _ctx: Context<'_>) -> HandlerResult<Json<Vec<WorkerDomain>>> {
        Ok(Json(self.0.domains()))
    }
}

/// The inbox of a run: accepts messages one after another, and numbers them.
struct InboxObject;

#[restate_sdk::object(name = "LoopgateInbox")]
impl InboxObject {
    /// Passes a message to the run of this inbox. Returns its number.
    #[handler]
    async fn post(&self, ctx: ObjectContext<'_>, Json(message): Json<RunMessage>) -> HandlerResult<u64> {
        let number: u64 = ctx.get(NEXT).await?.unwrap_or(0);
        if number >= MAX_MESSAGES {
            let full = format!("run {} has had {MAX_MESSAGES} messages, and takes no more", ctx.key());
            return Err(TerminalError::new_with_code(429, full).into());
        }
        let unix_ms: u64 = ctx.run(async || Ok(unix_ms())).name("time").await?;
        let run = ctx.workflow_client::<RunWorkflowClient>(ctx.key());
        run.deliver(Json(Delivery { number, unix_ms, message })).call().await?;
        ctx.set(NEXT, number + 1);
        Ok(number)
    }
}

/// The name of the promise of a message.
fn promise(number: u64) -> String {
    format!("message-{number}")
}

/// The name of the promise of a message's result.
fn receipt_of(number: u64) -> String {
    format!("receipt-{number}")
}

fn message<'a>(ctx: &'a WorkflowContext<'a>, name: &'a str) -> Waiting<'a> {
    let promised = ctx.promise::<Json<Delivery>>(name);
    Box::pin(promised.map(|delivered| match delivered {
        Ok(Json(delivery)) => Arrival::Message(delivery),
        // Only an operator can reject it.
        Err(_) => Arrival::Message(Delivery { number: 0, unix_ms: 0, message: RunMessage::WithdrawStop }),
    }))
}

/// The calls to make: the cheap reads of a batch together, each other one alone.
fn grouped(start: Vec<EngineWork>) -> Vec<Vec<EngineWork>> {
    let (reads, others): (Vec<EngineWork>, Vec<EngineWork>) =
        start.into_iter().partition(EngineWork::is_cheap_read);
    let reads = (!reads.is_empty()).then_some(reads);
    reads.into_iter().chain(others.into_iter().map(|work| vec![work])).collect()
}

fn unknown(run: &str) -> TerminalError {
    TerminalError::new_with_code(404, format!("no run {run} is known to Restate"))
}

fn over(run: &str) -> TerminalError {
    TerminalError::new_with_code(409, format!("run {run} is over; `loopgate show {run}` shows it"))
}

/// An error after which the engine retries the handler. The SDK reports such errors by `Debug`, and operators read
/// them.
fn again(error: impl std::error::Error) -> HandlerError {
    ErrorLine(error.to_string()).into()
}

/// The one line of an error, for `Display` and `Debug`.
#[derive(thiserror::Error)]
#[error("{0}")]
struct ErrorLine(String);

impl fmt::Debug for ErrorLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An error that a retry cannot fix.
fn terminal(error: impl std::error::Error) -> TerminalError {
    TerminalError::new_with_code(400, error.to_string())
}

/// The error of a blob that cannot be read or put. It is retried, since an operator can repair the store.
fn uncarried(error: CarryError) -> HandlerError {
    if error.is_final() { terminal(error).into() } else { again(error) }
}

fn stuck(run: &EngineRun) -> EngineRunError {
    EngineRunError::Stuck { run: run.id().clone(), message: "it waits for nothing".to_owned() }
}

impl WorkerError {
    /// Whether a retry cannot help.
    fn is_final(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Taken { .. })
    }
}
