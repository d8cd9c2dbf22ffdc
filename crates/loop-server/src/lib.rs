//! A server for agent loops: an HTTP API, a durable queue, and pages of what each run did and why.
//!
//! | module | what is in it |
//! |---|---|
//! | [`caller`] | who sends a request, and what they may do |
//! | [`pages`] | what a run did and why, for people |
//! | `problem` (feature `http`) | what a refused request gets, as RFC 9457 says |

pub mod caller;
pub mod pages;
#[cfg(feature = "http")]
pub mod problem;
