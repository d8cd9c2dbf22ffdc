//! Forms in which one value is written: an e-mail address, a phone number, an IBAN, a day with or without a time.
//!
//! Two texts of one form are the same value if they differ only in case, spacing or order of writing. All other texts
//! are compared exactly, because file names and ids may differ in case alone.

use serde_json::Value;

use crate::policy::scalar::Scalar;

/// The maximum words that one value is written in, as an IBAN in groups of four.
const MAX_WORDS: usize = 9;

/// The fewest digits of a phone number that is recognised as one.
const PHONE_DIGITS: usize = 7;

/// The names of the months, by their first three letters.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A value in a form that is written in several ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Canonical {
    /// In small letters.
    Email(String),
    /// Its digits, with a `+` before them if it has one.
    Phone(String),
    /// In capitals without blanks.
    Iban(String),
    Day(Day),
}

/// A day, and the time of day as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    /// `None`: it is written without its year.
    year: Option<u32>,
    month: u32,
    day: u32,
    /// Hours and minutes. Empty: it is written without one.
    time: String,
}

impl Canonical {
    /// The form of a whole text. `None`: it has none of them.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > 64 || !text.contains(|c: char| c.is_ascii_digit() || c == '@') {
            return None;
        }
        if let Some((name, host)) = text.split_once('@') {
            let is_address = |part: &str| !part.is_empty() && !part.contains([' ', '@', '<', '>', ',']);
            let is_email = is_address(name) && is_address(host) && host.contains('.') && text.is_ascii();
            return is_email.then(|| Self::Email(text.to_ascii_lowercase()));
        }
        day(text).map(Self::Day).or_else(|| iban(text)).or_else(|| phone(text))
    }

    /// Whether some of a text's words, next to each other, are this value.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ends =
            |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | ')' | ']' | '>' | '"' | '”' | '\'');
        let opens = |c: char| matches!(c, '(' | '[' | '<' | '"' | '“' | '\'');
        (0..words.len()).any(|from| {
            (1..=MAX_WORDS).map_while(|count| words.get(from..from + count)).any(|run| {
                let joined = run.join(" ");
                Self::of(joined.trim_start_matches(opens).trim_end_matches(ends)).as_ref() == Some(self)
            })
        })
    }
}

impl Day {
    /// Whether it is the other day, or one of the two is written without its year or without a time.
    fn fits(&self, other: &Self) -> bool {
        (self.month, self.day) == (other.month, other.day)
            && self.year.zip(other.year).is_none_or(|(own, other)| own == other)
            && (self.time.is_empty() || self.time == other.time)
    }
}

/// Whether a call's value is the planned one: equal, or the same in another form. A list of one is its element.
pub(crate) fn is_planned(planned: &Value, value: &Value) -> bool {
    match (planned, value) {
        (Value::String(planned), Value::String(value)) => {
            planned == value
                || match (Canonical::of(planned), Canonical::of(value)) {
                    (Some(Canonical::Day(planned)), Some(Canonical::Day(value))) => planned.fits(&value),
                    (Some(planned), Some(value)) => planned == value,
                    (None, None) => folded(planned) == folded(value),
                    (Some(_), None) | (None, Some(_)) => false,
                }
        }
        (Value::Number(_), Value::Number(_) | Value::String(_)) | (Value::String(_), Value::Number(_)) => {
            Scalar::of(planned).is_some_and(|planned| planned.is(value))
        }
        (Value::Array(planned), Value::Array(values)) => {
            planned.len() == values.len() && planned.iter().zip(values).all(|(own, it)| is_planned(own, it))
        }
        (planned, Value::Array(values)) if !planned.is_null() => match values.as_slice() {
            [value] => is_planned(planned, value),
            _ => false,
        },
        (Value::Object(planned), Value::Object(values)) => {
            planned.len() == values.len()
                && planned.iter().all(|(name, own)| values.get(name).is_some_and(|it| is_planned(own, it)))
        }
        (planned, value) => planned == value,
    }
}

/// A text in small letters with one blank between words.
fn folded(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

fn phone(text: &str) -> Option<Canonical> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let is_phone =
        text.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | '-' | '(' | ')' | '/' | '+' | '.'));
    let plus = text.starts_with('+');
    // Digits alone are an id as well.
    let is_grouped = plus || text.contains([' ', '-', '(', '/']);
    (is_phone && is_grouped && (PHONE_DIGITS..=15).contains(&digits.len()))
        .then(|| Canonical::Phone(if plus { format!("+{digits}") } else { digits }))
}

fn iban(text: &str) -> Option<Canonical> {
    let compact: String = text.chars().filter(|c| *c != ' ').collect();
    let (country, rest) = compact.split_at_checked(2)?;
    let is_iban = (15..=34).contains(&compact.len())
        && country.bytes().all(|c| c.is_ascii_alphabetic())
        && rest.bytes().take(2).all(|c| c.is_ascii_digit())
        && rest.bytes().all(|c| c.is_ascii_alphanumeric());
    is_iban.then(|| Canonical::Iban(compact.to_ascii_uppercase()))
}

/// A day as `2026-05-15`, `05-15`, `15.05.2026`, `15 May 2026`, `May 15th, 2026`, with a time after it or not.
fn day(text: &str) -> Option<Day> {
    let (date, time) = match text.find([' ', 'T']).map(|at| text.split_at(at)) {
        Some((date, time)) if date.contains(['-', '.']) => (date, time.trim_start_matches([' ', 'T'])),
        _ => (text, ""),
    };
    let time = minutes(time)?;
    let numbers = |separator: char| -> Option<Vec<u32>> {
        let digits =
            |part: &str| part.bytes().all(|c| c.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        date.split(separator).map(digits).collect()
    };
    let of = |year: Option<u32>, month: u32, day: u32| {
        ((1..=12).contains(&month) && (1..=31).contains(&day)).then(|| Day {
            year,
            month,
            day,
            time: time.clone(),
        })
    };
    if let Some(parts) = numbers('-') {
        return match (parts.as_slice(), date.len()) {
            ([year, month, day], 8..=10) if *year > 999 => of(Some(*year), *month, *day),
            ([month, day], 5) => of(None, *month, *day),
            _ => None,
        };
    }
    if let Some([day, month, year]) = numbers('.').as_deref() {
        return of(Some(*year), *month, *day).filter(|_| *year > 999);
    }
    let (mut year, mut month, mut number) = (None, None, None);
    for word in date.split([' ', ',']).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic());
        if let Some(at) = MONTHS.iter().position(|name| word.starts_with(name) && word.len() <= 9) {
            month = Some(at as u32 + 1).filter(|_| month.is_none());
        } else if let Ok(found) = digits.parse::<u32>() {
            let place = if found > 999 { &mut year } else { &mut number };
            if place.replace(found).is_some() {
                return None;
            }
        } else if word != "of" && word != "the" {
            return None;
        }
    }
    of(year, month?, number?)
}

/// A time of day as hours and minutes: `9:00`, `09:00:00` and `09:00Z` are `09:00`. `None`: it is none.
fn minutes(time: &str) -> Option<String> {
    if time.is_empty() {
        return Some(String::new());
    }
    let mut parts = time.trim_end_matches('Z').splitn(3, ':');
    let (hours, minutes) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    let is_whole = parts.next().is_none_or(|seconds| seconds.trim_end_matches(['0', '.']).is_empty());
    (hours < 24 && minutes < 60 && is_whole).then(|| format!("{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_value_is_written_in_several_ways() {
        let same = [
            (json!("Ann@Acme.Example"), json!("ann@acme.example")),
            (json!("GB29 NWBK 6016 1331 9268 19"), json!("GB29NWBK60161331926819")),
            (json!("+1 (555) 010-0000"), json!("+15550100000")),
            (json!("2026-05-15"), json!("15 May 2026")),
            (json!("May 15th, 2026"), json!("15.05.2026")),
            (json!("05-15"), json!("2026-05-15 09:00")),
            (json!("2026-05-15T09:00:00"), json!("2026-05-15 9:00")),
            (json!("ann@acme.example"), json!(["ann@acme.example"])),
            (json!(7), json!(7.0)),
            (json!("Lunch  with Ann"), json!("lunch with ann")),
        ];
        for (planned, value) in same {
            assert!(is_planned(&planned, &value), "{planned} and {value}");
        }
        let others = [
            (json!("ann@acme.example"), json!("ann@acme.example.evil.example")),
            (json!("ann@acme.example"), json!(["ann@acme.example", "eve@evil.example"])),
            (json!("2026-05-15"), json!("2026-05-16")),
            (json!("2026-05-15 09:00"), json!("2026-05-15 10:00")),
            (json!("2026-05-15 09:00"), json!("2026-05-15")),
            (json!("GB29 NWBK 6016 1331 9268 19"), json!("GB29NWBK60161331926818")),
            (json!(7), json!(8)),
            (json!(null), json!(["x"])),
        ];
        for (planned, value) in others {
            assert!(!is_planned(&planned, &value), "{planned} and {value}");
        }
    }

    #[test]
    fn a_form_is_found_among_words() {
        let has = |text: &str, value: &str| Canonical::of(value).is_some_and(|form| form.is_in(text));
        assert!(has("Pay it to GB29 NWBK 6016 1331 9268 19, please.", "GB29NWBK60161331926819"));
        assert!(has("Call (+1 555 010 0000).", "+1 555-010-0000"));
        assert!(has("Write to <Ann@Acme.example>.", "ann@acme.example"));
        assert!(!has("Write to bo.ann@acme.example.", "ann@acme.example"));
        assert!(!has("Pay 6016 1331 9268 19", "GB29NWBK60161331926819"));
    }
}
