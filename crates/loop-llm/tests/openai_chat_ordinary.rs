//! Differential tests of the fast path for usual chunks: the same chunks through the fast path and through the general parser
//! give the same events, the same reply and the same error.
//!
//! Where the fast path declines a chunk, both sides use the general parser, and the comparison is trivial. That usual chunks
//! are taken is tested in `ordinary.rs`.

use crate::common;

use std::sync::Arc;

use common::{Item, Wire, cut};
use loop_llm::{LlmError, ModelEvent, Profile};
use loop_testkit::is_full;
use proptest::prelude::*;
use serde_json::Value;

/// A JSON string, some with escapes.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .,{}:\\[\\]é😀]{0,12}".prop_map(|text| format!("\"{text}\"")),
        2 => Just("\"\"".to_owned()),
        1 => Just(r#""a\nb\t\"c\" \\ \/ \u00e9""#.to_owned()),
        1 => Just(r#""\ud83d\ude00 and \u0041""#.to_owned()),
        1 => Just("\"<think>\"".to_owned()),
        1 => Just("\"</think> b\"".to_owned()),
        // Half of a surrogate pair.
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

/// The items as text. Digits of an error's message are left out: the two parsers count columns differently.
fn shown(items: &[Item]) -> Vec<String> {
    let show = |item: &Item| match item {
        Ok(ModelEvent::Finished(reply)) => format!("{:?} {:?}", reply, reply.raw),
        Ok(event) => format!("{event:?}"),
        Err(LlmError { kind, message, partial, .. }) => {
            let message: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
            format!("{kind:?} {message} {partial:?}")
        }
    };
    items.iter().map(show).collect()
}

/// The chunk with an ignored member whose escaped name the fast path declines.
fn unusual(chunk: &str) -> String {
    let rest = chunk.strip_prefix('{').unwrap();
    let is_empty = rest.trim().is_empty() || rest.trim_start().starts_with('}');
    let comma = if is_empty { "" } else { "," };
    format!("{{\"\\u0078\":0{comma}{rest}")
}

/// The items of both parsers: of the chunks as they are, and of the same chunks declined by the fast path.
fn both(wire: &Wire, chunks: &[String]) -> (Vec<String>, Vec<String>) {
    let unusual: Vec<String> = chunks.iter().map(|chunk| unusual(chunk)).collect();
    let decode = |chunks: &[String]| shown(&wire.decode(&[&body(chunks.iter().map(String::as_str))]));
    (decode(chunks), decode(&unusual))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_full() { 800 } else { 200 }))]

    #[test]
    fn generated_chunks_decode_the_same_on_both_paths(chunks in chunks(), seed in 1_u64..1_000, profile in 0_usize..4) {
        let wire = Wire::of(Arc::clone(&profiles()[profile]), "m");
        let (fast, general) = both(&wire, &chunks);
        let body = body(chunks.iter().map(String::as_str));
        prop_assert_eq!(&fast, &general, "{}", String::from_utf8_lossy(&body));
        prop_assert_eq!(shown(&wire.decode(&cut(&body, seed))), fast, "cut, seed {}", seed);
    }
}

/// Chunks as providers send them; `"@"` is a text that differs from one chunk to the next.
const USUAL: [&str; 9] = [
    r#"{"id":"r1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"@"}"#,
    r#"{"id":"r1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}],"usage":null,"obfuscation":"@"}"#,
    r#"{"obfuscation":"@","id":"r1","model":"m","choices":[{"delta":{"content":"@","role":"assistant"},"index":0}]}"#,
    r#"{"id":"r1","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"@","content":null},"finish_reason":null}]}"#,
    r#"{"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"","reasoning":"@","reasoning_details":[]},"native_finish_reason":null}]}"#,
    r#"{"id":"r1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"find","arguments":""}}]},"finish_reason":null}]}"#,
    r#"{"id":"r1","object":"chat.completion.chunk","model":"m","service_tier":"flex","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]},"finish_reason":null}],"obfuscation":"@"}"#,
    r#"{"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":"stop","content_filter_results":{"hate":{"filtered":false}}}],"x_groq":{"id":"q","usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}}"#,
    r#"{"id":"r1","model":"m","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}"#,
];

/// Members that are put into any object, each with this value or with another.
const MEMBERS: [(&str, &str); 21] = [
    ("id", r#""r2""#),
    ("object", r#""error""#),
    ("model", r#""m-2""#),
    ("service_tier", r#""priority""#),
    ("choices", r#"[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"@"}}]"#),
    ("usage", r#"{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}"#),
    ("x_groq", r#"{"usage":{"prompt_tokens":6,"completion_tokens":1}}"#),
    ("error", r#"{"message":"m","code":500}"#),
    ("obfuscation", r#""@""#),
    ("padding", r#""@""#),
    ("index", "1"),
    ("delta", r#"{"content":"@"}"#),
    ("message", r#"{"content":"whole"}"#),
    ("finish_reason", r#""length""#),
    ("content_filter_results", r#"{"error":{"code":"c"}}"#),
    ("content", r#""@""#),
    ("refusal", r#""@""#),
    ("reasoning_content", r#""@""#),
    ("reasoning_details", r#"[{"text":"r"},{"summary":"s"}]"#),
    ("tool_calls", r#"[{"index":1,"id":"c","function":{"name":"f","arguments":"@"}}]"#),
    ("function_call", r#"{"name":"f","arguments":"@"}"#),
];

/// Texts of pieces: plain, with escapes, and with half of a surrogate pair.
const TEXTS: [&str; 12] = [
    r#""""#,
    r#""x""#,
    r#""null""#,
    r#""error""#,
    r#""<think>a""#,
    r#""</think>é""#,
    r#""\n\t\"\\\/\b""#,
    r#""\u0041\u00e9""#,
    r#""\ud83d\ude00""#,
    r#""\ud83d""#,
    r#""\ude00z""#,
    r#""\ud83d\u0041""#,
];

/// Values of any other kind.
const VALUES: [&str; 19] = [
    "null",
    "true",
    "0",
    "1",
    "-1",
    "1.0",
    "1e0",
    "12345678901",
    "18446744073709551616",
    r#""@""#,
    "[]",
    "{}",
    "[null]",
    "[{}]",
    "[{},{}]",
    "[[[{}]]]",
    r#"{"error":{"code":1}}"#,
    r#"{"prompt_tokens":-1,"completion_tokens":1e2,"cost":"1"}"#,
    r#"[{"type":"text","text":"p"}]"#,
];

/// What is not JSON.
const BROKEN: [&str; 11] =
    ["01", "-", "1.", "1E400", "nul", "tru", "'x'", r#""\x""#, r#""\u12""#, "\"a\tb\"", "\"\u{1}\""];

/// A chunk whose members keep their order and may come twice. Keys and values are as they are written.
#[derive(Clone)]
enum Node {
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
    Raw(String),
}

impl Node {
    fn of(value: &Value) -> Self {
        match value {
            Value::Object(members) => Self::Object(
                members.iter().map(|(key, value)| (format!("\"{key}\""), Self::of(value))).collect(),
            ),
            Value::Array(values) => Self::List(values.iter().map(Self::of).collect()),
            other => Self::Raw(other.to_string()),
        }
    }

    /// This value and all within it, counted.
    fn count(&self) -> usize {
        1 + match self {
            Self::Object(members) => members.iter().map(|(_, value)| value.count()).sum(),
            Self::List(values) => values.iter().map(Self::count).sum(),
            Self::Raw(_) => 0,
        }
    }

    /// The value with this number, in the order of [`Node::count`].
    fn at(&mut self, nth: &mut usize) -> Option<&mut Self> {
        if *nth == 0 {
            return Some(self);
        }
        *nth -= 1;
        match self {
            Self::Object(members) => members.iter_mut().find_map(|(_, value)| value.at(nth)),
            Self::List(values) => values.iter_mut().find_map(|value| value.at(nth)),
            Self::Raw(_) => None,
        }
    }

    fn write(&self, random: &mut Random, json: &mut String) {
        json.push_str(random.blank());
        match self {
            Self::Object(members) => {
                json.push('{');
                for (nth, (key, value)) in members.iter().enumerate() {
                    let comma = if nth == 0 { "" } else { "," };
                    *json += &format!("{comma}{}{key}{}:", random.blank(), random.blank());
                    value.write(random, json);
                }
                json.push('}');
            }
            Self::List(values) => {
                json.push('[');
                for (nth, value) in values.iter().enumerate() {
                    json.push_str(if nth == 0 { "" } else { "," });
                    value.write(random, json);
                }
                json.push(']');
            }
            Self::Raw(raw) => json.push_str(raw),
        }
        json.push_str(random.blank());
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn pick(&mut self, values: &[&'static str]) -> &'static str {
        values[self.below(values.len())]
    }

    fn blank(&mut self) -> &'static str {
        if self.below(60) == 0 { self.pick(&[" ", "\t", "  "]) } else { "" }
    }

    fn value(&mut self) -> Node {
        let value = match self.below(40) {
            // Rarely, as the stream ends here, and nothing after it is compared.
            0 => self.pick(&BROKEN),
            1..15 => self.pick(&TEXTS),
            _ => self.pick(&VALUES),
        };
        Node::Raw(value.to_owned())
    }

    /// The value that [`MEMBERS`] has for this name, or another.
    fn value_of(&mut self, name: &str) -> Node {
        match MEMBERS.iter().find(|(known, _)| name.trim_matches('"') == *known) {
            Some((_, value)) if self.below(2) == 0 => Node::Raw((*value).to_owned()),
            _ => self.value(),
        }
    }

    fn mutate(&mut self, chunk: &mut Node) {
        // The chunk itself stays an object.
        let mut nth = self.below(chunk.count());
        let is_chunk = nth == 0;
        let Some(node) = chunk.at(&mut nth) else { return };
        match node {
            _ if !is_chunk && self.below(3) == 0 => *node = self.value(),
            Node::Object(members) => {
                let at = self.below(members.len());
                match self.below(7) {
                    0 => members.rotate_left(at),
                    1 if !members.is_empty() => members.extend([members[at].clone()]),
                    2 if !members.is_empty() => {
                        let name = members[at].0.clone();
                        let value = self.value_of(&name);
                        members.insert(at, (name, value));
                    }
                    3 if !members.is_empty() => _ = members.remove(at),
                    4 if !members.is_empty() => members[at].0 = members[at].0.replacen('e', "\\u0065", 1),
                    _ => {
                        let name = format!("\"{}\"", MEMBERS[self.below(MEMBERS.len())].0);
                        let value = self.value_of(&name);
                        if self.below(2) == 0 {
                            members.retain(|(known, _)| *known != name);
                        }
                        members.insert(at.min(members.len()), (name, value));
                    }
                }
            }
            Node::List(values) => match self.below(3) {
                0 => values.clear(),
                1 => values.push(self.value()),
                _ => values.extend(values.first().cloned()),
            },
            Node::Raw(raw) if raw.starts_with('"') => {
                let escape = self.pick(&[
                    "\\n",
                    "\\u0041",
                    "\\ud83d\\ude00",
                    "\\ud83d",
                    "\\ude00",
                    "\\q",
                    "é",
                    "\u{1}",
                ]);
                raw.insert_str(1, escape);
            }
            Node::Raw(_) => *node = self.value(),
        }
    }

    /// A usual chunk with up to three mutations, now and then cut off or followed by more.
    fn chunk(&mut self) -> String {
        let mut chunk = Node::of(&serde_json::from_str(self.pick(&USUAL)).unwrap());
        for _ in 0..self.below(4) {
            self.mutate(&mut chunk);
        }
        let mut json = String::new();
        chunk.write(self, &mut json);
        let mut json = json.trim().to_owned();
        match self.below(40) {
            0 => json.truncate(
                (1..=self.below(json.len())).rev().find(|end| json.is_char_boundary(*end)).unwrap_or(1),
            ),
            1 => json += self.pick(&["}", ",", "{}", " null"]),
            _ => {}
        }
        json
    }

    /// The chunk with texts in place of `"@"`.
    fn filled(&mut self, chunk: &str) -> String {
        let mut chunk = chunk.to_owned();
        while chunk.contains("\"@\"") {
            chunk = chunk.replacen("\"@\"", self.pick(&TEXTS), 1);
        }
        chunk
    }
}

/// Each mutated chunk is sent three times with other texts, as its pattern may parse the second and third. The same usual
/// chunk comes before and after, as its pattern must not outlive a chunk that changes what the pattern leaves out.
#[test]
fn mutated_chunks_decode_the_same_on_both_paths() {
    let wires: Vec<Wire> = profiles().into_iter().map(|profile| Wire::of(profile, "m")).collect();
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let usual = random.pick(&USUAL);
        let mut chunks = vec![random.filled(usual)];
        for _ in 0..2 {
            let chunk = random.chunk();
            chunks.extend((0..3).map(|_| random.filled(&chunk)));
            chunks.push(random.filled(usual));
        }
        let (fast, general) = both(&wires[random.below(wires.len())], &chunks);
        assert_eq!(fast, general, "seed {seed}: {chunks:#?}");
    }
}
