//! The authority check: each value that names a recipient or a target must come from an authorised source.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::policy::pointer::find;
use crate::policy::scalar::Scalar;
use crate::policy::shown::quoted;
use crate::policy::sought::SoughtValue;
use crate::policy::sources::ValueSource;
use crate::policy::{PolicyAsk, can_send};
use crate::spec::{ArgSpec, PlanSlot};
use crate::types::{Effect, EvidenceId, member_name, pointer_step, sorted};

/// The maximum number of values that are checked in one call. With more, the call needs an approval.
const MAX: usize = 256;

/// The maximum number of unauthorised values that are reported. One is enough to stop the call.
const INSTRUCTION: usize = 3;

/// The maximum characters of a reported value.
const REPORTED_CHARS: usize = 80;

/// A value of an authority-bearing parameter that no authorised source gave, or for an irreversible effect only a trusted
/// field of an untrusted result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedOrigin {
    /// JSON pointer to the value within the parameters.
    pub pointer: Arc<str>,
    /// The value as JSON, invisible characters escaped and long text cut. `None`: there are too many values to check.
    pub value: Option<Arc<str>>,
    /// The untrusted result from which the model chose it. `None`: no source gave it.
    pub chosen_from: Option<EvidenceId>,
}

impl fmt::Display for UntrustedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, value, chosen_from } = self;
        match (value, chosen_from) {
            (Some(value), Some(evidence)) => write!(
                f,
                "{pointer} is {value}, which the model chose from the untrusted result {evidence}, for an effect that \
                 cannot be undone"
            ),
            (Some(value), None) => write!(
                f,
                "{pointer} is {value}, which was given neither with the work item nor by policy nor by a trusted tool"
            ),
            (None, _) => write!(f, "{pointer} comes after {MAX} values that say whom it reaches"),
        }
    }
}

/// The values of a call's authority-bearing parameters that no authorised source gave. At most [`INSTRUCTION`] of them.
pub(crate) fn untrusted_origin(ask: &PolicyAsk<'_>) -> Vec<UntrustedOrigin> {
    let PolicyAsk { spec, tool, parameters, .. } = *ask;
    let mut reached = Addressees { authorities: &spec.gate.authorities, values: Vec::new(), is_over: false };
    for pointer in &tool.policy.authority {
        for (path, value) in find(parameters, pointer) {
            reached.value(path, value, declared(&tool.args, pointer));
        }
    }
    reached.untrusted_origin(ask)
}

/// The schema of a pointer in the tool's parameters. `None`: the tool declares nothing there.
pub(crate) fn declared<'a>(args: &'a ArgSpec, pointer: &str) -> Option<&'a ArgSpec> {
    pointer.split('/').skip(1).try_fold(args, |args, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match &args.items {
            Some(items) if step == "*" || step.parse::<usize>().is_ok() => Some(&**items),
            _ => args.properties.get(step.as_str()),
        }
    })
}

/// The values of a call that name a recipient or a target.
struct Addressees<'a> {
    authorities: &'a [Arc<str>],
    /// Each with its JSON pointer, and whether policy authorises it.
    values: Vec<(String, Cow<'a, Value>, bool)>,
    /// Whether the maximum is exceeded, so that no more values are collected.
    is_over: bool,
}

impl<'a> Addressees<'a> {
    /// Collects a value and everything within it.
    fn value(&mut self, path: String, value: &'a Value, args: Option<&ArgSpec>) {
        if self.is_over {
            return;
        }
        let by_policy = args
            .is_some_and(|args| [&args.default, &args.only].into_iter().flatten().any(|own| own == value));
        match value {
            // Null names no recipient.
            Value::Null => {}
            _ if by_policy => {}
            Value::Array(elements) => {
                let items = args.and_then(|args| args.items.as_deref());
                for (n, element) in elements.iter().enumerate() {
                    self.value(format!("{path}/{n}"), element, items);
                }
            }
            Value::Object(members) => {
                for (name, member) in sorted(members) {
                    let own = args.and_then(|args| args.properties.get(name.as_str()));
                    let path = format!("{path}/{}", pointer_step(name));
                    if own.is_none() {
                        // A member name that the tool does not declare is a value as well.
                        self.scalar(path.clone(), Cow::Owned(Value::from(name.as_str())));
                    }
                    self.value(path, member, own);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.scalar(path, Cow::Borrowed(value)),
        }
    }

    fn scalar(&mut self, path: String, value: Cow<'a, Value>) {
        let by_policy = Scalar::of(&value).filter(Scalar::is_plain).is_some_and(|scalar| {
            self.authorities.iter().any(|own| match &scalar {
                Scalar::Text(text) => **text == **own,
                Scalar::Number(_) => scalar.is_number(own),
                Scalar::Truth(_) => scalar.text() == &**own,
            })
        });
        self.values.push((path, value, by_policy));
        self.is_over = self.values.len() > MAX;
    }

    /// The first values that no authorised source gave. Equal values are searched for once.
    fn untrusted_origin(self, ask: &PolicyAsk<'_>) -> Vec<UntrustedOrigin> {
        let PolicyAsk { spec, tool, sources, planned, .. } = *ask;
        let mut wanted: Vec<SoughtValue<'_>> = Vec::new();
        for (path, value, by_policy) in self.values.iter().take(MAX) {
            let sought = SoughtValue::of(tool, path, value);
            if !by_policy && !wanted.contains(&sought) {
                wanted.push(sought);
            }
        }
        let given = if wanted.is_empty() { Vec::new() } else { sources.hold(&wanted) };
        let source_of = |path: &str, value: &Value| {
            let sought = SoughtValue::of(tool, path, value);
            *given.get(wanted.iter().position(|it| *it == sought)?)?
        };
        let is_final = tool.effect == Effect::WriteIrreversible;
        let mut found = Vec::new();
        for (n, (path, value, by_policy)) in self.values.iter().enumerate() {
            let pointer = path.as_str().into();
            if n >= MAX {
                return vec![UntrustedOrigin { pointer, value: None, chosen_from: None }];
            }
            let is_fixed = |slot: &PlanSlot| {
                let name = path.split('/').nth(1).map(member_name).unwrap_or_default();
                // What the domain fixes is policy. What a model fixed is the user's, unless what is sent there is open.
                slot.fixed.contains_key(name.as_str())
                    && (!spec.plan.is_empty()
                        || sources.mention(value)
                            && (!can_send(tool.effect) || slot.fixes_all(tool, ask.parameters)))
            };
            let chosen_from = match source_of(path, value) {
                _ if *by_policy || planned.is_some_and(is_fixed) => continue,
                None => None,
                Some(ValueSource::TrustedField(evidence)) if is_final => Some(evidence),
                Some(ValueSource::User | ValueSource::Tool(_) | ValueSource::TrustedField(_)) => continue,
            };
            let value = Some(quoted(value, REPORTED_CHARS).into());
            found.push(UntrustedOrigin { pointer, value, chosen_from });
            if found.len() >= INSTRUCTION {
                break;
            }
        }
        found
    }
}
