//! The page of a backtest: one HTML file without scripts, whose pictures are drawn in it.

use loop_core::PicoUsd;

use super::finding::FindingKind;
use super::report::{BacktestReport, BacktestedRun, FindingCount, PolicyReport, RunUnderPolicy};
use crate::page::{Page, PageCell, Picture, shortened};

/// How many runs that differ are listed for each policy.
const MAX_ROWS: usize = 500;
/// How many characters of a text from outside are shown.
const MAX_CHARS: usize = 160;

/// The colour of a finding.
fn colour(finding: FindingKind) -> &'static str {
    match finding {
        FindingKind::Same => "#2f855a",
        FindingKind::OtherReason => "#81c995",
        FindingKind::StopsEarlier => "#2b6cb0",
        FindingKind::FinalPass => "#90cdf4",
        FindingKind::Continues => "#dd6b20",
        FindingKind::Differs => "#c53030",
    }
}

/// What a finding means, for the legend.
fn meaning(finding: FindingKind) -> &'static str {
    match finding {
        FindingKind::Same => "same",
        FindingKind::OtherReason => "same end, another reason",
        FindingKind::StopsEarlier => "stops earlier (exact)",
        FindingKind::FinalPass => "makes its final pass earlier (reply unknown)",
        FindingKind::Continues => "continues (unknown from there)",
        FindingKind::Differs => "differs (unknown from there)",
    }
}

/// The page of a report. The same report always gives the same page.
pub fn page(report: &BacktestReport) -> String {
    let runs = report.recorded.runs;
    let mut page = Page::new(
        "Backtest",
        &format!(
            "{runs} recorded runs, cost {}. {} could not be tested.",
            PicoUsd(report.recorded.cost_pico_usd),
            report.not_tested.len()
        ),
    );
    findings(&mut page, report);
    costs(&mut page, report);
    for (at, policy) in report.policies.iter().enumerate() {
        section(&mut page, report, at, policy);
    }
    if !report.not_tested.is_empty() {
        page.heading("Not tested");
        let rows = report.not_tested.iter().take(MAX_ROWS);
        page.table(&["run", "why"], rows.map(|run| vec![PageCell::text(&run.run), PageCell::text(&run.why)]));
    }
    page.finish()
}

/// One bar for each policy: its runs by finding.
fn findings(page: &mut Page, report: &BacktestReport) {
    let all = u64::from(report.recorded.runs).max(1);
    page.heading("What the runs do under each policy");
    let mut picture = Picture::new("Runs by finding", report.policies.len());
    for policy in &report.policies {
        picture.row(&policy.name);
        let mut before = 0;
        for FindingCount { finding, runs } in &policy.findings {
            let runs = u64::from(*runs);
            let title = format!("{}: {} {}", policy.name, runs, finding.name());
            let ends = (before * Picture::WIDTH / all, (before + runs) * Picture::WIDTH / all);
            picture.bar(ends, colour(*finding), &title);
            before += runs;
        }
    }
    page.picture(&picture);
    page.legend(&FindingKind::ALL.map(|finding| (colour(finding), meaning(finding))));
}

/// One bar for the recorded runs and one for each policy: what they cost, and what they may cost.
fn costs(page: &mut Page, report: &BacktestReport) {
    let at_most = |policy: &PolicyReport| {
        policy.cost_pico_usd.saturating_add(policy.unknown_at_most_pico_usd.unwrap_or_default())
    };
    let recorded = report.recorded.cost_pico_usd;
    let largest = report.policies.iter().map(at_most).chain([recorded]).max().unwrap_or_default().max(1);
    let scaled =
        |amount: u64| u64::try_from(u128::from(amount) * u128::from(Picture::WIDTH) / u128::from(largest));
    let scaled = |amount: u64| scaled(amount).unwrap_or(Picture::WIDTH);
    page.heading("What they cost");
    let mut picture = Picture::new("Cost of the runs", report.policies.len() + 1);
    picture.row("recorded");
    picture.bar((0, scaled(recorded)), "#718096", &format!("recorded: {}", PicoUsd(recorded)));
    for policy in &report.policies {
        picture.row(&policy.name);
        let known = policy.cost_pico_usd;
        let at_least = known.saturating_add(policy.unknown_at_least_pico_usd);
        let most = at_most(policy).max(at_least);
        let title = |what: &str, amount: u64| format!("{}: {what} {}", policy.name, PicoUsd(amount));
        picture.bar((0, scaled(known)), "#2f855a", &title("runs whose end is known", known));
        picture.bar((scaled(known), scaled(at_least)), "#dd6b20", &title("at least", at_least));
        picture.bar((scaled(at_least), scaled(most)), "#fbd38d", &title("at most", most));
    }
    page.picture(&picture);
    page.legend(&[
        ("#2f855a", "runs whose end is known"),
        ("#dd6b20", "other runs, up to where they differ"),
        ("#fbd38d", "what these may cost more at most"),
    ]);
}

fn section(page: &mut Page, report: &BacktestReport, at: usize, policy: &PolicyReport) {
    page.heading(&policy.name);
    if !policy.settings.is_empty() {
        page.preformatted(&policy.settings.join("\n"));
    }
    for assumption in &policy.assumptions {
        page.paragraph(&format!("Assumed without effect on what the model writes: {assumption}."));
    }
    page.paragraph(&format!(
        "Saved in runs whose end is known: {} and {} s. {} of them end with another document, answer or output. \
         The end of {} runs is not known.",
        PicoUsd(policy.saved_pico_usd),
        loop_core::Millis(policy.saved_ms).in_seconds(),
        policy.other_results,
        policy.unknown
    ));
    let pairs = report.runs.iter().filter_map(|run| Some((run, run.under.get(at)?)));
    let differ: Vec<_> = pairs.filter(|(_, under)| under.finding != FindingKind::Same).collect();
    if differ.is_empty() {
        page.paragraph("No run differs.");
        return;
    }
    let heads = ["run", "item", "finding", "entry", "what", "recorded", "cost then", "cost", "more at most"];
    page.table(&heads, differ.iter().take(MAX_ROWS).map(|(run, under)| row(run, under)));
    if differ.len() > MAX_ROWS {
        page.paragraph(&format!("{} more differ; --json has all of them.", differ.len() - MAX_ROWS));
    }
}

fn row(run: &BacktestedRun, under: &RunUnderPolicy) -> Vec<PageCell> {
    let cost =
        |cost: Option<u64>| cost.map_or_else(|| "unknown".to_owned(), |cost| PicoUsd(cost).to_string());
    let more = under.more_at_most.as_ref().map_or_else(String::new, |more| cost(more.cost_pico_usd));
    vec![
        PageCell::text(shortened(&run.run, 40)),
        PageCell::text(shortened(&run.item, 40)),
        PageCell::text(under.finding.name()),
        PageCell::number(under.entry.map_or_else(String::new, |entry| entry.to_string())),
        PageCell::text(shortened(&under.what, MAX_CHARS)),
        PageCell::text(run.reason.as_deref().unwrap_or("not ended")),
        PageCell::number(cost(run.cost_pico_usd)),
        PageCell::number(cost(under.cost_pico_usd)),
        PageCell::number(more),
    ]
}
