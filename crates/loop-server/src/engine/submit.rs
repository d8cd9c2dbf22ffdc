//! Accepts submissions: from a request to a row of the queue, committed before the caller gets a response.

use std::sync::Arc;

use loop_core::WorkItem;
use loop_core::types::{Digest, PicoUsd, RunId, TraceParent, canonical, is_clean};
use loop_runtime::Runner;
use loop_runtime::budget::{SharedBudget, SharedLedger, Span};
use loop_runtime::journal::queue::{Accepted, QueueBounds, QueuedSubmission, Submission};
use loop_runtime::run::{RunRequest, StartError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell::{RunCell, SubmittedRun};
use super::line::{Job, JobOrder};
use super::view::tags_of;
use super::{Engine, EngineError, RunPhase, ServedDomain, settings};
use crate::clock::unix_ms;

/// A submission of a run.
#[derive(Clone, Debug, Default)]
pub struct NewRun {
    /// The domain's name. `None`: the only one that the server offers.
    pub domain: Option<String>,
    /// The work item: JSON if its first character that is not blank is `{`, else Markdown.
    pub item: String,
    /// The run to begin from, whose domain, item, tags and settings are used. `None`: the run begins with `item`.
    pub from: Option<RunFrom>,
    /// The name of the item's file. Its stem is the id of an item without an id. Empty: there is no file.
    pub file: String,
    /// The name of the caller. It becomes the caller of the item too.
    pub caller: Arc<str>,
    /// The caller's idempotency key. `None`: none.
    pub key: Option<String>,
    /// The priority in the queue. Higher ones begin first.
    pub priority: i32,
    /// Settings in place of the domain's, as dotted keys with values as on a command line.
    pub settings: Vec<(String, String)>,
    /// Tags of the run.
    pub tags: Vec<String>,
    /// The trace context of the caller, from the header `traceparent`. It is not part of the idempotency check. `None`:
    /// none.
    pub traceparent: Option<TraceParent>,
    /// The budget of the caller, in addition to those of the domain. `None`: none.
    pub budget: Option<SharedBudget>,
}

/// The run that another run begins from, as with `loopgate fork` and `loopgate retry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunFrom {
    /// Continue after an entry.
    Fork {
        /// The run.
        run: RunId,
        /// The number of the entry. `None`: the last one at which nothing is in flight.
        entry: Option<u64>,
    },
    /// Do the work again with the evidence.
    Retry {
        /// The run.
        run: RunId,
    },
}

impl RunFrom {
    fn run(&self) -> &RunId {
        let (Self::Fork { run, .. } | Self::Retry { run }) = self;
        run
    }

    fn request(&self, runner: &Runner) -> RunRequest {
        match self {
            Self::Fork { run, entry } => runner.fork(run, *entry),
            Self::Retry { run } => runner.retry(run),
        }
    }
}

/// An accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub run: RunId,
    /// Whether this request submitted it. False: an earlier request with the same key did.
    pub is_new: bool,
}

/// The start of a run, as the queue stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobBody {
    version: u32,
    /// For a run that begins from another one: without its texts.
    pub(super) item: WorkItem,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<RunFrom>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) settings: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<CallerBudget>,
}

/// The budget of the caller of a run, as the queue stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallerBudget {
    /// The token's name.
    token: Arc<str>,
    /// The most that its runs may use in a day, in pico-dollars.
    day: u64,
}

impl CallerBudget {
    pub(super) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::TokenDay, of: Arc::clone(&self.token), limit: PicoUsd(self.day) }
    }
}

impl JobBody {
    /// The request that begins the run.
    pub(super) fn request(self, runner: &Runner) -> RunRequest {
        match &self.from {
            Some(from) => from.request(runner),
            None => runner.run(self.item),
        }
    }
}

const VERSION: u32 = 1;

impl Engine {
    /// Accepts a submission. Once this returns, the run is in the journal's queue under its id, and begins exactly
    /// once, even if this process is killed. A request with the key of an earlier one returns the earlier run if it
    /// asks for the same.
    ///
    /// # Errors
    /// The request is invalid, the queue is full, the server is shutting down, or the journal cannot be written.
    pub async fn submit(&self, new: NewRun) -> Result<Submitted, EngineError> {
        let inner = &self.inner;
        let key = new.key.as_deref().map(|key| named("Idempotency-Key", key)).transpose()?;
        let (domain, body) = match &new.from {
            Some(from) => self.body_from(from, &new).await?,
            None => self.body_of(&new)?,
        };
        // Nothing that is journaled holds a secret. What is masked here is masked in the run as well.
        let unread = |error: serde_json::Error| EngineError::Item(error.to_string());
        let asked = domain.runner.secrets().mask_value(serde_json::to_value(&body).map_err(unread)?);
        let digest = digest(domain.name(), new.priority, &asked);
        if let Some(key) = &key
            && let Some(earlier) = inner.journal.submission_of_key(&new.caller, key).await?
        {
            return again(&earlier, digest);
        }
        if inner.draining.is_cancelled() {
            return Err(EngineError::Draining);
        }
        settings::check_named(domain, &body.settings)?;
        let mut body: JobBody = serde_json::from_value(asked).map_err(unread)?;
        // The operator sets it, so the same request with another budget is the same request.
        body.budget = new.budget.map(|budget| CallerBudget { token: budget.of, day: budget.limit.0 });
        // Neither is the span of a request that is sent again.
        body.item.traceparent = new.traceparent;
        let runner = if !body.settings.is_empty() || body.budget.is_some() {
            let runner = self.runner_of(domain, &body).await?.map_err(EngineError::Setting)?;
            settings::check_tightened(&domain.runner.spec().limits, &runner.spec().limits)?;
            runner
        } else {
            domain.runner.clone()
        };
        match body.from.take() {
            Some(from) => body.from = Some(self.fixed(&runner, from).await?),
            None => check_begins(&runner, &body.item)?,
        }
        let text = serde_json::to_string(&body).map_err(unread)?;
        let submission = Submission {
            run: Runner::new_id(),
            domain: Arc::clone(domain.name()),
            caller: new.caller,
            request_key: key,
            digest,
            priority: new.priority,
            unix_ms: unix_ms(),
            body: text.into(),
        };
        // A task of its own: a caller that is gone drops this future, and what is committed has to begin.
        let (engine, bounds) = (self.clone(), inner.bounds(domain));
        let accepting = inner.tasks.spawn(async move { engine.accept(submission, bounds, &body).await });
        match accepting.await {
            Ok(accepted) => accepted,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The process is ending.
                Err(_) => Err(EngineError::Draining),
            },
        }
    }

    fn body_of(&self, new: &NewRun) -> Result<(&ServedDomain, JobBody), EngineError> {
        let domain = self.named(new.domain.as_deref())?;
        let tags = tags(&new.tags)?;
        let origin = if new.file.is_empty() { "item".into() } else { named("file", &new.file)? };
        let item = domain.domain.item(&new.item, &origin);
        let mut item = item.map_err(|error| EngineError::Item(error.to_string()))?;
        item.caller = Some(Arc::clone(&new.caller));
        let settings = new.settings.clone();
        Ok((domain, JobBody { version: VERSION, item, from: None, settings, tags, budget: None }))
    }

    /// The start of a run that begins from another one: with the settings of that run's caller, as far as the domain
    /// still allows them, and with the settings of this request on top.
    async fn body_from(&self, from: &RunFrom, new: &NewRun) -> Result<(&ServedDomain, JobBody), EngineError> {
        if self.has_not_begun(from.run()).await? {
            let run = from.run();
            return Err(EngineError::State(format!("run {run} has not begun; submit its item again")));
        }
        let (recorded, state) = self.open_run(from.run()).await?;
        if recorded.unverified.is_some() {
            let why =
                "the journal does not vouch for it; the operator finds the reason with `loopgate verify`";
            return Err(EngineError::State(format!("run {} cannot be continued: {why}", from.run())));
        }
        let domain = self.named(Some(&state.spec().domain))?;
        let started = state.started();
        let before = started.provenance.overridden.iter();
        let before = before.map(|it| (it.setting.to_string(), it.value.to_string()));
        let is_given = |key: &str| new.settings.iter().any(|(given, _)| given == key);
        let before = before.filter(|(key, _)| domain.domain.lets_set(key) && !is_given(key));
        let settings = before.chain(new.settings.iter().cloned()).collect();
        let item = WorkItem { full: "".into(), compact: "".into(), ..started.item.clone() };
        let (tags, from) = (tags_of(recorded.origin.as_deref()), Some(from.clone()));
        Ok((domain, JobBody { version: VERSION, item, from, settings, tags, budget: None }))
    }

    /// Checks that a run can begin from another one now, and fixes the entry to begin after.
    async fn fixed(&self, runner: &Runner, from: RunFrom) -> Result<RunFrom, EngineError> {
        let request = from.request(runner);
        let runtime = tokio::runtime::Handle::current();
        // It replays the other run.
        let taken = self.aside(move || runtime.block_on(request.entries_taken_over())).await?;
        let entries = taken.map_err(|error| match error {
            error @ (StartError::Journal(_)
            | StartError::Replay(_)
            | StartError::NotForked { .. }
            | StartError::NoEntry { .. }
            | StartError::NotTakenOver { .. }) => error.into(),
            error => EngineError::Setting(error.to_string()),
        })?;
        Ok(match from {
            RunFrom::Fork { run, .. } => RunFrom::Fork { run, entry: entries.checked_sub(1) },
            retry @ RunFrom::Retry { .. } => retry,
        })
    }

    /// Commits a submission and enqueues it.
    async fn accept(
        &self,
        submission: Submission,
        bounds: QueueBounds,
        body: &JobBody,
    ) -> Result<Submitted, EngineError> {
        match self.inner.journal.submit(submission.clone(), bounds).await? {
            Ok(Accepted::New(nth)) => {
                if self.inner.journal.shares_queue() {
                    // The process that has a place begins it.
                    self.inner.freed.notify_one();
                } else {
                    self.enqueue(&submission, nth, body);
                }
                Ok(Submitted { run: submission.run, is_new: true })
            }
            Ok(Accepted::Full { of_domain, bound }) => {
                Err(EngineError::Full { domain: of_domain.then(|| submission.domain.to_string()), bound })
            }
            Err(earlier) => again(&earlier, submission.digest),
        }
    }

    /// The runner of a submission, or what is wrong with its settings. With settings the domain is loaded again, which
    /// reads files.
    pub(super) async fn runner_of(
        &self,
        domain: &ServedDomain,
        body: &JobBody,
    ) -> Result<Result<Runner, String>, EngineError> {
        let JobBody { settings, tags, budget, .. } = body;
        if settings.is_empty() {
            return Ok(self.made_of(domain, settings, tags, budget.as_ref()));
        }
        let (engine, name) = (self.clone(), Arc::clone(domain.name()));
        let (settings, tags, budget) = (settings.clone(), tags.clone(), budget.clone());
        let making = self.aside(move || match engine.domain(&name) {
            Some(domain) => engine.made_of(domain, &settings, &tags, budget.as_ref()),
            None => Err("the domain is not served".to_owned()),
        });
        making.await
    }

    fn made_of(
        &self,
        domain: &ServedDomain,
        settings: &[(String, String)],
        tags: &[String],
        budget: Option<&CallerBudget>,
    ) -> Result<Runner, String> {
        let Self { inner } = self;
        match budget {
            None => inner.source.of_new(domain, settings, tags),
            Some(budget) => {
                let ledger = Arc::clone(&inner.journal) as Arc<dyn SharedLedger>;
                inner.source.of_new_within(domain, settings, tags, &budget.budget(), ledger)
            }
        }
    }

    /// The domain of this name, or the only one.
    fn named(&self, name: Option<&str>) -> Result<&ServedDomain, EngineError> {
        let domains = &self.inner.domains;
        match name {
            Some(name) => domains
                .get(name)
                .ok_or_else(|| EngineError::UnknownDomain { name: name.chars().take(80).collect() }),
            None if domains.len() == 1 => domains.values().next().ok_or(EngineError::NoDomain),
            None => Err(EngineError::NoDomain),
        }
    }

    /// Enqueues a row of the queue in the scheduler.
    pub(super) fn enqueue(&self, submission: &Submission, nth: i64, body: &JobBody) {
        let item = [&body.item.id, &body.item.title];
        let known = SubmittedRun::of(submission, nth, item, body.tags.clone());
        let cell = RunCell::new(known, RunPhase::Queued, None);
        let job = Job {
            run: submission.run.clone(),
            domain: Arc::clone(&submission.domain),
            order: JobOrder::begin(submission.priority, nth),
        };
        {
            let mut state = self.inner.state();
            state.cells.insert(submission.run.clone(), Arc::new(cell));
            state.line.push(job);
            state.counted.entry(Arc::clone(&submission.domain)).or_default().submitted += 1;
        }
        self.dispatch();
    }
}

/// The result of a repeated key: the run of the earlier request, if both ask for the same.
fn again(earlier: &QueuedSubmission, digest: Digest) -> Result<Submitted, EngineError> {
    let run = earlier.submission.run.clone();
    if earlier.submission.digest == digest {
        Ok(Submitted { run, is_new: false })
    } else {
        Err(EngineError::OtherRequest { run })
    }
}

/// A digest of the request, independent of the order of members.
fn digest(domain: &str, priority: i32, asked: &Value) -> Digest {
    Digest::of("submission", format!("{domain}\n{priority}\n{}", canonical(asked)).as_bytes())
}

fn check_begins(runner: &Runner, item: &WorkItem) -> Result<(), EngineError> {
    runner.check_begins(item.clone()).map_err(|error| EngineError::Setting(error.to_string()))
}

/// Checks a name from a caller: one visible line of at most 200 characters.
fn named(what: &str, text: &str) -> Result<Arc<str>, EngineError> {
    let is_plain = |c: char| is_clean(c) && !matches!(c, '\n' | '\t');
    if text.trim().is_empty() || text.chars().count() > 200 || !text.chars().all(is_plain) {
        let message =
            format!("{what}: it is blank, longer than 200 characters or not one plain line; correct it");
        return Err(EngineError::Invalid(message));
    }
    Ok(text.trim().into())
}

/// The tags, without duplicates.
fn tags(given: &[String]) -> Result<Vec<String>, EngineError> {
    let mut tags: Vec<String> = Vec::new();
    for tag in given {
        let tag = named("tags", tag)?;
        if !tags.iter().any(|known| **known == *tag) {
            tags.push(tag.to_string());
        }
    }
    if tags.len() > MAX_TAGS {
        return Err(EngineError::Invalid(format!("tags: a run has at most {MAX_TAGS} of them; give fewer")));
    }
    Ok(tags)
}

const MAX_TAGS: usize = 20;
