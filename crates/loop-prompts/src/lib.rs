//! Renders the prompts of a loop: from a [`Run`](loop_core::Run) to the bytes that a model reads.
//!
//! It has the templates (tool selection, analysis, refinement, final pass, repair, smart-tool filter), the fixed parts that
//! they arrange (evidence, executed tools, tool lines, section list, contract), and the text of each tool result. In the
//! append layout the system prompt is byte-identical for every run of a domain, and each pass's prompt is a byte prefix of
//! the next one's on the same tier, so that providers' prompt caches hit.
//!
//! # What it is not
//!
//! It does no I/O, calls no model and makes no decision. Tool text stays data: it is fenced with delimiters that carry the
//! run's nonce, cleaned of control characters, and labelled with its source.
//!
//! # A prompt
//!
//! ```
//! use loop_core::run::Provenance;
//! use loop_core::spec::{ModelSpec, SectionSpec};
//! use loop_core::types::{Digest, RunId};
//! use loop_core::{Command, Facts, Run, RunSpec, WorkItem};
//! use loop_prompts::{Dialogue, Prompts};
//!
//! let prompts = Prompts::builtin();
//! let sections = [SectionSpec::new("situation", "Situation").required()];
//! let spec = RunSpec::document("helpdesk", sections, ModelSpec::new("none", "none"));
//! let item = WorkItem::new("T-1", "ticket", "Disk full", "web-1 has no space left.");
//! let (tools, provenance) = (Digest::of("tools", b""), Provenance::default());
//! let facts = Facts { unix_ms: 0, nonce: "k3j9".into(), prompts: prompts.hash(), tools, history: None, provenance };
//! let (run, _first, _notes) = Run::start(RunId::new("r1"), spec.into(), item, facts);
//!
//! let commands = run.commands();
//! let [Command::CallModel(call)] = commands.as_slice() else { panic!("a run begins with a model call") };
//! let prompt = Dialogue::default().prompt(&prompts, &run, call.key).expect("it is a model call");
//! assert!(prompt.system.contains("## Situation"));
//! assert!(prompt.turns[0].text().contains("web-1 has no space left."));
//! ```
//!
//! # The modules and items
//!
//! | module or item | what you find there |
//! |---|---|
//! | [`Prompts`], [`Layout`], [`PromptError`] | a domain's templates: the built-in ones, or replacements that keep the anchors |
//! | [`Dialogue`], [`Prompt`], [`SectionQuestion`] | the prompts of one run with a document contract, cached |
//! | [`Thread`], [`AddedTurns`] | the new messages of a run with native tool calls |
//! | [`call_result`], [`observation_text`], [`markdown_of`] | the text that a model reads for a tool call |
//! | [`FilterQuestion`] | the prompt of a smart tool's filter |
//! | [`anchors`] | the headings, labels and delimiters that a program may search a prompt for |
//! | [`submit`] | declarations of the calls that a protocol handles itself: submit, escalate, refuse, plan |

pub mod anchors;
mod dialogue;
mod error;
mod failure;
mod filter;
mod notes;
mod parts;
mod results;
pub mod submit;
mod template;
mod text;
mod thread;

use std::collections::BTreeMap;

use loop_core::types::Digest;
use serde::{Deserialize, Serialize};

pub use dialogue::{Dialogue, Prompt, SectionQuestion};
pub use error::PromptError;
pub use failure::markdown_of;
pub use filter::FilterQuestion;
pub use results::{call_result, observation_text};
pub use thread::{AddedTurns, Thread};

use template::Templates;

/// Where evidence is placed in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Evidence is appended to the turns; each prompt begins with the one before it.
    #[default]
    Append,
    /// The system prompt grows with all evidence, and the user message holds the document.
    SystemEvidence,
}

/// A domain's templates.
#[derive(Debug)]
pub struct Prompts {
    templates: Templates,
    layout: Layout,
    hash: Digest,
}

impl Prompts {
    /// The built-in templates in the append layout.
    #[expect(clippy::missing_panics_doc, reason = "it cannot: a test renders every built-in template")]
    pub fn builtin() -> Self {
        Self::with_overrides(std::iter::empty(), Layout::default())
            .expect("the built-in templates are tested")
    }

    /// The built-in templates with replacements: pairs of a file name such as `analysis.md` and its text.
    ///
    /// # Errors
    /// For an unknown file name, a text that does not compile, or one without an anchor.
    pub fn with_overrides(
        overrides: impl IntoIterator<Item = (String, String)>,
        layout: Layout,
    ) -> Result<Self, PromptError> {
        let overrides: BTreeMap<String, String> = overrides.into_iter().collect();
        let templates = Templates::new(overrides)?;
        let name = match layout {
            Layout::Append => "append",
            Layout::SystemEvidence => "system_evidence",
        };
        let hash = Digest::of("prompts", format!("{name} {}", templates.hash()).as_bytes());
        Ok(Self { templates, layout, hash })
    }

    /// The digest of the templates and the layout.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The layout: where evidence is placed.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn templates(&self) -> &Templates {
        &self.templates
    }
}
