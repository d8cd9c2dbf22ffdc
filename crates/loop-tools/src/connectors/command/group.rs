//! A program and everything that it starts, as one process group that ends as one.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Pid, Signal, kill_process_group};

/// The process group of one call. Its number is used only while it cannot mean another group: until the leader, which is
/// kept as a zombie for that, is reaped.
#[derive(Clone, Debug)]
pub(crate) struct ProcessGroup(Arc<Mutex<GroupState>>);

/// The groups of all calls of this process that are not over.
static LIVE: Mutex<Vec<Weak<Mutex<GroupState>>>> = Mutex::new(Vec::new());

#[derive(Debug, Default)]
enum GroupState {
    #[default]
    NotBegun,
    Running(Pid),
    /// It was killed before it began, or it has been reaped.
    Over,
}

/// Kills the group when it is dropped.
#[derive(Debug)]
pub(crate) struct KillOnDrop(pub(crate) ProcessGroup);

/// Kills all programs that command tools have started, with their groups. Call it when the process ends, because values
/// that are dropped with a runtime may be dropped too late.
pub fn kill_commands() {
    let live: Vec<_> = live().iter().filter_map(Weak::upgrade).collect();
    for group in live {
        ProcessGroup(group).kill();
    }
}

fn live() -> MutexGuard<'static, Vec<Weak<Mutex<GroupState>>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessGroup {
    /// A group that has not begun.
    pub(crate) fn new() -> Self {
        let group = Self(Arc::default());
        let mut live = live();
        live.retain(|other| other.strong_count() > 0);
        live.push(Arc::downgrade(&group.0));
        group
    }

    /// Starts the program, which must be the leader of a group of its own. `None`: the group was killed before.
    pub(crate) fn begin(&self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Option<Child>> {
        let mut state = self.state();
        if !matches!(*state, GroupState::NotBegun) {
            return Ok(None);
        }
        // A kill that comes now waits, and finds the group.
        let child = spawn()?;
        *state = GroupState::Running(Pid::from_child(&child));
        Ok(Some(child))
    }

    /// Kills everything in the group, and lets nothing begin any more.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        match *state {
            GroupState::NotBegun => *state = GroupState::Over,
            GroupState::Running(leader) => kill_all(leader),
            GroupState::Over => {}
        }
    }

    /// Kills what is left of the group, and reaps its leader.
    pub(crate) fn end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut state = self.state();
        if let GroupState::Running(leader) = *state {
            kill_all(leader);
        }
        *state = GroupState::Over;
        child.wait()
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn kill_all(leader: Pid) {
    // The group may be empty already but for the zombie, which is no failure.
    let _ = kill_process_group(leader, Signal::KILL);
}
