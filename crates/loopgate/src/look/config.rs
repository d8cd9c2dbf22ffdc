//! `loopgate config`: which model, journal and domain hold where a command names none, and who says so.

use std::fmt::Write as _;
use std::process::ExitCode;

use loop_runtime::journal::StoredJournal;

use crate::args::{ReportArgs, environment, environment::Setting};
use crate::context::places;
use crate::output::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = environment::variables())]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) fn config(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let said = environment::settings()?;
    let own = |key: &str| said.iter().find(|setting| setting.key == key).cloned();
    let default = |key, value: String| Setting { key, value, origin: "default".to_owned() };
    let journal = || default("journal", StoredJournal::default_path().display().to_string());
    let prices = places::prices().map(|path| Setting {
        key: "prices",
        value: path.display().to_string(),
        origin: "LOOPGATE_PRICES".to_owned(),
    });
    let settings: Vec<Setting> = [
        Some(own("model").unwrap_or_else(|| default("model", "the domain's".to_owned()))),
        own("base_url"),
        Some(own("journal").unwrap_or_else(journal)),
        Some(own("domain").unwrap_or_else(|| default("domain", "each command names one".to_owned()))),
        prices.or_else(|| Some(default("prices", "those that come with loopgate".to_owned()))),
    ]
    .into_iter()
    .flatten()
    .map(|setting| Setting { value: places::shown_value(&setting.value), ..setting })
    .collect();
    args.json.print(&settings, || {
        let mut text = String::new();
        for Setting { key, value, origin } in &settings {
            let _ = writeln!(text, "{key:<8}  {value}  ({origin})");
        }
        if let Some(file) = environment::file() {
            let is_there = if file.exists() { "" } else { "  (not there)" };
            let _ = writeln!(text, "{:<8}  {}{is_there}", "file", file.display());
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}
