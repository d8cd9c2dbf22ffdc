//! The progress of a batch: a bar at a terminal, and a line at intervals elsewhere.

use std::time::Instant;

use loop_core::types::PicoUsd;
use loop_runtime::report::{BatchLine, BatchState};

use super::work::HaltFlag;

use crate::output::stream;

/// The width of the bar, in characters.
const WIDTH: usize = 20;

/// The counts of a batch.
#[derive(Debug)]
pub(super) struct BatchProgress {
    all: usize,
    done: usize,
    failed: usize,
    cost: PicoUsd,
    since: Instant,
    halt: HaltFlag,
}

impl BatchProgress {
    pub(super) fn new(all: usize, halt: HaltFlag) -> Self {
        Self { all, done: 0, failed: 0, cost: PicoUsd(0), since: Instant::now(), halt }
    }

    /// How many items are done.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Counts an item, by the line of its first occurrence.
    pub(super) fn count(&mut self, lines: &[BatchLine]) {
        let Some(line) = lines.first() else { return };
        self.done += 1;
        self.failed += usize::from(line.exit_code >= FAILED);
        let is_new = line.state != BatchState::NotStarted && !line.done_before;
        self.cost = self.cost.plus(PicoUsd(if is_new { line.cost_pico_usd } else { 0 }));
    }

    /// Shows the progress as a bar, or as a line.
    pub(super) fn show(&self, is_bar: bool, is_shown: bool) {
        let text = format!(
            "{}/{} items, {} under way, {} failed, {} so far, {:.0} s",
            self.done,
            self.all,
            self.halt.under_way(),
            self.failed,
            self.cost,
            self.since.elapsed().as_secs_f64()
        );
        if is_bar {
            stream::progress(&format!("[{}] {text}", bar(self.done, self.all)));
        } else if is_shown {
            stream::note(text);
        }
    }

    /// Removes the bar.
    pub(super) fn clear(&self, is_bar: bool) {
        if is_bar {
            stream::progress("");
        }
    }
}

/// The lowest exit code of a failed item.
const FAILED: u8 = 6;

fn bar(done: usize, all: usize) -> String {
    let full = done.saturating_mul(WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH);
    format!("{}{}", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_the_end_and_not_before() {
        assert_eq!(bar(0, 3), "-".repeat(20));
        assert_eq!(bar(499, 500), "###################-");
        assert_eq!(bar(500, 500), "#".repeat(20));
    }
}
