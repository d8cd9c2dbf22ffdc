//! The pages for Rust engineers quote programs that run, and say what the code says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use loop_runtime::{
    Agent, StopReason,
    agent::OutputTool,
    models::Offline,
    spec::{ErrorStyle, Limits},
};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The programs of a page.
fn quotes(page: &str) -> Vec<&str> {
    page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The program in the documentation of `Agent`, without the lines that readers do not see.
fn shortest() -> String {
    let text = read("src/agent/mod.rs");
    let program = text.split("/// ```").nth(1).unwrap();
    let lines = program.lines().filter_map(|line| line.strip_prefix("///").map(str::trim_start));
    lines.filter(|line| !line.starts_with("# ") && !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The program that the crate's front page begins with.
fn first() -> String {
    let text = read("src/lib.rs");
    let program = text.split("//! ```").nth(1).unwrap();
    let lines = program.lines().skip(1).filter_map(|line| line.strip_prefix("//!").map(str::trim_start));
    lines.filter(|line| !line.starts_with("# ") && !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The rows of a page's tables whose first cell is code: cells without their backticks.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

#[test]
fn a_whole_agent_has_at_most_fifteen_lines() {
    // S1-33
    assert!(shortest().lines().count() <= 15, "{}", shortest());
    assert_eq!(squeezed(quotes(&read("../../docs/how-to/conversation.md"))[0]), squeezed(&shortest()));
    assert!(
        squeezed(&read("../../README.md")).contains(&squeezed(&first())),
        "README.md shows another program"
    );
}

#[test]
fn the_pages_quote_what_is_run() {
    // S2-97
    let files = [
        "find_user",
        "find_and_update",
        "extract",
        "reflected_report",
        "own_model",
        "own_tool",
        "mcp",
        "policy",
        "coming_from",
    ];
    let examples = files.map(|name| read(&format!("examples/{name}.rs")));
    let sources = squeezed(&[read("tests/guides.rs"), shortest(), examples.concat()].concat());
    let pages = [
        "how-to/conversation",
        "how-to/output",
        "how-to/approvals",
        "how-to/own-model",
        "how-to/own-tool",
        "how-to/mcp-in-rust",
        "how-to/policy-in-rust",
        "explanation/coming-from",
    ];
    let pages = pages.map(|name| read(&format!("../../docs/{name}.md")));
    let quotes: Vec<&str> = pages.iter().flat_map(|page| quotes(page)).collect();
    assert!(quotes.len() >= 20, "{}", quotes.len());
    for quote in quotes {
        assert!(sources.contains(&squeezed(quote)), "nothing runs this:\n{quote}");
    }
}

#[test]
fn every_reason_to_end_has_its_row() {
    // S2-55, C13
    let own = [
        StopReason::MaxAttempts,
        StopReason::SubmitBeforeOutput,
        StopReason::InvalidResponse,
        StopReason::ToolFailure,
    ];
    let both = [StopReason::Completed, StopReason::MaxPasses, StopReason::ManualStop];
    let shared = [
        StopReason::MaxMessages,
        StopReason::MaxModelCalls,
        StopReason::MaxToolCalls,
        StopReason::BudgetExceeded,
        StopReason::SharedBudgetExceeded,
        StopReason::TokenLimit,
        StopReason::OutputLimit,
        StopReason::Timeout,
        StopReason::NoProgress,
        StopReason::EvidenceMissing,
        StopReason::Refused,
        StopReason::PolicyBlocked,
        StopReason::NeedsHuman,
        StopReason::ModelFailure,
        StopReason::StorageFailed,
    ];
    for (name, reasons) in [
        ("conversation", both.iter().chain(&shared).collect::<Vec<_>>()),
        ("output", both.iter().chain(&own).collect()),
    ] {
        let page = rows(&read(&format!("../../docs/how-to/{name}.md")));
        let table: Vec<_> =
            page.iter().filter(|row| row.len() >= 4 && row[3].parse::<u8>().is_ok()).collect();
        let named: BTreeSet<&str> = table.iter().map(|row| row[0].as_str()).collect();
        let expected: BTreeSet<&str> = reasons.iter().map(|reason| reason.name()).collect();
        assert_eq!(named, expected, "{name}.md");
        for reason in reasons {
            let row = table.iter().find(|row| row[0] == reason.name()).unwrap();
            let class = reason.class();
            assert_eq!((row[2].as_str(), row[3].clone()), (class.name(), class.exit_code().to_string()));
            let code = match reason {
                StopReason::Completed => String::new(),
                StopReason::MaxPasses => "MAX_ITERATIONS".to_owned(),
                StopReason::ManualStop => "EXECUTION_CANCELLED".to_owned(),
                other => other.name().to_uppercase(),
            };
            assert_eq!(row[1], code, "{name}.md, {reason}");
        }
    }
}

#[test]
fn limits_are_those_of_the_presets() {
    // S1-39, S1-46, S2-38, C12
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let page = rows(&read("../../docs/how-to/conversation.md"));
    let value = |name: &str| number(&page.iter().find(|row| row[0] == name).unwrap()[1]);
    let limits = Limits::agent();
    assert_eq!(value("passes"), Some(limits.passes.into()));
    assert_eq!(value("messages"), limits.messages.map(u64::from));
    assert_eq!(value("model_calls"), Some(limits.model_calls.into()));
    assert_eq!(value("tool_calls"), Some(limits.tool_calls.into()));
    assert_eq!(value("wall_ms"), Some(limits.wall_ms));
    assert_eq!(value("tokens"), limits.tokens);
    assert_eq!(value("output_tokens"), Some(limits.output_tokens));
    assert_eq!(value("markdown_chars"), Some(limits.markdown_chars.into()));
    assert_eq!(value("person_ms"), limits.person_ms);
    assert_eq!(limits.cost.unwrap().to_string(), "$0.100000");

    let page = rows(&read("../../docs/how-to/output.md"));
    let value = |name: &str| number(&page.iter().find(|row| row[0] == name).unwrap()[1]);
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let agent = Agent::output(Offline::new(), OutputTool::<Nothing>::new("save", "Save")).build().unwrap();
    let spec = agent.runner().spec();
    let output = spec.protocol.output().unwrap();
    assert_eq!(value(".attempts(n)"), Some(output.attempts.into()));
    assert_eq!(value(".passes_per_attempt(n)"), Some(output.passes_per_attempt.into()));
    assert_eq!(value(".validate_ms(n)"), Some(output.validate_ms));
    assert_eq!(value("limits.passes"), Some(spec.limits.passes.into()));
    assert_eq!(value("limits.model_calls"), Some(spec.limits.model_calls.into()));
    assert_eq!(value("limits.tool_calls"), Some(spec.limits.tool_calls.into()));
}

#[test]
fn texts_of_results_are_those_that_a_model_is_told() {
    // C8, S1-29, S2-76
    let page = read("../../docs/how-to/conversation.md");
    let snapshot =
        |style: ErrorStyle| read(&format!("../loop-prompts/tests/snapshots/results_{}.snap", style.name()));
    let plain = snapshot(ErrorStyle::Plain);
    let table = page.split("### What a call is answered with").nth(1).unwrap().split("### ").next().unwrap();
    let texts: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("---"))
        .filter_map(|line| line.trim_matches('|').split(" | ").nth(1))
        .filter(|cell| cell.starts_with('`'))
        .map(|cell| cell.trim().trim_start_matches("``").trim_end_matches("``"))
        .collect();
    assert!(texts.len() >= 12, "{texts:?}");
    for text in texts {
        // A table holds the beginning of some in backticks, and says in words what follows.
        let text = match text.strip_prefix('`') {
            Some(quoted) => quoted.rsplit_once('`').unwrap().0,
            None => text,
        };
        assert!(plain.contains(text), "no result says: {text}");
    }
    let named = rows(&page);
    for style in
        [ErrorStyle::Plain, ErrorStyle::Quoted, ErrorStyle::Named, ErrorStyle::Prefixed, ErrorStyle::Tagged]
    {
        let row = named.iter().find(|row| row[0].to_lowercase().starts_with(style.name())).unwrap();
        let reported = snapshot(style);
        for text in &row[1..3] {
            assert!(reported.contains(text.trim_start()), "{}: {text}", style.name());
        }
    }
}
