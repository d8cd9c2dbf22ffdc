//! Checks that are made outside of the core, and their results.
//!
//! A document is checked before a confident end, and an output before it counts. The driver makes the check and reports
//! the result. The core decides by that event, so a replay needs no checker.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gate::Condition;
use crate::run::command::SubCallBudget;
use crate::types::{CommandKey, EvidenceId, SubCallUse};

/// What is to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckWhat {
    /// The document as the reply of this pass left it.
    Document {
        /// The pass, from 1.
        pass: u32,
    },
    /// An output: the arguments of the output tool's call, as the model wrote them.
    Output(Arc<str>),
}

/// The result of a check, for all its checkers together. A problem that one checker finds takes precedence over the
/// failure of another checker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CheckResult {
    /// No checker found a problem.
    Passed,
    /// A checker found a problem, and the model may revise its work.
    Failed {
        /// The problems, at least one.
        lacks: Vec<Lack>,
    },
    /// A checker itself failed, so the check has no result. It never counts as passed.
    Broken {
        /// The name of the checker.
        by: Arc<str>,
        /// How it failed, for people.
        message: Arc<str>,
    },
}

impl CheckResult {
    /// The result's name in JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// A problem that a check found in a document or an output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lack {
    /// The id of the section. Empty: the whole document, or an output.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub section: Arc<str>,
    /// The sentence, as written. Empty: none in particular.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub sentence: Arc<str>,
    /// The value in it, as written. Empty: none in particular.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub value: Arc<str>,
    /// The evidence that has the value, or that contradicts it. Empty: none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<EvidenceId>,
    /// What is wrong with it.
    pub cause: Cause,
}

impl Lack {
    /// A problem of the whole document or output, as the checker `by` reports it.
    pub fn own(by: impl Into<Arc<str>>, message: impl Into<Arc<str>>) -> Self {
        let cause = Cause::Own { by: by.into(), message: message.into() };
        Self { section: "".into(), sentence: "".into(), value: "".into(), place: Vec::new(), cause }
    }
}

/// The kind of a problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// The value is in no evidence of the run, or evidence has another one in its place.
    Contradicted,
    /// The value is in other evidence than the sentence cites.
    WrongCitation,
    /// The sentence cites evidence that does not exist.
    NoSuchEvidence,
    /// A problem that a named checker reports: a schema, a validator, a second model.
    Own {
        /// The checker's name: `schema`, `second_opinion`, or the validator's own.
        by: Arc<str>,
        /// What is wrong, for the model.
        message: Arc<str>,
    },
}

/// A check of the document of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CheckRecord {
    /// The pass whose document it is about, from 1.
    pub pass: u32,
    /// The result of all checkers together.
    #[serde(flatten)]
    pub result: CheckResult,
}

/// A check that is commanded or in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Checking {
    /// Its key.
    pub key: CommandKey,
    /// The try, from 1.
    pub attempt: u32,
    /// What it is about.
    pub about: CheckSubject,
    /// What a checker that asks a model may spend. `None`: none asks, or no call is left for it.
    pub sub_call: Option<SubCallBudget>,
    /// Whether it may be started: one with a sub-call once it is announced, others always.
    pub announced: bool,
}

/// What a check is about, with what ends the run if it passes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum CheckSubject {
    /// The document, before a confident end.
    Document {
        /// The limit for which a final pass was made. `None`: none was made.
        cause: Option<Condition>,
        /// What the gate found, without limits: `confident` is among it.
        found: Vec<Condition>,
    },
    /// The output of an attempt.
    Output {
        /// The arguments of the output tool's call.
        text: Arc<str>,
    },
}

impl Checking {
    /// Whether `key` and `attempt` name this check, and it may have been started.
    pub(super) fn is_in_flight(&self, key: &CommandKey, attempt: u32) -> bool {
        self.announced && self.key == *key && self.attempt == attempt
    }

    /// Whether it waits for its announcement.
    pub(super) fn is_due(&self, key: &CommandKey, attempt: u32) -> bool {
        !self.announced && self.key == *key && self.attempt == attempt
    }

    /// What it is about, as its command says it.
    pub fn what(&self) -> CheckWhat {
        match &self.about {
            CheckSubject::Document { .. } => CheckWhat::Document { pass: self.key.pass },
            CheckSubject::Output { text } => CheckWhat::Output(Arc::clone(text)),
        }
    }

    /// The assumed usage of its sub-call if its driver is gone. `None`: none was granted or started.
    pub(super) fn lost_sub_call(&self) -> Option<Box<SubCallUse>> {
        self.sub_call.filter(|_| self.announced).map(|_| Box::new(SubCallUse::new(false, None)))
    }
}
