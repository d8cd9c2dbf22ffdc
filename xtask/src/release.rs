//! `cargo xtask release`: the files of a release for one platform, from a checkout or around a program that is built.
//!
//! Each package has the same program: an archive for people and `cargo binstall`, a package for Debian, a wheel for PyPI, two
//! packages for npm, and the folder that an image is built from. Names, versions and texts come from cargo's metadata.

mod check;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use xshell::{Shell, cmd};

use crate::workspace::{self, Failure};

/// What a release is built with.
const FEATURES: &str = "http,command,files,postgres,mcp,mcp-server,server,otel";
/// Where packages are put together, and installed to be checked: a folder for each target.
const WORK: &str = "target/release-work";
/// Where the texts of packages are.
const TEXTS: &str = "xtask/release";
/// The name on PyPI, where another project has the command's own.
const PYPI: &str = "loopgate-cli";
/// What `cargo xtask release` installs to list the crates of the program.
const CYCLONEDX: &str = "cargo-cyclonedx";

/// A platform as each kind of package names it.
struct Platform {
    target: &'static str,
    /// `Architecture` of Debian, and of images; empty where there is no such package.
    debian: &'static str,
    /// `process.platform` and `process.arch` of Node.
    node: (&'static str, &'static str),
    /// The tag of a wheel.
    wheel: &'static str,
}

/// What is released. The command does not build on Windows: it uses signals and terminals of Unix.
const PLATFORMS: [Platform; 4] = [
    Platform {
        target: "x86_64-unknown-linux-musl",
        debian: "amd64",
        node: ("linux", "x64"),
        wheel: "manylinux2014_x86_64.musllinux_1_1_x86_64",
    },
    Platform {
        target: "aarch64-unknown-linux-musl",
        debian: "arm64",
        node: ("linux", "arm64"),
        wheel: "manylinux2014_aarch64.musllinux_1_1_aarch64",
    },
    Platform {
        target: "x86_64-apple-darwin",
        debian: "",
        node: ("darwin", "x64"),
        wheel: "macosx_10_12_x86_64",
    },
    Platform {
        target: "aarch64-apple-darwin",
        debian: "",
        node: ("darwin", "arm64"),
        wheel: "macosx_11_0_arm64",
    },
];

/// The release of one platform.
struct Release {
    platform: &'static Platform,
    /// Whose program it is: that of the platform, or with the C library of this machine.
    target: String,
    version: String,
    /// The package `loopgate` of cargo's metadata.
    package: Value,
    /// The folder with the program, its texts, its completions and its pages. Its name is that of the archive.
    staged: PathBuf,
    work: PathBuf,
    out: PathBuf,
    /// The names of the files in `out`.
    made: Vec<String>,
    /// What is left out for want of a tool.
    missing: Vec<String>,
    /// How gzip packs: fast where a program is given, which is a program of tests.
    level: u8,
}

/// Makes the files; with `checked`, installs each and runs its first commands.
pub(crate) fn run(
    target: Option<String>,
    binary: Option<&Path>,
    out: Option<PathBuf>,
    checked: bool,
) -> Result<(), Failure> {
    let shell = Shell::new()?;
    let here = shell.current_dir();
    shell.change_dir(workspace::root());
    let out = match out {
        Some(out) => here.join(out),
        None => {
            // Only what this run makes is in it. A folder of the user may have other files.
            let out = workspace::root().join("target/release-files");
            shell.remove_path(&out)?;
            out
        }
    };
    let mut release = Release::new(&shell, target, binary.is_some(), out)?;
    let program = match binary {
        Some(binary) => here.join(binary),
        None => release.built(&shell)?,
    };
    release.stage(&shell, &program)?;
    release.archive(&shell)?;
    release.debian(&shell)?;
    release.wheel(&shell)?;
    release.npm(&shell)?;
    release.bill_of_materials(&shell, binary.is_some())?;
    release.image(&shell)?;
    release.checksums(&shell)?;
    workspace::print_lines(&release.made);
    println!("release: {} files in {}", release.made.len(), release.out.display());
    if checked {
        check::run(&shell, &release)?;
    }
    workspace::report("release", &release.missing)
}

impl Release {
    fn new(shell: &Shell, target: Option<String>, is_given: bool, out: PathBuf) -> Result<Self, Failure> {
        let unreadable = |what: &str| Failure::Check(format!("release: {what} cannot be read"));
        let rustc = cmd!(shell, "rustc --version --verbose").quiet().read()?;
        let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| unreadable("the host of `rustc --version --verbose`"))?;
        let is_installed = |target: &str| {
            let folder = cmd!(shell, "rustc --print target-libdir --target {target}").quiet().read();
            folder.is_ok_and(|folder| Path::new(&folder).is_dir())
        };
        let fixed = host.replace("-gnu", "-musl");
        // A program that is given is most likely that of this machine.
        let default = if !is_given && is_installed(&fixed) { &fixed } else { host };
        let target = target.unwrap_or_else(|| default.to_owned());
        let known = target.replace("-gnu", "-musl");
        let platform = PLATFORMS.iter().find(|it| it.target == known).ok_or_else(|| {
            let names: Vec<&str> = PLATFORMS.iter().map(|it| it.target).collect();
            Failure::Usage(format!("--target {target}: the command is released for {}", names.join(", ")))
        })?;
        let metadata = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
        let metadata: Value = serde_json::from_str(&metadata).map_err(|_| unreadable("cargo metadata"))?;
        let mut packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
        let package = packages.find(|it| it.get("name").is_some_and(|name| name == "loopgate"));
        let package = package.ok_or_else(|| unreadable("the package loopgate of cargo metadata"))?.clone();
        let version = package.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        let work = workspace::root().join(WORK).join(&target);
        shell.remove_path(&work)?;
        shell.create_dir(&out)?;
        let staged = work.join(format!("loopgate-v{version}-{target}"));
        let level = if is_given { 1 } else { 9 };
        Ok(Self {
            platform,
            target,
            version,
            package,
            staged,
            work,
            out,
            level,
            made: vec![],
            missing: vec![],
        })
    }

    fn text(&self, field: &str) -> &str {
        self.package.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> String {
        format!("loopgate-v{}-{}", self.version, self.target)
    }

    fn is_static(&self) -> bool {
        self.target == self.platform.target && self.platform.node.0 == "linux"
    }

    fn program(&self) -> PathBuf {
        self.staged.join("loopgate")
    }

    /// Builds the program as it is released.
    fn built(&self, shell: &Shell) -> Result<PathBuf, Failure> {
        let target = &self.target;
        cmd!(shell, "cargo build --release --locked -p loopgate --target {target} --no-default-features --features {FEATURES}")
            .run()?;
        let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Ok(workspace::root().join(folder).join(target).join("release/loopgate"))
    }

    fn stage(&self, shell: &Shell, built: &Path) -> Result<(), Failure> {
        let (staged, program) = (&self.staged, self.program());
        shell.create_dir(staged.join("completions"))?;
        // A program of tests has symbols, which nobody needs of a release. Where they cannot be removed, they stay.
        let stripped = cfg!(target_os = "linux")
            && cmd!(shell, "strip -o {program} {built}").quiet().ignore_stderr().run().is_ok();
        if !stripped {
            shell.copy_file(built, &program)?;
        }
        for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = cmd!(shell, "{program} completions {name}").quiet().read()?;
            shell.write_file(staged.join("completions").join(format!("loopgate.{name}")), script + "\n")?;
        }
        let man = staged.join("man");
        cmd!(shell, "{program} man --out {man}").quiet().run()?;
        for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            shell.copy_file(name, staged.join(name))?;
        }
        Ok(())
    }

    fn archive(&mut self, shell: &Shell) -> Result<(), Failure> {
        let (name, work) = (self.name(), &self.work);
        let file = self.out.join(format!("{name}.tgz"));
        let owner: &[&str] = if cfg!(target_os = "linux") { &["--owner=0", "--group=0"] } else { &[] };
        let gzip = format!("gzip -{}", self.level);
        cmd!(shell, "tar -cf {file} --use-compress-program {gzip} {owner...} -C {work} {name}")
            .quiet()
            .run()?;
        self.made.push(format!("{name}.tgz"));
        Ok(())
    }

    fn debian(&mut self, shell: &Shell) -> Result<(), Failure> {
        let architecture = self.platform.debian;
        if architecture.is_empty() {
            return Ok(());
        }
        if !self.has(shell, "the package for Debian", "dpkg-deb") {
            return Ok(());
        }
        let root = self.work.join("debian");
        let usr = root.join("usr");
        for (from, to) in [
            ("loopgate", "bin/loopgate"),
            ("completions/loopgate.bash", "share/bash-completion/completions/loopgate"),
            ("completions/loopgate.zsh", "share/zsh/vendor-completions/_loopgate"),
            ("completions/loopgate.fish", "share/fish/vendor_completions.d/loopgate.fish"),
            ("CHANGELOG.md", "share/doc/loopgate/changelog.md"),
        ] {
            place(shell, &self.staged.join(from), &usr.join(to))?;
        }
        for page in shell.read_dir(self.staged.join("man"))? {
            place(shell, &page, &usr.join("share/man/man1").join(page.file_name().unwrap_or_default()))?;
        }
        let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| shell.read_file(name));
        let [mit, apache] = licences;
        shell.write_file(usr.join("share/doc/loopgate/copyright"), mit? + "\n" + &apache?)?;
        let version = self.version.replace('-', "~");
        let depends = if self.is_static() {
            String::new()
        } else {
            let libc = cmd!(shell, "getconf GNU_LIBC_VERSION").quiet().read()?;
            format!("Depends: libc6 (>= {}), libgcc-s1\n", libc.trim_start_matches("glibc "))
        };
        let kilobytes = cmd!(shell, "du -sk {usr}").quiet().read()?;
        let kilobytes = kilobytes.split_whitespace().next().unwrap_or_default();
        let control = format!(
            "Package: loopgate\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: Loopgate <loopgate@users.noreply.github.com>\n\
             Installed-Size: {kilobytes}\n{depends}Section: utils\nPriority: optional\nHomepage: {}\nDescription: {}\n",
            self.text("repository"),
            self.text("description"),
        );
        shell.write_file(root.join("DEBIAN/control"), control)?;
        let name = format!("loopgate_{version}_{architecture}.deb");
        let file = self.out.join(&name);
        let level = self.level.to_string();
        cmd!(shell, "dpkg-deb --root-owner-group -Zgzip -z{level} --build {root} {file}")
            .quiet()
            .ignore_stdout()
            .run()?;
        self.made.push(name);
        Ok(())
    }

    fn wheel(&mut self, shell: &Shell) -> Result<(), Failure> {
        if !self.has(shell, "the wheel", "python3") {
            return Ok(());
        }
        // `0.2.0-rc.1` is `0.2.0rc1` there.
        let version = match self.version.split_once('-') {
            Some((release, before)) => format!("{release}{}", before.replace('.', "")),
            None => self.version.clone(),
        };
        let stem = format!("{}-{version}", PYPI.replace('-', "_"));
        // What depends on the C library of this machine is for this machine.
        let (target, _) = self.target.split_once('-').unwrap_or_default();
        let own = format!("linux_{target}");
        let is_own = self.target.ends_with("-gnu");
        let tag = format!("py3-none-{}", if is_own { &own } else { self.platform.wheel });
        let folder = self.work.join("wheel");
        place(shell, &self.program(), &folder.join(format!("{stem}.data/scripts/loopgate")))?;
        let about = folder.join(format!("{stem}.dist-info"));
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            place(shell, &self.staged.join(name), &about.join("licenses").join(name))?;
        }
        shell.write_file(
            about.join("WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: loopgate-xtask {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"),
        )?;
        let readme = shell.read_file("crates/loopgate/README.md")?;
        let metadata = format!(
            "Metadata-Version: 2.4\nName: {PYPI}\nVersion: {version}\nSummary: {}\nLicense-Expression: {}\n\
             License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\nProject-URL: Repository, {}\n\
             Description-Content-Type: text/markdown\n\n{readme}",
            self.text("description"),
            self.text("license"),
            self.text("repository"),
        );
        shell.write_file(about.join("METADATA"), metadata)?;
        let name = format!("{stem}-{tag}.whl");
        let file = self.out.join(&name);
        let level = self.level.to_string();
        cmd!(shell, "python3 {TEXTS}/wheel.py {folder} {file} {level}").quiet().run()?;
        self.made.push(name);
        Ok(())
    }

    /// One package with the program, for its platform alone, and one for all that chooses it.
    fn npm(&mut self, shell: &Shell) -> Result<(), Failure> {
        if !self.has(shell, "the packages for npm", "npm") {
            return Ok(());
        }
        let (system, processor) = self.platform.node;
        let name = |node: (&str, &str)| format!("@loopgate/{}-{}", node.0, node.1);
        let chosen = PLATFORMS.iter().map(|it| (name(it.node), Value::from(&*self.version)));
        let own = json!({"os": [system], "cpu": [processor], "files": ["loopgate"]});
        let all = json!({
            "bin": {"loopgate": "loopgate.js"},
            "files": ["loopgate.js"],
            "optionalDependencies": serde_json::Map::from_iter(chosen),
        });
        let script = workspace::root().join(TEXTS).join("loopgate.js");
        for (name, program, special) in
            [(name(self.platform.node), self.program(), own), ("loopgate".to_owned(), script, all)]
        {
            let mut package = json!({
                "name": name,
                "version": self.version,
                "description": self.text("description"),
                "license": self.text("license"),
                "repository": {"type": "git", "url": format!("git+{}.git", self.text("repository"))},
            });
            if let (Value::Object(package), Value::Object(special)) = (&mut package, special) {
                package.extend(special);
            }
            let stem = name.trim_start_matches('@').replace('/', "-");
            let folder = self.work.join("npm").join(&stem);
            place(shell, &program, &folder.join(program.file_name().unwrap_or_default()))?;
            place(shell, Path::new("crates/loopgate/README.md"), &folder.join("README.md"))?;
            shell.write_file(folder.join("package.json"), format!("{package:#}\n"))?;
            let out = &self.out;
            cmd!(shell, "npm pack --silent --pack-destination {out} {folder}")
                .quiet()
                .ignore_stdout()
                .run()?;
            self.made.push(format!("{stem}-{}.tgz", self.version));
        }
        Ok(())
    }

    /// The crates of the program in the form of CycloneDX.
    fn bill_of_materials(&mut self, shell: &Shell, is_given: bool) -> Result<(), Failure> {
        if cmd!(shell, "cargo cyclonedx --version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
            if is_given {
                println!("left out: the bill of materials, without `cargo install --locked {CYCLONEDX}`");
                return Ok(());
            }
            crate::fetching::fetch(&cmd!(shell, "cargo install --locked {CYCLONEDX}"))?;
        }
        let (target, name) = (&self.target, format!("{}.cdx", self.name()));
        cmd!(shell, "cargo cyclonedx --quiet --manifest-path crates/loopgate/Cargo.toml --format json --target {target} --no-default-features --features {FEATURES} --override-filename {name}")
            .run()?;
        // It writes one beside the manifest of each crate of the workspace.
        let name = format!("{name}.json");
        shell.copy_file(Path::new("crates/loopgate").join(&name), self.out.join(&name))?;
        for package in workspace::packages(workspace::root())? {
            for folder in ["crates", "."] {
                shell.remove_path(Path::new(folder).join(&package).join(&name))?;
            }
        }
        self.made.push(name);
        Ok(())
    }

    /// The folder that `podman build --file Containerfile .` makes the image from. It has place for other processors.
    fn image(&mut self, shell: &Shell) -> Result<(), Failure> {
        if self.platform.debian.is_empty() {
            return Ok(());
        }
        let authorities = Path::new("/etc/ssl/certs/ca-certificates.crt");
        if !self.is_static() || !authorities.exists() {
            println!(
                "left out: the folder of the image, which takes a static program and {}; `rustup target add {}` and Debian's musl-tools make one",
                authorities.display(),
                self.platform.target
            );
            return Ok(());
        }
        let image = self.out.join("image");
        place(shell, &self.program(), &image.join(self.platform.debian).join("loopgate"))?;
        place(shell, authorities, &image.join("ca-certificates.crt"))?;
        place(shell, &Path::new(TEXTS).join("Containerfile"), &image.join("Containerfile"))?;
        shell
            .write_file(image.join("state/README"), "The journal of Loopgate's runs is in this folder.\n")?;
        println!("image/Containerfile");
        Ok(())
    }

    fn checksums(&mut self, shell: &Shell) -> Result<(), Failure> {
        let _there = shell.push_dir(&self.out);
        let ((sums, options), made) = (SUMS, &self.made);
        let text = cmd!(shell, "{sums} {options...} {made...}").quiet().read()?;
        shell.write_file("SHA256SUMS", text + "\n")?;
        self.made.push("SHA256SUMS".to_owned());
        Ok(())
    }

    /// Whether the tool is here; if not, what it makes is missing.
    fn has(&mut self, shell: &Shell, what: &str, tool: &str) -> bool {
        let is_here = cmd!(shell, "{tool} --version").quiet().ignore_stdout().ignore_stderr().run().is_ok();
        if !is_here {
            self.missing.push(format!("{what} was not made: `{tool}` is not on the PATH"));
        }
        is_here
    }
}

/// The program that prints checksums.
const SUMS: (&str, &[&str]) =
    if cfg!(target_os = "macos") { ("shasum", &["-a", "256"]) } else { ("sha256sum", &[]) };

/// Copies a file to where its folder may not be yet.
fn place(shell: &Shell, from: &Path, to: &Path) -> Result<(), Failure> {
    if let Some(folder) = to.parent() {
        shell.create_dir(folder)?;
    }
    Ok(shell.copy_file(from, to)?)
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
        assert_eq!(targets, PLATFORMS.map(|it| it.target));
        assert!(workflow.contains("cargo xtask release --target ${{ matrix.target }} --check"));
    }
}
