//! What may be asked of a model beside the conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is asked of a model beside the conversation: the same for all calls, so that prefixes stay the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallOptions {
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
    /// Which of them; ignored without tools.
    pub tool_choice: ToolChoice,
    /// Whether it must call one tool at a time.
    pub one_call_at_a_time: bool,
    /// From 0 to 2.
    pub temperature: Option<f64>,
    /// From 0 to 1.
    pub top_p: Option<f64>,
    /// For a best effort at the same reply again.
    pub seed: Option<i64>,
    /// How long it should reason; its own default where it is not given.
    pub effort: Option<Effort>,
    /// Texts at which it ends.
    pub stop: Vec<Arc<str>>,
    /// What happens to an option that the model does not offer.
    pub unsupported: Unsupported,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name; one that the provider does not allow travels under an alias.
    pub name: Arc<str>,
    /// What it does.
    pub description: Arc<str>,
    /// The JSON Schema of its arguments: an object.
    pub parameters: Value,
    /// Whether the provider must hold the model to the schema.
    #[serde(default)]
    pub strict: Strictness,
}

/// Whether a provider holds a model to a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strictness {
    /// No.
    #[default]
    Off,
    /// Where the schema allows it. Optional arguments then come as `null`.
    Prefer,
    /// Yes; a schema that does not allow it is an error.
    Require,
}

/// Which tools may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(Arc<str>),
    /// Any of these; the list of tools that is sent stays whole.
    AnyOf(Vec<Arc<str>>),
}

/// How long a model should reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// Moderately.
    Medium,
    /// Long.
    High,
}

impl Effort {
    /// The effort as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What happens to an option that a model does not offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsupported {
    /// It is left out, with a warning.
    #[default]
    Degrade,
    /// The call fails before anything is sent.
    Reject,
}
