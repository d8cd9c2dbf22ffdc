//! Escapes and cuts untrusted text for pages, and formats numbers and times.

use loop_core::types::Millis;
use loop_eval::page::escape_into;
use maud::{Markup, Render, html};

/// An untrusted text, escaped, with every invisible character spelled out, for example `[U+202E]`. Every untrusted text
/// goes through this function, in attributes as well.
pub(super) fn t(text: &str) -> ShownText<'_> {
    ShownText(text)
}

/// An untrusted text that renders escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownText<'a>(&'a str);

impl Render for ShownText<'_> {
    fn render_to(&self, buffer: &mut String) {
        escape_into(buffer, self.0);
    }
}

/// The head of a table. Columns of numbers have names that begin with `#`.
pub(super) fn heads(names: &[&str]) -> Markup {
    html! {
        thead { tr { @for name in names {
            @let number = name.strip_prefix('#');
            th class=[number.map(|_| "n")] scope="col" { (number.unwrap_or(name)) }
        } } }
    }
}

/// A number with blanks between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A wall time in UTC, for people.
pub(super) fn time(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| unix_ms.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A wall time as an element, in UTC. The script of the page shows it in the reader's time zone.
pub(super) fn when(unix_ms: u64) -> Markup {
    let text = time(unix_ms);
    html! { time.when datetime={ (text.replacen(' ', "T", 1)) "Z" } { (text) " UTC" } }
}

/// The day of a wall time in UTC, as `2026-11-26`.
pub(super) fn day(unix_ms: u64) -> String {
    time(unix_ms).get(..10).unwrap_or_default().to_owned()
}

/// A duration, for people.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", Millis(ms).in_seconds()),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

/// How many more bytes of text fit on a page. Text that does not fit is counted and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextBudget {
    left: usize,
}

/// The beginning of a text, and how many bytes were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutText {
    /// The beginning, or all of it.
    pub text: String,
    /// How many bytes were left out; 0 if it is whole.
    pub left_out: u64,
}

/// The bytes of a text that are shown even if the budget is used up.
const LEAST: usize = 400;

impl TextBudget {
    pub(super) fn new(left: usize) -> Self {
        Self { left }
    }

    /// At most `max` bytes of a text, cut at the end of a line if that does not take away much.
    pub(super) fn take(&mut self, text: &str, max: usize) -> CutText {
        let cut = cut(text, max.min(self.left.max(LEAST)));
        self.left = self.left.saturating_sub(cut.text.len());
        cut
    }
}

/// At most `max` bytes of a text.
pub(super) fn cut(text: &str, max: usize) -> CutText {
    if text.len() <= max {
        return CutText { text: text.to_owned(), left_out: 0 };
    }
    let end = text.floor_char_boundary(max);
    let whole = text.get(..end).unwrap_or_default();
    let line = whole.rfind('\n').filter(|at| *at >= end - end / 4);
    let shown = line.and_then(|at| whole.get(..at)).unwrap_or(whole);
    CutText { text: shown.to_owned(), left_out: (text.len() - shown.len()) as u64 }
}

/// How many bytes were left out of a text, and how to get them. Nothing if it is complete.
pub(super) fn rest(cut: &CutText, how: &str) -> Markup {
    html! {
        @if cut.left_out > 0 {
            p.rest { "… " (grouped(cut.left_out)) " more bytes are left out here: " (t(how)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_to_the_byte() {
        let text = "ä\n".repeat(1_000);
        let mut room = TextBudget::new(1_000);
        let first = room.take(&text, 900);
        assert_eq!(first.text.len() as u64 + first.left_out, 3_000);
        assert!(first.text.len() > 600 && first.text.len() <= 900);
        // A page without room still shows the beginning of each text.
        for _ in 0..3 {
            let next = room.take(&text, 900);
            assert!(!next.text.is_empty() && next.text.len() <= LEAST);
        }
        assert_eq!(room.take("whole", 900), CutText { text: "whole".to_owned(), left_out: 0 });
        assert_eq!(cut("no line ends here", 9).text, "no line e");
    }

    #[test]
    fn numbers_and_times_are_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([5, 1_500, 180_000, 7_200_000].map(duration), ["5 ms", "1.5 s", "3 min", "2 h"]);
        assert_eq!(time(0), "1970-01-01 00:00:00");
    }
}
