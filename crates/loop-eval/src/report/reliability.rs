//! The reliability of stated confidence: a table for people and a part of the HTML page.

use std::fmt::Write as _;

use super::trials::percent;
use crate::eval::{Reliability, ReliabilityOfLevel, ReliabilityOfModel};
use crate::page::{Page, PageCell, Picture};

/// The colours of the picture.
const LEVEL: &str = "#d0d7de";
const INTERVAL: &str = "#2f6fbf";
const RATE: &str = "#101418";

/// How often each stated level was right, as a table for people.
pub fn reliability_table(reliability: &Reliability) -> String {
    let mut text = String::new();
    for one in &reliability.models {
        let _ = writeln!(text, "\ncalibration of {} in {}: {}", one.model, one.domain, score(one));
        let _ = writeln!(
            text,
            "  {:<7}  {:>11}  {:>7}  {:<17}  {:<15}  counts as",
            "stated", "passed", "rate", "95 % interval", "rate of level"
        );
        for level in &one.levels {
            let passed = format!("{} of {}", level.passed, level.runs);
            let (rate, interval) = match level.runs {
                0 => ("none".to_owned(), "none".to_owned()),
                _ => (percent(level.rate), interval(level)),
            };
            let _ = writeln!(
                text,
                "  {:<7}  {passed:>11}  {rate:>7}  {interval:<17}  {:<15}  {}",
                level.stated,
                band(level),
                counts_as(level)
            );
        }
    }
    text
}

/// The part of the page: a table and a picture for each model. Nothing if no run was counted.
pub(super) fn reliability(page: &mut Page, reliability: &Reliability) {
    if reliability.models.is_empty() {
        return;
    }
    page.heading("Calibration");
    page.paragraph("How many of the runs that stated a level last passed their checks. A level is right if its pass rate is among the rates of the level.");
    for one in &reliability.models {
        page.verdict(
            &format!("{} in {}: {}", one.model, one.domain, score(one)),
            one.brier <= one.brier_of_rate,
        );
        let rows = one.levels.iter().map(|level| {
            let is_right = level.measured.as_ref().is_none_or(|measured| *measured == level.stated);
            vec![
                PageCell::text(&level.stated),
                PageCell::number(format!("{} of {}", level.passed, level.runs)),
                PageCell::number(if level.runs == 0 { "none".to_owned() } else { percent(level.rate) }),
                PageCell::number(if level.runs == 0 { "none".to_owned() } else { interval(level) }),
                PageCell::number(band(level)),
                PageCell::judged(counts_as(level), is_right),
            ]
        });
        page.table(&["stated", "passed", "rate", "95 % interval", "rate of level", "counts as"], rows);
        page.picture(&picture(one));
    }
    page.legend(&[(LEVEL, "rates of the level"), (INTERVAL, "95 % interval"), (RATE, "pass rate")]);
    for warning in reliability.warnings() {
        page.paragraph(&warning);
    }
}

/// A row for each level: the range of rates that it means, and over it the measured rate with its interval.
fn picture(one: &ReliabilityOfModel) -> Picture {
    let title = format!("Pass rates of {} in {} by stated level, from 0 % to 100 %", one.model, one.domain);
    let mut picture = Picture::new(&title, one.levels.len());
    let x = |rate: f64| (rate.clamp(0.0, 1.0) * Picture::WIDTH as f64).round() as u64;
    for level in &one.levels {
        picture.row(&format!("{} ({} runs)", level.stated, level.runs));
        let (least, most) = rates(level);
        picture.bar((x(least), x(most)), LEVEL, &format!("{} means {}", level.stated, band(level)));
        if level.runs > 0 {
            picture.bar((x(level.low), x(level.high)), INTERVAL, &format!("interval {}", interval(level)));
            let at = x(level.rate).min(Picture::WIDTH - 6);
            picture.bar((at, at + 6), RATE, &format!("pass rate {}", percent(level.rate)));
        }
    }
    picture
}

fn score(one: &ReliabilityOfModel) -> String {
    format!(
        "Brier score {:.3}, {:.3} if the pass rate of all were forecast; {} of {} runs passed",
        one.brier, one.brier_of_rate, one.passed, one.runs
    )
}

fn interval(level: &ReliabilityOfLevel) -> String {
    format!("{} to {}", percent(level.low), percent(level.high))
}

/// The range of rates that a level means.
fn rates(level: &ReliabilityOfLevel) -> (f64, f64) {
    let most = match level.stated.as_str() {
        "high" => 1.0,
        "medium" => 0.8,
        _ => 0.5,
    };
    (level.least, most)
}

fn band(level: &ReliabilityOfLevel) -> String {
    let (least, most) = rates(level);
    format!("{:.0} % to {:.0} %", least * 100.0, most * 100.0)
}

fn counts_as(level: &ReliabilityOfLevel) -> String {
    match &level.measured {
        None => format!("{} (too few runs)", level.stated),
        Some(measured) if *measured == level.stated => measured.clone(),
        Some(measured) if level.rate > level.least => {
            format!("{}, {measured} with allow_raise", level.stated)
        }
        Some(measured) => measured.clone(),
    }
}
