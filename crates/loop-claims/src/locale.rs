//! How a language writes numbers and dates.

use loop_core::types::Locale;

/// What a language writes otherwise than another one.
pub(crate) trait Written {
    /// The character before the digits after the point.
    fn point(self) -> char;

    /// Whether thousands are set apart by a space.
    fn spaces_thousands(self) -> bool;

    /// Whether the month is before the day where a date has slashes.
    fn month_first(self) -> bool;

    /// Whether every noun has a capital, so that two of them are not a name.
    fn capitalises_nouns(self) -> bool;

    /// The same separators the other way round: a tool may write a number as another language does.
    fn other(self) -> Self;
}

impl Written for Locale {
    fn point(self) -> char {
        match self {
            Self::En | Self::Ja => '.',
            Self::De | Self::Fr | Self::Es => ',',
        }
    }

    fn spaces_thousands(self) -> bool {
        matches!(self, Self::Fr)
    }

    fn month_first(self) -> bool {
        matches!(self, Self::En)
    }

    fn capitalises_nouns(self) -> bool {
        matches!(self, Self::De)
    }

    fn other(self) -> Self {
        match self {
            Self::En | Self::Ja => Self::De,
            Self::De | Self::Fr | Self::Es => Self::En,
        }
    }
}
