//! Declarations of the calls that a protocol handles itself: the one that submits an output, those that propose an end,
//! and the one that plans effects.

use std::borrow::Cow;

use loop_core::spec::EndCall;
use serde_json::{Value, json};

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

/// The description of a call that proposes an end, and its parameters, which the model reads.
pub fn end_call_tool(end: EndCall) -> (&'static str, Value) {
    let (description, reason) = match end {
        EndCall::Escalate => (
            "Hand the work to a person: call this alone where you cannot or must not decide it yourself.",
            "What a person has to decide or do, and why.",
        ),
        EndCall::Refuse => ("Refuse the work: call this alone where it must not be done.", "Why."),
    };
    let reason = json!({"type": "string", "description": reason});
    (description, json!({"type": "object", "properties": {"reason": reason}, "required": ["reason"]}))
}

/// The description of the call with which a model plans effects, and its parameters, which the model reads.
pub fn plan_tool() -> (&'static str, Value) {
    let description = "Say which effects you intend, once and before you read anything: a call that fits a slot runs \
                       without asking, also after you have read text that others wrote. Plan only what the user asked for.";
    let slot = json!({
        "type": "object",
        "properties": {
            "tool": {"type": "string", "description": "The tool's name. Name a tool that reads private data as well."},
            "fixed": {"type": "object", "description": "Parameters that you know now, with their values."},
            "open": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The other parameters that you will give. Left out: any.",
            },
            "count": {"type": "string", "description": "How many calls: a number, or `each` for one to each addressee. Left out: 1."},
        },
        "required": ["tool"],
    });
    let slots = json!({"type": "array", "items": slot});
    (description, json!({"type": "object", "properties": {"slots": slots}, "required": ["slots"]}))
}
