//! Metrics of the server in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use loop_runtime::budget::{BudgetUse, SharedBudget};
use tokio::time::Instant;

use crate::caller::Caller;
use crate::doors::Audit;
use crate::engine::{DomainLoad, Engine};

/// The bounds of the buckets of times, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];

type ExtraMetrics = Box<dyn Fn(&dyn Fn(&str) -> bool) -> String + Send + Sync>;

static MORE: OnceLock<ExtraMetrics> = OnceLock::new();

/// Adds metrics of runs to those of the server. `more` gets a function that says whether a caller may see a domain, and
/// returns text in the format of Prometheus. Only the first call in a process has an effect.
pub fn more_metrics(more: impl Fn(&dyn Fn(&str) -> bool) -> String + Send + Sync + 'static) {
    _ = MORE.set(Box::new(more));
}

/// The counters of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By method, path and status. Paths are those of the table of routes, so their number is bounded.
    requests: Mutex<BTreeMap<(String, String, u16), RequestTimes>>,
}

/// The times that requests took until their response began.
#[derive(Clone, Debug, Default)]
struct RequestTimes {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Answers a request and counts it.
    pub(crate) async fn timed(&self, request: Request, next: Next) -> Response {
        let since = Instant::now();
        let method = request.method().as_str().to_owned();
        let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
        let response = next.run(request).await;
        // A method that no route has is not a label of its own.
        let method = if ["GET", "POST", "DELETE"].contains(&&*method) { method } else { "other".to_owned() };
        self.count((method, path, response.status().as_u16()), since.elapsed());
        response
    }

    fn count(&self, of: (String, String, u16), took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let times = requests.entry(of).or_default();
        let seconds = took.as_secs_f64();
        times.count += 1;
        times.seconds += seconds;
        for (bucket, bound) in times.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// The metrics that a caller may see: those of their domains, and those of the whole server if they may see all
    /// domains.
    pub(crate) fn text(
        &self,
        engine: &Engine,
        audit: &Audit,
        budgets: &[(Arc<str>, SharedBudget, BudgetUse)],
        caller: &Caller,
    ) -> String {
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let load = engine.load();
        let seen: Vec<(String, DomainLoad)> = load
            .domains
            .iter()
            .filter(|(domain, _)| caller.sees(domain))
            .map(|(domain, of)| (label(domain), *of))
            .collect();
        head(&mut text, "loopgate_runs", "gauge", "Runs that have not ended, by domain and state.");
        for (domain, of) in &seen {
            let states = [
                ("queued", of.queued),
                ("running", of.running),
                ("waiting", of.waiting),
                ("interrupted", of.interrupted),
                ("other_version", of.other_version),
            ];
            for (state, count) in states {
                _ = writeln!(text, "loopgate_runs{{domain=\"{domain}\",state=\"{state}\"}} {count}");
            }
        }
        let name = "loopgate_runs_submitted_total";
        head(&mut text, name, "counter", "Submissions that this process has accepted, by domain.");
        for (domain, of) in &seen {
            _ = writeln!(text, "{name}{{domain=\"{domain}\"}} {}", of.submitted);
        }
        let name = "loopgate_runs_ended_total";
        head(&mut text, name, "counter", "Runs that have ended in this process, by domain.");
        for (domain, of) in &seen {
            _ = writeln!(text, "{name}{{domain=\"{domain}\"}} {}", of.ended);
        }
        let seen: Vec<_> = budgets.iter().filter(|(domain, ..)| caller.sees(domain)).collect();
        if !seen.is_empty() {
            let name = "loopgate_budget_limit_usd";
            head(&mut text, name, "gauge", "What the runs of a domain may cost together, by day and month.");
            for (domain, budget, _) in &seen {
                let (domain, span) = (label(domain), budget.span.name());
                _ = writeln!(text, "{name}{{domain=\"{domain}\",span=\"{span}\"}} {}", budget.limit.as_usd());
            }
            let name = "loopgate_budget_taken_usd";
            head(&mut text, name, "gauge", "What is spent of a budget, and reserved for calls under way.");
            for (domain, budget, taken) in &seen {
                let (domain, span) = (label(domain), budget.span.name());
                let taken = taken.total().as_usd();
                _ = writeln!(text, "{name}{{domain=\"{domain}\",span=\"{span}\"}} {taken}");
            }
        }
        head(&mut text, "loopgate_draining", "gauge", "1 while the server begins no more work.");
        _ = writeln!(text, "loopgate_draining {}", u8::from(load.is_draining));
        if let Some(more) = MORE.get() {
            text.push_str(&more(&|domain| caller.sees(domain)));
        }
        // From here on it is of all domains together.
        if caller.domains.is_some() {
            return text;
        }
        let name = "loopgate_audit_left_out_total";
        head(
            &mut text,
            name,
            "counter",
            "Refused requests that are not in the audit log, because a caller had too many.",
        );
        _ = writeln!(text, "{name} {}", audit.left_out());
        let journal = engine.journal();
        head(&mut text, "loopgate_journal_commits_total", "counter", "Commits of the journal.");
        _ = writeln!(text, "loopgate_journal_commits_total {}", journal.commits());
        head(&mut text, "loopgate_journal_syncs_total", "counter", "Syncs of the journal to the disk.");
        _ = writeln!(text, "loopgate_journal_syncs_total {}", journal.syncs());
        let name = "loopgate_http_request_seconds";
        head(&mut text, name, "histogram", "Time until the answer to a request began.");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((method, path, status), times) in requests {
            let labels = format!("method=\"{method}\",path=\"{}\",status=\"{status}\"", label(&path));
            for (count, bound) in times.buckets.iter().zip(BUCKETS) {
                _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", times.count);
            _ = writeln!(text, "{name}_sum{{{labels}}} {}", times.seconds);
            _ = writeln!(text, "{name}_count{{{labels}}} {}", times.count);
        }
        text
    }
}

/// A label value, escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
