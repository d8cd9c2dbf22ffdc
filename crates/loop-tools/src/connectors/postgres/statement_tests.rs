//! Tests of the scanner: what is a placeholder, and what only looks like one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;

#[track_caller]
fn scanned(text: &str) -> (String, Vec<String>) {
    let statement = Statement::scan(text).unwrap();
    (statement.sql, statement.names)
}

#[track_caller]
fn is_unchanged(text: &str) {
    assert_eq!(scanned(text), (text.to_owned(), Vec::new()));
}

#[test]
fn names_become_numbers_and_one_name_has_one_number() {
    // S0-64
    assert_eq!(
        scanned("SELECT :b, :a, :b FROM t WHERE x = :scope_account"),
        (
            "SELECT $1, $2, $1 FROM t WHERE x = $3".to_owned(),
            vec!["b".to_owned(), "a".to_owned(), "scope_account".to_owned()]
        )
    );
    assert_eq!(scanned("SELECT :a::int+:b").0, "SELECT $1::int+$2");
    assert_eq!(scanned("SELECT (:a)").0, "SELECT ($1)");
    assert_eq!(scanned("SELECT :zahl_ä, 1").1, ["zahl_ä"]);
    assert_eq!(scanned("SELECT :a$").0, "SELECT $1 $", "a dollar behind it is not a part of the number");
}

#[test]
fn strings_comments_names_casts_and_operators_hold_no_placeholder() {
    // S0-64: what is not a placeholder stays as it is.
    for text in [
        "SELECT 'a :x ''b'' :y'",
        "SELECT E'it\\'s :x', e'\\\\'",
        "SELECT U&'\\0061 :x', B'10', N':x'",
        "SELECT $$ :x $$, $tag$ :x $$ $other$ $tag$, $é$ :x $é$",
        "SELECT \"a :x \"\" :y\" FROM t",
        "SELECT 1 -- :x ' \" $$\n, 2",
        "SELECT /* :x /* ' nested :y */ still :z */ 1",
        "SELECT x::text, now()::date, 'a'::text::bytea",
        "SELECT f(a := 1, b => 2)",
        "SELECT arr[1:2], arr[ : 2]",
        "SELECT '{\"a\": 1}'::jsonb ? 'a', a ?| array['b']",
        "SELECT te$x, a$1 FROM te$x",
        "SELECT 1e5, 1.5, 0x1F",
        "SELECT type'x :y'",
    ] {
        is_unchanged(text);
    }
    assert_eq!(scanned("SELECT E'\\' :x', :y").1, ["y"]);
    assert_eq!(scanned("SELECT 'a\\', :y, 'b'").1, ["y"], "a plain string has no escapes");
    assert_eq!(
        scanned("SELECT type'\\', :y").1,
        ["y"],
        "only E has escapes, and not a name that ends with it"
    );
}

#[test]
fn only_one_statement_is_one() {
    // S0-64
    assert_eq!(scanned("SELECT 1 ; -- end\n /* ; */ ;").0, "SELECT 1");
    for text in [
        "SELECT 1; DROP TABLE t",
        "SELECT 1; :a",
        "SELECT 1; 'x'",
        "SELECT 1; $$",
        "SELECT 1; (",
        "; SELECT 1; SELECT 2",
    ] {
        assert_eq!(Statement::scan(text), Err(ScanError::MoreThanOne), "{text}");
    }
    for text in ["", "  -- nothing\n", ";", "/* x */ ;"] {
        assert_eq!(Statement::scan(text), Err(ScanError::Nothing), "{text}");
    }
    is_unchanged("SELECT ';', $$;$$, \";\" /* ; */");
}

#[test]
fn what_does_not_end_says_where_it_begins() {
    let says = |text: &str| match Statement::scan(text) {
        Err(ScanError::Malformed(message)) => message,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(says("SELECT 1,\n 'abc"), "a string is not closed, which begins in its line 2");
    assert_eq!(says("SELECT E'abc\\'"), "a string is not closed, which begins in its line 1");
    assert_eq!(says("SELECT\n\n$x$ abc $y$"), "a string is not closed, which begins in its line 3");
    assert_eq!(says("SELECT \"abc"), "a quoted name is not closed, which begins in its line 1");
    assert_eq!(says("SELECT 1 /* /* */"), "a comment is not closed, which begins in its line 1");
    assert_eq!(says("SELECT (1"), "a bracket is not closed in its line 1");
    assert_eq!(says("SELECT (1; SELECT 2)"), "a bracket is not closed in its line 1");
    assert_eq!(says("SELECT 1) AS x, (SELECT 2"), "it closes a bracket that is not open in its line 1");
    assert_eq!(says("SELECT '\0'"), "it holds a NUL character in its line 1");
}

#[test]
fn placeholders_by_number_are_refused() {
    assert_eq!(Statement::scan("SELECT $12::int"), Err(ScanError::Numbered("$12".to_owned())));
}

#[test]
fn the_first_word_is_behind_comments_and_brackets() {
    let word = |text: &str| Statement::scan(text).unwrap().first_word;
    assert_eq!(word("/* x */ -- y\n ((Select 1))"), "select");
    assert_eq!(word("WITH x AS (SELECT 1) SELECT 2"), "with");
    assert_eq!(word(":x SELECT"), "");
    assert_eq!(word("'x'"), "");
}

#[test]
fn any_text_ends_and_gives_a_text_of_its_length() {
    // Every mix of the marks that begin or end something: none makes the scanner panic or run on.
    let marks = [
        "'", "\"", "$", "$$", "$a$", ":", "::", ":a", "/*", "*/", "--", "\n", ";", "E'", "\\", "é", "(", ")",
        "1",
    ];
    for a in marks {
        for b in marks {
            for c in marks {
                for d in marks {
                    let text = format!("{a}{b}{c}{d}");
                    if let Ok(statement) = Statement::scan(&text) {
                        assert!(statement.sql.len() <= 2 * text.len(), "{text}");
                    }
                }
            }
        }
    }
}
