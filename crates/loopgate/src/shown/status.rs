//! The status line of a run: the phase, the model, what it waits for, and the time and money used and left.
//!
//! It is a function of the run's state and of what its calls wait for. A terminal updates it in place, and a pipe gets
//! it at intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use loop_core::run::{Ask, Batch, Call, Phase, Poll, Purpose, Reserve, Stage};
use loop_core::types::{CommandKey, PicoUsd, Slot, Tier};
use loop_core::{EventKind, Run};
use loop_runtime::observe::{CallNews, RunEvent};
use tokio::time::Instant;

use crate::output::{cut, one_line, screen::columns_of, screen::fit, screen::in_locale};

/// What the calls in progress wait for, from the events of a run.
#[derive(Debug, Default)]
pub(crate) struct CallWaits {
    calls: BTreeMap<CommandKey, CallWait>,
    /// The kind of failure of the last model call.
    failure: Option<&'static str>,
    /// When the last recorded entry was received.
    recorded: Option<Instant>,
}

#[derive(Debug)]
enum CallWait {
    /// The client retries by itself.
    Retry { why: String, next_try: u32, until: Instant },
    /// A rate limit delays the call. `None`: for an unknown time.
    Queue { until: Option<Instant> },
    /// It was sent, and no reply was received yet.
    Sent { since: Instant },
    /// Its reply is being received.
    Reply { last: Instant },
}

impl CallWaits {
    /// Applies an event.
    pub(crate) fn hear(&mut self, event: &RunEvent, now: Instant) {
        match event {
            RunEvent::Recorded(entry) => {
                self.recorded = Some(now);
                self.recorded(&entry.event.kind, now);
            }
            RunEvent::Text { key, .. } | RunEvent::Part { key, .. } => {
                self.calls.insert(*key, CallWait::Reply { last: now });
            }
            RunEvent::Call { key, news, .. } => self.news(*key, news, now),
            RunEvent::Lost { .. } => {}
        }
    }

    fn recorded(&mut self, kind: &EventKind, now: Instant) {
        match kind {
            EventKind::CallStarted { key, .. } => {
                self.calls.insert(*key, CallWait::Sent { since: now });
            }
            EventKind::ModelReplied { key, .. } | EventKind::ToolFinished { key, .. } => {
                self.calls.remove(key);
            }
            EventKind::ModelFailed { key, failure, .. } => {
                self.failure = Some(failure.kind.name());
                self.calls.remove(key);
            }
            _ => {}
        }
    }

    fn news(&mut self, key: CommandKey, news: &CallNews, now: Instant) {
        let after = |ms: &u64| now + Duration::from_millis(*ms);
        let wait = match news {
            CallNews::Retrying { next_try, wait_ms, kind, status, .. } => {
                let why = status.map_or_else(|| words(kind.name()), |status| status.to_string());
                CallWait::Retry { why, next_try: *next_try, until: after(wait_ms) }
            }
            CallNews::Queued { wait_ms } => CallWait::Queue { until: wait_ms.as_ref().map(after) },
            CallNews::Sent => CallWait::Sent { since: now },
            // The line counts the silence by itself.
            _ => return,
        };
        self.calls.insert(key, wait);
    }

    /// Milliseconds since the last entry, since the run's own time stops between entries.
    fn since(&self, now: Instant) -> u64 {
        self.recorded.map_or(0, |at| millis(now.saturating_duration_since(at)))
    }

    /// What a call waits for. `None`: it does not wait.
    fn of(&self, key: &CommandKey, now: Instant) -> Option<String> {
        Some(match self.calls.get(key)? {
            CallWait::Retry { why, next_try, until } => {
                format!("{why}, {}, try {next_try}", again(*until, now))
            }
            CallWait::Queue { until: Some(until) } => format!("rate limit, {}", again(*until, now)),
            CallWait::Queue { until: None } => "behind other calls of a rate limit".to_owned(),
            CallWait::Sent { since } => {
                let waited = now.saturating_duration_since(*since);
                return (waited >= QUIET).then(|| format!("no reply for {}", clock(millis(waited))));
            }
            CallWait::Reply { last } => {
                let silent = now.saturating_duration_since(*last);
                return (silent >= QUIET).then(|| format!("silent for {}", clock(millis(silent))));
            }
        })
    }

    /// Whether a reply of this call is being received.
    fn is_replying(&self, key: &CommandKey) -> bool {
        matches!(self.calls.get(key), Some(CallWait::Reply { .. }))
    }
}

/// A part of the line. Parts with a higher rank are left out first.
struct StatusPart {
    rank: u8,
    text: String,
}

/// The status line, with at most `columns`. `None`: the run has ended.
pub(crate) fn line(run: &Run, waits: &CallWaits, now: Instant, columns: usize) -> Option<String> {
    let mut parts = parts(run, waits, now)?;
    let joined = |parts: &[StatusPart]| {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        texts.join(SEPARATOR)
    };
    loop {
        let text = in_locale(&joined(&parts));
        let last = parts.iter().map(|part| part.rank).max().unwrap_or_default();
        if columns_of(&text) <= columns || last == 0 {
            return Some(fit(&text, columns));
        }
        parts.retain(|part| part.rank < last);
    }
}

fn parts(run: &Run, waits: &CallWaits, now: Instant) -> Option<Vec<StatusPart>> {
    let since = waits.since(now);
    let mut parts = Vec::new();
    let mut part = |rank: u8, text: String| {
        if !text.is_empty() {
            parts.push(StatusPart { rank, text });
        }
    };
    match run.phase() {
        Phase::Calling { call, purpose } => {
            let stops = if run.is_stop_requested() { ", then stop" } else { "" };
            part(0, format!("{}{stops}", called(run, call, purpose)));
            part(4, model(run, call));
            part(1, wait_of(run, call, waits, now, since));
        }
        Phase::Running { batch, stage } => {
            part(0, tools(batch, *stage));
            part(4, running(run, batch));
            part(1, wait_of_tools(run, batch, waits, now, since));
        }
        Phase::WaitingForPerson { asks, .. } => {
            part(0, "waiting for a person".to_owned());
            part(4, asked(run, asks));
            let open = run.deadline();
            let left = open.map(|deadline| deadline.since(run.now()).saturating_sub(since));
            part(1, left.map_or_else(String::new, |ms| format!("{} to answer", clock(ms))));
        }
        Phase::Validating(checking) => {
            part(0, "checking".to_owned());
            part(1, tried(checking.attempt));
        }
        Phase::Stopping(stopping) => {
            part(0, "stopping".to_owned());
            part(1, words(stopping.certificate.name()));
        }
        Phase::Saving { attempt, not_before, .. } => {
            part(0, "saving".to_owned());
            let wait = not_before.map(|at| at.since(run.now()).saturating_sub(since)).filter(|ms| *ms > 0);
            let wait = wait.map_or_else(String::new, |ms| format!("again in {}, ", ceil(ms)));
            part(1, format!("{wait}{}", tried(*attempt)).trim_end_matches(", ").to_owned());
        }
        Phase::Done { .. } => return None,
    }
    let waits_for_person = matches!(run.phase(), Phase::WaitingForPerson { .. });
    let passed = run.elapsed_ms() + if waits_for_person { 0 } else { since };
    part(2, format!("{} passed", clock(passed)));
    part(3, format!("{} left", clock(run.spec().limits.wall_ms.saturating_sub(passed))));
    part(5, spent(run));
    part(6, reserved(run));
    Some(parts)
}

fn called(run: &Run, call: &Call, purpose: &Purpose) -> String {
    let pass = call.key.pass;
    match purpose {
        Purpose::Select => "selecting tools".to_owned(),
        Purpose::Main => format!("pass {pass} of {}", run.spec().limits.passes.max(pass)),
        Purpose::Repair { .. } => format!("pass {pass}, its contract block again"),
        Purpose::Final { .. } => format!("pass {pass}, the last"),
    }
}

fn model(run: &Run, call: &Call) -> String {
    let tier = call.started.map_or(call.tier, |started| started.tier);
    let name = cut(&run.spec().model(tier).model, MAX_NAME);
    if tier == Tier::Base { name } else { format!("{name} ({})", tier.name()) }
}

fn wait_of(run: &Run, call: &Call, waits: &CallWaits, now: Instant, since: u64) -> String {
    let again = call.not_before.filter(|_| call.started.is_none());
    let wait = again.map(|at| at.since(run.now()).saturating_sub(since)).filter(|ms| *ms > 0);
    if let Some(ms) = wait {
        let why = waits.failure.map_or_else(|| "failed".to_owned(), words);
        return format!("{why}, again in {}, try {}", ceil(ms), call.attempt);
    }
    let own = tried(call.attempt);
    match waits.of(&call.key, now) {
        Some(wait) if own.is_empty() || wait.contains("try ") => wait,
        Some(wait) => format!("{wait}, {own}"),
        None if waits.is_replying(&call.key) => join("receiving", &own),
        None => own,
    }
}

fn tools(batch: &Batch, stage: Stage) -> String {
    let (all, done) = (batch.work.len(), batch.work.iter().filter(|work| work.observation.is_some()).count());
    let selected = if stage == Stage::Gather { "selected " } else { "" };
    match all {
        1 => format!("running 1 {selected}tool"),
        _ => format!("running {selected}tools, {done} of {all} done"),
    }
}

/// The tools that are still running.
fn running(run: &Run, batch: &Batch) -> String {
    let open = batch.work.iter().filter(|work| work.observation.is_none());
    names(run, open.map(|work| work.action))
}

fn asked(run: &Run, asks: &[Ask]) -> String {
    names(run, asks.iter().filter(|ask| !ask.answered).map(|ask| ask.action))
}

/// The tools of these actions. The first is named.
fn names(run: &Run, actions: impl Iterator<Item = u32>) -> String {
    let names: Vec<String> = actions
        .filter_map(|action| run.actions().get(action as usize))
        .map(|action| cut(action.tool_name(), MAX_NAME))
        .collect();
    match names.as_slice() {
        [] => String::new(),
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// What the first waiting tool waits for: a model call of its own, or the next poll.
fn wait_of_tools(run: &Run, batch: &Batch, waits: &CallWaits, now: Instant, since: u64) -> String {
    let open = || batch.work.iter().filter(|work| work.observation.is_none());
    let of_model = open().find_map(|work| {
        let slot = matches!(work.key.slot, Slot::Action(_));
        waits.of(&work.key, now).filter(|_| slot)
    });
    let polled = || {
        let polls = open().filter_map(|work| work.poll.as_deref());
        let next = polls.min_by_key(|poll| poll.not_before);
        next.map_or_else(String::new, |Poll { times, not_before, .. }| {
            let ms = not_before.since(run.now()).saturating_sub(since);
            format!("not ready, again in {}, try {times}", ceil(ms))
        })
    };
    of_model.unwrap_or_else(polled)
}

fn spent(run: &Run) -> String {
    let (cost, limit) = (run.totals().cost, run.spec().limits.cost);
    let spent = match cost.total() {
        None if cost.known == PicoUsd::default() => "cost unknown".to_owned(),
        None => format!("{} and an unknown part", dollars(cost.known)),
        Some(total) => dollars(total),
    };
    let of = |limit: PicoUsd| {
        let limit = dollars(limit);
        format!("{spent} of {}", limit.strip_suffix("00").unwrap_or(&limit))
    };
    limit.map_or_else(|| spent.clone(), of)
}

fn reserved(run: &Run) -> String {
    let Reserve { input_tokens, output_tokens, cost } = run.reserved();
    match cost {
        Some(cost) if cost > PicoUsd::default() => format!("{} reserved", dollars(cost)),
        None if input_tokens + output_tokens > 0 => "this call at an unknown price".to_owned(),
        Some(_) | None => String::new(),
    }
}

/// Dollars with four decimal places, rounded up, so that a cost never shows as 0.
pub(crate) fn dollars(amount: PicoUsd) -> String {
    let parts = amount.0.div_ceil(100_000_000);
    format!("${}.{:04}", parts / 10_000, parts % 10_000)
}

fn tried(attempt: u32) -> String {
    if attempt > 1 { format!("try {attempt}") } else { String::new() }
}

fn join(what: &str, more: &str) -> String {
    if more.is_empty() { what.to_owned() } else { format!("{what}, {more}") }
}

fn again(until: Instant, now: Instant) -> String {
    format!("again in {}", ceil(millis(until.saturating_duration_since(now))))
}

/// Seconds, rounded up, so that remaining time never shows as 0 s.
fn ceil(ms: u64) -> String {
    clock(ms.div_ceil(1_000).saturating_mul(1_000))
}

/// A duration in whole seconds: `59 s`, `4:59`, `2:04:59`.
fn clock(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=3_599 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// A name as words.
fn words(name: &str) -> String {
    one_line(name).replace('_', " ")
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in whole seconds.
pub(crate) fn clock_of(span: Duration) -> String {
    clock(millis(span))
}

/// How often a log gets the status line while nothing happens.
pub(crate) const EVERY: Duration = Duration::from_secs(15);
/// Separates two parts.
const SEPARATOR: &str = " · ";
/// The most characters of a model's or a tool's name.
const MAX_NAME: usize = 40;
/// How long the line waits before it says that nothing was received.
const QUIET: Duration = Duration::from_secs(2);

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
