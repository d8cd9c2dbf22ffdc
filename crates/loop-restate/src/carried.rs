//! How large values travel through the engine's journal.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A value in a message of the engine: as it is, up to [`MAX_BYTES`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carried {
    /// The value as JSON.
    Inline(Box<RawValue>),
}

/// Why a value cannot travel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    #[error(
        "a call of {bytes} bytes is larger than a worker gives to Restate ({MAX_BYTES}); let tools return less, or lower limits.messages"
    )]
    TooLarge { bytes: usize },
    #[error(
        "a message of another version of loopgate: {0}; start a worker of the version that began the run"
    )]
    Unreadable(#[from] serde_json::Error),
}

impl Carried {
    /// The value for the engine. This is the one place that decides how it travels.
    pub(crate) fn of<T: Serialize>(value: &T) -> Result<Self, CarryError> {
        let text = serde_json::value::to_raw_value(value)?;
        match text.get().len() {
            bytes if bytes > MAX_BYTES => Err(CarryError::TooLarge { bytes }),
            _ => Ok(Self::Inline(text)),
        }
    }

    /// The value again.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, CarryError> {
        match self {
            Self::Inline(text) => Ok(serde_json::from_str(text.get())?),
        }
    }
}

/// How many bytes a value may have. Restate takes messages of 32 MiB unless it is configured otherwise.
pub(crate) const MAX_BYTES: usize = 24 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Carried, CarryError, MAX_BYTES};

    #[test]
    fn a_value_travels_as_it_is_up_to_the_limit() {
        let text = "ä\"\\".repeat(1_000);
        let carried = Carried::of(&text).unwrap();
        let sent = serde_json::to_string(&carried).unwrap();
        let arrived: Carried = serde_json::from_str(&sent).unwrap();
        assert_eq!(arrived.read::<String>().unwrap(), text);
        let large = "x".repeat(MAX_BYTES);
        assert!(matches!(Carried::of(&large), Err(CarryError::TooLarge { .. })));
    }
}
