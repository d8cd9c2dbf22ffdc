//! Tests that every template generates a domain that loads, with every kind of data.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::{Domain, LoadOptions};

fn scaffold(template: Template) -> Scaffold {
    Scaffold { template, name: None, kind: None, goal: None, documents: None, database: None }
}

fn load(folder: &Path) -> Domain {
    Domain::load(folder, &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_template_loads_without_a_warning_but_for_the_missing_tool() {
    for template in Template::ALL {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("My First 'Desk'");
        let made = scaffold(template).write(&folder).unwrap();
        assert!(made.files.iter().all(|file| file.is_file()) && made.files.contains(&made.item));
        let domain = load(&folder);
        assert_eq!(&*domain.spec.domain, "my-first--desk");
        let warnings = domain.report().warnings;
        let expected = usize::from(template == Template::Extract);
        assert_eq!(warnings.len(), expected, "{}: {warnings:?}", template.name());
        let schema = fs::read_to_string(folder.join("domain.schema.json")).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&schema).unwrap(), crate::schema());
    }
}

/// A database that a script makes.
fn database(place: &Path, tables: &str) -> PathBuf {
    let script = place.join("a.sql");
    fs::write(&script, tables).unwrap();
    Database::made_from(&script, place).unwrap().path().to_owned()
}

fn tools(domain: &Domain) -> Vec<&str> {
    domain.spec.tools.iter().map(|tool| &*tool.name).collect()
}

#[test]
fn given_data_is_used_in_place_of_the_samples() {
    let place = tempfile::tempdir().unwrap();
    let documents = place.path().join("our \"documents\"");
    fs::create_dir(&documents).unwrap();
    fs::write(documents.join("a.md"), "# A\n\nText.\n").unwrap();
    let tables = "CREATE TABLE \"Order lines\" (\"no.\" TEXT PRIMARY KEY, \"2nd\" TEXT);
                  CREATE TABLE order_lines (a TEXT, \"API key\" TEXT, passwordHash TEXT, key_word TEXT);
                  INSERT INTO \"Order lines\" VALUES ('it''s \"1\"', 'x');";
    let given = Scaffold {
        kind: Some("order \"quoted\"".to_owned()),
        goal: Some("Line one.\nLine two with ''' and \"\"\".".to_owned()),
        documents: Some(documents),
        database: Some(database(place.path(), tables)),
        ..scaffold(Template::Support)
    };
    let folder = place.path().join("desk");
    let files = given.write(&folder).unwrap().files;
    let names: Vec<_> =
        files.iter().map(|file| file.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
    let item = "items/order-lines-it-s-1.json";
    assert_eq!(names, ["loopgate.toml", "domain.schema.json", ".gitignore", "evals/first.json", item]);
    let item = fs::read_to_string(folder.join(item)).unwrap();
    assert!(item.contains("\"2nd\": \"x\""), "{item}");
    let domain = load(&folder);
    assert_eq!(tools(&domain), ["search_documents", "fetch_order_lines", "fetch_order_lines_2"]);
    assert_eq!(&*domain.spec.goal, "Line one.\nLine two with ''' and \"\"\".");
    // Both can be moved together, and no secret is read.
    let text = fs::read_to_string(folder.join("loopgate.toml")).unwrap();
    assert!(text.starts_with("#:schema ./domain.schema.json\n"), "{text}");
    assert!(text.contains("folder = '../our \"documents\"'"), "{text}");
    assert!(text.contains("cannot be read: order_lines.API key, order_lines.passwordHash\n"), "{text}");
    assert!(text.contains("SELECT \"a\", \"key_word\"\n"), "{text}");
    let moved = place.path().join("moved");
    fs::create_dir(&moved).unwrap();
    for entry in fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry != moved {
            fs::rename(&entry, moved.join(entry.file_name().unwrap())).unwrap();
        }
    }
    load(&moved.join("desk"));
}

#[test]
fn a_name_is_spelled_without_accents() {
    for (name, spelled) in
        [("Größe", "groesse"), ("e\u{301}tat", "etat"), ("Łódź-Øl", "lodz_ol"), ("表", "value")]
    {
        assert_eq!(data::identifier(name), spelled);
    }
    assert_eq!(text::name_of(Path::new("Räder 7")), "raeder-7");
}

#[test]
fn a_foreign_key_is_a_tool_and_tools_beyond_the_most_are_off() {
    let place = tempfile::tempdir().unwrap();
    let mut tables = "CREATE TABLE policies (no TEXT PRIMARY KEY, holder TEXT);
                      CREATE TABLE claims (no TEXT PRIMARY KEY, policy TEXT REFERENCES policies, a INT, b INT,
                                           FOREIGN KEY (a, b) REFERENCES pairs (a, b));
                      CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID;
                      INSERT INTO policies VALUES ('P-7', 'Ada'); INSERT INTO claims VALUES ('C-9', 'P-7', NULL, NULL);"
        .to_owned();
    (0..30)
        .for_each(|nth| tables.push_str(&format!("CREATE TABLE \"zz {nth:02}\" (id INTEGER PRIMARY KEY);")));
    let given = Scaffold { database: Some(database(place.path(), &tables)), ..scaffold(Template::Agent) };
    let folder = place.path().join("desk");
    let made = given.write(&folder).unwrap();
    assert_eq!(made.item, folder.join("items/claims-c-9.md"));
    let domain = load(&folder);
    let on = tools(&domain);
    let first =
        ["fetch_claims", "fetch_claims_by_policy", "fetch_claims_by_a_b", "fetch_policies", "fetch_pairs"];
    assert_eq!((&on[..5], on.len()), (&first[..], 24), "{on:?}");
    let text = fs::read_to_string(folder.join("loopgate.toml")).unwrap();
    assert_eq!(text.matches("\nenabled = false\n").count(), 33 + 2 - 24, "{text}");
    assert!(text.contains("WHERE \"a\" = :a AND \"b\" = :b"), "{text}");
}

#[test]
#[cfg(unix)]
fn what_no_relative_path_reaches_is_absolute() {
    assert_eq!(seen_from(Path::new("/proc/sys"), Path::new("/usr/a.db")), Path::new("/usr/a.db"));
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("a/b");
    fs::create_dir_all(&folder).unwrap();
    assert_eq!(seen_from(&folder, &place.path().join("data.db")), Path::new("../../data.db"));
    // A link keeps its name: what it leads to may change.
    let file = place.path().join("data-2026.db");
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, place.path().join("data.db")).unwrap();
    assert_eq!(seen_from(&folder, &place.path().join("data.db")), Path::new("../../data.db"));
}

#[test]
fn nothing_is_overwritten_and_bad_places_are_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("desk");
    scaffold(Template::Agent).write(&folder).unwrap();
    let before = fs::read_to_string(folder.join("loopgate.toml")).unwrap();
    let error = scaffold(Template::Support).write(&folder).unwrap_err();
    assert!(matches!(error, DomainError::Taken { .. }), "{error}");
    assert_eq!(fs::read_to_string(folder.join("loopgate.toml")).unwrap(), before);
    assert!(matches!(
        scaffold(Template::Agent).write(&folder.join("loopgate.toml")).unwrap_err(),
        DomainError::Taken { .. }
    ));
    // A place that cannot be read is named before anything is written.
    let new = place.path().join("new");
    for given in [
        Scaffold { documents: Some(place.path().join("gone")), ..scaffold(Template::Documents) },
        Scaffold { database: Some(folder.join("loopgate.toml")), ..scaffold(Template::Agent) },
        Scaffold { database: Some(database(place.path(), "SELECT 1;")), ..scaffold(Template::Agent) },
        Scaffold { kind: Some(" ".to_owned()), ..scaffold(Template::Agent) },
    ] {
        let error = given.write(&new).unwrap_err();
        assert!(matches!(error, DomainError::Option { .. }), "{error}");
        assert!(!new.exists());
    }
}
