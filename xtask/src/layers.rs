//! `cargo xtask layers`: checks which crate may depend on which, and which dependencies the lower crates must not have
//! at any depth.
//!
//! The table is [`ARROWS`]. Dependencies of tests (`[dev-dependencies]`) are not checked.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::rooms;
use crate::workspace::{self, Failure};

/// For each crate of the workspace, the workspace crates that it may depend on directly.
pub(crate) const ARROWS: [(&str, &[&str]); 17] = [
    ("loop-core", &[]),
    ("loop-claims", &["loop-core"]),
    ("loop-tools", &["loop-core"]),
    ("loop-llm", &["loop-core"]),
    ("loop-mock", &["loop-core", "loop-llm", "loop-prompts"]),
    ("loop-prompts", &["loop-core", "loop-llm"]),
    ("loop-journal", &["loop-core", "loop-tools"]),
    (
        "loop-runtime",
        &["loop-claims", "loop-core", "loop-journal", "loop-llm", "loop-mock", "loop-prompts", "loop-tools"],
    ),
    ("loop-inspect", &["loop-core", "loop-llm", "loop-prompts", "loop-runtime"]),
    ("loop-domain", &["loop-core", "loop-llm", "loop-prompts", "loop-runtime", "loop-tools"]),
    ("loop-eval", &["loop-core", "loop-domain", "loop-llm", "loop-prompts", "loop-runtime", "loop-tools"]),
    ("loop-otel", &["loop-core", "loop-llm", "loop-runtime"]),
    ("loop-restate", &["loop-core", "loop-llm", "loop-runtime"]),
    (
        "loop-server",
        &["loop-claims", "loop-core", "loop-domain", "loop-eval", "loop-inspect", "loop-runtime"],
    ),
    (
        "loopgate",
        &[
            "loop-claims",
            "loop-core",
            "loop-domain",
            "loop-eval",
            "loop-inspect",
            "loop-llm",
            "loop-mock",
            "loop-otel",
            "loop-prompts",
            "loop-restate",
            "loop-runtime",
            "loop-server",
            "loop-tools",
        ],
    ),
    ("loop-testkit", &["loop-core", "loop-llm", "loop-mock", "loop-tools"]),
    // What a newcomer compiles first: a crate of ours would add an HTTP client and TLS, about a minute.
    ("xtask", &[]),
];

/// The dependencies that a crate must not have, at any depth.
const FORBIDDEN: [(&str, &[&str]); 5] = [
    ("loop-claims", &["tokio", "rusqlite"]),
    ("loop-core", &["tokio", "reqwest", "rand", "getrandom", "socket2", "mio", "hyper"]),
    ("loop-llm", &["rusqlite"]),
    ("loop-tools", &["rusqlite"]),
    ("loop-prompts", &["rusqlite"]),
];

/// The most packages of a crate's dependency tree, itself included.
const MAX_PACKAGES: [(&str, usize); 1] = [("loop-core", 40)];

pub(crate) fn run() -> Result<(), Failure> {
    let (metadata, mut problems) = find_problems()?;
    problems.extend(rooms::find_problems()?);
    workspace::report("layers", &problems)?;
    for (name, max) in MAX_PACKAGES {
        println!("layers: {name} brings in {} packages, {max} are allowed", metadata.reach(name).len());
    }
    println!("layers: every arrow is in the table, and the rooms of each crate use the rooms below them");
    Ok(())
}

fn find_problems() -> Result<(Metadata, Vec<String>), Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let version = cmd!(shell, "rustc -vV").quiet().read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Failure::Check("`rustc -vV` names no host".to_owned()))?;
    let json =
        cmd!(shell, "cargo metadata --format-version 1 --locked --filter-platform {host}").quiet().read()?;
    let metadata = Metadata::parse(&json)?;
    let mut manifests = BTreeMap::new();
    for package in metadata.members() {
        manifests.insert(package.name.clone(), workspace::read(&package.manifest)?);
    }
    let problems = check(&metadata, &manifests);
    Ok((metadata, problems))
}

/// One line for each violation. `manifests` has the text of each member's Cargo.toml by the member's name.
fn check(metadata: &Metadata, manifests: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let line = |package: &Package, dependency: &Dependency| {
        let text = manifests.get(&package.name).map_or("", String::as_str);
        let file = workspace::shown(workspace::root(), &package.manifest);
        match manifest_line(text, dependency.key()) {
            Some((number, line)) => (format!("{file}:{number}"), line.to_owned()),
            None => (file, dependency.key().to_owned()),
        }
    };
    for package in metadata.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            problems.push(format!("xtask/src/layers.rs: `{}` has no row in ARROWS", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let ours = metadata.members().any(|it| it.name == dependency.name);
            if ours && dependency.kind != Kind::Dev && !allowed.contains(&dependency.name.as_str()) {
                let (place, text) = line(package, dependency);
                let may =
                    if allowed.is_empty() { "none of our crates".to_owned() } else { allowed.join(", ") };
                problems.push(format!("{place}: remove `{text}`: {} may depend on {may}", package.name));
            }
        }
    }
    for (name, forbidden) in FORBIDDEN {
        for path in metadata.reach(name).values() {
            let Some(last) = path.last().filter(|last| forbidden.contains(&last.as_str())) else {
                continue;
            };
            let (Some(package), Some(first)) = (metadata.member(name), path.get(1)) else {
                continue;
            };
            let dependency =
                package.dependencies.iter().find(|it| it.name == *first && it.kind == Kind::Normal);
            let Some(dependency) = dependency else { continue };
            let (place, text) = line(package, dependency);
            problems.push(format!(
                "{place}: change `{text}`: it brings in {last}, which {name} must not have ({})",
                path.join(" -> ")
            ));
        }
    }
    for (name, max) in MAX_PACKAGES {
        let count = metadata.reach(name).len();
        if count > max {
            let place = metadata.member(name).map(|it| workspace::shown(workspace::root(), &it.manifest));
            problems.push(format!(
                "{}: {name} brings in {count} packages, {max} are allowed",
                place.unwrap_or_default()
            ));
        }
    }
    problems
}

/// The relevant parts of `cargo metadata`.
#[derive(Debug)]
struct Metadata {
    packages: BTreeMap<String, Package>,
    members: Vec<String>,
    /// By package id, the ids of its normal dependencies for this platform.
    resolved: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Package {
    name: String,
    manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    rename: Option<String>,
    kind: Kind,
    /// Whether it is optional.
    optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Build,
    Dev,
}

impl Metadata {
    fn parse(json: &str) -> Result<Metadata, Failure> {
        let failed = |what: &str| Failure::Check(format!("cargo metadata: {what}"));
        let value: Value = serde_json::from_str(json).map_err(|error| failed(&error.to_string()))?;
        let mut packages = BTreeMap::new();
        for package in list(&value, "/packages") {
            let dependencies = list(package, "/dependencies").iter().map(|it| Dependency {
                name: string(it, "/name"),
                rename: it.pointer("/rename").and_then(Value::as_str).map(str::to_owned),
                kind: Kind::of(it.pointer("/kind")),
                optional: it.pointer("/optional") == Some(&Value::Bool(true)),
            });
            let package_of = Package {
                name: string(package, "/name"),
                manifest: PathBuf::from(string(package, "/manifest_path")),
                dependencies: dependencies.collect(),
            };
            packages.insert(string(package, "/id"), package_of);
        }
        let mut resolved = BTreeMap::new();
        for node in list(&value, "/resolve/nodes") {
            let normal = list(node, "/deps").iter().filter(|dependency| {
                list(dependency, "/dep_kinds").iter().any(|it| Kind::of(it.pointer("/kind")) == Kind::Normal)
            });
            resolved
                .insert(string(node, "/id"), normal.map(|dependency| string(dependency, "/pkg")).collect());
        }
        let members: Vec<String> =
            list(&value, "/workspace_members").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if members.is_empty() || resolved.is_empty() {
            return Err(failed("it names no members or resolves nothing"));
        }
        Ok(Metadata { packages, members, resolved })
    }

    fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// All packages that a member without features depends on, by id, each with a shortest path of names to it.
    fn reach(&self, name: &str) -> BTreeMap<String, Vec<String>> {
        let mut paths = BTreeMap::new();
        let named =
            |id: &String| self.packages.get(id).map_or_else(|| id.clone(), |package| package.name.clone());
        let mut waiting: VecDeque<(&String, Vec<String>)> = self
            .members
            .iter()
            .filter(|id| named(id) == name)
            .map(|id| (id, vec![name.to_owned()]))
            .collect();
        while let Some((id, path)) = waiting.pop_front() {
            if paths.contains_key(id) {
                continue;
            }
            for next in self.resolved.get(id).into_iter().flatten() {
                let mut longer = path.clone();
                longer.push(named(next));
                // What a member adds by a feature of its own is not in it without the feature.
                let of_feature = self.members.contains(id)
                    && self.packages.get(id).is_some_and(|package| {
                        let mut named =
                            package.dependencies.iter().filter(|it| longer.last() == Some(&it.name));
                        named.all(|it| it.kind != Kind::Normal || it.optional)
                    });
                if of_feature {
                    continue;
                }
                waiting.push_back((next, longer));
            }
            paths.insert(id.clone(), path);
        }
        paths
    }
}

impl Dependency {
    /// Its key in Cargo.toml.
    fn key(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}

impl Kind {
    fn of(value: Option<&Value>) -> Kind {
        match value.and_then(Value::as_str) {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            _ => Kind::Normal,
        }
    }
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn string(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The line of a manifest that names a dependency outside `[dev-dependencies]`, with its number from 1.
fn manifest_line<'a>(manifest: &'a str, key: &str) -> Option<(usize, &'a str)> {
    let mut counts = false;
    for (index, line) in manifest.lines().enumerate() {
        let trimmed = line.trim();
        if let Some(section) = trimmed.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            counts = section.ends_with("dependencies") && !section.contains("dev-dependencies");
            if section.ends_with(&format!("dependencies.{key}")) && !section.contains("dev-dependencies") {
                return Some((index + 1, trimmed));
            }
        } else if counts
            && let Some(rest) = trimmed.strip_prefix(key)
            && rest.starts_with(['.', ' ', '='])
        {
            return Some((index + 1, trimmed));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;
    use crate::rust_text;

    #[test]
    fn the_core_takes_no_ambient_input() {
        // I-33: no clock, no chance, no environment, no files, no network; and no number that rounds in a decision.
        let folder = workspace::root().join("crates/loop-core");
        let manifest = workspace::read(&folder.join("Cargo.toml")).unwrap();
        let own = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let own: Vec<&str> = own
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next())
            .filter(|name| !name.is_empty())
            .collect();
        let pure = [
            "aho-corasick",
            "blake3",
            "memchr",
            // For the schema of a domain file, by the feature `schema`.
            "schemars",
            "serde",
            "serde_json",
            "strsim",
            "strum",
            "thiserror",
            "unicode-normalization",
            "unicode-script",
        ];
        assert_eq!(own, pure);
        let forbidden = [
            "std::time",
            "std::env",
            "std::fs",
            "std::net",
            "std::thread",
            "std::process",
            "std::io",
            "SystemTime",
            "Instant",
            "HashMap",
            "HashSet",
            "RandomState",
            "rand::",
            "f32",
            "f64",
            "println!",
            "eprintln!",
            "unsafe",
        ];
        // An amount in dollars is shown by a number that rounds; nothing in the core reads it. A reader of JSON gives
        // numbers on as they are.
        let shown = [
            "pub fn as_usd(self) -> f64 {",
            "self.0 as f64 / Self::PER_USD as f64",
            "fn visit_f64<E>(self, value: f64) -> Result<SourceValue, E> {",
            "fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {",
            "fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {",
            // A file writes a likeness as a decimal number. It is kept in thousandths, and compared as that.
            r#"#[cfg_attr(feature = "schema", schemars(with = "f64", range(min = 0, max = 1)))]"#,
            "serializer.serialize_f64(f64::from(*millis) / 1_000.0)",
            "let likeness = f64::deserialize(deserializer)?;",
            // How much the crate's own tests try.
            r#"std::env::var_os("LOOPGATE_TESTS").is_some_and(|scope| scope == "full")"#,
        ];
        let files = workspace::files_below(&folder.join("src"), "rs").unwrap();
        assert!(files.len() > 40, "{} files", files.len());
        for path in files {
            let text = workspace::read(&path).unwrap();
            let code = rust_text::code_only(&text);
            for (n, (line, whole)) in code.lines().zip(text.lines()).enumerate() {
                let found = forbidden.iter().find(|word| line.contains(**word));
                let excused = shown.contains(&whole.trim());
                assert!(found.is_none() || excused, "{}:{}: {}", path.display(), n + 1, whole.trim());
            }
        }
        let users = workspace::files_below(&folder.join("src"), "rs").unwrap();
        let uses =
            |path: &PathBuf| rust_text::code_only(&workspace::read(path).unwrap()).matches("as_usd(").count();
        assert_eq!(
            users.iter().map(uses).sum::<usize>(),
            1,
            "as_usd is declared and never called in the core"
        );
    }

    #[test]
    fn the_crates_keep_their_layers() {
        let (_, problems) = find_problems().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// Three packages: `loop-llm` depends on `loop-core`, which depends on `sha2`; and what the caller adds.
    fn made_up(core_dependencies: &str, sha2_resolved: &str) -> Metadata {
        let json = format!(
            r#"{{"packages": [
                {{"id": "core", "name": "loop-core", "manifest_path": "/m/core/Cargo.toml",
                  "dependencies": [{{"name": "sha2", "kind": null}}{core_dependencies}]}},
                {{"id": "llm", "name": "loop-llm", "manifest_path": "/m/llm/Cargo.toml",
                  "dependencies": [{{"name": "loop-core", "kind": null}}]}},
                {{"id": "sha2", "name": "sha2", "manifest_path": "/r/sha2/Cargo.toml", "dependencies": []}},
                {{"id": "rnd", "name": "getrandom", "manifest_path": "/r/rnd/Cargo.toml", "dependencies": []}}],
              "workspace_members": ["core", "llm"],
              "resolve": {{"nodes": [
                {{"id": "core", "deps": [{{"pkg": "sha2", "dep_kinds": [{{"kind": null}}]}}]}},
                {{"id": "llm", "deps": [{{"pkg": "core", "dep_kinds": [{{"kind": null}}]}}]}},
                {{"id": "sha2", "deps": [{sha2_resolved}]}},
                {{"id": "rnd", "deps": []}}]}}}}"#
        );
        Metadata::parse(&json).unwrap()
    }

    fn manifests() -> BTreeMap<String, String> {
        let core = "[package]\nname = \"loop-core\"\n\n[dependencies]\nsha2.workspace = true\nloop-llm.workspace = true\n";
        BTreeMap::from([("loop-core".to_owned(), core.to_owned())])
    }

    #[track_caller]
    fn check_found(core_dependencies: &str, sha2_resolved: &str, expected: &[&str]) {
        assert_eq!(check(&made_up(core_dependencies, sha2_resolved), &manifests()), expected);
    }

    #[test]
    fn allowed_arrows_are_no_problem() {
        check_found("", "", &[]);
    }

    #[test]
    fn an_arrow_upwards_is_named_with_its_line() {
        let expected = "/m/core/Cargo.toml:6: remove `loop-llm.workspace = true`: loop-core may depend on none of our crates";
        check_found(r#", {"name": "loop-llm", "kind": null}"#, "", &[expected]);
        check_found(r#", {"name": "loop-llm", "kind": "build"}"#, "", &[expected]);
        check_found(r#", {"name": "loop-llm", "kind": "dev"}"#, "", &[]);
    }

    #[test]
    fn the_test_kit_is_for_dev_dependencies_alone() {
        for (name, allowed) in ARROWS {
            assert!(!allowed.contains(&"loop-testkit"), "{name}");
        }
        let made_up = |kind: &str| {
            let mut metadata = made_up(&format!(r#", {{"name": "loop-testkit", "kind": {kind}}}"#), "");
            let package = Package {
                name: "loop-testkit".to_owned(),
                manifest: PathBuf::from("/m/testkit/Cargo.toml"),
                dependencies: Vec::new(),
            };
            metadata.packages.insert("testkit".to_owned(), package);
            metadata.members.push("testkit".to_owned());
            check(&metadata, &manifests())
        };
        let expected =
            "/m/core/Cargo.toml: remove `loop-testkit`: loop-core may depend on none of our crates";
        assert_eq!(made_up("null"), [expected]);
        assert_eq!(made_up("\"build\""), [expected]);
        assert_eq!(made_up("\"dev\""), [""; 0]);
    }

    #[test]
    fn a_forbidden_package_is_named_with_the_way_to_it() {
        let expected = "/m/core/Cargo.toml:5: change `sha2.workspace = true`: it brings in getrandom, which loop-core must not have \
                        (loop-core -> sha2 -> getrandom)";
        check_found("", r#"{"pkg": "rnd", "dep_kinds": [{"kind": null}]}"#, &[expected]);
        check_found("", r#"{"pkg": "rnd", "dep_kinds": [{"kind": "dev"}]}"#, &[]);
    }

    #[test]
    fn a_crate_without_a_row_is_reported() {
        let mut metadata = made_up("", "");
        metadata.packages.get_mut("llm").unwrap().name = "loop-new".to_owned();
        assert_eq!(check(&metadata, &manifests()), ["xtask/src/layers.rs: `loop-new` has no row in ARROWS"]);
    }

    #[test]
    fn a_manifest_line_is_found_in_every_spelling() {
        let text = "[dev-dependencies]\na = \"1\"\n[dependencies]\na-b = \"1\"\na = { workspace = true }\n[build-dependencies.c]\n";
        assert_eq!(manifest_line(text, "a"), Some((5, "a = { workspace = true }")));
        assert_eq!(manifest_line(text, "c"), Some((6, "[build-dependencies.c]")));
        assert_eq!(manifest_line(text, "d"), None);
    }
}
