//! Commands that show recorded runs.

mod cache;
mod config;
mod diff;
mod evidence;
mod report;
mod run_page;
mod runs;
mod show;
mod view;
#[cfg(feature = "server")]
mod view_pages;
mod why;

pub(crate) use config::{ConfigArgs, config};
pub(crate) use diff::{DiffArgs, diff};
pub(crate) use report::{ReportCommandArgs, report};
pub(crate) use runs::{RunsCommandArgs, runs};
pub(crate) use show::{ShowArgs, show};
pub(crate) use view::ViewArgs;
#[cfg(not(feature = "server"))]
pub(crate) use view::view;
#[cfg(feature = "server")]
pub(crate) use view_pages::view;
pub(crate) use why::{WhyArgs, why};
