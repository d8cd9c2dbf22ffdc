//! Scripts of calls for the tests of repeats: `read a = 1` is a call, and what it brings if it is made.

use loop_core::repeats::{CallFacts, Guard, RepeatRule};
use loop_core::spec::{Repeats, ThreeTier, ToolRepeats};
use loop_core::types::Status;
use serde_json::{Value, json};

pub struct Guarded {
    pub guard: Guard,
}

impl Guarded {
    pub fn new(repeats: Repeats, three_tier: ThreeTier) -> Self {
        Self { guard: Guard::new(repeats, three_tier) }
    }

    /// One call; its result is told only if it is made.
    pub fn call(
        &mut self,
        tool: &str,
        arguments: &Value,
        rules: &ToolRepeats,
        status: Status,
        data: &str,
    ) -> Result<(), RepeatRule> {
        let is_read = tool.starts_with("read") || tool.contains("search");
        let running = self.guard.before(&CallFacts { tool, arguments, rules, is_read, tries: 2 })?;
        self.guard.after(running, status, data);
        Ok(())
    }

    /// `tool argument = result`: `!` begins a failure for good, `?` one that may pass, `...` is not ready.
    pub fn step(&mut self, step: &str) -> Result<(), RepeatRule> {
        let (call, result) = step.split_once(" = ").unwrap();
        let (tool, argument) = call.split_once(' ').unwrap();
        let status = match result.chars().next() {
            Some('!') => Status::PermanentError,
            Some('?') => Status::RetryableError,
            Some('.') => Status::Pending,
            _ if result == "[]" => Status::Empty,
            _ => Status::Ok,
        };
        self.call(tool, &json!({"argument": argument}), &ToolRepeats::default(), status, result)
    }
}

/// Each step with what is said to it: `run`, or the code of the rule that refuses it.
#[track_caller]
pub fn check_with(repeats: Repeats, three_tier: ThreeTier, script: &[(&str, &str)]) {
    let mut world = Guarded::new(repeats, three_tier);
    for (n, (step, expected)) in script.iter().enumerate() {
        let draft = world.step(step).map_or_else(|rule| rule.code(), |()| "run");
        assert_eq!(draft, *expected, "step {n}, `{step}`, of {script:#?}");
    }
}
