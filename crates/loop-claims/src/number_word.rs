//! Small numbers in words: `five days`, `half an hour`, `17 and a half hours`.

use std::sync::LazyLock;

use crate::amounts::AND;
use crate::chunk::folded;
use crate::decimal::{Decimal, Number};
use crate::known::Shapes;
use crate::reader::Reader;
use crate::unit::Unit;
use crate::value::{Found, Measured, Reads, Value};
use loop_core::types::Locale;

/// The small number that a folded word names.
pub(super) fn number_of(word: &str, locale: Locale) -> Option<u64> {
    // Most words of a sentence do not have the shape of one.
    if !(2..=14).contains(&word.len()) || !SHAPES.may_have(word) {
        return None;
    }
    let words: &[(&str, u64)] = match locale {
        Locale::De => GERMAN,
        Locale::Fr => FRENCH,
        Locale::Es => SPANISH,
        _ => ENGLISH,
    };
    words.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
}

/// Whether a folded word names a small number in any language.
pub(super) fn is_number(word: &str) -> bool {
    [ENGLISH, GERMAN, FRENCH, SPANISH].iter().any(|words| words.iter().any(|(name, _)| *name == word))
}

/// The words for a small number, for texts of evidence that write it so.
pub(super) fn words_of(number: u64, locale: Locale) -> impl Iterator<Item = &'static str> {
    let words: &[(&str, u64)] = match locale {
        Locale::De => GERMAN,
        Locale::Fr => FRENCH,
        Locale::Es => SPANISH,
        _ => ENGLISH,
    };
    words.iter().filter(move |(_, of)| *of == number).map(|(name, _)| *name)
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    let words = [ENGLISH, GERMAN, FRENCH, SPANISH].into_iter().flatten();
    Shapes::of(words.map(|(word, _)| *word))
});

const ENGLISH: &[(&str, u64)] = &[
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
];

const GERMAN: &[(&str, u64)] = &[
    ("zwei", 2),
    ("drei", 3),
    ("vier", 4),
    ("fünf", 5),
    ("sechs", 6),
    ("sieben", 7),
    ("acht", 8),
    ("neun", 9),
    ("zehn", 10),
    ("elf", 11),
    ("zwölf", 12),
    ("fünfzehn", 15),
    ("zwanzig", 20),
    ("dreißig", 30),
    ("vierzig", 40),
    ("fünfzig", 50),
    ("sechzig", 60),
];

const FRENCH: &[(&str, u64)] = &[
    ("deux", 2),
    ("trois", 3),
    ("quatre", 4),
    ("cinq", 5),
    ("six", 6),
    ("sept", 7),
    ("huit", 8),
    ("neuf", 9),
    ("dix", 10),
    ("onze", 11),
    ("douze", 12),
    ("quinze", 15),
    ("vingt", 20),
    ("trente", 30),
    ("quarante", 40),
    ("cinquante", 50),
    ("soixante", 60),
];

const SPANISH: &[(&str, u64)] = &[
    ("dos", 2),
    ("tres", 3),
    ("cuatro", 4),
    ("cinco", 5),
    ("seis", 6),
    ("siete", 7),
    ("ocho", 8),
    ("nueve", 9),
    ("diez", 10),
    ("once", 11),
    ("doce", 12),
    ("quince", 15),
    ("veinte", 20),
    ("treinta", 30),
    ("cuarenta", 40),
    ("cincuenta", 50),
    ("sesenta", 60),
];

impl Reader<'_> {
    /// `five days`, `two hours and 58 minutes`: only durations, since other words of number count the parts of a text.
    pub(super) fn number_word(&mut self, at: usize) -> Option<usize> {
        let chunk = self.get(at)?;
        let word = folded(chunk.text);
        let half = matches!(&*word, "half" | "halbe" | "demi");
        if half {
            return self.half(at);
        }
        let one = matches!(&*word, "one" | "une" | "una").then_some(1);
        let number = number_of(&word, self.locale).or(one)?;
        let whole = Number { amount: Decimal::whole(number), places: 0, significant: 1 };
        if let Some((whole, unit, to)) = self.and_a_half(at, whole) {
            let value = self.amount_of(at, "", whole, Measured::Unit(unit));
            return Some(self.push(at, to, value));
        }
        let first = Number::whole(number);
        let measured = self.measured(at);
        let Measured::Unit(unit) = &measured else {
            let range = chunk.at..chunk.end();
            let value = Value::Amount { number: first, measured, other: None, is_about: false };
            if one.is_none() && self.reads == Reads::All {
                self.found.push(Found { range, value });
            }
            return None;
        };
        if one.is_some() {
            let units = self.unit_at(at)?;
            let (whole, to) = self.duration(units - 1, first, &measured)?;
            let value = self.amount_of(at, "", whole, Measured::Unit(Unit::SECONDS));
            return Some(self.push(at, to, value));
        }
        let is_ago =
            self.get(at + 2).is_some_and(|it| it.text == "ago") && Unit::named("day").as_ref() == Some(unit);
        if is_ago && let Ok(days) = i64::try_from(number) {
            return Some(self.push(at, at + 2, Value::RelativeDay(-days)));
        }
        if !unit.is_span() {
            return None;
        }
        let units = self.unit_at(at)?;
        // `an drei Tagen 24,75 Stunden` are two values.
        let is_next = self.get(units + 1).is_some_and(|it| it.text.starts_with(|c: char| c.is_ascii_digit()));
        if let Some((whole, to)) = self.duration(units - 1, first, &measured).filter(|_| !is_next) {
            let value = self.amount_of(at, "", whole, Measured::Unit(Unit::SECONDS));
            return Some(self.push(at, to, value));
        }
        let value = self.amount_of(at, "", first, measured);
        Some(self.push(at, units, value))
    }

    /// Where the unit behind a number is: a word such as `business` may be before it.
    pub(super) fn unit_at(&self, at: usize) -> Option<usize> {
        (at + 1..at + 3).find(|at| self.get(*at).is_some_and(|it| Unit::named(it.text).is_some()))
    }

    /// `half an hour`, `half a minute`.
    fn half(&mut self, at: usize) -> Option<usize> {
        let unit_at =
            if self.get(at + 1).is_some_and(|it| matches!(it.text, "a" | "an")) { at + 2 } else { at + 1 };
        let unit = Unit::named(self.get(unit_at)?.text)?;
        let amount = Decimal::of_json("0.5")?;
        unit.seconds()?;
        let number = Number { amount, places: 1, significant: 1 };
        let value = self.amount_of(at, "", number, Measured::Unit(unit));
        Some(self.push(at, unit_at, value))
    }

    /// `17 and a half hours`: the amount, and its last chunk.
    pub(super) fn and_a_half(&self, at: usize, number: Number) -> Option<(Number, Unit, usize)> {
        let is_and = self.get(at + 1).is_some_and(|it| AND.contains(&it.text));
        let from = at + 1 + usize::from(is_and);
        let is_a = self.get(from).is_some_and(|it| matches!(it.text, "a" | "one"));
        let half = self.get(from + usize::from(is_a)).filter(|it| matches!(it.text, "half" | "media"));
        half.filter(|_| is_and)?;
        let unit_at = from + usize::from(is_a) + 1;
        let unit = Unit::named(self.get(unit_at)?.text)?;
        let amount = number.amount.plus(Decimal::of_json("0.5")?)?;
        Some((Number { amount, places: 1, significant: number.significant + 1 }, unit, unit_at))
    }
}
