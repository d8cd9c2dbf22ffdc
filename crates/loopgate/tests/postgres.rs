//! The example on PostgreSQL, as its README says, with a server that the test starts.

use std::process::Command;

use loop_testkit::postgres::{PASSWORD, PostgresServer};

use crate::common::{Ran, Shell, root};

/// The password of the roles of the example.
const SECRET: &str = "role-s3cret-7";
const DOMAIN: &str = "examples/helpdesk-postgres";

struct World {
    server: PostgresServer,
    shell: Shell,
    port: [String; 2],
}

impl World {
    fn new() -> Self {
        let server = PostgresServer::start();
        let made = Command::new(root().join(DOMAIN).join("make-database.sh"))
            .env("PGHOST", server.folder())
            .env("PGPORT", server.port().to_string())
            .env("PGUSER", "postgres")
            .env("PGPASSWORD", PASSWORD)
            .env("HELPDESK_PASSWORD", SECRET)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = ["helpdesk", "notes"].map(|source| format!("sources.{source}.port={}", server.port()));
        Self { server, shell: Shell::new(), port }
    }

    fn run_with(&self, args: &[&str], more: &[&str]) -> Ran {
        // The settings are the command's, and stand before its own words: `tools DOMAIN call` takes none behind `call`.
        let call = args.iter().position(|arg| *arg == "call").unwrap_or(args.len());
        let (before, after) = args.split_at(call);
        let sets = self.port.iter().flat_map(|set| ["--set", set.as_str()]);
        let args: Vec<&str> = before
            .iter()
            .copied()
            .chain(sets)
            .chain(more.iter().copied())
            .chain(after.iter().copied())
            .collect();
        let ran: Ran = self.shell.command(&args).env("HELPDESK_PASSWORD", SECRET).output().unwrap().into();
        assert!(!ran.out.contains(SECRET) && !ran.err.contains(SECRET), "K13: {}{}", ran.out, ran.err);
        ran
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn the_example_is_checked_called_and_run_on_a_real_server() {
    // S0-77, S0-79, S0-80
    let world = World::new();
    let check = world.run(&["domain", "check", DOMAIN]);
    // The only warning is that a person has to agree to what writes.
    assert!(check.code == 0 && check.err.lines().count() == 1, "{}{}", check.out, check.err);
    assert!(check.err.contains("`add_ticket_note` is declared `write_keyed`"), "{}", check.err);
    let tools = |account: &str| {
        let scope = format!("account={account}");
        let target = "{\"target\": \"HAR-LT-014\"}";
        world.run(&["tools", DOMAIN, "call", "fetch_device_info", target, "--scope", &scope])
    };
    let own = tools("harbor");
    assert!(own.code == 0 && own.out.contains("2026-02-17T08:40:00"), "{}{}", own.out, own.err);
    let other = tools("moss");
    assert!(
        other.err.contains("No data found") && !other.out.contains("Tarnwell"),
        "{}{}",
        other.out,
        other.err
    );
    let run = world.run(&["run", DOMAIN, "examples/helpdesk/tickets/T-1042.json", "--no-save"]);
    assert!(run.out.contains("BJ-HAR-07") && run.out.contains("HAR-LT-014"), "{}{}", run.out, run.err);
    assert_eq!(run.code, 0, "{}", run.err);
    // A note is written by hand, and only to a ticket of the account.
    let note = |ticket: &str, account: &str| {
        let arguments = format!("{{\"ticket\": \"{ticket}\", \"text\": \"seen\"}}");
        let scope = format!("account={account}");
        world.run(&["tools", DOMAIN, "call", "add_ticket_note", &arguments, "--scope", &scope])
    };
    let refused = note("T-0908", "moss");
    assert!(refused.err.contains("row-level security"), "{}{}", refused.out, refused.err);
    let written = note("T-0908", "harbor");
    assert!(written.out.contains("Changed 1 row"), "{}{}", written.out, written.err);
    assert_eq!(
        world.server.sql("helpdesk", "SELECT ticket_id, account_id, text FROM ticket_notes"),
        "T-0908|harbor|seen"
    );
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_check_says_what_the_server_refuses_at_the_place_of_the_query() {
    let world = World::new();
    let wrong =
        ["--set", "tools.fetch_user_info.query=SELECT email, shoe_size FROM users WHERE email = :target"];
    let check = world.run_with(&["domain", "check", DOMAIN], &wrong);
    let says = "tool `fetch_user_info`: the server refuses its query: column \"shoe_size\" does not exist in its line 1";
    assert!(check.code == 1 && check.err.contains(says), "{}{}", check.out, check.err);
    let check = world.run_with(&["domain", "check", DOMAIN], &["--set", "sources.helpdesk.port=1"]);
    let says =
        "warning: source `helpdesk`: its queries were not checked: no connection to localhost port 1: ";
    assert!(check.code == 0 && check.err.contains(says), "{}{}", check.out, check.err);
    let role = ["--set", "sources.helpdesk.user=helpdesk_writer"];
    let check = world.run_with(&["domain", "check", DOMAIN], &role);
    assert!(check.err.contains("the role may not do this: permission denied"), "{}{}", check.out, check.err);
    // A wrong password is one line for the operator and a failed result for the model.
    let wrong =
        world.shell.command(&["domain", "check", DOMAIN, "--set", &world.port[0], "--set", &world.port[1]]);
    let mut wrong = wrong;
    let ran: Ran = wrong.env("HELPDESK_PASSWORD", "not-the-s3cret").output().unwrap().into();
    assert!(
        ran.err.contains("password authentication failed") && !ran.err.contains("not-the-s3cret"),
        "{}",
        ran.err
    );
}

/// The blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let found: Vec<&str> = page.split(&*fence).skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!found.is_empty(), "{language}");
    found
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn the_examples_of_the_page_ask_and_change_a_real_server() {
    // S0-79, S0-80
    let page = include_str!("../../../docs/how-to/tools/postgres.md");
    let (server, shell) = (PostgresServer::start(), Shell::new());
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE orders (id integer PRIMARY KEY, customer text, state text, total numeric, ordered_at timestamptz); \
         INSERT INTO orders VALUES (1, 'C-7', 'late', 12.50, '2026-02-01T08:00:00Z'), (2, 'C-7', 'open', 3, '2026-02-02T08:00:00Z'), \
         (3, 'C-8', 'late', 99, '2026-02-03T08:00:00Z'); \
         CREATE TABLE notes (id integer GENERATED ALWAYS AS IDENTITY, order_id integer, text text, call_key text UNIQUE)",
    );
    // The role and the policy are those of the page.
    for script in blocks(page, "sql") {
        server.sql("shop", &script.replace('…', SECRET));
    }
    let writer = format!(
        "CREATE ROLE loopgate_writer LOGIN PASSWORD '{SECRET}'; GRANT SELECT, INSERT ON notes TO loopgate_writer"
    );
    server.sql("shop", &writer);
    let [whole, scope, changes] = blocks(page, "toml")[..] else { panic!("the page has other blocks") };
    let more = scope.trim_start_matches("[sources.shop]\n");
    let text =
        format!("{}{changes}", whole.replace("[tools.fetch_orders]", &format!("{more}[tools.fetch_orders]")));
    let authority = server.folder().join("ca.pem").display().to_string();
    let here = format!("host = \"localhost\"\nport = {}\nca = \"{authority}\"\n", server.port());
    let domain = shell.file("shop/loopgate.toml", &text.replace("host = \"db.example.com\"\n", &here));
    let domain = domain.to_str().unwrap();
    let run = |args: &[&str]| -> Ran {
        let mut command = shell.command(args);
        command.env("SHOP_DB_PASSWORD", SECRET).env("SHOP_DB_WRITER", SECRET).output().unwrap().into()
    };
    let check = run(&["domain", "check", domain]);
    assert!(check.code == 0 && !check.err.contains("were not checked"), "{}", check.err);
    let call = |tool: &str, arguments: &str| {
        run(&["tools", domain, "call", tool, arguments, "--scope", "account=C-7"])
    };
    let late = call("fetch_orders", r#"{"state": "late"}"#);
    assert!(
        late.code == 0 && late.out.contains("| 1 | late | 12.50 | 2026-02-01T08:00:00Z |"),
        "{}{}",
        late.out,
        late.err
    );
    assert!(!late.out.contains("99"), "{}", late.out);
    let all = call("fetch_orders", "{}");
    assert_eq!(all.out.matches("2026-02-").count(), 2, "{}{}", all.out, all.err);
    let note = call("add_note", r#"{"order": 1, "text": "seen"}"#);
    assert_eq!(note.code, 0, "{}{}", note.out, note.err);
    assert_eq!(server.sql("shop", "SELECT order_id, text, call_key <> '' FROM notes"), "1|seen|t");
}
