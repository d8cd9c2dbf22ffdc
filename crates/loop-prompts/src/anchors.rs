//! Anchors: the headings, labels and delimiters of rendered prompts that a program may search for.
//!
//! This crate renders its prompts with these constants, and a test finds each heading in the built-in templates. A
//! program that plays a model, such as the stub of `loop-mock`, finds the parts of a prompt by them instead of by copied
//! wording. A domain's own template may leave a heading out, so a search for it may find nothing.

/// What the system prompt of tool selection is about.
pub const SELECTION: &str = "You select data-gathering tools";
/// What the system prompt of a smart tool's filter is about.
pub const FILTER: &str = "You are filtering results";
/// What the system prompt of a repair is about.
pub const REPAIR: &str = "came without a readable contract block";
/// What the system prompt of a second opinion is about.
pub const OPINION: &str = "You check statements of a document against the evidence";

/// Begins a heading of the second level, and a section of a document.
pub const HEADING: &str = "## ";
/// The heading above the sections that are to be written.
pub const SECTIONS: &str = "## Sections";
/// The heading above the tools in the system prompt of a document's analysis.
pub const TOOLS: &str = "## Tools";
/// The line above the tools in the system prompt of tool selection.
pub const SELECTABLE_TOOLS: &str = "Available tools:";
/// The text before the maximum number of selected tools, at the end of its line.
pub const SELECTED_AT_MOST: &str = ", at most ";
/// Begins the heading of the work item; its kind, [`NAMES`] and its title follow.
pub const ITEM: &str = "## The ";
/// Separates a name from its text: kind and title, tool and description, parameter and value.
pub const NAMES: &str = ": ";
/// The heading above the evidence.
pub const EVIDENCE: &str = "## Evidence";
/// The heading above the list of executed tools.
pub const EXECUTED: &str = "## Tools Already Executed";
/// Part of the instructions of the last call.
pub const LAST_CALL: &str = "This is the LAST call";
/// The heading above the results that are to be filtered.
pub const RESULTS: &str = "## Results";
/// Begins the line that says what a filtered search was for.
pub const LOOKING_FOR: &str = "Looking for: ";

/// Begins the opening delimiter of a fence, before its label and the run's nonce.
pub const FENCE: &str = "<<<";
/// Begins the closing delimiter of a fence, before its label and the run's nonce.
pub const FENCE_END: &str = "<<<end ";
/// Ends each delimiter of a fence.
pub const FENCE_CLOSES: &str = ">>>";
/// The label of the fenced work item.
pub const ITEM_LABEL: &str = "E0";
/// The label of the fenced document, in the layout that repeats it.
pub const DOCUMENT_LABEL: &str = "document";

/// Begins the header of an observation, before its evidence number.
pub const EVIDENCE_HEADER: &str = "### ";
/// Separates the parts of an observation's header: its evidence number, its call, its status.
pub const EVIDENCE_PARTS: &str = " · ";
/// Begins an entry of a list: a tool, a call.
pub const ENTRY: &str = "- ";
/// Begins a section's line, before its heading. The heading ends with a backtick.
pub const SECTION_ENTRY: &str = "- `## ";
/// Begins a parameter's line below its tool. Its name follows, then a backtick.
pub const PARAMETER_ENTRY: &str = "  - `";
/// Separates a parameter's name from its type.
pub const PARAMETER_TYPE: &str = "` (";
/// After the type of a required parameter.
pub const REQUIRED: &str = "required";
/// After the type of an optional parameter.
pub const OPTIONAL: &str = "optional";
/// Before the permitted values of a parameter, as JSON.
pub const CHOICES: &str = "; one of ";
/// Before the pattern of a parameter, as a JSON string.
pub const PATTERN: &str = "; matching ";
/// Before a parameter's examples, at the end of its line.
pub const EXAMPLES: &str = "; for example ";
/// Begins the line of a tool that may change something, before its effect.
pub const EFFECT: &str = "  - (effect: ";
/// Begins the line of a tool that asks a person.
pub const QUESTION: &str = "  - (a question to a person";

/// After a listed call, before the word for its status: one of the words below, then [`OUTCOME_ENDS`].
pub const OUTCOME: &str = ": ";
/// After the word for a call's status.
pub const OUTCOME_ENDS: &str = " — ";
/// The word for a call with a result.
pub const SUCCESS: &str = "Success";
/// The word for a call that failed.
pub const FAILED: &str = "Failed";
/// The word for a call that found nothing.
pub const EMPTY: &str = "Empty";
/// The word for a call that was not ready.
pub const PENDING: &str = "Pending";
/// The word for a call that may or may not have happened.
pub const DOUBTED: &str = "In doubt";
/// The word for a call that a person or a rule denied.
pub const DENIED: &str = "Denied";
/// The word for a call that was cut off.
pub const CANCELLED: &str = "Cancelled";
/// The word for a call that did not run.
pub const NOT_RUN: &str = "Not run";
/// The word for a call that was skipped because its priority is `nice_to_have`.
pub const SKIPPED: &str = "Skipped";

/// After the name of the tool that takes the result of a run.
pub const WITH_RESULT: &str = "` with the result";
/// After the name of the tool that ends the work once the result is right.
pub const ENDS_WORK: &str = "`: only that ends the work";

/// Part of the rejection of an output by a validator.
pub const NOT_ACCEPTED: &str = "not accepted";
/// Part of the rejection of an answer that lacks a demanded tool or source.
pub const DEMANDED: &str = "demanded first";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template;

    #[test]
    fn every_heading_stands_in_the_built_in_templates() {
        let is_line = |text: &str, anchor: &str| text.lines().any(|line| line == anchor);
        for (file, anchor) in [
            (template::ANALYSIS, SECTIONS),
            (template::ANALYSIS, TOOLS),
            (template::ANALYSIS, EVIDENCE),
            (template::ANALYSIS, EXECUTED),
            (template::REFINEMENT, EXECUTED),
            (template::SELECTOR, SELECTABLE_TOOLS),
            (template::FILTER, RESULTS),
        ] {
            assert!(anchor.starts_with(HEADING) || anchor == SELECTABLE_TOOLS);
            assert!(is_line(file.builtin, anchor), "{} has no line `{anchor}`", file.name);
        }
        for (file, anchor) in [
            (template::ANALYSIS, format!("\n{ITEM}{{{{ kind }}}}{NAMES}{{{{ title }}}}\n")),
            (template::SELECTOR, format!("\n{ITEM}{{{{ kind }}}}{NAMES}{{{{ title }}}}\n")),
            (template::SELECTOR, format!("{SELECTED_AT_MOST}{{{{ selected }}}}.\n")),
            (template::ITEM, format!("{ITEM}{{{{ kind }}}}{NAMES}{{{{ title }}}}\n")),
            (template::FILTER, format!("\n{LOOKING_FOR}{{{{ target }}}}\n")),
            (template::FINAL_PASS, LAST_CALL.to_owned()),
            (template::REJECTION, NOT_ACCEPTED.to_owned()),
            (template::SELECTOR, SELECTION.to_owned()),
            (template::FILTER, FILTER.to_owned()),
            (template::REPAIR, REPAIR.to_owned()),
            (template::OPINION, OPINION.to_owned()),
        ] {
            assert!(file.builtin.contains(&anchor), "{} has no `{anchor}`", file.name);
        }
    }
}
