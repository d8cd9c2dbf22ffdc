//! Filters of runs by time, outcome, tag, words and cost.

use std::time::{Duration, SystemTime};

use loop_core::StopReason;
use loop_core::types::PicoUsd;
use loop_runtime::journal::list::SearchTerms;
use loop_runtime::journal::unix_ms;

/// Which runs of a journal are meant. A run has to fit all of it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only runs of this domain, by its name
    #[arg(long = "domain", value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Only runs that began since then: a UTC date or time (2026-11-01, 2026-11-01T09:30), or an age (90m, 12h, 7d)
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub(crate) since: Option<When>,
    /// Only runs with this outcome, stop reason or state, for example answered, max_passes or waiting; repeat it for
    /// several
    #[arg(long = "reason", value_name = "NAME", value_parser = |name: &str| Ok::<_, String>(StopReason::own_name(name).to_owned()))]
    pub(crate) reasons: Vec<String>,
    /// Only runs with this tag; with several, runs that have all of them
    #[arg(long = "tag", value_name = "NAME")]
    pub(crate) tags: Vec<String>,
    /// Only runs that have ended with these words in their document or evidence; several words in quotation marks are one
    /// phrase
    #[arg(long, value_name = "WORDS", value_parser = SearchTerms::parse)]
    pub(crate) words: Option<SearchTerms>,
    /// Only runs whose own calls cost more than this, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) cost_over: Option<PicoUsd>,
}

impl FilterArgs {
    /// Whether something is filtered by.
    pub(crate) fn is_any(&self) -> bool {
        let Self { domain, since, reasons, tags, words, cost_over } = self;
        let is_chosen = domain.is_some() || since.is_some() || words.is_some() || cost_over.is_some();
        is_chosen || !reasons.is_empty() || !tags.is_empty()
    }
}

/// An instant or an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In milliseconds since 1970 (UTC).
    At(u64),
    Ago(Duration),
}

impl When {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(age) = age(text) {
            return Ok(Self::Ago(age));
        }
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let day = text.parse::<jiff::civil::DateTime>().ok()?;
            Some(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        });
        let at = at.and_then(|at| u64::try_from(at.as_millisecond()).ok());
        let at = at.ok_or_else(|| {
            "expected a UTC date or time from 1970 on (2026-11-01, 2026-11-01T09:30), or an age (90m, 12h, 7d)".to_owned()
        })?;
        if at > Self::Ago(Duration::ZERO).unix_ms() {
            return Err(
                "it is in the future; give a UTC date or time that is over, or an age (90m, 12h, 7d)"
                    .to_owned(),
            );
        }
        Ok(Self::At(at))
    }

    /// In milliseconds since 1970 (UTC).
    pub(crate) fn unix_ms(self) -> u64 {
        match self {
            Self::At(at) => at,
            Self::Ago(age) => SystemTime::now().checked_sub(age).map_or(0, unix_ms),
        }
    }
}

/// Parses an age such as `30d`.
pub(crate) fn age(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1))?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?))
}
