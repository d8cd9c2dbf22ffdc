//! Whom and what an effect reaches: each authority-bearing value must have been given by somebody who may (K3).

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::args::ArgSpec;
use crate::policy::pointer::{escaped, find};
use crate::policy::scalar::Scalar;
use crate::policy::shown::quoted;
use crate::policy::sources::Sources;
use crate::spec::ToolSpec;

/// More values than this in one call are for a person to look at.
const MOST: usize = 256;

/// So many of them are told; one is enough to hold the call up.
const TOLD: usize = 3;

/// The most characters of a value that are told.
const TOLD_CHARS: usize = 80;

/// A value of an authority-bearing parameter that nobody gave who may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// JSON pointer to it.
    pub pointer: Arc<str>,
    /// The value as JSON, with what does not show written out and cut where it is long; nothing where there are too many
    /// values to look at.
    pub value: Option<Arc<str>>,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, value } = self;
        match value {
            Some(value) => write!(
                f,
                "{pointer} is {value}, which was given neither with the work item nor by policy nor by a trusted tool"
            ),
            None => write!(f, "{pointer} comes after {MOST} values that say whom it reaches"),
        }
    }
}

/// The values of a call's authority-bearing parameters that nobody gave who may; the first few.
pub(crate) fn foreign(
    tool: &ToolSpec,
    parameters: &Value,
    authorities: &[Arc<str>],
    sources: &dyn Sources,
) -> Vec<Foreign> {
    let mut check = Check { authorities, sources, looked_at: 0, is_over: false, found: Vec::new() };
    for pointer in &tool.policy.authority {
        for (path, value) in find(parameters, pointer) {
            check.value(path, value, declared(&tool.args, pointer));
        }
    }
    check.found
}

/// What a tool declares at a pointer, where it declares something.
fn declared<'a>(args: &'a ArgSpec, pointer: &str) -> Option<&'a ArgSpec> {
    pointer.split('/').skip(1).try_fold(args, |args, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match &args.items {
            Some(items) if step == "*" || step.parse::<usize>().is_ok() => Some(&**items),
            _ => args.properties.get(step.as_str()),
        }
    })
}

struct Check<'a> {
    authorities: &'a [Arc<str>],
    sources: &'a dyn Sources,
    looked_at: usize,
    /// Nothing more is looked at.
    is_over: bool,
    found: Vec<Foreign>,
}

impl Check<'_> {
    /// Looks at a value and all within it.
    fn value(&mut self, path: String, value: &Value, args: Option<&ArgSpec>) {
        if self.is_over {
            return;
        }
        let by_policy = args
            .is_some_and(|args| [&args.default, &args.only].into_iter().flatten().any(|own| own == value));
        match value {
            // Nothing reaches nobody.
            Value::Null => {}
            _ if by_policy => {}
            Value::Array(elements) => {
                let items = args.and_then(|args| args.items.as_deref());
                for (n, element) in elements.iter().enumerate() {
                    self.value(format!("{path}/{n}"), element, items);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let own = args.and_then(|args| args.properties.get(name.as_str()));
                    let path = format!("{path}/{}", escaped(name));
                    if own.is_none() {
                        // A name that the tool does not declare is a value like any other.
                        self.scalar(&path, &Value::from(name.as_str()));
                    }
                    self.value(path, member, own);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.scalar(&path, value),
        }
    }

    fn scalar(&mut self, path: &str, value: &Value) {
        if self.is_over {
            return;
        }
        self.looked_at += 1;
        if self.looked_at > MOST {
            self.found = vec![Foreign { pointer: path.into(), value: None }];
            self.is_over = true;
            return;
        }
        let plain = Scalar::of(value).filter(Scalar::is_plain);
        let given = plain.is_some_and(|scalar| {
            let by_policy = self.authorities.iter().any(|own| match &scalar {
                Scalar::Text(text) => **text == **own,
                Scalar::Number(_) => scalar.is_number(own),
                Scalar::Truth(_) => scalar.text() == &**own,
            });
            by_policy || self.sources.hold(value)
        });
        if !given {
            self.found.push(Foreign { pointer: path.into(), value: Some(quoted(value, TOLD_CHARS).into()) });
            self.is_over = self.found.len() >= TOLD;
        }
    }
}
