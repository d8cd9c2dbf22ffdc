//! Protocols as a spec names them: what a reply is taken for, and what is particular to each.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::spec::policy::Repeats;
use crate::types::{EvidenceId, is_default};

/// How a reply becomes a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProtocolSpec {
    /// A document of sections, refined pass by pass.
    Document(DocumentSpec),
    /// Messages: tools are called natively, and a reply without calls is the final answer.
    Conversation(ConversationSpec),
    /// The same with one output tool, whose validated value is the end.
    Output(OutputSpec),
}

/// What is particular to a protocol. Whoever has to know how protocols differ asks for one of these by its name, and not
/// which protocol it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Tools are called natively, by calls of the wire; otherwise actions are entries of a contract block.
    pub native_calls: bool,
    /// The history is messages, in which every call has exactly one result, also one that was not run.
    pub answers_every_call: bool,
    /// Replies carry a contract block with a confidence and actions: one that is missing is asked for again, and one that is
    /// an echo of something read does not count.
    pub has_contract: bool,
    /// Replies propose sections of a document, which are merged into it.
    pub has_sections: bool,
    /// Replies state a confidence, and the gate decides by it; otherwise a reply's calls and its ending tell.
    pub states_confidence: bool,
    /// Tools may be selected, and run, before the first pass.
    pub selects_tools: bool,
    /// A reply without calls is the final answer.
    pub ends_without_calls: bool,
    /// The last permitted call is a final pass, which is told to end without tools. A loop that must end with an output has
    /// none: its last call is one like any other.
    pub has_final_pass: bool,
    /// The final pass also follows where no tool call is left or nothing goes on: the model can still say what it has.
    pub concludes_without_tools: bool,
    /// What does not fit into the model is made shorter by whole turns; otherwise the oldest evidence body gives way.
    pub compacts: bool,
    /// `limits.messages` applies.
    pub counts_messages: bool,
    /// What the model reasoned goes back with its turns, where a provider wants that.
    pub keeps_reasoning: bool,
    /// Calls that change something are run one at a time, also where reads run side by side.
    pub one_write_at_a_time: bool,
    /// What becomes of a call that was made before, unless the gate's settings say.
    pub repeats: Repeats,
}

const DOCUMENT: Properties = Properties {
    native_calls: false,
    answers_every_call: false,
    has_contract: true,
    has_sections: true,
    states_confidence: true,
    selects_tools: true,
    ends_without_calls: false,
    has_final_pass: true,
    concludes_without_tools: false,
    compacts: false,
    counts_messages: false,
    keeps_reasoning: false,
    one_write_at_a_time: false,
    repeats: Repeats::NeverRerun,
};

const CONVERSATION: Properties = Properties {
    native_calls: true,
    answers_every_call: true,
    has_contract: false,
    has_sections: false,
    states_confidence: false,
    selects_tools: false,
    ends_without_calls: true,
    has_final_pass: true,
    concludes_without_tools: true,
    compacts: true,
    counts_messages: true,
    keeps_reasoning: true,
    one_write_at_a_time: true,
    repeats: Repeats::Progress,
};

const OUTPUT: Properties = Properties {
    ends_without_calls: false,
    has_final_pass: false,
    concludes_without_tools: false,
    ..CONVERSATION
};

impl ProtocolSpec {
    /// What is particular to this protocol.
    pub const fn properties(&self) -> &'static Properties {
        match self {
            Self::Document(_) => &DOCUMENT,
            Self::Conversation(_) => &CONVERSATION,
            Self::Output(_) => &OUTPUT,
        }
    }

    /// How the calls of one reply are run.
    pub fn execution(&self) -> Execution {
        match self {
            Self::Document(_) => Execution::Parallel,
            Self::Conversation(conversation) => conversation.execution,
            Self::Output(output) => output.execution,
        }
    }

    /// In whose words a model is told of a call that failed.
    pub fn errors(&self) -> ErrorStyle {
        match self {
            Self::Document(_) => ErrorStyle::default(),
            Self::Conversation(conversation) => conversation.errors,
            Self::Output(output) => output.errors,
        }
    }

    /// Whether the protocol handles the call of a tool itself, in place of having it run: the call that submits an
    /// output, or without a reflection the output's own. Such an output is taken as it is, whatever it looks like:
    /// validation tells.
    pub fn handles(&self, tool: &str) -> bool {
        self.output().is_some_and(|output| tool == &**output.submit.as_ref().unwrap_or(&output.tool))
    }

    /// The output that ends the loop, where it has one.
    pub fn output(&self) -> Option<&OutputSpec> {
        match self {
            Self::Document(_) | Self::Conversation(_) => None,
            Self::Output(output) => Some(output),
        }
    }
}

/// A conversation: messages and native calls (S1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConversationSpec {
    /// How the calls of one reply are run.
    #[serde(skip_serializing_if = "is_default")]
    pub execution: Execution,
    /// In whose words the model is told of a call that failed.
    #[serde(skip_serializing_if = "is_default")]
    pub errors: ErrorStyle,
}

/// A loop that ends with a validated value (S2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// The output tool's name; it stands among the tools. With a reflection it is run, and answers with the value
    /// formatted; otherwise its call is the end of an attempt.
    pub tool: Arc<str>,
    /// With a reflection: the name of the tool that ends an attempt, which stands among the tools as well (S2-20).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<Arc<str>>,
    /// How many attempts there are: 3.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// How many passes one attempt may take: 15 (S2-38).
    #[serde(default = "passes_per_attempt")]
    pub passes_per_attempt: u32,
    /// Milliseconds that validating one output may take: 30,000.
    #[serde(default = "validate_ms")]
    pub validate_ms: u64,
    /// How the calls of one reply are run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execution: Execution,
    /// In whose words the model is told of a call that failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: ErrorStyle,
}

impl OutputSpec {
    /// Three attempts of fifteen passes each, without a reflection.
    pub fn new(tool: impl Into<Arc<str>>) -> Self {
        Self {
            tool: tool.into(),
            submit: None,
            attempts: attempts(),
            passes_per_attempt: passes_per_attempt(),
            validate_ms: validate_ms(),
            execution: Execution::default(),
            errors: ErrorStyle::default(),
        }
    }
}

fn attempts() -> u32 {
    3
}

fn passes_per_attempt() -> u32 {
    15
}

fn validate_ms() -> u64 {
    30_000
}

/// How the calls of one reply are run (C3). Their results stand in the order of the calls either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// One after another (S1-25).
    #[default]
    Ordered,
    /// Those that only look side by side, those that change something one after another (S2-101).
    Parallel,
    /// One call a reply: the first that may run; the others are left undone, and the model is told so (S4-31).
    Single,
}

impl Execution {
    /// Whether no two calls run at the same time.
    pub fn is_ordered(self) -> bool {
        match self {
            Self::Ordered | Self::Single => true,
            Self::Parallel => false,
        }
    }

    /// The setting as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Parallel => "parallel",
            Self::Single => "single",
        }
    }
}

/// In whose words a model is told of a call that failed (C8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorStyle {
    /// S2's words, with the names that come near an unknown one.
    #[default]
    Plain,
    /// S0's: `Unknown tool` (S0-88), and a quoted line for a failure (S0-67).
    Quoted,
    /// S1's: `Error executing NAME: …` (S1-29).
    Named,
    /// S2's: `Error: Unknown tool NAME` (S2-76), `Error: …` (S2-77).
    Prefixed,
    /// S4's: a code (S4-79).
    Tagged,
}

impl ErrorStyle {
    /// The style as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Quoted => "quoted",
            Self::Named => "named",
            Self::Prefixed => "prefixed",
            Self::Tagged => "tagged",
        }
    }
}

/// The document that the loop works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentSpec {
    /// Its typed sections, in the order in which it is shown.
    pub sections: Vec<SectionSpec>,
    /// Which contract blocks count.
    #[serde(default)]
    pub nonce: NonceMode,
}

/// One typed section (S0-115).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    /// Its type, for example `next_steps`.
    pub id: Arc<str>,
    /// Its heading, emoji included, for example `🔍 Situation`.
    pub heading: Arc<str>,
    /// What belongs in it, for the model.
    #[serde(default)]
    pub describe: Arc<str>,
    /// Whether an answer without it is unfinished.
    #[serde(default)]
    pub required: bool,
    /// What it must cite.
    #[serde(default)]
    pub cite: Cite,
}

/// What a section must cite: evidence that exists and did not fail. Written as `false`, `true` or `"evidence"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "CiteText", into = "CiteText")]
pub enum Cite {
    /// Nothing.
    #[default]
    No,
    /// Anything; the work item (E0) will do.
    Any,
    /// Evidence: an observation. The work item alone is no support for what is found about it.
    Evidence,
}

impl Cite {
    /// Whether these citations are enough.
    pub fn is_met_by(self, cited: &[EvidenceId]) -> bool {
        match self {
            Self::No => true,
            Self::Any => !cited.is_empty(),
            Self::Evidence => cited.iter().any(|id| *id != EvidenceId::ITEM),
        }
    }
}

/// How it is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CiteText {
    Flag(bool),
    Word(CiteWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CiteWord {
    Evidence,
}

impl From<CiteText> for Cite {
    fn from(text: CiteText) -> Self {
        match text {
            CiteText::Flag(false) => Self::No,
            CiteText::Flag(true) => Self::Any,
            CiteText::Word(CiteWord::Evidence) => Self::Evidence,
        }
    }
}

impl From<Cite> for CiteText {
    fn from(cite: Cite) -> Self {
        match cite {
            Cite::No => Self::Flag(false),
            Cite::Any => Self::Flag(true),
            Cite::Evidence => Self::Word(CiteWord::Evidence),
        }
    }
}

impl SectionSpec {
    /// A section that may be left out and need not cite.
    pub fn new(id: impl Into<Arc<str>>, heading: impl Into<Arc<str>>) -> Self {
        Self { id: id.into(), heading: heading.into(), describe: "".into(), required: false, cite: Cite::No }
    }

    /// The same section, told to the model in these words.
    pub fn describe(self, describe: impl Into<Arc<str>>) -> Self {
        Self { describe: describe.into(), ..self }
    }

    /// The same section, without which an answer is unfinished.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The same section, which must cite the work item or evidence.
    pub fn cited(self) -> Self {
        self.citing(Cite::Any)
    }

    /// The same section, which must cite what `cite` says.
    pub fn citing(self, cite: Cite) -> Self {
        Self { cite, ..self }
    }
}

/// Which contract blocks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonceMode {
    /// The right nonce wins, a wrong one is ignored. A block without one counts if it is the last, neither a tool's
    /// text nor the work item holds it, each of those could be searched whole, and the run has read nothing untrusted.
    /// From the first untrusted text on it is as with [`Require`](Self::Require).
    #[default]
    Prefer,
    /// Only blocks with the right nonce count: for hostile domains.
    Require,
}
