//! HTTP and GraphQL: one request as a tool.
//!
//! ```text
//! arguments, scope ─▶ request ─▶ auth ─▶ guard ─▶ client ─▶ answer ─▶ result
//!                        ▲                          │
//!                        └────── next page ◀────────┘
//! ```

mod answer;
mod auth;
mod client;
mod definition;
mod guard;
mod pages;
mod rate;
mod request;
mod template;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tls_tests;
mod tool;
mod trouble;

pub use definition::{HttpAuth, HttpDefinition, HttpPages, HttpPaging};
pub use tool::{HTTP_BYTES_MAX, HttpTool};
