//! The prompts of a loop: what a model is told, rendered from a [`Run`](loop_core::Run) to bytes.
//!
//! **What it is.** Templates (selector, analysis, refinement, final pass, repair, smart-tool filter, and those of loops with
//! native calls), the fixed parts they arrange (evidence, executed tools, tool lines, section list, contract), and two
//! layouts. **What it does not do.** No I/O, no model, no decision. **The nouns.** [`Prompts`] are a domain's templates; a
//! [`Dialogue`] renders one run's prompts and keeps what it rendered; a [`Prompt`] is what a model sees. A [`Thread`] does
//! the same for a run with native calls: it gives the [`Turn`]s that are new.
//!
//! In the append layout the system prompt is byte-identical for every run of a domain, and each pass's prompt is a
//! byte prefix of the next one's on the same tier, so that providers' caches hit.
//!
//! Text from tools stands between marks that carry the run's nonce, without control characters, labelled with its
//! source. A domain may bring its own template files as long as they keep the anchors.

pub mod anchors;
mod dialogue;
mod error;
mod failure;
mod filter;
mod parts;
mod results;
mod submit;
mod template;
mod text;
mod thread;
mod turn;

use std::collections::BTreeMap;

use loop_core::Digest;
use serde::{Deserialize, Serialize};

pub use dialogue::{Dialogue, Prompt};
pub use error::PromptError;
pub use failure::markdown_of;
pub use filter::FilterQuestion;
pub use results::{CallResult, call_result, observation_text, unknown_tool};
pub use submit::{DEFAULT_SUBMIT_TOOL, SubmitTool};
pub use thread::{Grown, Thread};
pub use turn::Turn;

use template::Templates;

/// Where evidence stands (C19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Evidence is appended to the turns; each prompt begins with the one before it.
    #[default]
    Append,
    /// S0's: the system prompt grows with all evidence, the user message holds the document.
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

    /// The built-in templates, some of them replaced: pairs of a file name such as `analysis.md` and its text.
    ///
    /// # Errors
    /// For a name that no template has, a text that is no template, or one that lost an anchor.
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

    /// Names the templates and the layout.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Where evidence stands.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn templates(&self) -> &Templates {
        &self.templates
    }
}
