//! `cargo xtask bench loop`: what our loop costs compared with a client that has none, and with a lean loop by hand.
//!
//! 1. Build the load client, and the server and the other clients, optimised as a user's program is by default.
//! 2. Let the load client run one loop of each shape, and keep the bodies that it sends.
//! 3. Let the clients take turns against the same server, and compare the turns of one round with each other.

pub(super) mod programs;

use std::fs;
use std::path::{Path, PathBuf};

use xshell::Shell;

use self::programs::{Client, Line, Place, Server, Shape, Work};
use super::{Programs, built, has_valgrind};
use crate::workspace::{self, Failure};

/// The shape that most rows are about.
const USUAL: Shape = Shape { passes: 5, calls: 3, delay_ms: 0, pace_ms: 0 };
/// Passes of the rows about growth.
const GROWTH: [u32; 4] = [2, 8, 32, 128];
/// How long a tool takes in the row about tools side by side.
const TOOL_MS: u32 = 40;
/// Loops of the two runs whose instructions are subtracted from each other.
const COUNTED: [u32; 2] = [20, 220];
/// Our client, as its users have it.
const OURS: Client<'static> = Client::Load { journal: "memory", tool_ms: 0 };

pub(super) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let folder = shell.create_temp_dir()?;
    let bench = Bench { programs: built(&shell)?, folder: folder.path().to_owned() };
    println!("{:44} {:>11} {:>11} {:>11} {:>9} {:>9}", "", "load", "by hand", "bare", "/by hand", "/bare");
    bench.usual()?;
    if has_valgrind(&shell) {
        bench.instructions()?;
    } else {
        println!("{:44} valgrind is not here", "M instructions a loop");
    }
    bench.journal_in_a_file()?;
    bench.in_the_root_future()?;
    bench.event_by_event()?;
    bench.many_at_once()?;
    bench.memory()?;
    bench.tools_side_by_side()?;
    bench.growth()
}

/// The instructions of a loop of each client: ours with each journal that costs no disk, by hand, and bare.
pub(super) fn counted(shell: &Shell, programs: &Programs) -> Result<Vec<(&'static str, u64)>, Failure> {
    let folder = shell.create_temp_dir()?;
    let bench = Bench { programs: programs.clone(), folder: folder.path().to_owned() };
    let bodies = bench.record(USUAL)?;
    let server = Server::start(&bench.programs, USUAL, None)?;
    let clients = [
        ("loop-journal-memory", OURS),
        ("loop-journal-none", Client::Load { journal: "none", tool_ms: 0 }),
        ("loop-by-hand", Client::ByHand),
        ("loop-bare", Client::Bare { bodies: &bodies }),
    ];
    clients.into_iter().map(|(name, client)| Ok((name, bench.counted(&server, client)?))).collect()
}

struct Bench {
    programs: Programs,
    /// Where bodies and journals are.
    folder: PathBuf,
}

/// The turns of the clients in one round.
#[derive(Clone, Copy)]
struct Round {
    ours: Line,
    by_hand: Line,
    bare: Line,
}

/// What our loop, the lean loop by hand and the bare client took.
#[derive(Clone, Copy)]
struct Compared {
    ours: f64,
    by_hand: f64,
    bare: f64,
}

impl Round {
    fn compared(&self, value: impl Fn(&Line) -> f64) -> Compared {
        Compared { ours: value(&self.ours), by_hand: value(&self.by_hand), bare: value(&self.bare) }
    }
}

impl Bench {
    /// 5 passes of 3 tools, one loop after the other.
    fn usual(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        let server = Server::start(&self.programs, USUAL, None)?;
        let work = Work { loops: 200, concurrency: 1, warmup: 40 };
        let file = self.folder.join("runs.db").display().to_string();
        let journals =
            [("none", 5, work), ("memory", 7, work), (file.as_str(), 3, Work { loops: 40, ..work })];
        for (journal, rounds, work) in journals {
            let ours = Client::Load { journal, tool_ms: 0 };
            let rounds = self.rounds(&server, rounds, ours, &bodies, work)?;
            let journal = if journal == file { "in a file" } else { journal };
            row(&format!("CPU a loop, us; journal: {journal}"), &rounds, Line::cpu_us);
            if journal == "memory" {
                let wait = |line: &Line| line.wall_us() / f64::from(USUAL.passes);
                row("time a pass, us", &rounds, wait);
                let added = median(rounds.iter().map(|round| wait(&round.ours) - wait(&round.bare)));
                println!("{:44} {added:>11.1}", "  of it added by the loop");
                row("first text after, ms", &rounds, |line| line.ttft_ms.unwrap_or(f64::NAN));
            }
        }
        let rounds = self.rounds(&server, 5, Client::LeastLoop, &bodies, work)?;
        row("CPU a loop, us; by hand over our client", &rounds, Line::cpu_us);
        Ok(())
    }

    /// The same with a journal in a file, by what is synced: beside the journal in memory, and 200 runs at once.
    fn journal_in_a_file(&self) -> Result<(), Failure> {
        let server = Server::start(&self.programs, USUAL, None)?;
        let one = Work { loops: 100, concurrency: 1, warmup: 20 };
        let many = Work { loops: 1_000, concurrency: 200, warmup: 200 };
        for sync in ["effects", "full", "none"] {
            let file = self.folder.join(format!("{sync}.db")).display().to_string();
            let client = Client::File { journal: &file, sync };
            let (mut ratios, mut syncs, mut events) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..3 {
                let file = server.ask(&self.programs, client, one)?;
                let memory = server.ask(&self.programs, OURS, one)?;
                ratios.push(file.cpu_us() / memory.cpu_us());
                syncs.extend(file.syncs.map(|syncs| syncs / file.loops));
                let file = server.ask(&self.programs, client, many)?;
                events.extend(file.entries.map(|entries| entries / file.wall_s));
            }
            println!("journal in a file, synced: {sync}");
            let [ratio, syncs, events] = [ratios, syncs, events].map(|values| median(values.into_iter()));
            println!("{:44} {ratio:>11.2}", "  CPU a loop, in loops with one in memory");
            println!("{:44} {syncs:>11.1}", "  syncs a loop");
            println!("{:44} {events:>11.0}", "  entries a second, 200 runs at once");
        }
        Ok(())
    }

    /// Millions of instructions a loop, which a busy machine does not change.
    fn instructions(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        let server = Server::start(&self.programs, USUAL, None)?;
        let millions = |client| Ok::<f64, Failure>(self.counted(&server, client)? as f64 / 1e6);
        let (by_hand, bare) = (millions(Client::ByHand)?, millions(Client::Bare { bodies: &bodies })?);
        for journal in ["none", "memory"] {
            let ours = millions(Client::Load { journal, tool_ms: 0 })?;
            let name = format!("M instructions a loop; journal: {journal}");
            println!("{}", shown(&name, Compared { ours, by_hand, bare }));
        }
        Ok(())
    }

    /// The instructions of one loop.
    fn counted(&self, server: &Server, client: Client<'_>) -> Result<u64, Failure> {
        let [few, many] = COUNTED.map(|loops| {
            server.instructions(&self.programs, client, Work { loops, concurrency: 1, warmup: 0 })
        });
        // What a process does before its first loops is the same in both.
        Ok(many?.saturating_sub(few?) / u64::from(COUNTED[1] - COUNTED[0]))
    }

    /// The same on two threads: awaited in the root future of the runtime, in place of a task.
    fn in_the_root_future(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        let server = Server::start(&self.programs, USUAL, None)?;
        let work = Work { loops: 200, concurrency: 1, warmup: 40 };
        let times = |client| {
            let ratios = (0..3).map(|_| {
                let [root, task] = [Place::Root, Place::Task]
                    .map(|place| server.ask_at(place, &self.programs, client, work));
                Ok::<f64, Failure>(root?.cpu_us() / task?.cpu_us())
            });
            Ok::<f64, Failure>(median(ratios.collect::<Result<Vec<f64>, Failure>>()?.into_iter()))
        };
        let [ours, by_hand, bare] = [OURS, Client::ByHand, Client::Bare { bodies: &bodies }].map(times);
        let compared = Compared { ours: ours?, by_hand: by_hand?, bare: bare? };
        println!("{}", shown("CPU in the root future, in loops in a task", compared));
        Ok(())
    }

    /// The same as providers send it, one event after the other.
    fn event_by_event(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        let server = Server::start(&self.programs, Shape { pace_ms: 1, ..USUAL }, None)?;
        let rounds =
            self.rounds(&server, 3, OURS, &bodies, Work { loops: 200, concurrency: 32, warmup: 32 })?;
        row("CPU a loop, us; each event by itself", &rounds, Line::cpu_us);
        Ok(())
    }

    /// The same, 64 at once.
    fn many_at_once(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        let server = Server::start(&self.programs, USUAL, None)?;
        let work = Work { loops: 1_000, concurrency: 64, warmup: 64 };
        let rounds = self.rounds(&server, 5, OURS, &bodies, work)?;
        row("loops a second, 64 at once", &rounds, |line| line.loops / line.wall_s);
        row("CPU a loop, us; 64 at once", &rounds, Line::cpu_us);
        Ok(())
    }

    /// What a loop in flight holds: the peak with 1,000 of them against the peak with one.
    fn memory(&self) -> Result<(), Failure> {
        let bodies = self.record(USUAL)?;
        // All have begun before the first reply comes.
        let server = Server::start(&self.programs, Shape { delay_ms: 1_000, ..USUAL }, None)?;
        let one = Work { loops: 1, concurrency: 1, warmup: 0 };
        let many = Work { loops: 1_000, concurrency: 1_000, warmup: 0 };
        let mut kilobytes = Vec::new();
        let without = Client::Load { journal: "none", tool_ms: 0 };
        for client in [OURS, without, Client::ByHand, Client::Bare { bodies: &bodies }] {
            let (least, max) =
                (server.ask(&self.programs, client, one)?, server.ask(&self.programs, client, many)?);
            kilobytes.push((max.peak_rss_kb - least.peak_rss_kb) / f64::from(many.loops));
        }
        if let [ours, without, by_hand, bare] = *kilobytes {
            println!("{}", shown("KB a loop, 1,000 at once", Compared { ours, by_hand, bare }));
            let without = Compared { ours: without, by_hand, bare };
            println!("{}", shown("KB a loop, 1,000 at once; journal: none", without));
        }
        Ok(())
    }

    /// How long a pass takes when each of its tools takes a while.
    fn tools_side_by_side(&self) -> Result<(), Failure> {
        let server = Server::start(&self.programs, USUAL, None)?;
        let work = Work { loops: 20, concurrency: 10, warmup: 0 };
        let line = server.ask(&self.programs, Client::Load { journal: "memory", tool_ms: TOOL_MS }, work)?;
        let passes = f64::from(work.loops / work.concurrency * (USUAL.passes - 1));
        let times = line.wall_s * 1e3 / passes / f64::from(TOOL_MS);
        println!("{:44} {times:>11.2}", format!("time of {} tools of a pass, in tools", USUAL.calls));
        Ok(())
    }

    /// CPU a pass, as a history grows.
    fn growth(&self) -> Result<(), Failure> {
        for passes in GROWTH {
            let shape = Shape { passes, ..USUAL };
            let bodies = self.record(shape)?;
            let server = Server::start(&self.programs, shape, None)?;
            let work =
                Work { loops: (800 / passes).clamp(4, 200), concurrency: 1, warmup: (80 / passes).max(1) };
            let rounds = self.rounds(&server, 5, OURS, &bodies, work)?;
            row(&format!("CPU a pass, us; {passes} passes"), &rounds, |line| {
                line.cpu_us() / f64::from(passes)
            });
        }
        Ok(())
    }

    /// The bodies of a loop of this shape, in a folder of their own.
    fn record(&self, shape: Shape) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(format!("{}x{}", shape.passes, shape.calls));
        let failed = |error| Failure::Check(format!("{}: {error}", folder.display()));
        if !folder.is_dir() {
            fs::create_dir_all(&folder).map_err(failed)?;
            let server = Server::start(&self.programs, shape, Some(&folder))?;
            let line = server.ask(&self.programs, OURS, Work { loops: 1, concurrency: 1, warmup: 0 })?;
            let expected = f64::from((shape.passes - 1) * shape.calls);
            if line.tool_calls != expected {
                let message = format!("{} tools were run in place of {expected}", line.tool_calls);
                return Err(Failure::Check(message));
            }
        }
        Ok(folder)
    }

    /// The clients in turns.
    fn rounds(
        &self,
        server: &Server,
        rounds: u32,
        ours: Client<'_>,
        bodies: &Path,
        work: Work,
    ) -> Result<Vec<Round>, Failure> {
        let turns = (0..rounds).map(|_| {
            let ours = server.ask(&self.programs, ours, work)?;
            let by_hand = server.ask(&self.programs, Client::ByHand, work)?;
            let bare = server.ask(&self.programs, Client::Bare { bodies }, work)?;
            Ok(Round { ours, by_hand, bare })
        });
        turns.collect()
    }
}

/// Prints the medians of what the clients took, and the medians of the rounds' ratios.
fn row(name: &str, rounds: &[Round], value: impl Fn(&Line) -> f64 + Copy) {
    let of = |part: fn(Compared) -> f64| median(rounds.iter().map(|round| part(round.compared(value))));
    let medians = Compared { ours: of(|it| it.ours), by_hand: of(|it| it.by_hand), bare: of(|it| it.bare) };
    println!("{}", line(name, medians, of(|it| it.ours / it.by_hand), of(|it| it.ours / it.bare)));
}

fn shown(name: &str, it: Compared) -> String {
    line(name, it, it.ours / it.by_hand, it.ours / it.bare)
}

fn line(name: &str, it: Compared, to_by_hand: f64, to_bare: f64) -> String {
    let Compared { ours, by_hand, bare } = it;
    let digits = usize::from(ours < 1_000.0) + usize::from(ours < 10.0);
    format!(
        "{name:44} {ours:>11.digits$} {by_hand:>11.digits$} {bare:>11.digits$} {to_by_hand:>8.2}x {to_bare:>8.2}x"
    )
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_medians_and_the_median_of_ratios() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        let row = |ours, by_hand, bare| shown("CPU", Compared { ours, by_hand, bare });
        let words = row(1_500.0, 2_000.0, 1_000.0);
        assert_eq!(
            words.split_whitespace().collect::<Vec<_>>(),
            ["CPU", "1500", "2000", "1000", "0.75x", "1.50x"]
        );
        assert!(row(0.5, 1.0, 0.25).contains("0.50"));
    }
}
