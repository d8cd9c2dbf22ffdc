//! Tests of databases: read-only unless asked for, made once, never stale, and what was written is kept.

#![allow(clippy::unwrap_used)]

use super::*;

const SCRIPT: &str = "CREATE TABLE t (a);\nINSERT INTO t VALUES (1), (2);\n";

fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.sql");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn count(database: &Database) -> i64 {
    let connection = database.connect().unwrap();
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_database_is_made_once_from_its_script() {
    // S0-80: what a query reaches is the file that the domain names.
    let (folder, path) = script(SCRIPT);
    let cache = folder.path().join("cache");
    let database = Database::made_from(&path, &cache).unwrap();
    assert_eq!(count(&database), 2);
    let made = fs::metadata(database.path()).unwrap().modified().unwrap();
    let again = Database::made_from(&path, &cache).unwrap();
    assert_eq!(again, database);
    assert_eq!(fs::metadata(again.path()).unwrap().modified().unwrap(), made);
    let names = names(&cache);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().any(|name| name.starts_with("shop-") && name.len() == "shop-.db".len() + 12),
        "{names:?}"
    );
}

#[test]
fn a_changed_script_makes_another_database() {
    let (folder, path) = script(SCRIPT);
    let cache = folder.path().join("cache");
    let old = Database::made_from(&path, &cache).unwrap();
    fs::write(&path, format!("{SCRIPT}INSERT INTO t VALUES (3);")).unwrap();
    let new = Database::made_from(&path, &cache).unwrap();
    assert_eq!((count(&old), count(&new)), (2, 3));
}

#[test]
fn two_may_make_it_at_once() {
    let (folder, path) = script(SCRIPT);
    let cache = folder.path().join("cache");
    let makers: Vec<_> = (0..8)
        .map(|_| {
            let (path, cache) = (path.clone(), cache.clone());
            std::thread::spawn(move || count(&Database::made_from(&path, &cache).unwrap()))
        })
        .collect();
    assert!(makers.into_iter().all(|maker| maker.join().unwrap() == 2));
    assert!(names(&cache).iter().all(|name| !name.ends_with(".tmp")));
}

#[test]
fn a_folder_that_cannot_be_written_is_no_obstacle() {
    let (folder, path) = script(&format!("{SCRIPT}-- {}", std::process::id()));
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let database = Database::made_from(&path, &blocked.join("cache")).unwrap();
    assert!(database.path().starts_with(std::env::temp_dir()));
    assert_eq!(count(&database), 2);
    fs::remove_file(database.path()).unwrap();
}

#[test]
fn a_script_that_does_not_run_names_its_line_and_leaves_nothing() {
    let (folder, path) = script("CREATE TABLE t (a);\n\nINSRT INTO t VALUES (1);\n");
    let cache = folder.path().join("cache");
    let error = Database::made_from(&path, &cache).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}:3: SQLite refuses the script: near \"INSRT\": syntax error; correct it there",
            path.display()
        )
    );
    assert_eq!(names(&cache), [".gitignore"]);
    fs::write(&path, "INSERT INTO u VALUES (1);").unwrap();
    let error = Database::made_from(&path, &cache).unwrap_err().to_string();
    assert!(
        error.ends_with("shop.sql: SQLite refuses the script: no such table: u; correct it there"),
        "{error}"
    );
    fs::write(&path, "BEGIN; CREATE TABLE t (a);").unwrap();
    let error = Database::made_from(&path, &cache).unwrap_err().to_string();
    assert!(error.contains("begun and not committed"), "{error}");
}

#[test]
fn a_missing_file_and_a_wrong_one_are_one_line_each() {
    let (folder, path) = script(
        "not a database, and long enough that SQLite looks at its header: it has to be 100 bytes or more.",
    );
    let missing = folder.path().join("x.db");
    let error = Database::open(&missing).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{}: there is no such file; correct the path or put the file there", missing.display())
    );
    let error = Database::open(&path).unwrap_err().to_string();
    assert!(error.contains("SQLite cannot open it: file is not a database"), "{error}");
    let error = Database::made_from(&missing, folder.path()).unwrap_err().to_string();
    assert!(error.contains("there is no such file"), "{error}");
}

#[test]
fn a_connection_cannot_write() {
    let (folder, path) = script(SCRIPT);
    let database = Database::made_from(&path, folder.path()).unwrap();
    let error = database.connect().unwrap().execute("INSERT INTO t VALUES (9)", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly));
}

#[test]
fn a_script_opens_no_other_file() {
    let outside = tempfile::tempdir().unwrap();
    let other = outside.path().join("other.db");
    for statement in ["ATTACH", "VACUUM INTO"] {
        let attach = format!(
            "{SCRIPT}{statement} '{}'{};",
            other.display(),
            if statement == "ATTACH" { " AS o" } else { "" }
        );
        let (folder, path) = script(&attach);
        let error = Database::made_from(&path, &folder.path().join("cache")).unwrap_err().to_string();
        assert!(error.contains("shop.sql"), "{error}");
        assert!(!other.exists(), "{statement}");
    }
}

fn add(database: &Database) {
    let writer = database.writer().unwrap();
    writer.connect().unwrap().execute("INSERT INTO t VALUES (9)", []).unwrap();
}

#[test]
fn only_a_database_that_was_opened_for_it_can_be_written() {
    let (folder, path) = script(SCRIPT);
    let made = Database::made_from(&path, folder.path()).unwrap();
    assert!(made.writer().is_none() && Database::open(made.path()).unwrap().writer().is_none());
    let writable = Database::open_writable(made.path()).unwrap();
    add(&writable);
    assert_eq!(count(&writable), 3);
    let error = writable.connect().unwrap().execute("INSERT INTO t VALUES (9)", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly));
}

#[test]
fn a_working_copy_keeps_what_is_written_until_the_script_changes() {
    let (folder, path) = script(SCRIPT);
    let cache = folder.path().join("cache");
    let copy = Database::working_copy(&path, &cache).unwrap();
    add(&copy);
    assert_eq!(count(&Database::working_copy(&path, &cache).unwrap()), 3);
    // A reader of the same script is not touched by it.
    assert_eq!(count(&Database::made_from(&path, &cache).unwrap()), 2);
    fs::write(&path, format!("{SCRIPT}-- again")).unwrap();
    assert_eq!(count(&Database::working_copy(&path, &cache).unwrap()), 2);
    assert!(names(&cache).iter().all(|name| !name.ends_with(".tmp")), "{:?}", names(&cache));
}

#[test]
fn a_working_copy_that_is_made_twice_at_once_loses_nothing() {
    let (folder, path) = script(SCRIPT);
    let cache = folder.path().join("cache");
    let script = Script::read(&path).unwrap();
    let copy = Database::working_copy(&path, &cache).unwrap();
    add(&copy);
    // The slower of two makers, who did not see the copy of the faster one.
    let place = script.make(&cache, &script.name_of("-working"), link_once).unwrap();
    assert_eq!((place.as_path(), count(&copy)), (copy.path(), 3));
}

#[test]
fn a_working_copy_without_a_place_is_an_error() {
    // What is written must not end in a folder that the system empties.
    let (folder, path) = script(SCRIPT);
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let error = Database::working_copy(&path, &blocked.join("cache")).unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.ends_with("make the folder writable"), "{error}");
}

#[test]
fn a_protected_file_is_not_opened_for_writing() {
    let (folder, path) = script(SCRIPT);
    let made = Database::made_from(&path, folder.path()).unwrap();
    let mut permissions = fs::metadata(made.path()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(made.path(), permissions).unwrap();
    // Nothing is protected from the system's administrator.
    let may_write = fs::OpenOptions::new().write(true).open(made.path()).is_ok();
    match Database::open_writable(made.path()) {
        Ok(_) => assert!(may_write),
        Err(error) => {
            let expected = format!(
                "{}: cannot be written: it is write-protected; make it writable",
                made.path().display()
            );
            assert_eq!((error.to_string(), may_write), (expected, false));
        }
    }
}

#[test]
fn what_a_dead_program_left_half_written_is_taken_back() {
    let (folder, path) = script(SCRIPT);
    let copy = Database::working_copy(&path, folder.path()).unwrap();
    let connection = copy.writer().unwrap().connect().unwrap();
    // So little memory that the change reaches the file before it is committed.
    connection.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE big (a)").unwrap();
    connection
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999) \
                        INSERT INTO big SELECT randomblob(999) FROM n",
            [],
        )
        .unwrap();
    let dead = folder.path().join("dead.db");
    fs::copy(copy.path(), &dead).unwrap();
    fs::copy(format!("{}-journal", copy.path().display()), folder.path().join("dead.db-journal")).unwrap();
    assert!(Database::open(&dead).is_err(), "nothing was left half written");
    let database = Database::open_writable(&dead).unwrap();
    assert_eq!(count(&database), 2);
}
