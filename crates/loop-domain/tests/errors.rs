//! What is wrong with a domain is said in one line that points at its place and says how to fix it.

use std::fs;
use std::path::PathBuf;

use loop_core::types::Tier;
use loop_domain::{Domain, LoadOptions};

const SECTION: &str = "[[section]]\nid = \"answer\"\nheading = \"Answer\"\nrequired = true\n";
const SEARCH: &str =
    "[tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\nwhen = \"always\"\n";
const SQL: &str = "[sources.shop]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\n[tools.fetch_stock]\nkind = \"sql\"\n\
                   source = \"shop\"\neffect = \"read\"\n";

/// The error of a file, without the folder before it.
#[track_caller]
fn error_with(text: &str, options: &LoadOptions) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    fs::write(folder.path().join("notes.md"), "# Notes\nOpen from nine to five.").unwrap();
    fs::write(folder.path().join("shop.sql"), "CREATE TABLE stock (name, pieces);").unwrap();
    let error = Domain::load(folder.path(), options).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error.replace(&format!("{}/", folder.path().display()), "")
}

/// The error of a file that begins with version and name on lines 1 and 2.
#[track_caller]
fn error(rest: &str) -> String {
    error_with(&format!("version = 1\nname = \"shop\"\n{rest}"), &LoadOptions::default())
}

#[track_caller]
fn check(rest: &str, expected: &str) {
    assert_eq!(error(rest), format!("loopgate.toml:{expected}"));
}

fn set(key: &str, value: &str) -> LoadOptions {
    LoadOptions { set: vec![(key.to_owned(), value.to_owned())], ..LoadOptions::default() }
}

#[test]
fn a_missing_file_says_what_to_make() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop");
    let error = Domain::load(&path, &LoadOptions::default()).unwrap_err().to_string();
    let place = path.join("loopgate.toml");
    assert_eq!(
        error,
        format!(
            "{}: there is no such file; make it, or name a folder that holds a loopgate.toml",
            place.display()
        )
    );
    fs::create_dir_all(&place).unwrap();
    let error = Domain::load(&path, &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("loopgate.toml: cannot be read: "), "{error}");
}

#[test]
fn an_unknown_key_comes_with_a_near_one_or_with_all() {
    check(&format!("{SECTION}requird = true\n"), "7:1: unknown key `requird`; did you mean `required`?");
    check(
        "[limits]\nbudget = 1\n",
        "4:1: unknown key `budget`; the keys here are `passes`, `cost_usd`, `cost_mode`, `tokens`, \
           `tool_calls`, `requested_calls`, `model_calls`, `depth`, `messages`, `wall_ms`, `person_ms`, `selected`, `selector_ms`, `output_tokens`, `markdown_chars`, `sub_call_ms`, \
           `sub_call_tokens`, `sub_call_bytes`",
    );
    check("[modles.base]\nprovider = \"offline\"\n", "3:2: unknown key `modles`; did you mean `models`?");
    check(
        &format!("{SECTION}{SEARCH}[tools.search.parameters.query]\nexample = [\"x\"]\n"),
        "13:1: unknown key `example`; did you mean `examples`?",
    );
}

#[test]
fn a_value_of_the_wrong_kind_says_what_is_expected() {
    let cases = [
        ("goal = 7\n", "3:8: 7 stands where a text in quotes is expected; correct the value"),
        (
            "[limits]\npasses = \"three\"\n",
            "4:10: the text \"three\" stands where a whole number of 0 or more is expected; correct the value",
        ),
        (
            "[limits]\npasses = -1\n",
            "4:10: -1 stands where a whole number of 0 or more is expected; correct the value",
        ),
        (
            "[limits]\ncost_usd = \"a lot\"\n",
            "4:12: `a lot` is not an amount of dollars; write dollars such as 0.10",
        ),
        (
            "[limits]\ncost_usd = true\n",
            "4:12: true stands where an amount of dollars such as 0.10 is expected; correct the value",
        ),
        ("[contract]\nnonce = \"maybe\"\n", "4:9: `maybe` is unknown here; use one of `prefer`, `require`"),
        (
            "[limits]\ncost_usd = 0,10\n",
            "4:13: unexpected key or value, expected newline, `#`; write a decimal point: 0.10, and nothing between thousands",
        ),
        (
            "[limits]\n[contract]\n[limits]\n",
            "5:2: duplicate key; write the heads of a list all as [[NAME]], and that of a table once as [NAME]",
        ),
        (
            "[section]\nid = \"a\"\n",
            "3:2: a table stands where a list is expected; write the head of each element as [[NAME]]",
        ),
        (
            "[[limits]]\npasses = 1\n",
            "3:1: a list stands where a table is expected; write its head with one bracket, as [NAME]",
        ),
        (
            "[[models.base]]\nprovider = \"offline\"\n",
            "3:1: a list stands where a table is expected; write its head with one bracket, as [NAME]",
        ),
        (
            "[item]\nkind = „Ä“\n",
            "4:8: string values must be quoted, expected literal string; these are typographic quotes; write straight ones: \"…\"",
        ),
        (
            "[item]\nkind = \"Ä”\n",
            "4:11: invalid basic string, expected `\"`; these are typographic quotes; write straight ones: \"…\"",
        ),
        ("tools = []\n", "3:9: a list stands where a table is expected; correct the value"),
        (
            "[item]\nid = \"ticket.id\"\n[[section]]\nid = \"a\"\nheading = \"A\"",
            "4:1: `ticket.id` is not a JSON pointer; write it as `/ticket/id`",
        ),
    ];
    for (rest, expected) in cases {
        check(rest, expected);
    }
}

#[test]
fn a_file_that_is_no_toml_names_the_place() {
    let error = error("goal = \n");
    assert!(error.starts_with("loopgate.toml:3:"), "{error}");
    assert!(error.ends_with("; correct it there"), "{error}");
}

#[test]
fn a_version_is_demanded_and_a_newer_one_is_recognised() {
    let options = LoadOptions::default();
    assert_eq!(
        error_with("name = \"x\"\n", &options),
        "loopgate.toml:1:1: the key `version` is missing; begin the file with `version = 1`"
    );
    assert_eq!(
        error_with("# soon\nversion = 2\nbrand_new = true\n", &options),
        "loopgate.toml:2:11: written for a newer loopgate: its format is 2, this one reads 1; update loopgate"
    );
    assert_eq!(
        error_with("version = 0\n", &options),
        "loopgate.toml:1:11: there is no format 0; write `version = 1`"
    );
    assert_eq!(error_with("version = 1\n", &options), "loopgate.toml:1:1: the key `name` is missing; add it");
}

#[test]
fn an_unknown_provider_is_refused() {
    check(
        &format!("{SECTION}[models.base]\nprovider = \"antropic\"\n"),
        "8:1: unknown provider `antropic`; did you mean `anthropic`?",
    );
    check(
        &format!("{SECTION}[models.base]\nprovider = \"scripted\"\n"),
        "8:1: a scripted model needs its replies; add `script = \"FILE.json\"`",
    );
    let error = error(&format!("{SECTION}[models.base]\nprovider = \"scripted\"\nscript = \"notes.md\"\n"));
    assert!(error.starts_with("loopgate.toml:9:1: notes.md: is not a script: "), "{error}");
    check(
        &format!(
            "{SECTION}[models.base.price]\ninput_usd_per_million = 0.0000001\noutput_usd_per_million = 1\n"
        ),
        "8:1: a price for a million tokens has at most 6 digits behind the point; round it up",
    );
}

#[test]
fn a_tool_must_say_what_it_does_to_the_world() {
    check(
        &format!("{SECTION}[tools.search]\nkind = \"docs\"\nfolder = \".\"\n"),
        "7:8: the tool `search` declares no effect; add `effect = \"read\"` if it only reads",
    );
    check(
        &format!("{SECTION}[tools.search]\nkind = \"docs\"\nfolder = \".\"\neffect = \"reed\"\n"),
        "10:10: `reed` is unknown here; did you mean `read`?",
    );
}

#[test]
fn a_query_that_does_not_prepare_is_found_before_a_run() {
    check(
        &format!("{SECTION}{SQL}query = \"SELECT pices FROM stock\"\n"),
        "14:1: tool `fetch_stock`: its query does not prepare: no such column: pices in its line 1; correct the SQL",
    );
    check(
        &format!("{SECTION}{SQL}query = \"DELETE FROM stock\"\n"),
        "14:1: tool `fetch_stock`: its query must be one SELECT that changes nothing: it would write; write one SELECT",
    );
    check(
        &format!(
            "{SECTION}{SQL}query = \"SELECT name FROM stock WHERE name = :part\"\n[tools.fetch_stock.parameters.target]\n"
        ),
        "14:1: tool `fetch_stock`: its query names `:part`, which nobody gives it; use one of :target, :scope_account, \
         :scope_account_name, :scope_asset, :scope_item, :scope_person",
    );
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let tool = |source: &str| {
        format!(
            "{SECTION}[tools.fetch_stock]\nkind = \"sql\"\neffect = \"read\"\nquery = \"SELECT 1\"\n{source}"
        )
    };
    check(&tool(""), "7:8: the tool `fetch_stock` has no `source`; add the name of a source");
    check(&tool("source = \"shop\"\n"), "11:1: there is no source `shop`; there are none");
    let source = "source = \"shp\"\n[sources.shop]\nkind = \"sqlite\"\nmade_from = \"shop.sql\"\n";
    check(&tool(source), "11:1: there is no source `shp`; did you mean `shop`?");
    let source = "source = \"shop\"\n[sources.shop]\nkind = \"sqlite\"\nfile = \"shop.db\"\n";
    check(&tool(source), "14:1: shop.db: there is no such file; correct the path or put the file there");
    check(
        &tool("[sources.shop]\nkind = \"sqlite\"\n"),
        "11:10: the source `shop` names no data; add `file` or `made_from`",
    );
    check(
        &format!("{SECTION}[tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \"docs\"\n"),
        "10:1: docs: there is no such folder; correct the path or put the folder there",
    );
}

#[test]
fn a_key_of_another_kind_of_tool_is_refused() {
    check(
        &format!("{SECTION}{SEARCH}query = \"SELECT 1\"\n"),
        "12:1: `query` is not for tools of kind `docs`; take it out",
    );
    check(
        &format!("{SECTION}{SQL}query = \"SELECT 1 AS a\"\nfolder = \"notes\"\n"),
        "15:1: `folder` is not for tools of kind `sql`; take it out",
    );
}

#[test]
fn a_smart_tool_that_cannot_work_is_refused() {
    let sql = format!("{SECTION}{SQL}query = \"SELECT 1 AS a\"\n");
    for (smart, line) in [
        (
            "smart = \"yes\"",
            "15:9: the text \"yes\" stands where `true`, `false` or a table is expected; correct the value",
        ),
        ("smart = { treshold = 3 }", "15:11: unknown key `treshold`; did you mean `threshold`?"),
        ("smart = { threshold = 0 }", "15:11: it is at least 1; correct it"),
        ("smart = { fallback = 0 }", "15:11: it is at least 1; correct it"),
        ("smart = { target = \"words\" }", "15:11: there is no parameter `words`; there are none"),
    ] {
        check(&format!("{sql}{smart}\n"), line);
    }
    check(
        &format!("{SECTION}{SEARCH}smart = {{ threshold = 3 }}\n"),
        "12:1: the passages of documents are chosen in one way; write `smart = true`",
    );
}

#[test]
fn a_parameter_that_cannot_work_is_refused() {
    let words = "[tools.search.parameters.words]\nrequired = true\n";
    check(
        &format!("{SECTION}{SEARCH}{words}"),
        "12:15: there is no parameter `query`; there are `words`; name the one with the words in `query_parameter`",
    );
    check(
        &format!("{SECTION}{SEARCH}query_parameter = \"word\"\n{words}"),
        "12:1: there is no parameter `word`; did you mean `words`?",
    );
    let pieces = "[tools.fetch_stock.parameters.pieces]\ntype = \"integer\"\ndefault = \"many\"\n";
    let error = error(&format!("{SECTION}{SQL}query = \"SELECT :pieces AS p\"\n{pieces}"));
    assert!(error.starts_with("loopgate.toml:17:1: it does not fit its own parameter: "), "{error}");
}

#[test]
fn a_tool_that_writes_needs_a_source_that_may_be_written() {
    // S0-64: nothing is written that the file does not say.
    let change = |source: &str, effect: &str, query: &str| {
        let sql = SQL.replace("shop.sql\"\n", &format!("shop.sql\"\n{source}"));
        let sql = sql.replace("\"read\"", &format!("\"{effect}\""));
        format!("{SECTION}{sql}query = \"{query}\"\n")
    };
    let empty_stock = "UPDATE stock SET pieces = 0";
    check(
        &change("", "write_idempotent", empty_stock),
        "12:1: the tool `fetch_stock` changes data (`write_idempotent`), and the source `shop` is not writable; add \
         `writable = true` to [sources.shop]",
    );
    check(
        &change("writable = true\n", "read", empty_stock),
        "15:1: tool `fetch_stock`: its query must be one SELECT that changes nothing: it would write; write one SELECT",
    );
    for effect in ["write_idempotent", "write_keyed", "write_irreversible"] {
        check(
            &change("writable = true\n", effect, "SELECT name FROM stock"),
            &format!(
                "15:1: tool `fetch_stock`: with the effect `{effect}` its query must be one INSERT, UPDATE or DELETE: it changes \
                 nothing; write one, or correct the effect"
            ),
        );
    }
    check(
        &change("writable = true\n", "write_keyed", empty_stock),
        "15:1: tool `fetch_stock`: with the effect `write_keyed` its query must store `:call_key`, and does not name it; do \
         so, or correct the effect",
    );
    check(
        &change("writable = 1\n", "write_idempotent", empty_stock),
        "10:12: 1 stands where true or false is expected; correct the value",
    );
}

#[test]
fn a_script_that_does_not_run_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.sql"), "CREATE TABLE a (b);\nINSRT;\n").unwrap();
    let text = format!("version = 1\nname = \"x\"\n{SECTION}{SQL}query = \"SELECT b FROM a\"\n");
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("loopgate.toml:9:1: ") && error.contains("shop.sql:2: SQLite refuses the script"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    let file = folder.path().join("loopgate.toml");
    fs::write(&file, b"version = 1\n\xff").unwrap();
    assert!(load().contains("loopgate.toml: cannot be read: "), "{}", load());
    let text = format!("version = 1\nname = \"x\"\n{SECTION}[prompts]\nfolder = \".\"\n");
    fs::write(&file, text).unwrap();
    fs::write(folder.path().join("selector.md"), b"\xff").unwrap();
    assert!(load().contains("selector.md: cannot be read: "), "{}", load());
}

#[test]
fn sections_are_reported_apart() {
    check("", "1:1: there is no section; add one: [[section]] with `id` and `heading`");
    check(
        &format!("{SECTION}[[section]]\nid = \"answer\"\nheading = \"Other\"\n"),
        "8:1: another section has the id `answer`; choose another one",
    );
    check(
        &format!("{SECTION}[[section]]\nid = \"reply\"\nheading = \"💬 ANSWER!\"\n"),
        "9:1: it reads like the heading of `answer`; choose another one",
    );
    check(
        "[[section]]\nid = \"Next steps\"\nheading = \"Next\"\n",
        "4:1: `Next steps` is not a section id; use small letters, digits, `_` and `-`",
    );
    check("[[section]]\nheading = \"Next\"\n", "3:1: the key `id` is missing; add it");
}

#[test]
fn an_alias_means_one_tool() {
    // S0-84
    let second = SEARCH.replace("tools.search", "tools.find");
    check(
        &format!("{SECTION}{SEARCH}{second}aliases = [\"search\"]\n"),
        "17:1: tool `find`: its alias `search` is already a name of `search`; take it out of one of them",
    );
}

#[test]
fn defaults_and_required_tools_must_be_there() {
    // S0-127
    let with = |rest: &str| format!("{SECTION}{SEARCH}{rest}");
    check(
        &with("[selection]\ndefaults = [{ tool = \"serch\", parameters = {} }]\n"),
        "13:15: there is no tool `serch`; did you mean `search`?",
    );
    check(
        &with("[selection]\ndefaults = [{ tool = \"search\" }]\n"),
        "13:13: the parameters do not fit `search`: /query: is required; correct them",
    );
    check(
        &with("[gate]\nrequired_tools = [\"lookup\"]\n"),
        "13:19: there is no tool `lookup`; there are `search`",
    );
    check(
        &with("enabled = false\n[gate]\nrequired_tools = [\"search\"]\n"),
        "14:19: the tool `search` is switched off; switch it on, or take its name out",
    );
}

#[test]
fn an_override_without_its_anchor_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("prompts")).unwrap();
    fs::write(folder.path().join("prompts/analysis.md"), "Analyse it.\n<!-- user -->\nNow.\n").unwrap();
    let text = format!("version = 1\nname = \"x\"\n{SECTION}[prompts]\nfolder = \"prompts\"\n");
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("loopgate.toml:8:1: prompts/analysis.md: the anchor `"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    fs::rename(folder.path().join("prompts/analysis.md"), folder.path().join("prompts/analysys.md")).unwrap();
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("no template has this name"), "{error}");
    fs::remove_dir_all(folder.path().join("prompts")).unwrap();
    let error = Domain::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with("/prompts: there is no such folder; correct the path or make the folder"),
        "{error}"
    );
}

#[test]
fn an_unknown_profile_comes_with_those_that_there_are() {
    let text = format!(
        "version = 1\nname = \"x\"\n{SECTION}[profiles.quick.limits]\npasses = 2\n[profiles.deep.limits]\npasses = 9\n"
    );
    let profile = |name: &str| LoadOptions { profile: Some(name.to_owned()), ..LoadOptions::default() };
    assert_eq!(
        error_with(&text, &profile("night")),
        "--profile night: there is no such profile; the profiles are `quick`, `deep`"
    );
    assert_eq!(
        error_with(&text, &profile("quik")),
        "--profile quik: there is no such profile; did you mean `quick`?"
    );
}

#[test]
fn a_slip_in_a_profile_is_found_although_it_is_not_chosen() {
    check(
        &format!("{SECTION}[profiles.quick.limits]\npases = 2\n"),
        "8:1: unknown key `pases`; did you mean `passes`?",
    );
    check(
        &format!("{SECTION}[profiles.quick]\nversion = 1\n"),
        "8:1: a profile cannot hold `version`; take it out",
    );
}

#[test]
fn a_setting_with_an_unknown_path_is_refused() {
    let text = format!("version = 1\nname = \"x\"\n{SECTION}{SEARCH}");
    let cases = [
        ("limits.pases", "3", "--set limits.pases=3: unknown key `pases`; did you mean `passes`?"),
        (
            "tools.serch.folder",
            "x",
            "--set tools.serch.folder=x: there is no tool `serch`; did you mean `search`?",
        ),
        ("section.answer", "x", "--set section.answer=x: `section` is not a table; set it as a whole"),
        (
            "limits.passes",
            "x",
            "--set limits.passes=x: the text \"x\" stands where a whole number of 0 or more is expected; correct the value",
        ),
        (
            "limits..passes",
            "3",
            "--set limits..passes=3: a part of the key is empty; write it as `limits.passes=3`",
        ),
        ("profiles.x.limits", "3", "--set profiles.x.limits=3: a profile cannot be set; set the key itself"),
        (
            "tools.search.folder",
            "nowhere",
            "--set tools.search.folder=nowhere: nowhere: there is no such folder; correct the path or put the folder there",
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(error_with(&text, &set(key, value)), expected);
    }
    let models = vec![(Tier::Base, "acme/gpt".to_owned())];
    let options = LoadOptions { models, cwd: PathBuf::new(), ..LoadOptions::default() };
    assert_eq!(
        error_with(&text, &options),
        "--model base=acme/gpt: unknown provider `acme`; this version knows `offline`, `scripted`, `recorded`, \
         `openai`, `openai-responses`, `azure`, `azure-responses`, `anthropic`, `gemini`, `groq`, `mistral`, \
         `deepseek`, `openrouter`, `xai`, `xai-chat`, `vllm`, `ollama`, `lm-studio`, `llama-cpp`, `compatible`, \
         `openai-chat`"
    );
}

#[test]
fn passes_have_one_limit_under_two_names() {
    check(
        "[limits]\npasses = 1\nmax_passes = 2\n",
        "5:1: `max_passes` means `passes`, which is there as well; keep one",
    );
    check(
        "[limits]\nmax_steps = 1\nmax_passes = 2\n",
        "4:1: `max_steps` means `passes`, which is there as well; keep one",
    );
}

#[test]
fn a_domain_saves_to_one_place() {
    let check_save = |save: &str, expected: &str| check(&format!("{SECTION}[save]\n{save}"), expected);
    let url = "url = \"https://reports.example/in\"\n";
    check_save(&format!("file = \"a.json\"\n{url}"), "9:1: `file` is there as well; keep one of them");
    check_save("", "7:2: neither `file` nor `url` is there; add one, or take `[save]` out");
    check_save("file = \"a.json\"\nbearer_env = \"X\"\n", "9:1: a token is for a `url`; take it out");
    check_save(
        "bearer_env = \"X\"\n",
        "7:2: neither `file` nor `url` is there; add one, or take `[save]` out",
    );
    check_save("url = \"reports\"\n", "8:1: the address is not a URL; write `https://HOST/PATH`");
    check_save(
        "url = \"https://me:pw@reports.example/\"\n",
        "8:1: the address holds a user or a password; use a token instead",
    );
}

#[test]
fn a_save_file_knows_two_places() {
    check(
        &format!("{SECTION}[save]\nfile = \"out/{{id}}.json\"\n"),
        "8:1: `out/{id}.json` has a `{` that begins neither {item} nor {run}; correct it",
    );
    check(
        &format!("{SECTION}[save]\nfile = \"out/\"\n"),
        "8:1: no file is named; write, for example, `out/{item}.json`",
    );
}

#[test]
fn what_is_forbidden_cannot_be_required_and_settings_of_the_gate_are_words() {
    let with = |rest: &str| format!("{SECTION}{SEARCH}{rest}");
    check(
        &with("[gate]\nrequired_tools = [\"search\"]\nforbid = [\"search\"]\n"),
        "14:11: the tool is required as well, so that no answer could ever do; take it out of one list",
    );
    check(&with("[gate]\nforbid = [\"serch\"]\n"), "13:11: there is no tool `serch`; did you mean `search`?");
    let stale = error(&with("[gate]\nstale = \"never\"\n"));
    assert!(stale.contains("toml:13:9") && stale.contains("not_improved"), "{stale}");
    let mode = error(&with("[limits]\ncost_mode = \"loose\"\n"));
    assert!(mode.contains("toml:13:13") && mode.contains("strict"), "{mode}");
}

#[test]
fn a_provider_of_ones_own_says_what_it_is_like() {
    let with = |rest: &str| format!("{SECTION}[providers.{rest}");
    check(
        &with("acme]\nbase_url = \"https://acme.example\"\n"),
        "7:12: say which provider it is like: add `like`, for example `like = \"compatible\"`",
    );
    check(&with("acme]\nlike = \"grok\"\n"), "8:1: unknown provider `grok`; did you mean `groq`?");
    check(&with("offline]\nlike = \"groq\"\n"), "7:12: `offline` is not a server; give it another name");
    check(&with("groq]\ncalls_at_once = 0\n"), "8:1: with 0 no call would ever begin; write 1 or more");
    let slip = error(&with("groq]\ntool_ids = \"nine\"\n"));
    assert!(slip.contains("toml:8:12") && slip.contains("alnum9"), "{slip}");
    check(
        &format!("{SECTION}[models.base]\nprovider = \"azure\"\nmodel = \"m\"\n"),
        "8:1: `azure` has no server of its own; give --base-url URL, or add `base_url`",
    );
    check(
        &format!("{SECTION}[models.base]\nprovider = \"recorded\"\n"),
        "8:1: a recorded model needs its recording; add `recording = \"FILE.jsonl\"`",
    );
}

#[test]
fn a_model_behind_a_server_says_what_it_lacks() {
    let with = |rest: &str| format!("{SECTION}[models.base]\n{rest}");
    let chat = "provider = \"openai-chat\"\n";
    check(&with(chat), "8:1: no model is named; add `model` with its name at the server");
    check(
        &with(&format!("{chat}model = \"m\"\nbase_url = \"localhost:8080\"\n")),
        "10:1: the base URL has no scheme; write http://localhost:8080 or https://localhost:8080",
    );
    check(
        &with("base_url = \"http://localhost\"\n"),
        "8:1: `base_url` is for a provider with a server; take it out",
    );
    check(
        &with(&format!("{chat}model = \"m\"\nscript = \"x.json\"\n")),
        "10:1: `script` is for the provider `scripted`; take it out",
    );
    check(
        &format!("{}[limits]\ncost_usd = 0.05\n", with(&format!("{chat}model = \"m\"\n"))),
        "9:1: the price of openai-chat/m is not known, so limits.cost_usd cannot be kept; `loopgate model list --provider openai-chat` lists the known models: correct the name, or add `price` to [models.base], or write limits.cost_usd = \"none\"",
    );
}

#[test]
fn a_number_out_of_its_range_and_a_name_that_is_none_are_refused() {
    let chat =
        |rest: &str| format!("{SECTION}[models.base]\nprovider = \"openai-chat\"\nmodel = \"m\"\n{rest}\n");
    for (rest, expected) in [
        ("temperature = 3", "`temperature` is from 0 to 2; correct it, or take it out"),
        ("temperature = nan", "`temperature` is from 0 to 2; correct it, or take it out"),
        ("top_p = -1", "`top_p` is from 0 to 1; correct it, or take it out"),
        ("base_model = \"\"", "the name is empty; write the model's, or take it out"),
        (
            "api_key_env = \"A B\"",
            "this is not the name of an environment variable; write the name alone, for example MODEL_KEY",
        ),
    ] {
        check(&chat(rest), &format!("10:1: {expected}"));
    }
    check(
        &format!("{SECTION}[providers.groq]\napi_key_env = \"A B\"\n"),
        "8:1: this is not the name of an environment variable; write the name alone, for example MODEL_KEY",
    );
    check(
        &chat("temperature = \"warm\""),
        "10:15: the text \"warm\" stands where a number is expected; correct the value",
    );
}

#[test]
fn a_url_that_is_given_beside_the_file_is_not_shown() {
    let text = format!("{SECTION}[models.base]\nprovider = \"openai-chat\"\nmodel = \"m\"\n");
    let base_urls = vec![(Tier::Base, "ftp://me:canary@h".to_owned())];
    let stated = error_with(
        &format!("version = 1\nname = \"shop\"\n{text}"),
        &LoadOptions { base_urls, ..LoadOptions::default() },
    );
    assert!(
        stated.starts_with("--base-url base: the base URL must be") && !stated.contains("canary"),
        "{stated}"
    );
}

#[test]
fn a_key_that_is_not_set_is_missed_by_who_runs_and_by_nobody_else() {
    let text = format!(
        "version = 1\nname = \"shop\"\n{SECTION}[models.base]\nprovider = \"openai-chat\"\nmodel = \"m\"\n\
         base_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"LOOPGATE_TEST_NO_SUCH_KEY\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    let missed = domain.ready(false).unwrap_err().to_string();
    let stated = "loopgate.toml:11:1: the environment variable `LOOPGATE_TEST_NO_SUCH_KEY` is not set; set it to the model's key";
    assert!(missed.ends_with(stated), "{missed}");
    assert!(domain.report().warnings.iter().any(|warning| warning.ends_with(stated)));
}

#[test]
fn a_token_that_is_not_set_is_missed_by_who_saves() {
    let save = "[save]\nurl = \"https://reports.example/in\"\nbearer_env = \"LOOPGATE_NO_SUCH_VARIABLE\"\n";
    let folder = tempfile::tempdir().unwrap();
    let text = format!("version = 1\nname = \"shop\"\n{SECTION}{save}");
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    domain.ready(false).unwrap();
    let missed = domain.ready(true).unwrap_err().to_string();
    let stated = "9:1: the environment variable `LOOPGATE_NO_SUCH_VARIABLE` is not set; set it to the secret";
    assert!(missed.ends_with(stated), "{missed}");
}

#[cfg(not(feature = "command"))]
#[test]
fn a_command_in_a_build_without_commands_names_the_feature() {
    check(
        "[protocol]\ntype = \"conversation\"\n[tools.x]\nkind = \"command\"\neffect = \"read\"\ncommand = { program = \"git\" }\n",
        "6:1: tools of kind `command` are not in this build; build it with `--features command`",
    );
}

#[cfg(not(feature = "files"))]
#[test]
fn a_files_tool_in_a_build_without_files_names_the_feature() {
    check(
        "[protocol]\ntype = \"conversation\"\n[tools.x]\nkind = \"files\"\neffect = \"read\"\nfiles = { folder = \".\", do = \"read\" }\n",
        "6:1: tools of kind `files` are not in this build; build it with `--features files`",
    );
}
