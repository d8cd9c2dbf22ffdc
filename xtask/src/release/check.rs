//! Whether the files of a release can be installed: each into an empty folder, where its first commands are run.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xshell::{Shell, cmd};

use super::{Release, SUMS};
use crate::servers;
use crate::workspace::{self, Failure};

pub(super) fn run(shell: &Shell, release: &Release) -> Result<(), Failure> {
    let roots = release.work.join("check");
    checksums(shell, release)?;
    let root = |kind: &str| -> Result<PathBuf, Failure> { Ok(shell.create_dir(roots.join(kind))?) };
    let file = |end: &str| {
        let name = release.made.iter().find(|name| name.ends_with(end));
        name.map(|name| release.out.join(name))
    };

    let archive = root("archive")?;
    let packed = release.out.join(format!("{}.tgz", release.name()));
    cmd!(shell, "tar -xzf {packed} -C {archive}").quiet().run()?;
    let unpacked = archive.join(release.name());
    expect_files(&unpacked, &["completions/loopgate.zsh", "man/loopgate.1", "LICENSE-MIT", "README.md"])?;
    expect_binstall(release, &archive)?;
    first_commands(shell, release, "archive", &unpacked.join("loopgate"))?;

    if let Some(package) = file(".deb") {
        let root = root("debian")?;
        cmd!(shell, "dpkg-deb --extract {package} {root}").quiet().run()?;
        let usr = root.join("usr");
        let completions = "share/bash-completion/completions/loopgate";
        expect_files(&usr, &[completions, "share/man/man1/loopgate-run.1", "share/doc/loopgate/copyright"])?;
        first_commands(shell, release, "debian", &usr.join("bin/loopgate"))?;
    }
    if let Some(wheel) = file(".whl") {
        let (root, python) = (root("wheel")?, servers::pip(shell)?);
        cmd!(shell, "{python} -m pip install --quiet --no-index --no-deps --target {root} {wheel}")
            .quiet()
            .run()?;
        first_commands(shell, release, "wheel", &root.join("bin/loopgate"))?;
    }
    let all = format!("/loopgate-{}.tgz", release.version);
    if let Some(all) = release.made.iter().find(|name| all.ends_with(*name)) {
        let root = root("npm")?;
        let (system, processor) = release.platform.node;
        let own = release.out.join(format!("loopgate-{system}-{processor}-{}.tgz", release.version));
        let all = release.out.join(all);
        // Nothing is asked of the registry: the packages of other platforms are optional.
        cmd!(shell, "npm install --silent --offline --no-audit --no-fund --prefix {root} {own} {all}")
            .quiet()
            .run()?;
        first_commands(shell, release, "npm", &root.join("node_modules/.bin/loopgate"))?;
    }
    if let Some(bill) = file(".cdx.json") {
        let text = workspace::read(&bill)?;
        let bill: Option<Value> = serde_json::from_str(&text).ok();
        let components = bill.as_ref().and_then(|it| it.get("components")).and_then(Value::as_array);
        let has = |name: &str| {
            components.into_iter().flatten().any(|it| it.get("name").is_some_and(|it| it == name))
        };
        if let Some(lacks) = ["loop-core", "serde_json"].into_iter().find(|name| !has(name)) {
            return Err(Failure::Check(format!("release: the bill of materials lacks {lacks}")));
        }
    }
    let image = release.out.join("image").join(release.platform.debian);
    if release.is_static() {
        first_commands(shell, release, "image", &image.join("loopgate"))?;
    }
    println!("release: each package was installed and ran");
    Ok(())
}

fn checksums(shell: &Shell, release: &Release) -> Result<(), Failure> {
    let _there = shell.push_dir(&release.out);
    let (sums, options) = SUMS;
    Ok(cmd!(shell, "{sums} {options...} --check --quiet SHA256SUMS").quiet().run()?)
}

fn expect_files(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    match names.iter().find(|name| !folder.join(name).is_file()) {
        Some(name) => Err(Failure::Check(format!("release: {} is missing", folder.join(name).display()))),
        None => Ok(()),
    }
}

/// `cargo binstall` finds the archive and the program in it by what the crate's manifest says.
fn expect_binstall(release: &Release, unpacked: &Path) -> Result<(), Failure> {
    let said = |key: &str| {
        let text = release.package.pointer(&format!("/metadata/binstall/{key}")).and_then(Value::as_str);
        let text = text.unwrap_or_default().replace("{ version }", &release.version);
        let text = text.replace("{ target }", &release.target).replace("{ archive-suffix }", ".tgz");
        text.replace("{ bin }{ binary-ext }", "loopgate")
    };
    let (address, program) = (said("pkg-url"), said("bin-dir"));
    let is_made = release.made.iter().any(|name| address.ends_with(&format!("/{name}")));
    if is_made && unpacked.join(&program).is_file() {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "release: [package.metadata.binstall] of crates/loopgate/Cargo.toml names {address} and {program} in it, which are not made"
    )))
}

/// What the README begins with, for a user who has nothing but the program.
fn first_commands(shell: &Shell, release: &Release, kind: &str, program: &Path) -> Result<(), Failure> {
    let home = release.work.join("check").join(format!("{kind}-home"));
    shell.create_dir(&home)?;
    let _there = shell.push_dir(&home);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = |command: xshell::Cmd<'_>| -> Result<String, Failure> {
        let ended =
            command.env_clear().env("PATH", &path).env("HOME", &home).quiet().ignore_status().output()?;
        match ended.status.success() {
            true => Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned()),
            false => {
                Err(Failure::Check(format!("release: {kind}: {}", String::from_utf8_lossy(&ended.stderr))))
            }
        }
    };
    let version = own(cmd!(shell, "{program} --version"))?;
    let expected = format!("loopgate {}", release.version);
    if version != expected {
        return Err(Failure::Check(format!("release: {kind}: `{version}`, not `{expected}`")));
    }
    own(cmd!(shell, "{program} init my-desk --yes"))?;
    let items = shell.read_dir(home.join("my-desk/items"))?;
    let item = items.first().ok_or_else(|| Failure::Check("release: `init` made no item".to_owned()))?;
    let document = own(cmd!(shell, "{program} run my-desk {item}"))?;
    if !document.contains("\n## ") {
        return Err(Failure::Check(format!(
            "release: {kind}: `loopgate run` printed no document: {document}"
        )));
    }
    println!("release: {kind}: {version} made a domain and ran it");
    Ok(())
}
