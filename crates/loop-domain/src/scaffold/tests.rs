//! Every template makes a domain that loads, whatever it is given.
#![allow(clippy::unwrap_used)]

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
    }
}

#[test]
fn given_data_is_used_in_place_of_the_samples() {
    let place = tempfile::tempdir().unwrap();
    let documents = place.path().join("our \"documents\"");
    fs::create_dir(&documents).unwrap();
    fs::write(documents.join("a.md"), "# A\n\nText.\n").unwrap();
    let script = place.path().join("a.sql");
    let tables = "CREATE TABLE \"Order lines\" (\"no.\" TEXT PRIMARY KEY, \"2nd\" TEXT);
                  CREATE TABLE order_lines (a TEXT);
                  INSERT INTO \"Order lines\" VALUES ('it''s \"1\"', 'x');";
    fs::write(&script, tables).unwrap();
    let made = Database::made_from(&script, place.path()).unwrap();
    let given = Scaffold {
        kind: Some("order \"quoted\"".to_owned()),
        goal: Some("Line one.\nLine two with ''' and \"\"\".".to_owned()),
        documents: Some(documents),
        database: Some(made.path().to_owned()),
        ..scaffold(Template::Support)
    };
    let folder = place.path().join("desk");
    let files = given.write(&folder).unwrap().files;
    assert_eq!(files.len(), 2, "{files:?}");
    let domain = load(&folder);
    let spec = &domain.spec;
    let tools: Vec<&str> = spec.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(tools, ["search_documents", "fetch_order_lines", "fetch_order_lines_2"]);
    assert_eq!(&*spec.goal, "Line one.\nLine two with ''' and \"\"\".");
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
    ] {
        let error = given.write(&new).unwrap_err();
        assert!(matches!(error, DomainError::Unreadable { .. }), "{error}");
        assert!(!new.exists());
    }
}
