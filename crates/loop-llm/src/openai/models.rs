//! The abilities of OpenAI's models by name. A new model needs a row and no code.

use crate::options::Effort;

/// What a model accepts besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// The supported reasoning efforts; empty for a model without reasoning.
    pub(crate) efforts: &'static [Effort],
    /// The effort that the model uses by default.
    pub(crate) default_effort: Effort,
    /// Whether `temperature`, `top_p` and similar options are accepted.
    pub(crate) sampling: OptionSupport,
    /// Whether tools are accepted on Chat Completions.
    pub(crate) tools_on_chat: OptionSupport,
    /// Whether stop sequences are accepted.
    pub(crate) stop: OptionSupport,
}

/// When an option is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionSupport {
    /// With any effort.
    Always,
    /// Only without reasoning.
    WithoutReasoning,
    Never,
}

impl Abilities {
    pub(crate) fn reasons(&self) -> bool {
        !self.efforts.is_empty()
    }

    /// Whether an option is accepted with this effort.
    pub(crate) fn takes(&self, when: OptionSupport, effort: Option<Effort>) -> bool {
        match when {
            OptionSupport::Always => true,
            OptionSupport::WithoutReasoning => effort.unwrap_or(self.default_effort) == Effort::None,
            OptionSupport::Never => false,
        }
    }
}

/// The abilities of a model. An unknown name has all.
pub(crate) fn abilities(model: &str) -> Abilities {
    // The name of a fine-tuned model contains its base, and some hosts prefix the vendor.
    let name = model.strip_prefix("ft:").unwrap_or(model);
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    let is_it = |row: &&(&str, Abilities)| {
        let rest = name.strip_prefix(row.0);
        rest.is_some_and(|rest| row.0.ends_with('-') || rest.is_empty() || rest.starts_with(['-', ':', '@']))
    };
    ROWS.iter().find(is_it).map_or(ANY, |(_, abilities)| *abilities)
}

use Effort::{High, Low, Max, Medium, Minimal, None as Not, XHigh};
use OptionSupport::{Always, Never, WithoutReasoning};

const ANY: Abilities = Abilities {
    efforts: &Effort::ALL,
    default_effort: Not,
    sampling: Always,
    tools_on_chat: Always,
    stop: Always,
};

const PLAIN: Abilities = Abilities { efforts: &[], ..ANY };

const fn reasons(
    efforts: &'static [Effort],
    default_effort: Effort,
    sampling: OptionSupport,
    tools_on_chat: OptionSupport,
) -> Abilities {
    Abilities { efforts, default_effort, sampling, tools_on_chat, stop: sampling }
}

/// Prefixes of names, longer ones first, each followed by `-` or nothing. From OpenAI's model pages, November 2026.
const ROWS: [(&str, Abilities); 28] = [
    ("gpt-4.1", PLAIN),
    ("gpt-4o", PLAIN),
    ("gpt-4", PLAIN),
    ("gpt-3.5", PLAIN),
    ("chatgpt-4o", PLAIN),
    ("o1-pro", reasons(&[Low, Medium, High], Medium, Never, Never)),
    ("o3-pro", reasons(&[Low, Medium, High], Medium, Never, Never)),
    ("o1", reasons(&[Low, Medium, High], Medium, Never, Always)),
    ("o3", reasons(&[Low, Medium, High], Medium, Never, Always)),
    ("o4", reasons(&[Low, Medium, High], Medium, Never, Always)),
    ("gpt-5-chat", PLAIN),
    ("gpt-5-pro", reasons(&[High], High, Never, Never)),
    ("gpt-5.2-pro", reasons(&[Medium, High, XHigh], Medium, Never, Never)),
    ("gpt-5", reasons(&[Minimal, Low, Medium, High], Medium, Never, Always)),
    ("gpt-5.1", reasons(&[Not, Low, Medium, High, XHigh], Not, WithoutReasoning, Always)),
    ("gpt-5.2", reasons(&[Not, Low, Medium, High, XHigh], Not, WithoutReasoning, Always)),
    ("gpt-5.3", reasons(&[Not, Low, Medium, High, XHigh], Not, WithoutReasoning, Always)),
    ("gpt-5.4", reasons(&[Not, Low, Medium, High, XHigh], Not, WithoutReasoning, WithoutReasoning)),
    ("gpt-5.5", reasons(&[Not, Low, Medium, High, XHigh], Medium, WithoutReasoning, WithoutReasoning)),
    ("gpt-5.6", reasons(&[Not, Low, Medium, High, XHigh, Max], Medium, WithoutReasoning, WithoutReasoning)),
    ("gpt-6-sol", reasons(&Effort::ALL, Medium, WithoutReasoning, WithoutReasoning)),
    ("gpt-6-luna", reasons(&Effort::ALL, Medium, WithoutReasoning, WithoutReasoning)),
    ("gpt-6-astra", reasons(&[Low, Medium, High, XHigh, Max], Medium, Never, Never)),
    ("gpt-6", reasons(&[Low, Medium, High], Medium, Never, Never)),
    ("gpt-6.1-sol", reasons(&[Low, Medium, High, XHigh, Max], Medium, Never, Never)),
    ("gpt-6.1-terra", reasons(&[Not, Low, Medium, High, XHigh, Max], Medium, WithoutReasoning, Never)),
    ("gpt-6.1", reasons(&[Low, Medium, High], Medium, Never, Never)),
    ("gpt-6.2", reasons(&[Low, Medium, High, XHigh, Max], Medium, Never, Never)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_own_row() {
        assert_eq!(abilities("gpt-4o-mini-2024-07-18"), PLAIN);
        assert_eq!(abilities("gpt-5.4-mini").tools_on_chat, WithoutReasoning);
        assert_eq!(abilities("gpt-5-mini").default_effort, Medium);
        assert!(!abilities("gpt-5-chat-latest").reasons() && abilities("gpt-5-2025-08-07").reasons());
        assert_eq!(abilities("gpt-5.2-pro").efforts, [Medium, High, XHigh]);
        assert_eq!(abilities("gpt-6.2-sol").sampling, Never);
        assert_eq!(abilities("openai/gpt-6-luna").efforts.len(), 7);
        assert_eq!(abilities("gpt-oss-120b"), ANY);
        assert!(abilities("gpt-5.5").takes(WithoutReasoning, Some(Not)));
        assert!(!abilities("gpt-5.5").takes(WithoutReasoning, None));
        assert!(abilities("gpt-5.2").takes(WithoutReasoning, None));
    }
}
