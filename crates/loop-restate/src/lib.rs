//! AI agent loops on Restate: each run is a workflow of the durable engine.
//!
//! Restate keeps what happened in a run, so that a run continues on any worker after a worker, a server or a machine is gone.
//! The run itself is the same as on one machine: the same core decides, the same models and tools are called, and the journal
//! has the same entries. [`loop_runtime::engine`] has the parts of it that know nothing of Restate.
//!
//! | module | what is in it |
//! |---|---|
//! | [`worker`] | the loops that a worker runs, and what a call is made of |
//! | [`client`] | submits runs, and says something to them, over HTTP |
//! | [`blobs`] | large values, each under the digest of its content, in a folder or a bucket |
//! | [`sweep`] | deletes the blobs of runs that were killed |
//! | [`wire`] | what is sent between the two, as JSON |
//!
//! The SDK of Restate is used in one private module. Nothing of it is visible from outside.

pub mod blobs;
mod carried;
pub mod client;
mod sdk;
pub mod sweep;
pub mod wire;
pub mod worker;

pub use client::{Client, ClientError};
pub use worker::{Worker, WorkerError};
