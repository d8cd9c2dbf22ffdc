//! A server for agent loops: an HTTP API, a durable queue, and pages of what each run did and why.
//!
//! | module | what is in it |
//! |---|---|
//! | `api` (feature `http`) | the HTTP API, and its OpenAPI document |
//! | [`caller`] | who sends a request, and what they may do |
//! | [`doors`] | who gets in: tokens, sessions, `Host` and `Origin`, limits, the audit log |
//! | [`engine`] | the queue, and the runs under way |
//! | `links` (feature `http`) | links of hook messages to the pages where people decide |
//! | [`pages`] | what a run did and why, for people |
//! | `problem` (feature `http`) | what a refused request gets, as RFC 9457 says |

#[cfg(feature = "http")]
pub mod api;
pub mod caller;
mod clock;
pub mod doors;
pub mod engine;
#[cfg(feature = "http")]
pub mod links;
#[cfg(feature = "http")]
mod log;
#[cfg(feature = "http")]
mod metrics;
pub mod pages;
#[cfg(feature = "http")]
pub mod problem;

#[cfg(feature = "http")]
pub use log::log_to;
#[cfg(feature = "http")]
pub use metrics::more_metrics;
