//! Labels of recorded runs: which outcomes are good.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use loop_tools::files;
use serde::Deserialize;

/// Whether the outcome of a run is good, as a person or a check of the user found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeLabel {
    /// Whether the result with which the run ended is good.
    pub good: bool,
    /// The first pass after which the document was good already. `None`: only the result at the end is known to be good.
    #[serde(default)]
    pub good_from_pass: Option<u32>,
}

/// Labels by run id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, OutcomeLabel>);

/// Why labels cannot be read. One line: where, what, how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelsError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {message}; check what it is and who may read it", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        message: String,
    },
    /// A line is invalid.
    #[error("{}:{line}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and how to fix it.
        message: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    run: String,
    good: bool,
    #[serde(default)]
    good_from_pass: Option<u32>,
}

impl Labels {
    /// Reads a file: JSON Lines if its first character that is not blank is `{`, else CSV with a header.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn read(path: &Path) -> Result<Self, LabelsError> {
        let text = files::text(path, files::MAX_BYTES)
            .map_err(|error| LabelsError::Unreadable { path: path.to_owned(), message: error.to_string() })?;
        Self::of_text(path, &text)
    }

    /// The labels in this text, as if it were at `path`.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn of_text(path: &Path, text: &str) -> Result<Self, LabelsError> {
        let invalid =
            |line: usize, message: String| LabelsError::Invalid { path: path.to_owned(), line, message };
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).peekable();
        let is_json = lines.peek().is_some_and(|(_, line)| line.trim_start().starts_with('{'));
        let header = match lines.peek() {
            Some((at, line)) if !is_json => Some(Header::of(line).map_err(|message| invalid(*at, message))?),
            _ => None,
        };
        if header.is_some() {
            lines.next();
        }
        let mut labels = BTreeMap::new();
        for (at, line) in lines {
            let read = match &header {
                Some(header) => header.read(line),
                None => serde_json::from_str(line).map_err(|error| {
                    format!("{error}; write {{\"run\": \"ID\", \"good\": true}} on one line")
                }),
            };
            let Line { run, good, good_from_pass } = read.map_err(|message| invalid(at, message))?;
            if good_from_pass.is_some() && !good {
                let message =
                    "a run that is not good has no pass from which it is; take `good_from_pass` out";
                return Err(invalid(at, message.to_owned()));
            }
            if labels.insert(run.clone(), OutcomeLabel { good, good_from_pass }).is_some() {
                return Err(invalid(at, format!("the run {run} has a label already; keep one of them")));
            }
        }
        if labels.is_empty() {
            return Err(invalid(1, "the file labels no run; write a line for each run".to_owned()));
        }
        Ok(Self(labels))
    }

    /// The label of a run.
    pub fn of(&self, run: &str) -> Option<OutcomeLabel> {
        self.0.get(run).copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Where the columns of a CSV file are.
#[derive(Clone, Copy, Debug)]
struct Header {
    run: usize,
    good: usize,
    good_from_pass: Option<usize>,
}

impl Header {
    fn of(line: &str) -> Result<Self, String> {
        let names: Vec<&str> = cells(line).collect();
        let find = |wanted: &str| names.iter().position(|name| *name == wanted);
        if let Some(unknown) = names.iter().find(|name| !["run", "good", "good_from_pass"].contains(*name)) {
            return Err(format!("unknown column `{unknown}`; the columns are run, good and good_from_pass"));
        }
        match (find("run"), find("good")) {
            (Some(run), Some(good)) => Ok(Self { run, good, good_from_pass: find("good_from_pass") }),
            _ => Err("the header lacks `run` or `good`; begin the file with `run,good`".to_owned()),
        }
    }

    fn read(&self, line: &str) -> Result<Line, String> {
        let cells: Vec<&str> = cells(line).collect();
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        let run = cell(self.run);
        if run.is_empty() {
            return Err("the run is missing; write its id".to_owned());
        }
        let good = match cell(self.good) {
            "true" | "1" => true,
            "false" | "0" => false,
            other => return Err(format!("`{other}` is not a label; write true or false")),
        };
        let good_from_pass = match self.good_from_pass.map(cell).filter(|cell| !cell.is_empty()) {
            Some(pass) => {
                Some(pass.parse().map_err(|_| format!("`{pass}` is not a pass; write a number from 1"))?)
            }
            None => None,
        };
        Ok(Line { run: run.to_owned(), good, good_from_pass })
    }
}

/// The cells of a line. Ids, truth values and numbers hold no comma, so that quotes only enclose a cell.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"').trim())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Labels, LabelsError> {
        Labels::of_text(Path::new("labels"), text)
    }

    #[test]
    fn both_forms_say_the_same() {
        let json =
            "{\"run\": \"a\", \"good\": true, \"good_from_pass\": 2}\n\n{\"run\": \"b\", \"good\": false}\n";
        let csv = "run,good,good_from_pass\r\n\"a\",true,2\r\nb, false,\r\n";
        assert_eq!(read(json).unwrap(), read(csv).unwrap());
        assert_eq!(read(json).unwrap().of("a"), Some(OutcomeLabel { good: true, good_from_pass: Some(2) }));
        assert_eq!(
            read("good,run\n1,a").unwrap().of("a"),
            Some(OutcomeLabel { good: true, good_from_pass: None })
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("", "labels:1: the file labels no run; write a line for each run"),
            ("run,good\n", "labels:1: the file labels no run; write a line for each run"),
            ("run,fine\n", "labels:1: unknown column `fine`; the columns are run, good and good_from_pass"),
            ("run\na", "labels:1: the header lacks `run` or `good`; begin the file with `run,good`"),
            ("run,good\na,yes", "labels:2: `yes` is not a label; write true or false"),
            ("run,good\n,true", "labels:2: the run is missing; write its id"),
            ("run,good\na,true\na,true", "labels:3: the run a has a label already; keep one of them"),
            (
                "run,good,good_from_pass\na,false,1",
                "labels:2: a run that is not good has no pass from which it is; take `good_from_pass` out",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), expected);
        }
        let json = read("{\"run\": \"a\", \"goood\": true}").unwrap_err().to_string();
        assert!(json.starts_with("labels:1: unknown field `goood`"), "{json}");
    }
}
