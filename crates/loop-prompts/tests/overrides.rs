//! Templates of a domain's own: what they may change, and what is said when they lose something.

use crate::common;

use common::*;
use loop_prompts::{Layout, PromptError, Prompts};

const FILES: [(&str, &str); 12] = [
    ("analysis.md", include_str!("../templates/analysis.md")),
    ("refinement.md", include_str!("../templates/refinement.md")),
    ("final_pass.md", include_str!("../templates/final_pass.md")),
    ("selector.md", include_str!("../templates/selector.md")),
    ("repair.md", include_str!("../templates/repair.md")),
    ("filter.md", include_str!("../templates/filter.md")),
    ("agent.md", include_str!("../templates/agent.md")),
    ("item.md", include_str!("../templates/item.md")),
    ("last_reply.md", include_str!("../templates/last_reply.md")),
    ("rejection.md", include_str!("../templates/rejection.md")),
    ("instruction.md", include_str!("../templates/instruction.md")),
    ("opinion.md", include_str!("../templates/opinion.md")),
];

fn builtin(file: &str) -> &'static str {
    FILES.iter().find(|(name, _)| *name == file).unwrap().1
}

fn with(file: &str, text: &str) -> Result<Prompts, PromptError> {
    Prompts::with_overrides([(file.to_owned(), text.to_owned())], Layout::Append)
}

#[track_caller]
fn refused(file: &str, text: &str, expected: &str) {
    match with(file, text) {
        Ok(_) => panic!("{file} was taken:\n{text}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

/// The built-in file without `{{ anchor }}`.
#[track_caller]
fn lacks(file: &str, anchor: &str, what: &str) {
    let mark = format!("{{{{ {anchor} }}}}");
    assert!(builtin(file).contains(&mark), "{file} has no {mark}");
    let expected = format!("prompts/{file}: the anchor `{mark}` is missing; put it where the {what} belongs");
    refused(file, &builtin(file).replace(&mark, ""), &expected);
}

#[test]
fn the_built_in_files_have_every_anchor() {
    for (file, text) in FILES {
        let same = with(file, text).unwrap();
        assert_eq!(same.hash(), Prompts::builtin().hash(), "{file}");
    }
}

#[test]
fn a_lost_anchor_is_named_with_its_file() {
    lacks("analysis.md", "sections", "section list");
    lacks("analysis.md", "tools", "tool lines");
    lacks("analysis.md", "nonce", "nonce of the contract");
    lacks("analysis.md", "item", "work item");
    lacks("analysis.md", "evidence", "evidence");
    lacks("analysis.md", "executed", "executed tools");
    lacks("analysis.md", "final_pass", "instructions of the last call");
    lacks("refinement.md", "evidence", "new evidence");
    lacks("refinement.md", "executed", "executed tools");
    lacks("refinement.md", "index", "index of the sections");
    lacks("refinement.md", "final_pass", "instructions of the last call");
    lacks("final_pass.md", "cause", "reason for the last call");
    lacks("final_pass.md", "nonce", "nonce of the contract");
    lacks("selector.md", "tools", "tool lines");
    lacks("selector.md", "item", "work item");
    lacks("repair.md", "nonce", "nonce of the contract");
    lacks("repair.md", "reply", "reply");
    lacks("opinion.md", "nonce", "nonce of the answer");
    lacks("opinion.md", "statements", "statements");
    lacks("opinion.md", "evidence", "cited evidence");
    lacks("filter.md", "title", "work item's title");
    lacks("filter.md", "results", "results");
    lacks("agent.md", "goal", "goal");
    lacks("agent.md", "ending", "rule how the loop is ended");
    lacks("item.md", "item", "work item");
    lacks("last_reply.md", "cause", "reason for the last reply");
    lacks("rejection.md", "message", "message of the validator");
    lacks("instruction.md", "instruction", "what a person said");
    // An anchor that is there but never renders is missing too.
    let hidden = builtin("selector.md").replace("{{ item }}", "{% if false %}{{ item }}{% endif %}");
    assert!(matches!(with("selector.md", &hidden), Err(PromptError::MissingAnchor { anchor: "item", .. })));
}

#[test]
fn a_syntax_error_names_its_line_in_the_file() {
    refused(
        "final_pass.md",
        "{{ cause }}\n{{ nonce }}\n{% if %}",
        "prompts/final_pass.md:3: unexpected end of block",
    );
    for (part, above) in [
        ("system", ""),
        ("user", "One\nTwo\n<!-- user -->\n"),
        ("user", "<!-- user -->\n\n\n"),
        ("user", "<!-- user -->"),
    ] {
        let text = format!("{above}first\n{{% if %}}\n");
        let text = if part == "system" { format!("{text}<!-- user -->\n") } else { text };
        let expected = text.lines().position(|line| line == "{% if %}").unwrap() + 1;
        match with("filter.md", &text) {
            Err(PromptError::Syntax { line, file, .. }) => {
                assert_eq!((line, file.as_str()), (expected, "filter.md"), "{text}")
            }
            other => panic!("{other:?}"),
        }
    }
    // What fails only when it is rendered is found as well.
    let text = builtin("filter.md").replace("## Results", "## Results {{ title.a.b }}");
    let line = text.lines().position(|line| line.contains("title.a.b")).unwrap() + 1;
    match with("filter.md", &text) {
        Err(PromptError::Syntax { line: found, .. }) => assert_eq!(found, line),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_variable_is_named_with_its_line_in_whatever_branch() {
    let known = "there are kind, goal, sections, tools, ending, output, plan, planned, nonce, title, item, evidence, executed, final_pass, missing, index, cause, reply, results, target, by, message, instruction, statements, selected";
    let text = builtin("refinement.md").replace("- none since the last pass", "{{ colour }}");
    let line = text.lines().position(|line| line.contains("colour")).unwrap() + 1;
    refused(
        "refinement.md",
        &text,
        &format!("prompts/refinement.md:{line}: no template has a variable `colour`; {known}"),
    );
    let text = builtin("filter.md").replace("## Results", "{% if false %}{{ colour }}{% endif %}");
    let line = text.lines().position(|line| line.contains("colour")).unwrap() + 1;
    refused(
        "filter.md",
        &text,
        &format!("prompts/filter.md:{line}: no template has a variable `colour`; {known}"),
    );
}

#[test]
fn what_differs_from_run_to_run_cannot_stand_in_the_analysis_system_prompt() {
    for name in ["nonce", "item", "title", "evidence", "final_pass"] {
        let text = format!("{{{{ {name} }}}}\n{}", builtin("analysis.md"));
        let expected = format!(
            "prompts/analysis.md: `{{{{ {name} }}}}` differs from run to run; put it below the line `<!-- user -->`"
        );
        refused("analysis.md", &text, &expected);
    }
    assert!(
        with(
            "analysis.md",
            &format!("{{{{ kind }}}} {{{{ goal }}}} {{{{ selected }}}}\n{}", builtin("analysis.md"))
        )
        .is_ok()
    );
}

#[test]
fn what_differs_from_run_to_run_cannot_stand_in_the_rules_of_an_agent() {
    for name in ["nonce", "item", "title", "message"] {
        let text = format!("{}\n{{{{ {name} }}}}", builtin("agent.md"));
        let expected = format!(
            "prompts/agent.md: `{{{{ {name} }}}}` differs from run to run, and this file is the same for all"
        );
        refused("agent.md", &text, &expected);
    }
    refused("agent.md", "{{ goal }}\n{{ ending }}\n{% if %}", "prompts/agent.md:3: unexpected end of block");
}

#[test]
fn a_file_with_two_parts_needs_its_mark() {
    for file in ["analysis.md", "selector.md", "repair.md", "filter.md"] {
        let expected = format!(
            "prompts/{file}: the line `<!-- user -->` is missing; put it between the system part and the user part"
        );
        refused(file, &builtin(file).replace("<!-- user -->", ""), &expected);
    }
}

#[test]
fn an_unknown_file_name_is_refused_with_those_there_are() {
    refused(
        "analyse.md",
        "x",
        "prompts/analyse.md: no template has this name; there are analysis.md, refinement.md, final_pass.md, selector.md, repair.md, filter.md, agent.md, item.md, last_reply.md, rejection.md, instruction.md, opinion.md",
    );
}

#[test]
fn an_override_that_keeps_its_anchors_is_used_and_changes_the_hash() {
    let mine = builtin("analysis.md").replace("You analyse one", "Ahoy: you analyse one");
    let prompts = with("analysis.md", &mine).unwrap();
    assert_ne!(prompts.hash(), Prompts::builtin().hash());
    let prompt = start(spec(), item(), prompts).prompt();
    assert!(prompt.system.starts_with("Ahoy: you analyse one job"));
    // The layout is part of the name as well.
    assert_ne!(in_layout(Layout::SystemEvidence).hash(), Prompts::builtin().hash());
}
