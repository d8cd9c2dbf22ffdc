//! HTTP and GraphQL: one request as a tool.
//!
//! ```text
//! arguments, scope ─▶ request ─▶ auth ─▶ guard ─▶ client ─▶ answer ─▶ result
//!                        ▲                          │
//!                        └────── next page ◀────────┘
//! ```

pub(crate) mod answer;
pub(crate) mod auth;
pub(crate) mod client;
mod definition;
pub(crate) mod guard;
mod pages;
mod rate;
pub(crate) mod request;
pub(crate) mod template;
#[cfg(test)]
#[path = "server_for_tests.rs"]
pub(crate) mod test_server;
#[cfg(test)]
mod tls_tests;
mod tool;
mod unpack;
mod webhook;
#[cfg(test)]
mod webhook_tests;

pub use definition::{HttpAuth, HttpDefinition, HttpPages, HttpPaging};
pub use tool::{HTTP_BYTES_MAX, HttpTool};
pub use webhook::Webhook;
