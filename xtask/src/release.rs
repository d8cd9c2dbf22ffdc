//! `cargo xtask release`: makes the files of a release for one platform, from a checkout or from a built program.
//!
//! This module decides names, versions, features and platforms from cargo's metadata. `xtask/release/pack.sh` makes the
//! packages, and `xtask/release/check.sh` installs each.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::flags::Release;
use crate::workspace::{self, Failure};

/// The features of a release build.
const FEATURES: &str = "http,command,files,postgres,mcp,mcp-server,server,otel";

/// The platforms: the target, the architecture for Debian and images (`-`: no such package), the platform of Node, and
/// the tag of a wheel. Windows is not among them, since the command uses signals and terminals of Unix.
const PLATFORMS: [[&str; 4]; 4] = [
    ["x86_64-unknown-linux-musl", "amd64", "linux-x64", "manylinux2014_x86_64.musllinux_1_1_x86_64"],
    ["aarch64-unknown-linux-musl", "arm64", "linux-arm64", "manylinux2014_aarch64.musllinux_1_1_aarch64"],
    ["x86_64-apple-darwin", "-", "darwin-x64", "macosx_10_12_x86_64"],
    ["aarch64-apple-darwin", "-", "darwin-arm64", "macosx_11_0_arm64"],
];

/// Makes the files. With `check`, installs each package and runs its first commands.
pub(crate) fn run(flags: &Release) -> Result<(), Failure> {
    let shell = Shell::new()?;
    let here = shell.current_dir();
    let root = workspace::root();
    shell.change_dir(root);
    let target = match &flags.target {
        Some(target) => target.clone(),
        None => default_target(&shell, flags.binary.is_some())?,
    };
    // The program of a Linux with its own C library is for that machine, and has the names of the static one.
    let is_own = target.ends_with("-gnu");
    let known = target.replace("-gnu", "-musl");
    let Some([_, debian, node, wheel]) = PLATFORMS.into_iter().find(|[name, ..]| *name == known) else {
        let names = PLATFORMS.map(|[name, ..]| name).join(", ");
        return Err(Failure::Usage(format!("--target {target}: the command is released for {names}")));
    };
    let own_wheel = format!("linux_{}", target.split('-').next().unwrap_or_default());
    let program = match &flags.binary {
        Some(program) => here.join(program),
        None => built(&shell, &target)?,
    };
    let out = match &flags.out {
        Some(out) => here.join(out),
        None => {
            // A folder of the user may have other files. This one has only what this run makes.
            let out = root.join("target/release-files");
            shell.remove_path(&out)?;
            out
        }
    };
    let package = package(&shell)?;
    let text = |pointer: &str| package.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/version");
    let filled = |pointer: &str| {
        let text = text(pointer).replace("{ version }", version).replace("{ target }", &target);
        text.replace("{ archive-suffix }", ".tgz").replace("{ bin }{ binary-ext }", "loopgate")
    };
    let work = root.join("target/release-work").join(&target);
    shell.remove_path(&work)?;
    let variables = [
        ("VERSION", version),
        ("TARGET", &target),
        ("NAME", &format!("loopgate-v{version}-{target}")),
        ("DEBIAN", debian),
        ("NODE", node),
        ("NODES", &PLATFORMS.map(|[_, _, node, _]| node).join(" ")),
        ("WHEEL", if is_own { &own_wheel } else { wheel }),
        ("LIBC", if is_own { "own" } else { "static" }),
        ("FEATURES", FEATURES),
        ("DESCRIPTION", text("/description")),
        ("LICENSE", text("/license")),
        ("REPOSITORY", text("/repository")),
        ("BINSTALL_URL", &filled("/metadata/binstall/pkg-url")),
        ("BINSTALL_BIN", &filled("/metadata/binstall/bin-dir")),
        // A program that is given is one of tests most likely: it is packed fast, and without what takes minutes to fetch.
        ("LEVEL", if flags.binary.is_some() { "1" } else { "9" }),
    ];
    for script in ["pack", "check"].into_iter().filter(|script| *script == "pack" || flags.check) {
        let folders = [("PROGRAM", &program), ("OUT", &out), ("WORK", &work)];
        cmd!(shell, "bash xtask/release/{script}.sh").envs(variables).envs(folders).quiet().run()?;
    }
    // A gigabyte of copies, which are left where something failed.
    Ok(shell.remove_path(&work)?)
}

/// The static target of this machine if it is installed and a program is to be built, else the default target.
fn default_target(shell: &Shell, is_given: bool) -> Result<String, Failure> {
    let rustc = cmd!(shell, "rustc --version --verbose").quiet().read()?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let fixed = host.replace("-gnu", "-musl");
    let folder = cmd!(shell, "rustc --print target-libdir --target {fixed}").quiet().read();
    let is_installed = folder.is_ok_and(|folder| Path::new(&folder).is_dir());
    Ok(if is_installed && !is_given { fixed } else { host.to_owned() })
}

/// Builds the program with the settings of a release.
fn built(shell: &Shell, target: &str) -> Result<PathBuf, Failure> {
    let features = ["--no-default-features", "--features", FEATURES];
    cmd!(shell, "cargo build --release --locked -p loopgate --target {target} {features...}").run()?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(workspace::root().join(folder).join(target).join("release/loopgate"))
}

/// The package `loopgate` of cargo's metadata.
fn package(shell: &Shell) -> Result<Value, Failure> {
    let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    let metadata: Option<Value> = serde_json::from_str(&metadata).ok();
    let mut packages = metadata.iter().filter_map(|it| it.get("packages")?.as_array()).flatten();
    let package = packages.find(|it| it.get("name").is_some_and(|name| name == "loopgate"));
    package
        .cloned()
        .ok_or_else(|| Failure::Check("release: cargo metadata has no package loopgate".to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_workflow_builds_each_platform_with_this_command() {
        let workflow = workspace::read(&workspace::root().join(".github/workflows/release.yml")).unwrap();
        let matrix = workflow.lines().filter_map(|line| line.trim().strip_prefix("- { target: "));
        let targets: Vec<&str> = matrix.filter_map(|row| row.split(',').next()).collect();
        assert_eq!(targets, PLATFORMS.map(|[target, ..]| target));
        assert!(workflow.contains("cargo xtask release --target ${{ matrix.target }} --check"));
    }
}
