//! Resolves the arguments of commands: domains, runs, journals and runners, and sets up signals and telemetry.

mod complete;
mod found;
#[cfg(feature = "restate")]
mod ingress;
mod listed;
mod origin;
mod pages;
pub(crate) mod places;
mod runner;
mod signals;
#[cfg(feature = "otel")]
pub(crate) mod telemetry;
#[cfg(not(feature = "otel"))]
#[path = "no_telemetry.rs"]
pub(crate) mod telemetry;

pub(crate) use complete::completed;
pub(crate) use found::{
    FoundRun, Loaded, entries_before, explained, find, is_over, named, opened, still_waits, unverified,
};
#[cfg(feature = "restate")]
pub(crate) use ingress::{client, failed};
pub(crate) use listed::tags_of;
#[cfg(feature = "server")]
pub(crate) use origin::TokenOrigin;
pub(crate) use origin::{BatchOrigin, Origin};
#[cfg(feature = "server")]
pub(crate) use pages::pages_source;
pub(crate) use pages::prompts_of;
pub(crate) use runner::{again, on_journal, reporting, to_loop};
pub(crate) use signals::{ReceivedSignal, Signals, survive_file_limits};
