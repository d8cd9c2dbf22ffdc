//! What is read of a document's values, and where each is looked for.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod demand;
mod records;
mod values;
