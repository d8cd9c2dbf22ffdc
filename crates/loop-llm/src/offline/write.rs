//! Writing sections: what a section is about is told by its heading; its lines are facts from evidence, cited.

use crate::offline::look::{Wanted, not_found};
use crate::offline::read::{Evidence, Read, Section};
use crate::offline::words::{overlap, stems};

/// The line that says what wrote the document.
pub(super) const SIGNATURE: &str =
    "> Written by Loopgate's offline stand-in. It is no AI: it sorts and quotes what the tools brought.";

/// Words that mark a fact as a likely cause.
const ALARMS: [&str; 22] = [
    "fail", "full", "lock", "error", "offline", "expir", "degrad", "warning", "miss", "overdu", "disabl", "unreachabl",
    "critical", "slow", "corrupt", "down", "timeout", "stale", "low", "loss", "drop", "denied",
];

/// What a section is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Situation,
    Findings,
    Cause,
    Steps,
    Answer,
    Reply,
    Open,
}

/// The body of a section, from everything that is known.
pub(super) fn section(section: &Section<'_>, read: &Read<'_>, asked: &[Wanted]) -> String {
    match role(section) {
        Role::Situation => situation(read),
        Role::Findings => findings(read),
        Role::Cause => cause(read),
        Role::Steps => steps(read),
        Role::Answer => answer(read),
        Role::Reply => reply(read),
        Role::Open => open(read, asked),
    }
}

fn role(section: &Section<'_>) -> Role {
    let table = [
        (Role::Open, "open missing gap unknown unanswered"),
        (Role::Reply, "reply customer message email letter"),
        (Role::Steps, "steps next actions recommend procedure fix plan"),
        (Role::Cause, "cause reason why diagnosis root"),
        (Role::Findings, "findings facts evidence passages observations results quotes sources"),
        (Role::Answer, "answer conclusion verdict"),
        (Role::Situation, "situation summary overview question request problem"),
    ];
    for text in [section.heading, section.describe] {
        let words = stems(text);
        if let Some((role, _)) = table.iter().find(|(_, names)| overlap(&words, &stems(names)) > 0) {
            return *role;
        }
    }
    Role::Findings
}

fn situation(read: &Read<'_>) -> String {
    let mut lines = vec![format!("{} [E0]", read.title)];
    let prose: Vec<&str> = read.item.lines().filter(|line| line.split_whitespace().count() >= 8).take(2).collect();
    lines.extend(prose.iter().map(|line| format!("> {}", clip(line.trim_start_matches(['-', '>', ' ']), 280))));
    lines.join("\n\n")
}

fn findings(read: &Read<'_>) -> String {
    let lines: Vec<String> = read
        .evidence
        .iter()
        .map(|evidence| match evidence.status {
            "ok" => format!("- **{}**: {} [E{}]", evidence.tool, fact_line(evidence), evidence.id),
            "empty" => format!("- **{}**: nothing was found for {} [E{}]", evidence.tool, evidence.parameters, evidence.id),
            status => format!("- **{}** did not work ({status}), so nothing is known from it", evidence.tool),
        })
        .collect();
    if lines.is_empty() { "- No tool was run; all that is known stands in the item itself [E0].".to_owned() } else { lines.join("\n") }
}

fn cause(read: &Read<'_>) -> String {
    let mut lines = Vec::new();
    for evidence in read.evidence.iter().filter(|evidence| evidence.is_ok() && is_table(evidence.body)) {
        for (column, value) in rows(evidence.body).into_iter().flatten() {
            let words = stems(&value);
            let alarming = words.iter().any(|word| ALARMS.iter().any(|alarm| word.starts_with(alarm)));
            let line = format!("- {column}: {} [E{}]", clip(&value, 160), evidence.id);
            if alarming && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.truncate(6);
    if lines.is_empty() {
        return "Nothing in the results stands out as a cause.".to_owned();
    }
    format!("These results stand out:\n\n{}", lines.join("\n"))
}

fn steps(read: &Read<'_>) -> String {
    let about = stems(&format!("{}\n{}", read.title, read.item));
    let mut best: Option<(usize, Vec<String>)> = None;
    for evidence in read.evidence.iter().filter(|evidence| evidence.is_ok() && !is_table(evidence.body)) {
        for passage in evidence.body.split("\n### ") {
            let steps: Vec<String> =
                passage.lines().filter_map(numbered).take(7).map(|step| format!("{step} [E{}]", evidence.id)).collect();
            let score = overlap(&stems(passage), &about);
            if !steps.is_empty() && best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, steps));
            }
        }
    }
    if let Some((_, steps)) = best {
        return steps.iter().enumerate().map(|(n, step)| format!("{}. {step}", n + 1)).collect::<Vec<_>>().join("\n");
    }
    match read.evidence.iter().find(|evidence| evidence.is_ok()) {
        Some(evidence) => format!("1. Go through the findings with a person; no procedure was found for this [E{}].", evidence.id),
        None if is_complaint(read) => "1. Ask for the names that are missing: nothing could be looked up [E0].".to_owned(),
        None => "1. Nothing is left to be done but to answer [E0].".to_owned(),
    }
}

fn answer(read: &Read<'_>) -> String {
    let about = stems(&format!("{}\n{}", read.title, read.item));
    let mut sentences: Vec<(usize, usize, String)> = Vec::new();
    for evidence in read.evidence.iter().filter(|evidence| evidence.is_ok()) {
        for line in evidence.body.lines().filter(|line| line.split_whitespace().count() >= 5 && !line.starts_with(['#', '|'])) {
            let score = overlap(&stems(line), &about);
            let text = format!("- {} [E{}]", clip(line.trim_start_matches(['-', '*', ' ']), 300), evidence.id);
            if score > 0 && sentences.iter().all(|(_, _, known)| *known != text) {
                sentences.push((score, sentences.len(), text));
            }
        }
    }
    sentences.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    sentences.truncate(5);
    sentences.sort_by_key(|(_, place, _)| *place);
    if sentences.is_empty() {
        return "No passage speaks of this.".to_owned();
    }
    let lines: Vec<String> = sentences.into_iter().map(|(_, _, text)| text).collect();
    format!("The passages that speak of it say:\n\n{}", lines.join("\n"))
}

fn reply(read: &Read<'_>) -> String {
    let found = read.evidence.iter().filter(|evidence| evidence.is_ok()).count();
    let missing = not_found(read);
    let mut text = format!("Hello,\n\nthank you for your message about \"{}\" [E0].", read.title);
    if found > 0 {
        text.push_str(&format!(" We looked at {found} of our records and are working on the next steps."));
    }
    if !missing.is_empty() {
        text.push_str(&format!(" We have no record of {}: is the name right?", missing.join(", ")));
    } else if found == 0 && is_complaint(read) {
        text.push_str(" Please tell us which device or account it is about.");
    }
    text.push_str("\n\nKind regards");
    text
}

fn open(read: &Read<'_>, asked: &[Wanted]) -> String {
    let mut lines: Vec<String> = not_found(read).iter().map(|name| format!("- Nothing was found for {name}.")).collect();
    lines.extend(asked.iter().map(|wanted| format!("- {}: {}.", wanted.tool, wanted.reason)));
    if read.evidence.iter().all(|evidence| !evidence.is_ok()) {
        lines.push("- No passage or record was found.".to_owned());
    }
    if lines.is_empty() { "- None.".to_owned() } else { lines.join("\n") }
}

/// Whether the item says that something is wrong, or asks.
pub(super) fn is_complaint(read: &Read<'_>) -> bool {
    let text = format!("{}\n{}", read.title, read.item);
    let words = stems(&text);
    let signs = stems("slow broken break fails failing error cannot can't fix help wrong issue stuck down lost missing unable");
    text.contains('?') || overlap(&words, &signs) > 0
}

/// The facts of a result in one line: for a table its rows, for a text its headings.
fn fact_line(evidence: &Evidence<'_>) -> String {
    if is_table(evidence.body) {
        let rows = rows(evidence.body);
        let show = |row: &Vec<(String, String)>| {
            let cells: Vec<String> = row.iter().map(|(column, value)| format!("{column} {}", clip(value, 120))).collect();
            cells.join(", ")
        };
        return match rows.as_slice() {
            [] => "a table without rows".to_owned(),
            [row] => show(row),
            [first, ..] => format!("{} rows; the first: {}", rows.len(), show(first)),
        };
    }
    let headings: Vec<&str> = evidence.body.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    if headings.is_empty() { clip(evidence.body.lines().next().unwrap_or_default(), 160) } else { headings.join("; ") }
}

fn is_table(body: &str) -> bool {
    body.lines().any(|line| line.starts_with("|-") || line.starts_with("| -"))
}

/// The rows of the first table: column and value, without empty cells.
fn rows(body: &str) -> Vec<Vec<(String, String)>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let mut lines = body.lines().filter(|line| line.starts_with('|'));
    let Some(columns) = lines.next().map(cells) else { return Vec::new() };
    lines
        .skip(1)
        .map(|line| {
            let row = columns.iter().cloned().zip(cells(line));
            row.filter(|(_, value)| !value.is_empty() && value != "null").collect()
        })
        .collect()
}

fn numbered(line: &str) -> Option<String> {
    let (number, text) = line.trim_start().split_once(". ")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.trim().to_owned())
}

fn clip(text: &str, chars: usize) -> String {
    // What is quoted must not be taken for a citation of ours.
    let text = text.replace("[E", "(E");
    if text.chars().count() <= chars {
        return text;
    }
    let mut cut: String = text.chars().take(chars).collect();
    cut.push('…');
    cut
}
