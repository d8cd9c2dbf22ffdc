//! `loopgate runs`: the runs of a journal as a list, by what they are and what they cost.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use loop_core::StopReason;
use loop_core::types::{PicoUsd, RunId, StopClass, edits};
use loop_inspect::listed::{LISTED_VERSION, ListedRun, ListedRuns, ListedState, ListedTotals};
use loop_runtime::journal::{Journal, RunLine, StoredJournal, replay};
use loop_runtime::report::counted;
use serde::Deserialize;

use crate::args::{JournalArgs, ReportArgs};
use crate::failure::Failure;
use crate::show::{row, time};
use crate::stream::{cut, grouped};
use crate::{places, run, stream};

#[derive(Debug, clap::Args)]
pub(crate) struct RunsCommandArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) json: ReportArgs,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

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
    /// Only runs whose own calls cost more than this, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) cost_over: Option<PicoUsd>,
}

/// An instant that is given, or an age.
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
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::At(at) => at,
            Self::Ago(age) => millis(now).saturating_sub(millis(age)),
        }
    }
}

/// A time such as `30d`.
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

pub(crate) async fn runs(args: RunsCommandArgs) -> Result<ExitCode, Failure> {
    let journal = places::existing_journal(&args.journal)?;
    let listed: Vec<ListedRun> =
        args.filter.listed(&journal).await?.into_iter().map(|(_, run)| run).collect();
    let totals = ListedTotals::of(&listed);
    if args.json.json {
        let listed = ListedRuns { version: LISTED_VERSION, runs: listed, totals };
        stream::print_report(&listed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    listed.iter().for_each(|run| one(&mut text, run));
    stream::print(&text);
    stream::note(format!("totals:  {}", in_words(&totals)));
    Ok(ExitCode::SUCCESS)
}

/// A run in a line.
pub(crate) fn one(text: &mut String, listed: &ListedRun) {
    let ListedRun { run, started_unix_ms, domain, item, title, entries, reason, tags, .. } = listed;
    let (item, title) = (cut(item, MAX_ID_CHARS), cut(title, MAX_TITLE_CHARS));
    let time = time(*started_unix_ms);
    let head = format!("{run}  {time}  {domain:<12} {item:<10}");
    if let Some(trouble) = &listed.trouble {
        return row(text, &format!("{head} damaged: {trouble}"));
    }
    let stop =
        reason.clone().unwrap_or_else(|| format!("{}, {}", listed.state.name(), counted(*entries, "entry")));
    // A class that the reason alone does not say, for example of a run whose effect is in doubt.
    let own = StopReason::ALL.iter().find(|own| own.name() == stop).map(|own| own.class().name());
    let class = listed.class.as_deref().filter(|class| Some(*class) != own);
    let stop = class.map_or_else(|| stop.clone(), |class| format!("{stop} ({class})"));
    let tags: String = tags.iter().map(|tag| format!(" #{}", cut(tag, MAX_ID_CHARS))).collect();
    let imported = if listed.imported { " (imported)" } else { "" };
    row(text, &format!("{head} {stop:<20} {title}{tags}{imported}"));
}

/// Runs together, in a line.
pub(crate) fn in_words(totals: &ListedTotals) -> String {
    let runs = if totals.runs == 1 { "1 run".to_owned() } else { format!("{} runs", grouped(totals.runs)) };
    let outcomes = totals.by_outcome.iter().map(|(outcome, count)| format!("{} {outcome}", grouped(*count)));
    let outcomes = outcomes.collect::<Vec<_>>().join(", ");
    if outcomes.is_empty() {
        return runs;
    }
    format!("{runs} ({outcomes}), {}", run::cost(&totals.spent()))
}

/// The tags in a run's origin. An origin that is not of this program has none.
pub(crate) fn tags(origin: Option<&str>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Tags {
        #[serde(default)]
        tags: Vec<String>,
    }
    origin
        .and_then(|origin| serde_json::from_str(origin).ok())
        .map_or_else(Vec::new, |found: Tags| found.tags)
}

impl FilterArgs {
    /// The runs that fit, newest first.
    pub(crate) async fn listed(&self, journal: &StoredJournal) -> Result<Vec<(RunLine, ListedRun)>, Failure> {
        let lines = journal.runs().await?;
        self.check_reasons(&lines)?;
        let since = self.since.map(When::unix_ms);
        let fits = |line: &RunLine| {
            let tags = if self.tags.is_empty() { Vec::new() } else { tags(line.origin.as_deref()) };
            let fits = self.domain.as_deref().is_none_or(|domain| domain == &*line.domain)
                && since.is_none_or(|since| line.unix_ms >= since)
                && self.tags.iter().all(|tag| tags.contains(tag));
            // What is chosen by may be what was changed: a damaged run is in every list.
            fits || line.trouble.is_some()
        };
        let lines: Vec<RunLine> = lines.into_iter().filter(fits).collect();
        let ids: Vec<RunId> = lines.iter().map(|line| line.run.clone()).collect();
        let summaries = journal.summaries(&ids).await?;
        let mut listed = Vec::with_capacity(lines.len());
        for line in lines {
            let summary = summaries.get(&line.run).copied().unwrap_or_default();
            let may_wait = line.stop.is_none() && !line.is_written && line.trouble.is_none();
            let waits = may_wait && waits(journal, &line.run).await;
            let run = ListedRun::new(&line, summary, waits, tags(line.origin.as_deref()));
            let is_named = |name: &String| {
                *name == run.outcome() || *name == run.state.name() || Some(name) == run.reason.as_ref()
            };
            let fits_reason = self.reasons.is_empty() || self.reasons.iter().any(is_named);
            let is_over = |limit: PicoUsd| run.cost.pico_usd > limit.0;
            if fits_reason && self.cost_over.is_none_or(is_over) || line.trouble.is_some() {
                listed.push((line, run));
            }
        }
        Ok(listed)
    }

    /// Refuses a name that no run of any journal can have, except for the reasons of the domains in this one.
    fn check_reasons(&self, lines: &[RunLine]) -> Result<(), Failure> {
        let reasons = StopReason::ALL.iter().map(StopReason::name);
        let classes = StopClass::ALL.iter().map(|class| class.name());
        let states = ListedState::ALL.iter().map(|state| state.name());
        let own = lines.iter().filter_map(|line| line.stop.as_ref()).map(StopReason::name);
        let known: Vec<&str> = classes.chain(states).chain(reasons).chain(own).collect();
        for wanted in &self.reasons {
            if known.contains(&wanted.as_str()) {
                continue;
            }
            let nearest = known.iter().map(|name| (edits(wanted, name), *name)).min();
            let advice = match nearest {
                Some((distance, name)) if wanted.len() < 64 && distance * 3 <= wanted.len() => {
                    format!("did you mean `{name}`?")
                }
                _ => {
                    let classes: Vec<&str> = StopClass::ALL.iter().map(|class| class.name()).collect();
                    format!(
                        "give an outcome ({}), a state (running, waiting, interrupted, damaged) or a stop reason",
                        classes.join(", ")
                    )
                }
            };
            let wanted = cut(wanted, MAX_ID_CHARS);
            return Err(Failure::new(format!(
                "--reason {wanted}: there is no such outcome or reason; {advice}"
            )));
        }
        Ok(())
    }
}

/// Whether a run waits for people. One that cannot be read does not.
async fn waits(journal: &dyn Journal, run: &RunId) -> bool {
    let state = journal.read(run).await.ok().and_then(|recorded| replay(run, &recorded).ok());
    state.is_some_and(|state| !state.requested().is_empty())
}

/// How much of an item's id is listed, in characters.
const MAX_ID_CHARS: usize = 60;
/// How much of its title is listed, in characters.
const MAX_TITLE_CHARS: usize = 100;
