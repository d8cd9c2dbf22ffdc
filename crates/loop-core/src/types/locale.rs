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
