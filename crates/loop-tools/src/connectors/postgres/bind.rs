//! From a JSON value to a parameter of the type that the server deduced. Each goes as text, which every type can be read
//! from, so that a type that this program does not know works as well.

use std::error::Error;

use bytes::BytesMut;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::connectors::trouble::Trouble;

/// The largest whole number that a floating-point number holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A parameter as PostgreSQL reads it. `None`: NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundParam(pub(crate) Option<String>);

impl ToSql for BoundParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The argument `name` as a parameter of the type `ty`.
///
/// # Errors
/// It does not fit the type, in a message that names both.
pub(crate) fn bound(name: &str, value: Option<&Value>, ty: &Type) -> Result<BoundParam, Trouble> {
    let value = match value {
        None | Some(Value::Null) => return Ok(BoundParam(None)),
        Some(value) => value,
    };
    let text = text_of(value, ty).map_err(|expected| {
        let shown: String = value.to_string().chars().take(60).collect();
        Trouble::Input(format!("`{name}` is {shown}, and the query takes {expected} there"))
    })?;
    if text.contains('\0') {
        let message = format!("`{name}` holds a NUL character, which PostgreSQL does not store; take it out");
        return Err(Trouble::Input(message));
    }
    Ok(BoundParam(Some(text)))
}

/// The text of a value, or what is expected in its place. The server checks what a text says.
fn text_of(value: &Value, ty: &Type) -> Result<String, String> {
    if let Kind::Domain(inner) = ty.kind() {
        return text_of(value, inner);
    }
    if let Kind::Array(inner) = ty.kind() {
        return match value {
            Value::Array(items) => array(items, inner),
            // The server reads a text as an array, such as `{1,2}`.
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!("a list ({})", ty.name())),
        };
    }
    let expected = |what: &str| Err(format!("{what} ({})", ty.name()));
    let is = |types: &[Type]| types.contains(ty);
    match value {
        _ if is(&[Type::JSON, Type::JSONB]) => match value {
            // A text is the JSON that it holds: models give an object as a text.
            Value::String(text) => match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => Ok(text.clone()),
                Err(_) => expected("JSON"),
            },
            other => Ok(other.to_string()),
        },
        Value::Bool(flag) if is(&[Type::BOOL]) || is_text(ty) => Ok(flag.to_string()),
        Value::Bool(_) => expected(name_of(ty)),
        Value::Number(number) if is(&[Type::INT2, Type::INT4, Type::INT8, Type::OID]) => {
            let whole = number.as_i64().or_else(|| number.as_f64().and_then(whole));
            let whole = whole.filter(|whole| range(ty).contains(whole));
            whole.map_or_else(|| expected(name_of(ty)), |whole| Ok(whole.to_string()))
        }
        // What was rounded when it was read must not be stored as if it was exact.
        Value::Number(number)
            if number.is_f64()
                && number.as_f64().is_some_and(|real| real.abs() > EXACT)
                && is(&[Type::NUMERIC]) =>
        {
            Err(format!("a number of this size as a text ({})", ty.name()))
        }
        Value::Number(number)
            if is(&[Type::FLOAT4, Type::FLOAT8, Type::NUMERIC, Type::MONEY]) || is_text(ty) =>
        {
            Ok(number.to_string())
        }
        Value::Number(number) if !is_known(ty) => Ok(number.to_string()),
        Value::Number(_) => expected(name_of(ty)),
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) if is_text(ty) => Ok(loop_core::types::canonical(value)),
        Value::Array(_) | Value::Object(_) => expected(name_of(ty)),
        Value::Null => Ok(String::new()),
    }
}

/// An array as PostgreSQL reads it. Every element is quoted, so that none can end another.
fn array(items: &[Value], inner: &Type) -> Result<String, String> {
    let mut elements = Vec::with_capacity(items.len());
    for item in items {
        elements.push(match item {
            Value::Null => "NULL".to_owned(),
            Value::Array(items) => array(items, inner)?,
            item => {
                let text = text_of(item, inner)?;
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
        });
    }
    Ok(format!("{{{}}}", elements.join(",")))
}

/// A floating-point number that is a whole number, exactly.
fn whole(real: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough to be exact")]
    (real.fract() == 0.0 && real.abs() <= EXACT).then_some(real as i64)
}

fn range(ty: &Type) -> std::ops::RangeInclusive<i64> {
    match *ty {
        Type::INT2 => i16::MIN.into()..=i16::MAX.into(),
        Type::INT4 => i32::MIN.into()..=i32::MAX.into(),
        Type::OID => 0..=u32::MAX.into(),
        _ => i64::MIN..=i64::MAX,
    }
}

fn is_text(ty: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::CHAR, Type::XML, Type::UNKNOWN].contains(ty)
}

/// Whether a number is known not to fit.
fn is_known(ty: &Type) -> bool {
    name_of(ty) != "another kind of value"
}

/// What a person calls a value of the type.
fn name_of(ty: &Type) -> &'static str {
    match *ty {
        Type::BOOL => "true or false",
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => "a whole number in its range",
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC | Type::MONEY => "a number",
        Type::UUID => "a UUID",
        Type::DATE => "a date such as 2026-03-01",
        Type::TIME | Type::TIMETZ => "a time such as 14:30",
        Type::TIMESTAMP | Type::TIMESTAMPTZ => "a time such as 2026-03-01T14:30:00Z",
        Type::BYTEA => "bytes",
        _ => "another kind of value",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn text(value: Value, ty: &Type) -> String {
        bound("x", Some(&value), ty).unwrap().0.unwrap()
    }

    #[track_caller]
    fn refused(value: Value, ty: &Type) -> String {
        match bound("x", Some(&value), ty) {
            Err(Trouble::Input(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_become_what_the_type_takes() {
        // S0-64
        assert_eq!(text(json!(5), &Type::INT4), "5");
        assert_eq!(text(json!(5.0), &Type::INT8), "5");
        assert_eq!(text(json!(i64::MIN), &Type::INT8), "-9223372036854775808");
        assert_eq!(text(json!("12"), &Type::INT4), "12", "the server reads it");
        assert_eq!(text(json!(1.25), &Type::NUMERIC), "1.25");
        assert_eq!(text(json!(u64::MAX), &Type::NUMERIC), "18446744073709551615");
        assert_eq!(text(json!(true), &Type::BOOL), "true");
        assert_eq!(text(json!(7), &Type::TEXT), "7");
        assert_eq!(text(json!({"b": 1, "a": 2}), &Type::TEXT), "{\"a\":2,\"b\":1}");
        assert_eq!(text(json!({"a": [1, null]}), &Type::JSONB), "{\"a\":[1,null]}");
        assert_eq!(text(json!("{\"a\": 1}"), &Type::JSONB), "{\"a\": 1}");
        assert_eq!(
            text(json!("10.0.0.1"), &Type::INET),
            "10.0.0.1",
            "a type that this program does not know"
        );
        for none in [None, Some(&Value::Null)] {
            assert_eq!(bound("x", none, &Type::INT4), Ok(BoundParam(None)));
        }
    }

    #[test]
    fn an_element_of_a_list_cannot_end_another() {
        let list = json!(["a,b", "c\"},{\"d", "\\", null, "", "NULL"]);
        assert_eq!(text(list, &Type::TEXT_ARRAY), "{\"a,b\",\"c\\\"},{\\\"d\",\"\\\\\",NULL,\"\",\"NULL\"}");
        assert_eq!(text(json!([[1, 2], [3, 4]]), &Type::INT4_ARRAY), "{{\"1\",\"2\"},{\"3\",\"4\"}}");
        assert_eq!(
            refused(json!([1, "x", 2.5]), &Type::INT4_ARRAY),
            "`x` is [1,\"x\",2.5], and the query takes a whole number in its range (int4) there"
        );
        assert_eq!(
            refused(json!(1), &Type::INT4_ARRAY),
            "`x` is 1, and the query takes a list (_int4) there"
        );
    }

    #[test]
    fn what_does_not_fit_says_what_is_expected() {
        let whole = |number: &str, ty: &str| {
            format!("`x` is {number}, and the query takes a whole number in its range ({ty}) there")
        };
        assert_eq!(refused(json!(2.5), &Type::INT4), whole("2.5", "int4"));
        assert_eq!(refused(json!(40_000), &Type::INT2), whole("40000", "int2"));
        assert_eq!(refused(json!(u64::MAX), &Type::INT8), whole("18446744073709551615", "int8"));
        assert_eq!(refused(json!(-1), &Type::OID), whole("-1", "oid"));
        assert_eq!(refused(json!(true), &Type::INT4), whole("true", "int4"));
        assert!(refused(json!(1), &Type::BOOL).ends_with("takes true or false (bool) there"));
        assert!(refused(json!(1), &Type::TIMESTAMPTZ).contains("a time such as 2026-03-01T14:30:00Z"));
        assert!(refused(json!(1e300), &Type::NUMERIC).contains("as a text (numeric)"), "it may be rounded");
        assert!(refused(json!("{a"), &Type::JSON).ends_with("takes JSON (json) there"));
        assert!(refused(json!({"a": 1}), &Type::UUID).ends_with("takes a UUID (uuid) there"));
        assert!(refused(json!("a\0b"), &Type::TEXT).contains("NUL"));
        assert!(refused(json!("x".repeat(500)), &Type::JSON).len() < 140);
    }
}
