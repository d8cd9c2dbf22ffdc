//! `cargo xtask browser`: tests the server's pages in headless Chromium, with the scripts in
//! `crates/loop-server/tests/browser`.

use std::path::{Path, PathBuf};

use xshell::{Shell, cmd};

use crate::fetching::fetch;
use crate::workspace::{self, Failure};

/// The folder of the scripts.
const SCRIPTS: &str = "crates/loop-server/tests/browser";
/// The folder in which they run, with npm packages.
const FOLDER: &str = "target/browser";
/// The folder of the docs' pictures.
const PICTURES: &str = "docs/pictures";
/// The environment variable that skips the step if Chromium is not installed.
const SKIPS: &str = "LOOPGATE_SKIP_BROWSER";
/// The most bytes of a picture.
const MAX_PICTURE_BYTES: u64 = 150_000;

/// Builds the command with its server and runs the scripts. It is not built if `built` or `LOOPGATE_BINARY` names a
/// program. `write` makes the docs' pictures again.
pub(crate) fn run(write: bool, built: Option<&str>) -> Result<(), Failure> {
    let root = workspace::root();
    let shell = Shell::new()?;
    shell.change_dir(root);
    let Some(folder) = prepared(&shell)? else { return Ok(()) };
    let binary = match (std::env::var_os("LOOPGATE_BINARY"), built) {
        (Some(binary), _) => PathBuf::from(binary),
        (None, Some(built)) => root.join(built),
        (None, None) => {
            cmd!(shell, "cargo build --locked -p loopgate --features server").run()?;
            root.join("target/debug/loopgate")
        }
    };
    let pictures = root.join(PICTURES);
    if write {
        shell.create_dir(&pictures)?;
    }
    for name in ["pages.mjs", "serve.mjs"] {
        let file = folder.join(name);
        let mut script =
            cmd!(shell, "node {file}").env("LOOPGATE_ROOT", root).env("LOOPGATE_BINARY", &binary);
        if write {
            script = script.env("LOOPGATE_PICTURES", &pictures);
        }
        script.run()?;
    }
    small(&pictures)
}

/// Looks at a share of the pages of the documentation's site, or at `all`.
pub(crate) fn look_at_site(site: &Path, all: bool) -> Result<(), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    if let Some(folder) = prepared(&shell)? {
        let (file, share) = (folder.join("site.mjs"), if all { "all" } else { "share" });
        cmd!(shell, "node {file} {site} {share}").run()?;
    }
    Ok(())
}

/// The folder with the scripts and their packages. None: there is no browser, and that is accepted.
fn prepared(shell: &Shell) -> Result<Option<PathBuf>, Failure> {
    if !has_chromium() {
        if std::env::var_os(SKIPS).is_some() {
            println!("browser: skipped, for Chromium is not installed and {SKIPS} is set");
            return Ok(None);
        }
        let message = format!(
            "browser: Chromium is not installed; install Debian's packages chromium, nodejs and npm, name it in CHROMIUM, or set {SKIPS}=1 to skip this step"
        );
        return Err(Failure::Check(message));
    }
    let folder = workspace::root().join(FOLDER);
    shell.create_dir(&folder)?;
    for file in shell.read_dir(SCRIPTS)? {
        if let Some(name) = file.file_name() {
            shell.copy_file(&file, folder.join(name))?;
        }
    }
    let lock = "package-lock.json";
    // Only another lock makes the packages anew.
    let (wanted, mark) = (shell.read_file(folder.join(lock))?, folder.join("installed"));
    if shell.read_file(&mark).ok().as_ref() != Some(&wanted) {
        let _here = shell.push_dir(&folder);
        fetch(&cmd!(shell, "npm ci --loglevel=error --no-audit --no-fund --ignore-scripts"))?;
        shell.write_file(&mark, &wanted)?;
    }
    Ok(Some(folder))
}

/// Whether the scripts find a browser.
fn has_chromium() -> bool {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].map(PathBuf::from);
    named.into_iter().chain(usual).any(|file| file.exists())
}

/// Fails if a picture is large.
fn small(pictures: &Path) -> Result<(), Failure> {
    for file in workspace::files_below(pictures, "png")? {
        let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
        if bytes > MAX_PICTURE_BYTES {
            let (file, most) = (file.display(), MAX_PICTURE_BYTES);
            return Err(Failure::Check(format!("browser: {file} has {bytes} bytes, more than {most}")));
        }
    }
    Ok(())
}
