//! Tests of the file of tokens.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

fn place() -> (tempfile::TempDir, TokenFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::at(folder.path().join("tokens.toml"));
    (folder, file)
}

fn new(name: &str) -> NewToken {
    NewToken { name: name.into(), roles: [Role::Read].into(), ..NewToken::default() }
}

#[test]
fn a_token_that_is_added_is_read_back_and_its_secret_is_not_in_the_file() {
    // K13
    let (_folder, file) = place();
    let day_limit = Some(PicoUsd(2_500_000_000_001));
    let domains = Some([Arc::from("helpdesk")].into());
    let expires = Some("2027-01-01T00:00:00Z".parse().unwrap());
    let secret = file.add(NewToken { day_limit, domains, expires, ..new("ci") }).unwrap();
    assert!(secret.reveal().starts_with(TOKEN_PREFIX));
    file.add(new("team")).unwrap();
    let tokens = file.read().unwrap();
    assert_eq!(tokens.iter().map(|token| &*token.name).collect::<Vec<_>>(), ["ci", "team"]);
    assert_eq!((tokens[0].day_limit, tokens[0].expires, tokens[0].hash), (day_limit, expires, secret.hash()));
    assert!(tokens[0].caller().sees("helpdesk") && !tokens[0].caller().sees("crm"));
    assert!(tokens[0].is_expired("2027-01-01T00:00:00Z".parse().unwrap()));
    assert!(!tokens[1].is_expired(Timestamp::MAX));
    let text = fs::read_to_string(file.path()).unwrap();
    assert!(!text.contains(&secret.reveal()[4..]), "{text}");
    let error = file.add(new("ci")).unwrap_err();
    assert!(matches!(error, TokenError::Taken { .. }), "{error}");
    let error = file.add(new("Local")).unwrap_err().to_string();
    assert!(error.contains("`local` is the person at this machine"), "{error}");
    assert!(file.remove("ci").unwrap() && !file.remove("ci").unwrap());
    assert_eq!(file.read().unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_read_is_refused() {
    // K13
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, file) = place();
    file.add(new("ci")).unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o644, 0o604, 0o660] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, TokenError::Open { mode: found, .. } if found == mode), "{error}");
    }
}

#[test]
fn a_file_that_is_not_a_list_of_tokens_is_refused_in_one_line() {
    let hash = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let row = |more: &str| {
        format!(
            "[[token]]\nname = \"ci\"\nhash = \"{hash}\"\nroles = [\"read\"]\ncreated = \"2026-11-26T03:00:00Z\"\n{more}\n"
        )
    };
    assert_eq!(parse(&row("")).unwrap().len(), 1);
    let broken = [
        "[[token]".to_owned(),
        "x = 1".to_owned(),
        row("role = \"admin\""),
        row("domains = []"),
        row("domains = [\"\"]"),
        row("day_usd = \"much\""),
        row("expires = \"tomorrow\""),
        row("").replace(hash, "sha256:12"),
        row("").replace("\"read\"", "\"root\""),
        row("").replace("\"read\"", ""),
        row("").replace("ci", "c i"),
        row("") + &row(""),
    ];
    for text in broken {
        let problem = parse(&text).unwrap_err();
        assert!(!problem.contains('\n') && !problem.contains("ba7816"), "{text}\n{problem}");
    }
}

#[test]
fn an_amount_is_written_as_it_is_read() {
    for amount in [0, 1, 500_000_000_000, 10 * PicoUsd::PER_USD, 12 * PicoUsd::PER_USD + 340_000_000_000] {
        assert_eq!(in_usd(PicoUsd(amount)).parse::<PicoUsd>().unwrap(), PicoUsd(amount), "{amount}");
    }
}
