//! What is read of a document's values, and where each is looked for.

mod demand;
mod records;
mod values;
