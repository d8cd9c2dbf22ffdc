//! From a value as the server sends it to JSON.

use std::error::Error;

use serde_json::Value;
use tokio_postgres::types::{FromSql, Kind, Type};

use crate::connectors::sql::rows::cut_text;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL's dates begin.
const EPOCH_DAYS: i64 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;
/// Digits of a number that a JSON reader keeps in every case.
const EXACT_DIGITS: usize = 15;

/// A value as it is sent, not yet read.
#[derive(Debug)]
pub(crate) struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Whether values of the type can be read. Others are read as the text that the server makes of them.
pub(crate) fn is_readable(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Domain(inner) => is_readable(inner),
        Kind::Array(inner) => !matches!(inner.kind(), Kind::Array(_)) && is_readable(inner),
        Kind::Enum(_) => true,
        _ => [
            Type::BOOL,
            Type::CHAR,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::OID,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::NUMERIC,
            Type::TEXT,
            Type::VARCHAR,
            Type::BPCHAR,
            Type::NAME,
            Type::XML,
            Type::UNKNOWN,
            Type::JSON,
            Type::JSONB,
            Type::UUID,
            Type::DATE,
            Type::TIME,
            Type::TIMESTAMP,
            Type::TIMESTAMPTZ,
            Type::BYTEA,
            Type::VOID,
        ]
        .contains(ty),
    }
}

/// The value as JSON, with texts of at most so many bytes.
///
/// # Errors
/// The bytes are not a value of the type.
pub(crate) fn json_of(raw: Option<Raw<'_>>, ty: &Type, cell_bytes_max: usize) -> Result<Value, Unreadable> {
    match raw {
        None => Ok(Value::Null),
        Some(Raw(bytes)) => read(bytes, ty, cell_bytes_max).ok_or(Unreadable),
    }
}

/// The bytes are not a value of their type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

fn read(bytes: &[u8], ty: &Type, max: usize) -> Option<Value> {
    match ty.kind() {
        Kind::Domain(inner) => return read(bytes, inner, max),
        Kind::Array(inner) => return array(bytes, inner, max),
        Kind::Enum(_) => return Some(cut_text(bytes, max)),
        _ => {}
    }
    Some(match *ty {
        Type::BOOL => (*bytes.first()? != 0).into(),
        Type::INT2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
        Type::INT4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
        Type::INT8 => i64::from_be_bytes(bytes.try_into().ok()?).into(),
        Type::OID => u32::from_be_bytes(bytes.try_into().ok()?).into(),
        // The shortest digits of a short number are not those of a long one.
        Type::FLOAT4 => {
            let real = f32::from_be_bytes(bytes.try_into().ok()?);
            number(f64::from(real), real.to_string().parse().ok())
        }
        Type::FLOAT8 => {
            let real = f64::from_be_bytes(bytes.try_into().ok()?);
            number(real, Some(real))
        }
        Type::NUMERIC => numeric(bytes)?.into(),
        Type::JSON => json(bytes, max),
        Type::JSONB => match bytes.split_first()? {
            (1, text) => json(text, max),
            _ => return None,
        },
        Type::UUID => uuid(bytes)?.into(),
        Type::DATE => match i32::from_be_bytes(bytes.try_into().ok()?) {
            i32::MAX => "infinity".into(),
            i32::MIN => "-infinity".into(),
            days => date(days.into()).into(),
        },
        Type::TIME => time(i64::from_be_bytes(bytes.try_into().ok()?)).into(),
        Type::TIMESTAMP => timestamp(bytes, "")?.into(),
        Type::TIMESTAMPTZ => timestamp(bytes, "Z")?.into(),
        Type::BYTEA => format!("<{} bytes>", bytes.len()).into(),
        Type::VOID => Value::Null,
        _ => cut_text(bytes, max),
    })
}

/// A number, or the word for what is not one.
fn number(real: f64, shortest: Option<f64>) -> Value {
    if real.is_nan() {
        "NaN".into()
    } else if real.is_infinite() {
        if real > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        shortest.unwrap_or(real).into()
    }
}

/// JSON as it is, or its text where it is long or holds a number that would be rounded.
fn json(text: &[u8], max: usize) -> Value {
    if text.len() > max || has_long_number(text) {
        return cut_text(text, max);
    }
    serde_json::from_slice(text).unwrap_or_else(|_| cut_text(text, max))
}

/// Whether JSON holds a number of more digits than every reader keeps.
fn has_long_number(text: &[u8]) -> bool {
    let (mut digits, mut in_string, mut escaped) = (0, false, false);
    for byte in text {
        if in_string {
            (in_string, escaped) = match byte {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        in_string = *byte == b'"';
        digits = match byte {
            b'0'..=b'9' => digits + 1,
            b'.' | b'-' | b'+' | b'e' | b'E' if digits > 0 => digits,
            _ => 0,
        };
        if digits > EXACT_DIGITS {
            return true;
        }
    }
    false
}

/// All digits of a NUMERIC, as PostgreSQL writes them.
fn numeric(bytes: &[u8]) -> Option<String> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut words = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
    let (count, weight, sign, scale) = (words.next()?, words.next()?, words.next()?, words.next()?);
    match sign {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let groups: Vec<u16> = words.collect();
    if groups.len() != usize::from(count) || groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    let weight = i32::from(weight.cast_signed());
    let group = |power: i32| {
        let at = usize::try_from(weight - power).ok();
        at.and_then(|at| groups.get(at)).copied().unwrap_or_default()
    };
    let mut text = String::new();
    for power in (0..=weight.max(0)).rev() {
        text.push_str(&format!("{:04}", group(power)));
    }
    let whole = text.trim_start_matches('0');
    let mut text = if whole.is_empty() { "0".to_owned() } else { whole.to_owned() };
    let scale = usize::from(scale);
    if scale > 0 {
        let mut fraction = String::new();
        let mut power = -1;
        while fraction.len() < scale {
            fraction.push_str(&format!("{:04}", group(power)));
            power -= 1;
        }
        fraction.truncate(scale);
        text = format!("{text}.{fraction}");
    }
    Some(if sign == 0x4000 { format!("-{text}") } else { text })
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to);
    Some([part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?].join("-"))
}

/// A day after 2000-01-01 as ISO 8601 writes it.
fn date(days: i64) -> String {
    // Years of this count begin in March, so that a leap day is the last of its year.
    let days = days + EPOCH_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 {
        "-"
    } else if year > 9_999 {
        "+"
    } else {
        ""
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let text = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match micros % 1_000_000 {
        0 => text,
        part => format!("{text}.{}", format!("{part:06}").trim_end_matches('0')),
    }
}

/// A time as RFC 3339 writes it.
fn timestamp(bytes: &[u8], zone: &str) -> Option<String> {
    Some(match i64::from_be_bytes(bytes.try_into().ok()?) {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        micros => {
            let (days, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
            format!("{}T{}{zone}", date(days), time(rest))
        }
    })
}

/// An array, with as many elements as its bytes allow.
fn array(bytes: &[u8], inner: &Type, max: usize) -> Option<Value> {
    let mut bytes = Bytes(bytes);
    let dimensions = usize::try_from(bytes.i32()?).ok()?;
    let (_has_nulls, _element) = (bytes.i32()?, bytes.i32()?);
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(bytes.i32()?).ok()?);
        let _first_index = bytes.i32()?;
    }
    if lengths.is_empty() {
        return Some(Value::Array(Vec::new()));
    }
    let all = bytes.0.len();
    let mut left = max;
    let mut value = elements(&mut bytes, &lengths, inner, max, &mut left)?;
    if left == 0
        && let Value::Array(items) = &mut value
    {
        items.push(format!("… [cut: {} of {all} bytes]", all - bytes.0.len()).into());
    }
    Some(value)
}

fn elements(
    bytes: &mut Bytes<'_>,
    lengths: &[usize],
    inner: &Type,
    max: usize,
    left: &mut usize,
) -> Option<Value> {
    let (length, deeper) = lengths.split_first()?;
    let mut items = Vec::new();
    for _ in 0..*length {
        if *left == 0 {
            break;
        }
        items.push(if deeper.is_empty() {
            match usize::try_from(bytes.i32()?) {
                Err(_) => {
                    *left = left.saturating_sub(4);
                    Value::Null
                }
                Ok(size) => {
                    *left = left.saturating_sub(size + 4);
                    read(bytes.take(size)?, inner, max)?
                }
            }
        } else {
            elements(bytes, deeper, inner, max, left)?
        });
    }
    Some(Value::Array(items))
}

/// Bytes that are read from their beginning.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
