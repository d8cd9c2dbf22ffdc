//! What to look up: names in the item and in results that a tool's parameter is shaped for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::offline::read::{Read, Tool};
use crate::offline::words::{names, overlap, stems};

/// A call that the stand-in wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) tool: String,
    pub(super) parameters: Value,
    pub(super) reason: String,
    pub(super) relevance: usize,
}

/// The calls that would help, those that were made left out: most relevant first.
pub(super) fn wanted(read: &Read<'_>) -> Vec<Wanted> {
    let item = format!("{}\n{}", read.title, read.item);
    let about = stems(&item);
    let mut wanted = Vec::new();
    for tool in &read.tools {
        let hints = stems(tool.hints);
        let relevance = overlap(&hints, &about);
        match target(tool) {
            Target::Named(parameter) => {
                for (name, from) in named(read, &item, parameter) {
                    if read.was_asked(tool.name, &name) {
                        continue;
                    }
                    let reason = format!("{from} names {name}, which this tool looks up");
                    let parameters = json!({ parameter.name: name });
                    // Names that the item itself holds come first.
                    let bonus = if from == "the item" { 100 } else { 50 };
                    wanted.push(Wanted { tool: tool.name.to_owned(), parameters, reason, relevance: relevance + bonus });
                }
            }
            Target::Free(parameter) if relevance >= 2 || says_any(tool) => {
                if !read.was_asked(tool.name, "") {
                    let query = keywords(read);
                    let reason = format!("its description shares {relevance} words with the item");
                    let parameters = json!({ parameter: query });
                    wanted.push(Wanted { tool: tool.name.to_owned(), parameters, reason, relevance });
                }
            }
            Target::Nothing if relevance >= 1 => {
                if !read.was_asked(tool.name, "") {
                    let reason = format!("its description shares {relevance} words with the item");
                    wanted.push(Wanted { tool: tool.name.to_owned(), parameters: json!({}), reason, relevance });
                }
            }
            Target::Free(_) | Target::Nothing | Target::TooMany => {}
        }
    }
    wanted.sort_by(|a, b| b.relevance.cmp(&a.relevance));
    wanted
}

/// Names in the item that some tool looks up and none has found.
pub(super) fn not_found(read: &Read<'_>) -> Vec<String> {
    let item = format!("{}\n{}", read.title, read.item);
    let mut missing = BTreeSet::new();
    for tool in &read.tools {
        let Target::Named(parameter) = target(tool) else { continue };
        for (name, from) in named(read, &item, parameter) {
            let about: Vec<_> = read.evidence.iter().filter(|evidence| evidence.is_about(&name)).collect();
            if from == "the item" && !about.is_empty() && about.iter().all(|evidence| !evidence.is_ok()) {
                missing.insert(name);
            }
        }
    }
    missing.into_iter().collect()
}

enum Target<'a> {
    Named(&'a crate::offline::read::Parameter<'a>),
    Free(&'a str),
    Nothing,
    TooMany,
}

fn target<'a>(tool: &'a Tool<'a>) -> Target<'a> {
    let required: Vec<_> = tool.parameters.iter().filter(|parameter| parameter.required).collect();
    match required.as_slice() {
        [] => Target::Nothing,
        [one] if !one.shapes.is_empty() => Target::Named(one),
        [one] => Target::Free(one.name),
        [..] => Target::TooMany,
    }
}

/// Names of a parameter's shape, each once: from the item, then from results.
fn named(read: &Read<'_>, item: &str, parameter: &crate::offline::read::Parameter<'_>) -> Vec<(String, String)> {
    let results = read.evidence.iter().filter(|evidence| evidence.is_ok());
    let texts = std::iter::once((item, "the item".to_owned())).chain(results.map(|evidence| (evidence.body, format!("E{}", evidence.id))));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (text, from) in texts {
        for name in names(text) {
            let fits = parameter.shapes.iter().any(|shape| shape.fits(name));
            if fits && seen.insert(name.to_lowercase()) {
                found.push((name.to_owned(), from.clone()));
            }
        }
    }
    found
}

fn says_any(tool: &Tool<'_>) -> bool {
    let hints = format!(" {} ", tool.hints.to_lowercase());
    [" any ", " every ", " always "].iter().any(|word| hints.contains(word))
}

/// The words to search for: those of the title, then the commonest of the item.
fn keywords(read: &Read<'_>) -> String {
    let mut words: Vec<&str> = Vec::new();
    let text = format!("{}\n{}", read.title, read.item);
    let is_word = |word: &&str| crate::offline::words::stem(&word.to_lowercase()).is_some() && !word.contains(['@', '_']);
    let title: Vec<&str> = names(read.title).into_iter().filter(is_word).collect();
    words.extend(title);
    let mut rest: Vec<(usize, usize, &str)> = Vec::new();
    let body = names(read.item);
    for (place, word) in body.iter().enumerate().filter(|(_, word)| is_word(word)) {
        let count = text.matches(*word).count();
        if rest.iter().all(|(_, _, known)| !known.eq_ignore_ascii_case(word)) {
            rest.push((count, place, word));
        }
    }
    rest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    words.extend(rest.into_iter().map(|(_, _, word)| word));
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.to_lowercase()) && !word.chars().any(|c| c.is_ascii_digit()));
    words.truncate(8);
    words.join(" ")
}
