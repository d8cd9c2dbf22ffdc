//! The command itself, killed at random instants: a conversation over the wire with tools over HTTP.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::case::{GRACE, Played};
use crate::check::{ANY, check};
use crate::journal::CrashPoint;
use crate::suite::{Dice, Extent, Totals, Wholes};

/// The domain of the command: its model and its tools are the server of the case.
fn domain(folder: &Path, address: &str) {
    let tool = |name: &str, effect: &str| {
        let request = if effect == "read" {
            "query = { target = \"{target}\" }".to_owned()
        } else {
            "method = \"POST\"\nbody = { target = \"{target}\" }".to_owned()
        };
        format!(
            "[tools.{name}]\nkind = \"http\"\neffect = \"{effect}\"\ndescription = \"Does one thing\"\n\
             [tools.{name}.parameters.target]\ndescription = \"A name\"\n\
             [tools.{name}.http]\nurl = \"http://{address}/{name}\"\nprivate = [\"{address}\"]\nplain_http = true\n{request}\n"
        )
    };
    let text = format!(
        "version = 1\nname = \"desk\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n\
         [gate]\napproved = [\"*\"]\n[models.base]\nprovider = \"compatible\"\nmodel = \"m\"\n\
         base_url = \"http://{address}/v1\"\n{}{}{}",
        tool("find", "read"),
        tool("note", "write_keyed"),
        tool("pay", "write_irreversible")
    );
    std::fs::write(folder.join("loopgate.toml"), text).unwrap();
}

/// `loopgate run`, or `loopgate resume` where a run is in the journal.
fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopgate"));
    let journal = folder.join("loopgate/journal.db");
    let has_run =
        rusqlite::Connection::open_with_flags(&journal, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| {
                connection.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, u32>(0))
            })
            .is_ok_and(|runs| runs > 0);
    if has_run {
        command.args(["resume", "last"]);
    } else {
        command.args(["run", &folder.display().to_string(), "--text", "Do it.", "--events"]);
    }
    command.current_dir(folder).env("XDG_STATE_HOME", folder);
    command
}

fn play(kills: &[u64], totals: &Mutex<Totals>) {
    let folder = tempfile::tempdir().unwrap();
    let mut played = Played::new(folder.path().join("loopgate/journal.db"));
    domain(folder.path(), &played.server.address);
    for micros in kills {
        played.process(command(folder.path()), CrashPoint::Timer(*micros), GRACE);
    }
    let ended = played.process(command(folder.path()), CrashPoint::Never, GRACE);
    // 0: it ended; 7: an effect is in doubt; 1: the run was over before.
    if !matches!(ended.status.code(), Some(0 | 7)) && !ended.err.contains("is over") {
        played.problems.push(format!("the command ended with {}: {}", ended.status, ended.err));
    }
    let found = check(&mut played, &[ANY]);
    let mut problems = std::mem::take(&mut played.problems);
    if let Some(end) = found.ends.get(ANY)
        && end["reason"] != "completed"
    {
        problems.push(format!("it ended otherwise: {end}"));
    }
    totals.lock().unwrap().add(
        &format!("the command after {kills:?} microseconds"),
        &played,
        &found,
        &problems,
    );
}

/// H1: `loopgate run` and `loopgate resume` are killed at random instants.
pub fn killed(extent: Extent, _: &Wholes) -> Totals {
    let totals = Mutex::new(Totals::default());
    let started = Instant::now();
    play(&[], &totals);
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap();
    let count = if extent.full { 200 } else { 4 };
    thread::scope(|scope| {
        for worker in 0..2 {
            let totals = &totals;
            scope.spawn(move || {
                let mut dice = Dice::new(extent, &format!("command {worker}"));
                for _ in 0..count / 2 {
                    play(&[dice.below(micros), dice.below(micros)], totals);
                }
            });
        }
    });
    totals.into_inner().unwrap()
}
