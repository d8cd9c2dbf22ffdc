//! From a query with named placeholders to one with numbered ones, without a server.
//!
//! The scanner follows PostgreSQL's lexer as far as it takes to know what is a string, a comment, a quoted name, a cast or an
//! operator, and what is a placeholder.

use crate::connectors::error::one_line;

/// A query as the server gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// One statement, without a semicolon, with `$1` for the first name.
    pub(crate) sql: String,
    /// The names of `$1`, `$2`, …, each once.
    pub(crate) names: Vec<String>,
    /// Its first word in lower case, behind comments and opening brackets. Empty: it does not begin with a word.
    pub(crate) first_word: String,
}

/// Why a query cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanError {
    /// There is more than one statement.
    MoreThanOne,
    /// It holds nothing but comments and space.
    Nothing,
    /// A placeholder by number, as it is written.
    Numbered(String),
    /// It does not end what it begins, or is otherwise not SQL: what, and its line.
    Malformed(String),
}

impl Statement {
    /// The statement in `text`.
    pub(crate) fn scan(text: &str) -> Result<Self, ScanError> {
        let mut scanner = Scanner::new(text);
        if let Some(at) = text.find('\0') {
            return Err(scanner.malformed("it holds a NUL character", at));
        }
        scanner.run()?;
        let first_word = scanner.first.ok_or(ScanError::Nothing)?;
        Ok(Self { sql: scanner.sql.trim_end().to_owned(), names: scanner.names, first_word })
    }
}

struct Scanner<'a> {
    text: &'a str,
    /// The byte that is read next. It is always at the beginning of a character.
    at: usize,
    sql: String,
    names: Vec<String>,
    depth: usize,
    first: Option<String>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, sql: String::new(), names: Vec::new(), depth: 0, first: None }
    }

    fn run(&mut self) -> Result<(), ScanError> {
        while let Some(c) = self.peek() {
            let from = self.at;
            let rest = self.rest();
            if c.is_whitespace() {
                self.skip(c.len_utf8());
            } else if rest.starts_with("--") {
                self.skip(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.comment()?;
            } else if c == '\'' {
                self.quoted('\'', false, "a string")?;
            } else if c == '"' {
                self.quoted('"', false, "a quoted name")?;
                self.began("");
            } else if c == '$' {
                self.dollar()?;
            } else if is_name_start(c) {
                self.word()?;
            } else if c.is_ascii_digit() {
                self.skip_while(is_name);
                self.began("");
            } else if c == ':' {
                self.colon();
            } else if c == ';' {
                return self.end();
            } else {
                match c {
                    '(' => self.depth += 1,
                    ')' if self.depth == 0 => {
                        return Err(self.malformed("it closes a bracket that is not open", from));
                    }
                    ')' => self.depth -= 1,
                    _ => {}
                }
                if c != '(' {
                    self.began("");
                }
                self.skip(c.len_utf8());
            }
            self.sql.push_str(self.text.get(from..self.at).filter(|_| c != ':').unwrap_or_default());
        }
        if self.depth > 0 { Err(self.malformed("a bracket is not closed", self.text.len())) } else { Ok(()) }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.skip(rest.find(|c| !belongs(c)).unwrap_or(rest.len()));
    }

    /// The statement has begun, with this word.
    fn began(&mut self, word: &str) {
        self.first.get_or_insert_with(|| word.to_ascii_lowercase());
    }

    fn malformed(&self, what: &str, at: usize) -> ScanError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        ScanError::Malformed(one_line(format!("{what} in its line {line}")))
    }

    fn comment(&mut self) -> Result<(), ScanError> {
        let from = self.at;
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if rest.starts_with("*/") {
                self.skip(2);
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
            } else if let Some(c) = self.peek() {
                self.skip(c.len_utf8());
            } else {
                return Err(self.malformed("a comment is not closed, which begins", from));
            }
        }
    }

    /// A string or a quoted name, whose quote is doubled inside it.
    fn quoted(&mut self, quote: char, has_escapes: bool, what: &str) -> Result<(), ScanError> {
        let from = self.at;
        self.skip(1);
        while let Some(c) = self.peek() {
            self.skip(c.len_utf8());
            if has_escapes && c == '\\' {
                self.skip(self.peek().map_or(0, char::len_utf8));
            } else if c == quote {
                if self.peek() != Some(quote) {
                    self.began("");
                    return Ok(());
                }
                self.skip(1);
            }
        }
        Err(self.malformed(&format!("{what} is not closed, which begins"), from))
    }

    /// A string between dollar signs, or a placeholder by number, which has no name.
    fn dollar(&mut self) -> Result<(), ScanError> {
        let from = self.at;
        let after = self.rest().get(1..).unwrap_or_default();
        if after.starts_with(|c: char| c.is_ascii_digit()) {
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            return Err(ScanError::Numbered(format!("${digits}")));
        }
        let tag = after.find(|c| !(is_name_start(c) || char::is_ascii_digit(&c))).unwrap_or(after.len());
        let Some(end) = after.get(tag..).filter(|rest| rest.starts_with('$')).map(|_| tag + 2) else {
            self.skip(1);
            return Ok(());
        };
        let mark = self.rest().get(..end).unwrap_or_default().to_owned();
        self.skip(end);
        let Some(length) = self.rest().find(&mark) else {
            return Err(self.malformed("a string is not closed, which begins", from));
        };
        self.skip(length + mark.len());
        self.began("");
        Ok(())
    }

    /// A name or a keyword, or the letter before a string that says how to read it.
    fn word(&mut self) -> Result<(), ScanError> {
        let from = self.at;
        self.skip_while(is_name);
        let word = self.text.get(from..self.at).unwrap_or_default().to_owned();
        let has_escapes = word.eq_ignore_ascii_case("e");
        if has_escapes && self.peek() == Some('\'') {
            return self.quoted('\'', true, "a string");
        }
        self.began(&word);
        Ok(())
    }

    /// A placeholder, a cast or an operator. Writes it by itself.
    fn colon(&mut self) {
        let rest = self.rest();
        if rest.starts_with("::") || rest.starts_with(":=") {
            self.sql.push_str(rest.get(..2).unwrap_or_default().to_owned().as_str());
            return self.skip(2);
        }
        self.skip(1);
        let from = self.at;
        if self.peek().is_some_and(is_name_start) {
            self.skip_while(|c| is_name_start(c) || c.is_ascii_digit());
        }
        let name = self.text.get(from..self.at).unwrap_or_default();
        if name.is_empty() {
            return self.sql.push(':');
        }
        let number = match self.names.iter().position(|known| known == name) {
            Some(at) => at + 1,
            None => {
                self.names.push(name.to_owned());
                self.names.len()
            }
        };
        self.began("");
        // A cast or a digit behind it must not become a part of the number.
        self.sql.push_str(&format!("${number}"));
        if self.peek().is_some_and(is_name) {
            self.sql.push(' ');
        }
    }

    /// Refuses what follows a semicolon.
    fn end(&mut self) -> Result<(), ScanError> {
        self.skip(1);
        if self.depth > 0 {
            return Err(self.malformed("a bracket is not closed", self.at));
        }
        let mut rest = Scanner::new(self.rest());
        match rest.run() {
            Ok(()) if rest.first.is_none() => Ok(()),
            Ok(()) | Err(_) => Err(ScanError::MoreThanOne),
        }
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !c.is_ascii()
}

fn is_name(c: char) -> bool {
    is_name_start(c) || c == '$' || c.is_ascii_digit()
}

#[cfg(test)]
#[path = "statement_tests.rs"]
mod tests;
