//! What values of every type become, and which arguments fit.

use loop_core::types::{Effect, Status};
use serde_json::{Value, json};

use super::world::{Caller, data, read, source};

async fn value(sql: &str) -> Value {
    let seen = read(&format!("SELECT {sql} AS v")).call(json!({})).await;
    assert_eq!(seen.status, Status::Ok, "{sql}: {}", seen.summary);
    data(&seen)[0]["v"].clone()
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn values_of_every_type_become_json() {
    // S0-64
    for (sql, expected) in [
        ("NULL::int", json!(null)),
        ("true", json!(true)),
        ("(-7)::smallint", json!(-7)),
        ("2147483647", json!(2_147_483_647)),
        ("9223372036854775807", json!(i64::MAX)),
        ("0.1::real", json!(0.1)),
        ("1e300::float8", json!(1e300)),
        ("'NaN'::float8", json!("NaN")),
        ("'-Infinity'::real", json!("-Infinity")),
        ("123456789012345678901234567890.1200", json!("123456789012345678901234567890.1200")),
        ("-0.00001::numeric", json!("-0.00001")),
        ("10000::numeric", json!("10000")),
        ("100000000.0001::numeric", json!("100000000.0001")),
        ("'NaN'::numeric", json!("NaN")),
        ("'é 字'::varchar", json!("é 字")),
        ("'x'::char(3)", json!("x  ")),
        ("'happy'::mood", json!("happy")),
        ("5::positive", json!(5)),
        ("'0193a1f0-0000-7000-8000-000000000001'::uuid", json!("0193a1f0-0000-7000-8000-000000000001")),
        ("'{\"b\": [1, null]}'::jsonb", json!({"b": [1, null]})),
        ("'{\"b\": 1.50}'::json", json!({"b": 1.5})),
        ("'2026-03-01'::date", json!("2026-03-01")),
        ("'infinity'::date", json!("infinity")),
        ("'14:30:00.25'::time", json!("14:30:00.25")),
        ("'2026-03-01 14:30:00.5'::timestamp", json!("2026-03-01T14:30:00.5")),
        ("'2026-03-01 14:30:00+02'::timestamptz", json!("2026-03-01T12:30:00Z")),
        ("'-infinity'::timestamptz", json!("-infinity")),
        ("'1969-07-20 20:17:40Z'::timestamptz", json!("1969-07-20T20:17:40Z")),
        ("'\\xdeadbeef'::bytea", json!("<4 bytes>")),
        ("array[1, NULL, 3]", json!([1, null, 3])),
        ("array[['a', 'b'], ['c', 'd']]", json!([["a", "b"], ["c", "d"]])),
        ("'{}'::text[]", json!([])),
        ("array['sad', 'ok']::mood[]", json!(["sad", "ok"])),
        ("array[1.50, 2]::numeric[]", json!(["1.50", "2"])),
        // Types that only the server can write.
        ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
        ("'1 day 02:00'::interval", json!("1 day 02:00:00")),
        ("'[1,5)'::int4range", json!("[1,5)")),
        ("row(1, 'x')", json!("(1,x)")),
        ("point(1, 2)", json!("(1,2)")),
        ("B'101'", json!("101")),
        ("array['10.0.0.1'::inet]", json!("{10.0.0.1}")),
    ] {
        assert_eq!(value(sql).await, expected, "{sql}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn columns_keep_their_order_and_their_names_beside_a_type_that_the_server_writes() {
    let seen =
        read("SELECT 2 AS \"b \"\"q\", '1 day'::interval AS \"a é\", 1 AS c -- end").call(json!({})).await;
    assert!(
        seen.markdown.contains("| b \"q | a é | c |\n| --- | --- | --- |\n| 2 | 1 day | 1 |"),
        "{}",
        seen.markdown
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn control_characters_do_not_break_the_table() {
    let seen = read("SELECT E'a|b\\nc\\x1b[2J\\u202e' AS v").call(json!({})).await;
    let last = seen.markdown.lines().last().unwrap();
    assert!(
        last.starts_with("| a\\|b") && !seen.markdown.contains(['\u{1b}', '\u{202e}']),
        "{}",
        seen.markdown
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn arguments_become_the_type_that_the_query_needs() {
    // S0-64
    for (sql, argument, expected) in [
        ("1 + :x", json!(41), json!(42)),
        (":x::numeric + 0.1", json!(0.2), json!("0.3")),
        (":x::numeric", json!("12345678901234567890.123"), json!("12345678901234567890.123")),
        ("NOT :x::bool", json!(false), json!(true)),
        ("upper(:x)", json!("é'; --"), json!("É'; --")),
        (
            "id FROM (VALUES ('0193a1f0-0000-7000-8000-000000000001'::uuid)) AS t(id) WHERE id = :x --",
            json!("0193A1F0-0000-7000-8000-000000000001"),
            json!("0193a1f0-0000-7000-8000-000000000001"),
        ),
        (":x::timestamptz", json!("2026-03-01T12:30:00+02:00"), json!("2026-03-01T10:30:00Z")),
        (":x::date + 1", json!("2026-02-28"), json!("2026-03-01")),
        (":x::jsonb -> 'a'", json!("{\"a\": [1]}"), json!([1])),
        (":x::jsonb", json!([{"a": 1}]), json!([{"a": 1}])),
        ("5 = ANY(:x)", json!([1, 5]), json!(true)),
        ("array_to_string(:x::text[], '~')", json!(["a\"b", "c,d", "\\", "{}"]), json!("a\"b~c,d~\\~{}")),
        (":x::mood", json!("ok"), json!("ok")),
        (":x::inet", json!("10.0.0.1"), json!("10.0.0.1/32")),
        (":x::positive", json!(5), json!(5)),
        ("coalesce(:x::int, 7)", json!(null), json!(7)),
    ] {
        let seen =
            read(&format!("SELECT {sql} AS v").replace("-- AS v", "")).call(json!({ "x": argument })).await;
        assert_eq!(seen.status, Status::Ok, "{sql}: {}", seen.summary);
        let row = data(&seen)[0].as_object().unwrap().values().next().unwrap().clone();
        assert_eq!(row, expected, "{sql}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn an_argument_that_does_not_fit_is_said_with_its_name() {
    let source = source("reader");
    for (sql, argument, says) in [
        (
            "1 + :x",
            json!("many"),
            "`x` does not fit the query: invalid input syntax for type integer: \"many\"",
        ),
        ("1 + :x", json!(2.5), "`x` is 2.5, and the query takes a whole number in its range (int4) there"),
        (
            "1 + :x",
            json!(3_000_000_000_i64),
            "`x` is 3000000000, and the query takes a whole number in its range (int4) there",
        ),
        (
            ":x::timestamptz",
            json!("soonish"),
            "`x` does not fit the query: invalid input syntax for type timestamp with time zone: \"soonish\"",
        ),
        (
            ":x::date",
            json!("2026-02-30"),
            "`x` does not fit the query: date/time field value out of range: \"2026-02-30\"",
        ),
        (":x::uuid", json!("7"), "`x` does not fit the query: invalid input syntax for type uuid: \"7\""),
        (
            ":x::mood",
            json!("angry"),
            "`x` does not fit the query: invalid input value for enum mood: \"angry\"",
        ),
        (
            "upper(:x)",
            json!("a\0b"),
            "`x` holds a NUL character, which PostgreSQL does not store; take it out",
        ),
    ] {
        let seen = Caller::new(&source, Effect::Read, &format!("SELECT {sql} AS v"))
            .call(json!({ "x": argument }))
            .await;
        assert_eq!((seen.status, &*seen.summary), (Status::InvalidInput, says), "{sql}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
async fn a_query_that_is_wrong_says_where() {
    for (query, says) in [
        ("SELECT id,\n  gadget\nFROM orders", "column \"gadget\" does not exist in its line 2"),
        ("SELECT 1 AS a\nFROM nowhere", "relation \"nowhere\" does not exist in its line 2"),
        ("SELECT 1 AS a, 2 AS a", "the query has two columns `a`; rename one with AS"),
        (
            "SELECT id FROM orders WHERE :x IS NULL OR id > 1",
            "could not determine data type of parameter :x; name the type of the placeholder, for example `:x::text`",
        ),
    ] {
        let seen = read(query).call(json!({})).await;
        assert_eq!((seen.status, &*seen.summary), (Status::PermanentError, says), "{query}");
    }
}
