//! A temporary PostgreSQL server for one test, on a free port, with TLS and a certificate of its own authority. It ends
//! with the test, even if that fails or is killed.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The environment variable with the folder of `postgres`, `initdb` and `psql`.
pub const PROGRAMS: &str = "LOOPGATE_TEST_POSTGRES";
/// The password of the superuser `postgres`.
pub const PASSWORD: &str = "super-s3cret-0";

/// A script that runs the server until its standard input is closed, stops it by its process id, and removes its
/// folder. The pipe closes whenever the test's process ends.
const WATCH: &str = r#"
"$1/postgres" -D "$2" >"$2/log" 2>&1 &
server=$!
read -r word
kill -INT "$server" 2>/dev/null
wait "$server"
[ "$word" = keep ] || rm -rf "$3"
"#;

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    port: u16,
    programs: PathBuf,
    watch: Option<Child>,
}

impl PostgresServer {
    /// Starts a server that listens on 127.0.0.1 and on a Unix socket in [`folder`](Self::folder).
    ///
    /// # Panics
    /// The programs are missing, or the server does not start within two minutes. The message has its log.
    pub fn start() -> Self {
        let programs = PathBuf::from(std::env::var(PROGRAMS).unwrap_or_else(|_| {
            panic!("{PROGRAMS} is not set; run the tests with: cargo xtask servers postgres")
        }));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = Self { folder, port: 0, programs, watch: None };
        server.make();
        let settings = server.data().join("postgresql.conf");
        let made = fs::read_to_string(&settings).expect("the settings are there");
        // Until the server has the port, another program may take it.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            server.port = port.expect("a free port").port();
            fs::write(&settings, format!("{made}port = {}\n", server.port)).expect("the port is written");
            if server.runs() {
                return server;
            }
            server.stop();
        }
        panic!("the server does not start:\n{}", server.log());
    }

    /// What the server has logged since its last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.data().join("log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn make(&self) {
        let folder = self.folder.path();
        fs::write(folder.join("password"), PASSWORD).expect("the password is written");
        let script = r#"
set -e
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=Test authority" -keyout ca.key -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" -keyout server.key -out server.csr
printf 'subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n' >server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem
chmod 600 server.key
"#;
        run(Command::new("sh").args(["-c", script, "sh"]).arg(folder));
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres"]).arg(folder));
        }
        let mut initdb = self.as_server("initdb");
        initdb.arg("-D").arg(self.data()).args([
            "-U",
            "postgres",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]);
        run(initdb.args(["--no-sync", "--pwfile"]).arg(folder.join("password")));
        let at = folder.display();
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{at}'\nssl = on\nssl_cert_file = \
             '{at}/server.pem'\nssl_key_file = '{at}/server.key'\nfsync = off\nmax_connections = 60\nshared_buffers = \
             16MB\ndeadlock_timeout = 100ms\n"
        );
        let path = self.data().join("postgresql.conf");
        let given = fs::read_to_string(&path).expect("initdb made the settings");
        fs::write(path, given + &settings).expect("the settings are written");
    }

    /// Starts the server again after [`stop`](Self::stop).
    ///
    /// # Panics
    /// It does not start within two minutes. The message has its log.
    pub fn run(&mut self) {
        assert!(self.runs(), "the server does not start:\n{}", self.log());
    }

    /// Starts the server and returns whether it runs. It ends at once if its port is taken.
    fn runs(&mut self) -> bool {
        drop(fs::remove_file(self.data().join("log")));
        let mut watch = as_user("sh");
        watch.args(["-c", WATCH, "sh"]).arg(&self.programs).arg(self.data()).arg(self.folder());
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.watch = Some(watch.spawn().expect("the server starts"));
        let until = Instant::now() + Duration::from_secs(120);
        while !self.try_sql("postgres", "SELECT 1").0 {
            // It makes the file before it logs, and removes it at its end.
            let has_ended = !self.log().is_empty() && !self.data().join("postmaster.pid").exists();
            if has_ended || Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Stops the server and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            if let Some(mut input) = watch.stdin.take() {
                drop(input.write_all(b"keep\n"));
            }
            drop(watch.wait());
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the Unix socket and the authority's certificate, `ca.pem`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The output of a script that the superuser runs in a database: a row a line, columns separated by `|`.
    ///
    /// # Panics
    /// The script fails. The message has the server's error.
    #[track_caller]
    pub fn sql(&self, database: &str, script: &str) -> String {
        let (is_done, said) = self.try_sql(database, script);
        assert!(is_done, "{script}: {said}");
        said
    }

    fn try_sql(&self, database: &str, script: &str) -> (bool, String) {
        let output = self.psql(database).args(["-c", script]).output().expect("psql starts");
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// `psql` as the superuser.
    pub fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        psql.arg(self.folder.path()).args(["-p", &self.port.to_string(), "-d", database]);
        psql.env("PGPASSWORD", PASSWORD).stdin(Stdio::null());
        psql
    }

    /// One of the server's programs, run as the user that owns the cluster.
    fn as_server(&self, program: &str) -> Command {
        as_user(&self.programs.join(program).to_string_lossy())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The environment variable with the path of `pgbouncer`.
pub const POOLER: &str = "LOOPGATE_TEST_PGBOUNCER";

/// A script that runs a pooler until its standard input is closed, and then stops it at once by its process id.
const WATCH_POOLER: &str = r#"
"$1" "$2" >"$2.log" 2>&1 &
pooler=$!
read -r word
kill "$pooler" 2>/dev/null
wait "$pooler"
"#;

/// A running PgBouncer in front of a server, with default settings. It ends with the test.
#[derive(Debug)]
pub struct Pooler {
    watch: Child,
    port: u16,
}

impl Pooler {
    /// Starts a pooler on 127.0.0.1 with this many server sessions. It does not check client passwords. The users have
    /// these passwords on the server.
    ///
    /// # Panics
    /// The program is missing, or does not listen within a minute. The message has its log.
    pub fn start(server: &PostgresServer, mode: &str, sessions: u16, users: &[(&str, &str)]) -> Self {
        let program = std::env::var(POOLER).unwrap_or_else(|_| {
            panic!("{POOLER} is not set; run the tests with: cargo xtask servers postgres")
        });
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let settings = server.folder().join(format!("pgbouncer-{port}.ini"));
        let passwords = settings.with_extension("users");
        let users: String = users.iter().map(|(user, word)| format!("\"{user}\" \"{word}\"\n")).collect();
        fs::write(&passwords, users).expect("the users are written");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {sessions}\n",
            server.port(),
            passwords.display()
        );
        fs::write(&settings, text).expect("the settings are written");
        let mut watch = as_user("sh");
        watch.args(["-c", WATCH_POOLER, "sh", &program]).arg(&settings);
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let pooler = Self { watch: watch.spawn().expect("the pooler starts"), port };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(format!("{}.log", settings.display())).unwrap_or_default();
            assert!(Instant::now() < until, "the pooler does not listen:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        pooler
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        drop(self.watch.wait());
    }
}

/// The program, run by a user that is not root, since PostgreSQL refuses root.
fn as_user(program: &str) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--", program]);
    command
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn run(command: &mut Command) {
    let output = command.current_dir("/").output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
