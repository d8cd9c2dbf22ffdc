//! `loopgate config`: prints the user's default model, journal and domain, and where each is set.

use std::process::ExitCode;

use loop_llm::http::shown;
use loop_runtime::journal::StoredJournal;
use reqwest::Url;

use crate::args::{ReportArgs, environment, environment::Setting};
use crate::context::places;
use crate::output::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = "`loopgate help environment` lists the variables.")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    json: ReportArgs,
}

pub(crate) fn config(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let said = environment::settings()?;
    let file = environment::file().unwrap_or_default();
    let rows = [
        ("model", "the domain's".to_owned(), "default"),
        ("base_url", String::new(), "default"),
        ("journal", StoredJournal::default_path().display().to_string(), "default"),
        ("domain", "each command names one".to_owned(), "default"),
        ("prices", places::prices().unwrap_or_default().display().to_string(), "LOOPGATE_PRICES"),
        ("file", file.display().to_string(), if file.exists() { "read" } else { "not there" }),
    ];
    let settings: Vec<Setting> = rows
        .into_iter()
        .map(|(key, value, origin)| {
            let default = Setting { key, value, origin: origin.to_owned() };
            let mut setting = said.iter().find(|setting| setting.key == key).cloned().unwrap_or(default);
            // The URL of a journal may hold a password.
            let url = Url::parse(&setting.value).ok().filter(Url::has_host);
            setting.value = url.map_or(setting.value, |url| shown(&url));
            setting
        })
        .filter(|setting| !setting.value.is_empty())
        .collect();
    let line = |Setting { key, value, origin }: &Setting| format!("{key:<8}  {value}  ({origin})\n");
    args.json.print(&settings, || settings.iter().map(line).collect())?;
    Ok(ExitCode::SUCCESS)
}
