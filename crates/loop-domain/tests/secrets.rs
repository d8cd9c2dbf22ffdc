//! `[secrets]`: a secret may be in a file, come from a program or be in another variable, and is masked wherever it is from.

use std::fs;
use std::path::Path;

use loop_domain::{Domain, DomainError, LoadOptions};

const BASE: &str = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n[models.base]\n\
                    provider = \"compatible\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                    api_key_env = \"SHOP_KEY\"\n[secrets.SHOP_KEY]\n";
const SECRET: &str = "Violet-Harbour-2291";

fn load(folder: &Path, secret: &str) -> Result<Domain, DomainError> {
    fs::write(folder.join("loopgate.toml"), format!("{BASE}{secret}\n")).unwrap();
    Domain::load(folder, &LoadOptions::default())
}

/// What refuses a run with such a table, behind the place.
#[track_caller]
fn refused(secret: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let domain = load(folder.path(), secret).unwrap();
    let error = domain.ready(false).unwrap_err().to_string();
    assert!(!error.contains('\n') && !error.contains(SECRET), "{error}");
    let warnings = domain.report().warnings;
    assert!(warnings.contains(&error), "{warnings:?}");
    let folder = folder.path().display().to_string();
    error.rsplit_once("loopgate.toml:").unwrap().1.replace(&format!("{folder}/"), "")
}

// K13, S0-141
#[test]
fn a_secret_is_read_from_a_file_a_program_and_another_variable_and_is_masked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), format!("\n {SECRET}\r\n")).unwrap();
    for secret in ["file = \"key\"", "command = [\"cat\", \"key\"]"] {
        let domain = load(folder.path(), secret).unwrap();
        domain.ready(true).unwrap();
        assert_eq!(domain.secrets().mask(&format!("it is {SECRET}.")), "it is [masked].", "{secret}");
    }
    let domain = load(folder.path(), "env = \"CARGO_MANIFEST_DIR\"").unwrap();
    domain.ready(true).unwrap();
    assert_eq!(domain.secrets().mask(env!("CARGO_MANIFEST_DIR")), "[masked]");
}

#[test]
fn the_token_of_save_is_found_in_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), SECRET).unwrap();
    let save = "file = \"key\"\n[save]\nurl = \"https://reports.example/in\"\nbearer_env = \"SHOP_KEY\"";
    let domain = load(folder.path(), save).unwrap();
    domain.ready(true).unwrap();
    assert_eq!(domain.secrets().mask(SECRET), "[masked]");
    // A token that a header cannot hold is refused, and not shown.
    fs::write(folder.path().join("key"), format!("{SECRET}\nB")).unwrap();
    let error = load(folder.path(), save).map(|_| ()).unwrap_err().to_string();
    assert!(!error.contains(SECRET), "{error}");
}

#[test]
fn a_check_runs_no_program() {
    let folder = tempfile::tempdir().unwrap();
    load(folder.path(), "command = [\"touch\", \"ran\"]").unwrap();
    assert!(folder.path().join("ran").exists(), "a load does");
    fs::remove_file(folder.path().join("ran")).unwrap();
    let report = Domain::check(folder.path(), &LoadOptions::default()).unwrap();
    assert!(!folder.path().join("ran").exists());
    assert!(!report.warnings.iter().any(|warning| warning.contains("SHOP_KEY")), "{:?}", report.warnings);
}

#[test]
fn a_secret_that_is_not_there_refuses_a_run_in_one_line() {
    for (secret, line) in [
        (
            "file = \"none\"",
            "11:1: none: cannot be read: No such file or directory (os error 2); correct the path or make the file",
        ),
        ("file = \".\"", "11:1: .: it is not a file; name one"),
        ("command = []", "11:1: it names no program; write the program and its arguments"),
        (
            "command = [\"no-such-program\"]",
            "11:1: `no-such-program` cannot be run: No such file or directory (os error 2); correct the command",
        ),
        ("command = [\"false\"]", "11:1: `false` failed (exit status: 1); run it by hand to see why"),
        (
            "command = [\"sh\", \"-c\", \"echo Violet-Harbour-2291; exit 3\"]",
            "11:1: `sh` failed (exit status: 3); run it by hand to see why",
        ),
        ("command = [\"true\"]", "11:1: what `true` prints: it is empty; write the secret into it"),
        (
            "command = [\"head\", \"-c\", \"70000\", \"/dev/zero\"]",
            "11:1: what `head` prints: it is over 65,536 bytes; give the secret alone",
        ),
        (
            "command = [\"printf\", \"\\\\377\"]",
            "11:1: what `printf` prints: it is not UTF-8; give the secret alone",
        ),
        (
            "env = \"LOOPGATE_TEST_UNSET\"",
            "11:1: the environment variable `LOOPGATE_TEST_UNSET` is not set; set it to the secret",
        ),
        ("", "10:10: it does not say where the secret is; add `file`, `command` or `env`"),
        (
            "file = \"a\"\nenv = \"B\"",
            "10:10: it names several places; keep one of `file`, `command` and `env`",
        ),
    ] {
        assert_eq!(refused(secret), line, "{secret}");
    }
}

#[test]
fn a_program_that_goes_on_or_prints_without_end_is_ended() {
    let begun = std::time::Instant::now();
    let line = refused("command = [\"yes\"]");
    assert_eq!(line, "11:1: what `yes` prints: it is over 65,536 bytes; give the secret alone");
    let line = refused("command = [\"sleep\", \"60\"]");
    assert_eq!(line, "11:1: `sleep` took over 10 s; see why it waits, or give the secret in a file");
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn a_key_that_was_put_in_the_place_of_its_name_is_not_printed_back() {
    // Issue 40, H8
    let folder = tempfile::tempdir().unwrap();
    let file = |key: &str| {
        let text = format!(
            "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n[models.base]\n\
             provider = \"compatible\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n{key}\n"
        );
        fs::write(folder.path().join("loopgate.toml"), text).unwrap();
    };
    let with = |key: &str, value: &str| {
        let set = vec![(key.to_owned(), value.to_owned())];
        Domain::load(folder.path(), &LoadOptions { set, ..LoadOptions::default() })
    };
    for secret in ["sk-live-4f9c", "gsk_Zq8Lr4Xw9Tb2", "AIzaSyZq8Lr4Xw9Tb2"] {
        for key in ["api_key", "api_key_env"] {
            file("");
            let error = match with(&format!("models.base.{key}"), secret) {
                Ok(domain) => domain.ready(false).unwrap_err(),
                Err(error) => error,
            };
            let error = error.to_string();
            assert!(error.starts_with(&format!("--set models.base.{key}=…: ")), "{error}");
            assert!(!error.contains(secret), "{error}");
        }
        let table = with("models.base", &format!("{{ api_key = \"{secret}\" }}")).map(drop).unwrap_err();
        assert!(!table.to_string().contains(secret), "{table}");
        file(&format!("api_key_env = \"{secret}\""));
        let domain = Domain::load(folder.path(), &LoadOptions::default()).unwrap();
        let report = domain.report().warnings.join(" ");
        let error = domain.ready(false).unwrap_err().to_string();
        assert!(error.contains("write its name here, not what it holds"), "{error}");
        assert!(!error.contains(secret) && !report.contains(secret), "{error} {report}");
    }
    // The name of a variable is shown, and so is a number.
    file("");
    let error = with("models.base.api_key_env", "NO_SUCH_KEY").unwrap().ready(false).unwrap_err().to_string();
    assert!(error.starts_with("--set models.base.api_key_env=NO_SUCH_KEY: "), "{error}");
    let error = with("limits.tokens", "many").map(drop).unwrap_err().to_string();
    assert!(error.starts_with("--set limits.tokens=many: "), "{error}");
}
