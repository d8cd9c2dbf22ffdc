//! The command as a person uses it.
//!
//! One program for all, so that it is linked once: `cargo test -p loopgate --test it NAME::` runs one module.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, unreachable_pub)]

mod api;
mod approvals;
mod backtest;
mod batches;
mod calibration;
mod canary;
mod chat;
mod checks;
mod command;
mod common;
mod deploy;
mod doctor;
#[cfg(all(unix, feature = "server"))]
mod doors;
mod eval;
mod explain;
#[cfg(unix)]
mod first_pages;
mod fork;
mod handbook;
mod help;
mod hooks;
mod import;
mod init;
mod journal;
#[cfg(unix)]
mod journal_postgres;
mod keys;
mod kills;
#[cfg(unix)]
mod kinds;
mod labels;
mod lies;
mod listing;
#[cfg(feature = "mcp-server")]
mod manual;
mod many;
mod mcp;
#[cfg(feature = "mcp-server")]
mod mcp_clients;
#[cfg(all(feature = "mcp-server", unix))]
mod mcp_conformance;
#[cfg(feature = "mcp-server")]
mod mcp_http;
#[cfg(unix)]
mod mcp_servers;
mod mid_call;
mod mock;
mod model;
mod models;
#[cfg(all(feature = "otel", feature = "server", target_os = "linux"))]
mod otel;
mod outputs;
mod outside;
#[cfg(all(feature = "mcp-server", feature = "server", target_os = "linux"))]
mod owed;
mod pages;
mod people;
mod policy;
mod postgres;
#[cfg(target_os = "linux")]
mod programs;
mod real_models;
mod redteam;
#[cfg(unix)]
mod replay;
mod repo;
mod resume;
mod scripts;
mod secrets;
mod selection;
#[cfg(all(feature = "server", target_os = "linux"))]
mod serve;
#[cfg(all(feature = "server", target_os = "linux"))]
mod serve_client;
#[cfg(all(feature = "server", target_os = "linux"))]
mod serve_document;
#[cfg(all(feature = "server", target_os = "linux"))]
mod serve_load;
#[cfg(unix)]
mod settings;
mod stop;
mod terminal;
mod tickets;
mod trees;
mod trials;
mod tutorial;
mod values;
mod verify;
mod watch;
mod why;
