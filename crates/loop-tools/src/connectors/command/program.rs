//! Which program a command tool runs: found once, pinned to its path, and not one that runs what it is given.

use std::env;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::connectors::error::ConnectorError;

/// Programs that take their argument for a script or for another program.
const RUN_ANYTHING: [&str; 28] = [
    "sh",
    "ash",
    "bash",
    "busybox",
    "cmd",
    "csh",
    "dash",
    "doas",
    "env",
    "fish",
    "ksh",
    "mksh",
    "nice",
    "nohup",
    "parallel",
    "powershell",
    "pwsh",
    "rbash",
    "script",
    "setsid",
    "stdbuf",
    "su",
    "sudo",
    "tcsh",
    "timeout",
    "toybox",
    "xargs",
    "zsh",
];
/// Programs that are many, each under a name of its own.
const MANY_IN_ONE: [&str; 2] = ["busybox", "toybox"];
/// Interpreters: the letters after which they take a script as an argument, those after which they take another value, and the
/// words that do as the first do.
const INTERPRETERS: [(&str, &str, &str, &[&str]); 10] = [
    ("bun", "ep", "r", &["--eval", "--print"]),
    ("deno", "", "", &["eval"]),
    ("lua", "e", "l", &[]),
    ("node", "ep", "Cr", &["--eval", "--print"]),
    ("nodejs", "ep", "Cr", &["--eval", "--print"]),
    ("perl", "eE", "CDFIMVimx", &[]),
    ("php", "rBRE", "cdfgSTtz", &["--run", "--process-begin", "--process-code", "--process-end"]),
    ("pypy", "c", "QWXm", &[]),
    ("python", "c", "QWXm", &[]),
    ("ruby", "e", "CEFIKTWirx", &[]),
];

/// The program at its absolute path.
///
/// # Errors
/// It is not there, cannot be run, or runs what it is given.
pub(crate) fn find(program: &str) -> Result<PathBuf, ConnectorError> {
    let wrong = |message: String| ConnectorError::Setting { key: "program", message };
    if program.is_empty() || program.contains(['\0', '{', '}']) {
        let message = format!(
            "`{program}` is not a program; write its name or its absolute path, without placeholders"
        );
        return Err(wrong(message));
    }
    let path = if program.contains('/') {
        let path = PathBuf::from(program);
        if !path.is_absolute() {
            return Err(wrong(format!(
                "`{program}` is a relative path; write the absolute one, or the name alone"
            )));
        }
        if !path.is_file() {
            return Err(wrong(format!("there is no program `{program}`; correct the path or install it")));
        }
        if !is_executable(&path) {
            return Err(wrong(format!(
                "`{program}` cannot be executed; make it executable, or correct the path"
            )));
        }
        path
    } else {
        in_path(program).ok_or_else(|| {
            wrong(format!("there is no program `{program}` in PATH; install it, or write its absolute path"))
        })?
    };
    if let Some(name) = runs_anything(&path) {
        let message = format!(
            "`{program}` is `{name}`, which runs what it is given; name the program itself, with its arguments in `args`"
        );
        return Err(wrong(message));
    }
    Ok(path)
}

/// Whether a caller would write a script where `option` comes before their value: in an argument of its own (`-c`,
/// `{a}`), or `joined` with it in the same one (`-c{a}`, `-Bc{a}`, `--eval={a}`).
pub(crate) fn takes_script_after(program: &Path, option: &str, joined: bool) -> bool {
    names(program).iter().any(|name| {
        let known = INTERPRETERS.iter().find(|(known, ..)| known == name);
        known.is_some_and(|(_, scripts, values, words)| {
            // Letters may be combined in one argument, until one that takes the rest for its value.
            let mut letters = option.strip_prefix('-').into_iter().flat_map(str::chars);
            let is_letter = |it: &char| it.is_ascii_alphanumeric() && !values.contains(*it);
            let is_script = letters.by_ref().take_while(is_letter).any(|letter| scripts.contains(letter));
            let word = option.split_once('=').filter(|_| joined).map_or(option, |(word, _)| word);
            words.contains(&word) || is_script && (joined || letters.all(|letter| scripts.contains(letter)))
        })
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // A relative folder in PATH would mean another program from another place.
    let mut folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.find_map(|folder| {
        let path = folder.join(name);
        (path.is_file() && is_executable(&path)).then_some(path)
    })
}

fn is_executable(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

/// The name under which the program is known to run what it is given. A link is known by what it leads to as well, unless
/// that is many programs in one, which act by the name of the link.
fn runs_anything(path: &Path) -> Option<String> {
    let names = names(path);
    let (own, real) = (names.first(), names.get(1).filter(|name| !MANY_IN_ONE.contains(&name.as_str())));
    own.into_iter().chain(real).find(|name| RUN_ANYTHING.contains(&name.as_str())).cloned()
}

/// The program's own name and that of the file that it leads to, in small letters, without version and `.exe`.
fn names(path: &Path) -> Vec<String> {
    let real = path.canonicalize().ok();
    let both = [Some(path), real.as_deref()].into_iter().flatten();
    both.filter_map(Path::file_name)
        .map(|name| {
            let name = name.to_string_lossy().to_lowercase();
            let name = name.strip_suffix(".exe").unwrap_or(&name);
            name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').to_owned()
        })
        .collect()
}
