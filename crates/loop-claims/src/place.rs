//! Where in a text a value is, so that a page can link to the place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::chunk::{self, folded};
use crate::decimal::Decimal;
use crate::field::FieldNames;
use crate::formula::Formula;
use crate::priced::currencies_written;
use crate::scan::{Query, Scan};
use crate::steps;
use crate::value::{Found, Reads, values};
use crate::wanted::TextSearch;
use crate::word::text_words;

/// Longer names of fields are not looked back for.
const MAX_NAME: usize = 100;

/// Of each value so many places are compared.
const MAX_PLACES: usize = 64;

/// The places of values, by their numbers.
type Places = BTreeMap<usize, Vec<Range<usize>>>;

/// The place of each wanted value that is copied from this text, also from a field of JSON whose name says the unit. Of several
/// places it is the one that is nearest to another value of its sentence. What is counted or summed has no one place.
pub(super) fn places(query: &Query, text: &str) -> BTreeMap<usize, Range<usize>> {
    let mut found = Places::new();
    let (readable, of_text) = (chunk::readable(text), chunk::places(text));
    let place = |at: usize| of_text.get(at).copied().unwrap_or(at);
    let mut add = |number: usize, range: &Range<usize>| {
        let places = found.entry(number).or_default();
        if places.len() < MAX_PLACES {
            places.push(place(range.start)..place(range.end));
        }
    };
    let mut names = FieldNames::default();
    let mut scan = Scan::new(query, &mut names);
    scan.each_day = true;
    scan.names_currency_in(&readable);
    scan.currencies = currencies_written(&readable);
    for Found { range, value } in values(&readable, query.locale, query.clock, Reads::Measures) {
        let name = field_before(&readable, range.start).map(|name| scan.field_name(name));
        scan.rate = name.as_ref().and_then(|name| name.rate.clone());
        scan.measure(&value, None);
        if let Some(name) = &name {
            let written = readable.get(range.clone()).unwrap_or_default();
            if let Some(amount) = Decimal::of_json(written) {
                scan.field_amount(written, amount, name, name.unit.as_ref());
                scan.instant(amount, name);
            }
        }
        for (number, formula) in scan.take_hits() {
            if matches!(formula, None | Some(Formula::Rounded)) {
                add(number, &range);
            }
        }
    }
    if query.wanted.has_texts() {
        words(query, &readable, add);
    }
    nearest(query, found)
}

/// One place of each value.
fn nearest(query: &Query, found: Places) -> BTreeMap<usize, Range<usize>> {
    let sentence_of = |number: usize| query.contexts.get(number).map(|context| context.sentence);
    // Where values begin, by their sentence.
    let mut begins: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, places) in &found {
        if let Some(sentence) = sentence_of(*number) {
            begins.entry(sentence).or_default().extend(places.iter().map(|place| (place.start, *number)));
        }
    }
    begins.values_mut().for_each(|begins| begins.sort_unstable());
    let distance = |number: usize, place: &Range<usize>| {
        let begins = sentence_of(number).and_then(|sentence| begins.get(&sentence))?;
        let at = begins.partition_point(|(begin, _)| *begin < place.start);
        let is_other = |it: &&(usize, usize)| it.1 != number;
        let before = begins.get(..at).into_iter().flatten().rev().find(is_other);
        let behind = begins.get(at..).into_iter().flatten().find(is_other);
        before.into_iter().chain(behind).map(|(begin, _)| begin.abs_diff(place.start)).min()
    };
    let nearest = |(number, places): (usize, Vec<Range<usize>>)| {
        let place = places.into_iter().min_by_key(|place| distance(number, place).unwrap_or(usize::MAX))?;
        Some((number, place))
    };
    found.into_iter().filter_map(nearest).collect()
}

/// Adds the wanted texts that a text contains as words.
fn words(query: &Query, text: &str, mut add: impl FnMut(usize, &Range<usize>)) {
    let mut search = TextSearch::default();
    for it in text_words(text) {
        let (word, Range { start, end }) = (it.word, it.range.clone());
        if !query.wanted.may_have(&it) {
            search.interrupt();
            continue;
        }
        let found = |number, begin| add(number, &(begin..end));
        search.word(&query.wanted, &folded(word), (0, start), it.is_glued(), found);
    }
}

/// The name of the field that a value is in: `"size_gb": ` before it.
fn field_before(text: &str, at: usize) -> Option<&str> {
    steps::count(1);
    let before = text.get(..at)?.trim_end_matches([' ', '"']).strip_suffix(':')?.trim_end();
    let before = before.strip_suffix('"')?;
    let least = before.len().saturating_sub(MAX_NAME);
    let from = (least..before.len()).rev().find(|at| before.as_bytes().get(*at) == Some(&b'"'))?;
    before.get(from + 1..)
}
