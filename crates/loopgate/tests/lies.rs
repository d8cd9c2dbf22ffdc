//! Runs of the real command that are pointed at a server that lies.

use std::sync::Arc;

use crate::common::{Ran, Shell, ticket};
use loop_mock::{LoopbackServer, Service, offline::Offline};
use loop_testkit::{is_full, lies};
use tokio::runtime::Runtime;

/// What no output may hold.
const KEY: &str = "sk-lies-4f1c2a77e0b94d3c8a55";

/// A server that lies, and the runtime that it runs in.
struct Mock {
    runtime: Runtime,
    server: LoopbackServer,
}

impl Mock {
    fn start(lie: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let lie = lies::find(lie).unwrap();
        let server = {
            let _entered = runtime.enter();
            LoopbackServer::start(Service::of(Arc::new(Offline::new())).lying(lie)).unwrap()
        };
        Self { runtime, server }
    }

    /// Whether it has lied.
    fn end(self) -> bool {
        let lied = self.server.requests().iter().any(|request| request.lied);
        self.runtime.block_on(self.server.shutdown());
        lied
    }
}

/// A run of the help desk over this protocol against a mock that lies so, with a key in the environment.
fn run(shell: &Shell, lie: &str, api: &str, more: &[&str]) -> Ran {
    let mock = Mock::start(lie);
    let url = mock.server.base_url();
    let settings = [
        format!("models.base.provider={api}"),
        "models.base.model=offline-1".to_owned(),
        format!("models.base.base_url={url}"),
        "models.base.api_key_env=LIES_KEY".to_owned(),
        "models.base.price.input_usd_per_million=1".to_owned(),
        "models.base.price.output_usd_per_million=4".to_owned(),
    ];
    let item = ticket(1042);
    let mut args = vec!["run", "examples/helpdesk", &item, "--no-save", "--progress", "always"];
    settings.iter().for_each(|setting| args.extend(["--set", setting.as_str()]));
    args.extend(more);
    let ran: Ran = shell.command(&args).env("LIES_KEY", KEY).output().unwrap().into();
    assert!(mock.end(), "{lie}: it changed no answer");
    ran
}

const APIS: [&str; 4] = ["openai-chat", "openai-responses", "anthropic", "gemini"];

#[test]
fn the_command_ends_each_lie_with_its_own_exit_code_and_shows_no_key_and_no_escape() {
    // Over one protocol each, another for each; `LOOPGATE_TESTS=full` takes all.
    for (n, (lie, code, says)) in [
        ("html-page", 6, "stopped: model_failure (failed)"),
        ("refusal", 4, "stopped: refused (refused)"),
        ("hands-over-forever", 5, "stopped: needs_human (needs_human)"),
        ("never-sure", 3, "stopped: no_new_actions (partial)"),
        ("cut-once", 0, "stopped: confident (answered)"),
        ("echoes-the-key", 6, "stopped: model_failure (failed). The model could not be used: auth"),
        ("error-with-escapes", 6, "stopped: model_failure (failed)"),
        ("model-with-escapes", 0, "stopped: confident (answered)"),
        ("terminal-escapes", 0, "stopped: confident (answered)"),
    ]
    .into_iter()
    .enumerate()
    {
        for (_, api) in APIS.into_iter().enumerate().filter(|(at, _)| is_full() || *at == n % 4) {
            let shell = Shell::new();
            let ran = run(&shell, lie, api, &[]);
            let place = format!("{lie} over {api}: {}\n{}", ran.out, ran.err);
            assert_eq!(ran.code, code, "{place}");
            assert!(ran.err.contains(says), "{place}");
            let shown = shell.run(&["show", "last"]);
            let listed = shell.run(&["show", "last", "--json"]);
            for text in [&ran.out, &ran.err, &shown.out, &shown.err, &listed.out] {
                assert!(!text.contains(KEY), "{place}");
                assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{place}");
            }
        }
    }
}

#[test]
fn behaviours_are_listed_without_a_domain_and_a_wrong_name_is_refused() {
    let shell = Shell::new();
    let ran = shell.run(&["mock", "--behaviours"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let names: Vec<&str> = ran.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"html-page") && names.contains(&"huge-usage"), "{}", ran.out);
    assert!(
        ran.out.lines().all(|line| line.split_once("  ").is_some_and(|(_, about)| !about.trim().is_empty()))
    );
    let ran = shell.run(&["mock", "examples/helpdesk", "--behaviour", "honest"]);
    assert!(ran.code == 2 && ran.err.contains("--behaviours"), "{}", ran.err);
    // Without a domain there is nothing to serve.
    assert_eq!(shell.run(&["mock"]).code, 2);
}

/// Issue 19: a model that lies about values is stopped from ending `confident` in every kind.
#[test]
fn a_model_that_lies_about_values_does_not_end_confident_where_they_are_demanded() {
    let demand = ["--set", "gate.grounding=demand"];
    for lie in [
        "lies",
        "lies-digit",
        "lies-unit",
        "lies-record",
        "lies-date",
        "lies-sum",
        "lies-name",
        "lies-absence",
        "lies-rounded",
        "lies-currency",
        "lies-item",
    ] {
        let shell = Shell::new();
        let ran = run(&shell, lie, "openai-chat", &demand);
        let place = format!("{lie}: {}\n{}", ran.out, ran.err);
        assert_eq!(ran.code, 3, "{place}");
        assert!(ran.err.contains("stopped: evidence_missing (partial)"), "{place}");
        assert!(
            ["evidence for the contradicted \"", "what the evidence says, not \"", "the right citation, ["]
                .iter()
                .any(|it| ran.err.contains(it)),
            "{place}"
        );
    }
    // The same documents end the run where values are only reported: nothing else stops them.
    let shell = Shell::new();
    let ran = run(&shell, "lies", "openai-chat", &[]);
    assert!(ran.code == 0 && ran.err.contains("stopped: confident"), "{}", ran.err);
}
