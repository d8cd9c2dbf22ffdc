//! The abilities of Google's models by name. A new model needs a row and no code.

use crate::options::Effort;

/// What a model accepts besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// How thinking is limited.
    pub(super) thinking: Thinking,
    /// Whether the first call of each step must have a thought signature.
    pub(super) signs: bool,
    /// Whether results may contain images.
    pub(super) pictures_in_results: bool,
    /// Whether calls can be validated against the schemas of their tools without forcing a call.
    pub(super) validates: bool,
    /// Whether a response schema can be combined with tools.
    pub(super) form_with_tools: bool,
}

/// How thinking is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// No thinking.
    No,
    /// By a token budget within these bounds. `can_be_off` where 0 is accepted besides.
    Budget { least: u64, max: u64, can_be_off: bool },
    /// By one of these levels.
    Level(&'static [Effort]),
}

impl Abilities {
    /// The token budget for an effort, within the bounds of a model that takes one.
    pub(super) fn tokens(effort: Effort) -> u64 {
        match effort {
            Effort::None => 0,
            Effort::Minimal => 512,
            Effort::Low => 1_024,
            Effort::Medium => 8_192,
            Effort::High => 24_576,
            Effort::XHigh | Effort::Max => u64::MAX,
        }
    }
}

/// The abilities of a model. An unknown name counts as the newest model.
pub(super) fn abilities(model: &str) -> Abilities {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    ROWS.iter().find(|(beginning, _)| name.starts_with(beginning)).map_or(NEWEST, |(_, abilities)| *abilities)
}

use Effort::{High, Low, Medium, Minimal};

const NEWEST: Abilities = levels(&[Low, Medium, High]);

const OLD: Abilities = Abilities {
    thinking: Thinking::No,
    signs: false,
    pictures_in_results: false,
    validates: false,
    form_with_tools: false,
};

const fn levels(levels: &'static [Effort]) -> Abilities {
    Abilities {
        thinking: Thinking::Level(levels),
        signs: true,
        pictures_in_results: true,
        validates: true,
        form_with_tools: true,
    }
}

const fn budget(least: u64, max: u64, can_be_off: bool) -> Abilities {
    Abilities { thinking: Thinking::Budget { least, max, can_be_off }, validates: true, ..OLD }
}

/// Prefixes of names, longer ones first. From Google's model pages, November 2026.
const ROWS: [(&str, Abilities); 15] = [
    ("gemini-1", OLD),
    ("gemini-2.0", OLD),
    ("gemini-exp", OLD),
    ("gemma", OLD),
    ("gemini-2.5-flash-image", OLD),
    ("gemini-2.5-flash-lite", budget(512, 24_576, true)),
    ("gemini-2.5-flash", budget(1, 24_576, true)),
    ("gemini-2.5-pro", budget(128, 32_768, false)),
    ("gemini-2.5", budget(1, 24_576, true)),
    ("gemini-3-pro", levels(&[Low, High])),
    ("gemini-3-flash", levels(&[Minimal, Low, Medium, High])),
    ("gemini-3.1-flash", levels(&[Minimal, Low, Medium, High])),
    ("gemini-3.5-flash", levels(&[Minimal, Low, Medium, High])),
    ("gemini-3.6-flash", levels(&[Minimal, Low, Medium, High])),
    ("gemini-3", NEWEST),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_own_row() {
        assert_eq!(abilities("gemini-2.0-flash-001"), OLD);
        assert_eq!(abilities("gemini-2.5-flash-lite-preview-09-2025"), budget(512, 24_576, true));
        assert_eq!(abilities("publishers/google/models/gemini-2.5-pro"), budget(128, 32_768, false));
        assert_eq!(abilities("gemini-3-pro-preview"), levels(&[Low, High]));
        assert_eq!(abilities("gemini-3.8-flash"), NEWEST);
        assert_eq!(abilities("gemini-flash-latest"), NEWEST);
    }
}
