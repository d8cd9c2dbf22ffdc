//! Amounts: numbers with what they count.

use std::sync::LazyLock;

use crate::chunk::folded;
use crate::decimal::Number;
use crate::known::Known;
use crate::locale::Written;
use crate::number_word;
use crate::reader::Reader;
use crate::unit::{Unit, currency_of, currency_of_code, power_of};
use crate::value::{Measured, Reads, Value};
use loop_core::types::is_unspaced;

/// The unit that a word without spaces begins with: the longest.
fn unit_at_start(word: &str) -> Option<Unit> {
    let ends: Vec<usize> = word.char_indices().map(|(at, c)| at + c.len_utf8()).take(4).collect();
    ends.iter().rev().find_map(|end| Unit::named(word.get(..*end)?))
}

/// Words between the parts of a duration.
pub(super) const AND: &[&str] = &["and", "und", "et", "y", "e"];

/// The longest of these signs, in bytes.
const MAX_DOLLAR: usize = 3;

/// Signs of dollars, and pence.
const DOLLARS: &[(&str, &str)] = &[
    ("US$", "USD"),
    ("NZ$", "NZD"),
    ("CA$", "CAD"),
    ("AU$", "AUD"),
    ("HK$", "HKD"),
    ("C$", "CAD"),
    ("A$", "AUD"),
    ("S$", "SGD"),
    ("R$", "BRL"),
];

/// Whether a word names the hundredth part of some currency.
fn is_cents(word: &str) -> bool {
    matches!(word, "cent" | "cents" | "centimes" | "céntimos")
}

/// Whether a word names the hundredth part of a pound.
fn is_pence(word: &str) -> bool {
    matches!(word, "pence" | "penny" | "p")
}

/// Whether a word may be between a number and its unit.
fn is_kind(word: &str) -> bool {
    matches!(word, "business" | "working" | "calendar" | "consecutive" | "full")
}

static OF_NOT_NOUN: LazyLock<Known> = LazyLock::new(|| Known::of(&[(NOT_NOUNS, 1)]));

/// Words behind a number that it does not count.
const NOT_NOUNS: &[&str] = &[
    "and", "are", "was", "were", "has", "had", "for", "from", "the", "von", "der", "die", "das", "sind",
    "und", "sur", "des", "les", "est", "sont", "con", "los", "las", "del", "until", "bis", "with", "per",
    "but", "which", "that", "who", "than", "not", "out", "auf", "bei", "its", "into", "instead",
];

/// Whether the word before a number says that it is rounded.
fn is_about(before: &str) -> bool {
    let word = folded(before);
    matches!(
        &*word,
        "about"
            | "around"
            | "approximately"
            | "approx"
            | "roughly"
            | "nearly"
            | "almost"
            | "over"
            | "under"
            | "knapp"
            | "gut"
            | "presque"
            | "casi"
            | "circa"
            | "ca"
            | "some"
            | "etwa"
            | "rund"
            | "ungefähr"
            | "fast"
            | "environ"
            | "près"
            | "alrededor"
            | "unos"
            | "unas"
            | "aproximadamente"
            | "約"
            | "およそ"
    )
}

impl Reader<'_> {
    /// `USD 42`.
    pub(super) fn code_first(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let code = currency_of_code(chunk.text).or_else(|| {
            let mut symbol = chunk.text.chars();
            currency_of(symbol.next()?).filter(|_| symbol.next().is_none())
        })?;
        let next = self.next(at)?.text;
        let number = Number::read(next, self.locale)?;
        let (number, taken) = self.scaled(at + 1, number);
        let value = self.amount_of(at, next, number, Measured::Unit(Unit::money(code)));
        Some(self.push(at, at + 1 + taken, value))
    }

    /// The number with the word behind it that multiplies it, and how many chunks that is.
    fn scaled(&self, at: usize, number: Number) -> (Number, usize) {
        let Some(next) = self.next(at) else { return (number, 0) };
        let scaled = power_of(next.text).and_then(|power| number.times_power_of_ten(power));
        let Some(scaled) = scaled else { return (number, 0) };
        // `2万9800`.
        let rest = self.next(at + 1).filter(|it| it.is_joined && next.is_joined && it.text.len() <= 4);
        let rest = rest.and_then(|it| Number::read(it.text, self.locale));
        match rest.and_then(|rest| Some((rest, scaled.amount.plus(rest.amount)?))) {
            Some((rest, amount)) => (Number { amount, ..rest }, 2),
            None => (scaled, 1),
        }
    }

    pub(super) fn amount_of(&self, at: usize, text: &str, number: Number, measured: Measured) -> Value {
        let before = at.checked_sub(1).and_then(|before| self.get(before));
        let is_marked = before.is_some_and(|before| before.after.is_empty() && is_about(before.text));
        let is_about = is_marked || self.get(at).is_some_and(|it| it.text.starts_with(['~', '≈']));
        let other =
            Number::read(text, self.locale.other()).map(|it| it.amount).filter(|it| *it != number.amount);
        Value::Amount { number, measured, other: other.map(Box::new), is_about }
    }

    /// A number with what it counts.
    pub(super) fn amount(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        // `US$5` has a sign behind its letters, and no other amount begins with a letter.
        let begin = chunk.text.as_bytes();
        if begin.first().is_some_and(u8::is_ascii_alphabetic)
            && !begin.iter().take(MAX_DOLLAR).any(|byte| *byte == b'$')
        {
            return None;
        }
        if let Some(passed) = self.around_the_clock(at) {
            return Some(passed);
        }
        let text = chunk.text.trim_start_matches(['~', '≈']);
        let is_signed = |text: &str| text.chars().next().and_then(currency_of).is_some();
        let (is_negative, text) = match text.strip_prefix(['-', '\u{2212}']).filter(|rest| is_signed(rest)) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (symbol, text) = match text.chars().next().and_then(currency_of) {
            Some(code) => (Some(code), text.trim_start_matches(|c| currency_of(c).is_some())),
            None => {
                let named = DOLLARS.iter().find_map(|(name, code)| Some((*code, text.strip_prefix(name)?)));
                named.map_or((None, text), |(code, rest)| (Some(code), rest))
            }
        };
        // `+418, -97`: lines that were added, and others that were removed.
        let is_after_plus = at.checked_sub(1).and_then(|at| self.get(at)).is_some_and(|it| {
            it.text.starts_with('+')
                || self.get(at.saturating_sub(2)).is_some_and(|it| it.text.starts_with('+'))
        });
        let text = text.strip_prefix(['-', '\u{2212}']).filter(|_| is_after_plus).unwrap_or(text);
        let is_number = |c: char| {
            c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}')
        };
        let sign = text.len() - text.trim_start_matches(['-', '\u{2212}', '+']).len();
        let body = text.get(sign..)?;
        let end = sign + body.find(|c| !is_number(c)).unwrap_or(body.len());
        let (digits, suffix) = text.split_at_checked(end)?;
        let digits_only = digits.trim_end_matches(['.', ',']);
        let read = Number::read(digits_only, self.locale)?;
        let read = if is_negative { Number { amount: read.amount.negated(), ..read } } else { read };
        self.also_spaced(at, read, digits_only, suffix);
        let (number, joined) = match self.locale.spaces_thousands() {
            true => self.spaced(at, read, digits_only, suffix),
            false => (read, 0),
        };
        let value_at = at + joined;
        if let Some(code) = symbol {
            let (number, taken) = match suffix {
                "" => self.scaled(value_at, number),
                "k" | "K" => (number.times_power_of_ten(3)?, 0),
                "M" | "m" => (number.times_power_of_ten(6)?, 0),
                _ => return None,
            };
            let value = self.amount_of(at, digits_only, number, Measured::Unit(Unit::money(code)));
            return Some(self.push(at, value_at + taken, value));
        }
        if !suffix.is_empty() {
            // As `df` writes sizes; in a document it may be anything.
            let suffix = match (self.reads, suffix) {
                (Reads::Measures, "Ki") => "KiB",
                (Reads::Measures, "Mi") => "MiB",
                (Reads::Measures, "Gi") => "GiB",
                (Reads::Measures, "Ti") => "TiB",
                (Reads::Measures, "K") => "KB",
                (Reads::Measures, "M") => "MB",
                (Reads::Measures, "G") => "GB",
                (Reads::Measures, "T") => "TB",
                (Reads::Measures, "d") => "days",
                (_, suffix) => suffix,
            };
            // `42%`, `42GB`, `42€`. `24-hour` says what kind of thing it is.
            let word = suffix;
            if word.starts_with('-') {
                return word.trim_start_matches('-').chars().all(char::is_alphabetic).then_some(1);
            }
            let mut symbol = word.chars();
            if is_pence(word)
                && let Some(amount) = number.amount.over_power_of_ten(2)
            {
                let number = Number { amount, places: number.places + 2, ..number };
                let value = self.amount_of(at, "", number, Measured::Unit(Unit::money("GBP")));
                return Some(self.push(at, value_at, value));
            }
            let unit = match (symbol.next().and_then(currency_of), symbol.next()) {
                (Some(code), None) => Unit::money(code),
                _ => Unit::named(word.split('/').next()?)?,
            };
            let value = self.amount_of(at, digits_only, number, Measured::Unit(unit));
            return Some(self.push(at, value_at, value));
        }
        // `81万円のうち`.
        if let Some(next) = self.next(value_at).filter(|next| next.is_joined)
            && let Some((power, rest)) = [('万', 4), ('億', 8)]
                .iter()
                .find_map(|(sign, power)| Some((*power, next.text.strip_prefix(*sign)?)))
            && rest.starts_with('円')
            && let Some(number) = number.times_power_of_ten(power)
        {
            let bytes = next.text.len() - rest.len() + '円'.len_utf8();
            let value = self.amount_of(at, "", number, Measured::Unit(Unit::money("JPY")));
            return Some(self.push_to(at, value_at + 1, bytes, value));
        }
        let (number, taken) = self.scaled(value_at, number);
        let last = value_at + taken;
        if let Some(next) = self.next(last).filter(|next| is_pence(next.text))
            && next.text != "p"
            && let Some(amount) = number.amount.over_power_of_ten(2)
        {
            let number = Number { amount, places: number.places + 2, ..number };
            let value = self.amount_of(at, "", number, Measured::Unit(Unit::money("GBP")));
            return Some(self.push(at, last + 1, value));
        }
        if self.next(last).is_some_and(|next| is_cents(next.text))
            && let Some(amount) = number.amount.over_power_of_ten(2)
        {
            let number = Number { amount, places: number.places + 2, ..number };
            let value = self.amount_of(at, "", number, Measured::Nothing);
            return Some(self.push(at, last + 1, value));
        }
        if let Some((number, unit, to)) = self.and_a_half(last, number) {
            let value = self.amount_of(at, "", number, Measured::Unit(unit));
            return Some(self.push(at, to, value));
        }
        let measured = self.measured(last);
        let taken = match &measured {
            Measured::Nothing => 0,
            Measured::Noun(_) => 1,
            // `business` may be before the unit.
            Measured::Unit(_) if self.next(last).is_some_and(|it| is_kind(it.text)) => 2,
            Measured::Unit(_) => 1,
        };
        let is_day_unit =
            matches!(&measured, Measured::Unit(unit) if Unit::named("day").is_some_and(|day| day == *unit));
        if self.reads == Reads::All
            && is_day_unit
            && self.get(last + 2).is_some_and(|it| it.text.eq_ignore_ascii_case("ago"))
            && let Some(days) = number.amount.to_whole().and_then(|days| i64::try_from(days).ok())
        {
            return Some(self.push(at, last + 2, Value::RelativeDay(-days)));
        }
        // In a document a small number alone counts steps and parts of it.
        let is_alone = measured == Measured::Nothing && digits_only.len() < 2 && self.reads == Reads::All;
        if is_alone && !self.is_part_of_another(last) && !self.is_total(last) {
            return Some(1);
        }
        if let Some((whole, to)) = self.duration(last, number, &measured) {
            let value = self.amount_of(at, "", whole, Measured::Unit(Unit::SECONDS));
            return Some(self.push(at, to, value));
        }
        let is_unspaced = taken > 0
            && self.get(last + 1).is_some_and(|it| it.is_joined && it.text.starts_with(is_unspaced));
        let bytes = if is_unspaced { self.unit_length(last + 1, &measured) } else { usize::MAX };
        let value = self.amount_of(at, digits_only, number, measured);
        Some(self.push_to(at, last + taken, bytes, value))
    }

    /// How many bytes of a chunk without spaces are the unit.
    fn unit_length(&self, at: usize, measured: &Measured) -> usize {
        let Some(chunk) = self.get(at) else { return 0 };
        match measured {
            Measured::Unit(_) => {
                let mut ends = chunk.text.char_indices().map(|(at, c)| at + c.len_utf8()).take(4);
                let length =
                    ends.by_ref().filter(|end| chunk.text.get(..*end).and_then(Unit::named).is_some()).last();
                length.unwrap_or(chunk.text.len())
            }
            Measured::Nothing | Measured::Noun(_) => chunk.text.chars().next().map_or(0, char::len_utf8),
        }
    }

    /// `12 min 14 s`, `12 minutes and 14 seconds`: all of it in seconds, and its last chunk. `last` is the chunk of the first number.
    pub(super) fn duration(
        &self,
        last: usize,
        first: Number,
        measured: &Measured,
    ) -> Option<(Number, usize)> {
        let Measured::Unit(unit) = measured else { return None };
        let mut smallest = unit.seconds()?;
        let mut total = first.amount.times(smallest)?;
        let mut to = last + 1;
        // The parts go from large to small, so there are few.
        while matches!(self.get(to).map(|it| it.after), Some("" | "." | ","))
            && let skipped = usize::from(self.get(to + 1).is_some_and(|it| AND.contains(&it.text)))
            && let Some(next) = self.get(to + 1 + skipped).filter(|it| it.before.is_empty())
            && let Some(part) = Number::read(next.text, self.locale)
                .or_else(|| number_word::number_of(&folded(next.text), self.locale).map(Number::whole))
            && let Measured::Unit(unit) = self.measured(to + 1 + skipped)
            && let Some(seconds) = unit.seconds().filter(|seconds| *seconds < smallest)
        {
            total = total.plus(part.amount.times(seconds)?)?;
            (smallest, to) = (seconds, to + 2 + skipped);
        }
        let whole = Number { amount: total, places: 0, significant: 1 };
        (to > last + 1).then_some((whole, to))
    }

    /// In evidence, the number that it is if the spaces behind it set thousands apart.
    fn also_spaced(&mut self, at: usize, number: Number, digits: &str, suffix: &str) {
        if self.reads == Reads::All || self.locale.spaces_thousands() {
            return;
        }
        let (whole, more) = self.spaced(at, number, digits, suffix);
        if more > 0 {
            let value = self.amount_of(at, "", whole, self.measured(at + more));
            self.push(at, at + more, value);
        }
    }

    /// `24 h/24` and `24時間365日`: how many chunks they have.
    fn around_the_clock(&self, at: usize) -> Option<usize> {
        let text = |more: usize| self.get(at + more).map(|it| it.text);
        match (text(0)?, text(1)?) {
            ("24", "h/24") => Some(2),
            ("24", "時間") if text(2) == Some("365") => Some(4),
            _ => None,
        }
    }

    /// A number whose thousands are set apart by plain spaces, and how many more chunks it has.
    fn spaced(&self, at: usize, number: Number, digits: &str, suffix: &str) -> (Number, usize) {
        if !suffix.is_empty() || !(1..=3).contains(&digits.len()) {
            return (number, 0);
        }
        let mut whole = digits.to_owned();
        let (mut best, mut more) = (number, 0);
        while let Some(next) = self.next(at + more) {
            let is_group =
                next.text.get(..3).is_some_and(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
            if !is_group || more > 8 {
                break;
            }
            whole = format!("{whole} {}", next.text);
            let Some(read) = Number::read(&whole, self.locale) else { break };
            (best, more) = (read, more + 1);
        }
        (best, more)
    }

    /// Whether a number is the first of `3 of 12`.
    fn is_part_of_another(&self, at: usize) -> bool {
        let is_of = self
            .next(at)
            .is_some_and(|next| matches!(next.text, "of" | "out" | "von" | "sur" | "de" | "des"));
        let after = [2, 3, 4].iter().filter_map(|more| self.get(at + more));
        is_of && after.take(3).any(|it| it.text.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Whether a number is a sum, as in `8 in total`.
    fn is_total(&self, at: usize) -> bool {
        let word = |more: usize| self.get(at + more).map_or("", |it| it.text);
        matches!(word(1), "altogether" | "together" | "insgesamt" | "zusammen")
            || matches!(word(1), "in" | "en" | "au") && word(2) == "total"
    }

    /// What the chunk after a number says that it counts.
    pub(super) fn measured(&self, at: usize) -> Measured {
        // `20 business days`.
        if let Some(next) = self.next(at).filter(|it| is_kind(it.text))
            && next.after.is_empty()
            && let Some(unit) = self.next(at + 1).and_then(|it| Unit::named(it.text))
        {
            return Measured::Unit(unit);
        }
        let Some(next) = self.next(at) else {
            // A symbol is punctuation where nothing else is in its chunk.
            return Measured::Nothing;
        };
        let word = next.text.split(['/', '(']).next().unwrap_or_default();
        let mut symbol = word.chars();
        if let (Some(code), None) = (symbol.next().and_then(currency_of), symbol.next()) {
            return Measured::Unit(Unit::money(code));
        }
        if let Some(unit) = Unit::named(word) {
            return Measured::Unit(unit);
        }
        if next.is_joined
            && word.starts_with(is_unspaced)
            && let Some(unit) = unit_at_start(word)
        {
            return Measured::Unit(unit);
        }
        let is_small = OF_NOT_NOUN.has(&folded(word));
        if next.is_joined
            && let Some(counter) =
                word.chars().next().filter(|c| matches!(c, '件' | '個' | '回' | '名' | '人' | '台' | '行'))
        {
            return Measured::Noun(counter.to_string().into());
        }
        let is_noun =
            !is_small && word.chars().count() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '-');
        match (is_noun, self.reads) {
            (true, Reads::All) => Measured::Noun(folded(word).into()),
            // Of evidence it only matters that the number has a noun.
            (true, Reads::Measures) => Measured::Noun(Box::default()),
            (false, _) => Measured::Nothing,
        }
    }
}
