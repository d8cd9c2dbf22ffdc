//! The table as people read it, and as JSON.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::score::{Group, GuardScores, Labelled, MetRun, Score, Table};

/// Columns of a policy's name.
const NAME: usize = 20;

impl fmt::Display for Table {
    /// The tables: runs by how they ended, then the labelled ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.scores.first() else { return Ok(()) };
        let groups =
            [("successful", first.successful), ("failed", first.failed), ("of unknown end", first.unknown)];
        let runs: u64 = groups.iter().map(|(_, group)| group.runs).sum();
        let calls: u64 = groups.iter().map(|(_, group)| group.calls).sum();
        let parts = groups.iter().filter(|(_, group)| group.runs > 0);
        let parts = parts.map(|(name, group)| format!("{} {name} with {} calls", group.runs, group.calls));
        writeln!(f, "{runs} runs with {calls} calls: {}.", parts.collect::<Vec<_>>().join(", "))?;
        for (title, select) in GROUPS {
            if select(first).runs > 0 {
                write!(f, "\n{}", group_table(title, &self.scores, *select))?;
                write!(f, "\n{}", grade_table(&self.scores, *select))?;
            }
        }
        write!(f, "\n{:NAME$}{:>10}{:>14}\n", "all runs", "stop at", "calls saved")?;
        for score in &self.scores {
            let stop = score.stop.map_or_else(|| "-".to_owned(), |stop| stop.to_string());
            writeln!(f, "{:NAME$}{stop:>10}{:>14}", score.policy, score.calls_saved)?;
        }
        let labelled: Vec<(&str, &Labelled)> =
            self.scores.iter().filter_map(|score| Some((&*score.policy, score.labelled.as_ref()?))).collect();
        if !labelled.is_empty() {
            write!(f, "\n{}", labelled_table(&labelled))?;
        }
        Ok(())
    }
}

pub(super) type Select = fn(&Score) -> Group;

pub(super) const GROUPS: &[(&str, Select)] = &[
    ("successful runs", |score| score.successful),
    ("failed runs", |score| score.failed),
    ("runs of unknown end", |score| score.unknown),
];

fn group_table(title: &str, scores: &[Score], select: Select) -> String {
    let mut text = format!(
        "{title:NAME$}{:>10}{:>9}{:>14}{:>9}{:>13}\n",
        "runs hit", "", "calls lost", "", "new refused"
    );
    for score in scores {
        let group = select(score);
        let (runs, calls) = (percent(group.runs_hit, group.runs), percent(group.calls_lost, group.calls));
        let _ = writeln!(
            text,
            "{:NAME$}{:>10}{runs:>9}{:>14}{calls:>9}{:>13}",
            score.policy, group.runs_hit, group.calls_lost, group.new_refused
        );
    }
    text
}

/// What met the runs of a group, grade by grade.
fn grade_table(scores: &[Score], select: Select) -> String {
    let mut text = format!(
        "{:NAME$}{:>10}{:>9}{:>8}{:>10}{:>13}{:>14}\n",
        "by grade", "runs met", "", "notes", "refused", "new refused", "runs stopped"
    );
    for score in scores {
        let group = select(score);
        let _ = writeln!(
            text,
            "{:NAME$}{:>10}{:>9}{:>8}{:>10}{:>13}{:>14}",
            score.policy,
            group.runs_met,
            percent(group.runs_met, group.runs),
            group.notes,
            group.refused,
            group.new_refused,
            group.runs_stopped
        );
    }
    text
}

fn labelled_table(of: &[(&str, &Labelled)]) -> String {
    let mut text = String::new();
    if let Some((_, first)) = of.first() {
        let _ = writeln!(text, "{} loops and {} productive runs, labelled.", first.loops, first.productive);
    }
    let _ = writeln!(
        text,
        "{:NAME$}{:>10}{:>9}{:>9}{:>9}{:>17}{:>9}",
        "labelled runs", "caught", "recall", "early", "late by", "false positives", "noted"
    );
    for (policy, labelled) in of {
        let late = labelled.late_by.map_or_else(|| "-".to_owned(), |late| late.to_string());
        let _ = writeln!(
            text,
            "{policy:NAME$}{:>10}{:>9}{:>9}{late:>9}{:>9}{:>8}{:>9}",
            labelled.caught,
            ratio(labelled.caught, labelled.loops),
            labelled.early,
            labelled.false_positives,
            ratio(labelled.false_positives, labelled.productive),
            labelled.noted,
        );
    }
    text
}

/// A share in tenths of a per cent, rounded half up.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match (part * 2000 + whole).checked_div(whole * 2) {
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => "-".to_owned(),
    }
}

/// A share in thousandths, rounded half up.
pub(super) fn ratio(part: u64, whole: u64) -> String {
    match (part * 2000 + whole).checked_div(whole * 2) {
        Some(thousandths) => format!("{}.{:03}", thousandths / 1000, thousandths % 1000),
        None => "-".to_owned(),
    }
}

impl Table {
    /// Lines about the runs that were hit and the loops that were missed, policy by policy, then the labelled kinds that
    /// were not all judged as labelled. Empty without details.
    pub fn details(&self) -> String {
        let mut text = String::new();
        for score in &self.scores {
            for detail in self.details.iter().flatten().filter(|detail| detail.policy == score.policy) {
                let _ = writeln!(text, "{}", detail_line(detail));
            }
            let kinds = score.labelled.iter().flat_map(|labelled| &labelled.kinds);
            for (kind, (runs, right)) in kinds.filter(|(_, (runs, right))| right < runs) {
                let _ = writeln!(text, "{}: kind {kind}: {right} of {runs} judged as labelled", score.policy);
            }
        }
        text
    }

    /// Everything as one JSON object; with details, the runs that were hit and the loops that were missed.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(GuardScores { policies: self.scores.clone(), runs: self.details.clone() })
            .unwrap_or_default()
    }
}

fn detail_line(detail: &MetRun) -> String {
    let end = match (detail.label, detail.success) {
        (Some("loop"), _) => format!("loop from step {}", detail.loop_from.unwrap_or_default()),
        (Some(label), _) => label.to_owned(),
        (None, Some(true)) => "successful".to_owned(),
        (None, Some(false)) => "failed".to_owned(),
        (None, None) => "unknown end".to_owned(),
    };
    let refused: Vec<String> = detail
        .refused
        .iter()
        .map(|refused| {
            let new = if refused.refusal.new { ", new" } else { "" };
            format!("step {} {} ({}{new})", refused.refusal.step, refused.tool, refused.refusal.rule)
        })
        .collect();
    let refused = if refused.is_empty() { "nothing refused".to_owned() } else { refused.join("; ") };
    let notes: String =
        detail.notes.iter().map(|noted| format!("; note at step {} ({})", noted.step, noted.note)).collect();
    let stops: String = detail.stops.iter().map(|step| format!("; stopped at step {step}")).collect();
    let rest = if detail.not_run > 0 { format!("; {} calls not run", detail.not_run) } else { String::new() };
    format!("{}: {} [{end}]: {refused}{notes}{stops}{rest}", detail.policy, detail.run)
}
