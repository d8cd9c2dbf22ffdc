//! What is stored of an event gives the event back, byte for byte, and holds the text of a result once.

use loop_core::types::{Slot, Usage};
use loop_testkit::{Numbers, random_run, random_setup};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::super::rows::json_of;
use super::*;

fn stored(event: &Event) -> String {
    json_of(&StoredEvent::of(event), 0).unwrap()
}

fn read(stored: &str) -> Result<Event, String> {
    serde_json::from_str::<ReadEvent>(stored).map(|read| read.0).map_err(|error| error.to_string())
}

fn finished(observation: Observation) -> Event {
    let key = CommandKey { pass: 2, slot: Slot::Action(1) };
    let kind = EventKind::ToolFinished { key, attempt: 3, observation: Arc::new(observation) };
    Event { at: Millis(7), kind }
}

fn found(markdown: &str, data: impl Into<Data>) -> Event {
    finished(Observation::new(Status::Ok, "found", markdown, data))
}

fn observation(event: &Event) -> &Observation {
    let EventKind::ToolFinished { observation, .. } = &event.kind else { panic!("{event:?}") };
    observation
}

/// Stores and reads it: the same event as before, and as the one that its plain JSON gives.
fn comes_back(event: &Event) -> TestCaseResult {
    let stored = stored(event);
    let again = read(&stored).unwrap();
    prop_assert_eq!(&again, event);
    prop_assert_eq!(&read(&serde_json::to_string(event).unwrap()).unwrap(), event);
    prop_assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(event).unwrap());
    if let EventKind::ToolFinished { observation: before, .. } = &event.kind {
        let after = observation(&again);
        prop_assert_eq!(&*after.data, &*before.data);
        prop_assert_eq!(after.data.as_text(), before.data.as_text());
        prop_assert_eq!(after.data.digest(), before.data.digest());
        prop_assert_eq!(after.markdown_digest(), before.markdown_digest());
    }
    Ok(())
}

/// Texts with characters that are escaped, that take several bytes, and that begin alike.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[ -~]{0,40}",
        "[\"\\\\/\\x00-\\x1f\\x7f]{1,3}",
        // Some begin with the same bytes.
        "[éè\u{2028}\u{2029}\u{fffd}\u{1f600}\u{1f601}\u{10ffff}]{1,30}",
        Just("the same words again, the same words again, the same words again".to_owned()),
        Just("é".repeat(40)),
    ];
    vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

/// JSON texts as tools write them, and texts that are none.
fn jsons() -> impl Strategy<Value = String> {
    let numbers = ["1.0", "1e400", "-0", "-0.0", "1E+2", "12345678901234567890123", "0.1000", "null", "true"];
    let atom = prop_oneof![
        prop::sample::select(numbers.to_vec()).prop_map(str::to_owned),
        texts().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\u0061\/\ud83d\ude00""#.to_owned()),
    ];
    let values = atom.prop_recursive(3, 24, 4, |inner| {
        let member = ("[ab]", inner.clone()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
            // Keys are neither in order nor once.
            vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    prop_oneof![4 => values, 1 => texts()]
}

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![
        texts().prop_map(Data::text),
        jsons().prop_map(Data::from),
        jsons().prop_filter_map("JSON", |json| Some(Data::from(
            serde_json::from_str::<serde_json::Value>(&json).ok()?
        ))),
    ]
}

/// Data, and a Markdown that has nothing, a part or all of its text.
fn results() -> impl Strategy<Value = (String, Data)> {
    (data(), any::<prop::sample::Index>(), texts(), 0..5).prop_map(|(data, at, other, how)| {
        let text = data.as_text().map_or_else(|| data.to_string(), ToString::to_string);
        let cut = &text[..text.floor_char_boundary(at.index(text.len() + 1))];
        let markdown = match how {
            0 => text,
            1 => format!("{cut}{other}"),
            2 => data.to_string(),
            3 => format!("{text}{other}"),
            _ => other,
        };
        (markdown, data)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_result_comes_back_as_it_was((markdown, data) in results(), summary in texts(), failed in any::<bool>()) {
        let mut result = Observation::new(Status::Ok, summary.as_str(), markdown, data);
        if failed {
            result.failure = Some(FailureText { title: "T".into(), message: summary.as_str().into() });
            result.sub_call = Some(Box::new(SubCallUse::new(true, Some(Usage::default()))));
            result.retry_after_ms = Some(5);
            result.warnings = vec![summary.into(), "w".into()];
            // It need not be that of the data.
            result.digest = Digest::of("test", b"other");
        }
        comes_back(&finished(result))?;
    }

    #[test]
    fn the_shared_start_is_the_longest_of_whole_characters(a in texts(), b in texts(), at in any::<prop::sample::Index>()) {
        for (one, other) in [(a.clone(), b.clone()), (a.clone(), format!("{}{b}", &a[..a.floor_char_boundary(at.index(a.len() + 1))]))] {
            let expected: usize = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
            prop_assert_eq!(shared(&one, &other), expected);
            prop_assert_eq!(shared(&other, &one), expected);
        }
    }
}

#[test]
fn the_events_of_random_runs_come_back_and_only_results_are_stored_otherwise() {
    let (mut results, mut others) = (0, 0);
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        for (event, _, _) in &random_run(random_setup(&mut numbers), &mut numbers).journal {
            comes_back(event).unwrap();
            if matches!(event.kind, EventKind::ToolFinished { .. }) {
                results += 1;
            } else {
                assert_eq!(stored(event), serde_json::to_string(event).unwrap());
                others += 1;
            }
        }
    }
    assert!(results > 50 && others > 300, "{results} {others}");
}

#[test]
fn a_text_is_stored_once() {
    let text = "line of a result\n".repeat(120);
    let json = serde_json::json!({ "rows": [text, 1.5, null] });
    let written = json.to_string();
    let room = 400;
    for (event, data) in [
        (found(&text, Data::text(text.as_str())), text.len() + 120),
        (found(&written, json), written.len() + written.matches(['\\', '"']).count()),
        (found(&format!("{}… [cut]", &text[..500]), Data::text(text.as_str())), text.len() + 120),
    ] {
        let stored = stored(&event);
        assert!(stored.len() < data + room, "{} of {data}: {stored}", stored.len());
        comes_back(&event).unwrap();
    }
    let shared: Arc<str> = text.as_str().into();
    let event = read(&stored(&found(&text, Data::text(shared)))).unwrap();
    let after = observation(&event);
    assert!(Arc::ptr_eq(after.data.as_text().unwrap(), &after.markdown), "it is in memory once as well");
}

#[test]
fn a_result_is_stored_in_this_form() {
    let text = "a".repeat(70);
    let data = |event: &Event, member: &str| {
        let stored: serde_json::Value = serde_json::from_str(&stored(event)).unwrap();
        assert_eq!((&stored["at"], &stored["result"]["attempt"]), (&7.into(), &3.into()));
        stored["result"][member].to_string()
    };
    let whole = found(&text, Data::text(text.as_str()));
    assert_eq!(data(&whole, "markdown"), r#"{"data":{"bytes":70,"then":""}}"#);
    assert_eq!(data(&whole, "data"), format!(r#"{{"text":"{text}"}}"#));
    let start = found(&format!("{text}…"), format!("{text}[]"));
    assert_eq!(data(&start, "markdown"), r#"{"data":{"bytes":70,"then":"…"}}"#);
    let short = found(&text[..63], Data::text(&text[..63]));
    assert_eq!(
        data(&short, "markdown"),
        format!(r#"{{"text":"{}"}}"#, &text[..63]),
        "naming it is not shorter"
    );
    let other = found("| a |", "[1.0]");
    assert_eq!(data(&other, "markdown"), r#"{"text":"| a |"}"#);
    assert_eq!(data(&other, "data"), r#"{"json":"[1.0]"}"#);
}

#[test]
fn a_stored_form_that_contradicts_itself_is_refused() {
    let text = "é".repeat(40);
    let whole = stored(&found(&text, Data::text(text.as_str())));
    assert!(read(&whole).is_ok());
    for bytes in ["79", "81", "18446744073709551615"] {
        let changed = whole.replace(r#""bytes":80"#, &format!(r#""bytes":{bytes}"#));
        assert_ne!(changed, whole);
        let error = read(&changed).unwrap_err();
        assert!(error.contains("the data of a result does not have the start of its Markdown"), "{error}");
    }
    let kind = r#""kind":{"type":"stop_withdrawn"}"#;
    for event in [r#"{"at":7}"#.to_owned(), whole.replace(r#"{"at":7,"#, &format!(r#"{{"at":7,{kind},"#))] {
        let error = read(&event).unwrap_err();
        assert!(error.contains("either `kind` or `result`"), "{error}");
    }
}
