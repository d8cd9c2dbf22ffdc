//! Drives agent runs with [Restate](https://restate.dev), a durable execution engine: each run is a Restate workflow.
//!
//! Restate records every step of a run, so a run continues on any worker after a worker, a server or a machine fails. The run is
//! the same as on one machine: the same core decides, the same models and tools are called, and the journal has the same entries.
//!
//! **What it is not.** It is not a queue of its own and not a Restate server, which the operator runs. It makes no decisions about a
//! run. Shared budgets are not supported. No type of the Restate SDK is public.
//!
//! A worker, and a client that submits a run to it:
//!
//! ```no_run
//! use loop_restate::{Client, Worker, wire::EngineSubmission};
//! # use loop_runtime::{Runner, WorkItem};
//!
//! # async fn worked(runner: Runner) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9080").await?;
//! Worker::new().with(runner)?.serve(listener, std::future::pending::<()>()).await;
//! # Ok(())
//! # }
//! # async fn submitted(item: WorkItem) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("http://127.0.0.1:8080")?;
//! let run = Client::run_of_key("help", "ticket-1042");
//! client.submit(&run, &EngineSubmission { domain: "help".into(), item, key: None }).await?;
//! println!("{}", client.wait(&run).await?.text);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what you find there |
//! |---|---|
//! | [`worker`] | the worker: drives the runs of its domains and makes their calls |
//! | [`client`] | the client: submits runs, waits for them, and sends them messages, over HTTP |
//! | [`wire`] | the JSON messages between the two |
//! | [`blobs`] | a store for large values, by their digest, in a folder or an S3 bucket |
//! | [`sweep`] | deletes the blobs of runs that were killed |
//!
//! [`loop_runtime::engine`] has the parts that do not depend on Restate. `docs/how-to/restate.md` shows how to operate it.

pub mod blobs;
mod carried;
pub mod client;
mod sdk;
pub mod sweep;
pub mod wire;
pub mod worker;

pub use client::{Client, ClientError};
pub use worker::{Worker, WorkerError};
