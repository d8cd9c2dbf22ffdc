//! A connection over a network: encrypted, with a certificate that is verified, to the host that was named.

use std::path::Path;

use super::World;
use crate::common::{Shell, ticket};

/// Makes a certificate of an authority of its own, which is not that of the server.
fn other_authority(shell: &Shell) -> std::path::PathBuf {
    let file = shell.file("other-ca.pem", "");
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=Another authority", "-keyout", "/dev/null", "-out"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask servers postgres"]
fn a_certificate_of_another_authority_or_host_is_refused() {
    // K13: nothing is sent to a server that cannot show who it is.
    let world = World::new();
    let (port, state) = (world.server.port(), world.state.path().display());
    let authority = world.server.folder().join("ca.pem");
    // The server takes nothing but TLS for this role.
    let rules = world.server.folder().join("data/pg_hba.conf");
    let given = std::fs::read_to_string(&rules).unwrap();
    let only = "hostssl all far 127.0.0.1/32 trust\nhostnossl all far 127.0.0.1/32 reject\n";
    std::fs::write(&rules, format!("{only}{given}")).unwrap();
    world.server.sql("postgres", "SELECT pg_reload_conf()");
    world.server.sql("postgres", "CREATE ROLE far LOGIN");
    world.server.sql("postgres", "CREATE DATABASE distant OWNER far");
    let run = |host: &str, options: &str, authority: Option<&Path>| {
        let authority = authority.map(|file| format!("&sslrootcert={}", file.display())).unwrap_or_default();
        let url = format!("postgres://far@{host}:{port}/distant?state={state}&wait_s=1{options}{authority}");
        world.shell.run(&["run", "examples/helpdesk", &ticket(1042), "--no-save", "--journal", &url])
    };
    // The certificate is for `localhost`.
    let over_tls = run("localhost", "&sslmode=verify-full", Some(&authority));
    assert_eq!(over_tls.code, 0, "{}", over_tls.err);
    let encrypted = "SELECT rolname FROM pg_roles WHERE rolname = 'far'";
    assert_eq!(world.server.sql("postgres", encrypted), "far");
    let other = other_authority(&world.shell);
    for (host, options, authority) in [
        // Another name than the certificate has, other authorities than its own, those of the system, and none asked for.
        ("127.0.0.1", "&sslmode=verify-full", Some(&*authority)),
        ("localhost", "&sslmode=verify-full", Some(&*other)),
        ("localhost", "&sslmode=verify-full", None),
        ("localhost", "&sslmode=require", Some(&*other)),
    ] {
        let refused = run(host, options, authority);
        refused.fails_with(&["certificate"]);
        assert!(!refused.err.contains("start it"), "the server is there: {}", refused.err);
    }
    run("localhost", "&sslmode=disable", None).fails_with(&["the server refuses the login"]);
    let runs = world.server.sql("distant", "SELECT count(*) FROM loopgate.runs");
    assert_eq!(runs, "1");
}
