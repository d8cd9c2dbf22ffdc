//! Checks names and words: a public type name is declared once, and standard terms are used in code, comments and
//! pages.

use std::collections::BTreeMap;

use crate::rust_text;

/// Words that identifiers must not contain, each with the term to use.
///
/// A word counts wherever it is a part of a name: `wish` in `wished_call`, `Misfit` in `ArgMisfit`.
const TERMS: [(&str, &str); 39] = [
    ("wish", "command"),
    ("wishes", "commands"),
    ("wished", "commanded"),
    ("misfit", "schema violation"),
    ("misfits", "schema violations"),
    ("mend", "repair (of a contract), revise (a document)"),
    ("mends", "repairs, revises"),
    ("mended", "repaired, revised"),
    ("unmended", "unrevised"),
    ("mending", "repair, revision"),
    ("legs", "taint"),
    ("landing", "final pass"),
    ("landed", "finished"),
    ("picker", "selector"),
    ("picking", "selection"),
    ("picked", "selected"),
    ("deed", "action"),
    ("deeds", "actions"),
    ("oddity", "parse warning"),
    ("oddities", "parse warnings"),
    ("unseen", "invisible (characters), unread (ids)"),
    ("purse", "budget"),
    ("purses", "budgets"),
    ("barred", "forbidden"),
    ("stranger", "new user, third party"),
    ("sibling", "other call of the batch"),
    ("siblings", "other calls of the batch"),
    ("circle", "cycle"),
    ("circles", "cycles"),
    ("standing", "status"),
    ("lend", "borrow"),
    ("lent", "borrowed"),
    ("lookup", "read-only call"),
    ("told", "instruction (of a person), reported, rendered"),
    ("untold", "unreported"),
    ("heard", "received"),
    ("brought", "returned"),
    ("looping", "runner"),
    ("talk", "conversation"),
];

/// Type names that were replaced, each with the new name.
const TYPES: [(&str, &str); 6] = [
    ("Fact", "EventKind"),
    ("Loop", "Runner"),
    ("Sign", "Fingerprint"),
    ("Room", "Quota"),
    ("Standing", "CallStatus"),
    ("Spend", "Cost"),
];

/// A name with more words than this is the name of a test.
const SENTENCE: usize = 5;

/// One line for each forbidden word in the code of a file, without comments and strings.
pub(crate) fn old_terms(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in rust_text::code_only(text).lines().enumerate() {
        for name in line.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            let (old, new) = match TYPES.iter().find(|(old, _)| *old == name) {
                Some(found) => *found,
                None if name.starts_with("MOST_") => ("MOST_", "MAX_"),
                None => {
                    let words = words(name);
                    let old = |word: &String| TERMS.iter().find(|(old, _)| old == word);
                    match words.iter().find_map(old) {
                        Some(found) if words.len() < SENTENCE => *found,
                        _ => continue,
                    }
                }
            };
            problems.push(format!("{file}:{}: `{name}`: the term for `{old}` is {new}", index + 1));
        }
    }
    problems
}

/// Words that comments must not contain, each with a replacement.
const COMMENT_WORDS: [(&str, &str); 9] = [
    ("told", "reported, sent, shown, an instruction"),
    ("stands", "is"),
    ("stand", "is, are"),
    ("nobody", "the role that is missing (approver, operator, process), or the passive"),
    ("whoever", "the role (caller, operator, approver)"),
    ("somebody", "the role (caller, operator, approver), or another person"),
    ("brings", "has, returns"),
    ("hear", "receive"),
    ("hears", "receives"),
];

/// One line for each forbidden word in the comments of a file.
pub(crate) fn comment_words(file: &str, text: &str) -> Vec<String> {
    let comments = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    plainer(file, "the comment", comments)
}

/// One line for each forbidden word in the prose of a page. Code blocks are left out, since they quote the program's
/// output.
pub(crate) fn page_words(file: &str, text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Every other part is between backticks.
            prose.push((index, line.replace("``", "`").split('`').step_by(2).collect::<Vec<_>>().join(" ")));
        }
    }
    plainer(file, "the page", prose.iter().map(|(index, line)| (*index, line.as_str())))
}

fn plainer<'l>(file: &str, what: &str, lines: impl Iterator<Item = (usize, &'l str)>) -> Vec<String> {
    let found = lines.flat_map(|(index, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric());
        let known =
            words.filter_map(|word| COMMENT_WORDS.iter().find(|(old, _)| word.eq_ignore_ascii_case(old)));
        known.map(move |(old, new)| format!("{file}:{}: {what} says `{old}`; write {new}", index + 1))
    });
    found.collect()
}

/// The words of a name in lower case: `MAX_LINES`, `max_lines` and `MaxLines` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        if part.chars().all(|c| !c.is_lowercase()) {
            words.push(part.to_lowercase());
            continue;
        }
        let mut word = String::new();
        for c in part.chars() {
            if c.is_uppercase() && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// The public types of a file, by `code_only`, without those of its tests.
pub(crate) fn public_types(text: &str) -> Vec<String> {
    let code = rust_text::code_only(text);
    let tests = rust_text::test_parts(&code);
    let mut types = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if tests.ranges.iter().any(|range| range.contains(&start)) {
            continue;
        }
        let mut words = line.split_whitespace();
        let name = match (words.next(), words.next()) {
            (Some("pub"), Some("struct" | "enum" | "trait" | "type" | "union")) => words.next(),
            _ => None,
        };
        let name = name.map(|name| name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next());
        types.extend(name.flatten().filter(|name| !name.is_empty()).map(str::to_owned));
    }
    types
}

/// The names that several crates declare, with the files.
pub(crate) fn homonyms(declared: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in declared {
        files.entry(name.clone()).or_default().push(file.clone());
    }
    files.retain(|_, files| files.len() > 1);
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_into_its_words() {
        for name in ["wish_call", "WishCall", "WISH_CALL", "wishCall"] {
            assert_eq!(words(name), ["wish", "call"], "{name}");
        }
        assert_eq!(words("LlmError"), ["llm", "error"]);
        assert_eq!(words("_"), [""; 0]);
    }

    #[test]
    fn a_word_with_another_term_is_found_in_code_and_in_tests_that_are_sentences_it_is_not() {
        let text = "//! A wish.\nstruct WishList { is_wished: bool, at: Loop }\n// landing\nfn what_is_told_is_told_once() {}\nlet text = \"a wish\";\n";
        assert_eq!(
            old_terms("a.rs", text),
            [
                "a.rs:2: `WishList`: the term for `wish` is command",
                "a.rs:2: `is_wished`: the term for `wished` is commanded",
                "a.rs:2: `Loop`: the term for `Loop` is Runner",
            ]
        );
        assert!(old_terms("a.rs", "fn command() -> Runner { loop {} }\n").is_empty());
    }

    #[test]
    fn a_type_that_two_crates_declare_is_a_homonym() {
        let text = "pub struct A<T>(T);\npub(crate) struct B;\n    pub enum C {}\n#[cfg(test)]\nmod tests {\n    pub struct D;\n}\n";
        assert_eq!(public_types(text), ["A", "C"]);
        let declared = [("A", "x.rs"), ("B", "x.rs"), ("A", "y.rs")];
        let declared: Vec<_> =
            declared.iter().map(|(name, file)| ((*name).to_owned(), (*file).to_owned())).collect();
        assert_eq!(
            homonyms(&declared),
            BTreeMap::from([("A".to_owned(), vec!["x.rs".to_owned(), "y.rs".to_owned()])])
        );
    }

    #[test]
    fn a_word_of_a_comment_is_named_with_its_line() {
        let text = "// it stands there\nlet stands = \"told\";\n/// Nobody, whoever\n//! standing\n";
        let found = comment_words("a.rs", text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|it| it.starts_with("a.rs:3: the comment says `nobody`")), "{found:?}");
        let page = "It stands.\n```text\nnobody\n```\nThe line ``nobody gave it``, `told`.\n";
        assert_eq!(page_words("a.md", page), ["a.md:1: the page says `stands`; write is"]);
    }
}
