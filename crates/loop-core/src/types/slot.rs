//! Command keys: the pass and the purpose of a command.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;

use crate::types::decimal::push_number;

/// The purpose of a command within its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The selector's call, in pass 0.
    Select,
    /// The main call of a pass.
    Main,
    /// The call that requests a missing or unreadable contract block again.
    Repair,
    /// The final pass: the last call, without tools.
    Final,
    /// The n-th action that the pass requested, counted from 0.
    Action(u32),
    /// Checking the document of a pass, or the output of an attempt.
    Check,
    /// Saving the outcome.
    Save,
    /// The n-th call that a retry takes over from the run before it, counted from 0. Always in pass 0.
    Inherited(u32),
}

/// Identifies a command. It is fixed when the work is proposed, and printed as `pass/slot`.
///
/// With the run's id before it (`run/pass/slot`) it is the idempotency key that a tool receives. Every retry of an
/// action reuses its key. Two calls of one batch never share a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandKey {
    /// The pass that requests the command, from 1; 0 for the selection.
    pub pass: u32,
    /// The purpose of the command within the pass.
    pub slot: Slot,
}

impl CommandKey {
    /// The key of `slot` in `pass`.
    pub const fn new(pass: u32, slot: Slot) -> Self {
        Self { pass, slot }
    }
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(KEY_BYTES);
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl CommandKey {
    /// Appends the key as it is displayed.
    pub(crate) fn push_to(&self, out: &mut String) {
        push_number(self.pass.into(), out);
        let (slot, number) = match self.slot {
            Slot::Select => ("/select", None),
            Slot::Main => ("/main", None),
            Slot::Repair => ("/repair", None),
            Slot::Final => ("/final", None),
            Slot::Action(n) => ("/action-", Some(n)),
            Slot::Check => ("/check", None),
            Slot::Save => ("/save", None),
            Slot::Inherited(n) => ("/inherited-", Some(n)),
        };
        out.push_str(slot);
        if let Some(number) = number {
            push_number(number.into(), out);
        }
    }
}

/// Usual most bytes of a key.
pub(crate) const KEY_BYTES: usize = 24;

impl FromStr for CommandKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let invalid = || InvalidKey(text.to_owned());
        let (pass, slot) = text.split_once('/').ok_or_else(invalid)?;
        let pass = pass.parse().map_err(|_| invalid())?;
        let slot = match slot {
            "select" => Slot::Select,
            "main" => Slot::Main,
            "repair" => Slot::Repair,
            "final" => Slot::Final,
            "check" => Slot::Check,
            "save" => Slot::Save,
            other => match (other.strip_prefix("action-"), other.strip_prefix("inherited-")) {
                (Some(n), _) => Slot::Action(n.parse().map_err(|_| invalid())?),
                (None, Some(n)) => Slot::Inherited(n.parse().map_err(|_| invalid())?),
                (None, None) => return Err(invalid()),
            },
        };
        Ok(Self { pass, slot })
    }
}

impl Serialize for CommandKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommandKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a [`CommandKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a command key: expected `pass/slot`, for example `1/main` or `2/action-0`")]
pub struct InvalidKey(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_read_back() {
        // S4-30, S4-d1: parallel other calls of the batch differ by their index.
        let fixed = [Slot::Select, Slot::Main, Slot::Repair, Slot::Final];
        let fixed = fixed.into_iter().chain([Slot::Check, Slot::Save]);
        let slots = fixed.chain([Slot::Action(7), Slot::Inherited(7)]);
        for slot in slots {
            let key = CommandKey::new(3, slot);
            assert_eq!(key.to_string().parse::<CommandKey>(), Ok(key));
        }
        for bad in ["", "main", "x/main", "1/", "1/action-", "1/action-x", "1/other"] {
            assert!(bad.parse::<CommandKey>().is_err(), "{bad}");
        }
    }
}
