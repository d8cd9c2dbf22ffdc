//! The check of a source and its tools.

use loop_core::types::Effect;
use loop_testkit::postgres::PASSWORD;
use loop_tools::Credentials;
use loop_tools::connectors::{Postgres, PostgresLogin, PostgresReport, PostgresTool};

use super::world::{SECRET_NAME, credentials, declaration, server, settings, source};

fn check(source: &Postgres, effect: Effect, queries: &[&str]) -> PostgresReport {
    let tools: Vec<PostgresTool> =
        queries.iter().map(|query| PostgresTool::new(declaration(effect), source, query).unwrap()).collect();
    source.check(&tools.iter().collect::<Vec<_>>(), &credentials())
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn queries_are_prepared_and_explained_and_the_role_is_looked_at() {
    // S0-64
    let report = check(
        &source("reader"),
        Effect::Read,
        &[
            "SELECT id FROM orders WHERE id = :id AND note = :note",
            "SELECT gadget FROM orders",
            "SELECT id,\n  note\nFROM nothing",
            "SELECT rolpassword FROM pg_authid",
            "WITH x AS (DELETE FROM orders RETURNING id) SELECT id FROM x",
            "SELECT 1 AS a, 2 AS a",
            "SELECT id FROM orders WHERE id = :note || 'x'",
            "SELECT '1 day'::interval AS i, :x::inet AS n",
        ],
    );
    assert_eq!((&report.unreachable, &report.warnings), (&None, &Vec::new()));
    let wrong: Vec<(usize, &str)> = report.wrong.iter().map(|(at, says)| (*at, says.as_str())).collect();
    assert_eq!(
        wrong,
        [
            (1, "column \"gadget\" does not exist in its line 1"),
            (2, "relation \"nothing\" does not exist in its line 3"),
            (3, "the role may not do this: permission denied for table pg_authid"),
            (4, "WITH clause containing a data-modifying statement must be at the top level in its line 1"),
            (5, "the query has two columns `a`; rename one with AS"),
            (
                6,
                "operator does not exist: integer = text in its line 1 (No operator matches the given name and argument types. \
                 You might need to add explicit type casts.)"
            ),
        ]
    );
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn changes_are_explained_and_not_made() {
    let before = server().sql("shop", "SELECT count(*), max(id) FROM orders");
    let report = check(
        &source("writer"),
        Effect::WriteIrreversible,
        &[
            "INSERT INTO orders (id, account) VALUES (:id, :scope_account)",
            "WITH x AS (SELECT :id::int AS id) UPDATE orders SET note = :note FROM x WHERE orders.id = x.id",
            "WITH x AS (DELETE FROM orders RETURNING id) SELECT id FROM x",
            "INSERT INTO pair_of_nobody VALUES (1)",
            "UPDATE orders SET note = :note RETURNING id, '10.0.0.1'::inet AS ip",
            "DELETE FROM orders",
        ],
    );
    let wrong: Vec<(usize, &str)> = report.wrong.iter().map(|(at, says)| (*at, says.as_str())).collect();
    assert_eq!(
        wrong,
        [
            (
                2,
                "with an effect that writes it must be one INSERT, UPDATE, DELETE or MERGE, and it changes nothing; correct the \
                 query or the effect"
            ),
            (3, "relation \"pair_of_nobody\" does not exist in its line 1"),
            (4, "RETURNING returns `ip` of the type inet, which cannot be shown; write `ip::text AS ip`"),
        ]
    );
    assert_eq!(server().sql("shop", "SELECT count(*), max(id) FROM orders"), before);
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_role_that_may_do_too_much_is_a_warning() {
    let setup = "CREATE ROLE keeper LOGIN PASSWORD 's3cret-of-roles' BYPASSRLS; GRANT pg_read_server_files TO keeper; \
                 CREATE TABLE kept (id int); ALTER TABLE kept ENABLE ROW LEVEL SECURITY; ALTER TABLE kept OWNER TO keeper";
    server().sql("shop", setup);
    let warnings = check(&source("keeper"), Effect::Read, &[]).warnings;
    assert_eq!(
        warnings,
        [
            "its role has BYPASSRLS: row level security does not restrict it",
            "its role may use the server's files or programs; take that right from it",
            "its role may write (public.kept), and the source only reads; give it a role that has SELECT alone",
            "its role owns public.kept, so row level security does not restrict it there; use another role, or FORCE ROW LEVEL \
             SECURITY",
        ]
    );
    let root = Postgres::new("shop", settings("postgres")).unwrap();
    let credentials: Credentials = [(SECRET_NAME.to_owned(), PASSWORD.to_owned())].into_iter().collect();
    let report = root.check(&[], &credentials);
    assert!(report.warnings[0].starts_with("its role is a superuser"), "{report:?}");
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_server_that_cannot_be_asked_is_said() {
    let mut settings = settings("reader");
    if let PostgresLogin::Parts { port, .. } = &mut settings.login {
        *port = 1;
    }
    let report =
        check(&Postgres::new("shop", settings).unwrap(), Effect::Read, &["SELECT gadget FROM orders"]);
    assert!(report.unreachable.unwrap().starts_with("no connection to localhost port 1: "));
    assert_eq!(report.wrong, []);
}
