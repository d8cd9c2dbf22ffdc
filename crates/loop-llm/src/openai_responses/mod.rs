//! OpenAI's Responses, and compatible servers.
//!
//! The output is a list of items. The content of an item is that of its `response.output_item.done`, or else that of the
//! output of the final event; the deltas before are for display. Every event except the final one may be missing. The
//! provider stores nothing unless the caller asks for it, so the items are sent back unchanged, with reasoning in its
//! encrypted form.

mod decode;
mod encode;
mod items;
mod kept;
mod stop;
mod turn;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
