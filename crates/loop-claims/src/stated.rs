//! What a sentence states that can be looked for: its values, quotations, names, that there is none of something, and that
//! an action happened.

use std::ops::Range;
use std::sync::Arc;

use loop_core::types::{EvidenceId, Locale};

use crate::ValueKind;
use crate::cited::{self, CitationGroup};
use crate::fold::{Folded, words};
use crate::sentence::Sentence;
use crate::source::{form, stem};
use crate::value::{Amount, Day, FoundValue, Value, is_hash, values};
use crate::words::{Dimension, Index, WORDS};

/// A value of a sentence, as it is looked for.
#[derive(Debug)]
pub(crate) enum Needle {
    Amount(Amount),
    Day(Day),
    /// Seconds since midnight.
    Time {
        seconds: u32,
        is_exact: bool,
        is_zoned: bool,
    },
    Span(f64),
    /// A pattern, or else all of several.
    Id {
        whole: usize,
        parts: Vec<usize>,
        form: Box<str>,
    },
    /// A quarter or a half of a year: the patterns of it, and of the others.
    Period {
        forms: Vec<usize>,
        others: Vec<usize>,
    },
    /// The pieces of a quotation: what is between its dots.
    Quote(Vec<usize>),
    /// Each word of the name, as the patterns that it may be written as.
    Name {
        words: Vec<Vec<usize>>,
        own: Vec<Box<str>>,
    },
    /// The stems of what there is none of.
    Absence(Vec<Box<str>>),
    /// That an action of this kind happened, and the patterns of its words.
    Action {
        kind: &'static str,
        words: Vec<usize>,
    },
}

/// A value, and where it is in its sentence.
#[derive(Debug)]
pub(crate) struct ValueItem {
    pub(crate) range: Range<usize>,
    pub(crate) kind: ValueKind,
    pub(crate) stated: Needle,
}

impl ValueItem {
    pub(crate) fn amount(&self) -> Option<&Amount> {
        if let Needle::Amount(amount) = &self.stated { Some(amount) } else { None }
    }
}

/// A sentence with its values.
#[derive(Debug)]
pub(crate) struct Phrase {
    pub(crate) range: Range<usize>,
    /// Whether it cites itself; else it rests on what its section cites.
    pub(crate) cites: bool,
    of_section: Arc<[EvidenceId]>,
    groups: Vec<CitationGroup>,
    pub(crate) items: Vec<ValueItem>,
}

impl Phrase {
    /// What a value rests on that ends at this place of the sentence.
    pub(crate) fn cited(&self, end: usize) -> &[EvidenceId] {
        cited::of(&self.groups, end).unwrap_or(&self.of_section)
    }

    /// The durations of a day and more that the sentence states, in seconds.
    pub(crate) fn spans(&self) -> Vec<f64> {
        let of = |item: &ValueItem| match &item.stated {
            Needle::Amount(Amount { number, unit: Some(unit), .. })
                if unit.dimension == Dimension::Time && unit.factor >= 86_400.0 =>
            {
                Some(number * unit.factor)
            }
            _ => None,
        };
        self.items.iter().filter_map(of).collect()
    }
}

/// The texts that are searched word by word, each once.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) list: Vec<String>,
    known: Index<String, usize>,
}

impl Texts {
    fn add(&mut self, text: String) -> usize {
        let next = self.list.len();
        let number = *self.known.entry(text.clone()).or_insert(next);
        if number == next {
            self.list.push(text);
        }
        number
    }

    /// The words of a folded text as a pattern. `is_open`: the last word may go on.
    fn pattern(&mut self, folded: &str, is_open: bool) -> usize {
        let mut text = String::from(" ");
        for range in words(folded) {
            text.push_str(folded.get(range).unwrap_or_default());
            text.push(' ');
        }
        if is_open {
            text.truncate(text.trim_end().len());
        }
        self.add(text)
    }
}

/// Reads the values of a sentence.
pub(crate) fn read(body: &str, sentence: &Sentence, locale: Locale, texts: &mut Texts) -> Phrase {
    let text = body.get(sentence.range.clone()).unwrap_or_default();
    let groups = cited::groups(text);
    let clean = without_citations(text);
    let folded = Folded::of(&clean);
    let mut items: Vec<ValueItem> = Vec::new();
    quotes(&folded, texts, &mut items);
    let is_zoned =
        words(&folded.text).any(|range| folded.text.get(range).is_some_and(|it| WORDS.zones.contains(it)));
    let comma = matches!(locale, Locale::De | Locale::Fr | Locale::Es);
    for FoundValue { range, value } in values(&folded.text, comma) {
        let written = folded.text.get(range.clone()).unwrap_or_default();
        let (kind, stated) = match value {
            Value::Amount(amount) => (kind_of(&amount), Needle::Amount(amount)),
            Value::Day(day) => (ValueKind::Date, Needle::Day(day)),
            Value::Time(seconds, is_exact) => (ValueKind::Time, Needle::Time { seconds, is_exact, is_zoned }),
            Value::Span(seconds) => (ValueKind::Quantity, Needle::Span(seconds)),
            Value::Id => (id_kind(written), id(written, texts)),
            Value::Period => (ValueKind::Date, period(written, texts)),
        };
        push(&mut items, folded.range(range), kind, stated);
    }
    names(&clean, locale, texts, &mut items);
    actions(&folded, texts, &mut items);
    if sentence.cites {
        absences(&folded, locale, &mut items);
    }
    items.sort_by_key(|item| (item.range.start, item.range.end));
    Phrase {
        range: sentence.range.clone(),
        cites: sentence.cites,
        of_section: Arc::clone(&sentence.cited),
        groups,
        items,
    }
}

/// Adds an item, unless another one has its place.
fn push(items: &mut Vec<ValueItem>, range: Range<usize>, kind: ValueKind, stated: Needle) {
    let is_taken =
        items.iter().rev().take(64).any(|it| it.range.start < range.end && range.start < it.range.end);
    if !is_taken {
        items.push(ValueItem { range, kind, stated });
    }
}

/// The sentence with spaces for its citations.
fn without_citations(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("[E") {
        let (before, cite) = rest.split_at(at);
        clean.push_str(before);
        let end =
            cite.find(|c: char| !matches!(c, '[' | 'E' | '0'..='9' | ',' | ';' | ' ')).unwrap_or(cite.len());
        let is_cite = cite.get(end..).is_some_and(|it| it.starts_with(']'));
        let end = if is_cite { end + 1 } else { 2 };
        clean.push_str(&if is_cite { " ".repeat(end) } else { "[E".to_owned() });
        rest = cite.get(end..).unwrap_or_default();
    }
    clean + rest
}

fn kind_of(amount: &Amount) -> ValueKind {
    match (amount.currency, amount.unit) {
        (Some(_), _) => ValueKind::Money,
        (None, Some(unit)) if unit.dimension == Dimension::Percent => ValueKind::Percentage,
        (None, Some(_)) => ValueKind::Quantity,
        (None, None) => ValueKind::Number,
    }
}

fn id_kind(written: &str) -> ValueKind {
    let last = written.rsplit('.').next().unwrap_or_default();
    let dots = written.matches('.').count();
    match written.strip_prefix('v').unwrap_or(written) {
        _ if written.contains('@') => ValueKind::Email,
        it if dots > 0 && it.starts_with(|c: char| c.is_ascii_digit()) && dots < 3 => ValueKind::Version,
        _ if dots > 0 && last.len() > 1 && last.bytes().all(|it| it.is_ascii_alphabetic()) || dots == 3 => {
            ValueKind::Host
        }
        _ => ValueKind::Id,
    }
}

fn id(written: &str, texts: &mut Texts) -> Needle {
    let whole = texts.pattern(written, is_hash(written));
    let is_digit = |c: char| c.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = written;
    if written.contains('@') || is_hash(written) {
        rest = "";
        parts.push(whole);
    }
    while let Some(first) = rest.chars().next() {
        let end =
            rest.find(|c: char| is_digit(c) != is_digit(first) || !c.is_alphanumeric()).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end.max(first.len_utf8()));
        if part.starts_with(char::is_alphanumeric) {
            parts.push(texts.pattern(part, false));
        }
        rest = after;
    }
    Needle::Id { whole, parts, form: form(written) }
}

fn period(written: &str, texts: &mut Texts) -> Needle {
    let (kind, number) = written.split_at(1);
    let of = |number: &str, texts: &mut Texts| {
        let word = match (kind, number) {
            ("q", "1") => "first quarter",
            ("q", "2") => "second quarter",
            ("q", "3") => "third quarter",
            ("q", _) => "fourth quarter",
            (_, "1") => "first half",
            _ => "second half",
        };
        [format!("{kind}{number}"), format!("{number}{kind}"), word.to_owned()]
            .map(|it| texts.pattern(&it, true))
    };
    let forms = of(number, texts).to_vec();
    let others =
        ["1", "2", "3", "4"].into_iter().filter(|it| *it != number).flat_map(|it| of(it, texts)).collect();
    Needle::Period { forms, others }
}

/// Texts of more than one word in quotation marks.
fn quotes(folded: &Folded<'_>, texts: &mut Texts, items: &mut Vec<ValueItem>) {
    const LONGEST: usize = 400;
    let marks: Vec<usize> = folded.text.match_indices('"').map(|(at, _)| at).collect();
    let mut from = 0;
    while let (Some(open), Some(close)) = (marks.get(from), marks.get(from + 1)) {
        // `5" and 6"` are inches.
        let is_open =
            folded.text.get(..*open).is_none_or(|before| !before.ends_with(|c: char| c.is_alphanumeric()));
        let inner = folded.text.get(open + 1..*close).unwrap_or_default();
        let count = words(inner).count();
        if !is_open || inner.len() > LONGEST || inner.contains('\n') {
            from += 1;
            continue;
        }
        if count > 1 {
            let dots = inner.replace("[...]", "…").replace("...", "…");
            let pieces = dots
                .split('…')
                .filter(|it| words(it).count() > 1)
                .map(|it| texts.pattern(it, false))
                .collect();
            push(items, folded.range(*open..close + 1), ValueKind::Quote, Needle::Quote(pieces));
        }
        from += 2;
    }
}

/// Names: words with capitals, and single ones that do not begin a sentence or have a capital inside.
fn names(text: &str, locale: Locale, texts: &mut Texts, items: &mut Vec<ValueItem>) {
    const MOST: usize = 8;
    let words: Vec<Range<usize>> = name_words(text);
    let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    let is_capital = |range: &Range<usize>| part(range).starts_with(char::is_uppercase);
    let mut at = 0;
    while let Some(first) = words.get(at) {
        if !is_capital(first) {
            at += 1;
            continue;
        }
        let mut last = at;
        while last - at < MOST
            && let Some(next) = words.get(last + 1)
            && let Some(end) = words.get(last).map(|it| it.end)
        {
            let between = text.get(end..next.start).unwrap_or_default();
            let is_next =
                between == " " || between == ". " && end - words.get(last).map_or(0, |it| it.start) < 4;
            if is_next && is_capital(next) {
                last += 1;
                continue;
            }
            let after = words
                .get(last + 2)
                .filter(|after| text.get(next.end..after.start) == Some(" ") && is_capital(after));
            let joins = matches!(part(next), "of" | "de" | "van" | "von" | "del" | "du" | "der" | "la" | "&");
            if !(is_next && joins && after.is_some()) {
                break;
            }
            last += 2;
        }
        let range = first.start..words.get(last).map_or(first.end, |it| it.end);
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let between = before.and_then(|before| text.get(before.end..range.start));
        let begins = between.is_none_or(|between| between.contains(['.', ':', '!', '?', '|', '"', '\n']));
        let is_single = last == at;
        let capitals = part(&range).chars().filter(|c| c.is_uppercase()).count();
        let is_acronym = capitals > 1 && part(&range).chars().count() < 8;
        let is_new = !is_acronym
            && part(&range).chars().count() > 3
            && (!begins || part(&range).chars().skip(2).any(char::is_uppercase));
        if !is_single || is_new {
            let name = name(part(&range), begins, locale, texts);
            name.into_iter().for_each(|stated| push(items, range.clone(), ValueKind::Name, stated));
        }
        at = last + 1;
    }
}

/// Words of letters and digits, with the apostrophes, hyphens and dots inside.
fn name_words(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let joins = |last: &Range<usize>| last.end == at;
        match found.last_mut().filter(|last| joins(last)) {
            Some(last) if c.is_alphanumeric() => last.end = end,
            Some(last)
                if matches!(c, '\'' | '’' | '-' | '&' | '.')
                    && text.get(end..).is_some_and(|it| it.starts_with(char::is_alphanumeric)) =>
            {
                last.end = end
            }
            _ if c.is_alphanumeric() || c == '&' => found.push(at..end),
            _ => {}
        }
    }
    found
}

/// A name as its words are looked for. `None`: it names no one in particular.
fn name(text: &str, begins: bool, locale: Locale, texts: &mut Texts) -> Option<Needle> {
    let folded = Folded::of(text);
    let all: Vec<&str> = words(&folded.text).filter_map(|range| folded.text.get(range)).collect();
    let has_title = all.first().is_some_and(|first| WORDS.titles.contains(first));
    // All nouns of German have capitals.
    if locale == Locale::De && !has_title {
        return None;
    }
    let is_own = |word: &&&str| {
        word.chars().count() > 2
            && !WORDS.titles.contains(**word)
            && !WORDS.plain.contains(**word)
            && !WORDS.months.contains_key(**word)
            && word.chars().all(char::is_alphabetic)
    };
    let own: Vec<&str> = all.iter().filter(is_own).copied().collect();
    // The first word of a sentence has a capital in any case.
    let begins = begins && own.first() == all.first() && !has_title && own.len() > 1;
    let own: Vec<&str> = own.into_iter().skip(usize::from(begins && all.len() > 2)).collect();
    let mut forms = |word: &str| {
        let mut forms = vec![texts.pattern(word, false)];
        let count = word.chars().count();
        if count > 4 {
            let head: String = word.chars().take((count - 2).min(if count > 7 { 6 } else { 4 })).collect();
            forms.push(texts.pattern(&head, true));
        }
        forms
    };
    let words: Vec<Vec<usize>> = own.iter().map(|word| forms(word)).collect();
    let own = own.into_iter().map(Into::into).collect();
    (!words.is_empty()).then_some(Needle::Name { words, own })
}

/// Statements that an action happened: `was refunded`, `has been sent`. Not `will be sent`, `was not sent`.
fn actions(folded: &Folded<'_>, texts: &mut Texts, items: &mut Vec<ValueItem>) {
    const BEFORE: usize = 4;
    let all: Vec<Range<usize>> = words(&folded.text).collect();
    let word = |range: &Range<usize>| folded.text.get(range.clone()).unwrap_or_default();
    for (at, range) in all.iter().enumerate() {
        let Some(kind) = WORDS.actions.get(word(range)) else { continue };
        let before = all.get(at.saturating_sub(BEFORE)..at).unwrap_or_default();
        let is_other = |it: &Range<usize>| WORDS.none.contains(word(it)) || WORDS.modal.contains(word(it));
        if before.iter().any(is_other) {
            continue;
        }
        let names = WORDS.names.get(kind).into_iter().flatten();
        let words = names.map(|name| texts.pattern(name, false)).collect();
        push(items, folded.range(range.clone()), ValueKind::Action, Needle::Action { kind, words });
    }
}

/// Statements that there is none of something: `no backup`, `There are no open incidents`.
fn absences(folded: &Folded<'_>, locale: Locale, items: &mut Vec<ValueItem>) {
    const WORDS_AFTER: usize = 5;
    let all: Vec<Range<usize>> = words(&folded.text).collect();
    let word = |range: &Range<usize>| folded.text.get(range.clone()).unwrap_or_default();
    let mut last = 0;
    for (at, range) in all.iter().enumerate() {
        if range.start < last || !WORDS.absent.contains(word(range)) {
            continue;
        }
        let near: Vec<&Range<usize>> = all.iter().skip(at + 1).take(WORDS_AFTER).collect();
        let Some(first) = near.first().filter(|first| folded.text.get(range.end..first.start) == Some(" "))
        else {
            continue;
        };
        // `no` is `not` in Spanish, but for `no hay`.
        let is_not = locale == Locale::Es
            && word(range) == "no"
            && !["hay", "hubo", "existe", "existen"].contains(&word(first));
        let is_other = is_not
            || ["more", "less", "longer", "later", "matter", "doubt", "one", "need", "problem"]
                .contains(&word(first));
        // `nothing is left`.
        let is_all = matches!(word(range), "nothing" | "none");
        // `There is no X`, `No X was found`: not `it matches no X`.
        let before = at.checked_sub(1).and_then(|before| all.get(before));
        let between = before.and_then(|before| folded.text.get(before.end..range.start));
        let begins = between.is_none_or(|between| between != " ")
            || before.is_some_and(|it| WORDS.exists.contains(word(it)));
        let is_other = is_other || !begins;
        let is_word =
            (is_all || word(first).chars().count() > 2) && word(first).chars().all(char::is_alphabetic);
        if is_other || !is_word {
            continue;
        }
        last = first.end;
        let stems =
            near.iter().map(|range| word(range)).filter(|it| it.chars().count() > 3).map(stem).collect();
        push(items, folded.range(range.start..first.end), ValueKind::Absence, Needle::Absence(stems));
    }
}
