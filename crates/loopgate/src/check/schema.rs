//! `loopgate schema`: prints the JSON Schemas of what the program reads and prints.

use std::process::ExitCode;

use crate::args::one_of;
use crate::output::{Failure, stream};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "For an editor: `loopgate schema > domain.schema.json` next to the loopgate.toml whose first line is\n\
                  `#:schema ./domain.schema.json`; `loopgate init` writes both. For cases: `loopgate schema case`."
)]
pub(crate) struct SchemaArgs {
    /// What it describes: `domain` for a loopgate.toml, `case` for a case of `eval`, the others for what commands print
    #[arg(value_name = "NAME", value_parser = one_of(SCHEMAS), default_value = "domain", hide_default_value = true)]
    of: &'static str,
}

/// The schemas in `docs/schema`. Tests of the crates compare each with the one that the code generates.
macro_rules! schemas {
    ($($name:literal)*) => {
        [$(($name, "", include_str!(concat!("../../../../docs/schema/", $name, ".schema.json")))),*]
    };
}

const SCHEMAS: [(&str, &str, &str); 20] = schemas! {
    "domain" "case" "audit" "backtest" "batch-line" "calibration" "diff" "eval" "hook" "journal-stats"
    "outcome" "plan" "prices" "recording" "replay" "report" "runs" "tools-lock" "verify" "why"
};

pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode, Failure> {
    stream::print(args.of);
    Ok(ExitCode::SUCCESS)
}
