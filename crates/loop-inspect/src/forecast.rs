//! Forecast of a run before it begins: how many passes each limit leaves room for, and which limit can bind first.

use std::fmt;
use std::sync::Arc;

use loop_core::run::CallModel;
use loop_core::spec::{CostMode, Limits, ModelSpec, Selection, Setting};
use loop_core::types::{CommandKey, Digest, Millis, Price, RunId, Tier};
use loop_core::{Command, Facts, Run, RunSpec, WorkItem};
use loop_prompts::{Dialogue, Prompts};

use loop_runtime::report::counted;

/// How many passes each limit of a run is sure to leave room for, whatever the models and tools do.
///
/// The forecast assumes that each pass writes all the output that it may and returns its share of tool results in full
/// length. Input tokens are counted as the gate's quotes count them. The time limit has no forecast: a single call may
/// use all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The limits. Those that can bind first come first.
    pub bounds: Vec<PassBound>,
    limits: Limits,
}

/// A limit, and the passes that it leaves room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassBound {
    /// The limit's setting.
    pub setting: Setting,
    /// How many passes are certain to fit into the limit.
    pub passes: u32,
}

impl Forecast {
    /// The forecast of a run of `item`.
    pub fn new(spec: &RunSpec, prompts: &Prompts, item: &WorkItem) -> Self {
        let limits = spec.limits.clone();
        let worst = WorstCase::of(spec, first_prompt(spec, prompts, item));
        let mut bounds = vec![PassBound { setting: Setting::Passes, passes: limits.passes }];
        if let Some(limit) = limits.cost.filter(|_| !worst.is_free()) {
            let passes = worst.passes(limit.0, |model, input, output| {
                model.price.as_ref().map_or(0, |price| match limits.cost_mode {
                    CostMode::Strict => price.ceiling(input, output).0,
                    CostMode::Estimated | CostMode::After => price.fresh(input, output).0,
                })
            });
            bounds.push(PassBound { setting: Setting::Cost, passes });
        }
        if let Some(limit) = limits.tokens {
            let passes = worst.passes(limit, |_, input, output| input.saturating_add(output));
            bounds.push(PassBound { setting: Setting::Tokens, passes });
        }
        // A pass takes two calls where its contract has to be repaired.
        let calls = limits.model_calls.saturating_sub(u32::from(worst.selections));
        bounds.push(PassBound { setting: Setting::ModelCalls, passes: calls.div_ceil(2) });
        bounds.sort_by_key(|bound| bound.passes);
        Self { bounds, limits }
    }

    /// The limit that can bind first. Always `Some`, since every run has limits of passes and of model calls.
    pub fn first(&self) -> Option<&PassBound> {
        self.bounds.first()
    }
}

impl fmt::Display for Forecast {
    /// One line: the limits, then the first that can bind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.limits;
        f.write_str(&counted(limits.passes, "pass"))?;
        match limits.cost {
            Some(cost) => write!(f, ", {cost} ({})", limits.cost_mode.name())?,
            None => f.write_str(", no limit of money")?,
        }
        if let Some(tokens) = limits.tokens {
            write!(f, ", {}", counted(tokens, "token"))?;
        }
        write!(
            f,
            ", {}, {}, {} s",
            counted(limits.tool_calls, "tool call"),
            counted(limits.model_calls, "model call"),
            Millis(limits.wall_ms).in_seconds()
        )?;
        let Some(first) = self.first() else { return Ok(()) };
        write!(f, "; counting each pass at its most, {} binds first, ", first.setting)?;
        match first.passes {
            0 => f.write_str("before a whole pass"),
            passes => write!(f, "after {}", counted(passes, "pass")),
        }
    }
}

/// The worst case of each pass of a run.
#[derive(Clone, Debug)]
struct WorstCase<'a> {
    spec: &'a RunSpec,
    selections: bool,
    /// Bytes of the first main prompt, without evidence.
    first_bytes: u64,
    /// Bytes that a pass adds to the next prompt.
    added_bytes: u64,
    output_tokens: u64,
}

impl<'a> WorstCase<'a> {
    fn of(spec: &'a RunSpec, first_bytes: u64) -> Self {
        let limits = &spec.limits;
        let tools = u64::from(limits.tool_calls.div_ceil(limits.passes.max(1)));
        let evidence = tools.saturating_mul(u64::from(limits.markdown_chars));
        let output_tokens = limits.output_tokens.min(spec.models.base.max_output_tokens);
        Self {
            spec,
            selections: spec.selection.enabled
                && !spec.tools.is_empty()
                && limits.tool_calls > 0
                && limits.selected > 0,
            first_bytes,
            added_bytes: evidence.saturating_add(output_tokens.saturating_mul(BYTES_A_TOKEN)),
            output_tokens,
        }
    }

    fn is_free(&self) -> bool {
        [Tier::Selector, Tier::Base]
            .into_iter()
            .all(|tier| self.spec.model(tier).price.as_ref().is_none_or(Price::is_free))
    }

    /// How many passes fit into `limit`, if a call uses `takes(model, input tokens, output tokens)`.
    fn passes(&self, limit: u64, takes: impl Fn(&ModelSpec, u64, u64) -> u64) -> u32 {
        let tokens = |bytes: u64| match self.spec.limits.cost_mode {
            CostMode::Strict => bytes,
            CostMode::Estimated | CostMode::After => bytes.div_ceil(2),
        };
        let mut taken = 0_u64;
        let output_tokens = self.spec.limits.cost_mode.reserved_output(self.output_tokens);
        if self.selections {
            taken = takes(self.spec.model(Tier::Selector), tokens(self.first_bytes), output_tokens);
        }
        let mut bytes = self.first_bytes;
        for pass in 0..self.spec.limits.passes {
            taken = taken.saturating_add(takes(&self.spec.models.base, tokens(bytes), output_tokens));
            if taken > limit {
                return pass;
            }
            bytes = bytes.saturating_add(self.added_bytes);
        }
        self.spec.limits.passes
    }
}

/// Bytes of the first main prompt; 0 where no call would be made.
fn first_prompt(spec: &RunSpec, prompts: &Prompts, item: &WorkItem) -> u64 {
    let limits = Limits { cost: None, tokens: None, ..spec.limits.clone() };
    let selection = Selection { enabled: false, defaults: Vec::new() };
    let spec = Arc::new(RunSpec { limits, selection, ..spec.clone() });
    let nothing = Digest::of("forecast", b"");
    let facts = Facts {
        unix_ms: 0,
        nonce: "0".repeat(16).into(),
        prompts: nothing,
        tools: nothing,
        history: None,
        provenance: loop_core::run::Provenance::default(),
    };
    let (run, _, _) = Run::start(RunId::new("forecast"), spec, item.clone(), facts);
    let key: Option<CommandKey> = run.commands().first().and_then(|command| match command {
        Command::CallModel(CallModel { key, .. }) => Some(*key),
        _ => None,
    });
    let prompt = key.and_then(|key| Dialogue::default().prompt(prompts, &run, key));
    prompt.map_or(0, |prompt| prompt.size.bytes)
}

/// Bytes of text that an output token becomes in the next prompt.
const BYTES_A_TOKEN: u64 = 4;
