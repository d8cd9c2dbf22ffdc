//! Applies the events of a recorded run, one by one, to runs under other policies.

use std::sync::Arc;

use loop_core::reply::Reply;
use loop_core::run::{PromptSize, Refusal, Started};
use loop_core::spec::SpecNames;
use loop_core::types::{CommandKey, Digest, FailureKind, Millis, RunId, Status};
use loop_core::{Command, Event, EventKind, Facts, Outcome, Rejected, Run, RunSpec};
use loop_runtime::journal::Recorded;

use super::compare::{End, difference, is_same_result};
use super::finding::{DivergencePoint, Finding, FindingKind};
use super::left::left;

/// A spec with its digests, computed once, so that many runs can start under it.
#[derive(Clone, Debug)]
pub struct NamedSpec {
    spec: Arc<RunSpec>,
    names: SpecNames,
}

impl NamedSpec {
    /// The spec with its digests.
    pub fn new(spec: Arc<RunSpec>) -> Self {
        Self { names: SpecNames::of(&spec), spec }
    }

    /// The spec.
    pub fn spec(&self) -> &Arc<RunSpec> {
        &self.spec
    }

    /// The digest of the spec.
    pub fn digest(&self) -> Digest {
        self.names.spec
    }
}

/// Why a recorded run cannot be driven again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BacktestError {
    /// It was started with another spec.
    #[error("run {run} was started with another spec than the one that is stored; it cannot be read")]
    OtherSpec {
        /// The run.
        run: RunId,
    },
    /// A stored entry does not follow from the ones before it.
    #[error("entry {seq} of run {run} does not follow from the ones before it: {rejected}")]
    Broken {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
        /// What is wrong.
        rejected: Rejected,
    },
    /// This program decides an entry differently from the program that wrote it.
    #[error(
        "entry {seq} of run {run} was decided otherwise by the program that wrote it; use that version of loopgate"
    )]
    Decided {
        /// The run.
        run: RunId,
        /// The entry's sequence number.
        seq: u64,
    },
}

/// A recorded run, and what it does under each of the policies.
#[derive(Clone, Debug)]
pub struct Backtested {
    /// The recorded run, with all its events.
    pub recorded: Run,
    /// What it does under each policy, in their order.
    pub findings: Vec<Finding>,
}

/// What a recorded run does under other policies. `base` is its own spec.
///
/// # Errors
/// If the entries do not follow from each other, or were decided otherwise by the program that wrote them.
pub fn backtest(
    run: &RunId,
    recorded: &Recorded,
    base: &NamedSpec,
    policies: &[NamedSpec],
) -> Result<Backtested, BacktestError> {
    let broken = |seq, rejected| BacktestError::Broken { run: run.clone(), seq, rejected };
    let decided = |seq| BacktestError::Decided { run: run.clone(), seq };
    let mut entries = recorded.entries.iter();
    let Some(first) = entries.next() else { return Err(broken(0, Rejected::NotTheStart("nothing"))) };
    let EventKind::Started(started) = &first.event.kind else {
        return Err(broken(0, Rejected::NotTheStart(first.event.kind.name())));
    };
    if started.spec != base.names.spec {
        return Err(BacktestError::OtherSpec { run: run.clone() });
    }
    let (mut state, notes) = begin(started, base);
    if notes != first.notes {
        return Err(decided(first.seq));
    }
    let mut others: Vec<PolicyRun> = policies.iter().map(|under| PolicyRun::new(started, under)).collect();
    others.iter_mut().for_each(|other| other.compare(&state, first.seq));
    for entry in entries {
        let mut open: Vec<&mut PolicyRun> = others.iter_mut().filter(|other| !other.is_settled()).collect();
        open.iter_mut().for_each(|other| other.before(&state, entry.seq, entry.event.at));
        let notes = state.apply(&entry.event).map_err(|rejected| broken(entry.seq, rejected))?;
        if notes != entry.notes {
            return Err(decided(entry.seq));
        }
        for other in open {
            other.take(&state, entry.seq, &entry.event);
        }
    }
    let findings = others.into_iter().map(|other| other.finding(&state)).collect();
    Ok(Backtested { recorded: state, findings })
}

fn begin(started: &Started, under: &NamedSpec) -> (Run, Vec<loop_core::Note>) {
    let facts = Facts {
        unix_ms: started.unix_ms,
        nonce: Arc::clone(&started.nonce),
        prompts: started.prompts,
        tools: started.tools,
        history: started.history.clone(),
        provenance: started.provenance.clone(),
    };
    let (id, item) = (started.run.clone(), started.item.clone());
    let (run, _, notes) = Run::start_named(id, Arc::clone(&under.spec), under.names, item, facts);
    (run, notes)
}

/// A run under another policy, to which the recorded events are applied one by one.
#[derive(Clone, Debug)]
struct PolicyRun {
    run: Run,
    /// Set as soon as the finding is known.
    finding: Option<Finding>,
    /// Output tokens that were granted to the call in flight, here and in the recorded run, where they differ.
    granted: Option<(u64, u64)>,
    /// Commands whose time limit differs from that of the recorded run.
    limits: Vec<TimeLimit>,
}

/// The time limit of a command that differs from that of the recorded run.
#[derive(Clone, Copy, Debug)]
struct TimeLimit {
    key: CommandKey,
    attempt: u32,
    /// When it ends here.
    ends: Millis,
    /// Whether it ends later here than in the recorded run.
    is_longer: bool,
}

impl PolicyRun {
    fn new(started: &Started, under: &NamedSpec) -> Self {
        Self { run: begin(started, under).0, finding: None, granted: None, limits: Vec::new() }
    }

    /// Whether the finding is fixed, so that no later event changes it.
    fn is_settled(&self) -> bool {
        match &self.finding {
            None => false,
            Some(Finding { kind: FindingKind::Same | FindingKind::OtherReason, .. }) => {
                self.run.outcome().is_some()
            }
            Some(_) => true,
        }
    }

    /// Applies the deadlines of this run that are due before the next recorded event and that the recorded run did not
    /// have.
    fn before(&mut self, recorded: &Run, seq: u64, at: Millis) {
        while self.finding.is_none()
            && let Some(due) =
                self.run.deadline().filter(|due| *due < at && recorded.deadline() != Some(*due))
        {
            let event = Event { at: due.max(self.run.now()), kind: EventKind::DeadlineReached };
            if self.run.apply(&event).is_err() {
                return;
            }
            self.compare(recorded, seq);
            if self.run.deadline() == Some(due) {
                return;
            }
        }
    }

    /// Applies a recorded event, and compares the runs after it. `recorded` has applied the event already.
    fn take(&mut self, recorded: &Run, seq: u64, event: &Event) {
        if self.finding.is_some() {
            // Both end here, and what was in flight settles.
            let _later_than_its_end = self.run.apply(event);
            return;
        }
        if let Some(what) = self.would_have_been_cut(event) {
            return self.differs(seq, what);
        }
        let mut event = event.clone();
        let is_granted = match &mut event.kind {
            EventKind::PersonAnswered { binding, .. } | EventKind::ApprovedBy { binding, .. } => {
                // The binding names the digest of the policy.
                *binding = None;
                false
            }
            EventKind::CallStarted { .. } | EventKind::CallRefused { .. } => match self.quoted(&event.kind) {
                Ok((kind, is_granted)) => {
                    event.kind = kind;
                    is_granted
                }
                Err(what) => return self.differs(seq, what),
            },
            _ => false,
        };
        match self.run.apply(&event) {
            Ok(_) => {}
            Err(_) if End::of(&self.run).is_open() && !End::of(recorded).is_open() => {
                return self.continues(seq, "it has time left");
            }
            Err(rejected) => return self.differs(seq, rejected.to_string()),
        }
        if is_granted {
            let what = "a call is made that the recorded run was refused";
            return match End::of(recorded).is_open() {
                true => self.differs(seq, what.to_owned()),
                false => self.continues(seq, what),
            };
        }
        self.compare(recorded, seq);
    }

    /// The announcement of a call with the quote of this run, and whether it grants what was refused.
    fn quoted(&mut self, kind: &EventKind) -> Result<(EventKind, bool), String> {
        let (key, attempt, prompt) = match kind {
            EventKind::CallStarted { key, attempt, prompt_bytes, shared_bytes, .. }
            | EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, .. } => {
                (*key, *attempt, PromptSize { bytes: *prompt_bytes, shared_bytes: *shared_bytes })
            }
            _ => return Ok((kind.clone(), false)),
        };
        let quote = self.run.quote(&key, prompt);
        match (quote, kind) {
            (Ok(quote), EventKind::CallStarted { tier, prompt_hash, max_output_tokens, .. }) => {
                if quote.tier != *tier {
                    let (now, then) = (quote.tier.name(), tier.name());
                    return Err(format!(
                        "the call {key} is made on the {now} model, and was on the {then} one"
                    ));
                }
                self.granted = (quote.max_output_tokens != *max_output_tokens)
                    .then_some((quote.max_output_tokens, *max_output_tokens));
                Ok((EventKind::announced(key, attempt, prompt, *prompt_hash, Ok(quote)), false))
            }
            // What other runs had taken of the shared budget is the same under other settings.
            (Ok(quote), EventKind::CallRefused { refusal: Refusal::SharedBudget { left }, .. })
                if quote
                    .reserve
                    .cost
                    .is_none_or(|cost| *left < cost.plus(self.run.final_pass_reserve(&key, &quote))) =>
            {
                Ok((kind.clone(), false))
            }
            (quoted, _) => {
                let is_granted = quoted.is_ok();
                // The prompt was not sent, and the entry of a refusal has no digest of it.
                let prompt_hash = self.run.started().prompts;
                Ok((EventKind::announced(key, attempt, prompt, prompt_hash, quoted), is_granted))
            }
        }
    }

    /// Why the recorded event is impossible under this policy: the reply is longer than its grant, or the call exceeds
    /// its time limit. `None`: it is possible.
    fn would_have_been_cut(&mut self, event: &Event) -> Option<String> {
        match &event.kind {
            EventKind::ModelReplied { key, attempt, reply } => {
                let grant = self.granted.take().and_then(|(here, then)| cut(reply, here, then));
                grant.or_else(|| self.out_of_time(*key, *attempt, event.at, /*timed_out*/ false))
            }
            EventKind::ModelFailed { key, attempt, failure } => {
                self.granted = None;
                self.out_of_time(*key, *attempt, event.at, failure.kind == FailureKind::Timeout)
            }
            EventKind::ToolFinished { key, attempt, observation } => {
                self.out_of_time(*key, *attempt, event.at, observation.status == Status::Timeout)
            }
            _ => None,
        }
    }

    fn out_of_time(&self, key: CommandKey, attempt: u32, at: Millis, timed_out: bool) -> Option<String> {
        let limit = self.limits.iter().find(|limit| (limit.key, limit.attempt) == (key, attempt))?;
        match limit.is_longer {
            true => timed_out.then(|| format!("{key} has more time than it had")),
            false => (at > limit.ends).then(|| format!("{key} would have been cut off, it has less time")),
        }
    }

    /// Compares the runs after both have taken the same events.
    fn compare(&mut self, recorded: &Run, seq: u64) {
        match (End::of(recorded), End::of(&self.run)) {
            (End::Open, End::Open) => match difference(recorded, &self.run) {
                Some(what) => self.differs(seq, what),
                None => self.limit_times(recorded),
            },
            (End::Final(then), End::Final(now)) => {
                // The prompt of a final pass names the limit that causes it.
                if then.reason == now.reason {
                    match difference(recorded, &self.run) {
                        Some(what) => self.differs(seq, what),
                        None => self.limit_times(recorded),
                    }
                } else {
                    let what =
                        format!("the final pass is made for {}, and was for {}", now.reason, then.reason);
                    self.differs(seq, what);
                }
            }
            (End::Open, End::Final(cause)) => {
                let what = format!("the final pass is made here, for {}", cause.reason);
                let stop = Some((cause.reason, cause.class()));
                self.finding = Some(Finding { stop, ..self.unknown(FindingKind::FinalPass, seq, what) });
            }
            (End::Open | End::Final(_), End::Ended(_)) => self.stops_earlier(seq),
            (End::Final(_) | End::Ended(_), End::Open) | (End::Ended(_), End::Final(_)) => {
                let next = next(&self.run);
                self.continues(seq, &next);
            }
            (End::Ended(then), End::Ended(now)) => {
                let (then, now) = (then.clone(), now.clone());
                let kind =
                    if then.reason == now.reason { FindingKind::Same } else { FindingKind::OtherReason };
                let what = match kind {
                    FindingKind::Same => String::new(),
                    _ => format!("it ends for {}, and ended for {}", now.reason, then.reason),
                };
                let at = (kind != FindingKind::Same).then(|| self.place(seq));
                self.finding = Some(Finding {
                    kind,
                    at,
                    totals: *self.run.totals(),
                    stop: Some((now.reason, now.class())),
                    what,
                    more: None,
                    outcome: None,
                    is_exact: true,
                    is_same_result: true,
                });
            }
        }
    }

    /// Notes the commands whose time limit differs from that of the recorded run.
    fn limit_times(&mut self, recorded: &Run) {
        let (here, there) = (&self.run.spec().limits, &recorded.spec().limits);
        let final_pass = |run: &Run| run.spec().gate.final_pass;
        if (here.wall_ms, here.selector_ms, final_pass(&self.run))
            == (there.wall_ms, there.selector_ms, final_pass(recorded))
        {
            return;
        }
        let now = self.run.now();
        let theirs = recorded.commands();
        for command in self.run.commands() {
            let Some((key, attempt, ms)) = timeout(&command) else { continue };
            let then = theirs.iter().filter_map(timeout).find(|it| (it.0, it.1) == (key, attempt));
            let is_known = self.limits.iter().any(|it| (it.key, it.attempt) == (key, attempt));
            if let Some((_, _, then)) = then
                && then != ms
                && !is_known
            {
                self.limits.push(TimeLimit { key, attempt, ends: now.plus(ms), is_longer: ms > then });
            }
        }
    }

    fn place(&self, seq: u64) -> DivergencePoint {
        DivergencePoint { entry: seq, pass: self.run.pass() }
    }

    fn unknown(&self, kind: FindingKind, seq: u64, what: String) -> Finding {
        Finding {
            kind,
            at: Some(self.place(seq)),
            totals: loop_core::types::Totals { wall_ms: self.run.elapsed_ms(), ..*self.run.totals() },
            stop: None,
            what,
            more: Some(left(&self.run)),
            outcome: None,
            is_exact: true,
            is_same_result: false,
        }
    }

    fn differs(&mut self, seq: u64, what: String) {
        self.finding = Some(self.unknown(FindingKind::Differs, seq, what));
    }

    fn continues(&mut self, seq: u64, what: &str) {
        self.finding = Some(self.unknown(FindingKind::Continues, seq, what.to_owned()));
    }

    fn stops_earlier(&mut self, seq: u64) {
        let at = self.place(seq);
        let is_exact = self.run.outcome().is_some();
        if !is_exact {
            // What is in flight is cut off, and is charged with its whole reserve.
            let due = self.run.deadline().unwrap_or(self.run.now());
            let cut_off = self.run.apply(&Event { at: due, kind: EventKind::DeadlineReached });
            if let Err(rejected) = cut_off {
                return self.differs(seq, rejected.to_string());
            }
        }
        let Some(outcome) = self.run.outcome() else {
            return self.differs(seq, "its end is not known".to_owned());
        };
        self.finding = Some(Finding {
            kind: FindingKind::StopsEarlier,
            at: Some(at),
            totals: outcome.totals,
            stop: Some((outcome.stop.reason(), outcome.stop.class)),
            what: format!("it ends here, for {}", outcome.stop.reason()),
            more: None,
            outcome: Some(Box::new(outcome.clone())),
            is_exact,
            is_same_result: false,
        });
    }

    /// The finding after the last recorded event.
    fn finding(self, recorded: &Run) -> Finding {
        let ended = recorded.outcome();
        match self.finding {
            Some(finding) => {
                let same = |outcome: &Outcome| ended.is_some_and(|ended| is_same_result(outcome, ended));
                let is_same_result = match finding.kind {
                    FindingKind::StopsEarlier => finding.outcome.as_deref().is_some_and(same),
                    kind => kind.is_known(),
                };
                // What was in flight at the end has settled since.
                match (finding.kind, self.run.outcome()) {
                    (FindingKind::Same | FindingKind::OtherReason, Some(own)) => {
                        let stop = Some((own.stop.reason(), own.stop.class));
                        Finding { totals: own.totals, stop, is_same_result, ..finding }
                    }
                    _ => Finding { is_same_result, ..finding },
                }
            }
            // The recorded run has not ended, and nothing differs so far.
            None => Finding {
                kind: FindingKind::Same,
                at: None,
                totals: loop_core::types::Totals { wall_ms: recorded.elapsed_ms(), ..*recorded.totals() },
                stop: None,
                what: String::new(),
                more: None,
                outcome: None,
                is_exact: true,
                is_same_result: true,
            },
        }
    }
}

/// Why a reply would differ under another grant of output tokens. `None`: it would not.
fn cut(reply: &Reply, here: u64, then: u64) -> Option<String> {
    if here > then {
        return reply
            .finish
            .is_cut()
            .then(|| format!("the reply was cut at {then} output tokens, and may have {here}"));
    }
    // Without reported usage, a token is at least a byte.
    let used =
        reply.usage.map_or_else(|| reply.known_bytes(), |usage| usage.output.saturating_add(usage.reasoning));
    (used > here).then(|| format!("the reply of {used} output tokens would have been cut at {here}"))
}

/// The key, the try and the time limit of a command.
fn timeout(command: &Command) -> Option<(CommandKey, u32, u64)> {
    match command {
        Command::CallModel(call) => Some((call.key, call.attempt, call.timeout_ms)),
        Command::RunTool(tool) => Some((tool.key, tool.attempt, tool.timeout_ms)),
        Command::Check(check) => Some((check.key, check.attempt, check.timeout_ms)),
        Command::AskPerson { .. } | Command::Abort { .. } | Command::Save { .. } => None,
    }
}

/// What a run does next, in words.
fn next(run: &Run) -> String {
    match run.commands().first() {
        Some(Command::CallModel(call)) => format!("the model call {} is made", call.key),
        Some(Command::RunTool(tool)) => format!("the tool {} runs ({})", tool.tool, tool.key),
        Some(Command::AskPerson { key, .. }) => format!("a person is asked about {key}"),
        Some(Command::Check(check)) => crate::why::checked(&check.what).to_owned(),
        Some(Command::Abort { .. } | Command::Save { .. }) | None => {
            format!("it is in phase {}", run.phase().name())
        }
    }
}
