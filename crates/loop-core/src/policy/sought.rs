//! A value that sources are searched for, and what its place in the call says about it: whether it is an amount or an id,
//! and by which words a text names it.
//!
//! "June 13" holds the number 13 and names neither the file 13 nor the order 13. "File 13" and "#13" do.

use serde_json::Value;

use crate::policy::authority::declared;
use crate::policy::scalar::Scalar;
use crate::spec::{ArgType, ToolSpec};

/// Words before a number that say that it is one of a series.
const SERIES: [&str; 6] = ["№", "n°", "nº", "no.", "nr.", "nr"];

/// Words that may follow the word that names a number, as in `order number 13`.
const BETWEEN: [&str; 4] = ["#", "no", "number", "id"];

/// Words of the names of parameters that name nothing, since texts use them before any number. As [`words`] gives them.
const LINKING: [&str; 19] = [
    "a", "an", "and", "at", "by", "for", "from", "in", "into", "of", "off", "on", "or", "per", "the", "to",
    "until", "via", "with",
];

/// A value of a call that an authorised source has to give.
#[derive(Clone, Debug, PartialEq)]
pub struct SoughtValue<'a> {
    /// The value.
    pub value: &'a Value,
    /// The words that name it: those of its pointer, and the last one of the tool's name.
    pub(crate) names: Vec<String>,
    /// Whether it is of type number and is not an id, so that a number in a sentence gives it.
    is_amount: bool,
}

/// The same with the scalar that is compared.
#[derive(Clone, Debug)]
pub(crate) struct Needle<'a> {
    pub(crate) scalar: Scalar,
    pub(crate) place: &'a SoughtValue<'a>,
}

impl<'a> SoughtValue<'a> {
    /// The value at a JSON pointer within the parameters of a call of `tool`.
    pub fn of(tool: &ToolSpec, pointer: &str, value: &'a Value) -> Self {
        let own = |step: &&str| *step != "*" && step.parse::<usize>().is_err();
        let mut names: Vec<String> = pointer.split('/').skip(1).filter(own).flat_map(words).collect();
        let is_id = names.last().is_some_and(|name| name == "id");
        let is_number = match declared(&tool.args, pointer).and_then(|args| args.kind) {
            None => value.is_number(),
            Some(kind) => matches!(kind, ArgType::Integer | ArgType::Number),
        };
        // The first word of a tool's name is what it does.
        names.extend(words(&tool.name).into_iter().skip(1).last());
        names.retain(|name| !LINKING.contains(&name.as_str()));
        Self { value, names, is_amount: is_number && !is_id }
    }

    /// Whether a text has to name the value, given whether it is a number.
    pub(crate) fn needs_name(&self, is_number: bool) -> bool {
        is_number && !self.is_amount
    }
}

impl<'a> Needle<'a> {
    /// `None`: no source can give the value.
    pub(crate) fn of(place: &'a SoughtValue<'a>) -> Option<Self> {
        let scalar = Scalar::of(place.value).filter(Scalar::is_plain)?;
        Some(Self { scalar, place })
    }
}

/// Whether the words before a number, nearest first, name it.
pub(crate) fn is_named<'t>(mut before: impl Iterator<Item = &'t str>, names: &[String]) -> bool {
    let mut next = || {
        let word = before.next().unwrap_or_default().to_lowercase();
        let word = word.trim_start_matches(['(', '[', '<', '"', '“', '«', '\'', '‘', '`', '*', '_']);
        word.trim_end_matches([':', '=', '"', '”', '»', '\'', '’', '`', '*', '_']).to_owned()
    };
    let is_name = |word: &str| {
        let own = words(word);
        word.chars().all(|c| c.is_alphabetic() || matches!(c, '_' | '-'))
            && !own.is_empty()
            && own.iter().all(|own| names.contains(own))
    };
    let word = next();
    SERIES.contains(&&*word) || is_name(&word) || BETWEEN.contains(&&*word) && is_name(&next())
}

/// The words of a name, in small letters and without a plural `s`: those of `file_ids` and `fileIds` are `file` and `id`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_small = false;
    for c in name.chars() {
        if !c.is_alphabetic() || is_small && c.is_uppercase() {
            words.push(String::new());
        }
        is_small = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphabetic()) {
            word.extend(c.to_lowercase());
        }
    }
    words.iter_mut().for_each(|word| word.truncate(word.trim_end_matches('s').len()));
    words.retain(|word| !word.is_empty());
    words
}
