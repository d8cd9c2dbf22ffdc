//! Filters the runs of a journal.

use std::collections::BTreeSet;
use std::time::Duration;

use loop_core::StopReason;
use loop_core::types::{PicoUsd, RunId, StopClass, edits};
use loop_inspect::listed::{ListedRun, ListedState};
use loop_runtime::journal::list::SearchTerms;
use loop_runtime::journal::{Journal, RunLine, StoredJournal, replay};
use serde::Deserialize;

use crate::args::{FilterArgs, When};
use crate::output::{Failure, cut, grouped, stream};

impl FilterArgs {
    /// The matching runs, newest first.
    pub(crate) async fn listed(&self, journal: &StoredJournal) -> Result<Vec<(RunLine, ListedRun)>, Failure> {
        let lines = journal.runs().await?;
        self.check_reasons(&lines)?;
        let since = self.since.map(When::unix_ms);
        let fits = |line: &RunLine| {
            let tags = if self.tags.is_empty() { Vec::new() } else { tags_of(line.origin.as_deref()) };
            let fits = self.domain.as_deref().is_none_or(|domain| domain == &*line.domain)
                && since.is_none_or(|since| line.unix_ms >= since)
                && self.tags.iter().all(|tag| tags.contains(tag));
            // What is chosen by may be what was changed: a damaged run is in every list.
            fits || line.trouble.is_some()
        };
        let found = match &self.words {
            Some(words) => Some(found(journal, words).await?),
            None => None,
        };
        let has_words = |line: &RunLine| found.as_ref().is_none_or(|found| found.contains(&line.run));
        let lines: Vec<RunLine> = lines.into_iter().filter(fits).filter(has_words).collect();
        let ids: Vec<RunId> = lines.iter().map(|line| line.run.clone()).collect();
        let summaries = journal.summaries(&ids).await?;
        let mut labels = journal.labels(Some(&ids)).await?;
        let mut callers = journal.callers_of(ids).await?;
        let mut listed = Vec::with_capacity(lines.len());
        for line in lines {
            let summary = summaries.get(&line.run).cloned().unwrap_or_default();
            let may_wait = line.stop.is_none() && !line.is_written && line.trouble.is_none();
            let waits = may_wait && waits(journal, &line.run).await;
            let mut run = ListedRun::new(&line, summary, waits, tags_of(line.origin.as_deref()));
            run.label = labels.remove(&line.run);
            run.caller = callers.remove(&line.run);
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

    /// Fails for an outcome or reason that no run can have. Reasons that domains in this journal declare are accepted.
    fn check_reasons(&self, lines: &[RunLine]) -> Result<(), Failure> {
        let reasons = StopReason::all().iter().map(StopReason::name);
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
            let wanted = cut(wanted, 60);
            return Err(Failure::new(format!(
                "--reason {wanted}: there is no such outcome or reason; {advice}"
            )));
        }
        Ok(())
    }
}

/// The runs with these words. All ended runs are indexed first.
async fn found(journal: &StoredJournal, words: &SearchTerms) -> Result<BTreeSet<RunId>, Failure> {
    let left = journal.index_words(Duration::MAX).await?;
    if left > 0 {
        stream::note(format!(
            "of {} runs the words are not searched: they are not in the index, and the journal cannot be written",
            grouped(left)
        ));
    }
    Ok(journal.runs_with(words).await?)
}

/// Whether a run waits for people. False if it cannot be read.
async fn waits(journal: &dyn Journal, run: &RunId) -> bool {
    let Ok(recorded) = journal.read(run).await else { return false };
    replay(run, &recorded).is_ok_and(|state| loop_runtime::people::waits(&state, recorded.now()))
}

/// The tags in a run's origin. Empty if this program did not write it.
pub(crate) fn tags_of(origin: Option<&str>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Tags {
        #[serde(default)]
        tags: Vec<String>,
    }
    origin
        .and_then(|origin| serde_json::from_str(origin).ok())
        .map_or_else(Vec::new, |found: Tags| found.tags)
}
