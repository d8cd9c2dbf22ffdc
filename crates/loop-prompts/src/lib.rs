//! Renders the prompts of a loop: from a [`Run`](loop_core::Run) to the bytes that a model reads.
//!
//! **What it is.** Templates (selector, analysis, refinement, final pass, repair, smart-tool filter, and those of loops
//! with native calls), the fixed parts they arrange (evidence, executed tools, tool lines, section list, contract), and
//! two layouts. **What it does not do.** No I/O, no model, no decision. **The nouns.** [`Prompts`] are a domain's
//! templates. A [`Dialogue`] renders the prompts of one run with a document contract and caches them. A [`Prompt`] is
//! what a model reads in one call. A [`Thread`] renders the new messages of a run with native calls.
//!
//! In the append layout the system prompt is byte-identical for every run of a domain. Each pass's prompt is a byte
//! prefix of the next one's on the same tier, so that providers' prompt caches hit.
//!
//! Tool text is untrusted. It is fenced with delimiters that carry the run's nonce, cleaned of control characters, and
//! labelled with its source. A domain may replace template files as long as they keep the anchors.

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
