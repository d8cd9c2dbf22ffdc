//! The OpenAPI document and the server say the same: `schemathesis` makes requests of the document, right and wrong ones, and
//! compares the answers with it.

use std::process::Command;

use crate::common::server::Server;
use crate::common::{Ran, Shell, root};

/// A number of the environment, for more than what each run of CI tries.
fn number(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

// Issue 43, K8
#[test]
#[ignore = "needs schemathesis: cargo xtask servers api"]
fn the_server_and_its_document_do_not_disagree() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    let server = Server::start(&shell, &[folder.to_str().unwrap(), "--max-queued", "100000"]);
    let program = std::env::var_os("LOOPGATE_SCHEMATHESIS");
    let mut command =
        Command::new(program.expect("LOOPGATE_SCHEMATHESIS is not set; see xtask/src/servers.rs"));
    let settings = root().join("crates/loopgate/tests/clients/schemathesis.toml");
    command.current_dir(shell.state.path()).arg("--config-file").arg(settings).args(["--no-color", "run"]);
    command.arg(format!("http://{}/openapi.json", server.address));
    command.args(["--header", &format!("Authorization: Bearer {}", server.token), "--request-timeout", "60"]);
    command.args(["--seed", &number("LOOPGATE_SCHEMATHESIS_SEED", "43")]);
    command.args(["--max-examples", &number("LOOPGATE_SCHEMATHESIS_EXAMPLES", "20")]);
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let document = server.get("/openapi.json");
    let operations = document["paths"].as_object().unwrap().values();
    // All but the one that it has the document from.
    let operations = operations.map(|methods| methods.as_object().unwrap().len()).sum::<usize>() - 1;
    assert!(ran.out.contains(&format!("Selected: {operations}/{operations}")), "{}", ran.out);
    assert_eq!(server.end().0, 0);
}
