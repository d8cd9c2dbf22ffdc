//! OpenAI's Responses, and what is compatible with it.
//!
//! The output is a list of items. An item counts as it stands in `response.output_item.done`, or else in the output of
//! the event that ends the reply; what came in pieces before is for the eyes alone. Every event but the one that ends
//! the reply may be missing. Nothing is stored with the provider unless the caller asks for it, so that the items go
//! back as they came, reasoning in its encrypted form.

mod decode;
mod encode;
mod items;
mod kept;
mod stop;
mod turn;
mod usage;

pub(crate) use decode::protocol;
pub(crate) use encode::encode;
