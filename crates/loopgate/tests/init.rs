//! `loopgate init`: a new folder that runs at once.

use crate::common;

use std::fs;

use common::Shell;
use common::terminal::Terminal;

/// The path of a folder that is not there yet.
fn new_folder(shell: &Shell, name: &str) -> String {
    shell.file("keep", "").with_file_name(name).display().to_string()
}

const TEMPLATES: [&str; 6] = ["support", "documents", "agent", "turn", "step", "extract"];

/// Makes a domain, checks it, runs its item and its case, and returns the text of its files.
#[track_caller]
fn made(shell: &Shell, name: &str, args: &[&str]) -> String {
    let folder = new_folder(shell, name);
    let made = shell.run(&[&["init", &folder], args].concat());
    assert_eq!(made.code, 0, "{}", made.err);
    let item = made.out.lines().last().unwrap();
    assert_eq!(
        made.err.lines().next().unwrap().split("; ").next().unwrap(),
        format!("next: loopgate run {folder} {item}")
    );
    let checked = shell.run(&["domain", "check", &folder]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let ran = shell.run(&["run", &folder, item]);
    assert_eq!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
    let is_own = args.contains(&"--database") || args.contains(&"--documents");
    assert!(is_own || !ran.out.contains("nothing was found"), "{}", ran.out);
    let evals = shell.run(&["eval", &folder]);
    assert_eq!(evals.code, 0, "{name}: {}{}", evals.out, evals.err);
    // A second time nothing is touched.
    shell.run(&["init", &folder]).fails_with(&["something is there already", "nothing is overwritten"]);
    let schema = shell.run(&["schema"]);
    let text = |file: &str| fs::read_to_string(file).unwrap();
    assert_eq!(text(&format!("{folder}/domain.schema.json")), schema.out);
    made.out.lines().filter(|file| !file.ends_with("domain.schema.json")).map(text).collect()
}

fn database(shell: &Shell, name: &str, tables: &str) -> String {
    let file = shell.state.path().join(name).display().to_string();
    rusqlite::Connection::open(&file).unwrap().execute_batch(tables).unwrap();
    file
}

#[test]
fn each_template_is_checked_runs_without_a_key_and_passes_its_case() {
    let shell = Shell::new();
    for template in TEMPLATES {
        made(&shell, template, &["--template", template]);
    }
}

#[test]
fn own_data_leaves_nothing_of_the_samples() {
    let shell = Shell::new();
    let tables = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, password TEXT);
        CREATE TABLE policies (policy_no TEXT PRIMARY KEY, customer_id INTEGER REFERENCES customers(id), product TEXT);
        CREATE TABLE claims (claim_no TEXT PRIMARY KEY, policy_no TEXT REFERENCES policies, opened TEXT, state TEXT);
        INSERT INTO customers VALUES (17, 'Ada Lind', 'ada@lind.example', 'x');
        INSERT INTO policies VALUES ('P-100', 17, 'Household');
        INSERT INTO claims VALUES ('C-2001', 'P-100', '2026-01-05', 'open');";
    let database = database(&shell, "insurance.db", tables);
    let documents = shell.file("rules/water.md", "# Water damage\n\nWater damage is covered.\n");
    let documents = documents.parent().unwrap().to_str().unwrap();
    for template in TEMPLATES {
        for (name, given) in [
            ("data", &["--database", &database][..]),
            ("texts", &["--documents", documents]),
            ("both", &["--database", &database, "--documents", documents]),
        ] {
            let args = [&["--template", template], given].concat();
            let text = made(&shell, &format!("{name}-{template}"), &args);
            let has = |word: &str| text.to_lowercase().contains(word);
            for word in ["parcel", "cust-7", "ada brown", "boots", "refund", "customers.sql"] {
                assert!(!has(word), "{template} {name}: {word} in {text}");
            }
            assert_eq!(has("c-2001"), name != "texts", "{template} {name}: {text}");
            assert!(!has("\"password\""), "{text}");
            assert!(!text.contains(shell.state.path().to_str().unwrap()), "{template} {name}: {text}");
        }
    }
}

#[test]
fn a_column_of_integers_is_asked_for_with_an_integer_and_accents_are_spelled() {
    let shell = Shell::new();
    let tables = "CREATE TABLE räder (id INTEGER PRIMARY KEY, état TEXT, größe BIGINT);
        CREATE TABLE bestellungen (nr INT PRIMARY KEY, rad_id INTEGER REFERENCES räder(id), mixed INTEGER);
        INSERT INTO räder VALUES (7, 'payé', 28); INSERT INTO bestellungen VALUES (12, 7, 'P-1');
        CREATE TABLE empty (id INTEGER PRIMARY KEY);";
    let file = database(&shell, "räder.db", tables);
    let text = made(&shell, "bikes", &["--template", "support", "--database", &file]);
    for has in [
        "[tools.fetch_raeder]",
        "[tools.fetch_bestellungen_by_rad_id]",
        "WHERE \"id\" = :id\n",
        "type = \"integer\"\ndescription = \"The id to look for\"\nexamples = [7]\n",
        "The rows of bestellungen that belong to a row of räder are needed",
        "title = \"/title\"",
        "\"id\": 12,",
        "\"mixed\": \"P-1\"",
    ] {
        assert!(text.contains(has), "{has} in {text}");
    }
    let folder = new_folder(&shell, "bikes");
    let called = shell.run(&["tools", &folder, "call", "fetch_raeder", "{\"id\": 7}"]);
    assert!(called.out.contains("payé"), "{}{}", called.out, called.err);
    let text = made(
        &shell,
        "empty",
        &["--template", "agent", "--database", &database(&shell, "e.db", "CREATE TABLE e (id INT)")],
    );
    assert!(text.contains("\"id\": 1"), "{text}");
    let item = made(&shell, "extract", &["--template", "extract", "--database", &file]);
    assert!(item.contains("\"type\": \"integer\""), "{item}");
}

#[test]
fn a_case_whose_replies_lack_a_section_of_the_domain_names_it() {
    let shell = Shell::new();
    let folder = new_folder(&shell, "desk");
    assert_eq!(shell.run(&["init", &folder]).code, 0);
    let file = format!("{folder}/loopgate.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"reply\"", "\"answer\"").replace("\"Reply\"", "\"Answer\"")).unwrap();
    let evals = shell.run(&["eval", &folder]);
    assert_eq!(evals.code, 1, "{}", evals.out);
    for has in [
        "the class is failed, expected answered: it stopped with model_failure (",
        "the document lacks section `answer`, which the domain demands",
    ] {
        assert!(evals.out.contains(has), "{}", evals.out);
    }
}

#[test]
fn databases_as_they_are_make_domains_that_work() {
    let shell = Shell::new();
    let many = (0..200).map(|nth| format!("CREATE TABLE t{nth} (id INTEGER PRIMARY KEY, x TEXT);"));
    let many = format!("{} INSERT INTO t7 VALUES (1234, 'x');", many.collect::<String>());
    for (name, tables) in [
        ("names", "CREATE TABLE \"größe & 'maß'\" (\"die Nr.\" TEXT PRIMARY KEY, \"a\"\"b\" BLOB, \"c\nd\" TEXT);
                   INSERT INTO \"größe & 'maß'\" VALUES ('N-31', x'00ff', 'x\ny');"),
        ("words", "CREATE TABLE \"select\" (\"from\" TEXT PRIMARY KEY, \"where\" INTEGER, \"order\" TEXT) WITHOUT ROWID;
                   INSERT INTO \"select\" VALUES ('S-12', 1, NULL);"),
        ("views", "CREATE TABLE a (id TEXT, n); INSERT INTO a VALUES ('A-55', 4);
                   CREATE VIEW v AS SELECT id, n + 1 AS m FROM a; CREATE VIEW gone AS SELECT x FROM missing;"),
        ("itself", "CREATE TABLE tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree, label TEXT);
                    INSERT INTO tree VALUES (4711, NULL, 'root');"),
        ("many", &many),
    ] {
        let file = database(&shell, &format!("{name}.db"), tables);
        for template in ["support", "agent", "extract"] {
            made(&shell, &format!("{name}-{template}"), &["--template", template, "--database", &file]);
        }
    }
    let folder = new_folder(&shell, "not");
    let empty = shell.file("empty.db", "").display().to_string();
    let broken = shell.file("broken.db", &format!("SQLite format 3\0{}", "x".repeat(5_000)));
    let broken = broken.display().to_string();
    for (file, says) in
        [(&*empty, "holds no table"), (&broken, "SQLite"), ("/nope", "no such file"), ("/tmp", "/tmp: ")]
    {
        shell.run(&["init", &folder, "--database", file]).fails_with(&["--database", says, "; "]);
        assert!(fs::metadata(&folder).is_err(), "{file}");
    }
}

#[test]
fn at_a_terminal_it_asks_and_an_empty_answer_takes_the_default() {
    let shell = Shell::new();
    let folder = new_folder(&shell, "asked");
    let mut person = Terminal::run(shell.command(&["init", &folder]));
    person.wait_for("What is it for? [1] ");
    person.press("9\n");
    person.wait_for("answer with a number from 1 to 6, or with a name");
    person.press("documents\n");
    person.wait_for("What is one item called? [question] ");
    person.press("request\n");
    person.wait_for("[a sentence of the template] ");
    person.press("\n");
    // A bad answer is asked again at once, and the others are kept.
    person.wait_for("A SQLite file? Each table gets a tool. [none] ");
    person.press("/nope\n");
    person.wait_for("there is no such file");
    person.press("\n");
    person.wait_for("A folder of documents to search? [a sample] ");
    person.press(&format!("{}\n", shell.state.path().join("keep").display()));
    person.wait_for("there is no such folder");
    person.press("\n");
    let (code, screen) = person.end();
    assert_eq!(code, 0, "{screen}");
    let text = fs::read_to_string(format!("{folder}/loopgate.toml")).unwrap();
    assert!(text.contains("kind = \"request\"") && text.contains("[tools.search_documents]"), "{text}");
    assert!(!text.contains("[sources"), "{text}");
    // Whoever goes away in the middle has made nothing.
    let left = new_folder(&shell, "left");
    let mut person = Terminal::run(shell.command(&["init", &left]));
    person.wait_for("What is it for? [1] ");
    person.press("\u{4}");
    let (code, screen) = person.end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("nothing was made") && fs::metadata(&left).is_err(), "{screen}");
}
