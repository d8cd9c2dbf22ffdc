//! How a language writes numbers and dates.

use serde::{Deserialize, Serialize};

/// The language of a document's numbers and dates. Names of months and words are read in every language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Locale {
    /// `1,234.5`; `11/26/2026` is a day of November.
    #[default]
    En,
    /// `1.234,5`; `26.11.2026`.
    De,
    /// `1 234,5`; `26/11/2026`.
    Fr,
    /// `1.234,5`; `26/11/2026`.
    Es,
    /// `1,234.5`, `3万`; `2026年11月26日`.
    Ja,
}

impl Locale {
    /// The character before the digits after the point.
    pub(crate) fn point(self) -> char {
        match self {
            Self::En | Self::Ja => '.',
            Self::De | Self::Fr | Self::Es => ',',
        }
    }

    /// Whether thousands are set apart by a space.
    pub(crate) fn spaces_thousands(self) -> bool {
        matches!(self, Self::Fr)
    }

    /// Whether the month is before the day where a date has slashes.
    pub(crate) fn month_first(self) -> bool {
        matches!(self, Self::En)
    }

    /// Whether every noun has a capital, so that two of them are not a name.
    pub(crate) fn capitalises_nouns(self) -> bool {
        matches!(self, Self::De)
    }

    /// The same separators the other way round: a tool may write a number as another language does.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::En | Self::Ja => Self::De,
            Self::De | Self::Fr | Self::Es => Self::En,
        }
    }
}
