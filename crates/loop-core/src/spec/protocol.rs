//! Protocol settings of a spec: how a reply becomes a proposal, and the properties of each protocol.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::spec::gate::GroundingRule;
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
    /// As a conversation, with an output tool whose validated value ends the run.
    Output(OutputSpec),
}

/// The properties by which protocols differ. Code checks a property by name instead of comparing protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Tools are called with the provider's native tool calls. Otherwise actions are entries of a contract block.
    pub native_calls: bool,
    /// The conversation is messages in which every call has exactly one result, even if it was not run.
    pub answers_every_call: bool,
    /// Replies have a contract block with a confidence and actions. A missing block is requested again, and an echo of
    /// one does not count.
    pub has_contract: bool,
    /// Replies propose sections of a document, which are merged into it.
    pub has_sections: bool,
    /// Replies state a confidence, and the gate decides by it. Otherwise it decides by the calls and the end of a
    /// reply.
    pub states_confidence: bool,
    /// Tools may be selected, and run, before the first pass.
    pub selects_tools: bool,
    /// A reply without calls is the final answer.
    pub ends_without_calls: bool,
    /// The last permitted call is a final pass, which must end without tools. A loop that must end with an output has
    /// none.
    pub has_final_pass: bool,
    /// The final pass is also made when no tool call is left or no call can run, so that the model can still answer.
    pub concludes_without_tools: bool,
    /// A prompt that does not fit is compacted by whole turns. Otherwise the oldest evidence is shortened.
    pub compacts: bool,
    /// `limits.messages` applies.
    pub counts_messages: bool,
    /// The model's reasoning is sent back with its turns, where the provider requires that.
    pub keeps_reasoning: bool,
    /// Writes run one at a time, even if reads run concurrently.
    pub one_write_at_a_time: bool,
    /// The default repeat policy. The gate's settings replace it.
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
    /// The properties of this protocol.
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

    /// The style of error results.
    pub fn errors(&self) -> ErrorStyle {
        match self {
            Self::Document(_) => ErrorStyle::default(),
            Self::Conversation(conversation) => conversation.errors,
            Self::Output(output) => output.errors,
        }
    }

    /// The style whose names of stop reasons a run reports.
    pub(crate) fn reason_names(&self) -> ErrorStyle {
        match self.errors() {
            ErrorStyle::Tagged => ErrorStyle::Tagged,
            ErrorStyle::Plain | ErrorStyle::Quoted | ErrorStyle::Named | ErrorStyle::Prefixed => {
                ErrorStyle::Plain
            }
        }
    }

    /// Whether the protocol handles the call of a tool itself instead of running it: the submit tool, or without one
    /// the output tool. Such an output is stored unchanged and then validated.
    pub fn handles(&self, tool: &str) -> bool {
        self.output().is_some_and(|output| tool == &**output.submit.as_ref().unwrap_or(&output.tool))
    }

    /// Whether the tool takes the output or submits it.
    pub fn is_output(&self, tool: &str) -> bool {
        self.output().is_some_and(|it| *it.tool == *tool || it.submit.as_deref() == Some(tool))
    }

    /// The settings of the output. `None`: the protocol has none.
    pub fn output(&self) -> Option<&OutputSpec> {
        match self {
            Self::Document(_) | Self::Conversation(_) => None,
            Self::Output(output) => Some(output),
        }
    }

    /// The settings of the output, to be changed. `None`: the protocol has none.
    pub fn output_mut(&mut self) -> Option<&mut OutputSpec> {
        match self {
            Self::Document(_) | Self::Conversation(_) => None,
            Self::Output(output) => Some(output),
        }
    }
}

/// An end that a model proposes with a native call. The protocol handles the call, and no tool runs. In a document the
/// contract block has a member of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum EndCall {
    /// The work is handed to a person.
    Escalate,
    /// The work is refused.
    Refuse,
}

impl EndCall {
    /// Both, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Escalate, Self::Refuse];

    /// The name that is called. Its one parameter is `reason`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The end with this name. `None`: it is the name of neither.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.name() == name)
    }
}

/// A conversation: messages and native calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConversationSpec {
    /// How the calls of one reply are run.
    #[serde(skip_serializing_if = "is_default")]
    pub execution: Execution,
    /// The style of error results that the model reads.
    #[serde(skip_serializing_if = "is_default")]
    pub errors: ErrorStyle,
}

/// A loop that ends with a validated value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// The output tool's name, which is one of the spec's tools. With a submit tool it is run, and returns the
    /// formatted value. Otherwise its call ends an attempt.
    pub tool: Arc<str>,
    /// The name of the submit tool, which ends an attempt and is one of the spec's tools. `None`: the output tool ends
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<Arc<str>>,
    /// The maximum number of attempts. Default 3.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// The maximum number of passes of one attempt. Default 15.
    #[serde(default = "passes_per_attempt")]
    pub passes_per_attempt: u32,
    /// Time limit of validating one output, in milliseconds. Default 30,000.
    #[serde(default = "validate_ms")]
    pub validate_ms: u64,
    /// How the calls of one reply are run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execution: Execution,
    /// The style of error results that the model reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: ErrorStyle,
}

impl OutputSpec {
    /// Three attempts of fifteen passes each, without a submit tool.
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

/// The time limit of a check without a sub-call where no setting says another, in milliseconds.
pub const CHECK_MS: u64 = 30_000;

fn validate_ms() -> u64 {
    CHECK_MS
}

/// How the calls of one reply are run. Their results are in the order of the calls either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// One after another.
    #[default]
    Ordered,
    /// Reads run concurrently, writes one after another.
    Parallel,
    /// One call for each reply: the first that may run. The others are left undone, and their results say so.
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

    /// The setting's value in a domain file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The style of error results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorStyle {
    /// `Error: …`, with similar names for an unknown tool.
    #[default]
    Plain,
    /// `Unknown tool`, and a quotation for a failure.
    Quoted,
    /// `Error executing NAME: …`.
    Named,
    /// `Error: Unknown tool NAME`, `Error: …`.
    Prefixed,
    /// A code, for example `tool_not_allowed`.
    Tagged,
}

impl ErrorStyle {
    /// The style's value in a domain file.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The document that the loop works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentSpec {
    /// Its typed sections, in display order.
    pub sections: Vec<SectionSpec>,
    /// Which contract blocks count.
    #[serde(default)]
    pub nonce: NonceMode,
}

/// One typed section of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    /// Its type, for example `next_steps`: small letters, digits, `_` and `-`.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = r"^[a-z][a-z0-9_-]*$")))]
    pub id: Arc<str>,
    /// Its heading, an emoji included where one is wanted, for example `✅ Next steps`.
    pub heading: Arc<str>,
    /// What belongs in it. The model reads it.
    #[serde(default)]
    pub describe: Arc<str>,
    /// Whether an answer without it is incomplete. Default: false.
    #[serde(default)]
    pub required: bool,
    /// Whether it must cite, as `[E1]`: `true` for anything, the work item (`[E0]`) too; `"evidence"` for at least one
    /// result of a tool. Default: false.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "CiteText"))]
    pub cite: Cite,
    /// What follows from a value of it that the evidence contradicts. Default: `gate.grounding`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grounding: Option<GroundingRule>,
    /// Whether a second model is asked about it, as `gate.second_opinion` says. Default: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verify: bool,
}

/// What a section must cite: evidence that exists and did not fail. Written as `false`, `true` or `"evidence"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "CiteText", into = "CiteText")]
pub enum Cite {
    /// Nothing.
    #[default]
    No,
    /// Anything, including the work item (E0).
    Any,
    /// Evidence other than the work item (E0).
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

/// What a section must cite.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected true, false or \"evidence\"")]
enum CiteText {
    /// Anything, or nothing.
    Flag(bool),
    /// Evidence.
    Word(CiteWord),
}

/// What a citation must name.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum CiteWord {
    /// A result of a tool.
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
        Self {
            id: id.into(),
            heading: heading.into(),
            describe: "".into(),
            required: false,
            cite: Cite::No,
            grounding: None,
            verify: false,
        }
    }

    /// The section with this description for the model.
    pub fn describe(self, describe: impl Into<Arc<str>>) -> Self {
        Self { describe: describe.into(), ..self }
    }

    /// The section, required.
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// The section, which must cite the work item or evidence.
    pub fn cited(self) -> Self {
        self.citing(Cite::Any)
    }

    /// The section with this rule for its values instead of the gate's.
    pub fn grounded(self, rule: GroundingRule) -> Self {
        Self { grounding: Some(rule), ..self }
    }

    /// The section with this citation rule.
    pub fn citing(self, cite: Cite) -> Self {
        Self { cite, ..self }
    }
}

/// Which contract blocks count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NonceMode {
    /// A block with the right nonce counts before others, and one with a wrong nonce never counts. A block without a
    /// nonce counts if it is the last, is not an echo of a text that the run has read, all those texts could be
    /// searched completely, and the run has read no untrusted text. After the first untrusted text the rule is
    /// [`Require`](Self::Require).
    #[default]
    Prefer,
    /// Only blocks with the right nonce count. For domains with hostile text.
    Require,
}
