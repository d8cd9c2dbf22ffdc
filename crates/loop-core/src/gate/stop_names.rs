//! The names of stop reasons in each error style.

use crate::gate::stop_reason::StopReason;
use crate::spec::ErrorStyle;

impl StopReason {
    /// The loop's own name for a name that a person or a program gives: `max_passes` for `max_steps`. Any other name is
    /// returned unchanged.
    pub fn own_name(name: &str) -> &str {
        match name {
            "max_steps" => "max_passes",
            other => other,
        }
    }

    /// The name of the reason in an error style, else the loop's own name.
    ///
    /// ```
    /// use loop_core::StopReason;
    /// use loop_core::spec::ErrorStyle;
    /// assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Quoted), "max-passes");
    /// assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Prefixed), "MAX_ITERATIONS");
    /// assert_eq!(StopReason::MaxPasses.name_in(ErrorStyle::Tagged), "max_steps");
    /// ```
    pub fn name_in(&self, style: ErrorStyle) -> &str {
        let theirs = match style {
            ErrorStyle::Plain => None,
            ErrorStyle::Quoted => match self {
                Self::MaxPasses => Some("max-passes"),
                Self::BudgetExceeded => Some("budget-exceeded"),
                Self::NoNewActions => Some("no-new-actions"),
                Self::StaleConfidence => Some("stale-confidence"),
                Self::ManualStop => Some("manual-stop"),
                _ => None,
            },
            ErrorStyle::Named => match self {
                Self::MaxPasses => Some("Max iterations reached"),
                _ => None,
            },
            ErrorStyle::Prefixed => match self {
                Self::MaxPasses => Some("MAX_ITERATIONS"),
                Self::SubmitBeforeOutput => Some("SUBMIT_BEFORE_OUTPUT"),
                Self::InvalidResponse => Some("INVALID_RESPONSE"),
                Self::ManualStop => Some("EXECUTION_CANCELLED"),
                _ => None,
            },
            ErrorStyle::Tagged => match self {
                Self::Confident => Some("completed"),
                Self::MaxPasses => Some("max_steps"),
                Self::ModelFailure | Self::InvalidResponse | Self::MaxAttempts | Self::StorageFailed => {
                    Some("failed")
                }
                _ => None,
            },
        };
        theirs.unwrap_or(self.name())
    }
}
