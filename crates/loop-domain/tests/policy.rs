//! What a domain says of policy, repeats and people, and the presets that it may be laid over.

use std::fs;

use loop_core::spec::{
    Breakers, ErrorStyle, Execution, OnDenied, OnDuplicate, OnInvalid, OnToolError, ProtocolSpec,
    RepeatNotes, RepeatScope, Repeats, Resolve, Stale, TaintRule, ThreeTier, ToolPolicy,
};
use loop_core::types::{Effect, Status, StopClass};
use loop_domain::{Domain, LoadOptions, preset};

const CONVERSATION: &str = "[protocol]\ntype = \"conversation\"\n";
const SECTION: &str = "[[section]]\nid = \"answer\"\nheading = \"Answer\"\nrequired = true\n";
const SEARCH: &str =
    "[tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\nwhen = \"always\"\n";

fn loaded(text: &str) -> Result<Domain, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.md"), "# Shop\nOpen.").unwrap();
    fs::write(folder.path().join("loopgate.toml"), format!("version = 1\nname = \"shop\"\n{text}")).unwrap();
    Domain::load(folder.path(), &LoadOptions::default()).map_err(|error| error.to_string())
}

#[track_caller]
fn load(text: &str) -> Domain {
    loaded(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_preset_is_the_rules_of_its_document() {
    // S0-43, S0-120, S0-118: an analysis.
    let analysis = load(&format!("preset = \"analysis\"\n{SECTION}{SEARCH}")).spec;
    assert_eq!((analysis.limits.passes, analysis.repeats()), (5, Repeats::NeverRerun));
    assert_eq!((analysis.gate.stale, analysis.gate.escalate_after), (Stale::NotImproved, 2));
    // S1-25, S1-29, S1-39, S1-46: an agent.
    let agent = load(&format!("preset = \"agent\"\n{SEARCH}")).spec;
    assert_eq!(
        (agent.protocol.execution(), agent.protocol.errors()),
        (Execution::Ordered, ErrorStyle::Named)
    );
    assert_eq!((agent.limits.passes, agent.limits.messages), (10, Some(100)));
    assert_eq!(agent.repeats(), Repeats::Progress);
    // S2-38, S2-73, S2-76: an extraction.
    let output = "[output]\nname = \"save\"\ndescription = \"Save it\"\nschema = { type = \"object\" }\n";
    let extract = load(&format!("preset = \"extract\"\n{output}")).spec;
    let ProtocolSpec::Output(output) = &extract.protocol else { panic!("{:?}", extract.protocol) };
    assert_eq!((output.attempts, output.passes_per_attempt, output.errors), (3, 15, ErrorStyle::Prefixed));
    // S3-3, S3-12, S3-14 to S3-18, S3-23: a turn.
    let turn = load(&format!("preset = \"turn\"\n{SEARCH}")).spec;
    assert_eq!((turn.repeats(), turn.gate.scope), (Repeats::ThreeTier, RepeatScope::Run));
    assert_eq!(turn.gate.on_duplicate, OnDuplicate::SkipMessage);
    assert_eq!(turn.gate.three_tier, ThreeTier::default());
    assert_eq!((turn.gate.three_tier.other, turn.gate.three_tier.similar_millis), (3, 750));
    // S4-27, S4-31, S4-57, S4-67, S4-79, S4-80, S4-84, S4-85: a step.
    let step = load(&format!("preset = \"step\"\n{SEARCH}")).spec;
    assert_eq!((step.protocol.execution(), step.protocol.errors()), (Execution::Single, ErrorStyle::Tagged));
    assert_eq!((step.gate.on_denied, step.gate.on_invalid), (OnDenied::Stop, OnInvalid::Stop));
    assert_eq!(step.gate.on_tool_error, OnToolError::StopOrEscalateAfter(2));
    assert_eq!((step.gate.resolve, step.gate.breakers.tool_failures), (Resolve::Strict, 2));
    assert!(!step.gate.final_pass && analysis.gate.final_pass && agent.gate.final_pass);
}

#[test]
fn what_a_domain_says_itself_wins_over_its_preset() {
    let text =
        format!("preset = \"step\"\n{SEARCH}[gate]\non_denied = \"feed_back\"\n[limits]\npasses = 3\n");
    let spec = load(&text).spec;
    assert_eq!((spec.gate.on_denied, spec.gate.on_invalid), (OnDenied::FeedBack, OnInvalid::Stop));
    assert_eq!(spec.limits.passes, 3);
    let text = format!("preset = \"step\"\n{SEARCH}[gate]\non_tool_error = {{ escalate_after = 3 }}\n");
    assert_eq!(load(&text).spec.gate.on_tool_error, OnToolError::EscalateAfter(3));
    // What a preset says for another protocol is left out, and not held against the file.
    let document = load(
        &format!("preset = \"agent\"\n{CONVERSATION}{SEARCH}")
            .replace("conversation", "document")
            .replace(SEARCH, &format!("{SECTION}{SEARCH}")),
    );
    assert!(!document.spec.protocol.properties().native_calls);
    let error = loaded(&format!("preset = \"steps\"\n{SEARCH}")).unwrap_err();
    assert!(error.ends_with("toml:3:10: there is no preset `steps`; did you mean `step`?"), "{error}");
    assert!(preset("step").unwrap().contains("on_denied") && preset("stage").is_none());
}

#[test]
fn every_setting_of_policy_is_kept() {
    // K1, K2, K3, K7, C5, C6, C9, C10, C21
    let text = format!(
        "{CONVERSATION}{SEARCH}reads_private = true\nreturns_untrusted = true\nauthority = [\"query\"]\n\
         repeats = {{ max_calls = 4, volatile = [\"/at\"], key = [\"query\"], search = \"query\", polls = 3 }}\n\
         [tools.ask]\nkind = \"question\"\ndescription = \"Ask the customer\"\n\
         [gate]\nlabel = \"2026-11\"\nallow = [\"se*\", \"ask\"]\napproved = [\"se*\"]\npeople = true\ntaint = \"off\"\n\
         item_untrusted = true\nauthorities = [\"desk@example.com\"]\nresolve = \"fuzzy_unique\"\non_denied = \"stop\"\n\
         on_invalid = \"stop\"\nfinal_pass = false\nrepeats_for = [\"se*\"]\n\
         on_tool_error = {{ escalate_after = 2 }}\nrepeats = \"three_tier\"\nscope = \"step\"\n\
         on_duplicate = \"replay_cached\"\n[gate.breakers]\ntool_failures = 7\ndenied = 8\nbad_arguments = 0\n\
         [gate.repeat_notes]\nfailures = 0\nsearches = 5\n[gate.three_tier]\nother = 9\nsimilar = 0.8\nlimits = {{ search = 1 }}\nsearch = [\"search\"]\n\
         query = [\"q\"]\ndangerous = [\"drop\"]\nliteral = true\n"
    );
    let domain = load(&text);
    let gate = &domain.spec.gate;
    assert_eq!(
        (&*gate.label, gate.people, gate.taint, gate.item_untrusted),
        ("2026-11", true, TaintRule::Off, true)
    );
    assert_eq!((gate.allow.len(), &*gate.approved[0], &*gate.authorities[0]), (2, "se*", "desk@example.com"));
    assert_eq!((gate.resolve, gate.on_denied), (Resolve::FuzzyUnique, OnDenied::Stop));
    assert_eq!((gate.on_tool_error, gate.on_invalid), (OnToolError::EscalateAfter(2), OnInvalid::Stop));
    assert_eq!((gate.final_pass, &*gate.repeats_for[0]), (false, "se*"));
    assert_eq!(
        (gate.repeats, gate.scope, gate.on_duplicate),
        (Some(Repeats::ThreeTier), RepeatScope::Step, OnDuplicate::ReplayCached)
    );
    assert_eq!(gate.breakers, Breakers { tool_failures: 7, denied: 8, bad_arguments: 0 });
    assert_eq!(gate.repeat_notes, RepeatNotes { failures: 0, searches: 5, ..RepeatNotes::default() });
    let expected = ThreeTier {
        limits: [("search".into(), 1)].into(),
        other: 9,
        similar_millis: 800,
        search: vec!["search".into()],
        query: vec!["q".into()],
        dangerous: vec!["drop".into()],
        literal: true,
    };
    assert_eq!(gate.three_tier, expected);
    let search = &domain.spec.tool("search").unwrap().policy;
    assert!(search.reads_private && search.returns_untrusted && !search.asks_person);
    assert_eq!((&*search.authority[0], &*search.repeats.key[0]), ("/query", "/query"));
    assert_eq!((search.repeats.max_calls, search.repeats.polls), (Some(4), 3));
    assert_eq!((&*search.repeats.volatile[0], search.repeats.query.as_deref()), ("/at", Some("query")));
    // S4-37: a question is a tool that only reads, and waits for a person.
    let ask = domain.spec.tool("ask").unwrap();
    assert!(ask.policy.asks_person && ask.effect == Effect::Read);
    assert!(ask.args.required.iter().any(|name| &**name == "question"));
    assert_ne!(ask.policy, ToolPolicy::default());
}

#[test]
fn what_is_wrong_with_policy_is_told_at_its_place() {
    let wrong = |text: &str| loaded(text).unwrap_err();
    let ends = |text: &str, stated: &str| {
        let error = wrong(text);
        assert!(error.ends_with(stated), "{error}");
    };
    let with = |rest: &str| format!("{CONVERSATION}{SEARCH}{rest}");
    ends(
        &with("[gate]\nallow = [\"mail_*\"]\n"),
        "11:10: no tool's name fits `mail_*`; correct it or take it out",
    );
    ends(
        &with("[gate]\nallow = []\n"),
        "11:1: no tool could ever run; name those that may, or take it out where all may",
    );
    ends(&with("authority = [\"to\"]\n"), "10:14: there is no parameter `to`; there are `query`");
    ends(
        &with("repeats = { volatile = [\"data.at\"] }\n"),
        "10:25: `data.at` is not a JSON pointer; write it as `/data/at`",
    );
    ends(
        &with("[gate.three_tier]\nsimilar = 75\n"),
        "11:11: a likeness is a number from 0 to 1, and this is 75; write 0.75",
    );
    let error = wrong(&with("[gate]\non_tool_error = \"panic\"\n"));
    assert!(error.contains("toml:11:17") && error.contains("escalate_after"), "{error}");
    let error = wrong(&with("[tools.ask]\nkind = \"question\"\neffect = \"read\"\n"));
    assert!(error.ends_with("`effect` is not for tools of kind `question`; take it out"), "{error}");
}

#[test]
fn a_domain_declares_stop_reasons_of_its_own() {
    // S4-35
    let declared = "[stop_reasons.already_answered]\nclass = \"partial\"\n\
                    description = \"The notes have the answer.\"\ntool = \"search\"\n\
                    [stop_reasons.no_such_note]\nclass = \"needs_human\"\n\
                    description = \"There is no note.\"\ntool = \"search\"\nstatus = \"empty\"\n";
    let domain = load(&format!("{CONVERSATION}{SEARCH}{declared}"));
    let reported: Vec<_> = domain
        .spec
        .stop_reasons
        .iter()
        .map(|own| (own.name.as_str(), own.class, &*own.says, &*own.tool, own.status))
        .collect();
    assert_eq!(
        reported,
        [
            ("already_answered", StopClass::Partial, "The notes have the answer.", "search", Status::Ok),
            ("no_such_note", StopClass::NeedsHuman, "There is no note.", "search", Status::Empty),
        ]
    );
    let ends = |name: &str, rest: &str, stated: &str| {
        let text = format!("{CONVERSATION}{SEARCH}[stop_reasons.{name}]\n{rest}");
        let error = loaded(&text).unwrap_err();
        assert!(error.ends_with(stated), "{error}");
    };
    let whole = "class = \"partial\"\ndescription = \"It is so.\"\ntool = \"search\"\n";
    ends("max_passes", whole, "10:15: `max_passes` is a reason of every run; choose another name");
    ends("max_steps", whole, "10:15: `max_steps` is a reason of every run; choose another name");
    ends(
        "Done",
        whole,
        "10:15: `Done` is not the name of a reason: use at most 32 lower-case letters, digits and underscores, and \
         begin with a letter; rename it",
    );
    ends(
        "done",
        &whole.replace("It is so.", " "),
        "12:1: say in a sentence what is so when a run ends for this reason",
    );
    let error =
        loaded(&format!("{CONVERSATION}{SEARCH}[stop_reasons.done]\n{}", whole.replace("search", "serch")))
            .unwrap_err();
    assert!(error.contains("13:1: ") && error.contains("search"), "{error}");
    let error = loaded(&format!(
        "{CONVERSATION}{SEARCH}[stop_reasons.done]\n{}",
        whole.replace("partial", "cancelled")
    ))
    .unwrap_err();
    assert!(error.contains("11:9: ") && error.contains("needs_human"), "{error}");
}

#[test]
fn the_names_of_the_documents_budget_are_names_of_limits() {
    // S4-23, T9: `maxSteps`, `maxToolCalls`, `timeoutMs`, in a file and as a setting.
    let limits = "[limits]\nmax_steps = 3\nmax_tool_calls = 4\ntimeout_ms = 5000\n";
    let domain = load(&format!("preset = \"step\"\n{SEARCH}{limits}"));
    let limits = &domain.spec.limits;
    assert_eq!((limits.passes, limits.tool_calls, limits.wall_ms), (3, 4, 5_000));
    let folder = tempfile::tempdir().unwrap();
    let text = format!("version = 1\nname = \"shop\"\npreset = \"step\"\n{SEARCH}");
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    fs::write(folder.path().join("notes.md"), "# Shop\nOpen.").unwrap();
    let set = vec![("limits.max_steps".into(), "2".into()), ("limits.timeout_ms".into(), "7".into())];
    let domain = Domain::load(folder.path(), &LoadOptions { set, ..LoadOptions::default() }).unwrap();
    assert_eq!((domain.spec.limits.passes, domain.spec.limits.wall_ms), (2, 7));
}

#[test]
fn both_ends_of_a_failure_can_be_set_and_a_final_pass_belongs_to_answers() {
    // S4-57, S4-84
    let text = format!("{CONVERSATION}{SEARCH}[gate]\non_tool_error = {{ stop_or_escalate_after = 3 }}\n");
    assert_eq!(load(&text).spec.gate.on_tool_error, OnToolError::StopOrEscalateAfter(3));
    let output = "[protocol]\ntype = \"output\"\n[output]\nname = \"save\"\ndescription = \"Save it\"\nschema = { type = \"object\" }\n";
    let error = loaded(&format!("{output}[gate]\nfinal_pass = false\n")).unwrap_err();
    assert!(error.ends_with("10:1: `gate.final_pass` is not for the protocol `output`, whose last pass is like any other; take it out"), "{error}");
    assert!(
        loaded(&format!("preset = \"step\"\n{output}")).is_ok(),
        "what a preset says for another protocol is left out"
    );
}

#[test]
fn reading_results_again_is_as_untrusted_and_private_as_the_strictest_tool() {
    // K2
    let results = "[tools.read_result]\nkind = \"results\"\n";
    let of = |search: &str| {
        let domain = load(&format!("{SECTION}{search}{results}"));
        let tool = domain.spec.tools.iter().find(|tool| &*tool.name == "read_result").unwrap();
        assert_eq!(tool.effect, Effect::Read);
        assert!(
            !domain.report().warnings.iter().any(|line| line.contains("read_result")),
            "it describes itself"
        );
        (tool.policy.returns_untrusted, tool.policy.reads_private)
    };
    assert_eq!(of(SEARCH), (false, false));
    assert_eq!(of(&format!("{SEARCH}returns_untrusted = true\n")), (true, false));
    assert_eq!(of(&format!("{SEARCH}reads_private = true\n")), (false, true));
    assert_eq!(of(&format!("{SEARCH}reads_private = true\nenabled = false\n")), (false, false));
    for (text, message) in [
        (format!("{CONVERSATION}{results}"), "only a document shows the numbers of results"),
        (
            format!("{SECTION}{results}effect = \"read\"\n"),
            "`effect` is not for tools of kind `results`; take it out",
        ),
        (format!("{SECTION}{results}smart = true\n"), "`smart` is not for tools of kind `results`"),
    ] {
        let error = loaded(&text).unwrap_err();
        assert!(error.contains(message) && !error.contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn the_example_of_the_page_on_results_reads_the_rest_of_a_long_one() {
    let page = include_str!("../../../docs/how-to/tools/results.md");
    let example = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "version = 1\nname = \"shop\"\n{SECTION}[models.base]\nprovider = \"scripted\"\nscript = \"replies.json\"\n\
         [sources.shop]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\n\
         [tools.fetch_orders]\nkind = \"sql\"\nsource = \"shop\"\neffect = \"read\"\nwhen = \"always\"\n\
         query = \"SELECT id, part FROM orders\"\n{example}"
    );
    let rows: Vec<String> = (1..=180).map(|id| format!("({id}, 'part number {id} of the shop')")).collect();
    let script = format!("CREATE TABLE orders (id, part); INSERT INTO orders VALUES {};", rows.join(", "));
    let reply = |actions: &str| {
        format!(
            "## Answer\n\nIt is so.\n\n```json\n{{\"analysis_confidence\": \"high\", \"confidence_reason\": \"read\", \"ai_actions\": [{actions}]}}\n```"
        )
    };
    let action = r#"{"action_type": "read_result", "reason": "it was cut", "priority": "required", "parameters": {"evidence": "E1", "search": "number 177 "}}"#;
    let replies = serde_json::json!({ "version": 1, "replies": [
        { "for": "select", "text": r#"[{"tool": "fetch_orders", "params": {}, "reason": "orders"}]"# },
        { "for": "main", "text": reply(action) },
        { "for": "main", "text": reply("") },
    ] });
    for (name, text) in [("loopgate.toml", text), ("shop.sql", script), ("replies.json", replies.to_string())]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    let item = domain.item("# Order 177\n\nWhich part is it?", "item.md").unwrap();
    let outcome = domain.to_loop().run(item).await.unwrap();
    let [orders, rest] = &outcome.evidence[..] else { panic!("{:?}", outcome.evidence) };
    assert!(!orders.observation.markdown.contains("number 177 "), "{}", orders.observation.markdown);
    let seen = &rest.observation;
    assert_eq!(seen.status, Status::Ok, "{}", seen.text());
    assert!(seen.markdown.starts_with("## E1 (fetch_orders), 1 of 18"), "{}", seen.markdown);
    assert!(seen.markdown.contains("part number 177 of the shop"), "{}", seen.markdown);
}
