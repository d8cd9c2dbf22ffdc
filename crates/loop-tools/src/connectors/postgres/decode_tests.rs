//! Tests of what values become. What a real server sends is tested with one; here is what no server should send, and dates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::json;

use super::*;

fn numeric_of(words: &[u16]) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    numeric(&bytes)
}

#[test]
fn days_are_those_of_the_calendar() {
    for (days, text) in [
        (0, "2000-01-01"),
        (59, "2000-02-29"),
        (60, "2000-03-01"),
        (-1, "1999-12-31"),
        (-36_465, "1900-03-01"),
        (2_921_939, "9999-12-31"),
        (2_921_940, "+10000-01-01"),
        (-730_120, "0000-12-31"),
        (-730_486, "-0001-12-31"),
    ] {
        assert_eq!(date(days), text);
    }
    assert_eq!(timestamp(&(-1_i64).to_be_bytes(), "Z").unwrap(), "1999-12-31T23:59:59.999999Z");
    assert_eq!(timestamp(&500_000_i64.to_be_bytes(), "").unwrap(), "2000-01-01T00:00:00.5");
    assert_eq!(timestamp(&i64::MIN.to_be_bytes(), "Z").unwrap(), "-infinity");
}

#[test]
fn a_numeric_keeps_every_digit() {
    assert_eq!(numeric_of(&[0, 0, 0, 0]).unwrap(), "0");
    assert_eq!(numeric_of(&[2, 0, 0, 2, 12, 5_000]).unwrap(), "12.50");
    assert_eq!(numeric_of(&[1, 65_534, 0x4000, 8, 1]).unwrap(), "-0.00000001");
    assert_eq!(numeric_of(&[1, 2, 0, 0, 7]).unwrap(), "700000000");
    assert_eq!(numeric_of(&[0, 0, 0xC000, 0]).unwrap(), "NaN");
    assert_eq!(numeric_of(&[2, 0, 0, 0, 1]), None, "it announces two groups");
    assert_eq!(numeric_of(&[1, 0, 0, 0, 10_000]), None);
    assert_eq!(numeric(&[0, 1]), None);
}

#[test]
fn json_stays_json_unless_a_number_would_be_rounded() {
    assert_eq!(json(br#"{"a": [1, "x", null]}"#, 100), json!({"a": [1, "x", null]}));
    assert_eq!(json(br#"{"a": 12345678901234567890.5}"#, 100), json!("{\"a\": 12345678901234567890.5}"));
    assert_eq!(json(br#"["12345678901234567890\""]"#, 100), json!(["12345678901234567890\""]));
    assert_eq!(json(br#"{"a": "long"}"#, 4), json!("{\"a\"… [cut: 4 of 13 bytes]"));
}

#[test]
fn bytes_that_are_no_value_are_an_error_and_never_a_panic() {
    let types = [
        Type::BOOL,
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::FLOAT4,
        Type::FLOAT8,
        Type::NUMERIC,
        Type::JSONB,
        Type::UUID,
        Type::DATE,
        Type::TIMESTAMPTZ,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::TEXT,
    ];
    for ty in types {
        for length in 0..24 {
            for byte in [0, 1, 0x7F, 0x80, 0xFF] {
                let bytes = vec![byte; length];
                _ = json_of(Some(Raw(&bytes)), &ty, 10);
            }
        }
    }
    let two_billion = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 1];
    assert_eq!(json_of(Some(Raw(&two_billion)), &Type::INT4_ARRAY, 1_000), Err(Unreadable));
    assert_eq!(json_of(Some(Raw(&[1])), &Type::INT8, 10), Err(Unreadable));
}
