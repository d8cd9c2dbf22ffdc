//! The decision on a reservation: a pure function of what each budget has, so that every ledger decides alike.

use loop_core::types::PicoUsd;

/// The answer of a ledger to a [`Reservation`](super::Reservation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// The call is reserved, and the final pass is held.
    Reserved,
    /// Other runs are under way, and the budgets may cover it once those have settled. Nothing is reserved.
    Wait,
    /// The budgets do not cover it. The run now holds what is left, so that it can use that.
    Refused {
        /// What the run may still use, for its final pass as well, in pico-dollars.
        left: PicoUsd,
    },
}

/// One budget as a run finds it that asks, in pico-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) limit: u64,
    pub(crate) spent: u64,
    /// Reserved by calls of other runs.
    pub(crate) others_calls: u64,
    /// Held by other runs for their final passes.
    pub(crate) others_holds: u64,
    /// Reserved by other calls of this run.
    pub(crate) own_calls: u64,
    /// Held by this run for its final pass.
    pub(crate) own_hold: u64,
}

impl Balance {
    /// What the run may use of it: what is free, and what it holds.
    fn left(&self) -> u64 {
        self.limit
            .saturating_sub(self.spent)
            .saturating_sub(self.others_calls)
            .saturating_sub(self.others_holds)
            .saturating_sub(self.own_calls)
    }

    /// What it may use if other runs settle for nothing.
    fn left_later(&self) -> u64 {
        Self { others_calls: 0, others_holds: 0, ..*self }.left()
    }

    /// Whether other runs will settle something without this one. A run that holds something itself waits for calls
    /// alone: otherwise runs could wait for each other's holds.
    fn others_settle(&self) -> bool {
        self.others_calls > 0 || self.others_holds > 0 && self.own_hold == 0 && self.own_calls == 0
    }
}

/// What is asked, in pico-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) amount: u64,
    /// `None`: the hold stays as it is.
    pub(crate) hold: Option<u64>,
}

/// The answer, and what the run holds then in each budget. `None`: it holds what it held.
pub(crate) fn decide(positions: &[Balance], asked: Request) -> (LedgerAnswer, Option<u64>) {
    let needs = |position: &Balance| asked.amount.saturating_add(asked.hold.unwrap_or(position.own_hold));
    if positions.iter().all(|position| needs(position) <= position.left()) {
        return (LedgerAnswer::Reserved, asked.hold);
    }
    let left = positions.iter().map(Balance::left).min().unwrap_or(u64::MAX);
    let refused = LedgerAnswer::Refused { left: PicoUsd(left) };
    if asked.hold.is_none() {
        return (refused, None);
    }
    let is_short = |position: &Balance| needs(position) > position.left();
    let may_fit_later = positions.iter().all(|position| {
        !is_short(position) || needs(position) <= position.left_later() && position.others_settle()
    });
    if may_fit_later { (LedgerAnswer::Wait, None) } else { (refused, Some(left)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(amount: u64, hold: u64) -> Request {
        Request { amount, hold: Some(hold) }
    }

    #[test]
    fn a_call_is_reserved_if_every_budget_covers_it_and_the_final_pass() {
        let day = Balance { limit: 100, spent: 50, others_calls: 10, others_holds: 10, ..Balance::default() };
        assert_eq!(decide(&[day], asked(20, 10)), (LedgerAnswer::Reserved, Some(10)));
        // What the run holds already is its own.
        let held = Balance { own_hold: 10, others_holds: 10, ..day };
        assert_eq!(decide(&[held], asked(20, 10)), (LedgerAnswer::Reserved, Some(10)));
        let month = Balance { limit: 70, spent: 50, ..Balance::default() };
        let left = PicoUsd(20);
        assert_eq!(decide(&[day, month], asked(20, 10)), (LedgerAnswer::Refused { left }, Some(20)));
    }

    #[test]
    fn a_run_waits_only_for_what_others_settle_without_it() {
        let day = Balance { limit: 100, spent: 50, others_calls: 40, ..Balance::default() };
        assert_eq!(decide(&[day], asked(20, 10)), (LedgerAnswer::Wait, None));
        assert_eq!(decide(&[day], asked(40, 11)), (LedgerAnswer::Refused { left: PicoUsd(10) }, Some(10)));
        // One that has nothing yet waits for runs between their calls; one that holds something does not.
        let between = Balance { others_calls: 0, others_holds: 40, ..day };
        assert_eq!(decide(&[between], asked(20, 10)), (LedgerAnswer::Wait, None));
        let holds = Balance { own_hold: 5, others_holds: 35, ..between };
        assert_eq!(decide(&[holds], asked(20, 10)), (LedgerAnswer::Refused { left: PicoUsd(15) }, Some(15)));
        // Another budget that covers it is not waited for, and one that never will ends the wait.
        let month = Balance { limit: 1_000, ..Balance::default() };
        assert_eq!(decide(&[day, month], asked(20, 10)), (LedgerAnswer::Wait, None));
        let spent = Balance { limit: 60, spent: 50, ..Balance::default() };
        assert_eq!(
            decide(&[day, spent], asked(20, 10)),
            (LedgerAnswer::Refused { left: PicoUsd(10) }, Some(10))
        );
    }

    #[test]
    fn a_sub_call_leaves_the_hold_as_it_is_and_does_not_wait() {
        let day = Balance { limit: 100, spent: 50, own_hold: 30, ..Balance::default() };
        let sub_call = |amount| Request { amount, hold: None };
        assert_eq!(decide(&[day], sub_call(20)), (LedgerAnswer::Reserved, None));
        assert_eq!(decide(&[day], sub_call(21)), (LedgerAnswer::Refused { left: PicoUsd(50) }, None));
    }
}
