//! What a file, a profile and settings make together.

use std::fs;
use std::path::{Path, PathBuf};

use loop_core::spec::{Cite, Limits, NonceMode, ProtocolSpec};
use loop_core::types::{PicoUsd, Price, Tier};
use loop_domain::{Domain, LoadOptions};
use loop_prompts::Layout;
use loop_runtime::{
    journal::SyncPolicy,
    save::{DetailedTarget, SaveTarget},
};

const FILE: &str = r#"
version = 1
name = "shop"
goal = "Answer."

[[section]]
id = "answer"
heading = "💬 Answer"
describe = "It."
required = true
cite = true

[tools.zeta]
kind = "docs"
effect = "read"
folder = "notes"
when = "first"
[tools.alpha]
kind = "docs"
effect = "read"
folder = "notes"
when = "second"
timeout_ms = 500
query_parameter = "words"
[tools.off]
kind = "docs"
effect = "read"
folder = "not there"
enabled = false

[models.base]
provider = "offline"
model = "big"
price = { input_usd_per_million = 0.3, output_usd_per_million = "2.5", cache_read_usd_per_million = 0.075 }
[models.selector]
provider = "offline"
model = "small"
context_tokens = 9000

[limits]
max_passes = 4
cost_usd = 0.07
wall_ms = 60000

[contract]
nonce = "require"

[save]
file = "out/{item}.json"

[profiles.quick.limits]
passes = 2
[profiles.quick.tools.alpha]
enabled = false
[profiles.cheap.limits]
cost_usd = "none"
[profiles.cheap.prompts]
layout = "system_evidence"
"#;

#[track_caller]
fn file_of(domain: &Domain) -> PathBuf {
    match &domain.save {
        Some(DetailedTarget { target: SaveTarget::File(path), .. }) => path.clone(),
        other => panic!("{other:?}"),
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("notes")).unwrap();
    fs::write(folder.path().join("notes/a.md"), "# Hours\nNine to five.").unwrap();
    fs::write(folder.path().join("loopgate.toml"), FILE).unwrap();
    folder
}

fn load(folder: &Path, options: &LoadOptions) -> Domain {
    Domain::load(folder, options).unwrap()
}

fn tools(domain: &Domain) -> Vec<&str> {
    domain.spec.tools.iter().map(|tool| &*tool.name).collect()
}

fn profile(name: &str) -> LoadOptions {
    LoadOptions { profile: Some(name.to_owned()), ..LoadOptions::default() }
}

#[test]
fn a_file_makes_a_spec() {
    // S0-45, S0-77, S0-83, S0-94, S0-115, S0-123
    let folder = folder();
    let domain = load(folder.path(), &LoadOptions::default());
    let spec = &domain.spec;
    assert_eq!((&*spec.domain, &*spec.goal, spec.profile.as_deref()), ("shop", "Answer.", None));
    assert_eq!(tools(&domain), ["zeta", "alpha"]);
    let timeouts: Vec<u64> = spec.tools.iter().map(|tool| tool.timeout_ms).collect();
    assert_eq!(timeouts, [12_000, 500]);
    let expected =
        Limits { passes: 4, cost: Some(PicoUsd(70_000_000_000)), wall_ms: 60_000, ..Limits::default() };
    assert_eq!(spec.limits, expected);
    let price = Price { cache_read: Some(75_000), ..Price::flat(300_000, 2_500_000) };
    assert_eq!(spec.model(Tier::Base).price, Some(price));
    assert_eq!(spec.model(Tier::Selector).price.as_ref().map(|price| price.input), Some(0));
    assert_eq!((&*spec.model(Tier::Selector).model, &*spec.model(Tier::Escalated).model), ("small", "big"));
    let loop_core::spec::ProtocolSpec::Document(document) = &spec.protocol else {
        unreachable!("a document")
    };
    assert_eq!(document.nonce, NonceMode::Require);
    assert_eq!(domain.prompts.layout(), Layout::Append);
    assert_eq!(file_of(&domain), folder.path().join("out/{item}.json"));
    assert!(spec.save);
}

#[test]
fn what_a_journal_syncs_is_a_setting_beside_the_spec() {
    let folder = folder();
    let usual = load(folder.path(), &LoadOptions::default());
    assert_eq!(usual.sync, SyncPolicy::Effects);
    let named = |name: &str| LoadOptions {
        set: vec![("journal.sync".to_owned(), name.to_owned())],
        ..LoadOptions::default()
    };
    for (name, policy) in
        [("full", SyncPolicy::Full), ("effects", SyncPolicy::Effects), ("none", SyncPolicy::None)]
    {
        let domain = load(folder.path(), &named(name));
        assert_eq!((domain.sync, domain.spec.hash()), (policy, usual.spec.hash()));
    }
    let error = Domain::load(folder.path(), &named("half")).unwrap_err().to_string();
    assert!(error.contains("journal.sync") && error.contains("effects"), "{error}");
}

#[test]
fn the_file_itself_may_be_named() {
    let folder = folder();
    let domain = load(&folder.path().join("loopgate.toml"), &LoadOptions::default());
    assert_eq!(domain.folder(), folder.path());
}

#[test]
fn a_profile_is_laid_over_the_file() {
    // S0-4
    let folder = folder();
    let quick = load(folder.path(), &profile("quick"));
    assert_eq!((quick.spec.limits.passes, tools(&quick)), (2, vec!["zeta"]));
    assert_eq!(quick.spec.profile.as_deref(), Some("quick"));
    let cheap = load(folder.path(), &profile("cheap"));
    assert_eq!((cheap.spec.limits.passes, cheap.spec.limits.cost), (4, None));
    assert_eq!(cheap.prompts.layout(), Layout::SystemEvidence);
    assert_eq!(cheap.profiles(), ["quick", "cheap"]);
}

#[test]
fn settings_are_laid_over_the_profile() {
    // S0-43
    let folder = folder();
    let set =
        [("limits.max_passes", "3"), ("goal", "Say it."), ("name", "\"7\""), ("tools.zeta.smart", "true")];
    let options = LoadOptions {
        set: set.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..profile("quick")
    };
    let domain = load(folder.path(), &options);
    assert_eq!(domain.spec.limits.passes, 3);
    assert_eq!((&*domain.spec.goal, &*domain.spec.domain), ("Say it.", "7"));
    assert!(domain.spec.tools.iter().all(|tool| tool.smart));
}

#[test]
fn paths_begin_where_they_were_given() {
    let folder = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join("other")).unwrap();
    fs::write(elsewhere.path().join("other/x.txt"), "x").unwrap();
    let options = LoadOptions {
        set: vec![
            ("tools.zeta.folder".to_owned(), "other".to_owned()),
            ("save.file".to_owned(), "here/{run}.json".to_owned()),
        ],
        cwd: elsewhere.path().to_owned(),
        ..LoadOptions::default()
    };
    let domain = load(folder.path(), &options);
    assert_eq!(file_of(&domain), elsewhere.path().join("here/{run}.json"));
}

#[test]
fn a_model_given_by_name_takes_the_place_of_the_files() {
    let folder = folder();
    let script = folder.path().join("replies.json");
    fs::write(&script, r#"{"version": 1, "replies": []}"#).unwrap();
    let options = LoadOptions {
        models: vec![
            (Tier::Base, "offline/small".to_owned()),
            (Tier::Selector, "offline/new".to_owned()),
            (Tier::Escalated, "scripted/replies.json".to_owned()),
        ],
        cwd: PathBuf::from(folder.path()),
        ..LoadOptions::default()
    };
    let spec = load(folder.path(), &options).spec;
    // The file describes `offline/small`, so what it says counts; of `offline/new` it knows nothing.
    assert_eq!((&*spec.model(Tier::Base).model, spec.model(Tier::Base).context_tokens), ("small", 9_000));
    assert_eq!(
        (&*spec.model(Tier::Selector).model, spec.model(Tier::Selector).context_tokens),
        ("new", 128_000)
    );
    assert_eq!(&*spec.model(Tier::Escalated).provider, "scripted");
}

#[test]
fn what_a_section_must_cite_is_as_the_domain_says() {
    // G1: with `evidence` the work item alone is not enough.
    for (written, cite, line) in [
        ("true", Cite::Any, "  answer: 💬 Answer (required, cites evidence)"),
        ("\"evidence\"", Cite::Evidence, "  answer: 💬 Answer (required, cites evidence other than E0)"),
        ("false", Cite::No, "  answer: 💬 Answer (required)"),
    ] {
        let folder = folder();
        let file = folder.path().join("loopgate.toml");
        fs::write(&file, FILE.replace("cite = true", &format!("cite = {written}"))).unwrap();
        let domain = load(folder.path(), &LoadOptions::default());
        let spec = &domain.spec;
        let ProtocolSpec::Document(document) = &spec.protocol else { panic!("{:?}", spec.protocol) };
        assert_eq!(document.sections[0].cite, cite);
        let report = domain.report();
        assert!(report.lines.iter().any(|found| found == line), "{line}\n{}", report.lines.join("\n"));
    }
}

#[test]
fn a_report_says_what_there_is_and_what_is_probably_not_meant() {
    let folder = folder();
    let set = [
        ("gate.stale", "off"),
        ("gate.no_progress", "1"),
        ("gate.required_tools", "[\"zeta\"]"),
        ("gate.high_is_final", "true"),
    ];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let domain = load(folder.path(), &LoadOptions { set, ..profile("quick") });
    let report = domain.report();
    let text = report.lines.join("\n");
    for line in [
        "profile: quick of quick, cheap",
        "  answer: 💬 Answer (required, cites evidence)",
        "  zeta: docs, read",
        "model base: offline/big (priced, 128000 tokens)",
        "limits: 2 passes, $0.070000 (estimated), 25 tool calls, 12 model calls, 60 s",
        "model escalated: none, so that nothing is escalated",
        "gate: stale off, no progress after 1 pass, demands zeta, high confidence is final",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.ends_with("/out/{item}.json"), "{text}");
    let expected = [
        "selecting has no defaults: nothing runs before the first pass where choosing fails",
        "tool `zeta` has no `description`: the model has only its name to go by",
    ];
    assert_eq!(report.warnings, expected);
}

#[test]
fn a_bare_domain_works_and_is_warned_about() {
    // S4-38
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"bare\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n";
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = load(folder.path(), &LoadOptions::default());
    assert_eq!(&*domain.spec.models.base.provider, "offline");
    assert!(!domain.spec.save && domain.save.is_none());
    let expected = [
        "there is no `goal`: the model is not told what the document is for",
        "no section is required: an empty answer counts as finished",
        "there is no tool: the answer rests on the work item alone",
    ];
    assert_eq!(domain.report().warnings, expected);
}

#[test]
fn what_keeps_calls_from_being_made_is_warned_about_and_what_shows_a_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"x\"\ngoal = \"g\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n\
                [models.base]\nprovider = \"gw\"\nmodel = \"m\"\nbase_url = \"https://me:canary@gw.example/v1\"\n\
                [models.escalated]\ncontext_tokens = 0\n[models.fallback]\nmax_output_tokens = 0\n\
                [providers.gw]\nlike = \"compatible\"\ntokens_per_minute = 10\n";
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let warnings = load(folder.path(), &LoadOptions::default()).report().warnings;
    for expected in [
        "models.escalated leaves no room for a reply: none of its calls is ever made",
        "models.fallback leaves no room for a reply: none of its calls is ever made",
        "providers.gw.tokens_per_minute is 10, and a call may write 4096 tokens: such a call never begins; raise it, or \
         lower limits.output_tokens",
    ] {
        assert!(warnings.iter().any(|warning| warning == expected), "{expected}\n{warnings:#?}");
    }
    assert!(!format!("{warnings:?}").contains("canary"));
    // B13
    fs::write(folder.path().join("loopgate.toml"), text.replace("https:", "http:")).unwrap();
    let refused = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    let why = "10:1: the key of `gw` would go over the network unencrypted; write https:// in its base URL, or send none";
    assert!(refused.ends_with(why) && !refused.contains("canary"), "{refused}");
    fs::write(
        folder.path().join("loopgate.toml"),
        text.replace("minute = 10", "minute = 9000").replace("_tokens = 0", "_tokens = 500"),
    )
    .unwrap();
    let warnings = load(folder.path(), &LoadOptions::default()).report().warnings;
    assert!(
        !warnings.iter().any(|warning| warning.contains("gw") || warning.contains("no room")),
        "{warnings:#?}"
    );
}

#[test]
fn a_domain_is_a_loop_with_or_without_saving() {
    // S0-13
    let folder = folder();
    let domain = load(folder.path(), &LoadOptions::default());
    assert!(domain.to_loop().spec().save);
    assert!(!domain.unsaved_loop().spec().save);
}

#[test]
fn a_domain_may_save_to_an_address_with_a_token_from_the_environment() {
    // S0-13
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"bare\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n[save]\n\
                url = \"https://reports.example/in?team=7\"\nbearer_env = \"CARGO_PKG_NAME\"\n";
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = load(folder.path(), &LoadOptions::default());
    assert!(
        matches!(&domain.save, Some(DetailedTarget { target: SaveTarget::Http(_), .. })) && domain.spec.save
    );
    assert!(domain.report().lines.contains(&"saved to https://reports.example/in".to_owned()));
    assert!(!format!("{:?}", domain.save).contains("loop-domain"), "the token is not shown");
}

#[test]
fn what_a_tool_of_any_kind_is_made_of_is_part_of_its_definition() {
    // G3, K8: an approval counts for the tool that was shown, so each of these makes another manifest.
    const TOOLS: &str = r#"
version = 1
name = "shop"
goal = "Answer."
[protocol]
type = "conversation"
[sources.shop]
kind = "sqlite"
made_from = "shop.sql"
writable = true
[tools.look]
kind = "sql"
source = "shop"
effect = "read"
query = "SELECT id FROM orders"
[tools.pay]
kind = "sql"
source = "shop"
effect = "write_idempotent"
query = "UPDATE orders SET paid = 1"
[tools.notes]
kind = "docs"
folder = "notes"
effect = "read"
[tools.notes.parameters]
query = { required = true }
words = { required = true }
[tools.ask]
kind = "question"
[tools.ask.parameters.question]
required = true
[tools.stub]
kind = "mock"
effect = "read"
[models.base]
provider = "offline"
"#;
    let folder = tempfile::tempdir().unwrap();
    let script = "CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER);";
    for name in ["shop.sql", "other.sql"] {
        fs::write(folder.path().join(name), script).unwrap();
    }
    for name in ["notes", "others"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("a.md"), "# A\n\nText.\n").unwrap();
    }
    let manifest = |text: &str| {
        fs::write(folder.path().join("loopgate.toml"), text).unwrap();
        Domain::load(folder.path(), &LoadOptions::default()).unwrap().registry.manifest_hash()
    };
    let as_it_was = manifest(TOOLS);
    let edits = [
        ("SELECT id FROM orders", "SELECT id FROM orders WHERE paid = 1"),
        ("UPDATE orders SET paid = 1", "UPDATE orders SET paid = 0"),
        ("made_from = \"shop.sql\"", "made_from = \"other.sql\""),
        ("folder = \"notes\"", "folder = \"others\""),
        ("folder = \"notes\"", "folder = \"notes\"\nquery_parameter = \"words\""),
        ("folder = \"notes\"", "folder = \"notes\"\nsmart = true"),
        ("[tools.ask.parameters.question]", "[tools.ask.parameters.text]"),
        ("kind = \"mock\"\neffect = \"read\"", "kind = \"question\""),
        ("kind = \"mock\"", "kind = \"docs\"\nfolder = \"notes\""),
    ];
    for (from, to) in edits {
        assert!(TOOLS.contains(from), "{from}");
        assert_ne!(manifest(&TOOLS.replacen(from, to, 1)), as_it_was, "{to}");
    }
    // What is not the tool's own, and where the folder is.
    assert_eq!(
        manifest(&TOOLS.replace("goal = \"Answer.\"", "goal = \"Answer well.\" # a comment")),
        as_it_was
    );
    let moved = tempfile::tempdir().unwrap();
    let at = moved.path().join("moved");
    fs::rename(folder.path(), &at).unwrap();
    let loaded = Domain::load(&at, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.registry.manifest_hash(), as_it_was);
    // A definition is more than what is shown of a tool.
    let given = |part: u32| {
        let tool =
            loop_runtime::tools::ToolDeclaration::read("look", "Look").defined_by(&serde_json::json!(part));
        let run = |_, _, _| async { loop_runtime::tools::ToolResult::failed("look", "Look", "no") };
        loop_runtime::tools::Registry::builder().tool_fn(tool, run).build().unwrap().manifest_hash()
    };
    assert_eq!((given(1) == given(1), given(1) == given(2)), (true, false));
}

// Issue 43, R70
#[test]
fn a_check_says_where_a_lock_is_waited_for_no_longer_than_a_tool_has() {
    let warned = |source: &str, tool: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("shop.sql"), "CREATE TABLE orders (id);").unwrap();
        let text = format!(
            "version = 1\nname = \"shop\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n[sources.shop]\n\
             kind = \"sqlite\"\nmade_from = \"shop.sql\"\n{source}[tools.look]\nkind = \"sql\"\nsource = \"shop\"\n\
             effect = \"read\"\ndescription = \"Looks.\"\nquery = \"SELECT id FROM orders\"\n{tool}"
        );
        fs::write(folder.path().join("loopgate.toml"), text).unwrap();
        Domain::load(folder.path(), &LoadOptions::default()).unwrap().warnings().to_vec()
    };
    let says = "tool `look` has 1000 ms, which is less than the `busy_timeout_ms` of 8000 of its source `shop`: a lock is \
                waited for no longer than the tool has; raise its `timeout_ms`";
    assert_eq!(warned("busy_timeout_ms = 8000\n", "timeout_ms = 1000\n"), [says]);
    assert!(
        warned("busy_timeout_ms = 20000\n", "")[0].starts_with("tool `look` has 12000 ms, which is less")
    );
    for (source, tool) in [("busy_timeout_ms = 8000\n", ""), ("", "timeout_ms = 1000\n")] {
        assert_eq!(warned(source, tool), [""; 0], "{source}{tool}");
    }
}
