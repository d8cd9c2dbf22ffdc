//! Journals in a PostgreSQL database, on a server that the test starts.

#[path = "../../../loop-runtime/tests/journal/conformance.rs"]
mod conformance;

mod commands;
mod faults;
mod hostile;
mod lists;
mod load;
mod migrate;
mod pooler;
mod remote;
mod same;
mod secure;
mod servers;
mod versions;

use std::io::Write as _;
use std::path::PathBuf;

use loop_runtime::journal::StoredJournal;
use loop_testkit::postgres::PostgresServer;
use tempfile::TempDir;

use crate::common::{Ran, Shell};

/// Prints a figure of a test that is run by hand.
fn told(figure: &str) {
    std::io::stderr().write_all(format!("{figure}\n").as_bytes()).unwrap();
}

/// A server with a database, and a folder with the state of this machine.
struct World {
    server: PostgresServer,
    state: TempDir,
    shell: Shell,
}

impl World {
    fn new() -> Self {
        let world = Self {
            server: PostgresServer::start(),
            state: tempfile::tempdir().unwrap(),
            shell: Shell::new(),
        };
        // The journal of the test's own process logs in without a password.
        let rules = world.server.folder().join("data/pg_hba.conf");
        let given = std::fs::read_to_string(&rules).unwrap();
        std::fs::write(&rules, format!("host all looper 127.0.0.1/32 trust\n{given}")).unwrap();
        world.server.sql("postgres", "SELECT pg_reload_conf()");
        world.server.sql("postgres", "CREATE ROLE looper LOGIN");
        world.database("loops");
        world
    }

    /// Makes an empty database.
    fn database(&self, name: &str) {
        self.server.sql("postgres", &format!("CREATE DATABASE {name} OWNER looper"));
    }

    fn url_of(&self, database: &str, options: &str) -> String {
        let (port, state) = (self.server.port(), self.state.path().display());
        format!("postgres://looper@127.0.0.1:{port}/{database}?state={state}{options}")
    }

    fn url(&self) -> String {
        self.url_of("loops", "")
    }

    /// The journal of this process.
    fn journal(&self, options: &str) -> StoredJournal {
        StoredJournal::open(self.url_of("loops", options)).unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.shell.run(&[args, &["--journal", &self.url()]].concat())
    }

    /// The file with the key of the journal in `database`.
    fn key(&self, database: &str) -> PathBuf {
        let id = self.server.sql(database, "SELECT id FROM loopgate.journal");
        self.state.path().join(format!("{id}.key"))
    }
}
