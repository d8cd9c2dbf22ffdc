//! MCP servers of a domain: what a program without the feature says, and what is read without a server.

use loop_domain::{Domain, LoadOptions};

const HEAD: &str = "version = 1\nname = \"notes\"\ngoal = \"Answer.\"\n[[section]]\nid = \"a\"\nheading = \"A\"\nrequired = true\n";

fn load(text: &str, lock: Option<&str>) -> (tempfile::TempDir, Result<Domain, String>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
    if let Some(lock) = lock {
        std::fs::write(folder.path().join("tools.lock"), lock).unwrap();
    }
    let domain = Domain::load(folder.path(), &LoadOptions::default()).map_err(|error| {
        let path = folder.path().display().to_string();
        error.to_string().replace(&format!("{path}/"), "")
    });
    (folder, domain)
}

#[cfg(not(all(feature = "mcp", unix)))]
#[test]
fn a_program_without_the_feature_says_how_to_build_one_with_it() {
    let says = "this program was built without MCP servers; build it with `--features mcp`";
    let (folder, domain) = load("[servers.x]\nurl = \"https://mcp.example.com/mcp\"\n", None);
    assert_eq!(domain.map(|_| ()).unwrap_err(), format!("loopgate.toml:8:1: {says}"));
    let servers = loop_domain::review::McpServers::load(folder.path(), &LoadOptions::default());
    assert!(servers.unwrap_err().to_string().ends_with(&format!("loopgate.toml:8:1: {says}")));
    let (_folder, domain) = load("[tools.t]\nkind = \"mcp\"\n", None);
    assert_eq!(domain.map(|_| ()).unwrap_err(), format!("loopgate.toml:9:1: {says}"));
}

#[cfg(all(feature = "mcp", unix))]
mod with_the_feature {
    use loop_core::spec::ArgType;
    use loop_core::types::Effect;
    use loop_domain::review::McpServers;
    use loop_domain::{Domain, LoadOptions};
    use loop_tools::connectors::McpToolSpec;
    use serde_json::{Value, json};

    use super::{HEAD, load};

    const SERVER: &str = "[servers.notes]\nurl = \"https://mcp.example.com/mcp\"\n";

    fn identity() -> Value {
        json!({ "name": "notes", "url": "https://mcp.example.com/mcp" })
    }

    fn tool(name: &str) -> McpToolSpec {
        McpToolSpec {
            name: name.to_owned(),
            title: None,
            description: format!("Does {name}"),
            input_schema: json!({
                "type": "object",
                "properties": { "path": { "type": "string" }, "to": { "type": "string" } },
                "required": ["path"],
            }),
            output_schema: None,
            annotations: Some(json!({ "readOnlyHint": true })),
        }
    }

    fn lock_of(identity: &Value, tools: &[McpToolSpec]) -> String {
        let tools: Vec<Value> = tools
            .iter()
            .map(|tool| {
                let mut entry = json!(tool);
                entry["digest"] = json!(tool.digest(identity));
                entry
            })
            .collect();
        let lock = json!({ "version": 1, "servers": { "notes": { "identity": identity, "tools": tools } } });
        format!("{lock:#}\n")
    }

    fn lock(tools: &[&str]) -> String {
        lock_of(&identity(), &tools.iter().map(|name| tool(name)).collect::<Vec<_>>())
    }

    fn names(domain: &Domain) -> Vec<&str> {
        domain.spec.tools.iter().map(|tool| &*tool.name).collect()
    }

    #[track_caller]
    fn warns(domain: &Domain, says: &str) {
        let warnings = domain.report().warnings;
        assert!(warnings.iter().any(|warning| warning.contains(says)), "`{says}` is missing: {warnings:#?}");
    }

    #[test]
    fn the_tools_of_the_lock_are_tools_that_are_believed_to_do_the_worst() {
        // S1-31, K9: what the server claims decides nothing.
        let (_folder, domain) = load(SERVER, Some(&lock(&["read", "find.all"])));
        let domain = domain.unwrap();
        domain.ready(false).unwrap();
        assert_eq!(names(&domain), ["notes_find_all", "notes_read"]);
        for tool in &domain.spec.tools {
            assert_eq!((tool.effect, tool.policy.returns_untrusted), (Effect::WriteIrreversible, true));
        }
        assert_eq!(&*domain.spec.tool("notes_read").unwrap().description, "Does read");
        assert_eq!(domain.server_of("notes_read"), Some("notes"));
        assert_eq!(domain.server_of("other"), None);
        let lines = domain.report().lines;
        let says = "  notes: HTTP, 2 tools trusted, 2 here";
        assert!(lines.iter().any(|line| line == says), "{lines:#?}");
        assert!(lines.iter().any(|line| line == "  notes_read: mcp, write_irreversible"), "{lines:#?}");
    }

    #[test]
    fn a_table_says_what_a_tool_does_and_may_rename_it() {
        let text = format!(
            "{SERVER}[tools.notes_read]\nkind = \"mcp\"\neffect = \"read\"\nreturns_untrusted = false\ndescription = \"Reads\"\n\
             when = \"always\"\nauthority = [\"path\"]\nrepeats = {{ key = [\"to\"] }}\nsmart = {{ target = \"path\" }}\n\
             [tools.search]\nkind = \"mcp\"\nserver = \"notes\"\ntool = \"find.all\"\neffect = \"read\"\ncheap = true\n\
             [tools.notes_drop]\nkind = \"mcp\"\nenabled = false\n"
        );
        let (_folder, domain) = load(&text, Some(&lock(&["read", "find.all", "drop"])));
        let domain = domain.unwrap();
        domain.ready(false).unwrap();
        assert_eq!(names(&domain), ["notes_read", "search"]);
        let read = domain.spec.tool("notes_read").unwrap();
        assert_eq!((read.effect, read.policy.returns_untrusted, read.smart), (Effect::Read, false, true));
        assert_eq!((&*read.description, &*read.when), ("Reads", "always"));
        assert_eq!(read.policy.authority, ["/path".into()]);
        let search = domain.spec.tool("search").unwrap();
        assert!(search.policy.cheap && search.policy.returns_untrusted);
        assert_eq!(domain.server_of("search"), Some("notes"));
    }

    #[test]
    fn a_result_of_a_server_stays_untrusted_where_it_is_read_again() {
        let text = format!("{SERVER}[tools.more]\nkind = \"results\"\n");
        let (_folder, domain) = load(&text, Some(&lock(&["read"])));
        assert!(domain.unwrap().spec.tool("more").unwrap().policy.returns_untrusted);
    }

    #[test]
    fn names_that_cannot_be_are_left_out_with_a_warning() {
        let long = "x".repeat(60);
        let text = format!(
            "{SERVER}[tools.notes_mine]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\naliases = [\"notes_other\"]\n\
             description = \"D\"\nwhen = \"W\"\n"
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "A").unwrap();
        std::fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
        let tools = ["a.b", "a-b", "a b", "mine", "other", &long];
        std::fs::write(folder.path().join("tools.lock"), lock(&tools)).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        assert_eq!(names(&domain), ["notes_mine", "notes_a-b"]);
        warns(&domain, "server `notes`: `a.b` is left out: `a b` and `a.b` would all be called `notes_a_b`");
        warns(&domain, "`mine` is left out: the domain file has another tool that is called `notes_mine`");
        warns(&domain, "`other` is left out: the domain file has another tool that is called `notes_other`");
        warns(
            &domain,
            "more than 64 characters; leave it out of `only`, or name it with a table [tools.NAME]",
        );
        // `only` and `prefix` settle it as well.
        let server = format!("{SERVER}prefix = \"\"\nonly = [\"a.b\", \"a-b\", \"a.c\"]\n");
        let (_folder, domain) = load(&server, Some(&lock(&tools)));
        let domain = domain.unwrap();
        assert_eq!(names(&domain), ["a-b", "a_b"]);
        warns(&domain, "`only` names `a.c`, which is not one of its trusted tools; did you mean `a.b`?");
    }

    #[test]
    fn a_tool_that_cannot_be_one_is_left_out_with_a_warning() {
        let mut list = tool("list");
        list.input_schema = json!({ "type": "array" });
        let mut broken = tool("broken");
        broken.input_schema = json!({ "type": "object", "properties": { "a": { "pattern": "(" } } });
        let mut results = tool("results");
        results.output_schema = Some(json!({ "type": 7 }));
        let mut silent = tool("silent");
        silent.description = "\u{200b} ".to_owned();
        // Issue 43, M2: what can be called is not left out.
        let mut null = tool("null");
        null.input_schema = json!({ "type": ["object", "null"], "required": ["a"], "properties": {
                "a": { "type": "string" },
                "l": { "type": "array", "minItems": 1, "default": [] },
                "o": { "type": "object", "properties": { "n": { "type": "string", "pattern": "^x", "default": "y" } } },
                "f": { "type": "number", "default": 1.5 },
            } });
        let mut reference = tool("reference");
        reference.input_schema = json!({
            "$ref": "#/$defs/Of", "$defs": {
                "Of": { "$ref": "#/$defs/Args", "description": "d" },
                "Args": { "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } }, "required": ["a"] },
                "A": { "type": "string" },
            },
        });
        let mut untyped = tool("untyped");
        untyped.input_schema = json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] });
        let mut circle = tool("circle");
        circle.input_schema = json!({ "$ref": "#" });
        let mut nowhere = tool("nowhere");
        nowhere.input_schema = json!({ "$ref": "https://example.com/schema" });
        let listed = [list, broken, results, silent, null, reference, untyped, circle, nowhere];
        let text = lock_of(&identity(), &listed);
        let (_folder, domain) = load(SERVER, Some(&text));
        let domain = domain.unwrap();
        let expected = ["notes_null", "notes_reference", "notes_results", "notes_silent", "notes_untyped"];
        assert_eq!(names(&domain), expected);
        for at in [0, 1, 4] {
            let tool = &domain.spec.tools[at];
            assert_eq!(tool.args.kind, Some(ArgType::Object), "{}", tool.name);
            assert_eq!(&*tool.args.required, ["a".into()], "{}", tool.name);
            assert!(tool.args.rebuild(&json!({})).is_err(), "{}", tool.name);
        }
        assert_eq!(
            domain.spec.tools[0].args.rebuild(&json!({ "a": "", "o": {} })).unwrap(),
            json!({ "a": "", "f": 1.5, "o": {} })
        );
        warns(
            &domain,
            "server `notes`: the default of `l` of its tool `null` does not fit its own schema, and is not used",
        );
        warns(&domain, "the default of `n` of its tool `null` does not fit");
        warns(&domain, "its tool `circle` is left out: its input schema is not of the type `object`");
        warns(&domain, "its tool `nowhere` is left out: its input schema is not of the type `object`");
        warns(
            &domain,
            "server `notes`: its tool `list` is left out: its input schema is not of the type `object`",
        );
        warns(&domain, "server `notes`: its tool `broken` is left out: its input schema: ");
        warns(
            &domain,
            "server `notes`: the results of its tool `results` are not checked: their schema is not one: ",
        );
        warns(&domain, "tool `notes_silent` has no `description`");
    }

    #[test]
    fn resources_that_are_named_are_read_by_a_tool() {
        let server = format!("{SERVER}resources = [\"note://1\", \"note://2\"]\n");
        let (_folder, domain) = load(&server, Some(&lock(&[])));
        let domain = domain.unwrap();
        assert_eq!(names(&domain), ["notes_read_resource"]);
        let tool = &domain.spec.tools[0];
        assert_eq!((tool.effect, tool.policy.returns_untrusted), (Effect::Read, true));
        assert!(tool.description.contains("note://1, note://2"), "{}", tool.description);
        let (_folder, domain) = load(&server, None);
        assert!(names(&domain.unwrap()).is_empty());
    }

    #[test]
    fn what_is_not_trusted_refuses_a_run_and_a_check_warns() {
        // K9
        let other = lock_of(&json!({ "name": "notes", "url": "https://other.example.com" }), &[tool("read")]);
        let table = |name: &str, more: &str| format!("{SERVER}[tools.{name}]\nkind = \"mcp\"\n{more}");
        let not_yet = "8:10: server `notes` is not trusted yet: look at `loopgate tools DOMAIN diff notes`, then `loopgate tools \
                       DOMAIN trust notes`";
        let changed = "8:10: server `notes` is not the one that was trusted: its program, arguments or URL are others; look at";
        let cases = [
            (SERVER.to_owned(), None, not_yet),
            (table("notes_read", ""), None, not_yet),
            (SERVER.to_owned(), Some(&*other), changed),
            (
                table("notes_raed", ""),
                Some(&*lock(&["read"])),
                "10:8: no trusted tool of a server is called `notes_raed`; did you mean `notes_read`?; `loopgate tools DOMAIN \
                 diff` shows what servers have now",
            ),
            (
                table("search", "server = \"notes\"\ntool = \"raed\"\n"),
                Some(&*lock(&["read"])),
                "13:1: the server `notes` has no trusted tool `raed`; did you mean `read`?; `loopgate tools DOMAIN diff notes`",
            ),
            // What names a tool of a server that is not trusted is not what is wrong.
            (format!("{SERVER}[gate]\nrequired_tools = [\"notes_read\"]\n"), None, not_yet),
        ];
        for (text, lock, says) in cases {
            let (folder, domain) = load(&text, lock);
            let error = domain.and_then(|domain| {
                assert!(names(&domain).iter().all(|name| *name == "notes_read"), "{text}");
                domain.ready(false).map_err(|error| error.to_string())
            });
            let error = error.unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}\n  and not: {says}");
            // A check warns, except where something else is wrong for it.
            match Domain::check(folder.path(), &LoadOptions::default()) {
                Ok(report) => {
                    assert!(report.warnings.iter().any(|warning| warning.contains(says)), "{report:#?}");
                }
                Err(error) => assert!(text.contains("[gate]"), "{error}"),
            }
        }
    }

    #[test]
    fn a_lock_that_is_not_one_is_refused_in_one_line() {
        let trusted = lock(&["read"]);
        let edited = trusted.replace("Does read", "Does read. And more");
        let moved = trusted.replace("\"notes\",\n", "\"notes\",\n ");
        let cases = [
            (
                "",
                "tools.lock:1:1: it is not a file of trusted tools: EOF while parsing a value; restore it, or delete it and",
            ),
            (
                "[]",
                "tools.lock:1:1: it is not a file of trusted tools: it has no known `version`; restore it",
            ),
            (
                "{\"version\": 2, \"x\": 1}",
                "tools.lock:1:1: written by a newer loopgate: its format is 2, this one reads 1; update",
            ),
            (
                "{\"version\": 1}",
                "tools.lock:1:14: it is not a file of trusted tools: missing field `servers`; restore it",
            ),
            (
                "{\"version\": 1, \"servers\": {}, \"more\": 1}",
                "it is not a file of trusted tools: unknown field `more`, expected `version` or `servers`; restore it",
            ),
            (
                &edited,
                "server `notes`: what is written of its tool `read` does not fit the digest, so it was edited by hand; look at \
                 `loopgate tools DOMAIN diff notes`, then run `loopgate tools DOMAIN trust notes`",
            ),
        ];
        for (text, says) in cases {
            let error = load(SERVER, Some(text)).1.map(|_| ()).unwrap_err();
            assert!(error.starts_with("tools.lock:") && error.contains(says), "{error}\n  and not: {says}");
            assert!(!error.contains('\n'));
        }
        // The place is that of the tool, blanks do not matter, and a domain without servers does not read it.
        let line = edited.lines().position(|line| line.contains("digest")).unwrap() + 1;
        let error = load(SERVER, Some(&edited)).1.map(|_| ()).unwrap_err();
        assert!(error.starts_with(&format!("tools.lock:{line}:")), "{error}");
        assert!(load(SERVER, Some(&moved)).1.is_ok());
        assert!(load("", Some("broken")).1.is_ok());
        // Trusting again has to work.
        let (folder, _) = load(SERVER, Some(&edited));
        assert!(McpServers::load(folder.path(), &LoadOptions::default()).is_ok());
        let (folder, _) = load(SERVER, Some("broken"));
        assert!(McpServers::load(folder.path(), &LoadOptions::default()).is_err());
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        let server = |text: &str| format!("[servers.notes]\n{text}\n");
        let table = |text: &str| format!("{SERVER}[tools.notes_read]\nkind = \"mcp\"\n{text}\n");
        let program = "command = { program = \"cat\" }\n";
        let cases = [
            (
                server("prefix = \"x\""),
                "8:10: the server `notes` names no server; add `command = { program = \"PROGRAM\" }` or",
            ),
            (
                server(&format!("{program}url = \"https://x.example.com\"")),
                "10:1: `command` is there as well; keep one of them",
            ),
            (
                server(&format!("{program}headers = {{}}")),
                "10:1: `headers` is for servers with a `url`; take it out",
            ),
            (
                server(&format!("{program}auth = {{ bearer_env = \"A\" }}")),
                "10:1: `auth` is for servers with a `url`",
            ),
            (server(&format!("{program}private = []")), "10:1: `private` is for servers with a `url`"),
            (
                server(&format!("{program}plain_http = true")),
                "10:1: `plain_http` is for servers with a `url`",
            ),
            (server(&format!("{program}ca = \"x\"")), "10:1: `ca` is for servers with a `url`"),
            (
                server(&format!("{program}start_timeout_ms = 0")),
                "10:1: without any time nothing answers; write 1 or more",
            ),
            (
                server(&format!("{program}idle_ms = 0")),
                "10:1: without any time nothing answers; write 1 or more",
            ),
            (server(&format!("{program}nope = 0")), "10:1: "),
            (server("command = { args = [] }"), "program"),
            (server("command = { program = \"sh\" }"), "9:13: "),
            (server("command = { program = \"no-such-program-1\" }"), "9:13: "),
            (server("command = { program = \"cat\", folder = \"none\" }"), "9:30: "),
            (server("command = { program = \"cat\", sandbox = { read = [\"none\"] } }"), "9:30: "),
            (server("command = { program = \"cat\", set = { \"A=B\" = \"1\" } }"), "9:30: "),
            (
                format!("{SERVER}headers = {{ \"no name\" = \"1\" }}\n"),
                "10:13: server `notes`: `headers.no name`: it is not the name",
            ),
            (server("url = \"http://mcp.example.com\""), "9:1: server `notes`: `url`: "),
            (
                format!("{SERVER}auth = {{ user = \"u\" }}\n"),
                "10:1: it names no secret; add one of `bearer_env`",
            ),
            (
                format!("{SERVER}auth = {{ bearer_env = \"A\", scope = \"u\" }}\n"),
                "`scope` is for `client_secret_env`",
            ),
            (format!("{SERVER}auth = {{ bearer_env = \"no name\" }}\n"), "10:10: "),
            (
                table("parameters = { x = {} }"),
                "12:1: `parameters` is not for tools of kind `mcp`; take it out",
            ),
            (table("source = \"x\""), "12:1: `source` is not for tools of kind `mcp`; take it out"),
            (
                table("http = { url = \"https://x.example.com\" }"),
                "12:1: `http` is not for tools of kind `mcp`; take it out",
            ),
            (
                table("server = \"notes\""),
                "12:1: `server` needs `tool`, the name of the tool on the server; add it",
            ),
            (table("tool = \"read\""), "12:1: `tool` needs `server`, the name of a server; add it"),
            (
                table("server = \"nots\"\ntool = \"read\""),
                "12:1: there is no server `nots`; did you mean `notes`?",
            ),
            (table("authority = [\"pth\"]"), "there is no parameter `pth`; did you mean `path`?"),
            (table("repeats = { key = [\"x\"] }"), "there is no parameter `x`; there are `path`, `to`"),
            (
                table("effect = \"read\"\nsmart = { target = \"x\" }"),
                "there is no parameter `x`; there are `path`, `to`",
            ),
            (
                table("effect = \"write_keyed\""),
                "12:1: an MCP server is not given the key of a call, so it cannot know",
            ),
            (table("smart = true"), "12:1: only a tool that reads may be smart; take it out"),
            (
                table("cheap = true"),
                "12:1: only a tool that reads may start early; add `effect = \"read\"`, or take it out",
            ),
            (
                format!(
                    "{SERVER}[tools.t]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\nserver = \"notes\"\n"
                ),
                "14:1: `server` is not for tools of kind `docs`; take it out",
            ),
        ];
        let mut wrong = Vec::new();
        for (text, expected) in cases {
            let error = load(&text, Some(&lock(&["read"]))).1.map(|_| ()).err().unwrap_or_default();
            if !(error.starts_with("loopgate.toml:") && error.contains(expected) && !error.contains('\n')) {
                wrong.push(format!("{error}\n  and not: {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn secrets_of_a_server_are_secrets_of_the_run() {
        // K13
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "t0ken-of-the-server-1\n").unwrap();
        let text = "[secrets.TOKEN]\nfile = \"token\"\n[servers.notes]\n\
                    command = { program = \"cat\", secret_env = [\"TOKEN\", \"LOOPGATE_TEST_NOT_SET\"], env = [\"MY_PASSWORD\"] }\n";
        std::fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
        let identity = json!({ "name": "notes", "program": "cat", "args": [] });
        std::fs::write(folder.path().join("tools.lock"), lock_of(&identity, &[tool("read")])).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        assert_eq!(domain.secrets().mask("a t0ken-of-the-server-1 b"), "a [masked] b");
        let error = domain.ready(false).unwrap_err().to_string();
        assert!(error.contains("`LOOPGATE_TEST_NOT_SET` is not set"), "{error}");
        warns(
            &domain,
            "server `notes`: `MY_PASSWORD` in `command.env` sounds like a secret and is not masked",
        );
    }

    #[test]
    fn a_check_runs_no_program_that_prints_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let text = format!(
            "{SERVER}auth = {{ bearer_env = \"TOKEN\" }}\n[secrets.TOKEN]\ncommand = [\"touch\", \"{}\"]\n",
            ran.display()
        );
        std::fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
        std::fs::write(folder.path().join("tools.lock"), lock(&["read"])).unwrap();
        Domain::check(folder.path(), &LoadOptions::default()).unwrap();
        assert!(!ran.exists());
    }

    #[test]
    fn everything_of_a_server_is_part_of_the_definition_of_its_tools() {
        // An approval and a resumed run are bound to it.
        let hash = |server: &str, lock: &str| {
            let (_folder, domain) = load(server, Some(lock));
            let domain = domain.unwrap();
            domain.registry.declarations().next().unwrap().definition.unwrap()
        };
        let first = hash(SERVER, &lock(&["read"]));
        assert_eq!(first, hash(SERVER, &lock(&["read"])), "it does not depend on the folder");
        assert_ne!(first, hash(&format!("{SERVER}headers = {{ x = \"1\" }}\n"), &lock(&["read"])));
        let mut other = tool("read");
        other.annotations = None;
        assert_ne!(first, hash(SERVER, &lock_of(&identity(), &[other])));
        assert_ne!(first, hash(&format!("{SERVER}[tools.notes_read]\nkind = \"mcp\"\n"), &lock(&["read"])));
    }

    #[test]
    fn a_server_is_known_by_what_is_written_so_that_a_domain_may_be_moved() {
        let folder = tempfile::tempdir().unwrap();
        let identity = json!({ "name": "notes", "program": "bin/server", "args": ["a"] });
        let digest_in = |place: &str| {
            let folder = folder.path().join(place);
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            // A program of the domain's own.
            let program = folder.join("bin/server");
            std::fs::copy("/bin/cat", &program).unwrap();
            let text =
                format!("{HEAD}[servers.notes]\ncommand = {{ program = \"bin/server\", args = [\"a\"] }}\n");
            std::fs::write(folder.join("loopgate.toml"), text).unwrap();
            std::fs::write(folder.join("tools.lock"), lock_of(&identity, &[tool("read")])).unwrap();
            let domain = Domain::load(&folder, &LoadOptions::default()).unwrap();
            domain.ready(false).unwrap();
            domain.registry.manifest_hash()
        };
        assert_eq!(digest_in("one"), digest_in("two"));
    }

    #[test]
    fn a_tool_says_where_it_connects() {
        // Issue 44, part 6: an approver sees it. What follows `?` may be a secret that the operator wrote there.
        let text = format!(
            "{SERVER}[tools.post]\nkind = \"http\"\neffect = \"egress\"\nhttp = {{ url = \"https://api.example.com/v1/{{id}}?a=b\" }}\n\
             parameters.id = {{ required = true }}\n[tools.show]\nkind = \"command\"\neffect = \"exec\"\n\
             command = {{ program = \"cat\", args = [\"-n\", \"{{file}}\"] }}\nparameters.file = {{ required = true }}\n\
             [tools.ask]\nkind = \"question\"\n"
        );
        let (_folder, domain) = load(&text, Some(&lock(&["read"])));
        let domain = domain.unwrap();
        let manifest = domain.registry.manifest();
        let places =
            ["post", "show", "notes_read", "ask"].map(|tool| loop_tools::connects_to(manifest, tool));
        let server = "server notes: https://mcp.example.com/mcp";
        let expected = [Some("https://api.example.com/v1/{id}"), Some("cat -n {file}"), Some(server), None];
        assert_eq!(places, expected.map(|place| place.map(str::to_owned)));
    }

    #[test]
    fn the_examples_of_the_page_load() {
        let page = include_str!("../../../docs/how-to/tools/mcp.md");
        let blocks: Vec<&str> =
            page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        let [whole, over_http, resources] = blocks[..] else { panic!("{} blocks", blocks.len()) };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("texts")).unwrap();
        // The program need not be there where the tests run.
        let text = format!("{}{over_http}{resources}", whole.replace("\"npx\"", "\"cat\""));
        std::fs::write(folder.path().join("loopgate.toml"), text).unwrap();
        let args = ["-y", "@modelcontextprotocol/server-filesystem", "."];
        let identity = json!({ "name": "files", "program": "cat", "args": args });
        let tools = ["read_text_file", "search_files", "write_file", "move_file"].map(tool);
        let lock = lock_of(&identity, &tools).replace("\"notes\": {", "\"files\": {");
        std::fs::write(folder.path().join("tools.lock"), lock).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        assert_eq!(names(&domain), ["files_read_text_file", "find_files", "files_write_file"]);
        assert_eq!(domain.spec.tool("find_files").unwrap().effect, Effect::Read);
        let servers = McpServers::load(folder.path(), &LoadOptions::default()).unwrap();
        assert_eq!(servers.names().collect::<Vec<_>>(), ["files", "tracker", "wiki"]);
    }
}
