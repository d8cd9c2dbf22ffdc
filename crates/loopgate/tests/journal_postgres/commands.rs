//! The commands on a journal in a database, and what they say where it cannot be used.

use super::World;
use crate::common::ticket;

fn id(err: &str) -> String {
    let line = err.lines().find_map(|line| line.strip_prefix("run:     "));
    line.unwrap_or_else(|| panic!("{err}")).to_owned()
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn runs_are_begun_listed_shown_resumed_moved_and_pruned() {
    // H11, U2
    let world = World::new();
    world.run(&["runs"]).fails_with(&["no journal here; `loopgate run` makes one", "/loops"]);
    let ran =
        world.run(&["run", "examples/helpdesk", &ticket(1042), "--no-save", "--tag", "night", "--key", "k1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let first = id(&ran.err);
    assert!(world.run(&["show", &first]).out.starts_with("tags: night"));
    let again =
        world.run(&["run", "examples/helpdesk", &ticket(1042), "--no-save", "--tag", "night", "--key", "k1"]);
    assert_eq!((again.code, again.out), (0, ran.out), "{}", again.err);
    // A run that waits for a person, and goes on in another process.
    let crm = world.shell.copy_of("examples/crm");
    // The working copy of another test.
    _ = std::fs::remove_dir_all(crm.join(".loopgate"));
    let waits = world.run(&[
        "run",
        crm.to_str().unwrap(),
        "--text",
        "search_user Bob, get_user_by_id 42, update_user 42 EPAM",
    ]);
    let second = id(&waits.err);
    let pending = world.run(&["pending"]);
    assert!(pending.out.contains(&second), "{}{}", pending.out, pending.err);
    let waiting: serde_json::Value = serde_json::from_str(&world.run(&["pending", "--json"]).out).unwrap();
    let approved = world.run(&["approve", &second, waiting["pending"][0]["action"].as_str().unwrap()]);
    assert_eq!(approved.code, 0, "{}{}", approved.out, approved.err);
    let listed = world.run(&["runs", "--tag", "night"]);
    assert!(listed.out.contains(&first) && !listed.out.contains(&second), "{}", listed.out);
    assert_eq!(world.run(&["verify", "--all"]).code, 0);
    assert_eq!(world.run(&["journal", "stats"]).code, 0);
    // To a file and back.
    let export = world.state.path().join("runs.jsonl");
    let export = export.to_str().unwrap();
    assert_eq!(world.run(&["journal", "export", "--all", "--out", export]).code, 0);
    let file = world.state.path().join("journal.db");
    let file = file.to_str().unwrap();
    let imported = world.shell.run(&["journal", "import", export, "--journal", file]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let shown = |journal: &str| world.shell.run(&["show", &first, "--json", "--journal", journal]).out;
    assert_eq!(shown(file), shown(&world.url()));
    let pruned = world.run(&["journal", "prune", "--older-than", "0s"]);
    assert_eq!(pruned.code, 0, "{}", pruned.err);
    world.run(&["show", &first]).fails_with(&["no run ", &first]);
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn what_is_wrong_with_a_journal_on_a_server_is_one_line() {
    // B14, H4, H6, H11, K13
    let world = World::new();
    let port = world.server.port();
    let run = |journal: &str| {
        let item = ticket(1042);
        world.shell.run(&["run", "examples/helpdesk", &item, "--no-save", "--journal", journal])
    };
    let secret = format!("postgres://looper:s3cret-word@127.0.0.1:{port}/loops");
    let refused = run(&secret);
    assert!(!refused.err.contains("s3cret"), "{}", refused.err);
    refused.fails_with(&["the URL holds a password", "PGPASSWORD"]);
    run(&world.url_of("none", "")).fails_with(&["there is no such database"]);
    run("postgres://looper@127.0.0.1:1/loops").fails_with(&["the server cannot be reached"]);
    let login = format!("postgres://postgres@127.0.0.1:{port}/loops");
    run(&login).fails_with(&["password", "PGPASSWORD"]);
    // Another machine without the key reads, and does not write.
    assert_eq!(run(&world.url()).code, 0);
    let other = world.shell.file("other/here", "");
    let other =
        format!("postgres://looper@127.0.0.1:{port}/loops?state={}", other.parent().unwrap().display());
    run(&other).fails_with(&["this machine does not have the journal's key; copy ", ".key"]);
    assert_eq!(world.shell.run(&["runs", "--journal", &other]).code, 0);
    // A newer format is left alone.
    world.server.sql("loops", "UPDATE loopgate.journal SET format = 9");
    run(&world.url()).fails_with(&["written by a newer loopgate (format 9"]);
    world.server.sql("loops", "UPDATE loopgate.journal SET format = 3");
    // A disk that is full, and a server that only reads: the run ends, and says so.
    let full = "CREATE FUNCTION loopgate.full(nth BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN \
                IF nth > 2 THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END IF; \
                RETURN TRUE; END $$; \
                ALTER TABLE loopgate.entries ADD CONSTRAINT full_disk CHECK (loopgate.full(seq)) NOT VALID";
    world.server.sql("loops", full);
    let stopped = run(&world.url());
    assert!(
        stopped.code != 0 && stopped.err.contains("the server's disk is full; make room there"),
        "{}",
        stopped.err
    );
    world.server.sql("loops", "ALTER TABLE loopgate.entries DROP CONSTRAINT full_disk");
    // H6: what another program has the database do with entries refuses the journal.
    for (make, drop, named) in [
        (
            "CREATE FUNCTION loopgate.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
             CREATE TRIGGER skip BEFORE INSERT ON loopgate.entries FOR EACH ROW EXECUTE FUNCTION loopgate.skip()",
            "DROP TRIGGER skip ON loopgate.entries",
            "its table entries has the trigger skip, which is not of loopgate",
        ),
        (
            "CREATE RULE skip AS ON INSERT TO loopgate.entries DO INSTEAD NOTHING",
            "DROP RULE skip ON loopgate.entries",
            "its table entries has the rule skip, which is not of loopgate",
        ),
    ] {
        world.server.sql("loops", make);
        run(&world.url()).fails_with(&[named]);
        world.server.sql("loops", drop);
    }
    let resumed = world.run(&["resume", &id(&stopped.err)]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    world.server.sql("loops", "ALTER DATABASE loops SET default_transaction_read_only = on");
    run(&world.url()).fails_with(&["the database is read-only; name its primary server"]);
    assert_eq!(world.run(&["runs"]).code, 0);
}
