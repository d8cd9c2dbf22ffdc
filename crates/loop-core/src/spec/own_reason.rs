//! Stop reasons that a domain declares in addition to the loop's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::{Status, StopClass};

/// The maximum length of a name, in bytes.
const LONGEST: usize = 32;

/// The name of a domain's own reason to stop, in `snake_case`, for example `already_refunded`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonName {
    /// Padded with zeros.
    bytes: [u8; LONGEST],
}

impl ReasonName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
        self.bytes.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl FromStr for ReasonName {
    type Err = InvalidReason;

    fn from_str(text: &str) -> Result<Self, InvalidReason> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        let mut bytes = [0; LONGEST];
        match bytes.get_mut(..text.len()) {
            Some(room) if starts && text.chars().all(is_word) => room.copy_from_slice(text.as_bytes()),
            _ => return Err(InvalidReason(text.to_owned())),
        }
        Ok(Self { bytes })
    }
}

impl fmt::Display for ReasonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ReasonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for ReasonName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ReasonName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not the name of a reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the name of a reason: use at most {LONGEST} lower-case letters, digits and underscores, and begin with a letter"
)]
pub struct InvalidReason(pub String);

/// A stop reason that a domain declares: the run ends with it once a call of a tool has settled with a given status.
///
/// The core detects it, not a model, and tool results are only data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnReason {
    /// Its name.
    pub name: ReasonName,
    /// The class of the stop. Not `cancelled` and not `in_doubt`, which the loop itself sets.
    pub class: StopClass,
    /// What the stop means, as a sentence for people.
    pub says: Arc<str>,
    /// The tool, by its own name.
    pub tool: Arc<str>,
    /// The status with which a call of the tool settles.
    pub status: Status,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_and_read_back_and_a_bad_one_is_told() {
        let longest = "a".repeat(LONGEST);
        for name in ["a", "already_refunded", "no_2", &longest] {
            assert_eq!(name.parse::<ReasonName>().unwrap().as_str(), name);
        }
        for bad in ["", "Refunded", "1st", "_x", "a-b", "a b", "ä", &format!("{longest}a")] {
            assert!(bad.parse::<ReasonName>().is_err(), "{bad}");
        }
    }
}
