//! Tools that run a program, from the file to the result.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use loop_core::types::{Observation, Scope, Status};
use loop_domain::{Domain, LoadOptions};
use loop_tools::ToolContext;
use serde_json::{Value, json};

const HEAD: &str = "version = 1\nname = \"shop\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n";

/// A domain with this text behind its head, and the folder in which it stands.
fn load(text: &str) -> (tempfile::TempDir, Result<Domain, String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let script = folder.path().join("bin/show");
    fs::write(&script, "#!/bin/sh\nfor one; do printf '[%s]' \"$one\"; done; cat; printf '%s' \"$TOKEN\"\n")
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("notes.md"), "# Notes\n").unwrap();
    fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default());
    let place = format!("{}/", folder.path().display());
    let domain = domain.map_err(|error| error.to_string().replace(&place, ""));
    (folder, domain)
}

async fn call(domain: &Domain, tool: &str, parameters: Value) -> Observation {
    let scope = Scope { account: Some("A-7".into()), ..Scope::default() };
    let context = ToolContext::new(scope, "item", "run-1/1/action-0");
    domain.registry.dispatch(tool, &parameters, context, &domain.credentials, 12_000, 4_000).await
}

#[tokio::test]
async fn a_program_of_the_domain_gets_what_the_model_gives_and_what_the_item_concerns() {
    let text = "[tools.show]\nkind = \"command\"\neffect = \"read\"\ndescription = \"Show\"\n\
                command = { program = \"bin/show\", args = [\"--for={scope.account}\", \"{what}\", \"--\", \"{more}\"], stdin = \"{text}\" }\n\
                [tools.show.parameters]\nwhat = { required = true }\nmore = { type = \"array\", items = {} }\ntext = {}\n";
    let (_folder, domain) = load(text);
    let domain = domain.unwrap();
    assert!(domain.report().warnings.is_empty(), "{:?}", domain.report().warnings);
    assert!(
        domain.report().lines.iter().any(|line| line == "  show: command, read"),
        "{:?}",
        domain.report().lines
    );
    let parameters = json!({ "what": "a b;id", "more": ["-x", "$(id)"], "text": "line" });
    let seen = call(&domain, "show", parameters).await;
    assert_eq!(seen.status, Status::Ok);
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("[--for=A-7][a b;id][--][-x][$(id)]line"));
    let seen = call(&domain, "show", json!({ "what": "--upload-pack=id" })).await;
    assert_eq!(seen.status, Status::InvalidInput);
    assert!(seen.text().contains("begins with `-`"), "{}", seen.text());
    let seen = call(&domain, "show", json!({ "what": "a", "more": "not a list" })).await;
    assert_eq!(seen.status, Status::InvalidInput);
}

#[tokio::test]
async fn a_secret_of_the_environment_reaches_the_program_and_nobody_else() {
    // K13. `CARGO_MANIFEST_DIR` is there in every test, and its value is long enough to be looked for.
    let text = "[tools.show]\nkind = \"command\"\neffect = \"read\"\ndescription = \"Show\"\n\
                command = { program = \"printenv\", secret_env = [\"CARGO_MANIFEST_DIR\", \"LOOPGATE_NOT_SET\"] }\n";
    let (_folder, domain) = load(text);
    let domain = domain.unwrap();
    let unset = "the environment variable `LOOPGATE_NOT_SET` is not set; set it to the secret";
    assert!(domain.ready(false).unwrap_err().to_string().contains(unset));
    assert!(domain.report().warnings.iter().any(|warning| warning.contains(unset)));
    let (_folder, domain) = load(&text.replace(", \"LOOPGATE_NOT_SET\"", ""));
    let domain = domain.unwrap();
    domain.ready(false).unwrap();
    let seen = call(&domain, "show", json!({})).await;
    assert_eq!(seen.data.as_text().map(|text| &**text), Some("CARGO_MANIFEST_DIR=[masked]"));
    assert!(domain.secrets().mask(env!("CARGO_MANIFEST_DIR")).contains("[masked]"));
}

#[test]
fn what_is_wrong_with_a_command_is_one_line_at_its_place() {
    let tool = |command: &str, rest: &str| {
        format!("[tools.x]\nkind = \"command\"\neffect = \"read\"\ndescription = \"X\"\n{command}\n{rest}")
    };
    let with = |inner: &str| tool(&format!("command = {{ program = \"bin/show\", {inner} }}"), "");
    let cases = [
        (
            tool("", ""),
            "6:8: the tool `x` has no `command`; add `command = { program = \"git\", args = [] }`",
        ),
        (tool("command = { args = [] }", ""), "the key `program` is missing; add it"),
        (tool("command = { program = \"sh\" }", ""), "10:13: `sh` is `sh`, which runs what it is given"),
        (tool("command = { program = \"bin/none\" }", ""), "there is no program `"),
        (with("argz = []"), "unknown key `argz`; did you mean `args`?"),
        (with("args = [\"{target}\"]"), "there is no parameter for `{target}`; use one of {scope.account}"),
        (with("args = [\"-{call_key}\"]"), "lets the caller choose an option"),
        (with("folder = \"none\""), "none: there is no such folder"),
        (with("sandbox = { read = [\"none\"] }"), "none: there is no such folder"),
        (with("env = [\"A=B\"]"), "`A=B` is not the name of an environment variable"),
        (with("output = \"xml\""), "`xml` is unknown here; use one of `text`, `lines`, `json`"),
        (with("retry_exit = [300]"), "300 stands where u8 is expected"),
        (
            tool("command = { program = \"bin/show\" }", "[tools.x.parameters]\nlost = {}\n"),
            "the parameter `lost` is nowhere in it; write `{lost}`, or take it out",
        ),
        (
            tool("command = { program = \"bin/show\" }", "query = \"SELECT 1\"\n"),
            "`query` is not for tools of kind `command`; take it out",
        ),
        (
            "[tools.x]\nkind = \"mock\"\neffect = \"read\"\ncommand = { program = \"git\" }\n".to_owned(),
            "`command` is not for tools of kind `mock`; take it out",
        ),
        (with("").replace("effect = \"read\"\n", ""), "the tool `x` declares no effect"),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let (_folder, domain) = load(&text);
        let error = domain.map(|_| ()).unwrap_err();
        let is_right =
            error.starts_with("loopgate.toml:") && error.contains(expected) && !error.contains('\n');
        if !is_right {
            wrong.push(format!("{error}\n  and not: {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_variable_that_sounds_like_a_secret_and_a_sandbox_that_is_not_kept_are_said() {
    let command =
        "{ program = \"bin/show\", env = [\"GITHUB_TOKEN\", \"HOME\"], sandbox = { write = [\".\"] } }";
    let text = format!(
        "[tools.x]\nkind = \"command\"\neffect = \"read\"\ndescription = \"X\"\ncommand = {command}\n"
    );
    let (_folder, domain) = load(&text);
    let mut warnings = domain.unwrap().report().warnings;
    let support = loop_tools::connectors::SandboxSupport::of_this_system();
    if support != loop_tools::connectors::SandboxSupport::Full {
        assert!(warnings.remove(0).starts_with("tool `x`: `command.sandbox`: this kernel "));
    }
    assert_eq!(
        warnings,
        [
            "tool `x`: `GITHUB_TOKEN` in `command.env` sounds like a secret and is not masked; move it to `secret_env`"
        ]
    );
}

/// The first TOML of a page that is a whole file.
fn whole_file_of(page: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/tools").join(page);
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).find(|block| block.starts_with("version = 1")).unwrap()
}

#[tokio::test]
async fn the_example_of_the_page_loads_and_does_what_it_says() {
    let text = whole_file_of("commands.md");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("repository")).unwrap();
    fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
    let warnings = domain.report().warnings;
    assert!(warnings.iter().all(|warning| warning.contains("kernel")), "{warnings:?}");
    // There is no repository yet, which the program says itself.
    let seen = call(&domain, "fetch_commits", json!({ "path": "src" })).await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(seen.text().contains("`git` ended with exit code 128: "), "{}", seen.text());
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(args).current_dir(folder.path().join("repository")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    fs::write(folder.path().join("repository/a.txt"), "x").unwrap();
    git(&["add", "."]);
    git(&["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "the first one"]);
    let seen = call(&domain, "fetch_commits", json!({ "path": "a.txt" })).await;
    assert_eq!(seen.status, Status::Ok, "{}", seen.text());
    assert!(seen.text().contains("the first one"), "{}", seen.text());
    assert_eq!(call(&domain, "fetch_commits", json!({ "path": "src" })).await.status, Status::Empty);
    // Behind the `--` it is a path that there is not.
    assert_eq!(call(&domain, "fetch_commits", json!({ "path": "--output=x" })).await.status, Status::Empty);
    assert!(!folder.path().join("repository/x").exists());
}

#[tokio::test]
async fn a_write_that_is_cut_off_or_killed_ends_the_run_in_doubt() {
    for (script, effect) in [
        ("kill -9 $$", "write_irreversible"),
        ("kill -9 $$", "exec"),
        ("exec sleep 60", "write_irreversible"),
        ("exec sleep 60", "egress"),
    ] {
        let text = format!(
            "[gate]\napproved = [\"show\"]\n[models.base]\nprovider = \"scripted\"\nscript = \"replies.json\"\n\
             [tools.show]\nkind = \"command\"\neffect = \"{effect}\"\ndescription = \"Show\"\ntimeout_ms = 500\n\
             command = {{ program = \"bin/act\", env = [\"PATH\"] }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let act = folder.path().join("bin/act");
        fs::write(&act, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&act, fs::Permissions::from_mode(0o755)).unwrap();
        let replies =
            r#"{"version": 1, "replies": [{"calls": [{"name": "show"}]}, {"text": "It is done."}]}"#;
        fs::write(folder.path().join("replies.json"), replies).unwrap();
        fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        let item = domain.item("# Do it\n\nNow.", "item.md").unwrap();
        let outcome = domain.to_loop().run(item).await.unwrap();
        assert_eq!(
            outcome.stop.class,
            loop_core::types::StopClass::InDoubt,
            "{script}, {effect}: {:?}",
            outcome.stop
        );
    }
}
