//! A server for agent loops: an HTTP API with a durable queue, authentication, and HTML pages that show what each run did and why.
//!
//! **What it is not.** It makes no decisions about a run: those are the core's, and the runners are the caller's. It has no TLS, so
//! it expects a reverse proxy for access from other machines. Without the feature `http`, this crate only renders pages of recorded
//! runs.
//!
//! A program that serves one domain (feature `http`):
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # async fn served(
//! #     journal: std::sync::Arc<loop_runtime::journal::StoredJournal>,
//! #     domain: loop_server::engine::ServedDomain,
//! #     runners: std::sync::Arc<dyn loop_server::engine::RunnerSource>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use loop_server::doors::{self, Audit, DoorLimits, Doors, DoorsConfig, Hosts};
//! use loop_server::{api, engine::{Engine, EngineLimits}};
//!
//! let engine = Engine::open(journal, vec![domain], runners, EngineLimits::default()).await?;
//! let audit = Audit::of(engine.journal().clone());
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8787").await?;
//! let (listen, limits) = (listener.local_addr()?, DoorLimits::default());
//! let hosts = Hosts::new(listen, &[])?;
//! let config = DoorsConfig { listen, hosts, tokens: None, proxies: Vec::new(), limits: limits.clone(), audit: audit.clone() };
//! let router = Doors::new(config)?.guard(api::router(engine, audit));
//! doors::serve(listener, router, limits, Vec::new(), std::future::pending()).await;
//! # Ok(())
//! # }
//! # fn main() {}
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | `api` (feature `http`) | the HTTP API as an axum router, and its OpenAPI document |
//! | [`caller`] | the sender of a request, with roles and domains |
//! | [`doors`] | the door: authentication, sessions, `Host` and `Origin` checks, limits, the audit log |
//! | [`engine`] | the durable queue, and the drivers of runs |
//! | [`pages`] | HTML pages: runs, their evidence and cost, pending approvals, comparisons |
//! | `links` (feature `http`) | signed links in hook messages to the pages where people decide |
//! | `problem` (feature `http`) | problem documents for failed requests (RFC 9457) |
//!
//! `log_to` and `more_metrics` (feature `http`) receive the server's log lines, and add metrics of the runs to its own.

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
