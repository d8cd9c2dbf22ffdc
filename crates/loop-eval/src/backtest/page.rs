//! The page of a backtest: one HTML file without scripts, whose pictures are drawn in it.

use std::fmt::Write as _;

use loop_core::PicoUsd;

use super::finding::FindingKind;
use super::report::{BacktestReport, BacktestedRun, FindingCount, PolicyReport, RunUnderPolicy};

/// How many runs that differ are listed for each policy.
const MAX_ROWS: usize = 500;
/// How many characters of a text from outside are shown.
const MAX_CHARS: usize = 160;
/// The width of a picture's bars, in pixels.
const WIDTH: u64 = 640;

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
    let mut html = String::from(HEAD);
    let runs = report.recorded.runs;
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        html,
        "<h1>Backtest</h1>\n<p>{runs} recorded runs, cost {}. {} could not be tested.</p>",
        PicoUsd(report.recorded.cost_pico_usd),
        report.not_tested.len()
    );
    findings(&mut html, report);
    costs(&mut html, report);
    for (at, policy) in report.policies.iter().enumerate() {
        section(&mut html, report, at, policy);
    }
    if !report.not_tested.is_empty() {
        html.push_str("<h2>Not tested</h2>\n<table>\n<tr><th>run</th><th>why</th></tr>\n");
        for run in report.not_tested.iter().take(MAX_ROWS) {
            let _ = writeln!(html, "<tr><td>{}</td><td>{}</td></tr>", escaped(&run.run), escaped(&run.why));
        }
        html.push_str("</table>\n");
    }
    html.push_str("</body>\n</html>\n");
    html
}

/// One bar for each policy: its runs by finding.
fn findings(html: &mut String, report: &BacktestReport) {
    let all = u64::from(report.recorded.runs).max(1);
    html.push_str("<h2>What the runs do under each policy</h2>\n");
    begin_picture(html, "Runs by finding", report.policies.len());
    for (row, policy) in report.policies.iter().enumerate() {
        let y = label(html, row, &policy.name);
        let mut before = 0;
        for FindingCount { finding, runs } in &policy.findings {
            let runs = u64::from(*runs);
            let title = format!("{}: {} {}", policy.name, runs, finding.name());
            bar(html, (before * WIDTH / all, (before + runs) * WIDTH / all), y, colour(*finding), &title);
            before += runs;
        }
    }
    html.push_str("</svg>\n<p class=\"legend\">");
    for finding in FindingKind::ALL {
        let _ =
            write!(html, "<span><i style=\"background:{}\"></i>{}</span>", colour(finding), meaning(finding));
    }
    html.push_str("</p>\n");
}

/// One bar for the recorded runs and one for each policy: what they cost, and what they may cost.
fn costs(html: &mut String, report: &BacktestReport) {
    let at_most = |policy: &PolicyReport| {
        policy.cost_pico_usd.saturating_add(policy.unknown_at_most_pico_usd.unwrap_or_default())
    };
    let recorded = report.recorded.cost_pico_usd;
    let largest = report.policies.iter().map(at_most).chain([recorded]).max().unwrap_or_default().max(1);
    let scaled = |amount: u64| u64::try_from(u128::from(amount) * u128::from(WIDTH) / u128::from(largest));
    let scaled = |amount: u64| scaled(amount).unwrap_or(WIDTH);
    html.push_str("<h2>What they cost</h2>\n");
    begin_picture(html, "Cost of the runs", report.policies.len() + 1);
    let y = label(html, 0, "recorded");
    bar(html, (0, scaled(recorded)), y, "#718096", &format!("recorded: {}", PicoUsd(recorded)));
    for (row, policy) in report.policies.iter().enumerate() {
        let y = label(html, row + 1, &policy.name);
        let known = policy.cost_pico_usd;
        let at_least = known.saturating_add(policy.unknown_at_least_pico_usd);
        let most = at_most(policy).max(at_least);
        let title = |what: &str, amount: u64| format!("{}: {what} {}", policy.name, PicoUsd(amount));
        bar(html, (0, scaled(known)), y, "#2f855a", &title("runs whose end is known", known));
        bar(html, (scaled(known), scaled(at_least)), y, "#dd6b20", &title("at least", at_least));
        bar(html, (scaled(at_least), scaled(most)), y, "#fbd38d", &title("at most", most));
    }
    html.push_str(
        "</svg>\n<p class=\"legend\"><span><i style=\"background:#2f855a\"></i>runs whose end is known</span>\
         <span><i style=\"background:#dd6b20\"></i>other runs, up to where they differ</span>\
         <span><i style=\"background:#fbd38d\"></i>what these may cost more at most</span></p>\n",
    );
}

fn begin_picture(html: &mut String, title: &str, rows: usize) {
    let height = rows * 28 + 8;
    let _ = writeln!(
        html,
        "<svg role=\"img\" aria-label=\"{title}\" width=\"860\" height=\"{height}\" viewBox=\"0 0 860 {height}\">\n<title>{title}</title>"
    );
}

/// Writes the name of a row; returns where its bar is.
fn label(html: &mut String, row: usize, name: &str) -> usize {
    let y = row * 28 + 4;
    let _ = writeln!(
        html,
        "<text x=\"200\" y=\"{}\" text-anchor=\"end\">{}</text>",
        y + 15,
        escaped(&shortened(name, 26))
    );
    y
}

fn bar(html: &mut String, (from, to): (u64, u64), y: usize, colour: &str, title: &str) {
    if to > from {
        let _ = writeln!(
            html,
            "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"20\" fill=\"{colour}\"><title>{}</title></rect>",
            210 + from,
            to - from,
            escaped(title)
        );
    }
}

fn section(html: &mut String, report: &BacktestReport, at: usize, policy: &PolicyReport) {
    let _ = writeln!(html, "<h2>{}</h2>", escaped(&policy.name));
    if !policy.settings.is_empty() {
        let _ = writeln!(html, "<pre>{}</pre>", escaped(&policy.settings.join("\n")));
    }
    for assumption in &policy.assumptions {
        let _ = writeln!(
            html,
            "<p>Assumed without effect on what the model writes: {}.</p>",
            escaped(assumption)
        );
    }
    let _ = writeln!(
        html,
        "<p>Saved in runs whose end is known: {} and {} s. {} of them end with another document, answer or output. \
         The end of {} runs is not known.</p>",
        PicoUsd(policy.saved_pico_usd),
        loop_core::Millis(policy.saved_ms).in_seconds(),
        policy.other_results,
        policy.unknown
    );
    let pairs = report.runs.iter().filter_map(|run| Some((run, run.under.get(at)?)));
    let differ: Vec<_> = pairs.filter(|(_, under)| under.finding != FindingKind::Same).collect();
    if differ.is_empty() {
        html.push_str("<p>No run differs.</p>\n");
        return;
    }
    html.push_str(
        "<table>\n<tr><th>run</th><th>item</th><th>finding</th><th>entry</th><th>what</th><th>recorded</th>\
         <th>cost then</th><th>cost</th><th>more at most</th></tr>\n",
    );
    for (run, under) in differ.iter().take(MAX_ROWS) {
        row(html, run, under);
    }
    html.push_str("</table>\n");
    if differ.len() > MAX_ROWS {
        let _ = writeln!(
            html,
            "<p>{} more differ; <code>--json</code> has all of them.</p>",
            differ.len() - MAX_ROWS
        );
    }
}

fn row(html: &mut String, run: &BacktestedRun, under: &RunUnderPolicy) {
    let cost =
        |cost: Option<u64>| cost.map_or_else(|| "unknown".to_owned(), |cost| PicoUsd(cost).to_string());
    let more = under.more_at_most.as_ref().map_or_else(String::new, |more| cost(more.cost_pico_usd));
    let recorded = run.reason.as_deref().unwrap_or("not ended");
    let cells = [
        shortened(&run.run, 40),
        shortened(&run.item, 40),
        under.finding.name().to_owned(),
        under.entry.map_or_else(String::new, |entry| entry.to_string()),
        shortened(&under.what, MAX_CHARS),
        recorded.to_owned(),
        cost(run.cost_pico_usd),
        cost(under.cost_pico_usd),
        more,
    ];
    html.push_str("<tr>");
    for cell in cells {
        let _ = write!(html, "<td>{}</td>", escaped(&cell));
    }
    html.push_str("</tr>\n");
}

/// At most so many characters.
fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Text from outside as text of the page: no markup, and no character that is not seen.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c == '\n' || loop_core::is_clean(c) => safe.push(c),
            _ => safe.push('\u{fffd}'),
        }
    }
    safe
}

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<title>Backtest</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1a202c; background: #fff; }
table { border-collapse: collapse; font-size: 13px; }
th, td { border-bottom: 1px solid #e2e8f0; padding: .25rem .6rem; text-align: left; vertical-align: top; }
pre { background: #f7fafc; padding: .6rem; }
svg text { font: 13px system-ui, sans-serif; fill: #1a202c; }
.legend span { margin-right: 1.2rem; font-size: 13px; white-space: nowrap; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
</style>
</head>
<body>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_text_of_the_page() {
        // A work item's id may be anything.
        assert_eq!(escaped("<script>'\"&\u{202e}"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
