//! `cargo xtask bench eager`: how long a loop takes whose reads start before their reply is complete.
//!
//! The server streams slowly, and the tools take as long as the stream does. Without eager reads a loop takes both times,
//! with them at best the longer one. The last call of a reply cannot start before it is complete, so tools side by side
//! that all take as long as the stream gain nothing.

use xshell::Shell;

use super::loops::median;
use super::loops::programs::{Client, Server, Shape, Work};
use super::{Programs, built};
use crate::workspace::{self, Failure};

/// Each reply but the last requests 24 calls, and an event comes every 10 ms. The first call is complete soon after the reply
/// begins.
const PACED: Shape = Shape { passes: 3, calls: 24, delay_ms: 0, pace_ms: 10 };
/// One loop at a time, since only its time counts.
const WORK: Work = Work { loops: 2, concurrency: 1, warmup: 1 };
/// How often each is measured.
const ROUNDS: u32 = 3;

pub(super) fn run() -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let programs = built(&shell)?;
    let server = Server::start(&programs, PACED, None)?;
    println!(
        "{:22} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "ms a loop", "stream", "tools", "max", "off", "on", "on / max"
    );
    for (name, ordered) in [("one tool at a time", true), ("tools side by side", false)] {
        let stream = wall_ms(&programs, &server, Client::Early { tool_ms: 0, ordered, cheap: false })?;
        let replies = f64::from(PACED.passes - 1);
        let in_a_row = if ordered { f64::from(PACED.calls) } else { 1.0 };
        // The tools of a reply take as long as the reply.
        let tool_ms = (stream / f64::from(PACED.passes) / in_a_row).round() as u32;
        let tools = replies * in_a_row * f64::from(tool_ms);
        let off = wall_ms(&programs, &server, Client::Early { tool_ms, ordered, cheap: false })?;
        let on = wall_ms(&programs, &server, Client::Early { tool_ms, ordered, cheap: true })?;
        let max = stream.max(tools);
        println!("{name:22} {stream:>9.0} {tools:>9.0} {max:>9.0} {off:>9.0} {on:>9.0} {:>8.2}x", on / max);
    }
    Ok(())
}

/// Milliseconds that a loop takes, the median of all rounds.
fn wall_ms(programs: &Programs, server: &Server, client: Client<'_>) -> Result<f64, Failure> {
    let walls: Result<Vec<f64>, Failure> = (0..ROUNDS)
        .map(|_| {
            let line = server.ask(programs, client, WORK)?;
            let expected = f64::from(WORK.loops * (PACED.passes - 1) * PACED.calls);
            match line.tool_calls == expected {
                true => Ok(line.wall_s * 1e3 / line.loops),
                false => {
                    let message = format!("{} tools were run in place of {expected}", line.tool_calls);
                    Err(Failure::Check(message))
                }
            }
        })
        .collect();
    Ok(median(walls?.into_iter()))
}
