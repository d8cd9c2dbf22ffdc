//! The runs of a journal as a list, for programs: what `loopgate runs --json` and `loopgate journal stats --json` print.

use std::collections::BTreeMap;

use loop_core::types::{Cost, PicoUsd, StopClass};
use schemars::JsonSchema;
use serde::Serialize;

use loop_runtime::journal::RunLine;
use loop_runtime::journal::label::RunLabel;
use loop_runtime::journal::list::{JournalStats, RunSummary};

/// The version of these lists as JSON.
pub const LISTED_VERSION: u32 = 1;

/// Runs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ListedRuns {
    /// The version of this form.
    pub version: u32,
    /// The runs that were asked for.
    pub runs: Vec<ListedRun>,
    /// All of them together.
    pub totals: ListedTotals,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ListedRun {
    /// Its id.
    pub run: String,
    /// When it began, in milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// The domain's name.
    pub domain: String,
    /// The work item's id.
    pub item: String,
    /// The work item's title.
    pub title: String,
    /// The tags that it was begun with. Empty if there are none.
    pub tags: Vec<String>,
    /// How many entries it has.
    pub entries: u64,
    /// Whether it has ended, and if not, what it does.
    pub state: ListedState,
    /// The class of its stop: `answered`, `partial`, `refused`, `needs_human`, `failed`, `in_doubt` or `cancelled`. Null
    /// if it has not ended.
    pub class: Option<String>,
    /// The name of the reason for which it stopped. Null if it has not ended.
    pub reason: Option<String>,
    /// What its own calls cost. What a fork takes over counts for its parent.
    pub cost: ListedCost,
    /// Milliseconds from its start to its stop, waits for people included. Null if it has not ended.
    pub duration_ms: Option<u64>,
    /// The name of its base model at the provider. Null: it cannot be read.
    pub model: Option<String>,
    /// The confidence of its last pass: the measured one, else the stated one. Null: its protocol states none.
    pub confidence: Option<String>,
    /// Who submitted it to a server. Null: it was begun by a command.
    pub caller: Option<String>,
    /// Whether it was imported: then it can be read, and not be resumed.
    pub imported: bool,
    /// What a person said it was worth. Null: it is not labelled.
    pub label: Option<RunLabel>,
    /// What is wrong with the stored run. Null: nothing is.
    pub trouble: Option<String>,
}

/// Whether a run has ended, and if not, what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedState {
    /// It has ended.
    Ended,
    /// A process writes it.
    Running,
    /// It waits for a person, and no process writes it.
    Waiting,
    /// It has not ended, and no process writes it.
    Interrupted,
    /// It cannot be read.
    Damaged,
}

impl ListedState {
    /// Every state, in the order of declaration.
    pub const ALL: [Self; 5] = [Self::Ended, Self::Running, Self::Waiting, Self::Interrupted, Self::Damaged];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Damaged => "damaged",
        }
    }
}

/// A cost, exact and for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ListedCost {
    /// In US dollars. Null while the price of any call is unknown.
    pub usd: Option<f64>,
    /// In pico-dollars (10⁻¹² USD) of the calls with a known price, exact.
    pub pico_usd: u64,
    /// How many calls cost something for which there is no price.
    pub unpriced_calls: u32,
}

impl From<Cost> for ListedCost {
    fn from(cost: Cost) -> Self {
        let usd = cost.total().map(PicoUsd::as_usd);
        Self { usd, pico_usd: cost.known.0, unpriced_calls: cost.unknown_calls }
    }
}

/// Runs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ListedTotals {
    /// How many runs.
    pub runs: u64,
    /// How many of each outcome: the class of those that have ended, the state of the others.
    pub by_outcome: BTreeMap<String, u64>,
    /// How many of each domain.
    pub by_domain: BTreeMap<String, u64>,
    /// What the calls of all of them cost.
    pub cost: ListedCost,
}

impl ListedTotals {
    /// The totals of these runs.
    pub fn of(runs: &[ListedRun]) -> Self {
        let mut totals = Self::default();
        let mut cost = Cost::default();
        for run in runs {
            totals.runs += 1;
            *totals.by_outcome.entry(run.outcome().to_owned()).or_default() += 1;
            *totals.by_domain.entry(run.domain.clone()).or_default() += 1;
            cost.known = cost.known.plus(PicoUsd(run.cost.pico_usd));
            cost.unknown_calls = cost.unknown_calls.saturating_add(run.cost.unpriced_calls);
        }
        totals.cost = cost.into();
        totals
    }

    /// The cost of all of them.
    pub fn spent(&self) -> Cost {
        Cost { known: PicoUsd(self.cost.pico_usd), unknown_calls: self.cost.unpriced_calls }
    }
}

impl ListedRun {
    /// A run of a list. `waits`: whether a run that has not ended waits for a person.
    pub fn new(line: &RunLine, summary: RunSummary, waits: bool, tags: Vec<String>) -> Self {
        let state = match (&line.trouble, &line.stop) {
            (Some(_), _) => ListedState::Damaged,
            (None, Some(_)) => ListedState::Ended,
            (None, None) if line.is_written => ListedState::Running,
            (None, None) if waits => ListedState::Waiting,
            (None, None) => ListedState::Interrupted,
        };
        let class = line.stop.and(summary.class).map(StopClass::name);
        Self {
            run: line.run.to_string(),
            started_unix_ms: line.unix_ms,
            domain: line.domain.to_string(),
            item: line.item.to_string(),
            title: line.title.to_string(),
            tags,
            entries: line.entries,
            state,
            class: class.map(str::to_owned),
            reason: line.stop.as_ref().map(|stop| stop.name().to_owned()),
            cost: summary.cost.into(),
            duration_ms: summary.duration_ms,
            model: summary.model.as_deref().map(str::to_owned),
            confidence: summary.confidence.map(|confidence| confidence.name().to_owned()),
            caller: None,
            imported: line.is_imported,
            label: None,
            trouble: line.trouble.as_deref().map(str::to_owned),
        }
    }

    /// Its outcome: the class of its stop, or its state if it has not ended.
    pub fn outcome(&self) -> &str {
        match (&self.class, self.state) {
            (Some(class), ListedState::Ended) => class,
            (_, state) => state.name(),
        }
    }
}

/// What is in a journal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StatsReport {
    /// The version of this form.
    pub version: u32,
    /// The journal's file.
    pub journal: String,
    /// Its runs together.
    pub totals: ListedTotals,
    /// How many entries they have.
    pub entries: u64,
    /// Bytes of its file and of its log.
    pub bytes: u64,
    /// Bytes of its file that are free for new entries.
    pub free_bytes: u64,
    /// When the oldest run began, in milliseconds since 1970 (UTC). Null: there are no runs.
    pub oldest_unix_ms: Option<u64>,
    /// When the newest run began.
    pub newest_unix_ms: Option<u64>,
    /// How many runs have not ended.
    pub open: u64,
    /// How many cannot be read. `verify` says why, and looks further.
    pub damaged: u64,
    /// How many were imported.
    pub imported: u64,
    /// How many were pruned.
    pub pruned: u64,
    /// How many the records under the key know of that are not there.
    pub missing: u64,
}

impl StatsReport {
    /// What is in a journal with these runs.
    pub fn new(journal: String, stats: &JournalStats, runs: &[ListedRun]) -> Self {
        let count = |is: fn(&ListedRun) -> bool| runs.iter().filter(|run| is(run)).count() as u64;
        Self {
            version: LISTED_VERSION,
            journal,
            totals: ListedTotals::of(runs),
            entries: stats.entries,
            bytes: stats.bytes,
            free_bytes: stats.free_bytes,
            oldest_unix_ms: runs.iter().map(|run| run.started_unix_ms).min(),
            newest_unix_ms: runs.iter().map(|run| run.started_unix_ms).max(),
            open: count(|run| !matches!(run.state, ListedState::Ended | ListedState::Damaged)),
            damaged: count(|run| run.state == ListedState::Damaged),
            imported: count(|run| run.imported),
            pruned: stats.pruned,
            missing: stats.missing,
        }
    }
}
