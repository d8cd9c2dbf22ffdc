//! The shared server, its database, and a tool in a line.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use loop_core::types::{Effect, Observation, Scope};
use loop_testkit::postgres::PostgresServer;
use loop_tools::connectors::{Postgres, PostgresLogin, PostgresSettings, PostgresTls, PostgresTool};
use loop_tools::{CancellationToken, Credentials, Registry, ToolContext, ToolDeclaration};
use serde_json::{Value, json};

/// How long a test waits for what has to happen.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The password of the roles of the tests, and its name.
pub(crate) const SECRET: &str = "s3cret-of-roles";
pub(crate) const SECRET_NAME: &str = "SHOP_PASSWORD";

/// The database `shop`: rows of two accounts behind row level security, and rights as an operator should give them.
pub(crate) const SHOP: &str = r"
CREATE ROLE reader LOGIN PASSWORD 's3cret-of-roles';
CREATE ROLE writer LOGIN PASSWORD 's3cret-of-roles';
CREATE ROLE single LOGIN PASSWORD 's3cret-of-roles' CONNECTION LIMIT 1;
CREATE TABLE orders (id int PRIMARY KEY, account text NOT NULL, note text, total numeric(12, 2), call_key text UNIQUE);
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON orders USING (account = current_setting('loopgate.account', true));
INSERT INTO orders VALUES (1, 'a', 'nuts', 12.50, NULL), (2, 'a', 'bolts', 3.00, NULL), (3, 'b', 'secret of b', 99.99, NULL);
CREATE TABLE log (at timestamptz DEFAULT now(), text text);
CREATE FUNCTION note_it(text) RETURNS int LANGUAGE sql AS $$ INSERT INTO log (text) VALUES ($1) RETURNING 1 $$;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
GRANT SELECT ON orders, log TO reader, single;
GRANT SELECT, INSERT, UPDATE, DELETE ON orders, log TO writer;
";

/// The server that tests share.
pub(crate) fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = PostgresServer::start();
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", SHOP);
        server
    })
}

pub(crate) fn credentials() -> Credentials {
    [(SECRET_NAME.to_owned(), SECRET.to_owned())].into_iter().collect()
}

pub(crate) fn settings_at(host: &str, port: u16, user: &str) -> PostgresSettings {
    let mut settings = PostgresSettings::new(PostgresLogin::Parts {
        host: host.to_owned(),
        port,
        database: "shop".to_owned(),
        user: user.to_owned(),
        password_env: Some(SECRET_NAME.to_owned()),
    });
    // On a busy machine all of it takes long.
    (settings.connect_timeout, settings.statement_timeout) = (LONG, LONG);
    settings
}

/// The shared server as `user`, with verified TLS.
pub(crate) fn settings(user: &str) -> PostgresSettings {
    let server = server();
    let mut settings = settings_at("localhost", server.port(), user);
    settings.tls = PostgresTls::Verified { ca: Some(server.folder().join("ca.pem")) };
    settings.writable = user == "writer";
    settings
}

pub(crate) fn source(user: &str) -> Postgres {
    Postgres::new("shop", settings(user)).unwrap()
}

pub(crate) fn declaration(effect: Effect) -> ToolDeclaration {
    ToolDeclaration::new("fetch_orders")
        .schema(json!({
            "type": "object",
            "properties": {
                "x": {}, "y": {}, "id": { "type": "integer" }, "note": { "type": "string" },
            },
        }))
        .effect(effect)
}

/// A tool over a source, and how it is called.
#[derive(Clone)]
pub(crate) struct Caller {
    registry: Registry,
    pub(crate) scope: Scope,
    pub(crate) cancel: CancellationToken,
    pub(crate) timeout: Duration,
}

impl Caller {
    #[track_caller]
    pub(crate) fn new(source: &Postgres, effect: Effect, query: &str) -> Self {
        let tool = PostgresTool::new(declaration(effect), source, query).unwrap();
        let registry = Registry::builder().tool(tool).build().unwrap();
        let scope = Scope { account: Some("a".into()), ..Scope::default() };
        Self { registry, scope, cancel: CancellationToken::new(), timeout: LONG }
    }

    pub(crate) fn of_account(mut self, account: Option<&str>) -> Self {
        self.scope.account = account.map(Into::into);
        self
    }

    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) async fn call(&self, parameters: Value) -> Observation {
        self.call_with(parameters, &credentials(), "r/1/action-0").await
    }

    pub(crate) async fn call_with(
        &self,
        parameters: Value,
        credentials: &Credentials,
        key: &str,
    ) -> Observation {
        let context = ToolContext::new(self.scope.clone(), "x", key).with_cancel(self.cancel.clone());
        let ms = u64::try_from(self.timeout.as_millis()).unwrap();
        self.registry.dispatch("fetch_orders", &parameters, context, credentials, ms, 40_000).await
    }
}

/// What a reading query returns, as the account `a`.
#[track_caller]
pub(crate) fn read(query: &str) -> Caller {
    Caller::new(&source("reader"), Effect::Read, query)
}

pub(crate) fn data(observation: &Observation) -> Value {
    serde_json::from_str(&observation.data).unwrap_or_else(|error| panic!("{error}: {observation:?}"))
}

/// How many connections of a role there are on the server, once they are `expected` or after [`LONG`].
pub(crate) fn connections(server: &PostgresServer, filter: &str, expected: &str) -> String {
    let query =
        format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loopgate' AND {filter}");
    let since = Instant::now();
    loop {
        let found = server.sql("postgres", &query);
        if found == expected || since.elapsed() > LONG {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
