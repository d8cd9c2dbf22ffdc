//! Full-text search over the documents and the evidence of runs that have ended: FTS5 in a file, `tsvector` in PostgreSQL.
//!
//! A search updates the index before it looks, so a run costs no more than without it, a journal that is there already gets
//! its index with the first search, and an end that came just before a crash is indexed by the next search. The index holds
//! words and no more than the journal: what is masked there is masked here. It follows from the entries, and can be dropped.
//!
//! Words are made here, for texts and for searches alike, and joined to phrases. So both databases find the same, and a
//! search has no syntax of theirs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use loop_core::types::RunId;

use super::StoredJournal;
use super::fault::Fault;
use super::read;
use super::sql::{Cell, Connection, NONE, Purpose, params};
use crate::{Durability, JournalError, replay};

/// Journals that were never searched have no such tables. PostgreSQL has them from the start.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS search_runs (
        nth  INTEGER NOT NULL PRIMARY KEY,
        run  TEXT NOT NULL UNIQUE,
        head TEXT NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE IF NOT EXISTS search_words USING fts5 (words, tokenize = 'unicode61 remove_diacritics 0');
    INSERT INTO search_words (search_words, rank) VALUES ('secure-delete', 1);";

/// Words of a part of a run, which is a row: PostgreSQL knows the places of 16,383 words.
const WORDS_IN_PART: usize = 15_000;
/// Parts of a run. Words beyond are not found.
const MAX_PARTS: usize = 8;
/// Characters of a word that count.
const MAX_WORD: usize = 64;
/// Bytes of words that one transaction writes, unless it is one run: what runs append waits for it.
const WRITTEN_TOGETHER: usize = 256 * 1024;
/// How many runs are looked at together.
const READ_TOGETHER: usize = 20;
/// Bytes and phrases of a search, and words of all its phrases.
const MAX_SEARCH: usize = 400;
const MAX_PHRASES: usize = 8;
const MAX_WORDS: usize = 24;

/// The terms of a search: phrases that a run must have, each in its document or its evidence. Several words in
/// quotation marks, and words that signs join such as `L-1`, are one phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchTerms(Vec<Vec<String>>);

impl SearchTerms {
    /// Parses a search text. Only quotation marks are syntax.
    ///
    /// # Errors
    /// If it has no word, or is too long: what is wrong and what to do.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_SEARCH {
            return Err("the search is longer than 400 bytes; give fewer words");
        }
        let quoted = text.split('"').enumerate();
        let parts = quoted.flat_map(|(nth, part)| match nth % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        let phrases: BTreeSet<Vec<String>> = parts.map(|part| words(part).collect()).collect();
        let phrases: Vec<Vec<String>> = phrases.into_iter().filter(|phrase| !phrase.is_empty()).collect();
        match (phrases.len(), phrases.iter().map(Vec::len).sum::<usize>()) {
            (0, _) => Err("there is no word in the search; give letters or digits"),
            (1..=MAX_PHRASES, 1..=MAX_WORDS) => Ok(Self(phrases)),
            _ => Err("the search has more than 8 terms or 24 words; give fewer"),
        }
    }

    /// A condition on the id of a run, with placeholders from the next number after `values` on.
    pub(super) fn condition(&self, connection: &Connection, values: &mut Vec<Cell>) -> String {
        format!("run IN ({})", self.runs(connection, values))
    }

    /// The same as a list of ids.
    fn runs(&self, connection: &Connection, values: &mut Vec<Cell>) -> String {
        let rows = self.0.iter().map(|phrase| {
            let (matches, value) = match connection.is_file() {
                true => ("search_words MATCH ?", format!("\"{}\"", phrase.join(" "))),
                false => {
                    let words: Vec<String> = phrase.iter().map(|word| format!("'{word}'")).collect();
                    ("words @@ CAST(CAST(? AS TEXT) AS TSQUERY)", words.join(" <-> "))
                }
            };
            values.push(Cell::Text(value));
            let matches = matches.replace('?', &format!("?{}", values.len()));
            format!("SELECT rowid / {MAX_PARTS} FROM search_words WHERE {matches}")
        });
        let rows: Vec<String> = rows.collect();
        format!("SELECT run FROM search_runs WHERE nth IN ({})", rows.join(" INTERSECT "))
    }
}

/// The words of a text in lower case. A character of a script without spaces between its words is a word.
fn words(text: &str) -> impl Iterator<Item = String> {
    let is_word =
        |c: char| matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.flat_map(move |part| {
        let (mut words, mut length) = (Vec::<String>::new(), MAX_WORD);
        for c in part.chars() {
            if length == usize::MAX || is_word(c) || words.is_empty() {
                words.push(String::new());
                length = 0;
            }
            if length < MAX_WORD
                && let Some(word) = words.last_mut()
            {
                word.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
                length += 1;
            }
            if is_word(c) {
                length = usize::MAX;
            }
        }
        words.into_iter().filter(|word| !word.is_empty())
    })
}

/// The words of a run that has ended, with its last entry. It has no parts if it cannot be read.
#[derive(Clone, Debug)]
struct IndexedRun {
    run: String,
    head: String,
    parts: Vec<Vec<String>>,
}

impl IndexedRun {
    fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(|word| word.len() + 1).sum()
    }
}

impl StoredJournal {
    /// Adds runs that have ended to the index of words, the newest first, until all are in it or this time is over.
    /// Returns how many are left.
    ///
    /// # Errors
    /// If the journal cannot be read, or it has no index and cannot be written.
    pub async fn index_words(&self, within: Duration) -> Result<u64, JournalError> {
        let began = Instant::now();
        let (has_index, is_read_only) = self
            .reading(|_, connection| {
                let has_index = connection.has_table("search_words")?;
                if !has_index {
                    connection.check_writes()?;
                }
                Ok((has_index, connection.is_read_only()?))
            })
            .await?;
        if !has_index {
            self.changing(Purpose::Alone, Durability::Committed, TABLES, |_, _| Ok(())).await?;
        }
        let alone = self.store.indexing.try_lock();
        let mut left = self
            .reading(|_, connection| {
                Ok(connection.query_row(&format!("SELECT count(*) {MISSING}"), NONE, |row| row.count(0))?)
            })
            .await?;
        // Each run is looked at once, however many there are.
        let mut before: Option<String> = None;
        while left > 0 && alone.is_ok() && !is_read_only && began.elapsed() < within {
            let from = before.take();
            let read = self.reading(move |files, connection| unindexed(files, connection, from)).await?;
            before = read.last().map(|run| run.run.clone());
            if before.is_none() {
                break;
            }
            left = left.saturating_sub(read.len() as u64);
            let mut together = Vec::new();
            for run in read {
                let bytes: usize = together.iter().map(IndexedRun::bytes).sum();
                if !together.is_empty() && bytes + run.bytes() > WRITTEN_TOGETHER {
                    self.keep_words(std::mem::take(&mut together)).await?;
                }
                together.push(run);
            }
            self.keep_words(together).await?;
        }
        Ok(left)
    }

    /// The runs that match these terms, as far as they are in the index.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn runs_with(&self, terms: &SearchTerms) -> Result<BTreeSet<RunId>, JournalError> {
        let terms = terms.clone();
        self.reading_table("search_words", move |_, connection| {
            let mut values = Vec::new();
            let list = terms.runs(connection, &mut values);
            Ok(connection.list(&list, values, |row| Ok(RunId::new(row.get::<String>(0)?)))?)
        })
        .await
    }

    async fn keep_words(&self, runs: Vec<IndexedRun>) -> Result<(), JournalError> {
        let keep = move |_: &_, connection: &Connection| {
            for IndexedRun { run, head, parts } in &runs {
                // A run that was pruned, or has more entries, is left out.
                let put = "INSERT INTO search_runs (run, head) SELECT run, head FROM runs WHERE run = ?1 AND head = ?2
                           ON CONFLICT (run) DO UPDATE SET head = excluded.head";
                if connection.execute(put, params![run, head])? == 0 {
                    continue;
                }
                drop_words(connection, run)?;
                let find = "SELECT nth FROM search_runs WHERE run = ?1";
                let nth: i64 = connection.query_row(find, [run], |row| row.get(0))?;
                let (put, text): (_, fn(&[String]) -> String) = match connection.is_file() {
                    true => ("?2", |words| words.join(" ")),
                    false => ("CAST(CAST(?2 AS TEXT) AS TSVECTOR)", placed),
                };
                let put = format!("INSERT INTO search_words (rowid, words) VALUES (?1, {put})");
                for (part, words) in (0_i64..).zip(parts) {
                    let rowid = nth * MAX_PARTS as i64 + part;
                    connection.execute_one(&put, params![rowid, text(words)])?;
                }
            }
            Ok(())
        };
        self.changing(Purpose::Rows, Durability::Committed, "", keep).await
    }
}

/// Words with their places, as a `tsvector` is written.
fn placed(words: &[String]) -> String {
    let words = words.iter().enumerate().map(|(at, word)| format!("'{word}':{}", at + 1));
    words.collect::<Vec<_>>().join(" ")
}

/// Takes the words of a run out of the index, and nothing of them stays in its pages.
fn drop_words(connection: &Connection, run: &str) -> Result<(), Fault> {
    let drop = format!(
        "DELETE FROM search_words WHERE rowid IN (
             SELECT nth * {MAX_PARTS} + part.n FROM search_runs, ({}) AS part WHERE run = ?1)",
        (0..MAX_PARTS).map(|n| format!("SELECT {n} AS n")).collect::<Vec<_>>().join(" UNION ALL ")
    );
    connection.execute(&drop, [run])?;
    Ok(())
}

/// Takes a run out of the index, if there is one.
pub(super) fn forget(connection: &Connection, run: &RunId) -> Result<(), Fault> {
    if connection.has_table("search_words")? {
        drop_words(connection, run.as_str())?;
        connection.execute("DELETE FROM search_runs WHERE run = ?1", [run.as_str()])?;
    }
    Ok(())
}

/// The runs that have ended and are not in the index as they are now.
const MISSING: &str =
    "FROM runs LEFT JOIN search_runs ON search_runs.run = runs.run AND search_runs.head = runs.head
                       WHERE runs.stop IS NOT NULL AND search_runs.run IS NULL";

/// The words of the newest of those runs, of those before this one.
fn unindexed(
    files: &super::Files,
    connection: &mut Connection,
    before: Option<String>,
) -> Result<Vec<IndexedRun>, Fault> {
    let transaction = connection.transaction()?;
    let older = if before.is_some() { "AND runs.run < ?1" } else { "" };
    let list =
        format!("SELECT runs.run, runs.head {MISSING} {older} ORDER BY runs.run DESC LIMIT {READ_TOGETHER}");
    let values: Vec<Cell> = before.map(Cell::Text).into_iter().collect();
    let runs: Vec<(String, String)> =
        transaction.list(&list, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut read = Vec::with_capacity(runs.len());
    for (run, head) in runs {
        let id = RunId::new(run.as_str());
        let parts = match read::recorded(&transaction, &id, files.key.as_ref()) {
            Ok(stored) => stored.and_then(|stored| replay(&id, &stored.recorded).ok()).map(|run| parts(&run)),
            Err(fault) if fault.is_disconnected() => return Err(fault),
            // It has no words: `verify` says what is wrong with it.
            Err(_) => None,
        };
        read.push(IndexedRun { run, head, parts: parts.unwrap_or_default() });
    }
    Ok(read)
}

/// The words of a run: of its document, answer and output first, then of its evidence.
fn parts(run: &loop_core::Run) -> Vec<Vec<String>> {
    let sections = run.document().sections.iter();
    let sections = sections.flat_map(|section| [&*section.heading_text, &*section.body]);
    let output =
        run.outcome().and_then(|outcome| outcome.output.as_ref()).map(|output| output.value.to_string());
    let answer = run.outcome().and_then(|outcome| outcome.answer.as_deref());
    let evidence = run.evidence().iter().flat_map(|evidence| {
        let observation = &evidence.observation;
        let failure = observation.failure.as_ref().map(|failure| failure.message.to_string());
        [observation.summary.to_string(), observation.markdown.to_string(), failure.unwrap_or_default()]
    });
    let texts = sections.chain(answer).map(str::to_owned).chain(output).chain(evidence);
    let mut parts: Vec<Vec<String>> = vec![Vec::new()];
    'texts: for text in texts {
        for word in words(&text) {
            if parts.last().is_some_and(|part| part.len() >= WORDS_IN_PART) {
                if parts.len() == MAX_PARTS {
                    break 'texts;
                }
                parts.push(Vec::new());
            }
            parts.last_mut().into_iter().for_each(|part| part.push(word.clone()));
        }
    }
    parts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_texts_and_searches() {
        let of = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(of("Disk L-1 is FULL: 42.5 GB"), ["disk", "l", "1", "is", "full", "42", "5", "gb"]);
        assert_eq!(of("磁盘full了x"), ["磁", "盘", "full", "了", "x"]);
        assert_eq!(of("Straße_ÄÖ"), ["straße", "äö"]);
        assert_eq!(of(&"x".repeat(1_000)), ["x".repeat(MAX_WORD)]);
        assert_eq!(of("\u{130}stanbul'; DROP\0TABLE"), ["istanbul", "drop", "table"]);
    }

    #[test]
    fn a_search_has_no_syntax_but_quotation_marks_and_is_bounded() {
        let of = |text: &str| SearchTerms::parse(text).map(|terms| terms.0.len());
        assert_eq!(of("disk full DISK"), Ok(2));
        assert_eq!(of("\"disk full\" L-1"), Ok(2));
        assert_eq!(of("disk* OR (NEAR(a b)) ^x {words}: y"), Ok(7));
        assert_eq!(of("\"disk full"), Ok(1), "a quotation mark that is not closed");
        for wrong in ["", "  ", "\"\"", "-- * ()", "a b c d e f g h i", &"x".repeat(401), &"a.".repeat(25)] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
