//! Similar search texts: the third tier of the policy `three_tier`. Texts about different actions are never similar.

use crate::repeats::fingerprint::{CallFacts, Query, Rules};
use crate::repeats::sequence::ratio_millis;
use crate::spec::{Repeats, ThreeTier};

/// A search text longer than this, in characters, is never similar: the comparison costs the product of both lengths.
const LONGEST: usize = 1_000;

/// Whether the search texts of this call are compared: the tool declares a search parameter, or under `three_tier` the
/// default list names the tool.
pub(super) fn is_search(call: &CallFacts<'_>, rules: &Rules<'_>) -> bool {
    // A write is never a near-duplicate.
    if !call.is_read && !rules.three_tier.literal {
        return false;
    }
    let listed = || rules.three_tier.search.iter().any(|name| **name == *call.tool);
    call.rules.query.is_some() || rules.repeats == Repeats::ThreeTier && listed()
}

/// The name and the text of the search parameter: the one that the tool declares, or the first of the default list that
/// the call has.
pub(super) fn text_of<'a>(call: &CallFacts<'a>, rules: &Rules<'a>) -> Option<(&'a str, &'a str)> {
    let named = |name: &'a str| call.arguments.get(name)?.as_str().map(|text| (name, text));
    match &call.rules.query {
        Some(name) => named(name),
        None => rules.three_tier.query.iter().find_map(|name| named(name)),
    }
}

/// The text in lower case, without punctuation and outer whitespace; with `literal` also without the dangerous words.
pub(super) fn normalise(text: &str, three_tier: &ThreeTier) -> String {
    let lower = text.to_lowercase();
    let plain: String =
        lower.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace() || *c == '_').collect();
    if !three_tier.literal {
        return plain.trim().to_owned();
    }
    let words: Vec<&str> = plain.split_whitespace().filter(|word| !is_dangerous(word, three_tier)).collect();
    words.join(" ")
}

/// The similarity of two search texts in thousandths. `None`: it is below the threshold, or they mean different things.
pub(crate) fn likeness(earlier: &Query, query: &Query, three_tier: &ThreeTier) -> Option<u32> {
    if earlier.rest != query.rest || !three_tier.literal && differ(earlier, query, three_tier) {
        return None;
    }
    let lengths = [&query.normal, &earlier.normal].map(|text| text.chars().count());
    let (shorter, longer) = (lengths.iter().min()?, lengths.iter().max()?);
    // Two texts have at most the whole shorter one in common.
    let at_most = (2_000 * shorter).checked_div(shorter + longer).unwrap_or(1_000);
    if *longer > LONGEST || at_most < three_tier.similar_millis as usize {
        return None;
    }
    // S3 compares the new text with an earlier one, in this order. The ratio is not symmetric.
    let millis = ratio_millis(&query.normal, &earlier.normal);
    (millis >= three_tier.similar_millis).then_some(millis)
}

/// Whether two texts mean different things even if they look similar: one names an action and their words differ, or
/// they name different numbers, addresses, paths or ids.
fn differ(a: &Query, b: &Query, three_tier: &ThreeTier) -> bool {
    let is_action = |text: &str| text.split_whitespace().any(|word| is_dangerous(word, three_tier));
    names(&a.text) != names(&b.text)
        || (is_action(&a.normal) || is_action(&b.normal)) && words(&a.normal) != words(&b.normal)
}

/// The words of a text, sorted.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words
}

/// The words of a text that name one certain thing, as their characters show: a number, a version, an address, a path,
/// an id. Dots and dashes inside them are kept, since they distinguish them.
fn names(text: &str) -> Vec<String> {
    let is_mark = |c: char| matches!(c, '_' | '@' | '#' | '/' | '\\');
    let is_edge = |c: char| !c.is_alphanumeric() && !is_mark(c);
    // A dot is inside of the word here, as in `example.com`: those at its edges were trimmed.
    let is_name = |word: &&str| word.contains(|c: char| c.is_numeric() || c == '.' || is_mark(c));
    let words = text.split_whitespace().map(|word| word.trim_matches(is_edge));
    let mut names: Vec<String> = words.filter(is_name).map(str::to_lowercase).collect();
    names.sort_unstable();
    names
}

fn is_dangerous(word: &str, three_tier: &ThreeTier) -> bool {
    three_tier.dangerous.iter().any(|dangerous| **dangerous == *word)
}
