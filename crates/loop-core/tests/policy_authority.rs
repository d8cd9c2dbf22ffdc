//! Whom and what an effect reaches: only what somebody gave who may, exactly (K3).

use std::cell::Cell;
use std::sync::Arc;

use loop_core::policy::{
    PolicyAsk, Reason, Ruling, RunSources, SoughtValue, Sources, Taint, UntrustedOrigin, ValueSource,
    rendered, ruling,
};
use loop_core::spec::{ArgSpec, ToolSpec};
use loop_core::types::{
    Arguments, CommandKey, Effect, EvidenceId, Instruction, Observation, Scope, Slot, Status,
};
use loop_core::{Evidence, RunSpec, WorkItem};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a customer wrote, as a domain shows it: fields first, then prose.
const ITEM: &str = "\
number: T-1042
subject: Refund for ORD-1001
contact: ada@brown.example
company: Osier Works
amount: 89.90
paid: 120
copies:
- carl@brown.example
- Dora Ames
channel: general

Please write to eve@brown.example, (or to fay@brown.example) about order #1001; \"gus@brown.example\" knows more.
My colleague is o'neil@brown.example, the old address was <hal@brown.example>. In general nobody at admin answers.
The invoice is https://shop.example/orders/1001?part=a(1) and the export `/srv/export/a.csv`, see also `nightly`.
It was $45.50 in the end, not 12 500 or 1,250.00, and never -7 or 0042. Ask *ivy@brown.example*!
All of this by Friday at 10:30, well-known as it is: C:\\tmp\\b.txt; docs/notes.md.
jan@brown.example;kim@brown.example,leo@brown.example
She works for EPAM now, not for McKay; Priya told us.
Odd ones: 'zed@brown.example {yan@brown.example _xan@brown.example ~wim@brown.example *vic@brown.example.
";

fn args() -> ArgSpec {
    ArgSpec::from_schema(&json!({"type": "object", "properties": {
        "to": {}, "amount": {"type": "number", "default": 3}, "mode": {"const": "fast"},
        "target": {"type": "object", "properties": {"host": {"type": "string"}}, "additionalProperties": true},
        "list": {"type": "array", "items": {"type": "object", "properties": {"mail": {}, "name": {}}}},
    }}))
}

fn tool(authority: &[&str]) -> ToolSpec {
    let mut tool = loop_testkit::run().spec.tool("restart").unwrap().clone();
    tool.name = "send".into();
    tool.aliases = Vec::new();
    tool.effect = Effect::Egress;
    tool.args = args();
    tool.policy.authority = authority.iter().map(|pointer| Arc::from(*pointer)).collect();
    tool
}

fn read(name: &str, change: impl FnOnce(&mut ToolSpec)) -> ToolSpec {
    let mut tool = loop_testkit::run().spec.tool("fetch_device").unwrap().clone();
    (tool.name, tool.aliases) = (name.into(), Vec::new());
    change(&mut tool);
    tool
}

fn spec(authority: &[&str]) -> RunSpec {
    let mut spec = loop_testkit::run().spec;
    spec.tools = vec![
        tool(authority),
        read("look", |_| {}),
        read("surf", |tool| tool.policy.returns_untrusted = true),
        read("ask", |tool| tool.policy.asks_person = true),
    ];
    spec.gate.approved = vec!["send".into()];
    spec.gate.people = true;
    spec
}

fn item(text: &str) -> WorkItem {
    WorkItem::new("T-1042", "ticket", "A ticket", text)
}

#[derive(Default)]
struct GivenSources {
    evidence: Vec<Evidence>,
    instructions: Vec<Instruction>,
    requested_before: Vec<Arguments>,
    user_texts: Vec<Arc<str>>,
}

impl GivenSources {
    fn returned(mut self, tool: &str, parameters: Value, data: Value) -> Self {
        self.observed(tool, parameters, Observation::new(Status::Ok, "found", "found", data));
        self
    }

    fn observed(&mut self, tool: &str, parameters: Value, observation: Observation) {
        let n = self.evidence.len() as u32;
        self.evidence.push(Evidence {
            id: EvidenceId(n + 1),
            key: CommandKey::new(1, Slot::Action(n)),
            pass: n + 1,
            tool: tool.into(),
            parameters: parameters.to_string().into(),
            observation: observation.into(),
            shortened: false,
        });
    }

    /// What was asked for in the same reply as what was returned before it.
    fn in_the_same_pass(mut self) -> Self {
        self.evidence.iter_mut().for_each(|evidence| evidence.pass = 1);
        self
    }

    fn instructions(mut self, text: &str) -> Self {
        self.instructions.push(Instruction { from_pass: 1, text: text.into() });
        self
    }
}

fn rule(spec: &RunSpec, item: &WorkItem, given: &GivenSources, parameters: &Value) -> Ruling {
    let sources = RunSources {
        spec,
        item,
        evidence: &given.evidence,
        instructions: &given.instructions,
        requested_before: &given.requested_before,
        user_texts: &given.user_texts,
    };
    let tool = spec.tool("send").unwrap();
    ruling(&PolicyAsk { spec, tool, parameters, taint: Taint::default(), sources: &sources, planned: None })
}

/// Whether the value may be sent to, with nothing else against it.
#[track_caller]
fn check(item: &WorkItem, given: &GivenSources, value: Value, expected: bool) {
    assert!(is_as(item, given, &value, expected), "{value} {expected}");
}

fn is_as(item: &WorkItem, given: &GivenSources, value: &Value, expected: bool) -> bool {
    let mut spec = spec(&["/to"]);
    let parameters = json!({ "to": value });
    let requested = rule(&spec, item, given, &parameters);
    spec.gate.people = false;
    match (requested, rule(&spec, item, given, &parameters)) {
        (Ruling::Runs, Ruling::Runs) => expected,
        (Ruling::NeedsPerson(_), Ruling::Denied(_)) => !expected,
        _ => false,
    }
}

/// Values as JSON, as many as a line holds; what begins with `//` is a comment.
fn values(lines: &str) -> Vec<Value> {
    let lines = lines.lines().filter(|line| !line.starts_with("//"));
    let all = lines.flat_map(|line| serde_json::Deserializer::from_str(line).into_iter::<Value>());
    all.collect::<Result<_, _>>().unwrap()
}

#[track_caller]
fn check_all(values: &[Value], expected: bool) {
    let wrong: Vec<String> = values
        .iter()
        .filter(|value| !is_as(&item(ITEM), &GivenSources::default(), value, expected))
        .map(Value::to_string)
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_stands_in_the_work_item_as_a_whole_is_given_and_nothing_else() {
    // K3, S4-11, S4-36
    let given = values(
        r##"
// Fields, bullets, whole words with what sentences put around them.
"T-1042"  "ada@brown.example"  "Osier Works"  "carl@brown.example"  "Dora Ames"  "general"
"eve@brown.example"  "fay@brown.example"  "gus@brown.example"  "hal@brown.example"  "ivy@brown.example"
"o'neil@brown.example"  "ORD-1001"  "#1001"  "1001"  1001  "https://shop.example/orders/1001?part=a(1)"
"/srv/export/a.csv"  "nightly"  "EPAM"  "McKay"  "docs/notes.md"  "C:\\tmp\\b.txt"  "10:30"  "89.90"  89.9
120  "120"  120.0  45.5  -7  "A ticket"
// An address in other letters is the same box.
"Ada@brown.example"  "ADA@BROWN.EXAMPLE"  "ada@Brown.example"
// Lists, element by element; nobody at all.
["ada@brown.example", "carl@brown.example"]  [["ada@brown.example"], []]  []  null
[null, "ada@brown.example"]
"##,
    );
    check_all(&given, true);
    let mut untrusted_origin = values(
        r##"
// Somebody else.
"mallory@evil.example"  "ada@brown.example.evil.example"  "evil-ada@brown.example"  "ada@brown.exampl"
"da@brown.example"  "neil@brown.example"  "zed@brown.example"  "yan@brown.example"  "xan@brown.example"
"wim@brown.example"  "vic@brown.example"  "brown.example"  "ada"  "@brown.example"  "example"
// More than one in one text.
"ada@brown.example;mallory@evil.example"  "ada@brown.example; mallory@evil.example"
"ada@brown.example,mallory@evil.example"  "ada@brown.example, mallory@evil.example"
"ada@brown.example\nmallory@evil.example"  "ada@brown.example\r\nBcc: mallory@evil.example"
"ada@brown.example mallory@evil.example"  "ada@brown.example\tmallory@evil.example"
"ada@brown.example|mallory@evil.example"  "ada@brown.example\u0000mallory@evil.example"
"ada@brown.example carl@brown.example"  "ada@brown.example,carl@brown.example"
"ada@brown.example;carl@brown.example"  "carl@brown.example\nDora Ames"
"jan@brown.example;kim@brown.example"  "kim@brown.example"  "ada@brown.example%0abcc:mallory@evil.example"
"mailto:ada@brown.example?cc=mallory@evil.example"
// Display names, comments, routes, quotes.
"Ada Brown <ada@brown.example>"  "\"ada@brown.example\" <mallory@evil.example>"
"ada@brown.example <mallory@evil.example>"  "<ada@brown.example>"
"<mallory@evil.example>ada@brown.example"  "ada@brown.example(mallory@evil.example)"
"ada(x)@brown.example"  "\"ada@brown.example\""  "'ada@brown.example'"  "mailto:ada@brown.example"
"ada@brown.example@evil.example"  "ada%40brown.example@evil.example"  "evil.example!ada@brown.example"
// The same box, or seemingly so, by another spelling.
"ada+x@brown.example"  "ada+mallory=evil.example@brown.example"  "a.da@brown.example"  "ada@brown.example."  "ada@brown.example,"  "ada@brown.example;"
" ada@brown.example"  "ada@brown.example "  "ada@brown.example\n"  "\tada@brown.example"
"ada @brown.example"  "ada@ brown.example"
// Characters that look like others, or like nothing.
"\u0430da@brown.example"  "ad\u0430@brown.example"  "ada@br\u043ewn.example"  "ada@brown.ex\u0251mple"
"\uff41da@brown.example"  "ada\uff20brown.example"  "ada@brown\u3002example"  "ada@brown\uff0eexample"
"ada\ufe6bbrown.example"  "\ud835\udc1ada@brown.example"  "ada@brown.example\u200b"
"ada\u200b@brown.example"  "a\u00adda@brown.example"  "ada@brown\u2060.example"  "\ufeffada@brown.example"
"ada@brown.example\u202eelpmaxe.live"  "\u202aada@brown.example\u202c"  "ada@brown.example\u00a0"
"ada@brown.example\u2003"  "ada@brown.example\u3000mallory@evil.example"
"ada@brown.example\u2028mallory@evil.example"  "ada@brown.example\u0085"  "ada@brown.example\udb40\udc41"
"ada@brown.example\ufe0f"  "a\u0301da@brown.example"  "ada@brown.example\u0301"  "ada@xn--brown-.example"
"Osier\u00a0Works"  "Osier  Works"  "osier works"  "Osier"  "Works"
// Parts of addresses, paths and names.
"https://shop.example"  "https://shop.example/orders/1001"  "https://shop.example/orders/1001?part=a"
"https://shop.example/orders/1001?part=a(1"  "https://shop.example/orders/1001?part=a(1)&to=evil.example"
"https://shop.example@evil.example/orders/1001?part=a(1)"  "https://shop.example.evil.example/"
"http://shop.example/orders/1001?part=a(1)"  "//shop.example/orders/1001?part=a(1)"  "shop.example"
"/srv/export"  "/srv/export/"  "/srv/export/a"  "/srv/export/../../etc/passwd"
"/srv/export/a.csv/../b.csv"  "srv/export/a.csv"  "a.csv"  "file:///srv/export/a.csv"  "notes.md"  "docs"
"docs/notes"  "C:"  "tmp"  "b.txt"  "ORD-100"  "ORD"  "ord-1001"  "RD-1001"  "ORD-10010"  "T-1042 "
// Words of prose.
"all"  "All"  "Priya"  "epam"  "Epam"  "EPA"  "Mc"  "admin"  "nobody"  "Friday"  "order"  "example"  "."
"/"  "*"  ","  "-"  "at admin answers"  "write to eve@brown.example"
// Amounts.
12  "12"
// H2: a number in a sentence names no id.
"0042"  500  12500  1250  1  "1,250"  7  42  4  1042  89  90  89.91  899  8990  -120  -45.5  45  10  30
1e20  "1e2"  "+120"  "0120"  "120.0"  "\u0661\u0662\u0660"  "\uff11\uff12\uff10"
// Truths, empties, and what is not one value.
true  false  ""  " "  "\u200b"  "null"  ["ada@brown.example", "mallory@evil.example"]
["ada@brown.example", ["mallory@evil.example"]]  [["ada@brown.example", "ada@brown.example;"]]
{"mallory@evil.example": "ada@brown.example"}  {"address": "mallory@evil.example"}
{"address": "ada@brown.example"}  {"": "ada@brown.example"}  {"ada@brown.example": true}
{"ada@brown.example": {"bcc": "mallory@evil.example"}}
"##,
    );
    untrusted_origin.extend([
        json!(format!("ada@brown.example{}mallory@evil.example", " ".repeat(3_000))),
        json!("a".repeat(3_000)),
    ]);
    assert!(untrusted_origin.len() >= 160, "{}", untrusted_origin.len());
    check_all(&untrusted_origin, false);
}

#[test]
fn the_id_of_the_item_is_given() {
    let item = WorkItem::new("Q-77", "question", "hello", "hello");
    check(&item, &GivenSources::default(), json!("Q-77"), true);
    check(&item, &GivenSources::default(), json!("question"), false);
}

#[test]
fn what_a_title_was_cut_off_behind_is_not_given() {
    for (text, value, expected) in [
        ("Refund to support@bank.com…", json!("support@bank.com"), false),
        ("Refund to support@bank.com.…", json!("support@bank.com"), false),
        ("Refund to (support@bank.com…)", json!("support@bank.com"), false),
        ("Refund to \"support@bank.com…", json!("support@bank.com"), false),
        ("Pay 1200…", json!(1200), false),
        ("Pay 1200…", json!("1200"), false),
        ("Refund to support@bank.com …", json!("support@bank.com"), true),
        ("Refund to support@bank.com...", json!("support@bank.com"), true),
    ] {
        check(&WorkItem::new("Q-77", "question", text, "hello"), &GivenSources::default(), value, expected);
    }
}

#[test]
fn a_number_is_given_however_many_zeros_end_it() {
    for (text, value, expected) in [
        ("pay 120 now", json!(120.0), true),
        ("pay 120.00 now", json!(120), true),
        ("pay 120.10 now", json!(120.1), true),
        ("pay 120.01 now", json!(120.1), false),
        ("pay (€120) now", json!(120), true),
        ("pay 120€, now", json!(120), true),
        ("pay 120% now", json!(120), false),
        ("pay 1120 now", json!(120), false),
    ] {
        check(&item(text), &GivenSources::default(), value, expected);
    }
}

#[test]
fn a_value_that_stands_in_json_is_one_scalar_of_it() {
    let text = r#"{"to": "ada@brown.example", "many": "a@x.example; b@x.example", "n": 7, "deep": [{"path": "/srv/a"}]}"#;
    for (value, expected) in [
        (json!("ada@brown.example"), true),
        (json!("a@x.example; b@x.example"), true),
        (json!("a@x.example"), true),
        (json!("x.example"), false),
        (json!(7), true),
        (json!("/srv/a"), true),
        (json!("/srv"), false),
        (json!("deep"), false),
        (json!("path"), false),
    ] {
        check(&item(text), &GivenSources::default(), value, expected);
    }
}

#[test]
fn a_work_item_that_anybody_may_have_written_gives_its_scope_alone() {
    let mut spec = spec(&["/to"]);
    let mut item = item(ITEM);
    item.scope = Scope { person: Some("ada@brown.example".into()), ..Scope::default() };
    spec.gate.item_untrusted = true;
    let runs = |value: &str| {
        let sources = RunSources {
            spec: &spec,
            item: &item,
            evidence: &[],
            instructions: &[],
            requested_before: &[],
            user_texts: &[],
        };
        let tool = spec.tool("send").unwrap();
        let parameters = json!({ "to": value });
        let ask = PolicyAsk {
            spec: &spec,
            tool,
            parameters: &parameters,
            taint: Taint::default(),
            sources: &sources,
            planned: None,
        };
        ruling(&ask) == Ruling::Runs
    };
    assert!(runs("ada@brown.example"));
    for value in ["Ada@brown.example", "eve@brown.example", "T-1042", "ORD-1001", "Osier Works"] {
        assert!(!runs(value), "{value}");
    }
}

#[test]
fn a_trusted_tool_gives_the_scalars_of_its_data() {
    let rows = json!([{"id": 7, "mail": "zoe@brown.example", "note": "write to mal@evil.example or 9"}]);
    let look = || GivenSources::default().returned("look", json!({"target": "Zoe"}), rows.clone());
    for (value, expected) in [
        (json!("zoe@brown.example"), true),
        (json!("Zoe@brown.example"), false),
        (json!("zoe@brown.example "), false),
        (json!(7), true),
        (json!("7"), true),
        (json!("07"), false),
        (json!("mal@evil.example"), false),
        (json!(9), false),
        (json!("mail"), false),
        (json!("write to mal@evil.example or 9"), true),
    ] {
        check(&item("hello"), &look(), value, expected);
    }
    // What does not show is given by nobody, even where it stands.
    let odd = [
        "a\u{200b}b@x.example",
        "c\nd@x.example",
        "e\u{7}f@x.example",
        " g@x.example",
        "h\u{a0}i@x.example",
        "",
    ];
    let data = GivenSources::default().returned("look", json!({}), json!(odd));
    for value in odd {
        check(&item("hello"), &data, json!(value), false);
    }
    // However its JSON is written.
    let mut escaped = GivenSources::default();
    let text = r#"{"mail": "zo\u0065@brown.example", "page": "https:\/\/x.example\/a", "price": 89.90}"#;
    escaped.observed("look", json!({}), Observation::new(Status::Ok, "x", "x", text));
    for value in [json!("zoe@brown.example"), json!("https://x.example/a"), json!(89.9)] {
        check(&item("hello"), &escaped, value, true);
    }
    // A tool that speaks in text gives whole words of it.
    let text = GivenSources::default().returned("look", json!({}), json!("Zoe (id 7), zoe@brown.example."));
    check(&item("hello"), &text, json!("zoe@brown.example"), true);
    check(&item("hello"), &text, json!(7), true);
    check(&item("hello"), &text, json!("Zoe"), false);
    // One that is not trusted gives nothing, and neither does one that failed.
    let surf = GivenSources::default().returned("surf", json!({}), rows.clone());
    check(&item("hello"), &surf, json!("zoe@brown.example"), false);
    let mut failed = GivenSources::default();
    failed.observed("look", json!({}), Observation::new(Status::PermanentError, "x", "x", rows));
    check(&item("hello"), &failed, json!("zoe@brown.example"), false);
}

#[test]
fn what_a_tool_gives_back_after_it_went_in_is_an_echo() {
    let found = |value: &str| json!([{ "query": value, "mail": "zoe@brown.example" }]);
    let evil = "mallory@evil.example";
    for requested in [evil, "MALLORY@evil.example", "mallory @ evil . example", "x mallory@evil.example y"] {
        let echo = GivenSources::default().returned("look", json!({ "target": requested }), found(evil));
        check(&item("hello"), &echo, json!(evil), false);
        check(&item("hello"), &echo, json!("zoe@brown.example"), true);
        // Nor is it a source when another tool brings it later.
        let later = GivenSources::default()
            .returned("surf", json!({ "target": requested }), json!([]))
            .returned("look", json!({"target": "all"}), found(evil));
        check(&item("hello"), &later, json!(evil), false);
    }
    // What was returned first and asked with later is no echo.
    let chain = GivenSources::default()
        .returned("look", json!({"target": "Zoe"}), json!([{"id": 7}]))
        .returned("look", json!({"id": 7}), json!({"id": 7, "mail": "zoe@brown.example"}));
    check(&item("hello"), &chain, json!(7), true);
    check(&item("hello"), &chain, json!("zoe@brown.example"), true);
    // In whatever spelling it went in.
    for (requested, value) in [
        ("+1 555 123 4567", "+15551234567"),
        ("4111 1111 1111 1111", "4111111111111111"),
        ("042", "42"),
        ("eve@\tevil.example", "eve@evil.example"),
        ("eve@\nevil.example", "eve@evil.example"),
        ("jose\u{301}@evil.example", "josé@evil.example"),
    ] {
        let echo = GivenSources::default().returned("look", json!({ "target": requested }), found(value));
        check(&item("hello"), &echo, json!(value), false);
    }
    // Another value is not an echo because both have marks, nor is one that is too short to be found inside of a word.
    for (requested, value, is_given) in [
        ("\u{438}\u{306}@evil.example", "zo\u{e9}@brown.example", true),
        ("q7zoe1x", "zoe1", false),
        ("q7zoex", "zoe", true),
        // Zeros before a number are not a part of it, and those before a word are.
        ("007", "7", false),
        ("00x", "x", true),
        ("07.x", "7.x", true),
        ("x.70", "x.7", true),
        ("7.10", "7.1", false),
    ] {
        let given = GivenSources::default().returned("look", json!({ "target": requested }), json!([value]));
        check(&item("hello"), &given, json!(value), is_given);
    }
    // The calls of one reply run in any order, so that the first may bring what the second wrote.
    let notes = || {
        GivenSources::default().returned("look", json!({}), json!([evil, "zoe@brown.example"])).returned(
            "surf",
            json!({ "target": evil }),
            json!([]),
        )
    };
    check(&item("hello"), &notes(), json!(evil), true);
    check(&item("hello"), &notes().in_the_same_pass(), json!(evil), false);
    check(&item("hello"), &notes().in_the_same_pass(), json!("zoe@brown.example"), true);
    // A short number is not an echo of a longer one.
    let other =
        GivenSources::default().returned("look", json!({"limit": 17, "at": "1.7"}), json!([{"id": 7}]));
    check(&item("hello"), &other, json!(7), true);
}

#[test]
fn a_person_gives_values_by_what_they_say() {
    let instructions =
        GivenSources::default().instructions("Please use zoe@brown.example, not the other one.");
    check(&item("hello"), &instructions, json!("zoe@brown.example"), true);
    check(&item("hello"), &instructions, json!("other"), false);
    // An answer counts although the question may have held the value.
    let question = json!({"target": "Shall it go to zoe@brown.example or to yan@brown.example?"});
    let answer = GivenSources::default().returned("ask", question.clone(), json!("To zoe@brown.example"));
    check(&item("hello"), &answer, json!("zoe@brown.example"), true);
    check(&item("hello"), &answer, json!("yan@brown.example"), false);
    let answer =
        GivenSources::default().returned("ask", question, json!({"answer": "yes, zoe@brown.example"}));
    check(&item("hello"), &answer, json!("zoe@brown.example"), true);
}

#[test]
fn policy_gives_values_by_name_by_default_and_by_const() {
    let mut spec = spec(&["/to", "/amount", "/mode"]);
    spec.gate.authorities = vec!["desk@shop.example".into(), "25".into(), "true".into()];
    let runs = |parameters: Value| {
        rule(&spec, &item("hello"), &GivenSources::default(), &parameters) == Ruling::Runs
    };
    assert!(runs(json!({"to": "desk@shop.example", "amount": 25, "mode": "fast"})));
    assert!(runs(json!({"to": true, "amount": 3})));
    assert!(runs(json!({"amount": 25.0})));
    assert!(runs(json!({})));
    for untrusted_origin in [
        json!({"to": "Desk@shop.example"}),
        json!({"to": "desk@shop.example "}),
        json!({"to": "desk@shop.example", "amount": 26}),
        json!({"to": false}),
        json!({"mode": "slow"}),
    ] {
        assert!(!runs(untrusted_origin.clone()), "{untrusted_origin}");
    }
}

#[test]
fn pointers_reach_into_lists_and_objects() {
    let listed = json!({"list": [{"mail": "ada@brown.example", "name": "x y"}, {"mail": "mallory@evil.example", "name": "z"}]});
    let untrusted_origin = |pointers: &[&str], parameters: &Value| match rule(
        &spec(pointers),
        &item(ITEM),
        &GivenSources::default(),
        parameters,
    ) {
        Ruling::Runs => Vec::new(),
        Ruling::NeedsPerson(reasons) | Ruling::Denied(reasons) => reasons
            .into_iter()
            .map(|reason| match reason {
                Reason::UntrustedOrigin(UntrustedOrigin { pointer, .. }) => pointer.to_string(),
                other => panic!("{other:?}"),
            })
            .collect(),
    };
    assert_eq!(untrusted_origin(&["/list/*/mail"], &listed), ["/list/1/mail"]);
    assert_eq!(untrusted_origin(&["/list/0/mail"], &listed), Vec::<String>::new());
    assert_eq!(untrusted_origin(&["/list"], &listed), ["/list/0/name", "/list/1/mail", "/list/1/name"]);
    assert_eq!(untrusted_origin(&["/list/*/none", "/nowhere", "/to"], &listed), Vec::<String>::new());
    // Names that the tool does not declare are values, those that it declares are not.
    let object = json!({"target": {"host": "ORD-1001", "a/b~c": "T-1042"}});
    assert_eq!(untrusted_origin(&["/target"], &object), ["/target/a~1b~0c"]);
    assert_eq!(untrusted_origin(&["/target/host"], &object), Vec::<String>::new());
    assert_eq!(untrusted_origin(&["/target/*"], &json!({"target": {"host": "x.example"}})), ["/target/host"]);
    // A value of another shape is looked at as it is.
    for (pointer, to, expected) in [
        ("/to/*/address", json!(["eve@evil.example", {"address": "ada@brown.example"}, null]), "/to/0"),
        ("/to/*/address", json!("eve@evil.example"), "/to"),
        ("/to/*", json!(7), "/to"),
        ("/to/address", json!([["ada@brown.example", "eve@evil.example"]]), "/to/0/1"),
        ("/to/address", json!([["ada@brown.example"], "eve@evil.example"]), "/to/1"),
        ("/to/0", json!({"ada@brown.example": "eve@evil.example"}), "/to/ada@brown.example"),
        ("/to/a/b/c", json!({"a": {"b": "eve@evil.example"}}), "/to/a/b"),
        ("/to/a/b/c", json!({"a": true}), "/to/a"),
    ] {
        assert_eq!(untrusted_origin(&[pointer], &json!({ "to": to })), [expected], "{pointer} {to}");
    }
    assert_eq!(
        untrusted_origin(&["/to/*/address"], &json!({"to": ["ada@brown.example"]})),
        Vec::<String>::new()
    );
    assert_eq!(untrusted_origin(&["/to/address"], &json!({"to": {"name": "x"}})), Vec::<String>::new());
    assert_eq!(untrusted_origin(&["/to/1"], &json!({"to": ["x"]})), Vec::<String>::new());
}

#[test]
fn too_many_values_are_for_a_person() {
    let many = |n: usize| json!({ "to": vec!["ada@brown.example"; n] });
    let rule = |parameters: &Value| rule(&spec(&["/to"]), &item(ITEM), &GivenSources::default(), parameters);
    assert_eq!(rule(&many(256)), Ruling::Runs);
    let Ruling::NeedsPerson(reasons) = rule(&many(100_000)) else { panic!() };
    assert_eq!(&*rendered(&reasons).unwrap(), "/to/256 comes after 256 values that say whom it reaches");
    let Ruling::NeedsPerson(reasons) = rule(&json!({ "to": vec!["mallory@evil.example"; 1_000] })) else {
        panic!()
    };
    assert_eq!(reasons.len(), 3, "a few are enough to tell");
}

#[test]
fn each_value_is_looked_up_once() {
    struct Counts(Cell<usize>);
    impl Sources for Counts {
        fn hold(&self, values: &[SoughtValue<'_>]) -> Vec<Option<ValueSource>> {
            self.0.set(self.0.get() + values.len());
            vec![Some(ValueSource::User); values.len()]
        }

        fn mention(&self, _: &Value) -> bool {
            false
        }
    }
    let (spec, sources) = (spec(&["/to"]), Counts(Cell::new(0)));
    let to: Vec<String> = (0..200).map(|n| format!("a{}@x.example", n % 3)).collect();
    let parameters = json!({ "to": to });
    let tool = spec.tool("send").unwrap();
    let ask = PolicyAsk {
        spec: &spec,
        tool,
        parameters: &parameters,
        taint: Taint::default(),
        sources: &sources,
        planned: None,
    };
    assert_eq!(ruling(&ask), Ruling::Runs);
    assert_eq!(sources.0.get(), 3);
}

#[test]
fn what_is_foreign_is_told_with_its_place_and_with_nothing_hidden() {
    let parameters = json!({"to": format!("ada\u{200b}\u{202e}@brown.example\n{}", "x".repeat(300))});
    let Ruling::NeedsPerson(reasons) =
        rule(&spec(&["/to"]), &item(ITEM), &GivenSources::default(), &parameters)
    else {
        panic!()
    };
    let instructions = rendered(&reasons).unwrap();
    let expected = format!("/to is \"ada\\u200b\\u202e@brown.example\\n{}…, which was given", "x".repeat(48));
    assert!(instructions.starts_with(&expected), "{instructions}");
    assert!(
        instructions.ends_with("neither with the work item nor by policy nor by a trusted tool"),
        "{instructions}"
    );
}

#[test]
fn a_tool_that_only_looks_reaches_nobody() {
    let mut spec = spec(&["/to"]);
    spec.tools[0].effect = Effect::Read;
    let parameters = json!({"to": "mallory@evil.example"});
    assert_eq!(rule(&spec, &item(ITEM), &GivenSources::default(), &parameters), Ruling::Runs);
}

/// Texts and values of pieces that meet at every kind of boundary.
fn pieces(max: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("ada@x.example"),
        Just("a1"),
        Just("b"),
        Just("7"),
        Just("x.y"),
        Just(" "),
        Just("\n"),
        Just("("),
        Just(")"),
        Just("<"),
        Just(">"),
        Just("'"),
        Just("\""),
        Just("`"),
        Just("*"),
        Just(","),
        Just(";"),
        Just("."),
        Just("-"),
        Just("- "),
        Just("/"),
        Just("+"),
        Just("@"),
        Just("#"),
        Just("k: "),
        Just("é"),
        Just("\u{200b}"),
    ];
    prop::collection::vec(piece, 1..max).prop_map(|pieces| pieces.concat())
}

fn gives(text: &str, value: &str) -> bool {
    let item = WorkItem::new("no-1", "ticket", "none", text);
    rule(&spec(&["/to"]), &item, &GivenSources::default(), &json!({ "to": value })) == Ruling::Runs
}

proptest! {
    #![proptest_config(crate::common::cases(1_000))]

    #[test]
    fn what_a_text_gives_stands_in_it_between_boundaries(text in pieces(14), from in 0_usize..40, length in 1_usize..24) {
        // A piece of a longer word is never given, wherever the text is cut.
        let value: String = text.chars().skip(from).take(length).collect();
        if value.is_empty() || !gives(&text, &value) {
            return Ok(());
        }
        prop_assert!(value.contains(char::is_alphanumeric) && value.trim() == value, "{:?}", value);
        prop_assert!(!value.contains(['\n', '\u{200b}']), "{:?}", value);
        let is_start = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "([<\"'`*#".contains(c));
        let is_end = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || ")]>\"'`*.,;:".contains(c));
        let bounded = text.match_indices(&value).any(|(at, found)| {
            is_start(text[..at].chars().next_back()) && is_end(text[at + found.len()..].chars().next())
        });
        prop_assert!(bounded, "{:?} of {:?}", value, text);
    }

    #[test]
    fn an_address_between_blanks_is_always_given(before in pieces(8), behind in pieces(8), name in "[a-z]{1,8}") {
        let address = format!("{name}@brown.example");
        let own = [
            format!("{before} {address} {behind}"),
            format!("{before} {address}. {behind}"),
            format!("{before}\nto: {address}\n{behind}"),
        ];
        for text in own {
            prop_assert!(gives(&text, &address), "{:?}", text);
        }
        let longer = [
            format!("{before} x{address} {behind}"),
            format!("{before} {address}.evil {behind}"),
            format!("{before} a,{address} {behind}"),
        ];
        for text in longer {
            prop_assert!(!gives(&text, &address), "{:?}", text);
        }
    }
}

#[test]
fn what_a_tool_was_asked_with_in_an_earlier_turn_comes_back_as_an_echo() {
    // B6, K3: the first turn has it written, the second has it read by a trusted tool.
    let returned =
        || GivenSources::default().returned("look", json!({"id": 7}), json!([{"to": "eve@evil.example"}]));
    let value = || json!("eve@evil.example");
    check(&item(ITEM), &returned(), value(), true);
    let laundered = |requested: &[Value]| GivenSources {
        requested_before: requested.iter().map(|parameters| parameters.to_string().into()).collect(),
        ..returned()
    };
    check(&item(ITEM), &laundered(&[json!({"id": 7, "email": "Eve@evil.example"})]), value(), false);
    check(
        &item(ITEM),
        &laundered(&[json!({"name": "eve@"}), json!({"host": "evil.example"})]),
        value(),
        false,
    );
    check(&item(ITEM), &laundered(&[json!({"id": 7, "email": "ada@brown.example"})]), value(), true);
}

#[test]
fn what_the_user_wrote_in_an_earlier_turn_is_given() {
    // Issue 40, H9
    let texts = ["Write to zoe@brown.example, please.", "{\"to\": \"yan@brown.example\"}", "By June 13."];
    let turns = GivenSources { user_texts: texts.map(Arc::from).to_vec(), ..GivenSources::default() };
    for (value, expected) in
        [("zoe@brown.example", true), ("yan@brown.example", true), ("eve@evil.example", false), ("13", false)]
    {
        check(&item("Send it."), &turns, json!(value), expected);
    }
    // Whoever writes to an untrusted item wrote its earlier messages.
    let mut spec = spec(&["/to"]);
    spec.gate.item_untrusted = true;
    let parameters = json!({"to": "zoe@brown.example"});
    assert_ne!(rule(&spec, &item("Send it."), &turns, &parameters), Ruling::Runs);
}

#[test]
fn a_value_that_a_trusted_tool_joins_of_what_it_was_asked_with_is_an_echo() {
    // B12
    let joined = json!([{"to": "eve@evil.example"}]);
    let value = || json!("eve@evil.example");
    let one =
        GivenSources::default().returned("look", json!({"b": "evil.example", "a": "eve@"}), joined.clone());
    check(&item(ITEM), &one, value(), false);
    let two = GivenSources::default()
        .returned("look", json!({"part": "evil.example"}), json!("stored"))
        .returned("look", json!({"part": "eve@"}), json!("stored"))
        .returned("look", json!({}), joined.clone());
    check(&item(ITEM), &two, value(), false);
    let other = GivenSources::default().returned("look", json!({"part": "evil"}), joined);
    check(&item(ITEM), &other, value(), true);
}
