//! Policy: who may run what, before anything is run.

use std::sync::Arc;

use loop_core::gate::policy_verdict;
use loop_core::policy::{
    Choice, NameMatch, PolicyAsk, Reason, Ruling, TableCell, Taint, forbids, is_forbidden, reachable,
    rendered, resolve, ruling, similar, table,
};
use loop_core::spec::{Resolve, TaintRule, ToolSpec};
use loop_core::types::{Effect, Status};
use loop_core::{RunSpec, Verdict};
use serde_json::json;

const EFFECTS: [Effect; 6] = [
    Effect::Read,
    Effect::WriteIdempotent,
    Effect::WriteKeyed,
    Effect::WriteIrreversible,
    Effect::Egress,
    Effect::Exec,
];

fn tool(name: &str, effect: Effect) -> ToolSpec {
    let mut tool = loop_testkit::run().spec.tool("fetch_device").unwrap().clone();
    (tool.name, tool.aliases, tool.effect) = (name.into(), Vec::new(), effect);
    tool
}

fn spec(tools: Vec<ToolSpec>) -> RunSpec {
    let mut spec = loop_testkit::run().spec;
    spec.tools = tools;
    spec
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn rule(spec: &RunSpec, tool: &str, taint: Taint) -> Ruling {
    let tool = spec.tool(tool).unwrap();
    ruling(&PolicyAsk { spec, tool, parameters: &json!({"target": "x"}), taint, sources: &(), planned: None })
}

#[test]
fn the_rule_of_two_as_a_whole() {
    // K2, I-27, S4-64: every combination of what was read, what the call does, who may be asked and who approved it, against
    // the rule as it is written: untrusted and an effect needs a person; untrusted, private and a way out is denied where nobody can be
    // asked; what is not approved needs a person; what names somebody foreign needs one, and is denied without.
    let mut seen = 0;
    for effect in EFFECTS {
        for bits in 0..64_u32 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let (untrusted, private, people, approved, guarded, untrusted_origin) =
                (bit(0), bit(1), bit(2), bit(3), bit(4), bit(5));
            let mut spec = spec(vec![tool("act", effect)]);
            spec.gate.people = people;
            spec.gate.approved = if approved { names(&["act"]) } else { Vec::new() };
            spec.gate.taint = if guarded { TaintRule::Ask } else { TaintRule::Off };
            if untrusted_origin {
                spec.tools[0].policy.authority = names(&["/target"]);
            }
            let found = rule(&spec, "act", Taint { untrusted, private });
            let sends = matches!(effect, Effect::Egress | Effect::Exec);
            let acts = effect != Effect::Read;
            let leaks = guarded && untrusted && private && sends;
            let expected = if !acts {
                "runs"
            } else if !people && (leaks || untrusted_origin) {
                "denied"
            } else if (guarded && untrusted) || untrusted_origin || !approved {
                "person"
            } else {
                "runs"
            };
            let word = match &found {
                Ruling::Runs => "runs",
                Ruling::NeedsPerson(_) => "person",
                Ruling::Denied(_) => "denied",
            };
            assert_eq!(word, expected, "{effect:?} {bits:06b}: {found:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 6 * 64);
}

#[test]
fn taint_are_what_was_read_and_never_clear() {
    let mut web = tool("web", Effect::Read);
    web.policy.returns_untrusted = true;
    let mut mail = tool("mail", Effect::Read);
    mail.policy.reads_private = true;
    let spec = spec(vec![web.clone(), mail.clone(), tool("plain", Effect::Read)]);
    let start = Taint::at_start(&spec);
    assert_eq!(start, Taint::default());
    let read = Taint { untrusted: true, private: false };
    assert_eq!(start.after(&web, Status::Ok), read);
    assert_eq!(start.after(&mail, Status::Empty), Taint { untrusted: false, private: true });
    assert_eq!(read.after(&mail, Status::Ok), Taint { untrusted: true, private: true });
    assert_eq!(read.after(&tool("plain", Effect::Read), Status::Ok), read);
    // What a tool says when it fails was read as well; one that was not run said nothing.
    assert_eq!(start.after(&web, Status::PermanentError), read);
    for status in [Status::Denied, Status::Duplicate, Status::Skipped] {
        assert_eq!(start.after(&web, status), start);
    }
    let mut spec = spec;
    spec.gate.item_untrusted = true;
    assert_eq!(Taint::at_start(&spec), read);
    let stored = serde_json::to_string(&Taint::default()).unwrap();
    assert_eq!(stored, "{}");
}

#[test]
fn forbid_wins_and_what_allow_does_not_name_is_denied() {
    // S4-33, S4-34, S4-79, S4-11, K7
    let tools = ["read_order", "read_delivery", "issue_refund", "draft_refund", "update_policy"];
    let spec = |allow: &[&str], forbid: &[&str]| {
        let mut spec = spec(tools.map(|name| tool(name, Effect::Read)).to_vec());
        (spec.gate.allow, spec.gate.forbid) = (names(allow), names(forbid));
        spec
    };
    #[track_caller]
    fn check(spec: &RunSpec, runs: &[&str]) {
        let found: Vec<&str> = spec
            .tools
            .iter()
            .filter(|tool| rule(spec, &tool.name, Taint::default()) == Ruling::Runs)
            .map(|tool| &*tool.name)
            .collect();
        assert_eq!(found, runs);
        let offered: Vec<&str> =
            spec.tools.iter().filter(|tool| !is_forbidden(spec, tool)).map(|tool| &*tool.name).collect();
        assert_eq!(offered, runs);
    }
    check(&spec(&[], &[]), &tools);
    check(&spec(&["read_*"], &[]), &["read_order", "read_delivery"]);
    check(&spec(&["read_*", "draft_refund"], &["*_refund"]), &["read_order", "read_delivery"]);
    check(&spec(&["*"], &["update_*", "issue_refund"]), &["read_order", "read_delivery", "draft_refund"]);
    check(&spec(&["read"], &[]), &[]);
    check(&spec(&[], &["*"]), &[]);
    let spec = spec(&["read_*"], &["issue_*"]);
    let why = |tool: &str| match policy_verdict(&PolicyAsk {
        spec: &spec,
        tool: spec.tool(tool).unwrap(),
        parameters: &json!({}),
        taint: Taint::default(),
        sources: &(),
        planned: None,
    }) {
        Some(Verdict::Denied { why, .. }) => why.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(why("issue_refund"), "forbidden by gate.forbid");
    assert_eq!(why("draft_refund"), "not among what gate.allow names");
    assert_eq!(why("read_order"), "None");
    assert!(forbids(&spec, "issue_nothing_that_there_is") && !forbids(&spec, "draft_refund"));
}

#[test]
fn a_star_in_a_policy_stands_for_any_letters() {
    let mut spec = spec(vec![tool("read_order", Effect::Read)]);
    spec.gate.forbid = names(&["read_*"]);
    assert_eq!(rule(&spec, "read_order", Taint::default()), Ruling::Denied(vec![Reason::Forbidden]));
}

#[test]
fn a_question_is_for_a_person_whatever_it_does() {
    for effect in EFFECTS {
        let mut spec = spec(vec![tool("ask", effect)]);
        spec.tools[0].policy.asks_person = true;
        spec.gate.approved = names(&["ask"]);
        assert_eq!(rule(&spec, "ask", Taint::default()), Ruling::NeedsPerson(vec![Reason::Question]));
        spec.gate.forbid = names(&["ask"]);
        assert_eq!(rule(&spec, "ask", Taint::default()), Ruling::Denied(vec![Reason::Forbidden]));
    }
}

#[test]
fn what_a_run_ends_with_needs_no_listing_but_can_be_forbidden() {
    let mut spec = loop_testkit::output().spec;
    let output = spec.protocol.output().unwrap().tool.clone();
    spec.gate.allow = names(&["nothing"]);
    assert_eq!(rule(&spec, &output, Taint { untrusted: true, private: true }), Ruling::Runs);
    spec.gate.forbid = vec![Arc::clone(&output)];
    assert_eq!(rule(&spec, &output, Taint::default()), Ruling::Denied(vec![Reason::Forbidden]));
}

#[test]
fn a_name_is_resolved_as_far_as_policy_says() {
    // C21, S0-84, S0-87, S0-d1, S0-d2
    let mut device = tool("fetch_device_info", Effect::Read);
    device.aliases = names(&["fetch_devices", "hardware"]);
    let mut question = tool("consult_someone", Effect::Read);
    question.policy.asks_person = true;
    let tools = vec![
        device,
        tool("fetch_docs", Effect::Read),
        tool("update_record", Effect::WriteKeyed),
        tool("send_mail", Effect::Egress),
        tool("run_script", Effect::Exec),
        question,
        tool("list_mailboxes", Effect::Read),
    ];
    let mut spec = spec(tools);
    type Found<'a> = [Option<(&'a str, NameMatch)>; 3];
    let cases: [(&str, Found<'_>); 25] = {
        use NameMatch::{Alias, Exact, Fuzzy};
        let device = |how| Some(("fetch_device_info", how));
        [
            ("fetch_docs", [Some(("fetch_docs", Exact)); 3]),
            ("send_mail", [Some(("send_mail", Exact)); 3]),
            ("fetch_devices", [None, device(Alias), device(Alias)]),
            ("hardware", [None, device(Alias), device(Alias)]),
            ("device_info", [None, None, device(Fuzzy)]),
            ("hard", [None, None, device(Fuzzy)]),
            ("docs", [None, None, Some(("fetch_docs", Fuzzy))]),
            ("Fetch-Docs", [None, None, Some(("fetch_docs", Fuzzy))]),
            (" fetch docs ", [None, None, Some(("fetch_docs", Fuzzy))]),
            ("mailb", [None, None, Some(("list_mailboxes", Fuzzy))]),
            // Too short, of letters and digits.
            ("doc", [None; 3]),
            ("_doc", [None; 3]),
            ("", [None; 3]),
            ("____", [None; 3]),
            // More than one tool has it.
            ("fetch", [None; 3]),
            ("fetch_d", [None; 3]),
            ("mail", [None; 3]),
            // What changes something, sends or runs something, or asks somebody, is never guessed.
            ("record", [None; 3]),
            ("update_rec", [None; 3]),
            ("Send_Mail", [None; 3]),
            ("send_m", [None; 3]),
            ("script", [None; 3]),
            ("consult", [None; 3]),
            // A longer name is no part.
            ("fetch_docs_now", [None; 3]),
            ("fetch_d\u{200b}ocs", [None; 3]),
        ]
    };
    for (at, setting) in [Resolve::Strict, Resolve::Alias, Resolve::FuzzyUnique].into_iter().enumerate() {
        spec.gate.resolve = setting;
        for (name, expected) in &cases {
            let found = resolve(&spec, name).map(|(tool, how)| (&*tool.name, how));
            assert_eq!(found, expected[at], "{name:?} by {setting:?}");
        }
    }
}

#[test]
fn an_unknown_name_is_no_way_to_learn_of_what_is_forbidden() {
    let mut spec = spec(vec![tool("read_order", Effect::Read), tool("read_orders_secret", Effect::Read)]);
    assert_eq!(similar(&spec, "read_orders"), names(&["read_order", "read_orders_secret"]));
    spec.gate.forbid = names(&["*_secret"]);
    assert_eq!(similar(&spec, "read_orders"), names(&["read_order"]));
    assert_eq!(similar(&spec, "zzz"), names(&[]));
}

#[test]
fn all_reasons_are_told_in_one_line() {
    let mut spec = spec(vec![tool("send", Effect::Egress)]);
    spec.tools[0].policy.authority = names(&["/target"]);
    spec.gate.approved = names(&["send"]);
    let Ruling::Denied(reasons) = rule(&spec, "send", Taint { untrusted: true, private: true }) else {
        panic!()
    };
    assert_eq!(
        &*rendered(&reasons).unwrap(),
        "the run has read untrusted text and private data, and this call could send the data out; /target is \
         \"x\", which was given neither with the work item nor by policy nor by a trusted tool"
    );
    assert_eq!(rendered(&[]), None);
    spec.gate.people = true;
    let ask = PolicyAsk {
        spec: &spec,
        tool: &spec.tools[0],
        parameters: &json!({"target": null}),
        taint: Taint { untrusted: true, private: false },
        sources: &(),
        planned: None,
    };
    let expected =
        Verdict::NeedsPerson { effect: Effect::Egress, why: Some("the run has read untrusted text".into()) };
    assert_eq!(policy_verdict(&ask), Some(expected));
}

#[test]
fn the_table_tells_what_may_happen_with_each_tool() {
    let mut web = tool("web", Effect::Read);
    web.policy.returns_untrusted = true;
    let mut mail = tool("mail", Effect::Egress);
    mail.policy.authority = names(&["/target"]);
    let mut spec = spec(vec![web, mail, tool("wipe", Effect::WriteIrreversible), tool("drop", Effect::Exec)]);
    spec.gate.approved = names(&["mail"]);
    spec.gate.forbid = names(&["drop"]);
    assert_eq!(reachable(&spec), Taint { untrusted: true, private: false });
    let cell = |may, why: &str| TableCell { may, why: why.into() };
    let rows = table(&spec);
    let row = &rows[1];
    assert_eq!(row.at_start, cell(Choice::Runs, "gate.approved names it"));
    let untrusted = "the run has read untrusted text; no person can be asked";
    assert_eq!(row.untrusted, cell(Choice::LeftUndone, untrusted));
    assert_eq!(row.untrusted_and_private.may, Choice::Denied);
    assert_eq!(row.untrusted_origin, Some(Choice::Denied));
    assert_eq!(rows[0].untrusted, cell(Choice::Runs, "only reads"));
    assert_eq!(
        rows[2].at_start,
        cell(Choice::LeftUndone, "gate.approved does not name it; no person can be asked")
    );
    assert_eq!(rows[3].untrusted_and_private, cell(Choice::Denied, "forbidden by gate.forbid"));
    assert_eq!((rows[2].untrusted_origin, rows[3].untrusted_origin), (None, None));
    spec.gate.people = true;
    let rows = table(&spec);
    assert_eq!(
        (rows[1].untrusted_and_private.may, rows[1].untrusted_origin),
        (Choice::Asks, Some(Choice::Asks))
    );
    spec.gate.taint = TaintRule::Off;
    assert_eq!(reachable(&spec), Taint::default());
    assert_eq!(table(&spec)[1].untrusted_and_private.may, Choice::Runs);
}

#[test]
fn no_source_authorises_no_value() {
    use loop_core::policy::{SoughtValue, Sources};
    let send = tool("send", Effect::Egress);
    let (text, number) = (json!("a"), json!(1));
    let sought = [SoughtValue::of(&send, "/target", &text), SoughtValue::of(&send, "/target", &number)];
    assert_eq!(().hold(&sought), [None, None]);
}
