//! What to look up: names in the item and in results that a tool's parameter is shaped for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::read::{Parameter, Read, Tool};
use crate::words::{count, names, overlap, paths, stem, stems};

/// How many words a query has at most.
const QUERY_WORDS: usize = 8;

/// A call that the stub wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) tool: String,
    pub(super) parameters: Value,
    pub(super) reason: String,
}

/// The calls that would help, those that were made left out: names of the item first, then names in results, then
/// what its description alone speaks for.
pub(super) fn wanted(read: &Read<'_>) -> Vec<Wanted> {
    let about = about(read);
    let mut wanted: Vec<(u8, usize, Wanted)> = Vec::new();
    for tool in &read.tools {
        let relevance = overlap(&stems(tool.hints), &about);
        let mut want = |rank, parameters, reason| {
            wanted.push((rank, relevance, Wanted { tool: tool.name.to_owned(), parameters, reason }));
        };
        let by_words = || format!("its description shares {} with the item", count(relevance, "word"));
        match takes(tool) {
            Takes::Name(parameter) => {
                for found in named(read, parameter) {
                    if !read.was_requested(tool.name, Some(found.name)) {
                        let rank = if found.is_in_item() { 2 } else { 1 };
                        let reason =
                            format!("{} names {}, which this tool looks up", found.place(), found.name);
                        want(rank, json!({ parameter.name: found.name }), reason);
                    }
                }
            }
            Takes::Words(parameter)
                if !read.was_requested(tool.name, None) && (relevance >= 2 || serves_all(tool)) =>
            {
                let query = keywords(read);
                if !query.is_empty() {
                    want(0, json!({ parameter: query }), by_words());
                }
            }
            Takes::Nothing if !read.was_requested(tool.name, None) && relevance >= 1 => {
                want(0, json!({}), by_words())
            }
            Takes::Words(_) | Takes::Nothing | Takes::TooMuch => {}
        }
    }
    wanted.sort_by_key(|(rank, relevance, _)| Reverse((*rank, *relevance)));
    wanted.into_iter().map(|(_, _, wanted)| wanted).collect()
}

/// Names in the item that some tool looks up and none has found.
pub(super) fn not_found(read: &Read<'_>) -> Vec<String> {
    let mut missing = BTreeSet::new();
    for tool in &read.tools {
        let Takes::Name(parameter) = takes(tool) else {
            continue;
        };
        for found in named(read, parameter).iter().filter(|found| found.is_in_item()) {
            let mut about = read.evidence.iter().filter(|evidence| evidence.is_about(found.name)).peekable();
            if about.peek().is_some() && about.all(|evidence| !evidence.is_ok()) {
                missing.insert(found.name.to_owned());
            }
        }
    }
    missing.into_iter().collect()
}

/// Whether there are tools that look names up, and the item holds none for any of them.
pub(super) fn names_nothing(read: &Read<'_>) -> bool {
    let mut parameters = read.tools.iter().filter_map(|tool| match takes(tool) {
        Takes::Name(parameter) => Some(parameter),
        Takes::Words(_) | Takes::Nothing | Takes::TooMuch => None,
    });
    let mut any = false;
    let none = parameters.all(|parameter| {
        any = true;
        !named(read, parameter).iter().any(Found::is_in_item)
    });
    any && none
}

/// How many words of the title the results speak of, and how many it has.
pub(super) fn spoken_of(read: &Read<'_>) -> (usize, usize) {
    let title = stems(read.title);
    let results = read.evidence.iter().filter(|evidence| evidence.is_ok());
    let stated: BTreeSet<String> = results.flat_map(|evidence| stems(evidence.body)).collect();
    (overlap(&title, &stated), title.len())
}

/// The stems of what the item is about.
pub(super) fn about(read: &Read<'_>) -> BTreeSet<String> {
    let mut about = stems(read.title);
    about.extend(stems(read.item));
    about
}

/// What a tool has to be given.
enum Takes<'a> {
    /// A name of a certain shape.
    Name(&'a Parameter<'a>),
    /// Free text.
    Words(&'a str),
    Nothing,
    /// More than one thing: that takes understanding.
    TooMuch,
}

fn takes<'a>(tool: &'a Tool<'a>) -> Takes<'a> {
    let required: Vec<_> = tool.parameters.iter().filter(|parameter| parameter.required).collect();
    match required.as_slice() {
        [] => Takes::Nothing,
        [one] if !one.shapes.is_empty() => Takes::Name(one),
        [one] => Takes::Words(one.name),
        [..] => Takes::TooMuch,
    }
}

/// A name, and the evidence that it was read in: none for the item.
struct Found<'a> {
    name: &'a str,
    evidence: Option<&'a str>,
}

impl Found<'_> {
    fn is_in_item(&self) -> bool {
        self.evidence.is_none()
    }

    fn place(&self) -> String {
        self.evidence.map_or_else(|| "the item".to_owned(), |id| format!("E{id}"))
    }
}

/// Names of a parameter's shape, each once: from the item, then from results.
fn named<'a>(read: &Read<'a>, parameter: &Parameter<'_>) -> Vec<Found<'a>> {
    let results = read.evidence.iter().filter(|evidence| evidence.is_ok());
    let texts = [(read.title, None), (read.item, None)]
        .into_iter()
        .chain(results.map(|evidence| (evidence.body, Some(evidence.id))));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (text, evidence) in texts {
        // Results may name any number of files; those of the item are what it is about.
        let paths = if evidence.is_none() { paths(text) } else { Vec::new() };
        for name in names(text).into_iter().chain(paths) {
            if parameter.shapes.iter().any(|shape| shape.fits(name)) && seen.insert(name.to_lowercase()) {
                found.push(Found { name, evidence });
            }
        }
    }
    found
}

/// Whether a tool's description says that it always helps.
fn serves_all(tool: &Tool<'_>) -> bool {
    tool.hints
        .split_whitespace()
        .any(|word| ["any", "every", "always"].contains(&word.to_lowercase().as_str()))
}

/// The words to search for: those of the title, then the commonest of the item.
fn keywords(read: &Read<'_>) -> String {
    let is_word = |word: &&str| {
        stem(&word.to_lowercase()).is_some()
            && !word.contains(|c: char| c.is_ascii_digit() || "@_".contains(c))
    };
    let title = names(read.title).into_iter().filter(is_word);
    let item: Vec<&str> = names(read.item).into_iter().filter(is_word).collect();
    let mut often: BTreeMap<String, usize> = BTreeMap::new();
    for word in &item {
        *often.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut common = item.clone();
    common.sort_by_cached_key(|word| Reverse(often.get(&word.to_lowercase()).copied()));
    let mut seen = BTreeSet::new();
    let words = title.chain(common);
    words.filter(|word| seen.insert(word.to_lowercase())).take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
}
