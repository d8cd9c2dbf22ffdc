//! Writes sections: the heading decides what a section is about, and its lines are facts from the evidence with
//! citations.

use std::collections::BTreeSet;

use crate::offline::look::{WantedCall, not_found};
use crate::offline::read::{Evidence, PromptText, Section};
use crate::offline::words::{count, overlap, stems};

/// The line that says that the stub wrote the document.
pub(super) const SIGNATURE: &str = "> Written by Loopgate's offline stub. It is not an AI: it sorts and quotes what the \
    tools returned. It cannot understand, weigh or conclude; a model can (`--model`).";

/// Words that mark a fact as a likely cause.
const ALARMS: &str = "fail failed failing failure full lock locked error offline expired expires degraded warning miss \
    missed missing overdue disable disabled unreachable critical slow corrupt corrupted down timeout stale low lost loss \
    dropped drops denied";

/// Words in an item that report a problem.
const COMPLAINTS: &str = "slow broken break fails failing error cannot can't fix help wrong issue stuck down lost missing \
    unable";

/// The longest quotation, in characters.
const QUOTE: usize = 280;

/// Kinds of sections, with words in their headings. The first match counts.
const ROLES: [(Role, &str); 7] = [
    (Role::Open, "open missing gap unknown unanswered"),
    (Role::Reply, "reply customer message email letter"),
    (Role::Steps, "steps next actions recommend procedure fix plan"),
    (Role::Cause, "cause reason why diagnosis root"),
    (Role::Findings, "findings facts evidence passages observations results quotes sources"),
    (Role::Answer, "answer conclusion verdict"),
    (Role::Situation, "situation summary overview question request problem"),
];

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

/// The body of a section. `open` are the calls that would still help.
pub(super) fn section<'w>(
    section: &Section<'_>,
    read: &PromptText<'_>,
    open: impl Iterator<Item = &'w WantedCall>,
) -> String {
    match role(section) {
        Role::Situation => situation(read),
        Role::Findings => findings(read),
        Role::Cause => cause(read),
        Role::Steps => steps(read),
        Role::Answer => answer(read),
        Role::Reply => reply(read),
        Role::Open => left_open(read, open),
    }
}

/// Whether a section only repeats the item, so that evidence does not change it.
pub(super) fn is_of_the_item(section: &Section<'_>) -> bool {
    role(section) == Role::Situation
}

/// Whether the item reports a problem or asks a question.
pub(super) fn asks(read: &PromptText<'_>) -> bool {
    read.title.contains('?') || read.item.contains('?') || complains(read)
}

/// Whether the item reports a problem.
pub(super) fn complains(read: &PromptText<'_>) -> bool {
    overlap(read.about(), &stems(COMPLAINTS)) > 0
}

fn role(section: &Section<'_>) -> Role {
    for text in [section.heading, section.describe] {
        let words = stems(text);
        if let Some((role, _)) = ROLES.iter().find(|(_, names)| overlap(&words, &stems(names)) > 0) {
            return *role;
        }
    }
    Role::Findings
}

fn found<'r, 'a>(read: &'r PromptText<'a>) -> impl Iterator<Item = &'r Evidence<'a>> {
    read.evidence.iter().filter(|evidence| evidence.is_ok())
}

fn situation(read: &PromptText<'_>) -> String {
    let mut lines = vec![cited(&quote(read.title), "0")];
    let prose = read
        .item
        .lines()
        .filter(|line| !line.contains(read.title))
        .filter(|line| line.split_whitespace().count() >= 8)
        .take(2);
    lines.extend(prose.map(|line| format!("> {}", quote(line))));
    lines.join("\n\n")
}

fn findings(read: &PromptText<'_>) -> String {
    if read.evidence.is_empty() {
        return format!("- No tool was run. The item says: {}", cited(&quote(read.title), "0"));
    }
    let about = read.about();
    let lines = read.evidence.iter().map(|evidence| {
        let tool = evidence.tool;
        let requested = quote(&evidence.values.join(", "));
        match (evidence.status, requested.as_str()) {
            ("ok", _) => format!("- **{tool}**: {}", cited(&in_one_line(evidence.body, about), evidence.id)),
            ("empty", "") => format!("- **{tool}**: {}", cited("nothing was found", evidence.id)),
            ("empty", _) => {
                format!("- **{tool}**: {}", cited(&format!("nothing was found for {requested}"), evidence.id))
            }
            ("denied", _) => format!("- **{tool}** was denied, so it did not run."),
            (status, _) => format!("- **{tool}** did not work ({status}), so nothing is known from it."),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn cause(read: &PromptText<'_>) -> String {
    let alarms = stems(ALARMS);
    let mut lines = Vec::new();
    // Two tools may bring the same record.
    let mut seen = BTreeSet::new();
    for evidence in found(read).filter(|evidence| is_table(evidence.body)) {
        for (column, value) in rows(evidence.body).into_iter().flatten() {
            let kind = format!("{column}: {}", quote(&value));
            if overlap(&stems(&value), &alarms) > 0 && seen.insert(kind.clone()) {
                lines.push(format!("- {}", cited(&kind, evidence.id)));
            }
        }
    }
    lines.truncate(6);
    if lines.is_empty() {
        return "Nothing in the results stands out as a cause.".to_owned();
    }
    format!("These results stand out:\n\n{}", lines.join("\n"))
}

fn steps(read: &PromptText<'_>) -> String {
    let (title, about) = (stems(read.title), read.about());
    let mut best: Option<(usize, Vec<String>)> = None;
    let is_prose =
        |evidence: &&Evidence<'_>| !is_table(evidence.body) && text_lines(evidence.body).is_empty();
    for evidence in found(read).filter(is_prose) {
        for passage in evidence.body.split("\n### ") {
            let numbered = passage.lines().filter_map(numbered).take(7);
            let steps: Vec<String> = numbered.map(|step| cited(&quote(step), evidence.id)).collect();
            // By its heading, or a long procedure would win by its many words.
            let heading = stems(passage.lines().next().unwrap_or_default());
            let (in_title, in_item) = (overlap(&heading, &title), overlap(&heading, about));
            let fits = in_title >= 1 || in_item >= 2;
            let score = 2 * in_title + in_item;
            if fits && !steps.is_empty() && best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, steps));
            }
        }
    }
    if let Some((_, steps)) = best {
        let lines = steps.iter().enumerate().map(|(n, step)| format!("{}. {step}", n + 1));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let title = || cited(&format!("\"{}\"", quote(read.title)), "0");
    match found(read).next() {
        Some(evidence) => {
            let first = cited(&format!("The first is the result of {}.", evidence.tool), evidence.id);
            format!("1. Go through the findings with a person: no procedure was found for this. {first}")
        }
        None if asks(read) => {
            format!("1. Ask for more about {}: nothing could be looked up for it.", title())
        }
        None => format!("1. Answer {}.", title()),
    }
}

fn answer(read: &PromptText<'_>) -> String {
    let about = read.about();
    let mut lines: Vec<(usize, usize, String)> = Vec::new();
    for evidence in found(read) {
        let rows = text_lines(evidence.body);
        let prose = if rows.is_empty() { sentences(evidence.body) } else { Vec::new() };
        let prose =
            prose.iter().map(|sentence| (stems(sentence), quote(numbered(sentence).unwrap_or(sentence))));
        let rows = rows.into_iter().map(|line| (stems(line), quoted_line(line)));
        for (words, stated) in rows.chain(prose) {
            let score = overlap(&words, about);
            let text = format!("- {}", cited(&stated, evidence.id));
            if score > 0 && lines.iter().all(|(_, _, known)| *known != text) {
                lines.push((score, lines.len(), text));
            }
        }
    }
    if lines.is_empty() {
        return "No passage speaks of this.".to_owned();
    }
    lines.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    lines.truncate(5);
    lines.sort_by_key(|(_, place, _)| *place);
    let lines: Vec<String> = lines.into_iter().map(|(_, _, text)| text).collect();
    format!("The passages that speak of it say:\n\n{}", lines.join("\n"))
}

fn reply(read: &PromptText<'_>) -> String {
    let found = found(read).count();
    let missing = not_found(read);
    let mut text = format!("Hello,\n\nthank you for your message about \"{}\" [E0].", quote(read.title));
    if found > 0 {
        text.push_str(&format!(" We have looked up {} about it.", count(found, "record")));
    }
    if let [_, ..] = missing.as_slice() {
        let question = if missing.len() == 1 { "is the name right?" } else { "are the names right?" };
        text.push_str(&format!(" We have no record of {}: {question}", missing.join(", ")));
    } else if found == 0 && asks(read) {
        text.push_str(" Please tell us more about what it concerns, names above all.");
    }
    text.push_str("\n\nKind regards");
    text
}

fn left_open<'w>(read: &PromptText<'_>, open: impl Iterator<Item = &'w WantedCall>) -> String {
    let mut lines: Vec<String> =
        not_found(read).iter().map(|name| format!("- Nothing was found for {name}.")).collect();
    lines.extend(open.map(|wanted| format!("- Not called: {}, although {}.", wanted.tool, wanted.reason)));
    let in_vain = !read.evidence.is_empty() || asks(read);
    if lines.is_empty() && in_vain && found(read).next().is_none() {
        lines.push("- No passage or record was found.".to_owned());
    }
    if lines.is_empty() { "- None.".to_owned() } else { lines.join("\n") }
}

/// The facts of a result in one line: the headings of passages, the rows of a table, or the line of a text that is most
/// similar to the item.
pub(super) fn in_one_line(body: &str, about: &BTreeSet<String>) -> String {
    let lines = text_lines(body);
    let nearest = lines.iter().rev().max_by_key(|line| overlap(&stems(line), about));
    match (nearest, lines.len()) {
        (None, _) => {}
        (Some(line), 1) => return quoted_line(line),
        (Some(line), many) => return format!("{}; the nearest: {}", count(many, "line"), quoted_line(line)),
    }
    let headings: Vec<String> =
        body.lines().filter_map(|line| line.strip_prefix("### ")).map(quote).collect();
    if !headings.is_empty() {
        return headings.join("; ");
    }
    if is_table(body) {
        let rows = rows(body);
        let show = |row: &[(String, String)]| {
            let cells: Vec<String> =
                row.iter().map(|(column, value)| format!("{column} {}", quote(value))).collect();
            cells.join(", ")
        };
        return match rows.as_slice() {
            [] => "a table without rows".to_owned(),
            [row] => show(row),
            [first, ..] => format!("{}; the first: {}", count(rows.len(), "row"), show(first)),
        };
    }
    quote(body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default())
}

/// The lines of a text result: those in its code block, or its list if there is nothing else.
fn text_lines(body: &str) -> Vec<&str> {
    let is_note = |line: &str| line.is_empty() || line.starts_with("## ") || line.starts_with('_');
    let mut lines = body.lines().skip_while(|line| is_note(line.trim())).peekable();
    let Some(first) = lines.peek().copied() else { return Vec::new() };
    let has_text = |line: &&str| !line.trim().is_empty();
    let length = first.chars().take_while(|c| *c == '`').count();
    if let (Some(fence), true) = (first.get(..length), length > 2) {
        return lines.skip(1).take_while(|line| *line != fence).filter(has_text).collect();
    }
    let items: Option<Vec<&str>> = lines.filter(has_text).map(|line| line.strip_prefix("- ")).collect();
    items.unwrap_or_default()
}

/// A line as inline code, unless it contains the delimiter.
fn quoted_line(line: &str) -> String {
    let text = quote(&line.trim().replace('\t', " "));
    if text.contains('`') { text } else { format!("`{text}`") }
}

fn is_table(body: &str) -> bool {
    text_lines(body).is_empty() && has_table(body)
}

fn has_table(body: &str) -> bool {
    body.lines().any(|line| line.starts_with("|-") || line.starts_with("| -"))
}

/// The rows of the first table: column and value, without empty cells.
pub(super) fn rows(body: &str) -> Vec<Vec<(String, String)>> {
    let mut lines =
        body.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let columns: Vec<String> =
        lines.next().map(cells).unwrap_or_default().iter().map(|column| quote(column)).collect();
    let row = |line| -> Vec<(String, String)> {
        let cells = columns.iter().cloned().zip(cells(line));
        cells.filter(|(_, value)| !value.is_empty() && value != "null").collect()
    };
    lines.skip(1).map(row).collect()
}

fn cells(line: &str) -> Vec<String> {
    // A control character cannot be in a prompt, so it represents an escaped bar meanwhile.
    let line = line.trim().replace("\\|", "\u{1}");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// The paragraphs and list items of a text, each in one line, without headings, tables and code.
fn sentences(body: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut goes_on = false;
    let mut in_code = false;
    for line in body.lines() {
        let text = line.trim();
        in_code ^= text.starts_with("```");
        if in_code || text.is_empty() || text.starts_with(['#', '|', '`']) {
            goes_on = false;
            continue;
        }
        let is_item = text.starts_with("- ") || text.starts_with("* ") || numbered(text).is_some();
        match all.last_mut().filter(|_| goes_on && !is_item) {
            Some(last) => {
                last.push(' ');
                last.push_str(text);
            }
            None => all.push(text.to_owned()),
        }
        goes_on = true;
    }
    all.retain(|sentence| sentence.split_whitespace().count() >= 4);
    all
}

/// The text of a numbered step.
fn numbered(line: &str) -> Option<&str> {
    let (number, text) = line.trim_start().split_once(". ")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.trim())
}

/// A sentence with its citation before the full stop.
fn cited(text: &str, id: &str) -> String {
    match text.strip_suffix('.') {
        Some(text) => format!("{text} [E{id}]."),
        None => format!("{text} [E{id}]"),
    }
}

/// A line of untrusted text without list marks, headings, citations, fences and code.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim_start_matches(['-', '>', '#', ' ', '\t']).trim_end();
    let mut text = text.strip_prefix("* ").unwrap_or(text).to_owned();
    for (mark, harmless) in [("[E", "(E"), ("```", "'''"), ("~~~", "'''")] {
        text = text.replace(mark, harmless);
    }
    if text.chars().count() <= QUOTE {
        return text;
    }
    let cut: String = text.chars().take(QUOTE).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_stands_before_the_full_stop() {
        assert_eq!(cited("Restart it.", "2"), "Restart it [E2].");
        assert_eq!(cited("Does it run?", "2"), "Does it run? [E2]");
        assert_eq!(cited("status full", "12"), "status full [E12]");
    }

    #[test]
    fn wrapped_lines_are_one_sentence_and_code_is_none() {
        let body = "# Title\n\nOne sentence that\ngoes on here.\n- an item of four words\n  and more\n```\nsome code in four words\n```\n| a | b |";
        assert_eq!(sentences(body), ["One sentence that goes on here.", "- an item of four words and more"]);
    }

    #[test]
    fn a_text_has_lines_and_prose_has_none() {
        let block = "## Lines — A\n\n_Only the first 9 bytes are shown; there is more._\n\n````\na.rs:1: ```\n\n| - |\n````\n\n_Not looked at: b_";
        assert_eq!(text_lines(block), ["a.rs:1: ```", "| - |"]);
        assert!(!is_table(block));
        assert_eq!(text_lines("## Lines\n\n```\ncut of"), ["cut of"]);
        assert_eq!(text_lines("## Rows\n\n_2 of 9 items, chosen by code._\n\n- a: 1\n- b"), ["a: 1", "b"]);
        for prose in [
            "",
            "## Title",
            "## T\n\n### a.md\n\n```\nx\n```",
            "## T\n\nA sentence.\n\n- a",
            "## T\n\n| a |\n| --- |",
        ] {
            assert_eq!(text_lines(prose), Vec::<&str>::new(), "{prose}");
        }
        assert_eq!(quoted_line("    12\tlet a = 1;"), "`12 let a = 1;`");
        assert_eq!(quoted_line("a `b` [E9]"), "a `b` (E9]");
    }

    #[test]
    fn a_quotation_cannot_cite_or_open_a_fence() {
        assert_eq!(quote("- ## see [E9] ```json"), "see (E9] '''json");
        assert_eq!(quote("* **Bold** text "), "**Bold** text");
        assert_eq!(quote(&"é".repeat(300)).chars().count(), QUOTE + 1);
    }

    #[test]
    fn rows_keep_empty_cells_in_their_column() {
        let table = "Text.\n\n| a | b | c |\n|---|---|---|\n|| x \\| y | null |\n\n| other |\n|---|\n| z |";
        assert_eq!(rows(table), [vec![("b".to_owned(), "x | y".to_owned())]]);
        assert_eq!(rows("no table"), Vec::<Vec<_>>::new());
    }
}
