//! Sources of kind `postgres`: what a program without the feature says, and what one with it checks without a server.

use loop_domain::{Domain, LoadOptions};

const HEAD: &str = "version = 1\nname = \"shop\"\n[[section]]\nid = \"a\"\nheading = \"A\"\n";

fn load(text: &str) -> (tempfile::TempDir, Result<Domain, String>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
    let domain = Domain::load(folder.path(), &LoadOptions::default()).map_err(|error| {
        let path = folder.path().display().to_string();
        error.to_string().replace(&format!("{path}/"), "")
    });
    (folder, domain)
}

#[cfg(not(feature = "postgres"))]
#[test]
fn a_program_without_the_feature_says_how_to_build_one_with_it() {
    let (_folder, domain) =
        load("[sources.x]\nkind = \"postgres\"\nhost = \"db\"\ndatabase = \"d\"\nuser = \"u\"\n");
    assert_eq!(
        domain.map(|_| ()).unwrap_err(),
        "loopgate.toml:7:1: this program was built without sources of kind `postgres`; build it with `--features postgres`"
    );
}

#[cfg(feature = "postgres")]
mod with_the_feature {
    use super::{HEAD, load};
    use loop_domain::{Domain, LoadOptions};

    const SOURCE: &str =
        "[sources.x]\nkind = \"postgres\"\nhost = \"localhost\"\nport = 1\ndatabase = \"d\"\nuser = \"u\"\n";

    fn tool(query: &str, effect: &str) -> String {
        format!(
            "{SOURCE}[tools.t]\nkind = \"sql\"\nsource = \"x\"\neffect = \"{effect}\"\ndescription = \"T\"\nwhen = \"T\"\nquery = \
             \"{query}\"\n"
        )
    }

    #[test]
    fn what_is_wrong_is_said_at_its_place() {
        let source = |more: &str| format!("{SOURCE}{more}\n");
        let cases = [
            (source("file = \"a.db\""), "12:1: `file` is not for sources of kind `postgres`; take it out"),
            (
                "[sources.x]\nkind = \"sqlite\"\nfile = \"a\"\nhost = \"db\"\n".to_owned(),
                "9:1: `host` is not for sources of kind `sqlite`; take it out",
            ),
            (
                "[sources.x]\nkind = \"postgres\"\nhost = \"db\"\n".to_owned(),
                "6:10: the source `x` has no `database`; add it, or `url_env` with all of the login",
            ),
            (source("url_env = \"DB\""), "the URL in `url_env` holds it as well; take `host` out"),
            (source("pool = 0"), "12:1: it is from 1 to 64; correct it"),
            (
                source("tls = \"off\"\nca = \"ca.pem\""),
                "13:1: without TLS no certificate is verified; take it out",
            ),
            (source("ca = \"ca.pem\""), "12:1: "),
            (source("tls = \"prefer\""), "12:7: "),
            (
                source("scope = { \"role\" = \"account\" }"),
                "12:1: `role` is not a name of a setting of your own; ",
            ),
            (
                source("scope = { \"app.x\" = \"tenant\" }"),
                "12:1: `tenant` is not a part of the scope; use one of account, ",
            ),
            (
                tool("SELECT 1; SELECT 2", "read"),
                "18:1: tool `t`: its query must be one SELECT that changes nothing: ",
            ),
            (
                tool("SELECT :nope", "read"),
                "18:1: tool `t`: its query names `:nope`, which nobody gives it; ",
            ),
            (
                tool("DELETE FROM t", "write_idempotent"),
                "the tool `t` changes data (`write_idempotent`), and the source `x` is not writable; add `writable = true` to \
                 [sources.x]",
            ),
        ];
        let mut wrong = Vec::new();
        for (text, expected) in cases {
            let error = load(&text).1.map(|_| ()).unwrap_err();
            if !(error.starts_with("loopgate.toml:") && error.contains(expected) && !error.contains('\n')) {
                wrong.push(format!("{error}\n  and not: {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_domain_loads_without_its_server_and_a_check_warns() {
        // S0-77: a run starts without asking the server.
        let text = tool("SELECT 1 AS a", "read").replace("[tools.t]", "tls = \"off\"\n[tools.t]");
        let (folder, domain) = load(&text);
        let domain = domain.unwrap();
        assert!(!domain.report().warnings.iter().any(|warning| warning.contains("not checked")));
        let report = Domain::check(folder.path(), &LoadOptions::default()).unwrap();
        let says = "source `x`: its queries were not checked: no connection to localhost port 1: ";
        assert!(report.warnings.iter().any(|warning| warning.starts_with(says)), "{:?}", report.warnings);
    }

    #[test]
    fn a_secret_that_is_missing_refuses_a_run_and_a_check_warns() {
        // K13
        let text = format!("{SOURCE}password_env = \"LOOPGATE_TEST_NOT_SET\"\n");
        let (folder, domain) = load(&text);
        let error = domain.unwrap().ready(false).unwrap_err().to_string();
        assert!(error.contains("`LOOPGATE_TEST_NOT_SET` is not set"), "{error}");
        let report = Domain::check(folder.path(), &LoadOptions::default()).unwrap();
        let says = "source `x`: its queries were not checked: the secret `LOOPGATE_TEST_NOT_SET` is not set";
        assert!(report.warnings.iter().any(|warning| warning.starts_with(says)), "{:?}", report.warnings);
    }

    #[test]
    fn a_url_and_the_password_in_it_are_secrets_of_the_run() {
        // K13
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("url"), "postgres://u:p%40ss-w0rd-1@localhost:1/d\n").unwrap();
        let text = format!(
            "{HEAD}[secrets.DB]\nfile = \"url\"\n[sources.x]\nkind = \"postgres\"\nurl_env = \"DB\"\n"
        );
        std::fs::write(folder.path().join("loopgate.toml"), text).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        domain.ready(false).unwrap();
        let seen = "postgres://u:p%40ss-w0rd-1@localhost:1/d and p%40ss-w0rd-1 and p@ss-w0rd-1";
        assert_eq!(domain.secrets().mask(seen), "[masked] and [masked] and [masked]");
        assert!(!format!("{domain:?}").contains("ss-w0rd-1"));
    }

    #[test]
    fn a_network_without_encryption_is_a_warning() {
        let (_folder, domain) =
            load(&format!("{}tls = \"off\"\n", SOURCE.replace("localhost", "db.example")));
        let warnings = domain.unwrap().report().warnings;
        let says = "source `x` connects to db.example without encryption (`tls = \"off\"`)";
        assert!(warnings.iter().any(|warning| warning.starts_with(says)), "{warnings:?}");
        for host in ["localhost", "127.0.0.1", "/var/run/postgresql"] {
            let (_folder, domain) = load(&format!("{}tls = \"off\"\n", SOURCE.replace("localhost", host)));
            assert!(
                !domain.unwrap().report().warnings.iter().any(|warning| warning.contains("encryption")),
                "{host}"
            );
        }
    }

    #[test]
    fn the_example_loads_without_its_server() {
        let example =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/helpdesk-postgres");
        let domain = Domain::load(example, &LoadOptions::default()).unwrap();
        // Every row that it reads is restricted by the database, so no query has a condition for it.
        assert_eq!(domain.spec.tools.iter().filter(|tool| tool.effect.is_read()).count(), 6);
        assert!(domain.spec.tool("add_ticket_note").is_some());
    }

    #[test]
    fn the_examples_of_the_page_load() {
        let page = include_str!("../../../docs/how-to/tools/postgres.md");
        let blocks: Vec<&str> =
            page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        let [whole, scope, changes] = blocks[..] else { panic!("{} blocks", blocks.len()) };
        // The lines of the second block belong to the source of the first.
        let more = scope.trim_start_matches("[sources.shop]\n");
        let text = format!(
            "{}{changes}",
            whole.replace("[tools.fetch_orders]", &format!("{more}[tools.fetch_orders]"))
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("loopgate.toml"), text).unwrap();
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        let names: Vec<&str> = domain.spec.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["fetch_orders", "add_note"]);
    }
}
