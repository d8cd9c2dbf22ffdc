//! The policies of a backtest. Each is applied to the spec of each recorded run, once for all runs with the same spec.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use loop_core::types::Digest;
use loop_core::{RunSpec, policy};

use super::drive::NamedSpec;

/// A change of a policy that changes the prompts. The backtest assumes that the model replies the same nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assumption {
    /// The position of the policy, from 0.
    pub policy: usize,
    /// What the model would have read, in one line.
    pub text: String,
}

/// Applies a policy to the spec of a recorded run. The error says in one line why the policy does not fit that spec.
type ApplyPolicy = Arc<dyn Fn(&RunSpec) -> Result<RunSpec, Arc<str>> + Send + Sync>;

/// A policy of a backtest.
#[derive(Clone)]
pub struct Policy {
    name: String,
    settings: Vec<(String, String)>,
    apply: ApplyPolicy,
}

impl Policy {
    /// A policy. `name` and `settings` are shown in the report.
    pub fn new<E: fmt::Display>(
        name: impl Into<String>,
        settings: Vec<(String, String)>,
        apply: impl Fn(&RunSpec) -> Result<RunSpec, E> + Send + Sync + 'static,
    ) -> Self {
        let apply = move |spec: &RunSpec| apply(spec).map_err(|error| error.to_string().into());
        Self { name: name.into(), settings, apply: Arc::new(apply) }
    }

    /// Its name in the report.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it sets, each as a domain file writes it.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).field("settings", &self.settings).finish()
    }
}

/// The policies of a backtest, with the specs that they make of the specs of recorded runs.
#[derive(Debug)]
pub struct Policies {
    all: Vec<Policy>,
    known: Mutex<BTreeMap<Option<Digest>, SharedSpecs>>,
}

type SharedSpecs = Arc<Result<Specs, Arc<str>>>;

/// The spec of recorded runs, and what the policies make of it.
#[derive(Clone, Debug)]
pub(crate) struct Specs {
    pub(crate) base: NamedSpec,
    pub(crate) under: Vec<NamedSpec>,
    assumptions: Vec<Assumption>,
}

impl Policies {
    /// These policies, in this order.
    pub fn new(all: Vec<Policy>) -> Self {
        Self { all, known: Mutex::default() }
    }

    /// The policies, in their order.
    pub fn all(&self) -> &[Policy] {
        &self.all
    }

    /// The specs that the policies make of this spec. `digest` is the one that the run names in its first event. The
    /// result is cached under it.
    pub(crate) fn of(&self, digest: Option<Digest>, spec: &Arc<RunSpec>) -> SharedSpecs {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(specs) = known.get(&digest) {
            return Arc::clone(specs);
        }
        let made = Arc::new(self.made(spec));
        known.insert(digest, Arc::clone(&made));
        made
    }

    fn made(&self, spec: &Arc<RunSpec>) -> Result<Specs, Arc<str>> {
        let (mut under, mut assumptions) = (Vec::new(), Vec::new());
        for (policy, it) in self.all.iter().enumerate() {
            let changed = (it.apply)(spec)?;
            assumptions
                .extend(read_otherwise(spec, &changed).into_iter().map(|text| Assumption { policy, text }));
            under.push(NamedSpec::new(Arc::new(changed)));
        }
        Ok(Specs { base: NamedSpec::new(Arc::clone(spec)), under, assumptions })
    }

    /// What the policies change in the prompts of the runs read so far, each once, in the order of the policies.
    pub fn assumptions(&self) -> Vec<Assumption> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let specs = known.values().filter_map(|specs| specs.as_ref().as_ref().ok());
        let all: BTreeSet<Assumption> = specs.flat_map(|specs| specs.assumptions.iter().cloned()).collect();
        all.into_iter().collect()
    }
}

/// The parts of the prompts that differ under `changed`, except for the limit that a final pass names.
fn read_otherwise(spec: &RunSpec, changed: &RunSpec) -> Vec<String> {
    let offered = |spec: &RunSpec| -> BTreeSet<Arc<str>> {
        let all = if spec.limits.tool_calls == 0 { &[] } else { spec.tools.as_slice() };
        let offered = all.iter().filter(|tool| !policy::is_forbidden(spec, tool));
        offered.map(|tool| Arc::clone(&tool.name)).collect()
    };
    let (before, after) = (offered(spec), offered(changed));
    let names = |of: &BTreeSet<Arc<str>>, without: &BTreeSet<Arc<str>>| {
        of.difference(without).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let (less, more) = (names(&before, &after), names(&after, &before));
    let mut texts = Vec::new();
    if !less.is_empty() {
        texts.push(format!("the list of tools lacks {less}"));
    }
    if !more.is_empty() {
        texts.push(format!("the list of tools has {more} as well"));
    }
    if spec.selection.enabled && spec.limits.selected != changed.limits.selected {
        texts.push(format!("the selection is asked for {} tools", changed.limits.selected));
    }
    if spec.limits.markdown_chars != changed.limits.markdown_chars {
        texts.push(format!("a result is cut at {} characters", changed.limits.markdown_chars));
    }
    let shows = |spec: &RunSpec| (spec.repeats(), spec.gate.on_duplicate);
    if shows(spec) != shows(changed) {
        texts.push("repeated calls are reported otherwise".to_owned());
    }
    texts
}
