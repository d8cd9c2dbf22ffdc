//! The options of a batch.

use loop_core::types::PicoUsd;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of a batch")]
pub(crate) struct ManyArgs {
    /// Number of runs at a time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "text")]
    pub(crate) jobs: Option<u16>,
    /// Maximum cost in US dollars of all runs of the batch together, over all its starts; the price of each model must be
    /// known
    #[arg(long, value_name = "USD", value_parser = budget, allow_hyphen_values = true, conflicts_with = "text")]
    pub(crate) budget_usd: Option<PicoUsd>,
    /// Start no more items once a run fails or leaves an effect in doubt
    #[arg(long, conflicts_with = "text")]
    pub(crate) fail_fast: bool,
    /// Begin the items again whose runs failed in an earlier start; the new runs know the evidence of the failed ones
    #[arg(long, conflicts_with = "text")]
    pub(crate) retry_failed: bool,
}

impl ManyArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.jobs.is_some() || self.budget_usd.is_some() || self.fail_fast || self.retry_failed
    }
}

fn budget(text: &str) -> Result<PicoUsd, String> {
    match text.parse::<PicoUsd>() {
        Ok(PicoUsd(0)) => {
            Err("a budget of 0 lets no run call a model; give an amount such as 5.00".to_owned())
        }
        Ok(budget) => Ok(budget),
        Err(error) => Err(error.to_string()),
    }
}
