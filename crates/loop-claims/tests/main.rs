//! What is found out about the values of documents.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod actions;
mod corpus;
mod demand;
mod hostile;
mod values;
