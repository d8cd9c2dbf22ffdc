//! Which spellings of secrets are masked, in whole texts and in pieces.

use proptest::prelude::*;
use serde_json::json;

use super::{End, LEAST_IN_TEXTS, Masker, Secrets};

const KEY: &str = "sk-Ant-api03_Zq8Lr4Xw9Tb2";

fn secrets() -> Secrets {
    Secrets::of(["sk-abc/def+1", "sk-abc/def", "short"])
}

fn may_hold(secrets: &Secrets, text: &str, is_over: bool) -> bool {
    secrets.all.as_ref().unwrap().heads.as_ref().unwrap().may_be_in(text, is_over)
}

fn pieces(secrets: &Secrets, text: &str, cuts: &[usize]) -> String {
    let mut masker = Masker::new(secrets);
    let (mut reported, mut rest) = (String::new(), text);
    for cut in cuts {
        let (piece, tail) = rest.split_at(rest.floor_char_boundary(*cut));
        reported.push_str(&masker.push(piece));
        rest = tail;
    }
    reported.push_str(&masker.push(rest));
    reported.push_str(&masker.finish());
    reported
}

fn check(secrets: &Secrets, text: &str, wanted: &str) {
    assert_eq!(secrets.mask(text), wanted);
    for first in 0..=text.len() {
        for second in [0, 1, 2, 5, 9] {
            assert_eq!(pieces(secrets, text, &[first, second]), wanted, "{text} {first} {second}");
        }
    }
}

#[test]
fn a_secret_among_a_thousand_is_masked() {
    let keys: Vec<String> = (0..1_000).map(|n| format!("sk-{n:04}/Key+of{n:04}")).collect();
    let secrets = Secrets::of(keys.iter().map(String::as_str));
    for key in keys.iter().step_by(37) {
        assert_eq!(secrets.mask(&format!("it is {key}.")), "it is [masked].");
    }
    assert_eq!(secrets.mask("it is sk-1000/Key+of1000."), "it is sk-1000/Key+of1000.");
}

#[test]
fn secrets_that_are_added_one_by_one_are_spelt_as_those_that_are_read_at_once() {
    let some = [KEY, "sk-abc/def+1", "+-/é9_long", "SK-ABC/DEF+1", "12345678", "a b", KEY];
    let mut added = Secrets::default();
    some.iter().for_each(|secret| added.add(secret));
    let spelt = |secrets: &Secrets| {
        let all = secrets.all.as_ref().unwrap();
        (all.forms.texts.clone(), all.keys.texts.clone())
    };
    assert_eq!(spelt(&added), spelt(&Secrets::of(some)));
}

#[test]
fn secrets_are_masked_in_every_form_wherever_the_text_is_cut() {
    let check = |text: &str, wanted: &str| check(&secrets(), text, wanted);
    check("é sk-abc/def+1 sk-abc/def+2 é", "é [masked] [masked]+2 é");
    check("sk-sk-abc\\/def, sk-abc%2Fdef%2B1 sk-abc%2fdef.", "sk-[masked], [masked] [masked].");
    check("a short word, and sk-a", "a short word, and sk-a");
    check("cut in the middle: sk-abc/d", "cut in the middle: [masked]");
}

// B13, K13
#[test]
fn a_key_is_masked_however_it_is_spelt_and_wherever_the_text_is_cut() {
    let secrets = Secrets::of([KEY]);
    let invisible = KEY.replace('-', "-\u{200b}\u{2060}");
    let percent: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let json: String = KEY.bytes().map(|byte| format!("\\u{byte:04X}")).collect();
    let twice = json.replace('\\', "\\\\");
    let html: String = KEY.bytes().map(|byte| format!("&#{byte};")).collect();
    let wide: String = KEY.chars().filter_map(|c| char::from_u32(c as u32 + 0xfee0)).collect();
    let lines = KEY.replace("_", "_\n  ");
    let escaped_lines = KEY.replace("_", "_\\n  ");
    let spans = KEY.replace("_", "_</span><b>");
    let terminal = KEY.replace("_", "\u{1b}[1;31m_\u{1b}[0m");
    let quoted = KEY.replace("-", "-\" + \"");
    let spaced: String = KEY.chars().flat_map(|c| [c, ' ']).collect();
    for spelt in [
        KEY,
        &KEY.to_uppercase(),
        &invisible,
        &percent,
        &percent.replace('%', "%25"),
        &json,
        &twice,
        &html,
        &wide,
        &lines,
        &escaped_lines,
        &spans,
        &terminal,
        &quoted,
        spaced.trim_end(),
    ] {
        check(&secrets, &format!("before: {spelt}, after"), "before: [masked], after");
    }
}

// K13
#[test]
fn what_a_cut_left_of_a_secret_is_masked() {
    let mut secrets = secrets();
    secrets.extend(&Secrets::of([KEY]));
    let check = |text: &str, wanted: &str| check(&secrets, text, wanted);
    check("It is sk-Ant-api03…", "It is [masked]…");
    check("It is SK ANT\u{200b}-api… [cut: 9 of 30 characters]", "It is [masked]… [cut: 9 of 30 characters]");
    check("sk-Ant-a…, sk%2Dabc%2Fd…, sk-abc/def+1…", "[masked]…, [masked]…, [masked]…");
    check("an sk-Ant…, and so on…, sk-…", "an sk-Ant…, and so on…, sk-…");
    assert_eq!(secrets.mask_json(r#"{"a":"sk-Ant-api0…"}"#), r#"{"a":"[masked]…"}"#);
    assert_eq!(secrets.mask_message_by("It is sho…, sh…", "•••", false), "It is •••…, sh…");
}

#[test]
fn text_that_only_resembles_a_key_stays() {
    let secrets = Secrets::of([KEY, "Research and development"]);
    for text in [
        "sk-Ant-api03 is the prefix of 100% of them; a < b && c > d, C:\\new\\table, 50%",
        "RESEARCH, AND DEVELOPMENT",
        "Zq8Lr4Xw9Tb2",
        "&amp; <b>bold</b> \\u0041",
    ] {
        check(&secrets, text, text);
    }
    check(&secrets, "Research and development", "[masked]");
}

// K13
#[test]
fn values_are_masked_in_texts_names_and_numbers() {
    let secrets = Secrets::of(["p/ss w|rd", "p/ss w|rd-and-more", "12345678", "open", "abc"]);
    assert_eq!(
        secrets.mask_message("p/ss w|rd-and-more p%2Fss%20w%7Crd p%2Fss+w%7Crd open abc"),
        "[masked] [masked] [masked] [masked] abc"
    );
    assert_eq!(secrets.mask_value(json!("open")), json!("open"), "a word is a word in a result");
    let value = json!({ "a p/ss w|rd": ["x12345678y", 912_345_678, 1.5, null, true] });
    let masked = json!({ "a [masked]": ["x[masked]y", "[masked]", 1.5, null, true] });
    assert_eq!(secrets.mask_value(value), masked);
    assert!(!format!("{secrets:?}").contains("p/ss"));
    let secrets = Secrets::of(["to~k!e/n*\"1+2"]);
    for escaped in [
        "to%7Ek%21e%2Fn*%221%2B2",
        "to~k!e%2Fn*%221%2B2",
        "to~k%21e%2Fn%2A%221%2B2",
        "to~k!e%2fn*%221%2b2",
        r#"to~k!e/n*\"1+2"#,
        r#"to~k!e\/n*\"1+2"#,
        r#"to~k!e\\/n*\\\"1+2"#,
    ] {
        assert_eq!(secrets.mask(escaped), "[masked]", "{escaped}");
    }
}

// K13
#[test]
fn short_secrets_are_masked_in_all_texts_where_that_is_wanted() {
    let secrets = Secrets::of(["t0ken-1", "key4", "abc"]).with_short();
    assert_eq!(secrets.mask_message_by("a t0ken-1 key4 abc t0ke", "***", true), "a *** *** abc ");
    assert_eq!(secrets.mask_message("t0ke"), "t0ke", "it is whole");
    assert_eq!(secrets.mask_value(json!(["key4", 1])), json!(["[masked]", 1]));
}

#[test]
fn json_stays_json_where_a_secret_is_taken_out_of_it() {
    let secrets = Secrets::of([KEY, "12345678"]);
    let (one, two) = KEY.split_at(12);
    let check = |json: &str, wanted: &str| assert_eq!(secrets.mask_json(json), wanted);
    check(&format!(r#"{{"a":["{KEY}",1]}}"#), r#"{"a":["[masked]",1]}"#);
    check(&format!(r#"["{one}","{two}"]"#), r#"["[masked]"]"#);
    check(&format!(r#"{{"{one}":"{two}"}}"#), r#""[masked]""#);
    check(r#"{"n":9123456789}"#, r#""[masked]""#);
    check(r#"{"n":1}"#, r#"{"n":1}"#);
}

#[test]
fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
    let mut masker = Masker::new(&secrets());
    assert_eq!(masker.push("task: sk-ab"), "task: ");
    assert_eq!(masker.push("x s"), "sk-abx ");
    assert_eq!(masker.push("un"), "sun");
    assert!(format!("{masker:?} {:?}", secrets()).find("sk-").is_none());
}

#[test]
fn what_is_held_back_has_a_bound() {
    let secrets = Secrets::of([KEY]);
    let mut masker = Masker::new(&secrets);
    let mut reported = masker.push("sk").into_owned();
    for _ in 0..10_000 {
        reported.push_str(&masker.push("\u{200b}"));
    }
    assert!(masker.held.len() <= masker.max() + 3, "{}", masker.held.len());
    reported.push_str(&masker.finish());
    assert_eq!(reported, format!("sk{}", "\u{200b}".repeat(10_000)));
}

// B13, K13
#[test]
fn most_texts_are_ruled_out_without_a_search() {
    let secrets = Secrets::of([KEY]);
    for text in [
        "The pump P-7 runs at 82 % of its load.",
        "{\"id\": \"item-1\", \"where\": \"hall 3\\n\"}",
        "Ärger & Umlaute, <b>fett</b>, 日本語",
        " next",
    ] {
        for is_over in [false, true] {
            assert!(!may_hold(&secrets, text, is_over), "{text}");
        }
    }
}

/// Texts of pieces of a key in many spellings.
fn spelt() -> impl Strategy<Value = String> {
    let part = (0..KEY.len(), 0..=KEY.len()).prop_map(|(from, bytes)| {
        let end = (from + bytes).min(KEY.len());
        KEY[from..end].to_owned()
    });
    let spelling = |(part, how): (String, usize)| match how {
        0 => part.to_uppercase(),
        1 => part.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        2 => part.bytes().map(|byte| format!("\\u{byte:04X}")).collect(),
        3 => part.bytes().map(|byte| format!("&#{byte};")).collect(),
        4 => part.chars().filter_map(|c| char::from_u32(c as u32 + 0xfee0)).collect(),
        5 => part.replace('-', "-\u{200b}"),
        6 => part.replace('_', "_</b>\n"),
        7 => part.chars().flat_map(|c| [c, ' ']).collect(),
        _ => part,
    };
    let whole = Just(KEY.to_owned());
    let pieces = prop_oneof![
        3 => (part, 0..12_usize).prop_map(spelling),
        1 => (whole, 0..12_usize).prop_map(spelling),
        3 => "[a-zé …%&<\\\\;+/9\x1b\"\u{200b}-]{0,4}",
        1 => Just("\u{1b}[1m".to_owned()),
    ];
    proptest::collection::vec(pieces, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    // B13, K13: the quick check never hides what a search finds.
    #[test]
    fn what_is_ruled_out_holds_nothing(text in spelt(), is_over in any::<bool>()) {
        let secrets = Secrets::of([KEY, "sk-abc/def+1", "+-/é9_long", "12345678"]);
        if !may_hold(&secrets, &text, is_over) {
            let end = if is_over { End::Whole } else { End::Open };
            let found = secrets.all.as_ref().unwrap().search(&text, LEAST_IN_TEXTS, end);
            prop_assert!(found.is_nothing(), "{:?}", text);
        }
    }
}

#[test]
fn a_key_that_is_spread_too_far_for_pieces_is_masked_in_the_whole() {
    let secrets = Secrets::of(["sk-canary/0123456789"]);
    let spread: String = "skcanary0123456789".chars().map(|c| format!("{c}{}", " .".repeat(60))).collect();
    let mut masker = Masker::new(&secrets);
    let mut passed = String::new();
    for piece in spread.as_bytes().chunks(7) {
        passed.push_str(&masker.push(std::str::from_utf8(piece).unwrap()));
    }
    passed.push_str(&masker.finish());
    assert_eq!(passed, spread, "no piece is held back for ever");
    assert!(masker.whole(&passed).starts_with("[masked]"));
    let mut other = Masker::new(&secrets);
    let mut text = other.push("as it is").into_owned();
    text.push_str(&other.finish());
    assert_eq!(other.whole(&text), "as it is");
}
