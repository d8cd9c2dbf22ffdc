//! The URL that names a journal on a server. It holds no password, so it can be shown everywhere.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How long a process that is silent keeps its runs.
const LEASE: Duration = Duration::from_secs(30);
/// How long the journal waits for a server that went away while it was used.
const WAIT: Duration = Duration::from_secs(30);

/// A journal on a server.
#[derive(Clone)]
pub(super) struct JournalUrl {
    pub(super) config: Config,
    /// Whether the connection is encrypted, and the server's certificate verified.
    pub(super) is_encrypted: bool,
    /// The folder with the key and the heads. `None`: that of the system.
    pub(super) state: Option<PathBuf>,
    /// A file with further authorities.
    pub(super) authorities: Option<PathBuf>,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    shown: String,
}

impl JournalUrl {
    /// Reads a URL as libpq has it. What is wrong is said in one line that shows no part of it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || "not a URL of a PostgreSQL database; write postgres://USER@HOST:PORT/DATABASE".to_owned();
        let (start, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut lease, mut wait, mut is_off, mut rest) = (LEASE, WAIT, None, Vec::new());
        let (mut state, mut authorities) = (None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(wrong)?;
            match name {
                "lease_s" => lease = seconds(name, value)?,
                "wait_s" => wait = seconds(name, value)?,
                "sslrootcert" => authorities = Some(PathBuf::from(decoded(value).ok_or_else(wrong)?)),
                "state" => state = Some(PathBuf::from(decoded(value).ok_or_else(wrong)?)),
                "sslmode" => {
                    is_off = Some(match value {
                        "disable" => true,
                        "require" | "verify-ca" | "verify-full" => false,
                        _ => {
                            return Err(
                                "sslmode: write `verify-full`, or `disable` where the network is safe".into(),
                            );
                        }
                    });
                }
                "password" => return Err(PASSWORD.to_owned()),
                _ => rest.push(option),
            }
        }
        let mut config = Config::from_str(&format!("{start}?{}", rest.join("&"))).map_err(|_| wrong())?;
        if config.get_password().is_some() {
            return Err(PASSWORD.to_owned());
        }
        let (Some(user), Some(_)) = (config.get_user().map(str::to_owned), config.get_hosts().first()) else {
            return Err(wrong());
        };
        let database = config.get_dbname().map_or_else(|| user.clone(), str::to_owned);
        let is_local = config.get_hosts().iter().all(is_local);
        let hosts: Vec<String> = config.get_hosts().iter().map(shown).collect();
        let ports: Vec<String> = config.get_ports().iter().map(ToString::to_string).collect();
        let ports = if ports.is_empty() { "5432".to_owned() } else { ports.join(",") };
        let shown = format!("postgres://{user}@{}:{ports}/{database}", hosts.join(","));
        if let Some(password) = password(&hosts, &ports, &database, &user) {
            config.password(password);
        }
        let is_encrypted = is_off.map_or(!is_local, |is_off| !is_off);
        config
            .ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable })
            .target_session_attrs(TargetSessionAttrs::Any)
            .connect_timeout(Duration::from_secs(10))
            .tcp_user_timeout(Duration::from_secs(20))
            .keepalives_idle(Duration::from_secs(20));
        Ok(Self { config, is_encrypted, state, authorities, lease, wait, shown })
    }

    /// The URL without its options.
    pub(super) fn shown(&self) -> String {
        self.shown.clone()
    }
}

fn shown(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("{name}: write whole seconds, 1 to 3600"))
}

/// A value with its percent-encoded characters decoded.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes().iter());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The password as libpq finds it: in `PGPASSWORD`, else in the file that `PGPASSFILE` names, else in `~/.pgpass`.
fn password(hosts: &[String], ports: &str, database: &str, user: &str) -> Option<String> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Some(password).filter(|password| !password.is_empty());
    }
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let file = named.or_else(|| Some(std::env::home_dir()?.join(".pgpass")))?;
    let text = loop_tools::files::text(&file, 1 << 20).ok()?;
    let port = ports.split(',').next().unwrap_or_default();
    hosts.iter().find_map(|host| {
        // A socket counts as the host `localhost`.
        let host = if host.starts_with('/') { "localhost" } else { host };
        text.lines().find_map(|line| in_line(line, [host, port, database, user]))
    })
}

/// The password of a line of a password file, if the line is about this login.
fn in_line(line: &str, login: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let (mut fields, mut field, mut chars) = (Vec::new(), String::new(), line.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => field.extend(chars.next()),
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    let fits =
        fields.len() == 4 && fields.iter().zip(login).all(|(found, wanted)| found == "*" || found == wanted);
    fits.then_some(field).filter(|password| !password.is_empty())
}

const PASSWORD: &str = "the URL holds a password, which other users of the machine could see; take it out, and set \
                        PGPASSWORD or write it into ~/.pgpass";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_journal_and_never_shows_a_password() {
        // K12, I-29
        let parse = |text: &str| {
            JournalUrl::parse(text).map(|url| (url.shown(), url.is_encrypted, url.lease.as_secs()))
        };
        let local = "postgres://ada@127.0.0.1:5433/loops".to_owned();
        assert_eq!(parse("postgres://ada@127.0.0.1:5433/loops?lease_s=5").unwrap(), (local, false, 5));
        let far = "postgresql://ada@db.example/loops";
        assert_eq!(parse(far).unwrap(), ("postgres://ada@db.example:5432/loops".to_owned(), true, 30));
        assert!(!parse("postgres://ada@db.example/loops?sslmode=disable").unwrap().1);
        let socket = parse("postgres:///loops?host=/run/postgresql&user=ada").unwrap().0;
        assert_eq!(socket, "postgres://ada@/run/postgresql:5432/loops");
        for secret in [
            "postgres://ada:s3cret@db.example/loops",
            "postgres://ada@db.example/loops?password=s3cret",
            "postgres://ada:s3cret@db.example:port/loops",
            "postgres://s3cret@/",
            "postgres://ada@db.example/loops?sslmode=s3cret",
            "postgres://ada@db.example/loops?lease_s=s3cret",
        ] {
            let message = parse(secret).unwrap_err();
            assert!(!message.contains("s3cret") && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_libpq_reads_it() {
        let login = ["db.example", "5432", "loops", "ada"];
        for (line, password) in [
            ("db.example:5432:loops:ada:pass:word", Some("pass:word")),
            (r"*:*:*:ada:p\:w\\d", Some(r"p:w\d")),
            ("#*:*:*:*:pass", None),
            ("db.example:5433:loops:ada:pass", None),
            ("*:*:*:ada", None),
        ] {
            assert_eq!(in_line(line, login).as_deref(), password, "{line}");
        }
    }
}
