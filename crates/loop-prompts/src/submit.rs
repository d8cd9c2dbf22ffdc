//! The tool that submits an output: its name, and its description for the model.

use std::borrow::Cow;

/// The tool that ends an attempt where outputs are shown to the model first. It has no parameters. The protocol handles
/// the call, so it is never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitTool {
    /// The name under which the model calls it.
    pub name: Cow<'static, str>,
    /// Its description, which the model reads.
    pub description: Cow<'static, str>,
}

/// The default: `submit`.
pub const DEFAULT_SUBMIT_TOOL: SubmitTool = SubmitTool {
    name: Cow::Borrowed("submit"),
    description: Cow::Borrowed(
        "Submit your final output for validation. Call this when you are satisfied with your output.",
    ),
};
