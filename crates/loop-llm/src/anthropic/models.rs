//! The abilities of Anthropic's models by name. A new model needs a row and no code.

use crate::options::Effort;

/// What a model accepts besides text and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Maximum output tokens of a reply.
    pub(super) max_output: u64,
    /// How thinking is requested.
    pub(super) thinking: Thinking,
    /// The supported efforts.
    pub(super) efforts: &'static [Effort],
    /// Which sampling options are supported.
    pub(super) sampling: Sampling,
    /// Whether a tool call can be forced.
    pub(super) forced_choice: ForcedCall,
    /// Whether system text may be given late, in a message of its own.
    pub(super) late_system: bool,
    /// Whether tools and text can be bound to a JSON schema.
    pub(super) schemas: bool,
}

/// How thinking is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// No thinking.
    Never,
    /// With `budget_tokens`.
    Budget,
    /// Adaptive or with `budget_tokens`.
    Either,
    /// Adaptive, on request.
    OnRequest,
    /// Adaptive, unless it is turned off.
    Always(ThinkingOff),
}

/// How thinking is turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingOff {
    /// With `disabled`.
    Disabled,
    /// It can only be limited to `between_tools`.
    BetweenTools,
    /// It cannot be turned off.
    Never,
}

/// Which of `temperature`, `top_p` and `top_k` a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    All,
    /// Not `temperature` and `top_p` together.
    NotBoth,
    None,
}

/// Whether a tool call can be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedCall {
    /// Unless thinking has a token budget. With adaptive thinking it can.
    WithoutBudget,
    Never,
}

/// The abilities of a model. A newer version than the known ones counts as the newest of its family, an unknown family as
/// the newest model, and a name that is not Anthropic's as a model that supports what most do.
pub(super) fn abilities(model: &str) -> Abilities {
    let lower = model.to_ascii_lowercase();
    let Some((_, name)) = lower.rsplit_once("claude") else { return ANY };
    let words: Vec<&str> =
        name.split(['-', '.', ':', '@', '_', '/']).filter(|word| !word.is_empty()).collect();
    let number = |word: &&str| word.parse::<u8>().ok().filter(|_| word.len() <= 2);
    let first = words.iter().position(|word| number(word).is_some());
    let at = |place: usize| words.get(place).and_then(number);
    let version = first.map_or((u8::MAX, 0), |first| (at(first).unwrap_or(0), at(first + 1).unwrap_or(0)));
    let is_it = |row: &&FamilyRow| words.contains(&row.family) && row.from <= version;
    match ROWS.iter().find(is_it) {
        Some(row) => row.abilities,
        None if version < (4, 0) => OLD,
        None => NEWEST,
    }
}

/// The abilities of a family from a version on.
struct FamilyRow {
    family: &'static str,
    from: (u8, u8),
    abilities: Abilities,
}

const fn row(family: &'static str, major: u8, minor: u8, abilities: Abilities) -> FamilyRow {
    FamilyRow { family, from: (major, minor), abilities }
}

use Effort::{High, Low, Max, Medium, XHigh};

const ANY: Abilities = Abilities {
    max_output: 4_096,
    thinking: Thinking::Budget,
    efforts: &[],
    sampling: Sampling::All,
    forced_choice: ForcedCall::WithoutBudget,
    late_system: false,
    schemas: true,
};

const OLD: Abilities = Abilities { thinking: Thinking::Never, schemas: false, ..ANY };
const OLD_LONGER: Abilities = Abilities { max_output: 8_192, ..OLD };
const BUDGET: Abilities = Abilities { max_output: 64_000, schemas: false, ..ANY };
const BOUND: Abilities = Abilities { schemas: true, sampling: Sampling::NotBoth, ..BUDGET };
const EITHER: Abilities = Abilities {
    max_output: 128_000,
    thinking: Thinking::Either,
    efforts: &[Low, Medium, High, Max],
    ..BOUND
};
const REQUESTED: Abilities = Abilities {
    thinking: Thinking::OnRequest,
    efforts: &[Low, Medium, High, XHigh, Max],
    sampling: Sampling::None,
    ..EITHER
};
const THINKS: Abilities = Abilities { thinking: Thinking::Always(ThinkingOff::Disabled), ..REQUESTED };
const NEWEST: Abilities = Abilities {
    thinking: Thinking::Always(ThinkingOff::Never),
    forced_choice: ForcedCall::Never,
    late_system: true,
    ..REQUESTED
};

/// The newest of each family first. From Anthropic's model pages, November 2026.
const ROWS: [FamilyRow; 22] = [
    row("fable", 0, 0, NEWEST),
    row("mythos", 0, 0, NEWEST),
    row("opus", 5, 5, NEWEST),
    row("opus", 5, 0, Abilities { late_system: true, ..THINKS }),
    row("opus", 4, 8, Abilities { late_system: true, ..REQUESTED }),
    row("opus", 4, 7, REQUESTED),
    row("opus", 4, 6, EITHER),
    row("opus", 4, 5, BOUND),
    row("opus", 4, 1, Abilities { max_output: 32_000, sampling: Sampling::NotBoth, ..BUDGET }),
    row("opus", 4, 0, Abilities { max_output: 32_000, ..BUDGET }),
    row("opus", 0, 0, OLD),
    row("sonnet", 5, 5, Abilities { thinking: Thinking::Always(ThinkingOff::BetweenTools), ..NEWEST }),
    row("sonnet", 5, 0, THINKS),
    row("sonnet", 4, 6, EITHER),
    row("sonnet", 4, 5, BOUND),
    row("sonnet", 3, 7, BUDGET),
    row("sonnet", 3, 5, OLD_LONGER),
    row("sonnet", 0, 0, OLD),
    row("haiku", 5, 0, Abilities { late_system: true, ..THINKS }),
    row("haiku", 4, 5, BOUND),
    row("haiku", 3, 5, OLD_LONGER),
    row("haiku", 0, 0, OLD),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_own_row() {
        assert_eq!(abilities("claude-sonnet-4-5-20250929"), BOUND);
        assert_eq!(abilities("claude-sonnet-4-20250514"), BUDGET);
        assert_eq!(abilities("claude-3-7-sonnet-latest"), BUDGET);
        assert_eq!(abilities("anthropic/claude-3.5-haiku:beta"), OLD_LONGER);
        assert_eq!(abilities("us.anthropic.claude-opus-4-1-20250805-v1:0").max_output, 32_000);
        assert_eq!(abilities("claude-opus-4-20250514").max_output, 32_000);
        assert_eq!(abilities("claude-opus-4-6").thinking, Thinking::Either);
        assert_eq!(abilities("claude-opus-4-8").sampling, Sampling::None);
        assert!(!abilities("claude-opus-4-7").late_system && abilities("claude-opus-5").late_system);
        assert_eq!(abilities("claude-opus-5-20260601").forced_choice, ForcedCall::WithoutBudget);
        assert_eq!(abilities("claude-5.5-opus").forced_choice, ForcedCall::Never);
        assert_eq!(abilities("claude-sonnet-5-5").thinking, Thinking::Always(ThinkingOff::BetweenTools));
        assert_eq!(abilities("claude-sonnet-5"), THINKS);
        assert_eq!(abilities("claude-haiku-5-5").thinking, THINKS.thinking);
        assert_eq!(abilities("claude-fable-5-2"), NEWEST);
        assert_eq!(abilities("claude-2.1"), OLD);
        assert_eq!(abilities("claude-saga-7"), NEWEST);
        assert_eq!(abilities("qwen3-coder"), ANY);
    }
}
