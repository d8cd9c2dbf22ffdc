//! Policies by name: ours, and the published rules of others.

use std::fmt;
use std::str::FromStr;

use loop_core::{Repeats, ThreeTier};

use super::own::Own;
use super::prepared::{Call, Reported};
use super::published::{Consecutive, Cycles, Last, OpenHands};

/// How often the same call may be made in a row under `consecutive` without a number.
const CONSECUTIVE: u32 = 5;

/// A policy against repeats that is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A policy of this project, with its defaults.
    Own(Repeats),
    /// `three_tier`, with words for actions removed from search texts, as its description says literally.
    ThreeTierLiteral,
    /// The rule of gemini-cli: the same one to five calls, five times in a row, whatever they return. It ends the
    /// run.
    Cycles5,
    /// The rule of OpenHands: the same call with the same result four times, the same failing call three times, or
    /// two alternating calls over six. It ends the run.
    OpenHands,
    /// The rule of goose: the same call more than this many times in a row is refused, whatever it returns.
    Consecutive(u32),
    /// The rule of opencode: the third equal call in a row goes to a person, whatever it returned. There is no person
    /// here, so it ends the run.
    Last3,
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no policy: progress, three_tier, three_tier_literal, never_rerun, reuse, off, cycles5, openhands, \
     consecutive, consecutive:N (from 1) or last3"
)]
pub struct UnknownPolicy(String);

impl Policy {
    /// Those of a table where none is named: `off` is the row in which nothing is refused.
    pub const DEFAULT: [Self; 8] = [
        Self::Own(Repeats::Progress),
        Self::Own(Repeats::ThreeTier),
        Self::Own(Repeats::NeverRerun),
        Self::Own(Repeats::Off),
        Self::Cycles5,
        Self::OpenHands,
        Self::Consecutive(CONSECUTIVE),
        Self::Last3,
    ];

    /// Whether its first hit ends the run: what comes after counts as not run.
    pub fn ends_the_run(self) -> bool {
        matches!(self, Self::Cycles5 | Self::OpenHands | Self::Last3)
    }

    pub(super) fn judge(self) -> Box<dyn Judge> {
        match self {
            Self::Own(repeats) => Box::new(Own::new(repeats, ThreeTier::default())),
            Self::ThreeTierLiteral => {
                Box::new(Own::new(Repeats::ThreeTier, ThreeTier { literal: true, ..ThreeTier::default() }))
            }
            Self::Cycles5 => Box::new(Cycles::default()),
            Self::OpenHands => Box::new(OpenHands::default()),
            Self::Consecutive(max) => Box::new(Consecutive::new(max)),
            Self::Last3 => Box::new(Last::default()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(repeats) => f.write_str(repeats.name()),
            Self::ThreeTierLiteral => f.write_str("three_tier_literal"),
            Self::Cycles5 => f.write_str("cycles5"),
            Self::OpenHands => f.write_str("openhands"),
            Self::Consecutive(max) => write!(f, "consecutive:{max}"),
            Self::Last3 => f.write_str("last3"),
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Ok(match name {
            "progress" => Self::Own(Repeats::Progress),
            "three_tier" => Self::Own(Repeats::ThreeTier),
            "three_tier_literal" => Self::ThreeTierLiteral,
            "never_rerun" => Self::Own(Repeats::NeverRerun),
            "reuse" => Self::Own(Repeats::Reuse),
            "off" => Self::Own(Repeats::Off),
            "cycles5" => Self::Cycles5,
            "openhands" => Self::OpenHands,
            "consecutive" => Self::Consecutive(CONSECUTIVE),
            "last3" => Self::Last3,
            _ => {
                let max = name.strip_prefix("consecutive:").and_then(|max| max.parse().ok());
                max.filter(|max| *max > 0)
                    .map(Self::Consecutive)
                    .ok_or_else(|| UnknownPolicy(name.to_owned()))?
            }
        })
    }
}

/// A policy at work in one run.
pub(super) trait Judge {
    /// The user said something.
    fn new_turn(&mut self);

    /// The rule by which the call is refused, if it is.
    fn refuses(&mut self, call: &Call<'_>) -> Option<String>;

    /// What the call returned that was not refused just now. Returns the note that the model reads with it.
    fn reported(&mut self, call: &Call<'_>, reported: &Reported<'_>) -> Option<String>;

    /// Whether the turn is over: too many calls in a row were refused.
    fn is_stuck(&self) -> bool {
        false
    }
}
