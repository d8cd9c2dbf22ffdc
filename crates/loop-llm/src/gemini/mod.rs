//! Google's generateContent.
//!
//! The finish reason is `STOP` for tool calls too, so the calls decide. A turn is sent back part by part as it was
//! received, since a signature belongs to its part; thought summaries are left out. Calls need not have ids: results are
//! matched by position, and contain an id only if their call had one.

mod decode;
mod encode;
mod models;
mod turn;
mod usage;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
