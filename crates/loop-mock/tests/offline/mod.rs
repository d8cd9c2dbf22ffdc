//! The offline stub, against prompts written by hand in the forms of the built-in ones.

mod conversation;
mod document;
mod model;
