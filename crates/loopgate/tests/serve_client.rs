//! A client that a generator of others makes of the OpenAPI document, against `loopgate serve`.

use crate::common;

use std::path::PathBuf;
use std::process::Command;

use common::server::Server;
use common::{Ran, Shell};

#[test]
#[ignore = "needs openapi-python-client: cargo xtask servers openapi"]
fn a_generated_client_submits_waits_and_approves() {
    let shell = Shell::new();
    let folder = shell.copy_of("examples/crm");
    std::fs::remove_dir_all(folder.join(".loopgate")).ok();
    let server = Server::start(&shell, &[folder.to_str().unwrap()]);
    let document = shell.file("openapi.json", &server.get("/openapi.json").to_string());
    let python = std::env::var_os("LOOPGATE_OPENAPI_PYTHON").map(PathBuf::from);
    let python = python.expect("LOOPGATE_OPENAPI_PYTHON is not set; see xtask/src/servers.rs");
    let made = shell.state.path().join("made");
    let mut generate = Command::new(python.with_file_name("openapi-python-client"));
    generate.args(["generate", "--path"]).arg(document).arg("--output-path").arg(&made);
    let ran: Ran = generate.output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let script = common::root().join("crates/loopgate/tests/clients/openapi_client.py");
    let mut client = Command::new(python);
    client.arg(script).arg(format!("http://{}", server.address)).arg(&server.token).env("PYTHONPATH", &made);
    let ran: Ran = client.output().unwrap().into();
    let expected = "domains crm\nsubmitted waiting True\nagain 200 True\npending update_user False\n\
                    wrong /problems/binding\napproved True\nended ended answered 0\ndocument True\n\
                    outcome completed\nlisted True\naudited approve done approve refused submit again submit done\n\
                    unknown 404 Unknown run\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.err);
    assert_eq!(server.end().0, 0);
}
