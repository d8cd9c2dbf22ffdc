//! Chunks are read by hand where they are like most, and by a reading that takes everything where they are not: both say the
//! same of every chunk, however odd it is.

use crate::common;

use std::sync::Arc;

use common::{Item, Wire, cut};
use loop_llm::{LlmError, ModelEvent, Profile};
use proptest::prelude::*;

/// A text as JSON writes it, some of them in odd ways.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .,{}:\\[\\]é😀]{0,12}".prop_map(|text| format!("\"{text}\"")),
        2 => Just("\"\"".to_owned()),
        1 => Just(r#""a\nb\t\"c\" \\ \/ \u00e9""#.to_owned()),
        1 => Just(r#""\ud83d\ude00 and \u0041""#.to_owned()),
        1 => Just("\"<think>\"".to_owned()),
        1 => Just("\"</think> b\"".to_owned()),
        // Half of a pair, and what is no escape.
        1 => Just(r#""a\ud83d""#.to_owned()),
        1 => Just(r#""\ude00b""#.to_owned()),
    ]
}

/// A text that differs from one chunk to the next of its kind.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("\"@\"".to_owned()), 2 => token(), 1 => Just("null".to_owned()), 1 => other()]
}

/// Any value.
fn other() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "null",
        "true",
        "0",
        "1",
        "2",
        "-1",
        "1.0",
        "1e2",
        "12345678901",
        "\"\"",
        "\"x\"",
        "\"0\"",
        "[]",
        "{}",
        "[{}]",
        "[1,\"a\",{\"b\":[null]}]",
        "{\"a\":{\"b\":1.50}}",
        "{\"error\":{\"code\":1}}",
        "[{\"type\":\"text\",\"text\":\"p\"}]",
    ])
    .prop_map(str::to_owned)
}

fn null() -> BoxedStrategy<String> {
    Just("null".to_owned()).boxed()
}

fn select(values: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(values).prop_map(str::to_owned).boxed()
}

/// Mostly the first, and now and then any other value.
fn mostly(usual: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![12 => usual, 1 => null(), 1 => other()].boxed()
}

/// An object of some of these members, in any order; a member may come twice, and a name may be escaped.
fn object(members: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
    let member = |(name, value): (&'static str, BoxedStrategy<String>)| {
        let name = prop_oneof![
            40 => Just(name.to_owned()),
            1 => Just(name.replacen('e', "\\u0065", 1)),
        ];
        let times = prop_oneof![6 => Just(0_usize), 40 => Just(1_usize), 1 => Just(2_usize)];
        (name, prop::collection::vec(value, 2), times)
    };
    let blanks = || prop_oneof![20 => Just(""), 2 => Just(" "), 1 => Just("\t ")];
    let members: Vec<_> = members.into_iter().map(member).collect();
    (members, any::<u64>(), blanks(), blanks())
        .prop_map(|(members, order, before, after)| {
            let mut written: Vec<String> = members
                .iter()
                .flat_map(|(name, values, times)| {
                    values
                        .iter()
                        .take(*times)
                        .map(move |value| format!("{before}\"{name}\"{after}:{before}{value}{after}"))
                })
                .collect();
            if !written.is_empty() && order % 4 == 0 {
                let from = (order >> 8) as usize % written.len();
                written.rotate_left(from);
            }
            format!("{{{}{after}}}", written.join(","))
        })
        .boxed()
}

fn call() -> BoxedStrategy<String> {
    let function = object(vec![
        ("name", mostly(select(&["\"find\"", "\"look\"", "\"\"", "null"]))),
        ("arguments", piece().boxed()),
        ("x", rarely(other())),
    ]);
    object(vec![
        ("index", mostly(select(&["0", "1", "2", "10", "null"]))),
        ("id", mostly(select(&["\"call_1\"", "\"call_2\"", "\"\"", "null"]))),
        ("type", mostly(select(&["\"function\""]))),
        ("function", mostly(function)),
        ("extra_content", rarely(other())),
    ])
}

/// Nothing that counts, but for a few times.
fn rarely(value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![12 => null(), 1 => value].boxed()
}

fn delta() -> BoxedStrategy<String> {
    let list = |value: BoxedStrategy<String>| {
        prop::collection::vec(value, 0..3).prop_map(|values| format!("[{}]", values.join(","))).boxed()
    };
    let calls = prop_oneof![3 => call().prop_map(|call| format!("[{call}]")), 1 => list(call())];
    object(vec![
        ("role", mostly(select(&["\"assistant\"", "\"\""]))),
        ("content", prop_oneof![10 => piece(), 1 => other()].boxed()),
        ("refusal", rarely(piece())),
        ("reasoning_content", rarely(piece())),
        ("reasoning", rarely(piece())),
        ("reasoning_details", rarely(select(&["[{\"text\":\"r\"},{\"summary\":\"s\"}]", "[]"]))),
        ("tool_calls", prop_oneof![2 => null(), 2 => calls, 1 => other()].boxed()),
        ("function_call", rarely(object(vec![("name", token().boxed()), ("arguments", piece().boxed())]))),
        ("annotations", rarely(other())),
    ])
}

fn choice() -> BoxedStrategy<String> {
    let filter = object(vec![("error", rarely(other())), ("hate", other().boxed())]);
    object(vec![
        ("index", mostly(select(&["0", "0", "0", "1"]))),
        ("delta", mostly(delta())),
        ("message", rarely(delta())),
        ("logprobs", mostly(null())),
        ("finish_reason", prop_oneof![20 => null(), 1 => select(&["\"stop\"", "\"tool_calls\"", "\"error\""]), 1 => other()].boxed()),
        ("content_filter_results", rarely(filter)),
    ])
}

fn chunk() -> BoxedStrategy<String> {
    let usage = || {
        object(vec![
            ("prompt_tokens", mostly(select(&["8", "0", "100"]))),
            ("completion_tokens", mostly(select(&["3", "0"]))),
            ("total_tokens", mostly(select(&["11", "3"]))),
            ("cost", rarely(select(&["0.5"]))),
        ])
    };
    let choices = prop_oneof![
        12 => choice().prop_map(|choice| format!("[{choice}]")),
        1 => (choice(), choice()).prop_map(|(one, two)| format!("[{one},{two}]")),
        1 => Just("[]".to_owned()),
    ];
    object(vec![
        ("id", mostly(select(&["\"r1\"", "\"r1\"", "\"r2\"", "\"\\u0072\""]))),
        ("object", mostly(select(&["\"chat.completion.chunk\"", "\"chat.completion.chunk\"", "\"error\""]))),
        ("created", other().boxed()),
        ("model", mostly(select(&["\"m\"", "\"m-2\""]))),
        ("service_tier", rarely(select(&["\"flex\"", "\"default\""]))),
        ("choices", mostly(choices)),
        ("usage", rarely(usage())),
        ("x_groq", rarely(object(vec![("usage", usage())]))),
        ("error", prop_oneof![60 => null(), 1 => other()].boxed()),
        ("obfuscation", rarely(piece())),
    ])
}

/// Chunks, each followed by some that differ from it in the texts of its pieces alone.
fn chunks() -> impl Strategy<Value = Vec<String>> {
    let alike = (chunk(), prop::collection::vec(prop::collection::vec(token(), 4), 1..4)).prop_map(
        |(chunk, texts)| {
            let filled = |texts: &Vec<String>| {
                texts.iter().fold(chunk.clone(), |chunk, text| chunk.replacen("\"@\"", text, 1))
            };
            texts.iter().map(filled).map(|chunk| chunk.replace("\"@\"", "\"z\"")).collect::<Vec<_>>()
        },
    );
    (prop::collection::vec(alike, 1..5), any::<bool>()).prop_map(|(chunks, is_ended)| {
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        chunks.into_iter().flatten().chain(is_ended.then(|| end.to_owned())).collect()
    })
}

fn profiles() -> Vec<Arc<Profile>> {
    let compatible = Profile::named("compatible").unwrap();
    let whole = Profile { whole_arguments_each_chunk: true, ..(*compatible).clone() };
    let tags = Profile { think_tags: true, ..(*compatible).clone() };
    vec![
        Profile::named("openai-chat").unwrap(),
        Profile::named("deepseek").unwrap(),
        whole.into(),
        tags.into(),
    ]
}

fn body<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let lines = chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n"));
    lines.chain(["data: [DONE]\n\n".to_owned()]).collect::<String>().into_bytes()
}

/// What came out, without the places that an error names.
fn shown(items: &[Item]) -> Vec<String> {
    let show = |item: &Item| match item {
        Ok(ModelEvent::Finished(reply)) => format!("{:#?} {:#?}", reply, reply.raw),
        Ok(event) => format!("{event:?}"),
        Err(LlmError { kind, message, partial, .. }) => {
            let message: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
            format!("{kind:?} {message} {partial:?}")
        }
    };
    items.iter().map(show).collect()
}

/// A member that says nothing, with a name that only the reading that takes everything can read.
fn unusual(chunk: &str) -> String {
    let rest = chunk.strip_prefix('{').unwrap();
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    format!("{{\"\\u0078\":0{comma}{rest}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_by_hand_says_the_same(chunks in chunks(), seed in 1_u64..1_000, profile in 0_usize..4) {
        let wire = Wire::of(Arc::clone(&profiles()[profile]), "m");
        let by_hand = body(chunks.iter().map(String::as_str));
        let unusual: Vec<String> = chunks.iter().map(|chunk| unusual(chunk)).collect();
        let general = wire.decode(&[&body(unusual.iter().map(String::as_str))]);
        let whole = wire.decode(&[&by_hand]);
        prop_assert_eq!(shown(&whole), shown(&general), "{}", String::from_utf8_lossy(&by_hand));
        prop_assert_eq!(wire.decode(&cut(&by_hand, seed)), whole, "cut, seed {}", seed);
    }
}
