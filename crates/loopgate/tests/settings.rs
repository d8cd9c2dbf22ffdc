//! What a user sets once: the model, the journal and the domain of commands that name none; and command lines that cannot be meant.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::{self, Ran, Shell};

const HELPDESK: &str = "examples/helpdesk";

#[track_caller]
fn with(shell: &Shell, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    shell.command(args).envs(variables.iter().copied()).output().unwrap().into()
}

fn user_file(shell: &Shell, text: &str) {
    shell.file("config/loopgate/config.toml", text);
}

// 45-3
#[test]
fn an_option_comes_before_a_variable_and_that_before_the_file() {
    let shell = Shell::new();
    let model = |variables: &[(&str, &str)], args: &[&str]| {
        let ran = with(
            &shell,
            variables,
            &[&["run", HELPDESK, &common::ticket(1042), "--no-save", "--json"], args].concat(),
        );
        let outcome: serde_json::Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
        outcome["trace"].to_string() + &outcome.to_string()
    };
    assert!(model(&[], &[]).contains("offline-1"));
    user_file(&shell, "model = \"offline/of-file\"\n");
    let variable = [("LOOPGATE_MODEL", "offline/of-variable")];
    for (variables, args, expected) in [
        (&[][..], &[][..], "offline/of-file"),
        (&variable[..], &[][..], "offline/of-variable"),
        (&variable[..], &["-m", "offline/of-option"][..], "offline/of-option"),
        (&variable[..], &["-m", "base=offline/of-tier"][..], "offline/of-tier"),
        (&variable[..], &["-m", "selector=offline/small"][..], "offline/of-variable"),
    ] {
        let outcome = model(variables, args);
        let name = expected.rsplit_once('/').unwrap().1;
        assert!(outcome.contains(name), "{expected} of {args:?}");
    }
    // A run that has begun keeps its own model.
    let retried = with(&shell, &[("LOOPGATE_MODEL", "offline/unwanted-1")], &["retry", "last", "--json"]);
    assert!(
        retried.out.contains("of-variable") && !retried.out.contains("unwanted-1"),
        "{} {}",
        retried.out,
        retried.err
    );
}

// 45-3
#[test]
fn the_domain_and_the_journal_are_those_of_the_user_where_a_command_names_none() {
    let shell = Shell::new();
    let journal = shell.state.path().join("own.db").display().to_string();
    let variables = [("LOOPGATE_DOMAIN", HELPDESK), ("LOOPGATE_JOURNAL", journal.as_str())];
    let run = |args: &[&str]| with(&shell, &variables, args);
    let (one, two) = (common::ticket(1041), common::ticket(1042));
    for args in [
        &["run", &one, "--no-save"][..],
        &["run", &one, &two, "--no-save"],
        &["run", "--text", "Hello", "--no-save"],
    ] {
        let ran = run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    }
    assert_eq!(run(&["plan"]).code, 0);
    assert_eq!(run(&["domain", "check"]).code, 0);
    assert!(run(&["doctor"]).out.contains("helpdesk with 6 tools"));
    assert_eq!(run(&["runs"]).out.matches("\thelpdesk\n").count(), 4, "{}", run(&["runs"]).out);
    assert!(fs::metadata(&journal).is_ok());
    // A domain that is named comes first.
    let named = run(&["plan", "examples/nowhere"]);
    assert!(named.code == 1 && named.err.contains("examples/nowhere"), "{}", named.err);
    let config = run(&["config"]);
    assert!(config.out.contains(&format!("journal   {journal}  (LOOPGATE_JOURNAL)")), "{}", config.out);
    assert!(config.out.contains("domain    examples/helpdesk  (LOOPGATE_DOMAIN)"), "{}", config.out);
    assert!(config.out.contains("model     the domain's  (default)"), "{}", config.out);
}

// 45-3
#[test]
fn a_users_file_says_where_it_is_wrong_and_hides_a_password() {
    let shell = Shell::new();
    user_file(
        &shell,
        &format!("model = \"ollama/x\"\njournal = \"postgres://me:canary@h/db\"\ndomain = \"{HELPDESK}\"\n"),
    );
    let all = shell.json(&["config", "--json"]).to_string();
    assert!(all.contains("postgres://h/db") || all.contains("/db"), "{all}");
    assert!(all.contains("ollama/x") && all.contains("config.toml") && !all.contains("canary"), "{all}");
    let plan = shell.run(&["plan"]);
    assert!(
        plan.out.contains("ollama/x: local server: cost 0 (http://127.0.0.1:11434/v1)"),
        "{} {}",
        plan.out,
        plan.err
    );
    user_file(&shell, "modell = \"a/b\"\n");
    for args in [&["config"][..], &["plan"], &["plan", HELPDESK], &["runs"]] {
        let ran = shell.run(args);
        assert_eq!(ran.code, 1, "{args:?}");
        assert!(
            ran.err.contains("config.toml:1:1: unknown key `modell`; did you mean `model`?"),
            "{}",
            ran.err
        );
    }
    user_file(&shell, "");
    for model in ["gpt", "/gpt", "openai/"] {
        let wrong = with(&shell, &[("LOOPGATE_MODEL", model)], &["plan", HELPDESK]);
        assert!(wrong.err.starts_with("loopgate: LOOPGATE_MODEL: expected PROVIDER/NAME"), "{}", wrong.err);
    }
    let unknown = with(&shell, &[("LOOPGATE_MODEL", "olama/x")], &["plan", HELPDESK]);
    assert!(
        unknown.err.contains("LOOPGATE_MODEL: olama/x: unknown provider `olama`; did you mean `ollama`?"),
        "{}",
        unknown.err
    );
}

#[test]
fn a_provider_of_one_domain_stops_no_other_one() {
    let shell = Shell::new();
    user_file(&shell, "model = \"werk/x\"\n");
    let ran = shell.run(&["run", HELPDESK, &common::ticket(1042), "--no-save"]);
    let warning = "examples/helpdesk/loopgate.toml has no provider `werk`; it keeps its own model\n";
    assert_eq!((ran.code, ran.err.matches(warning).count()), (0, 1), "{}", ran.err);
    assert!(ran.err.contains("offline-1"), "{}", ran.err);
    // What was not used is not kept: the run can be begun again.
    user_file(&shell, "");
    assert_eq!(shell.run(&["retry", "last", "--no-save"]).code, 0);
    user_file(&shell, "model = \"werk/x\"\n");
    let own = "version = 1\nname = \"own\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n\
               [models.base]\nprovider = \"offline\"\n\
               [profiles.work.providers.werk]\nlike = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let own = shell.file("own/loopgate.toml", own).with_file_name("").display().to_string();
    let plan = shell.run(&["plan", &own, "--profile", "work"]);
    assert!(plan.out.contains("werk/x") && !plan.err.contains("warning"), "{}{}", plan.out, plan.err);
    assert!(shell.run(&["plan", &own]).err.contains("has no provider `werk`"));
}

#[test]
fn the_model_of_a_users_file_has_its_server_there_and_a_run_keeps_both() {
    let shell = Shell::new();
    user_file(&shell, "model = \"compatible/m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n");
    assert!(shell.run(&["config"]).out.contains("base_url  http://127.0.0.1:9/v1  ("));
    let run = ["run", HELPDESK, &common::ticket(1042), "--no-save"];
    let ran = shell.run(&run);
    assert!(ran.err.contains("http://127.0.0.1:9/v1: connection refused"), "{}", ran.err);
    assert!(shell.run(&["why", "last"]).out.contains("base=http://127.0.0.1:9/v1"));
    let given = shell.run(&[&run[..], &["--base-url", "http://127.0.0.1:8/v1"]].concat());
    assert!(given.err.contains("http://127.0.0.1:8/v1: connection refused"), "{}", given.err);
    let why = shell.run(&["why", "last"]).out;
    assert!(why.contains("base=http://127.0.0.1:8/v1") && !why.contains("127.0.0.1:9"), "{why}");
    // Another model is not at that server.
    let other = with(&shell, &[("LOOPGATE_MODEL", "offline/offline-1")], &run);
    assert_eq!(other.code, 0, "{}", other.err);
    user_file(&shell, "base_url = \"http://127.0.0.1:9/v1\"\n");
    shell.run(&run).fails_with(&["config.toml: `base_url`: it is for `model`; name the model as well"]);
    user_file(&shell, "model = \"compatible/m\"\nbase_url = \"127.0.0.1:9\"\n");
    shell
        .run(&run)
        .fails_with(&["config.toml: `base_url`: the base URL has no scheme; write http://127.0.0.1:9"]);
}

#[test]
fn a_domain_of_a_users_file_that_is_not_there_is_named_with_the_file() {
    let shell = Shell::new();
    user_file(&shell, "domain = \"/nope\"\n");
    for args in [&["plan"][..], &["domain", "check"], &["run", &common::ticket(1042)]] {
        shell.run(args).fails_with(&["config.toml: `domain`: /nope/loopgate.toml: there is no such file"]);
    }
    assert!(!shell.run(&["plan", "/other"]).err.contains("config.toml"));
}

// 45-4
#[test]
fn a_server_that_is_off_ends_a_run_at_once_with_its_url_and_a_fallback_is_still_tried() {
    let shell = Shell::new();
    let off = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{off}/v1");
    let with_credential = format!("http://me:canary@{off}/v1");
    for tier in [&[][..], &["-m", "selector=openai-chat/own", "--base-url"][..]] {
        let start = Instant::now();
        let selector = format!("selector={with_credential}");
        let mut args = vec![
            "run",
            HELPDESK,
            "ITEM",
            "--no-save",
            "-m",
            "openai-chat/own",
            "--base-url",
            &with_credential,
        ];
        let item = common::ticket(1042);
        args[2] = &item;
        args.extend(tier);
        args.extend((!tier.is_empty()).then_some(selector.as_str()));
        let ran = shell.run(&args);
        assert_eq!(ran.code, 6, "{}", ran.err);
        assert!(
            start.elapsed() < Duration::from_secs(2 + 10 * u64::from(cfg!(debug_assertions))),
            "{:?}",
            start.elapsed()
        );
        assert!(
            ran.err.contains(&format!("connection: {url}: connection refused (is it running?).")),
            "{}",
            ran.err
        );
        assert!(!ran.err.contains("overloaded") && !ran.err.contains("canary"), "{}", ran.err);
    }
    let item = common::ticket(1042);
    let fallback = [
        "run",
        HELPDESK,
        &item,
        "--no-save",
        "-m",
        "openai-chat/own",
        "--base-url",
        &url,
        "-m",
        "fallback=offline/x",
    ];
    let ran = shell.run(&fallback);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

// 45-2
#[test]
fn each_mistake_with_a_model_has_a_message_of_its_own_before_anything_is_sent() {
    let shell = Shell::new();
    let item = common::ticket(1042);
    let limited = |args: &[&str]| {
        let ran = shell.run(&[&["run", HELPDESK, &item, "--set", "limits.cost_usd=1"], args].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{}", ran.err);
        ran.err
    };
    for (args, expected) in [
        (
            &["-m", "anthropic/claude-sonet-4-5"][..],
            "--model base=anthropic/claude-sonet-4-5: did you mean `claude-sonnet-4-5`?",
        ),
        (
            &["-m", "openai-chat/own", "--base-url", "localhost:1/v1"],
            "--base-url base: the base URL has no scheme; write http://localhost:1/v1",
        ),
        (
            &["-m", "openai-chat/own", "--base-url", "base=gateway.corp/v1"],
            "write http://gateway.corp/v1 or https://gateway.corp/v1",
        ),
        (
            &["-m", "openai-chat/own", "--base-url", "https://gateway.corp/v1"],
            "--base-url base: what https://gateway.corp/v1 charges for own is not known",
        ),
        (&["-m", "gpt-4o"], "--model gpt-4o: expected PROVIDER/NAME"),
        (&["-m", "cheap=a/b"], "or TIER=PROVIDER/NAME with tier selector, base, escalated or fallback"),
    ] {
        let err = limited(args);
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    let batch = shell.run(&["run", HELPDESK, &item, "--budget-usd", "1", "-m", "anthropic/claude-sonet-4-5"]);
    assert!(
        batch.err.contains("ANTHROPIC_API_KEY") || batch.err.contains("--budget-usd cannot be kept"),
        "{}",
        batch.err
    );
}

// 45-12
#[test]
fn a_command_line_that_cannot_be_meant_says_what_is() {
    let shell = Shell::new();
    let item = common::ticket(1042);
    for (args, expected) in [
        (&["run", &item, HELPDESK][..], "the arguments are swapped"),
        (&["plan", &item, HELPDESK], "the arguments are swapped"),
        (&["run", &item, &item], "not a domain; name a folder that holds a loopgate.toml"),
        (&["run", HELPDESK, &item, "--quiet"], "`run --progress always` shows each step"),
    ] {
        let ran = shell.run(args);
        assert!(ran.code != 0 && ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    let path = shell.state.path().join("item.md");
    fs::write(&path, b"# Title\n\nsome \xff text\n").unwrap();
    let ran = shell.run(&["run", HELPDESK, path.to_str().unwrap()]);
    assert!(ran.err.contains("item.md: not UTF-8 text: see line 3, byte 15 of the file"), "{}", ran.err);
}
