//! Where a value may come from that says whom or what an effect reaches (K3): the user, or a tool that is trusted.

use std::fmt;

use serde_json::Value;

use crate::item::WorkItem;
use crate::observation::Status;
use crate::outcome::Evidence;
use crate::policy::free_text::gives;
use crate::policy::scalar::Scalar;
use crate::run::Told;
use crate::spec::RunSpec;

/// Who can vouch for a value.
pub trait Sources {
    /// Whether somebody who may say so gave exactly this text or number.
    fn hold(&self, value: &Value) -> bool;
}

/// No source at all.
impl Sources for () {
    fn hold(&self, _: &Value) -> bool {
        false
    }
}

/// What a run has been given: its work item, what a person told it, and what trusted tools brought.
#[derive(Clone, Copy)]
pub struct RunSources<'a> {
    /// The rules: which tools are trusted, and whether the work item is.
    pub spec: &'a RunSpec,
    /// The work item. Where it is not to be trusted its scope still is: the domain took that out of it by rule.
    pub item: &'a WorkItem,
    /// What was observed, in its order.
    pub evidence: &'a [Evidence],
    /// What a person said in between.
    pub told: &'a [Told],
}

impl Sources for RunSources<'_> {
    fn hold(&self, value: &Value) -> bool {
        let Some(wanted) = Scalar::of(value).filter(Scalar::is_plain) else {
            return false;
        };
        self.item_gives(&wanted)
            || self.told.iter().any(|told| gives(&told.text, &wanted))
            || self.tools_give(&wanted)
    }
}

impl RunSources<'_> {
    fn item_gives(&self, wanted: &Scalar) -> bool {
        let WorkItem { id, title, full, compact, scope, kind: _ } = self.item;
        let scope = [&scope.account, &scope.account_name, &scope.asset, &scope.item, &scope.person];
        let by_rule = scope.into_iter().flatten().any(|part| wanted.is(&Value::from(&**part)));
        let by_text = || [id, title, full, compact].into_iter().any(|text| text_gives(text, wanted));
        by_rule || !self.spec.gate.item_untrusted && by_text()
    }

    /// Whether a person's answer gives the value, or a trusted tool brought it before any tool was asked with it: what
    /// comes back after it went in is an echo.
    fn tools_give(&self, wanted: &Scalar) -> bool {
        let mut went_in = false;
        for Evidence { tool, parameters, observation, .. } in self.evidence {
            let Some(tool) = self.spec.tool(tool) else {
                continue;
            };
            let brought = observation.status == Status::Ok && !tool.policy.returns_untrusted;
            if tool.policy.asks_person {
                if brought && data_gives(&observation.data, wanted, gives) {
                    return true;
                }
                continue;
            }
            went_in = went_in || holds_loosely(parameters, wanted.text());
            if brought && !went_in {
                let gives = match observation.data.as_text() {
                    Some(text) => gives(text, wanted),
                    None => {
                        data_gives(&observation.data, wanted, |text, wanted| wanted.is(&Value::from(text)))
                    }
                };
                if gives {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether a text gives the value; where the text is JSON, whether one of its scalars does.
fn text_gives(text: &str, wanted: &Scalar) -> bool {
    match serde_json::from_str(text) {
        Ok(Value::Array(_) | Value::Object(_)) => data_gives(text, wanted, gives),
        Ok(_) | Err(_) => gives(text, wanted),
    }
}

/// Whether a scalar in a JSON text is the value; `of_text` judges those that are texts.
fn data_gives(json: &str, wanted: &Scalar, of_text: fn(&str, &Scalar) -> bool) -> bool {
    fn any(value: &Value, wanted: &Scalar, of_text: fn(&str, &Scalar) -> bool) -> bool {
        match value {
            Value::String(text) => of_text(text, wanted),
            Value::Number(_) | Value::Bool(_) | Value::Null => wanted.is(value),
            Value::Array(elements) => elements.iter().any(|value| any(value, wanted, of_text)),
            Value::Object(members) => members.values().any(|value| any(value, wanted, of_text)),
        }
    }
    wanted.may_stand_in(json)
        && serde_json::from_str(json).is_ok_and(|value: Value| any(&value, wanted, of_text))
}

/// Whether parameters hold a value, however it is spelled: a tool may give it back in another case or without blanks.
fn holds_loosely(parameters: &str, wanted: &str) -> bool {
    let letters =
        |text: &str| text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let is_part = |c: char| c.is_alphanumeric() || c == '.' || c == '-';
    let word = letters(wanted);
    if word.chars().count() >= 4 && word.contains(char::is_alphabetic) {
        letters(parameters).contains(&word)
    } else {
        // So short, or so many digits, that it stands in other values by chance.
        parameters
            .split(|c| !is_part(c))
            .any(|part| part.eq_ignore_ascii_case(wanted) || letters(part) == word)
    }
}

impl fmt::Debug for RunSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSources")
            .field("item", &self.item.id)
            .field("evidence", &self.evidence.len())
            .field("told", &self.told.len())
            .finish_non_exhaustive()
    }
}
