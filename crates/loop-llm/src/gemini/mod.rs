//! Google's generateContent.
//!
//! The word for the end is `STOP` for calls too, so calls decide. A turn goes back part by part as it came, since a
//! signature belongs to the part that it stands in; summaries of thoughts stay behind. Calls need not have ids: results
//! are found by their place, and name an id only where their call came with one.

mod decode;
mod encode;
mod models;
mod partial;
mod turn;
mod usage;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
