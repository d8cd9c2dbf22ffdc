//! What policies would have done to recorded runs, and the sums of it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::effects::{ActionKind, ToolEffects};
use super::policy::Policy;
use super::prepared::{Call, prepare};
use super::trajectory::{Label, Trajectory};

/// What one policy would have done to one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunScore {
    /// The calls whose results carry a note, in order. Empty if there are none.
    pub notes: Vec<NotedCall>,
    /// The refused calls, in order. Empty if none is refused.
    pub refused: Vec<RefusedCall>,
    /// The refused calls after which the turn or the run is over.
    pub stops: Vec<usize>,
    /// Calls that were not made because the turn or the run was over.
    pub left: Vec<usize>,
}

/// A call whose result carries a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotedCall {
    /// Its index among the steps of the run.
    pub step: usize,
    /// What it repeats.
    pub note: String,
}

/// A call that a policy refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedCall {
    /// Its index among the steps of the run.
    pub step: usize,
    /// The rule that refuses it.
    pub rule: String,
    /// Whether its recorded result was new: different from the result before, or, for a first call, not seen in its
    /// turn. What only says when or under which number a result was given is not compared. The first time of an action
    /// is always new.
    pub new: bool,
}

impl RunScore {
    /// Goes through a run. `effects` says what the run itself does not.
    pub fn of(policy: Policy, run: &Trajectory, effects: &ToolEffects) -> Self {
        judge(policy, &prepare(run, effects))
    }

    /// Calls that were not made: refused, or after the end.
    pub fn lost(&self) -> u64 {
        (self.refused.len() + self.left.len()) as u64
    }

    /// Whether a note, a refusal or a stop met the run.
    pub fn is_met(&self) -> bool {
        !self.notes.is_empty() || !self.refused.is_empty()
    }
}

fn judge(policy: Policy, calls: &[Call<'_>]) -> RunScore {
    let mut judge = policy.judge();
    let mut score = RunScore::default();
    let mut seen = Seen::default();
    let mut turn = calls.first().map(|call| call.turn);
    let mut is_over = false;
    for (step, call) in calls.iter().enumerate() {
        if turn.replace(call.turn) != Some(call.turn) {
            judge.new_turn();
            seen.new_turn();
            // The user may say more after a stop of ours, as after any other end of a turn.
            is_over &= policy.ends_the_run();
        }
        if is_over {
            score.left.push(step);
        } else if let Some(rule) = judge.refuses(call) {
            score.refused.push(RefusedCall { step, rule, new: seen.is_new(call) });
            is_over = policy.ends_the_run() || judge.is_stuck();
            score.stops.extend(is_over.then_some(step));
        } else {
            let note = judge.reported(call, &call.reported);
            score.notes.extend(note.map(|note| NotedCall { step, note }));
            seen.add(call);
        }
    }
    score
}

/// What the agent was told so far.
#[derive(Default)]
struct Seen<'a> {
    /// What each call told last.
    last: BTreeMap<u32, u32>,
    /// What each tool told in this turn.
    reported: BTreeSet<(&'a str, u32)>,
}

impl<'a> Seen<'a> {
    fn new_turn(&mut self) {
        self.reported.clear();
    }

    fn is_new(&self, call: &Call<'a>) -> bool {
        match self.last.get(&call.same) {
            Some(last) => *last != call.reported.stable,
            None => {
                call.action != ActionKind::Read && !call.reported.is_error
                    || !self.reported.contains(&(call.tool, call.reported.stable))
            }
        }
    }

    fn add(&mut self, call: &Call<'a>) {
        self.last.insert(call.same, call.reported.stable);
        self.reported.insert((call.tool, call.reported.stable));
    }
}

/// Sums over runs that ended in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Group {
    /// Runs.
    pub runs: u64,
    /// Their calls.
    pub calls: u64,
    /// Runs that a note, a refusal or a stop met.
    pub runs_met: u64,
    /// Results that carry a note.
    pub notes: u64,
    /// Runs in which at least one call is refused.
    pub runs_hit: u64,
    /// Calls that are refused.
    pub refused: u64,
    /// Runs in which a turn, or the run itself, is ended.
    pub runs_stopped: u64,
    /// Calls that are refused, or not made because the run has ended.
    pub calls_lost: u64,
    /// RefusedTool calls whose recorded result was new.
    pub new_refused: u64,
}

impl Group {
    fn add(&mut self, calls: u64, score: &RunScore) {
        self.runs += 1;
        self.calls += calls;
        self.runs_met += u64::from(score.is_met());
        self.notes += score.notes.len() as u64;
        self.runs_hit += u64::from(!score.refused.is_empty());
        self.refused += score.refused.len() as u64;
        self.runs_stopped += u64::from(!score.stops.is_empty());
        self.calls_lost += score.lost();
        self.new_refused += score.refused.iter().filter(|refusal| refusal.new).count() as u64;
    }
}

/// Sums over the runs of a labelled set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Labelled {
    /// Runs labelled as loops.
    pub loops: u64,
    /// Loops in which a call from `loop_from` on is refused, or not made because the run has ended.
    pub caught: u64,
    /// Loops in which a call before `loop_from` is refused, whether they are caught or not.
    pub early: u64,
    /// Over the caught loops: the median number of calls between `loop_from` and the refusal. `None`: none is caught.
    pub late_by: Option<u64>,
    /// Productive runs.
    pub productive: u64,
    /// Productive runs in which a call is refused.
    pub false_positives: u64,
    /// Productive runs in which a result carries a note.
    pub noted: u64,
    /// By kind: how many runs, and how many were judged as labelled.
    pub kinds: BTreeMap<String, (u64, u64)>,
    #[serde(skip)]
    delays: Vec<u64>,
}

impl Labelled {
    fn add(&mut self, label: Label, kind: Option<&str>, score: &RunScore) {
        let first = score.refused.first().map(|refusal| refusal.step);
        let as_labelled = match label {
            Label::Productive => {
                self.productive += 1;
                self.false_positives += u64::from(first.is_some());
                self.noted += u64::from(!score.notes.is_empty());
                first.is_none()
            }
            Label::Unproductive { from } => {
                let is_early = first.is_some_and(|first| first < from);
                let in_loop = score.refused.iter().find(|refusal| refusal.step >= from);
                let delay = match in_loop {
                    Some(refusal) => Some(refusal.step - from),
                    // It never comes to the loop.
                    None => score.left.iter().any(|step| *step >= from).then_some(0),
                };
                self.loops += 1;
                self.early += u64::from(is_early);
                self.caught += u64::from(delay.is_some());
                self.delays.extend(delay.map(|delay| delay as u64));
                delay.is_some() && !is_early
            }
        };
        if let Some(kind) = kind {
            let of_kind = self.kinds.entry(kind.to_owned()).or_default();
            of_kind.0 += 1;
            of_kind.1 += u64::from(as_labelled);
        }
    }
}

/// What one policy would have done to all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Score {
    /// The policy's name.
    pub policy: String,
    /// Runs that reached their goal.
    pub successful: Group,
    /// Runs that did not.
    pub failed: Group,
    /// Runs whose success is not recorded.
    pub unknown: Group,
    /// Calls lost in failed runs, and in loops from `loop_from` on. They would have been useless.
    pub calls_saved: u64,
    /// Over the runs that are hit: the median position of the first refused call, from 1. `None`: no run is hit.
    pub stop: Option<u64>,
    /// Results for a labelled set. `None`: the runs are not labelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labelled: Option<Labelled>,
    #[serde(skip)]
    stops: Vec<u64>,
}

impl Score {
    fn new(policy: Policy) -> Self {
        Self {
            policy: policy.to_string(),
            successful: Group::default(),
            failed: Group::default(),
            unknown: Group::default(),
            calls_saved: 0,
            stop: None,
            labelled: None,
            stops: Vec::new(),
        }
    }

    fn add(&mut self, run: &Trajectory, calls: u64, score: &RunScore) {
        let group = match run.success {
            Some(true) => &mut self.successful,
            Some(false) => &mut self.failed,
            None => &mut self.unknown,
        };
        group.add(calls, score);
        self.calls_saved += match (run.label, run.success) {
            (Some(Label::Unproductive { from }), _) => {
                let refused = score.refused.iter().map(|refusal| &refusal.step);
                refused.chain(&score.left).filter(|step| **step >= from).count() as u64
            }
            (None, Some(false)) => score.lost(),
            _ => 0,
        };
        self.stops.extend(score.refused.first().map(|refusal| refusal.step as u64 + 1));
        if let Some(label) = run.label {
            self.labelled.get_or_insert_default().add(label, run.kind.as_deref(), score);
        }
    }

    fn finish(&mut self) {
        self.stop = median(&mut self.stops);
        if let Some(labelled) = &mut self.labelled {
            labelled.late_by = median(&mut labelled.delays);
        }
    }
}

/// The middle one, or the lower of the two in the middle.
fn median(of: &mut [u64]) -> Option<u64> {
    of.sort_unstable();
    of.get(of.len().checked_sub(1)? / 2).copied()
}

/// A run that a policy met, or a loop that it missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MetRun {
    /// The policy's name.
    pub policy: String,
    /// The run's id.
    pub run: String,
    /// Whether it reached its goal. `null`: not recorded.
    pub success: Option<bool>,
    /// `loop` or `productive`. `null`: not labelled.
    pub label: Option<&'static str>,
    /// Its kind, in a labelled set.
    pub kind: Option<String>,
    /// Of a loop: the index of the first step that should be refused, from 0.
    pub loop_from: Option<usize>,
    /// The calls whose results carry a note.
    pub notes: Vec<NotedCall>,
    /// The refused calls.
    pub refused: Vec<RefusedTool>,
    /// The steps at which a turn, or the run, is ended.
    pub stops: Vec<usize>,
    /// How many calls were not made because the turn or the run was over.
    pub not_run: u64,
}

/// A refused call with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedTool {
    /// The tool.
    pub tool: String,
    /// The call and the rule.
    pub refusal: RefusedCall,
}

/// What `loopgate guard score --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GuardScores {
    /// The sums, a policy each.
    pub policies: Vec<Score>,
    /// With `--details`: the runs that were met, and the loops that were missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<MetRun>>,
}

/// Policies over any number of runs, each run read once.
///
/// ```
/// # use loop_eval::guard::{ToolEffects, Policy, Table};
/// let mut table = Table::new(&["progress".parse()?, "last3".parse()?], ToolEffects::default(), false);
/// // for run in Trajectories::open(path)? { table.add(&run?); }
/// println!("{}", table.finish());
/// # Ok::<(), loop_eval::guard::UnknownPolicy>(())
/// ```
#[derive(Debug)]
pub struct Table {
    policies: Vec<Policy>,
    effects: ToolEffects,
    pub(super) scores: Vec<Score>,
    pub(super) details: Option<Vec<MetRun>>,
}

impl Table {
    /// An empty one. `effects` says what the runs themselves do not; with `details` the runs that are hit are kept.
    pub fn new(policies: &[Policy], effects: ToolEffects, details: bool) -> Self {
        Self {
            policies: policies.to_vec(),
            effects,
            scores: policies.iter().map(|policy| Score::new(*policy)).collect(),
            details: details.then(Vec::new),
        }
    }

    /// Lets every policy go through a run.
    pub fn add(&mut self, run: &Trajectory) {
        let calls = prepare(run, &self.effects);
        for (policy, sums) in self.policies.iter().zip(&mut self.scores) {
            let score = judge(*policy, &calls);
            sums.add(run, calls.len() as u64, &score);
            if let Some(details) = &mut self.details {
                let is_missed =
                    matches!(run.label, Some(Label::Unproductive { .. })) && score.refused.is_empty();
                if is_missed || score.is_met() {
                    details.push(detail(&sums.policy, run, score));
                }
            }
        }
    }

    /// The sums of what was added, a policy each, in the order in which they were given.
    pub fn finish(mut self) -> Self {
        self.scores.iter_mut().for_each(Score::finish);
        self
    }

    /// The sums, a policy each.
    pub fn scores(&self) -> &[Score] {
        &self.scores
    }
}

fn detail(policy: &str, run: &Trajectory, score: RunScore) -> MetRun {
    let named = score.refused.into_iter().map(|refusal| RefusedTool {
        tool: run.steps.get(refusal.step).map(|step| step.tool.clone()).unwrap_or_default(),
        refusal,
    });
    let (label, loop_from) = match run.label {
        Some(Label::Unproductive { from }) => (Some("loop"), Some(from)),
        Some(Label::Productive) => (Some("productive"), None),
        None => (None, None),
    };
    MetRun {
        policy: policy.to_owned(),
        run: run.id.clone(),
        success: run.success,
        label,
        kind: run.kind.clone(),
        loop_from,
        notes: score.notes,
        refused: named.collect(),
        not_run: score.left.len() as u64,
        stops: score.stops,
    }
}
