//! Replays a recorded run: whether this program decides the same, renders the same prompts, and gets the same results
//! from the tools that only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use loop_core::repeats::stable_digest;
use loop_core::run::{PromptSize, RunTool};
use loop_core::spec::ToolSpec;
use loop_core::types::{CommandKey, Observation, RunId, Slot, Status};
use loop_core::{Command, EventKind, Note, Run, RunSpec};
use loop_runtime::Runner;
use loop_runtime::again::{ReadAgain, Renderer};
use loop_runtime::journal::{Entry, Recorded, ReplayError};
use loop_runtime::report::Item;
use loop_runtime::run::StartError;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::diff::line_diff;

/// The version of this format.
pub const REPLAY_VERSION: u32 = 1;

/// How much of a recorded run is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayDepth {
    /// The decisions of the gate, from the recorded replies and results.
    Gate,
    /// The prompts as well: rendered from the domain as it is now.
    Prompts,
    /// The reads as well: the tools are called. Nothing that changes something is called.
    Tools,
}

/// What a replay found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Replay {
    /// The version of this format: 1.
    pub version: u32,
    /// The run's id.
    pub run: String,
    /// The domain's name.
    pub domain: String,
    /// The work item.
    pub item: Item,
    /// How much was done again.
    pub depth: ReplayDepth,
    /// Whether everything that was compared is the same.
    pub equal: bool,
    /// How many entries the run has.
    pub entries: u64,
    /// The entries that are decided otherwise today. After one that is rejected, the rest was not replayed.
    pub decisions: Vec<DecisionDifference>,
    /// The prompts. Absent at depth `gate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptReplay>,
    /// The tools. Absent at depths `gate` and `prompts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolReplay>,
}

/// An entry that is decided otherwise today.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DecisionDifference {
    /// The number of the entry, from 0.
    pub entry: u64,
    /// The name of its event.
    pub event: String,
    /// The recorded decisions.
    pub recorded: Vec<Value>,
    /// The decisions of this program. Empty if it rejects the event.
    pub now: Vec<Value>,
    /// Why this program rejects the event. Absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
}

/// The prompts of a replay.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PromptReplay {
    /// How many prompts were rendered.
    pub rendered: u32,
    /// Those that are not the bytes that were sent.
    pub different: Vec<PromptDifference>,
}

/// A prompt that is not the one that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PromptDifference {
    /// The number of the entry that announced the call, from 0.
    pub entry: u64,
    /// The call's key.
    pub call: String,
    /// The try, from 1.
    pub attempt: u32,
    /// Bytes of the prompt that was sent.
    pub recorded_bytes: u64,
    /// Bytes of the prompt of today. Null: there is none.
    pub bytes: Option<u64>,
}

/// The tools of a replay.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ToolReplay {
    /// How many reads were called again.
    pub called: u32,
    /// Those that returned something else, or failed otherwise.
    pub drifted: Vec<Drift>,
    /// Calls that were taken from the record.
    pub not_called: Vec<NotCalled>,
}

/// A read that returns something else today.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Drift {
    /// The number of the entry with the recorded result, from 0.
    pub entry: u64,
    /// The action's key.
    pub action: String,
    /// The tool's name.
    pub tool: String,
    /// The parameters.
    pub parameters: Value,
    /// The recorded result.
    pub recorded: ShortResult,
    /// The result of today.
    pub now: ShortResult,
    /// What the model reads: the lines that differ, each with `-` (recorded), `+` (today) or a blank (both) before it. Empty
    /// if only the data differs.
    pub lines: Vec<String>,
}

/// A result in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShortResult {
    /// Its status, for example `ok`.
    pub status: String,
    /// One line for people.
    pub summary: String,
    /// The digest of its data.
    pub digest: String,
}

/// A call that was taken from the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotCalled {
    /// The number of the entry with the recorded result, from 0.
    pub entry: u64,
    /// The action's key.
    pub action: String,
    /// The tool's name.
    pub tool: String,
    /// The reason.
    pub why: WhyNotCalled,
}

/// Why a replay does not call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyNotCalled {
    /// It changes something, in the run's settings or in the domain of today.
    Effect,
    /// It asks a person first.
    AsksPerson,
    /// A model chose from its result.
    Smart,
    /// The domain does not have the tool any more.
    Gone,
}

impl WhyNotCalled {
    /// The reason as a sentence about the call.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Effect => "it changes something",
            Self::AsksPerson => "it asks a person first",
            Self::Smart => "a model chose from its result",
            Self::Gone => "the domain does not have this tool any more",
        }
    }
}

impl Replay {
    /// Replays the decisions of a recorded run: depth [`ReplayDepth::Gate`], for which no domain is needed.
    ///
    /// # Errors
    /// If the entries do not begin with the start of a run under the recorded spec.
    pub fn of(run: &RunId, recorded: &Recorded) -> Result<Self, StartError> {
        let mut replayed = ReplayedRun::begin(run, recorded)?;
        recorded.entries.iter().skip(1).all(|entry| replayed.apply(entry));
        Ok(replayed.report(ReplayDepth::Gate, recorded, None, None))
    }

    /// Replays a recorded run: its decisions, its prompts with the templates of this loop, and its reads with the tools of
    /// this loop. What changes something is never called.
    ///
    /// # Errors
    /// If the entries do not begin with the start of a run under the recorded spec.
    pub async fn with(
        runner: &Runner,
        run: &RunId,
        recorded: &Recorded,
        depth: ReplayDepth,
    ) -> Result<Self, StartError> {
        let mut replayed = ReplayedRun::begin(run, recorded)?;
        let renderer = Renderer::of_runner(runner, &replayed.state)?;
        let mut prompts = Prompts { renderer, found: PromptReplay::default() };
        let mut reads = RepeatableReads::default();
        for entry in recorded.entries.iter().skip(1) {
            if depth >= ReplayDepth::Prompts {
                prompts.compare(&replayed.state, entry);
            }
            if depth >= ReplayDepth::Tools {
                reads.collect(runner, &replayed.state, entry);
            }
            if !replayed.apply(entry) {
                break;
            }
        }
        let prompts = (depth >= ReplayDepth::Prompts).then_some(prompts.found);
        let tools = match depth {
            ReplayDepth::Tools => Some(reads.call(runner).await),
            ReplayDepth::Gate | ReplayDepth::Prompts => None,
        };
        Ok(replayed.report(depth, recorded, prompts, tools))
    }
}

/// A run that is replayed entry by entry, and what was decided otherwise so far.
struct ReplayedRun {
    state: Run,
    decisions: Vec<DecisionDifference>,
}

impl ReplayedRun {
    fn begin(run: &RunId, recorded: &Recorded) -> Result<Self, StartError> {
        let broken = |rejected| ReplayError::Broken { run: run.clone(), seq: 0, rejected };
        let first = recorded.entries.first();
        let first = first.ok_or_else(|| broken(loop_core::Rejected::NotTheStart("nothing")))?;
        let (state, notes) = Run::open(&first.event, Arc::clone(&recorded.spec)).map_err(broken)?;
        let mut replayed = Self { state, decisions: Vec::new() };
        replayed.compare(first, &notes);
        Ok(replayed)
    }

    /// Applies an entry. False if it is rejected, so that no later one can be applied.
    fn apply(&mut self, entry: &Entry) -> bool {
        match self.state.apply(&entry.event) {
            Ok(notes) => {
                self.compare(entry, &notes);
                true
            }
            Err(rejected) => {
                self.differs(entry, &[], Some(rejected.to_string()));
                false
            }
        }
    }

    fn compare(&mut self, entry: &Entry, notes: &[Note]) {
        if entry.notes != notes {
            self.differs(entry, notes, None);
        }
    }

    fn differs(&mut self, entry: &Entry, notes: &[Note], rejected: Option<String>) {
        let values =
            |notes: &[Note]| notes.iter().filter_map(|note| serde_json::to_value(note).ok()).collect();
        self.decisions.push(DecisionDifference {
            entry: entry.seq,
            event: entry.event.kind.name().to_owned(),
            recorded: values(&entry.notes),
            now: values(notes),
            rejected,
        });
    }

    fn report(
        self,
        depth: ReplayDepth,
        recorded: &Recorded,
        prompts: Option<PromptReplay>,
        tools: Option<ToolReplay>,
    ) -> Replay {
        let Self { state, decisions } = self;
        let item = &state.started().item;
        let same_prompts = prompts.as_ref().is_none_or(|prompts| prompts.different.is_empty());
        let same_results = tools.as_ref().is_none_or(|tools| tools.drifted.is_empty());
        Replay {
            version: REPLAY_VERSION,
            run: state.id().to_string(),
            domain: state.spec().domain.to_string(),
            item: Item {
                id: item.id.to_string(),
                kind: item.kind.to_string(),
                title: item.title.to_string(),
            },
            depth,
            equal: decisions.is_empty() && same_prompts && same_results,
            entries: recorded.entries.len() as u64,
            decisions,
            prompts,
            tools,
        }
    }
}

/// The prompts of a replayed run, rendered anew and compared.
struct Prompts<'a> {
    renderer: Renderer<'a>,
    found: PromptReplay,
}

impl Prompts<'_> {
    /// Compares the prompt that an entry announces.
    fn compare(&mut self, run: &Run, entry: &Entry) {
        let (key, attempt, bytes, shared_bytes, hash) = match &entry.event.kind {
            EventKind::Resumed { .. } => return self.renderer.begin(run),
            EventKind::CallStarted { key, attempt, prompt_bytes, shared_bytes, prompt_hash, .. } => {
                (*key, *attempt, *prompt_bytes, *shared_bytes, Some(*prompt_hash))
            }
            EventKind::CallRefused { key, attempt, prompt_bytes, shared_bytes, .. } => {
                (*key, *attempt, *prompt_bytes, *shared_bytes, None)
            }
            _ => return,
        };
        let recorded = PromptSize { bytes, shared_bytes };
        self.found.rendered += 1;
        let mut now = self.renderer.render(run, key).map(|prompt| (prompt.size(), prompt.digest()));
        if let Some((size, _)) = now.as_mut().filter(|_| key.slot == Slot::Select) {
            // Of the main call after it, which has a prompt of its own.
            size.shared_bytes = shared_bytes;
        }
        let is_same =
            now.is_some_and(|(size, digest)| size == recorded && hash.is_none_or(|hash| hash == digest));
        if !is_same {
            self.found.different.push(PromptDifference {
                entry: entry.seq,
                call: key.to_string(),
                attempt,
                recorded_bytes: bytes,
                bytes: now.map(|(size, _)| size.bytes),
            });
        }
    }
}

/// The calls of a recorded run that a replay makes again. If a call had several tries, the last one counts.
#[derive(Default)]
struct RepeatableReads {
    calls: BTreeMap<CommandKey, RepeatableRead>,
    not_called: BTreeMap<CommandKey, NotCalled>,
}

/// A call that the replay makes again.
struct RepeatableRead {
    entry: u64,
    read: ReadAgain,
    recorded: Arc<Observation>,
}

impl RepeatableReads {
    fn collect(&mut self, runner: &Runner, run: &Run, entry: &Entry) {
        let EventKind::ToolFinished { key, attempt, observation } = &entry.event.kind else { return };
        let commanded = run.commands().into_iter().find_map(|command| match command {
            Command::RunTool(tool) if (tool.key, tool.attempt) == (*key, *attempt) => Some(tool),
            _ => None,
        });
        // A call whose run was stopping is not commanded any more, and was cancelled.
        let Some(tool) = commanded else { return };
        if let Some(why) = not_called(run, runner.spec(), &tool, observation) {
            let (action, tool) = (key.to_string(), tool.tool.to_string());
            self.not_called.insert(*key, NotCalled { entry: entry.seq, action, tool, why });
            return;
        }
        let (read, recorded) = (runner.read_again(run, tool), Arc::clone(observation));
        self.calls.insert(*key, RepeatableRead { entry: entry.seq, read, recorded });
    }

    /// Makes the calls, one after the other, and compares the results.
    async fn call(self, runner: &Runner) -> ToolReplay {
        let mut found =
            ToolReplay { not_called: self.not_called.into_values().collect(), ..ToolReplay::default() };
        for (key, RepeatableRead { entry, read, recorded }) in self.calls {
            let (tool, parameters) = (Arc::clone(read.tool()), read.parameters());
            let Some(now) = runner.read(read).await else { continue };
            found.called += 1;
            if !is_same(runner.spec().tool(&tool), &recorded, &now) {
                found.drifted.push(Drift {
                    entry,
                    action: key.to_string(),
                    tool: tool.to_string(),
                    parameters,
                    recorded: ShortResult::of(&recorded),
                    now: ShortResult::of(&now),
                    lines: line_diff(&recorded.markdown, &now.markdown),
                });
            }
        }
        found
    }
}

/// Why the replay does not make a call again. `None`: it does.
fn not_called(run: &Run, spec: &RunSpec, tool: &RunTool, recorded: &Observation) -> Option<WhyNotCalled> {
    let Some(now) = spec.tool(&tool.tool) else { return Some(WhyNotCalled::Gone) };
    let then = run.spec().tool(&tool.tool);
    let specs = || then.into_iter().chain([now]);
    if !tool.effect.is_read() || specs().any(|spec| !spec.effect.is_read()) {
        Some(WhyNotCalled::Effect)
    } else if specs().any(|spec| spec.policy.asks_person) {
        Some(WhyNotCalled::AsksPerson)
    } else if recorded.sub_call.is_some() {
        Some(WhyNotCalled::Smart)
    } else {
        None
    }
}

/// Whether two results are the same except for the parts that the tool declares as volatile.
fn is_same(tool: Option<&ToolSpec>, recorded: &Observation, now: &Observation) -> bool {
    if recorded.status != now.status {
        return false;
    }
    if !matches!(now.status, Status::Ok | Status::Empty) {
        // A failure's text may hold times and addresses.
        return true;
    }
    let rules = tool.map(|tool| tool.policy.repeats.clone()).unwrap_or_default();
    let stable = |observation: &Observation| stable_digest(&observation.data, &rules).0;
    recorded.digest == now.digest || stable(recorded) == stable(now)
}

impl ShortResult {
    fn of(observation: &Observation) -> Self {
        Self {
            status: observation.status.name().to_owned(),
            summary: observation.summary.to_string(),
            digest: observation.digest.to_string(),
        }
    }
}
