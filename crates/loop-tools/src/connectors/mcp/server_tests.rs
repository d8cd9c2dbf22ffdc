//! What a server can do to the one who starts it, and what is left of it afterwards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Registry, ToolContext, ToolDeclaration};
use loop_core::types::{Effect, Observation, Scope, Status};
use serde_json::json;

use super::*;
use crate::connectors::mcp::{McpProgram, McpResourceTool, McpTool, McpToolSpec};

/// A server that behaves in some way, and the notes that it keeps.
struct Probe {
    _folder: tempfile::TempDir,
    notes: PathBuf,
    settings: McpSettings,
}

impl Probe {
    fn new(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (program, notes) = (folder.path().join("probe"), folder.path().join("notes"));
        // Written before it is run: a program that is still open for writing cannot be.
        fs::write(&program, include_str!("server.sh")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = McpProgram::new(program.to_str().unwrap(), folder.path());
        settings.args = vec![mode.to_owned(), notes.to_str().unwrap().to_owned()];
        let settings = McpSettings::new("probe", McpTransport::Program(settings));
        Self { _folder: folder, notes, settings }
    }

    fn program(&mut self) -> &mut McpProgram {
        match &mut self.settings.transport {
            McpTransport::Program(program) => program,
            McpTransport::Http(_) => unreachable!("it is a program"),
        }
    }

    fn server(&self) -> McpClient {
        McpClient::new(self.settings.clone()).unwrap()
    }

    fn notes(&self) -> String {
        fs::read_to_string(&self.notes).unwrap_or_default()
    }

    fn count(&self, note: &str) -> usize {
        self.notes().lines().filter(|line| *line == note).count()
    }

    /// Waits until the server has written a note.
    async fn noted(&self, note: &str) {
        let is_noted = || self.notes().lines().any(|line| line.starts_with(note));
        assert!(soon(is_noted).await, "{note} is not among the notes: {}", self.notes());
    }
}

/// Whether something becomes true within half a minute.
async fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..6_000 {
        if is_so() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// The tools of a server as it lists them now, with this effect.
async fn registry(server: &McpClient, effect: Effect) -> Registry {
    let manifest = server.manifest(&Credentials::none()).await.unwrap();
    let mut builder = Registry::builder();
    for tool in manifest.tools {
        let declaration = ToolDeclaration::new(format!("probe_{}", tool.name)).effect(effect);
        builder = builder.tool(McpTool::new(declaration, server, tool).unwrap());
    }
    builder.build().unwrap()
}

async fn call(registry: &Registry, tool: &str, text: &str) -> Observation {
    call_with(registry, tool, &json!({ "text": text })).await
}

async fn call_with(registry: &Registry, tool: &str, arguments: &Value) -> Observation {
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    registry.dispatch(tool, arguments, context, &Credentials::none(), 20_000, 4_000).await
}

fn is_alive(process: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_call_goes_through_a_server_by_name_and_arguments() {
    // S1-27, S1-31
    let probe = Probe::new("plain");
    let server = probe.server();
    let manifest = server.manifest(&Credentials::none()).await.unwrap();
    assert_eq!((&*manifest.server, manifest.tools.len(), manifest.resources.len()), ("probe", 2, 1));
    let registry = registry(&server, Effect::Read).await;
    let seen = call(&registry, "probe_echo", "hello").await;
    assert_eq!((seen.status, &*seen.markdown), (Status::Ok, "hello"));
    let uris = ["note:a".to_owned()];
    let reader = McpResourceTool::new(ToolDeclaration::read("probe_read_resource", "Reads"), &server, &uris);
    let resources = Registry::builder().tool(reader).build().unwrap();
    let read = async |uri: &str| call_with(&resources, "probe_read_resource", &json!({ "uri": uri })).await;
    assert_eq!(&*read("note:a").await.markdown, "what a says");
    let seen = read("note:b").await;
    assert_eq!(seen.status, Status::InvalidInput, "only what the operator wrote down is read");
    assert_eq!(probe.count("start"), 1, "one connection serves all");
}

#[tokio::test]
async fn a_list_comes_in_pages_and_has_an_end() {
    let manifest = Probe::new("pages").server().manifest(&Credentials::none()).await.unwrap();
    let names: Vec<&str> = manifest.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["a", "twice", "z"], "in an order of its own, and each name once");
    assert_eq!(manifest.tools[1].description, "one");
    assert_eq!(manifest.left_out, ["the tool `twice`: the server lists it more than once; the first holds"]);
    let bare = Probe::new("bare-list").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!(bare.tools.len(), 1, "a list that is not in an object");
    // R09: a cursor that leads back.
    for mode in ["endless", "blank"] {
        let endless = Probe::new(mode).server().manifest(&Credentials::none()).await.unwrap();
        assert_eq!(endless.tools.len(), 1, "{mode}");
        assert_eq!(endless.left_out, ["the list of tools repeats itself: it is read up to there"], "{mode}");
    }
    let blank = Probe::new("unknown-blank").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!((blank.tools.len(), blank.left_out.len()), (1, 0), "an empty cursor that the server refuses");
    let cut = Probe::new("unknown-page").server().manifest(&Credentials::none()).await.unwrap();
    let says = "the list of tools ends with an error (no such cursor): it is read up to there";
    assert_eq!((cut.tools.len(), &*cut.left_out), (1, &[says.into()][..]));
    let many = Probe::new("many").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!(many.tools.len(), 100);
    assert_eq!(many.left_out, ["the list of tools has more than 100 pages: what comes later is not read"]);
    // R03: the others of a list with one that is none.
    let odd = Probe::new("odd").server().manifest(&Credentials::none()).await.unwrap();
    let names: Vec<&str> = odd.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["claims", "echo", "plain"]);
    assert_eq!(odd.tools[0].annotations, Some(json!({ "title": "Claims", "idempotentHint": true })));
    assert_eq!(odd.tools[2].description, "");
    let lines = [
        "the tool `bare`: it has no input schema, and cannot be called; its server has to give it one, for example \
         {\"type\": \"object\"}",
        "an entry of the list of tools is not an object: \"a text\"",
        "a tool has no name: {\"description\":\"nameless\"}",
        "the tool `claims`: its annotation `readOnlyHint` has another type, and is not read",
        "the tool `plain`: its description is not a text, which is not read",
        "the tool `plain`: the schema of its results is not an object, which is not read",
        "the tool `plain`: its annotations are not an object, which is not read",
        "the tool `listed`: its input schema is not an object, which is not read",
    ];
    assert_eq!(&odd.left_out[..8], lines);
    // A server that speaks its own form of the protocol.
    let loose = Probe::new("loose").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!((&*loose.server, loose.tools.len()), ("loose", 1));
    let bare = Probe::new("loose-bare").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!(bare.tools.len(), 1, "a server need not declare what it has");
    let bare = Probe::new("bare").server().manifest(&Credentials::none()).await.unwrap();
    assert!(bare.tools.is_empty(), "a server need not have tools");
}

#[tokio::test]
async fn a_tool_that_changes_after_it_was_trusted_is_off() {
    // K9, T12
    let probe = Probe::new("plain");
    let server = probe.server();
    let registry = registry(&server, Effect::Read).await;
    assert_eq!(&*call(&registry, "probe_work", "change").await.markdown, "changed");
    let lists = probe.count("list");
    let seen = call(&registry, "probe_echo", "hello").await;
    assert_eq!(seen.status, Status::PermanentError);
    assert!(
        seen.summary.contains("manifest_changed") && seen.summary.contains("`echo`"),
        "{}",
        seen.markdown
    );
    assert!(!seen.summary.contains("Ignore all"), "no word of the new text reaches a prompt");
    assert_eq!(&*call(&registry, "probe_work", "still").await.markdown, "still", "the other is as it was");
    assert_eq!(probe.count("list"), lists + 1, "the list is read once after a notice");
    // What is trusted anew is on again.
    let again = self::registry(&server, Effect::Read).await;
    assert_eq!(&*call(&again, "probe_echo", "hello").await.markdown, "hello");
    // The same text from another server is another tool.
    let spec = McpToolSpec {
        name: "echo".to_owned(),
        title: None,
        description: "Says it again".to_owned(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
    };
    let (one, other) = (json!({ "name": "a" }), json!({ "name": "b" }));
    assert_ne!(spec.digest(&one), spec.digest(&other));
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_and_a_write_is_in_doubt() {
    // T12
    let probe = Probe::new("plain");
    let server = probe.server();
    let (reads, writes) =
        (registry(&server, Effect::Read).await, registry(&server, Effect::WriteIrreversible).await);
    let seen = call(&reads, "probe_work", "die").await;
    assert_eq!(seen.status, Status::RetryableError, "{}", seen.summary);
    assert!(seen.summary.contains("the program ended (exit status: 4)"), "{}", seen.summary);
    assert_eq!(&*call(&reads, "probe_work", "back").await.markdown, "back");
    assert_eq!(call(&writes, "probe_work", "die").await.status, Status::InDoubt);
    // A server that ends again and again is left alone for a while, and no call is sent.
    let calls = probe.count("call");
    let mut last = call(&reads, "probe_work", "die").await;
    for _ in 0..4 {
        last = call(&reads, "probe_work", "die").await;
    }
    assert!(last.summary.contains("it ended again and again"), "{}", last.summary);
    assert!(probe.count("call") <= calls + 2, "{}", probe.notes());
}

#[tokio::test]
async fn failures_of_both_kinds_are_said_alike() {
    // S1-27
    let probe = Probe::new("plain");
    let server = probe.server();
    let (reads, writes) =
        (registry(&server, Effect::Read).await, registry(&server, Effect::WriteIrreversible).await);
    for (text, of_read, of_write, says) in [
        ("failed", Status::PermanentError, Status::PermanentError, "it failed"),
        ("wrong", Status::InvalidInput, Status::InvalidInput, "the server reports an error: no such text"),
        ("broken", Status::RetryableError, Status::InDoubt, "the server reports an error: it broke"),
        ("ask", Status::PermanentError, Status::PermanentError, "wants a person's answer"),
        // Issue 43, K3: it is not waited for what was sent and cannot be read.
        ("latin", Status::RetryableError, Status::InDoubt, "it sent a message that is not UTF-8"),
    ] {
        let (read, write) = (call(&reads, "probe_work", text).await, call(&writes, "probe_work", text).await);
        assert_eq!(
            (read.status, write.status),
            (of_read, of_write),
            "{text}: {} {}",
            read.markdown,
            write.markdown
        );
        assert!(read.summary.contains(says), "{text}: {}", read.summary);
    }
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_silence_ends_it() {
    let mut probe = Probe::new("plain");
    // Longer than each step of the slow work, and shorter than all of them.
    probe.settings.idle_timeout = Duration::from_millis(700);
    let server = probe.server();
    let registry = registry(&server, Effect::Read).await;
    assert_eq!(&*call(&registry, "probe_work", "slow").await.markdown, "done at last");
    let seen = call(&registry, "probe_work", "hang").await;
    assert!(
        seen.summary.contains("no sign of life for 0.7 s, which is the limit `idle_ms`"),
        "{}",
        seen.summary
    );
    probe.noted("cancelled").await;
    assert_eq!(&*call(&registry, "probe_work", "next").await.markdown, "next", "the connection goes on");
}

#[tokio::test]
async fn a_tool_that_goes_on_in_the_background_is_waited_for() {
    for mode in ["tasks", "modern-tasks"] {
        let mut probe = Probe::new(mode);
        probe.settings.idle_timeout = Duration::from_millis(900);
        let server = probe.server();
        let (reads, writes) =
            (registry(&server, Effect::Read).await, registry(&server, Effect::WriteIrreversible).await);
        let seen = call(&reads, "probe_echo", "hello").await;
        assert_eq!((seen.status, &*seen.markdown), (Status::Ok, "the task is done"), "{mode}");
        for (text, of_read, of_write, says) in [
            ("failed", Status::PermanentError, Status::PermanentError, "it failed"),
            ("broken", Status::RetryableError, Status::InDoubt, "it broke"),
            ("ask", Status::PermanentError, Status::PermanentError, "wants a person's answer"),
            ("cancelled", Status::RetryableError, Status::InDoubt, "the server cancelled the task"),
        ] {
            let (read, write) =
                (call(&reads, "probe_echo", text).await, call(&writes, "probe_echo", text).await);
            assert_eq!((read.status, write.status), (of_read, of_write), "{mode} {text}: {}", write.markdown);
            assert!(read.summary.contains(says), "{mode} {text}: {}", read.summary);
        }
        assert!(soon(|| probe.count("task cancelled") == 2).await, "{mode}: {}", probe.notes());
        // The limit of the tool ends the task as well.
        let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
        let endless = json!({ "text": "endless" });
        let seen = reads.dispatch("probe_echo", &endless, context, &Credentials::none(), 1_500, 4_000).await;
        assert_eq!(
            seen.status,
            Status::Timeout,
            "{mode}: a task that is looked at is alive: {}",
            seen.summary
        );
        assert!(soon(|| probe.count("task cancelled") == 3).await, "{mode}: {}", probe.notes());
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let probe = Probe::new("plain");
    let server = probe.server();
    let registry = registry(&server, Effect::WriteIrreversible).await;
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    let arguments = json!({ "text": "hang" });
    let seen = registry.dispatch("probe_work", &arguments, context, &Credentials::none(), 300, 4_000).await;
    assert_eq!(seen.status, Status::Timeout, "{}", seen.summary);
    probe.noted("cancelled").await;
    assert_eq!(probe.count("start"), 1);
}

#[tokio::test]
async fn a_call_names_its_span() {
    // S4-12
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let probe = Probe::new("plain");
    let server = probe.server();
    let registry = registry(&server, Effect::Read).await;
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    let context = context.with_traceparent(Some(text.parse().unwrap()));
    let arguments = json!({ "text": "next" });
    registry.dispatch("probe_work", &arguments, context, &Credentials::none(), 20_000, 4_000).await;
    call(&registry, "probe_work", "next").await;
    assert_eq!((probe.count("call"), probe.count(&format!("in {text}"))), (2, 1), "{}", probe.notes());
    assert_eq!(probe.notes().matches("in 00-").count(), 1);
}

#[tokio::test]
async fn what_a_server_does_instead_of_starting_is_one_line() {
    // T12, K13
    let mut probe = Probe::new("die");
    probe.program().secret_env = vec!["TOKEN".to_owned()];
    let credentials: Credentials = [("TOKEN", "t0ken-77")].into_iter().collect();
    let error = probe.server().manifest(&credentials).await.unwrap_err().to_string();
    assert_eq!(error, "the program ended (exit status: 3): cannot find $CONFIG, token [masked]");
    let missing = probe.server().manifest(&Credentials::none()).await.unwrap_err().to_string();
    assert_eq!(missing, "the secret `TOKEN` is not there; set the environment variable `TOKEN`");
    for (mode, says) in [
        ("silent", "the server did not start within 0.5 s"),
        ("flood", "it asked more and more and took no reply"),
    ] {
        let mut probe = Probe::new(mode);
        probe.settings.start_timeout = Duration::from_millis(500);
        let error = probe.server().manifest(&Credentials::none()).await.unwrap_err().to_string();
        // A flood that is read faster than it comes is only never over.
        let is_late = error.contains("did not start within");
        assert!(error.contains(says) || is_late, "{mode}: {error}");
    }
    let noisy = Probe::new("noise").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!(noisy.tools.len(), 2, "lines that are not of the protocol are passed over");
    let late = Probe::new("late").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!(late.server, "late");
    let modern = Probe::new("modern").server().manifest(&Credentials::none()).await.unwrap();
    assert_eq!((&*modern.server, modern.tools.len()), ("modern", 2), "without a handshake");
    // The newest revision is spoken first, and costs an older server nothing that it has.
    for (mode, starts) in [("plain", 1), ("mute", 1), ("shy", 1), ("modern-too", 0)] {
        let mut probe = Probe::new(mode);
        probe.settings.start_timeout = Duration::from_secs(3);
        let manifest = probe.server().manifest(&Credentials::none()).await.unwrap();
        assert_eq!(manifest.tools.len(), 2, "{mode}");
        assert_eq!((probe.count("discover"), probe.count("start")), (1, starts), "{mode}");
    }
}

#[tokio::test]
async fn a_server_that_sends_too_much_is_cut_off() {
    // T12
    let probe = Probe::new("plain");
    let server = probe.server();
    let registry = registry(&server, Effect::Read).await;
    let seen = call(&registry, "probe_work", "long").await;
    assert!(seen.summary.contains("a message of more than 8 MiB"), "{}", seen.summary);
    let seen = call(&registry, "probe_work", "nags").await;
    // It reads no reply, but the pipe holds those of a while.
    let is_cut = seen.summary.contains("took no reply") || seen.summary.contains("no sign of life");
    assert!(is_cut, "{}", seen.summary);
}

#[tokio::test]
async fn a_server_gets_no_more_of_the_environment_than_is_named() {
    // K12
    let mut probe = Probe::new("plain");
    probe.program().set = vec![("COLOUR".to_owned(), "red".to_owned())];
    probe.program().secret_env = vec!["TOKEN".to_owned()];
    let credentials: Credentials = [("TOKEN", "t0ken-77"), ("OTHER", "0ther-77")].into_iter().collect();
    let server = probe.server();
    let manifest = server.manifest(&credentials).await.unwrap();
    let work = manifest.tools.into_iter().find(|tool| tool.name == "work").unwrap();
    let tool = McpTool::new(ToolDeclaration::read("probe_work", "Works"), &server, work).unwrap();
    let registry = Registry::builder().tool(tool).build().unwrap();
    let context = ToolContext::new(Scope::default(), "item", "r/1/action-0");
    let arguments = json!({ "text": "env" });
    let seen = registry.dispatch("probe_work", &arguments, context, &credentials, 9_000, 4_000).await;
    let names: Vec<&str> =
        seen.markdown.split(' ').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
    // What a shell adds by itself.
    let allowed = [
        "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "COLOUR", "TOKEN", "PWD",
        "OLDPWD", "SHLVL", "_",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    assert!(
        seen.markdown.contains("COLOUR=red") && seen.markdown.contains("TOKEN=[masked]"),
        "{}",
        seen.markdown
    );
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_is_not_used_any_more() {
    let probe = Probe::new("family");
    let server = probe.server();
    server.start(&Credentials::none());
    probe.noted("start").await;
    let notes = probe.notes();
    let child = notes.lines().find_map(|line| line.strip_prefix("child ")).unwrap();
    assert!(is_alive(child));
    drop(server);
    assert!(soon(|| !is_alive(child)).await, "{child} is still there");
}

#[test]
fn what_cannot_be_a_server_is_refused_before_it_is_started() {
    // K12
    let refused = |change: fn(&mut McpProgram)| {
        let mut probe = Probe::new("plain");
        change(probe.program());
        McpClient::new(probe.settings.clone()).unwrap_err().to_string()
    };
    assert!(refused(|it| it.program = "no-such-program-7".to_owned()).contains("there is no program"));
    assert!(refused(|it| it.program = "bash".to_owned()).contains("runs what it is given"));
    assert!(refused(|it| it.folder = "/no/such/folder".into()).contains("there is no such folder"));
    assert!(refused(|it| it.args = vec!["a\0b".to_owned()]).contains("NUL"));
    assert!(
        refused(|it| it.env = vec!["A=B".to_owned()]).contains("is not the name of an environment variable")
    );
    assert!(refused(|it| it.secret_env = vec!["A".to_owned(), "A".to_owned()]).contains("named twice"));
    let spec = McpToolSpec {
        name: "pay".to_owned(),
        title: None,
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
    };
    let keyed = ToolDeclaration::new("pay").effect(Effect::WriteKeyed);
    let error = McpTool::new(keyed, &Probe::new("plain").server(), spec).unwrap_err().to_string();
    assert!(error.contains("is not given the key of a call"), "{error}");
}
