//! A builder of runs for tests: the spec, the work item and the facts.

use std::sync::Arc;

use loop_core::run::History;
use loop_core::spec::{
    CostMode, DefaultCall, Execution, GateSettings, Limits, NonceMode, OutputSpec, ProtocolSpec, Repeats,
    SectionSpec, Selection, Stale, ToolSpec,
};
use loop_core::types::Price;
use loop_core::{Facts, RunSpec, WorkItem};
use serde_json::Value;

use crate::{World, facts, item, model};

/// A run to start. It has the defaults of [`RunSpec`], except that tool selection is off.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The spec: what the run does, and its limits.
    pub spec: RunSpec,
    /// The work item.
    pub item: WorkItem,
    /// The facts with which it starts.
    pub facts: Facts,
}

impl Setup {
    /// A run that writes a document, without sections and tools.
    pub fn document(domain: &str) -> Self {
        let selection = Selection { enabled: false, defaults: Vec::new() };
        Self::of(RunSpec { selection, ..RunSpec::document(domain, [], model(Some(PRICE))) })
    }

    /// A conversation without tools.
    pub fn conversation(domain: &str) -> Self {
        Self::of(RunSpec::conversation(domain, model(Some(PRICE))))
    }

    /// A run that ends with an output. The tools that `output` names must be added.
    pub fn output(domain: &str, output: OutputSpec) -> Self {
        Self::of(RunSpec::output(domain, output, model(Some(PRICE))))
    }

    /// A run of this spec, with the default item and facts.
    pub fn of(spec: RunSpec) -> Self {
        Self { spec, item: item(), facts: facts() }
    }

    // ---- any protocol ----

    /// Changes the spec.
    pub fn with(mut self, change: impl FnOnce(&mut RunSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Changes the limits.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.spec.limits);
        self
    }

    /// Changes the settings of the gate.
    pub fn gate(mut self, change: impl FnOnce(&mut GateSettings)) -> Self {
        change(&mut self.spec.gate);
        self
    }

    /// Sets the goal, which the model reads.
    pub fn goal(self, goal: &str) -> Self {
        self.with(|spec| spec.goal = goal.into())
    }

    /// Adds a tool.
    pub fn tool(self, tool: ToolSpec) -> Self {
        self.with(|spec| spec.tools.push(tool))
    }

    /// Turns tool selection on. `defaults` run if the selection fails.
    pub fn selector(mut self, defaults: &[(&str, Value)]) -> Self {
        let defaults = defaults
            .iter()
            .map(|(tool, parameters)| DefaultCall {
                tool: (*tool).into(),
                parameters: parameters.to_string().into(),
            })
            .collect();
        self.spec.selection = Selection { enabled: true, defaults };
        self
    }

    /// Only limits end the run while something is left to run.
    pub fn patient(self) -> Self {
        self.gate(|gate| (gate.stale, gate.no_progress) = (Stale::Off, 0))
    }

    /// Cost and tokens are checked only after a call.
    pub fn checked_after(self) -> Self {
        self.limits(|limits| limits.cost_mode = CostMode::After)
    }

    /// An incomplete answer is not revised.
    pub fn unrevised(self) -> Self {
        self.gate(|gate| gate.revision_passes = 0)
    }

    /// Adds an escalated model, which is used while the confidence stays low.
    pub fn escalating(self) -> Self {
        self.with(|spec| spec.models.escalated = Some(model(Some(Price::flat(1_000_000, 4_000_000)))))
    }

    /// Adds a fallback model at twice the price of the base model.
    pub fn with_fallback(self) -> Self {
        self.with(|spec| spec.models.fallback = Some(model(Some(Price::flat(200_000, 800_000)))))
    }

    /// A person can be asked for approval, with a deadline of ten minutes.
    pub fn people(self) -> Self {
        self.gate(|gate| gate.people = true).limits(|limits| limits.person_ms = Some(600_000))
    }

    /// These tools run without approval.
    pub fn approving(self, tools: &[&str]) -> Self {
        self.gate(|gate| gate.approved = tools.iter().map(|tool| (*tool).into()).collect())
    }

    /// Sets how repeated calls are handled.
    pub fn repeating(self, repeats: Repeats) -> Self {
        self.gate(|gate| gate.repeats = Some(repeats))
    }

    /// Adds a save target.
    pub fn saving(self) -> Self {
        self.with(|spec| spec.save = true)
    }

    // ---- one protocol ----

    /// Adds a section to the document.
    #[track_caller]
    pub fn section(mut self, section: SectionSpec) -> Self {
        self.document_spec().sections.push(section);
        self
    }

    /// Replaces the sections of the document.
    #[track_caller]
    pub fn sections(mut self, sections: Vec<SectionSpec>) -> Self {
        self.document_spec().sections = sections;
        self
    }

    /// Sets which contract blocks of a document count.
    #[track_caller]
    pub fn nonce(mut self, mode: NonceMode) -> Self {
        self.document_spec().nonce = mode;
        self
    }

    /// Changes the output settings.
    #[track_caller]
    pub fn output_spec(mut self, change: impl FnOnce(&mut OutputSpec)) -> Self {
        match &mut self.spec.protocol {
            ProtocolSpec::Output(output) => change(output),
            other @ (ProtocolSpec::Document(_) | ProtocolSpec::Conversation(_)) => {
                panic!("not an output: {other:?}")
            }
        }
        self
    }

    /// Read-only calls run in parallel.
    #[track_caller]
    pub fn parallel(mut self) -> Self {
        match &mut self.spec.protocol {
            ProtocolSpec::Conversation(conversation) => conversation.execution = Execution::Parallel,
            ProtocolSpec::Output(output) => output.execution = Execution::Parallel,
            ProtocolSpec::Document(_) => panic!("the calls of a document have no order of their own"),
        }
        self
    }

    #[track_caller]
    fn document_spec(&mut self) -> &mut loop_core::spec::DocumentSpec {
        match &mut self.spec.protocol {
            ProtocolSpec::Document(document) => document,
            other @ (ProtocolSpec::Conversation(_) | ProtocolSpec::Output(_)) => {
                panic!("not a document: {other:?}")
            }
        }
    }

    // ---- item and facts ----

    /// Sets the work item.
    pub fn item(self, item: WorkItem) -> Self {
        Self { item, ..self }
    }

    /// Sets the item's text.
    pub fn item_text(mut self, text: &str) -> Self {
        self.item.full = text.into();
        self
    }

    /// Sets the messages before the run.
    pub fn history(mut self, history: History) -> Self {
        self.facts.history = Some(history);
        self
    }

    // ---- the run ----

    /// Starts the run `r1` at instant 0.
    #[track_caller]
    pub fn start(self) -> World {
        self.start_as("r1")
    }

    /// Starts a run with this id at instant 0.
    #[track_caller]
    pub fn start_as(self, id: &str) -> World {
        World::start(id, Arc::new(self.spec), self.item, self.facts)
    }
}

/// The price of the base model: millionths of a dollar for a million tokens.
const PRICE: Price = Price::flat(100_000, 400_000);
