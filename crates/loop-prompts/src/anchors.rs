//! Anchors: the headings, labels and marks of rendered prompts that a program may look for.
//!
//! What this crate renders is made with them, and a test finds each heading in the built-in templates. A program that plays
//! a model, as `loop-offline` does, finds the parts of a prompt by these names and not by wording that it has copied. A
//! domain's own template may leave a heading out; whoever looks for it then finds nothing.

/// Begins a heading of the second level, and a section of a document.
pub const HEADING: &str = "## ";
/// The heading above the sections that are to be written.
pub const SECTIONS: &str = "## Sections";
/// The heading above the tools in the rules of a document's analysis.
pub const TOOLS: &str = "## Tools";
/// The line above the tools in the rules of tool selection.
pub const SELECTABLE_TOOLS: &str = "Available tools:";
/// Stands before the number of tools that may be selected, at the end of its line.
pub const SELECTED_AT_MOST: &str = ", at most ";
/// Begins the heading of the work item; its kind, [`NAMES`] and its title follow.
pub const ITEM: &str = "## The ";
/// Between a name and what it names: kind and title, tool and description, parameter and value.
pub const NAMES: &str = ": ";
/// The heading above the evidence.
pub const EVIDENCE: &str = "## Evidence";
/// The heading above the list of executed tools.
pub const EXECUTED: &str = "## Tools Already Executed";
/// Stands in the instructions of the last call.
pub const LAST_CALL: &str = "This is the LAST call";
/// The heading above the results that are to be filtered.
pub const RESULTS: &str = "## Results";
/// Begins the line that says what a filtered search was for.
pub const LOOKING_FOR: &str = "Looking for: ";

/// Begins the mark at the start of a fenced text, before its label and the run's nonce.
pub const FENCE: &str = "<<<";
/// Begins the mark at the end of a fenced text, before its label and the run's nonce.
pub const FENCE_END: &str = "<<<end ";
/// Ends each mark of a fence.
pub const FENCE_CLOSES: &str = ">>>";
/// The label of the fenced work item.
pub const ITEM_LABEL: &str = "E0";
/// The label of the fenced document, in the layout that repeats it.
pub const DOCUMENT_LABEL: &str = "document";

/// Begins the header of a piece of evidence, before its id.
pub const EVIDENCE_HEADER: &str = "### ";
/// Between the parts of the header of a piece of evidence: its id, its call, its status.
pub const EVIDENCE_PARTS: &str = " · ";
/// Begins an entry of a list: a tool, a call.
pub const ENTRY: &str = "- ";
/// Begins a section's line, before its heading; the heading ends with a code mark.
pub const SECTION_ENTRY: &str = "- `## ";
/// Begins a parameter's line below its tool; its name follows in code marks.
pub const PARAMETER_ENTRY: &str = "  - `";
/// Behind a parameter's name, before its type.
pub const PARAMETER_TYPE: &str = "` (";
/// Behind the type of a parameter that has to be given.
pub const REQUIRED: &str = "required";
/// Behind the type of a parameter that may be left out.
pub const OPTIONAL: &str = "optional";
/// Before a parameter's examples, at the end of its line.
pub const EXAMPLES: &str = "; for example ";

/// Behind a listed call, before what came of it; one of the words below stands between this and [`OUTCOME_ENDS`].
pub const OUTCOME: &str = ": ";
/// Behind the word for what came of a listed call.
pub const OUTCOME_ENDS: &str = " — ";
/// The word for a call with a result.
pub const SUCCESS: &str = "Success";
/// The word for a call that failed.
pub const FAILED: &str = "Failed";
/// The word for a call that did not run.
pub const NOT_RUN: &str = "Not run";
/// The word for a call that was not worth running.
pub const SKIPPED: &str = "Skipped";

/// Stands in what a model is told of an output that a validator rejects.
pub const NOT_ACCEPTED: &str = "not accepted";
/// Stands in what a model is told of a tool or a source that has to be used before it may answer.
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
        ] {
            assert!(file.builtin.contains(&anchor), "{} has no `{anchor}`", file.name);
        }
    }
}
