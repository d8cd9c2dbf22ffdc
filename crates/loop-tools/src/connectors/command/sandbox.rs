//! What a program may do beyond its arguments: no new rights, and only the folders that it is given.

use std::io;
use std::path::PathBuf;
use std::thread;

/// The folders that a sandboxed program may use, besides those of the system that every program needs to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxFolders {
    /// Folders and files that it may read and run.
    pub read: Vec<PathBuf>,
    /// Folders and files that it may read and change as well.
    pub write: Vec<PathBuf>,
}

/// How much of a sandbox the system enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxSupport {
    /// All of it is enforced.
    Full,
    /// The kernel is too old for a part of it.
    Partial,
    /// The kernel, or the system, has no Landlock: nothing is enforced.
    None,
}

/// A sandbox that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is nothing to enforce it with"))]
    folders: SandboxFolders,
}

impl Sandbox {
    /// The sandbox of a program that works in `folder`.
    pub(crate) fn new(mut folders: SandboxFolders, program: PathBuf, folder: PathBuf) -> Self {
        folders.read.extend([program, folder]);
        Self { folders }
    }
}

impl SandboxSupport {
    /// What this system enforces, found out by a trial on a thread of its own.
    pub fn of_this_system() -> Self {
        let tried = thread::spawn(|| enforce(&SandboxFolders::default()));
        tried.join().ok().and_then(Result::ok).unwrap_or(Self::None)
    }
}

/// Takes from this thread, and from all that it starts, the way to new rights, and everything outside of the sandbox.
/// There is no way back, so the thread must end with its program.
pub(crate) fn restrict_thread(sandbox: Option<&Sandbox>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::thread::set_no_new_privs(true)?;
    if let Some(sandbox) = sandbox {
        // Where it is not enforced, that was said when the tool was made.
        enforce(&sandbox.folders)?;
    }
    Ok(())
}

/// What every dynamically linked program needs: libraries, names of users and hosts, certificates, time zones.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/localtime",
    "/etc/ssl",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];

#[cfg(target_os = "linux")]
fn enforce(folders: &SandboxFolders) -> io::Result<SandboxSupport> {
    use landlock::{
        ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
        path_beneath_rules,
    };

    // What was tested. Older kernels keep a part of it, and say so.
    const FILES: ABI = ABI::V5;
    const SCOPES: ABI = ABI::V6;
    let restricted = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(FILES))?
            .scope(Scope::from_all(SCOPES))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, AccessFs::from_read(FILES)))?
            .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_all(FILES)))?
            .add_rules(path_beneath_rules(&folders.read, AccessFs::from_read(FILES)))?
            .add_rules(path_beneath_rules(&folders.write, AccessFs::from_all(FILES)))?
            .restrict_self()
    };
    let restricted = restricted().map_err(io::Error::other)?;
    Ok(match restricted.ruleset {
        RulesetStatus::FullyEnforced => SandboxSupport::Full,
        RulesetStatus::PartiallyEnforced => SandboxSupport::Partial,
        RulesetStatus::NotEnforced => SandboxSupport::None,
    })
}

#[cfg(not(target_os = "linux"))]
fn enforce(_: &SandboxFolders) -> io::Result<SandboxSupport> {
    Ok(SandboxSupport::None)
}
