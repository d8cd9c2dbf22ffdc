//! A Restate server and workers as processes, started and ended by a test, on loopback.
//!
//! [`server::Server`] starts, is killed and starts again with what it kept. [`worker::WorkerProcess`] is this test program, started again as a
//! worker of [`world`]. [`Desk`] has both, a journal and the file of effects, and submits and awaits runs.

pub mod admin;
pub mod bucket;
pub mod checks;
pub mod crowd;
pub mod desk;
pub mod namespace;
pub mod process;
pub mod server;
pub mod worker;
pub mod world;

pub use desk::Desk;
