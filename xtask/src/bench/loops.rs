//! Counts the instructions of a loop: with our runner, with a minimal loop by hand, and with a bare client that sends
//! the same bytes.
//!
//! 1. Run one loop of the load client against the server, and record the request bodies.
//! 2. Run each client under callgrind, with few and with many loops. The difference is the cost of the loops.
//!
//! Each program is a child process that ends when its handle is dropped, so none outlives the bench.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use xshell::Shell;

use super::{CALLGRIND, Programs, built, collected};
use crate::workspace::Failure;

/// The shape of a loop: its passes, and the calls of each pass but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    passes: u32,
    calls: u32,
}

const USUAL: Shape = Shape { passes: 5, calls: 3 };
/// The numbers of passes in the rows about growth.
const GROWTH: [u32; 2] = [8, 128];
/// The loops of the two runs whose counts are subtracted.
const COUNTED: [u32; 2] = [20, 220];
/// The same for loops with many passes.
const COUNTED_LONG: [u32; 2] = [2, 12];

/// The client to run.
#[derive(Clone, Copy, Debug)]
enum Client<'a> {
    /// Our runner with this journal: `none`, `memory`, or a file.
    Load { journal: &'a str },
    /// The minimal loop by hand, without our crates.
    ByHand,
    /// The bare client, which sends the bodies in this folder.
    Bare { bodies: &'a Path },
}

const OURS: Client<'static> = Client::Load { journal: "memory" };

pub(super) fn run(shell: &Shell) -> Result<(), Failure> {
    let folder = shell.create_temp_dir()?;
    let bench = Bench { programs: built(shell)?, folder: folder.path().to_owned() };
    println!(
        "{:44} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "M instructions", "ours", "by hand", "bare", "/by hand", "/bare"
    );
    let file = bench.folder.join("runs.db").display().to_string();
    let journals = [("none", "none"), ("memory", "memory"), ("in a file", &*file)];
    let rows = journals.map(|(name, journal)| (format!("a loop; journal: {name}"), USUAL, journal, COUNTED));
    let growth = GROWTH.map(|passes| {
        (format!("a loop of {passes} passes"), Shape { passes, ..USUAL }, "memory", COUNTED_LONG)
    });
    for (name, shape, journal, loops) in rows.into_iter().chain(growth) {
        let bodies = bench.record(shape)?;
        let server = Server::start(&bench.programs, shape, None)?;
        let clients = [Client::Load { journal }, Client::ByHand, Client::Bare { bodies: &bodies }];
        let [ours, by_hand, bare] =
            clients.map(|client| Ok::<f64, Failure>(bench.counted(&server, client, loops)? as f64 / 1e6));
        println!("{}", row(&name, ours?, by_hand?, bare?));
    }
    Ok(())
}

fn row(name: &str, ours: f64, by_hand: f64, bare: f64) -> String {
    let (to_by_hand, to_bare) = (ours / by_hand, ours / bare);
    format!("{name:44} {ours:>10.2} {by_hand:>10.2} {bare:>10.2} {to_by_hand:>8.2}x {to_bare:>8.2}x")
}

/// The instructions of a loop of each client: ours with each journal that costs no disk, by hand, and bare.
pub(super) fn counted(shell: &Shell, programs: &Programs) -> Result<Vec<(&'static str, u64)>, Failure> {
    let folder = shell.create_temp_dir()?;
    let bench = Bench { programs: programs.clone(), folder: folder.path().to_owned() };
    let bodies = bench.record(USUAL)?;
    let server = Server::start(&bench.programs, USUAL, None)?;
    let clients = [
        ("loop-journal-memory", OURS),
        ("loop-journal-none", Client::Load { journal: "none" }),
        ("loop-by-hand", Client::ByHand),
        ("loop-bare", Client::Bare { bodies: &bodies }),
    ];
    clients.into_iter().map(|(name, client)| Ok((name, bench.counted(&server, client, COUNTED)?))).collect()
}

struct Bench {
    programs: Programs,
    /// The folder of bodies and journals.
    folder: PathBuf,
}

impl Bench {
    /// The instructions of one loop.
    fn counted(&self, server: &Server, client: Client<'_>, [few, many]: [u32; 2]) -> Result<u64, Failure> {
        let count = |loops| {
            let reported = self.run(server, client, loops, /*is_counted*/ true)?;
            collected(&reported)
                .ok_or_else(|| Failure::Check(format!("valgrind counted nothing of {client:?}\n{reported}")))
        };
        // What a process does before its first loops is the same in both.
        Ok(count(many)?.saturating_sub(count(few)?) / u64::from(many - few))
    }

    /// Records the bodies of a loop of this shape in a folder.
    fn record(&self, shape: Shape) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(format!("{}x{}", shape.passes, shape.calls));
        if !folder.is_dir() {
            fs::create_dir_all(&folder)
                .map_err(|error| Failure::Check(format!("{}: {error}", folder.display())))?;
            let server = Server::start(&self.programs, shape, Some(&folder))?;
            self.run(&server, OURS, /*loops*/ 1, /*is_counted*/ false)?;
            if !folder.join(format!("{}.json", shape.passes)).is_file() {
                return Err(Failure::Check(format!("the loop ended before its pass {}", shape.passes)));
            }
        }
        Ok(folder)
    }

    /// Runs a client against this server, under callgrind if it is counted. Returns its standard error.
    ///
    /// # Errors
    /// A loop did not end as expected.
    fn run(
        &self,
        server: &Server,
        client: Client<'_>,
        loops: u32,
        is_counted: bool,
    ) -> Result<String, Failure> {
        let (program, arguments) = match client {
            Client::Load { journal } => {
                (&self.programs.load, vec!["--model", "bench-1", "--journal", journal])
            }
            Client::ByHand => (&self.programs.loops, vec!["by-hand"]),
            Client::Bare { bodies } => {
                (&self.programs.loops, vec!["bare", "--bodies", bodies.to_str().unwrap_or_default()])
            }
        };
        let mut command = Command::new(if is_counted { Path::new("valgrind") } else { program });
        if is_counted {
            command.args(CALLGRIND).arg(program);
        }
        command.args(arguments).args(["--base-url", server.base_url.trim(), "--loops", &loops.to_string()]);
        let output = command.output().map_err(|error| cannot("run a client", error))?;
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(reported),
            false => Err(Failure::Check(format!("{client:?} failed\n{reported}"))),
        }
    }
}

/// The server process, which ends when this is dropped.
struct Server {
    child: Child,
    base_url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the server. With `record`, it writes the received bodies there.
    fn start(programs: &Programs, shape: Shape, record: Option<&Path>) -> Result<Self, Failure> {
        let mut command = Command::new(&programs.loops);
        command.args(["serve", "--passes", &shape.passes.to_string(), "--calls", &shape.calls.to_string()]);
        if let Some(folder) = record {
            command.arg("--record").arg(folder);
        }
        // It ends when its input does, so it cannot outlive this process either.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut server = Self {
            child: child.map_err(|error| cannot("start the server", error))?,
            base_url: String::new(),
        };
        if let Some(stdout) = server.child.stdout.take() {
            let reported = BufReader::new(stdout).read_line(&mut server.base_url);
            reported.map_err(|error| cannot("read the server's address", error))?;
        }
        Ok(server)
    }
}

fn cannot(what: &str, error: std::io::Error) -> Failure {
    Failure::Check(format!("cannot {what}: {error}"))
}
