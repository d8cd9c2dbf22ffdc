//! Tests of databases: read-only, made once, never stale.

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
    // S0-141
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
