//! What a person sees of a call before they allow it (K8).

use loop_core::policy::{ShownArgs, shown};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn parameters_are_shown_whole_one_value_a_line() {
    let parameters = json!({"to": ["ada@x.example", "bob@x.example"], "n": 7, "none": {}, "empty": [], "ok": true, "at": null});
    let text = "{\n  \"at\": null,\n  \"empty\": [],\n  \"n\": 7,\n  \"none\": {},\n  \"ok\": true,\n  \"to\": [\n    \
                \"ada@x.example\",\n    \"bob@x.example\"\n  ]\n}";
    let expected = ShownArgs {
        text: text.to_owned(),
        bytes: parameters.to_string().len() as u64,
        values: 4,
        warnings: vec![],
    };
    assert_eq!(shown(&parameters.to_string()), expected);
}

#[test]
fn what_hides_or_steers_is_written_out_and_told() {
    let parameters = json!({
        "a": "x\u{200b}y\u{202e}z\u{200b}", "b": "two\nlines\tand \"quotes\" \\", "c": "\u{1b}[2Jclear\u{7}",
        "d": "tag\u{e0041}\u{e0042}\u{e0043}\u{e0044}", "e\u{feff}": "a\u{a0}b\u{3164}", "f": "👩\u{200d}🔧",
    });
    let found = shown(&parameters.to_string());
    assert_eq!(
        found.text.lines().map(str::trim).collect::<Vec<_>>(),
        [
            "{",
            r#""a": "x\u200by\u202ez\u200b","#,
            r#""b": "two\nlines\tand \"quotes\" \\","#,
            r#""c": "\u001b[2Jclear\u0007","#,
            r#""d": "tag\udb40\udc41\udb40\udc42\udb40\udc43\udb40\udc44","#,
            r#""e\ufeff": "a\u00a0b\u3164","#,
            r#""f": "👩\u200d🔧""#,
            "}"
        ]
    );
    assert_eq!(
        found.warnings,
        [
            "/a holds 3 characters that do not show: U+200B, U+202E",
            "/c holds 2 characters that do not show: U+0007, U+001B",
            "/d holds 4 characters that do not show: U+E0041, U+E0042, U+E0043 and others",
            r"/e\ufeff has a name that holds 1 characters that do not show: U+FEFF",
            r"/e\ufeff holds 2 characters that do not show: U+00A0, U+3164",
            "/f holds 1 characters that do not show: U+200D",
        ]
    );
}

#[test]
fn what_looks_like_something_else_and_what_is_much_is_told() {
    let parameters = json!({
        "to": "p\u{430}ypal@x.example and \u{ff41}da@x.example", "both": "\"ada@x.example\" <bob@y.example>",
        "many": vec![1; 11], "long": "x".repeat(1_001), "fine": "Привет, 世界 iPhone手机 café", "ten": vec![1; 10],
    });
    assert_eq!(
        shown(&parameters.to_string()).warnings,
        [
            "/both holds 2 addresses",
            "/long has 1001 bytes",
            "/many has 11 elements",
            "/to holds 2 addresses",
            "/to has Latin and Cyrillic letters in one word: \"p\u{430}ypal@x.example\"",
            "/to has Latin and look-alike letters in one word: \"\u{ff41}da@x.example\"",
        ]
    );
    // At the edge of each number, on both sides: what is named is not followed by others.
    let warned = |value: Value| shown(&json!({ "a": value }).to_string()).warnings;
    assert_eq!(warned(json!("x".repeat(1_000))), [""; 0]);
    assert_eq!(warned(json!("ada@x.example")), [""; 0]);
    // The length of a long text says more than its addresses.
    let long = |length: usize| json!(format!("{:x<length$}", "a@b c@d "));
    assert_eq!(warned(long(1_000)), ["/a holds 2 addresses"]);
    assert_eq!(warned(long(1_001)), ["/a has 1001 bytes"]);
    assert_eq!(
        warned(json!("\u{200b}\u{202e}\u{feff}")),
        ["/a holds 3 characters that do not show: U+200B, U+202E, U+FEFF"]
    );
    let broken = shown("no json \u{202e}");
    assert_eq!(broken.text, r#""no json \u202e""#);
    assert_eq!(
        broken.warnings,
        ["the parameters are not JSON", "the whole holds 1 characters that do not show: U+202E"]
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(Value::from("a\u{202e}b\u{200d}\u{85}\u{2028}\u{e0001}\u{a0}")),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(crate::common::cases(256))]

    #[test]
    fn what_is_shown_says_the_same_as_what_is_sent_and_hides_nothing(value in any_json()) {
        let text = value.to_string();
        let found = shown(&text);
        prop_assert_eq!(serde_json::from_str::<Value>(&found.text).unwrap(), value);
        prop_assert_eq!(found.bytes, text.len() as u64);
        let odd = |c: char| c != '\n' && c != ' ' && (c.is_control() || c.is_whitespace() || loop_core::types::is_invisible(c));
        prop_assert!(!found.text.contains(odd), "{}", found.text);
        prop_assert!(!found.warnings.iter().any(|line| line.contains(|c: char| c == '\n' || odd(c))), "{:?}", found.warnings);
    }
}
