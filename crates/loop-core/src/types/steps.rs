//! Counts the steps of parsing a text, so that a test can show that they grow in proportion to its length.
//!
//! Outside of this crate's own tests it does nothing.

/// Adds to the steps of this thread.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn count(_steps: usize) {}

#[cfg(test)]
pub(crate) use counted::count;

#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<usize> = const { Cell::new(0) });

    /// Adds to the steps of this thread.
    pub(crate) fn count(steps: usize) {
        STEPS.with(|so_far| so_far.set(so_far.get() + steps));
    }

    /// The steps that `work` takes.
    pub(crate) fn of(work: impl FnOnce()) -> usize {
        let before = STEPS.with(Cell::get);
        work();
        STEPS.with(Cell::get) - before
    }

    /// How many pieces a text is made of whose steps are counted: so many with `LOOPGATE_TESTS=full`, else a quarter.
    /// Steps that grow with the square of the pieces are seen with both.
    pub(crate) fn pieces(all: usize) -> usize {
        if is_full() { all } else { all / 4 }
    }

    #[expect(clippy::disallowed_methods, reason = "how much a test tries is not an input of a run")]
    fn is_full() -> bool {
        std::env::var_os("LOOPGATE_TESTS").is_some_and(|scope| scope == "full")
    }
}
