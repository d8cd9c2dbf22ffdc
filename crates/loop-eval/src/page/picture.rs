//! Charts in a page, as SVG: bars by row, and a rate with its interval.

use std::fmt::Write as _;

use super::text::{escaped, shortened};
use crate::interval::Interval;

/// The width of the bars of a picture.
const WIDTH: u64 = 640;
/// The left edge of the bars, to the right of the row names.
const LEFT: u64 = 210;
/// The height of a row.
const ROW: u64 = 28;

/// A picture, as SVG without a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    svg: String,
    rows: u64,
}

impl Picture {
    /// The length of the longest bar.
    pub const WIDTH: u64 = WIDTH;

    /// A picture with this many rows of bars.
    pub fn new(title: &str, rows: usize) -> Self {
        let (title, height) = (escaped(title), rows as u64 * ROW + 8);
        let width = LEFT + WIDTH + 10;
        let svg = format!(
            "<svg role=\"img\" aria-label=\"{title}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\
             <title>{title}</title>\n"
        );
        Self { svg, rows: 0 }
    }

    /// Begins a row with this name.
    pub fn row(&mut self, name: &str) {
        self.rows += 1;
        let (x, y, name) = (LEFT - 10, self.top() + 15, escaped(&shortened(name, 26)));
        let _ = writeln!(self.svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{name}</text>");
    }

    /// Adds a bar to the row. `from` and `to` are of [`WIDTH`](Self::WIDTH), `colour` is `#rrggbb`, and `title` is a
    /// tooltip.
    pub fn bar(&mut self, (from, to): (u64, u64), colour: &'static str, title: &str) {
        if to > from {
            let (x, y, width, title) = (LEFT + from, self.top(), to - from, escaped(title));
            let _ = writeln!(
                self.svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"20\" fill=\"{colour}\"><title>{title}</title></rect>"
            );
        }
    }

    /// A rate with its interval, on a scale from 0 to 1, small enough for a cell.
    pub fn interval(interval: &Interval) -> Self {
        let x = |rate: f64| 4.0 + rate.clamp(0.0, 1.0) * 160.0;
        let (low, rate, high) = (x(interval.low), x(interval.rate), x(interval.high));
        let title = format!(
            "{:.1} %, interval {:.1} % to {:.1} %",
            interval.rate * 100.0,
            interval.low * 100.0,
            interval.high * 100.0
        );
        let svg = format!(
            "<svg role=\"img\" aria-label=\"{title}\" width=\"168\" height=\"18\" viewBox=\"0 0 168 18\"><title>{title}</title>\
             <path class=\"axis\" d=\"M4 9H164M4 5V13M84 6V12M164 5V13\"/>\
             <path class=\"mark\" stroke-width=\"3\" d=\"M{low:.1} 9H{high:.1}\"/>\
             <circle class=\"mark\" cx=\"{rate:.1}\" cy=\"9\" r=\"4\"/>"
        );
        Self { svg, rows: 0 }
    }

    pub(super) fn svg(&self) -> String {
        format!("{}</svg>", self.svg)
    }

    fn top(&self) -> u64 {
        self.rows.saturating_sub(1) * ROW + 4
    }
}
