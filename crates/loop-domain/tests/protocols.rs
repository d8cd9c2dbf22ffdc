//! Conversations and outputs as domain folders: what they come to, and what is refused in them.

use std::fs;
use std::path::Path;

use loop_core::StopReason;
use loop_core::spec::{ErrorStyle, Execution, GateSettings, Limits, ProtocolSpec};
use loop_core::types::Effect;
use loop_domain::{Domain, DomainError, LoadOptions};

const CONVERSATION: &str = "[protocol]\ntype = \"conversation\"\n";
const VALUE: &str = "[protocol]\ntype = \"output\"\n[output]\nname = \"save\"\nschema = \"lead.json\"\n";
const LEAD: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "minLength": 2}, "city": {}}, "required": ["name"]}"#;
const SEARCH: &str =
    "[tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\naliases = [\"look\"]\n";
const MOVE: &str = "[sources.shop]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\nwritable = true\n[tools.move]\nkind = \"sql\"\n\
                    source = \"shop\"\neffect = \"write_idempotent\"\nquery = \"UPDATE stock SET pieces = 1\"\n";

fn load_with(rest: &str, options: &LoadOptions) -> (Result<Domain, DomainError>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("loopgate.toml", &format!("version = 1\nname = \"shop\"\n{rest}"));
    write("lead.json", LEAD);
    write("broken.json", "{\"type\": ");
    write("list.json", r#"{"type": "array"}"#);
    write("odd.json", r#"{"type": "object", "properties": {"name": {"type": "text"}}}"#);
    write("notes.md", "# Notes\nOpen from nine to five.");
    write("shop.sql", "CREATE TABLE stock (name, pieces); INSERT INTO stock VALUES ('boots', 3);");
    (Domain::load(folder.path(), options), folder)
}

#[track_caller]
fn load(rest: &str) -> Domain {
    load_with(rest, &LoadOptions::default()).0.unwrap()
}

#[track_caller]
fn refuses(rest: &str, expected: &str) {
    let (loaded, folder) = load_with(rest, &LoadOptions::default());
    let error = loaded.unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(
        error.replace(&format!("{}/", folder.path().display()), ""),
        format!("loopgate.toml:{expected}")
    );
}

#[test]
fn a_conversation_has_the_defaults_of_one() {
    // S1-25, S1-39, S1-46
    let domain = load(&format!("{CONVERSATION}{SEARCH}"));
    let spec = &domain.spec;
    let ProtocolSpec::Conversation(conversation) = &spec.protocol else { panic!("{:?}", spec.protocol) };
    assert_eq!((conversation.execution, conversation.errors), (Execution::Ordered, ErrorStyle::Plain));
    assert_eq!(spec.limits, Limits::agent());
    assert_eq!(spec.gate, GateSettings { no_progress: 3, ..GateSettings::default() });
    assert!(!spec.selection.enabled && spec.selection.defaults.is_empty());
    assert_eq!((spec.limits.passes, spec.limits.messages), (10, Some(100)));
    assert!(!domain.report().warnings.iter().any(|line| line.contains("selector")), "nothing is selected");
}

#[test]
fn a_write_that_is_not_approved_is_warned_of() {
    let warnings = load(&format!("{CONVERSATION}{MOVE}")).report().warnings;
    let expected = "tool `move` is declared `write_idempotent`: its calls need a person's consent and are left undone; \
                    gate.approved gives it";
    assert!(warnings.iter().any(|line| line == expected), "{warnings:#?}");
}

#[test]
fn an_output_is_a_tool_of_its_own_schema() {
    // S2-14, S2-38
    let domain = load(&format!("{VALUE}attempts = 2\npasses_per_attempt = 4\n{SEARCH}"));
    let spec = &domain.spec;
    let output = spec.protocol.output().unwrap();
    assert_eq!(
        (&*output.tool, &output.submit, output.attempts, output.passes_per_attempt),
        ("save", &None, 2, 4)
    );
    // A domain has no deadline for people of its own.
    assert_eq!(spec.limits, Limits::extract(2, 4));
    let tool = spec.tool("save").unwrap();
    assert_eq!((tool.effect, tool.args.required.len()), (Effect::Read, 1));
    let report = domain.report();
    let shown = "output save with name, city (optional): 2 attempts of 4 passes, tools one after another, errors plain";
    assert!(report.lines.iter().any(|line| line == shown), "{:#?}", report.lines);
    assert!(report.lines.iter().any(|line| line == "1 tool"), "the output is none to choose");
    let unset = load(VALUE);
    assert_eq!(unset.spec.limits, Limits::extract(3, 15));
    assert!(unset.report().warnings.iter().any(|line| line.starts_with("the output has no `description`")));
}

#[test]
fn the_schema_of_an_output_may_stand_in_the_file() {
    let inline = "[protocol]\ntype = \"output\"\n[output]\nname = \"save\"\n[output.schema]\ntype = \"object\"\nrequired = [\"n\"]\n\
                  [output.schema.properties.n]\ntype = \"integer\"\nminimum = 1\n";
    let domain = load(inline);
    let declared = domain.registry.declarations().next().unwrap();
    let expected = serde_json::json!({
        "type": "object", "required": ["n"], "properties": { "n": { "type": "integer", "minimum": 1 } },
    });
    assert_eq!(declared.schema, expected);
}

// X1: a provider writes arguments in the order of the schema.
#[test]
fn properties_keep_the_order_of_the_file() {
    let names = |schema: &serde_json::Value| {
        schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let inline = "[protocol]\ntype = \"output\"\n[output]\nname = \"save\"\n[output.schema]\ntype = \"object\"\n\
                  [output.schema.properties.reasoning]\ntype = \"string\"\n[output.schema.properties.answer]\ntype = \"string\"\n\
                  [output.schema.properties.next]\ntype = \"string\"\n";
    let tool = "[tools.move]\nkind = \"mock\"\neffect = \"read\"\ndescription = \"d\"\n[tools.move.parameters.reasoning]\n\
                description = \"r\"\n[tools.move.parameters.answer]\ndescription = \"a\"\n[tools.move.parameters.next]\n";
    for (rest, tool, expected) in [
        (inline, "save", "reasoning answer next"),
        (tool, "move", "reasoning answer next"),
        (VALUE, "save", "name city"),
    ] {
        let rest = if rest.starts_with("[tools") { format!("{CONVERSATION}{rest}") } else { rest.to_owned() };
        let domain = load(&rest);
        let declared = domain.registry.declarations().find(|it| &*it.name == tool).unwrap();
        assert_eq!(names(&declared.schema), expected, "{rest}");
    }
}

#[tokio::test]
async fn a_domain_without_ai_ends_with_an_answer_and_with_a_value() {
    // S1-42, S2-14
    let conversation = load(&format!("{CONVERSATION}{SEARCH}"));
    let requested = conversation.item("When are you open? Look into the notes.", "question.md").unwrap();
    let outcome = conversation.to_loop().run(requested).await.unwrap();
    assert_eq!(outcome.stop.reason(), StopReason::Completed, "{outcome:#?}");
    assert!(outcome.answer.is_some_and(|answer| !answer.trim().is_empty()));

    let value = load(VALUE);
    let requested = value.item("name: Ada Brown, city: Bath", "mail.md").unwrap();
    let outcome = value.to_loop().run(requested).await.unwrap();
    let output = outcome.output.unwrap();
    assert!(output.valid, "{output:?}");
    let output: serde_json::Value = serde_json::from_str(&output.value).unwrap();
    assert_eq!(output["name"], "Ada Brown");
}

#[test]
fn what_belongs_to_another_protocol_is_refused() {
    let section = "[[section]]\nid = \"a\"\nheading = \"A\"\n";
    let cases = [
        (
            "selection]\nenabled = false",
            "5:2: `selection` is not for the protocol `conversation`; take it out",
        ),
        (
            "contract]\nnonce = \"require\"",
            "5:2: `contract` is not for the protocol `conversation`; take it out",
        ),
        ("gate]\nstale = \"off\"", "6:1: `gate.stale` is not for the protocol `conversation`; take it out"),
        (
            "limits]\nselected = 2",
            "6:1: `limits.selected` is not for the protocol `conversation`; take it out",
        ),
        (
            "output]\nname = \"save\"\nschema = \"lead.json\"",
            "5:2: `output` is not for the protocol `conversation`; write type = \"output\" in [protocol], or take it out",
        ),
    ];
    for (rest, expected) in cases {
        refuses(&format!("{CONVERSATION}[{rest}\n"), expected);
    }
    refuses(
        &format!("{CONVERSATION}{section}"),
        "5:3: `section` is not for the protocol `conversation`; take it out",
    );
    refuses(
        &format!("{section}[protocol]\nerrors = \"plain\"\n"),
        "7:1: `protocol.errors` is not for the protocol `document`; take it out",
    );
    refuses(
        &format!("{section}[limits]\nmessages = 3\n"),
        "7:1: `limits.messages` is not for the protocol `document`; take it out",
    );
    refuses(
        "[protocol]\ntype = \"document\"\n",
        "1:1: there is no section; add one: [[section]] with `id` and `heading`",
    );
}

#[test]
fn a_protocol_that_there_is_not_comes_with_those_that_there_are() {
    refuses(
        "[protocol]\ntype = \"conversatoin\"\n",
        "4:8: `conversatoin` is unknown here; did you mean `conversation`?",
    );
    refuses(
        "[protocol]\nexecution = \"later\"\n",
        "4:13: `later` is unknown here; use one of `ordered`, `parallel`, `single`",
    );
    refuses(
        "[gate]\npeopl = true\n[protocol]\ntype = \"conversation\"\n",
        "4:1: unknown key `peopl`; did you mean `people`?",
    );
}

#[test]
fn tools_that_are_approved_are_there() {
    refuses(
        &format!("{CONVERSATION}[gate]\napproved = [\"serach\"]\n{SEARCH}"),
        "6:13: there is no tool `serach`; did you mean `search`?",
    );
    refuses(
        &format!("{CONVERSATION}[gate]\napproved = [\"move\"]\nforbid = [\"move\"]\n{MOVE}"),
        "6:13: the tool is forbidden as well, and never runs; take it out of one list",
    );
    for key in ["required_tools", "forbid", "approved"] {
        let (text, column) = (format!("{VALUE}[gate]\n{key} = [\"save\"]\n"), key.len() + 5);
        refuses(
            &text,
            &format!("9:{column}: this is what the run ends with, and no tool to choose; take it out"),
        );
    }
}

#[test]
fn what_is_wrong_with_an_output_is_said_at_its_place() {
    let output = |rest: &str| format!("[protocol]\ntype = \"output\"\n[output]\n{rest}\n");
    refuses(
        "[protocol]\ntype = \"output\"\n",
        "4:1: the protocol `output` needs to know which; add [output] with `name`, `description` and `schema`",
    );
    refuses(&output("name = \"save\""), "5:2: the key `schema` is missing; add it");
    refuses(
        &output("name = \"save\"\nschema = 7"),
        "7:10: 7 stands where the name of a file or a table is expected; correct the value",
    );
    refuses(
        &output("name = \"save it\"\nschema = \"lead.json\""),
        "6:1: tool `save it`: its name must be 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and begin with a letter or `_`; correct it",
    );
    refuses(
        &output("name = \"save\"\nschema = \"list.json\""),
        "7:1: a tool takes an object; write `type = \"object\"` at the top of the schema",
    );
    refuses(
        &format!("{}{SEARCH}", output("name = \"search\"\nschema = \"lead.json\"")),
        "6:1: a tool is called `search` as well; rename one of them",
    );
    refuses(
        &output("name = \"save\"\nschema = \"lead.json\"\nattempts = 0"),
        "8:1: without any there is no output; write 1 or more",
    );
    let mentions = |rest: &str, parts: &[&str]| {
        let error = load_with(&output(rest), &LoadOptions::default()).0.unwrap_err().to_string();
        assert!(!error.contains('\n') && parts.iter().all(|part| error.contains(part)), "{error}");
    };
    mentions(
        "name = \"save\"\nschema = \"none.json\"",
        &["toml:7:1: ", "none.json: ", "name a file with a JSON Schema"],
    );
    mentions(
        "name = \"save\"\nschema = \"broken.json\"",
        &["toml:7:1: ", "broken.json: it is not JSON: ", "correct it there"],
    );
    mentions(
        "name = \"save\"\nschema = \"odd.json\"",
        &["toml:7:1: it is not a JSON Schema: ", "text", "; correct it"],
    );
}

#[test]
fn a_submit_tool_is_refused_without_a_formatter() {
    // S2-98
    let why = "`reflect = true` adds the tool that submits; write that in place of `submit`, and `submit_as` for another name";
    refuses(&format!("{VALUE}submit = \"done\"\n"), &format!("8:1: {why}"));
    refuses(&format!("{VALUE}[profiles.shown.output]\nsubmit = true\n"), &format!("9:1: {why}"));
    let set =
        LoadOptions { set: vec![("output.submit".to_owned(), "true".to_owned())], ..LoadOptions::default() };
    let error = load_with(VALUE, &set).0.unwrap_err();
    assert!(error.to_string().starts_with(&format!("--set output.submit=true: {why}")), "{error}");
    let why = "only a value that is shown is submitted; add `reflect = true`, or take it out";
    refuses(&format!("{VALUE}submit_as = \"done\"\n"), &format!("8:1: {why}"));
    let taken = format!("{VALUE}reflect = true\nsubmit_as = \"save\"\n");
    refuses(&taken, "9:1: a tool is called `save` as well; rename one of them");
}

#[test]
fn a_value_that_is_shown_is_submitted() {
    // S2-19, S2-24, S2-103
    let load = |more: &str| load_with(&format!("{VALUE}{more}"), &LoadOptions::default()).0.unwrap();
    let domain = load("reflect = true\n");
    assert_eq!(domain.spec.protocol.output().unwrap().submit.as_deref(), Some("submit"));
    assert!(domain.registry.resolve("submit").is_some());
    let domain = load("reflect = true\nsubmit_as = \"done\"\n");
    assert_eq!(domain.spec.protocol.output().unwrap().submit.as_deref(), Some("done"));
    assert!(domain.registry.resolve("submit").is_none());
    assert_eq!(load("").spec.protocol.output().unwrap().submit, None);
}

#[test]
fn a_value_is_checked_by_tools_that_read() {
    // S2-4
    let check = |effect: &str, parameter: &str| {
        format!(
            "{VALUE}validate = [\"check\"]\n[tools.check]\nkind = \"mock\"\neffect = \"{effect}\"\ndescription = \"Checks\"\n\
             [tools.check.parameters.{parameter}]\nrequired = true\n"
        )
    };
    let domain = load_with(&check("read", "output"), &LoadOptions::default()).0.unwrap();
    assert_eq!(domain.spec.gate.validators, ["check".into()]);
    assert!(domain.spec.gate.forbid.contains(&"check".into()), "the model is not offered it");
    refuses(
        &check("egress", "output"),
        "8:13: the tool does not only read: a check changes nothing; name one that reads",
    );
    let why = "the tool is called with the text `output` alone, which does not fit its parameters; declare that one";
    refuses(&check("read", "document"), &format!("8:13: {why}"));
    refuses(
        &format!("{VALUE}[gate]\nvalidators = [\"check\"]\n"),
        "9:15: only documents have them; what checks an output is named in `output.validate`",
    );
}

#[test]
fn the_example_is_a_conversation() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crm");
    let domain = Domain::load(example, &LoadOptions::default()).unwrap();
    assert!(matches!(domain.spec.protocol, ProtocolSpec::Conversation(_)));
    assert!(domain.report().warnings.is_empty(), "{:?}", domain.report().warnings);
}
