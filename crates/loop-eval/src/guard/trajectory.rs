//! Recorded runs, one a line, read one at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use loop_core::Status;
use loop_tools::files;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::effects::ToolEffects;

/// A recorded run: its calls and their results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trajectory {
    /// Its id.
    pub id: String,
    /// Whether it reached its goal. `None`: not recorded.
    pub success: Option<bool>,
    /// Its label, in a labelled set. `None`: not labelled.
    pub label: Option<Label>,
    /// Its kind, in a labelled set. `None`: not labelled.
    pub kind: Option<String>,
    /// Its half of a labelled set. `None`: not labelled.
    pub split: Option<Split>,
    /// Which of its tools only read, as far as the recording says.
    pub effects: ToolEffects,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

/// One call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the user message that is being answered, in order.
    pub turn: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The result; possibly only its beginning.
    pub result: String,
    /// The SHA-256 of the whole result, in hexadecimal digits.
    pub result_sha256: String,
    /// Whether `result` is the whole result.
    pub is_whole: bool,
    /// Whether the call failed.
    pub is_error: bool,
    /// How the call ended. `None`: not recorded.
    pub status: Option<Status>,
}

/// The label of a run in a labelled set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The run loops without progress.
    Unproductive {
        /// The index of the first call that should be refused, from 0.
        from: usize,
    },
    /// Every call of the run is useful.
    Productive,
}

/// A half of a labelled set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// The half for tuning rules.
    Dev,
    /// The half for measuring, once the rules are final.
    HeldOut,
}

impl std::str::FromStr for Split {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "dev" => Ok(Self::Dev),
            "held_out" => Ok(Self::HeldOut),
            _ => Err(format!("`{name}` is no split: dev or held_out")),
        }
    }
}

/// What is wrong with a file of runs, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 if the file itself cannot be read.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.what),
        }
    }
}

impl std::error::Error for Problem {}

/// The runs of a file, read one by one: one line at a time is in memory.
#[derive(Debug)]
pub struct Trajectories {
    file: PathBuf,
    lines: BufReader<File>,
    line: u64,
    text: Vec<u8>,
    is_over: bool,
}

impl Trajectories {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn open(file: &Path) -> Result<Self, Problem> {
        let lines = files::open(file).map_err(|error| Problem {
            file: file.to_owned(),
            line: 0,
            what: error.to_string(),
        })?;
        Ok(Self {
            file: file.to_owned(),
            lines: BufReader::with_capacity(1 << 16, lines),
            line: 0,
            text: Vec::new(),
            is_over: false,
        })
    }

    fn problem(&self, what: impl fmt::Display) -> Problem {
        Problem { file: self.file.clone(), line: self.line, what: what.to_string() }
    }
}

impl Iterator for Trajectories {
    type Item = Result<Trajectory, Problem>;

    /// The next run, or what is wrong with the next line. Nothing follows a line that cannot be read from the file.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            self.text.clear();
            self.line += 1;
            match self.lines.read_until(b'\n', &mut self.text) {
                Ok(0) => self.is_over = true,
                Ok(_) if self.text.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => {
                    let read = parse(self.text.trim_ascii());
                    return Some(read.map_err(|what| self.problem(what)));
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(self.problem(error)));
                }
            }
        }
        None
    }
}

/// A line as it is written. What else stands there is somebody's own business.
#[derive(Deserialize)]
struct Line {
    id: Option<String>,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    loop_from: Option<usize>,
    #[serde(default)]
    split: Option<Split>,
    #[serde(default)]
    effects: BTreeMap<String, String>,
    steps: Option<Vec<Written>>,
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    turn: Option<u64>,
    tool: Option<String>,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    result_len: Option<u64>,
    #[serde(default)]
    result_sha256: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    status: Option<Status>,
}

fn parse(text: &[u8]) -> Result<Trajectory, String> {
    let line: Line = serde_json::from_slice(text).map_err(|error| match error.classify() {
        // The line of the error is always 1: the place in the file is told beside it.
        serde_json::error::Category::Data => {
            broken_step(text).unwrap_or_else(|| format!("not a run: {}", without_line(&error)))
        }
        _ => format!("not JSON: {}", without_line(&error)),
    })?;
    let id = line.id.ok_or("a run without `id`")?;
    let steps = line.steps.ok_or_else(|| format!("run `{id}` has no `steps`"))?;
    let steps = steps.into_iter().enumerate();
    let steps =
        steps.map(|(at, written)| step(written).map_err(|what| format!("run `{id}`, step {at}{what}")));
    let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
    let label = match (line.label.as_deref(), line.loop_from) {
        (None, None) => None,
        (Some("productive"), None) => Some(Label::Productive),
        (Some("loop"), Some(from)) if from < steps.len() => Some(Label::Unproductive { from }),
        (Some("loop"), Some(from)) => {
            return Err(format!("run `{id}` loops from step {from}, and has {} steps", steps.len()));
        }
        (Some("loop"), None) => return Err(format!("run `{id}` is a loop without `loop_from`")),
        (Some("productive") | None, Some(_)) => {
            return Err(format!("run `{id}` has `loop_from` and is no loop"));
        }
        (Some(label), _) => {
            return Err(format!("run `{id}` is labelled `{label}`: a label is `loop` or `productive`"));
        }
    };
    let effects = ToolEffects::new(line.effects).map_err(|error| format!("run `{id}`: {error}"))?;
    Ok(Trajectory { id, success: line.success, label, kind: line.kind, split: line.split, effects, steps })
}

/// The first step that is not of the form, of a line that is not.
fn broken_step(text: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Loose {
        id: Option<Value>,
        steps: Option<Vec<Value>>,
    }
    let Loose { id, steps } = serde_json::from_slice(text).ok()?;
    let id = id.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    steps?.into_iter().enumerate().find_map(|(at, step)| {
        let what = match step {
            Value::Object(_) => without_line(&serde_json::from_value::<Written>(step).err()?),
            _ => "it is no JSON object".to_owned(),
        };
        Some(format!("run `{id}`, step {at}: {what}"))
    })
}

fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line 1 ") {
        Some((what, place)) => format!("{what} at {place}"),
        None => text,
    }
}

/// A step, or what is wrong with it, to be read after "step 3".
fn step(written: Written) -> Result<Step, String> {
    let tool = written.tool.filter(|tool| !tool.is_empty()).ok_or(": it has no `tool`")?;
    let result = match written.result {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => return Err(format!(" (`{tool}`): its result is missing")),
        Some(value) => value.to_string(),
    };
    let is_whole = match written.result_len {
        Some(len) => result.chars().count() as u64 >= len,
        None => true,
    };
    let result_sha256 = match written.result_sha256 {
        Some(sha) => sha,
        None if is_whole => hex(&Sha256::digest(result.as_bytes())),
        None => return Err(format!(" (`{tool}`): its result is cut, and `result_sha256` is missing")),
    };
    let arguments = match written.arguments {
        Value::Null => Value::Object(serde_json::Map::new()),
        // As providers write them: JSON in a text.
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Value::Object(map),
            _ => Value::String(text),
        },
        Value::Object(map) => Value::Object(map),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(format!(" (`{tool}`): its arguments are neither an object nor a text"));
        }
    };
    Ok(Step {
        turn: written.turn.unwrap_or(0),
        tool,
        arguments,
        result,
        result_sha256,
        is_whole,
        is_error: written.is_error.unwrap_or(false) || written.status.is_some_and(is_failure),
        status: written.status,
    })
}

fn is_failure(status: Status) -> bool {
    !matches!(status, Status::Ok | Status::Empty | Status::Pending | Status::Duplicate | Status::Skipped)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        text.extend(
            [byte >> 4, byte & 15].map(|nibble| char::from_digit(u32::from(nibble), 16).unwrap_or('0')),
        );
        text
    })
}
