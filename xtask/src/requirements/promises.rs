//! Checks that a test names each invariant, fault and control of the reliability page, or that the testing page lists
//! it as open.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The page that lists those that no test names.
pub(super) const PAGE: &str = "docs/reference/testing.md";

/// The families, each with the number of its last member.
const FAMILIES: [(Family, u8); 6] = [
    (Family::Invariant, 33),
    (Family::Model, 24),
    (Family::Tool, 14),
    (Family::Host, 12),
    (Family::User, 8),
    (Family::Control, 18),
];

/// The family of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Invariant,
    Model,
    Tool,
    Host,
    User,
    Control,
}

impl Family {
    fn prefix(self) -> &'static str {
        match self {
            Family::Invariant => "I-",
            Family::Model => "L",
            Family::Tool => "T",
            Family::Host => "H",
            Family::User => "U",
            Family::Control => "K",
        }
    }
}

/// A promise, for example `I-12` or `K9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Promise {
    family: Family,
    number: u8,
}

impl Promise {
    fn parse(word: &str) -> Option<Promise> {
        let (family, last) = FAMILIES.into_iter().find(|(family, _)| word.starts_with(family.prefix()))?;
        let digits = word.strip_prefix(family.prefix())?;
        let is_plain = !digits.starts_with('0') && digits.bytes().all(|it| it.is_ascii_digit());
        let number: u8 = digits.parse().ok().filter(|number| is_plain && (1..=last).contains(number))?;
        Some(Promise { family, number })
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.family.prefix(), self.number)
    }
}

/// The promises that a text contains as whole words, with the byte at which each starts.
pub(super) fn all_in(text: &str) -> Vec<(usize, Promise)> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = text.get(rest..).and_then(|it| it.find(is_word)).map(|n| rest + n) {
        let tail = text.get(start..).unwrap_or_default();
        let word = tail.split(|it| !is_word(it)).next().unwrap_or_default();
        rest = start + word.len();
        found.extend(Promise::parse(word).map(|promise| (start, promise)));
    }
    found
}

/// The promises that neither a test nor the page names, and wrong lines of the page.
pub(super) fn problems(named: &BTreeSet<Promise>, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut later = BTreeMap::new();
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, .., comes] = cells.as_slice() else { continue };
        let Some(promise) = Promise::parse(id).filter(|_| line.starts_with('|')) else { continue };
        let line = index + 1;
        let number =
            comes.strip_prefix("issue ").map(|rest| rest.split_whitespace().next().unwrap_or_default());
        if number.is_none_or(|number| {
            number.trim_end_matches(|it: char| !it.is_ascii_digit()).parse::<u32>().is_err()
        }) {
            problems.push(format!(
                "{PAGE}:{line}: {promise}: the last cell says `issue N` and what comes with it"
            ));
        }
        if named.contains(&promise) {
            problems.push(format!("{PAGE}:{line}: {promise} is named by a test: take the row out"));
        }
        later.insert(promise, line);
    }
    let all = FAMILIES
        .into_iter()
        .flat_map(|(family, last)| (1..=last).map(move |number| Promise { family, number }));
    let unaccounted = all.filter(|promise| !named.contains(promise) && !later.contains_key(promise));
    problems.extend(unaccounted.map(|promise| {
        format!("{PAGE}: {promise} is named by no test; name it there, or give it a row with `issue N`")
    }));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples are written with `@` before the number, or this file would name them itself.
    fn sample(text: &str) -> String {
        text.replace('@', "")
    }

    #[test]
    fn a_promise_is_a_whole_word_within_its_family() {
        let text = sample("I-@1, (K@18) L@24 T@14/H@12 `U@8` I-@34 L@25 K@0 K@01 xK@1 K@1x I@1 L@2-3");
        let found: Vec<String> = all_in(&text).into_iter().map(|(_, promise)| promise.to_string()).collect();
        assert_eq!(found, ["I-@1", "K@18", "L@24", "T@14", "H@12", "U@8"].map(sample));
    }

    #[test]
    fn what_no_test_names_stands_on_the_page_with_its_issue() {
        let but = |left_out: &[&str]| -> BTreeSet<Promise> {
            let all = FAMILIES
                .into_iter()
                .flat_map(|(family, last)| (1..=last).map(move |number| Promise { family, number }));
            all.filter(|promise| !left_out.contains(&promise.to_string().as_str())).collect()
        };
        let two = [sample("K@9"), sample("T@12")];
        let names: Vec<&str> = two.iter().map(String::as_str).collect();
        let page =
            sample("| id | what | comes with |\n|---|---|---|\n| K@9 | pins | issue 15: `tools.lock` |\n");
        assert_eq!(
            problems(&but(&names), &page),
            [sample(
                "docs/reference/testing.md: T@12 is named by no test; name it there, or give it a row with `issue N`"
            )]
        );
        let wrong =
            sample("| K@9 | pins | later |\n| T@12 | servers | issue 15 |\n| U@1 | cancel | issue 15 |\n");
        assert_eq!(
            problems(&but(&names), &wrong),
            [
                "docs/reference/testing.md:1: K@9: the last cell says `issue N` and what comes with it",
                "docs/reference/testing.md:3: U@1 is named by a test: take the row out",
            ]
            .map(sample)
        );
    }
}
