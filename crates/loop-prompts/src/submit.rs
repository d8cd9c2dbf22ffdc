//! How the tool that submits an output is called, and what a model is told of it.

use std::borrow::Cow;

/// The tool that ends an attempt where outputs are shown to the model first (S2-20). It takes nothing, and is never run
/// (S2-27, S2-28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitTool {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is for, for the model.
    pub description: Cow<'static, str>,
}

/// S2's own (S2-25, S2-26, S2-58).
pub const DEFAULT_SUBMIT_TOOL: SubmitTool = SubmitTool {
    name: Cow::Borrowed("submit"),
    description: Cow::Borrowed(
        "Submit your final output for validation. Call this when you are satisfied with your output.",
    ),
};
