//! Faults of the file system under the journal: a disk that is full, one that is read-only, and system calls that fail or
//! are the last.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tempfile::TempDir;

use crate::case::{Around, Case, GRACE, Played};
use crate::check::check;
use crate::child::{STORAGE_FAILED, Task};
use crate::journal::{CrashPoint, Plant};
use crate::suite::{Extent, Totals, Wholes, play};

const SCENARIOS: [&str; 4] = ["irreversible", "two", "document", "save"];

/// A command that another one starts in its own place.
fn through(program: &str, args: &[String], inner: &Command) -> Command {
    let mut command = Command::new(program);
    command.args(args).arg(inner.get_program()).args(inner.get_args());
    command
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let ran = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// H4, H6: files that may not grow beyond a limit, and file systems that are full or read-only. The next process, which has
/// room, continues.
pub fn full_or_read_only(extent: Extent, wholes: &Wholes) -> Totals {
    let totals = Mutex::new(Totals::default());
    // The journal's files take about 100 KB.
    let limits: Vec<u64> = if extent.full { (0..60).map(|step| step * 4).collect() } else { vec![16, 72] };
    for (at, kilobytes) in limits.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let limit = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$0\" \"$@\"");
        let wrap = |command: Command| through("bash", &["-c".to_owned(), limit.clone()], &command);
        let case = Case::at(SCENARIOS[at % SCENARIOS.len()], &[CrashPoint::Never]);
        play(&case, folder.path(), Some(Around { wrap: &wrap, heal: &|| () }), wholes, &totals);
    }
    if !extent.full {
        return totals.into_inner().unwrap();
    }
    for size in (16..=400).step_by(8) {
        let Some(folder) = mounted(&format!("{size}k")) else {
            totals.lock().unwrap().left_out.push("full file systems: `mount` is for root alone".to_owned());
            break;
        };
        let heal = || remount(folder.path(), "size=64m");
        let case = Case::at(SCENARIOS[size / 8 % SCENARIOS.len()], &[CrashPoint::Never]);
        play(&case, folder.path(), Some(Around { wrap: &|command| command, heal: &heal }), wholes, &totals);
        unmount(folder.path());
    }
    read_only(wholes, &totals);
    totals.into_inner().unwrap()
}

/// A file system in memory of this size.
fn mounted(size: &str) -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    succeeds("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", path]).then_some(folder)
}

fn remount(folder: &Path, options: &str) {
    assert!(succeeds("mount", &["-o", &format!("remount,{options}"), folder.to_str().unwrap()]), "{options}");
}

/// H6: a file system that is read-only from the start, and one that is behind some entries.
fn read_only(wholes: &Wholes, totals: &Mutex<Totals>) {
    let (Some(fresh), Some(begun)) = (mounted("64m"), mounted("64m")) else {
        totals.lock().unwrap().left_out.push("read-only file systems: `mount` is for root alone".to_owned());
        return;
    };
    remount(fresh.path(), "ro");
    let heal = || remount(fresh.path(), "rw");
    let around = Around { wrap: &|command| command, heal: &heal };
    if !play(&Case::at("irreversible", &[CrashPoint::Never]), fresh.path(), Some(around), wholes, totals) {
        let problem = "a run began on a read-only file system".to_owned();
        totals.lock().unwrap().problems.push(problem);
    }
    unmount(fresh.path());

    let mut played = Played::new(begun.path().join("journal.db"));
    let mut process = |place: CrashPoint| {
        let task = Task {
            scenario: "irreversible",
            address: played.server.address.clone(),
            journal: played.journal.display().to_string(),
            place,
            mark: played.mark.clone(),
            plant: Plant::Nothing,
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(task.args());
        let ended = played.process(command, place, GRACE);
        (ended, played.server.hits().len())
    };
    let (_, before) = process(CrashPoint::After(5));
    remount(begun.path(), "ro");
    let (refused, after) = process(CrashPoint::Never);
    remount(begun.path(), "rw");
    process(CrashPoint::Never);
    if refused.status.code() != Some(STORAGE_FAILED) || before != after {
        played.problems.push(format!("a run was driven on a read-only file system: {refused:?}"));
    }
    let found = check(&mut played, &["A"]);
    let problems = std::mem::take(&mut played.problems);
    totals.lock().unwrap().add("read-only behind some entries", &played, &found, &problems);
    unmount(begun.path());
}

fn unmount(folder: &Path) {
    assert!(succeeds("umount", &[folder.to_str().unwrap()]), "{} stays mounted", folder.display());
}

/// H4, H5: the n-th system call of each kind on files fails, once or from then on, or is where the process is killed, for
/// every n that there is. This is below SQLite: between the bytes of one commit, before and after its sync.
pub fn system_calls(extent: Extent, wholes: &Wholes) -> Totals {
    let totals = Mutex::new(Totals::default());
    if !extent.full {
        return totals.into_inner().unwrap();
    }
    if !is_there("strace") {
        totals.lock().unwrap().left_out.push("system calls: `strace` is not installed".to_owned());
        return totals.into_inner().unwrap();
    }
    let faults = ["error=ENOSPC:when={}+", "error=EIO:when={}", "signal=SIGKILL:when={}"];
    for (calls, scenario) in [
        ("pwrite64", "irreversible"),
        ("fdatasync", "irreversible"),
        ("fsync", "two"),
        ("ftruncate", "two"),
        ("pwrite64", "two"),
        ("fdatasync", "two"),
    ] {
        for fault in faults {
            for n in 1..=MAX_CALLS {
                let folder = tempfile::tempdir().unwrap();
                let inject = format!("inject={calls}:{}", fault.replace("{}", &n.to_string()));
                let trace = format!("trace={calls}");
                let mut args =
                    ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject].map(str::to_owned).to_vec();
                // With it strace is faster and injects no signals.
                args.extend((!fault.starts_with("signal")).then(|| "--seccomp-bpf".to_owned()));
                let wrap = |command: Command| through("strace", &args, &command);
                let around = Around { wrap: &wrap, heal: &|| () };
                let case = Case::at(scenario, &[CrashPoint::Never]);
                if !play(&case, folder.path(), Some(around), wholes, &totals) && n > FEWEST_CALLS {
                    break;
                }
            }
        }
    }
    totals.into_inner().unwrap()
}

/// More calls of a kind than one thread of a process makes.
const MAX_CALLS: u32 = 400;
/// A fault that changes nothing ends the search only behind this: SQLite ignores some that fail.
const FEWEST_CALLS: u32 = 12;
