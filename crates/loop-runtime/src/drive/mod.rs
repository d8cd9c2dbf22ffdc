//! Runs are driven: commands are carried out, and their results are journaled as events.

pub mod again;
pub(crate) mod check;
pub(crate) mod controls;
pub(crate) mod conversation;
pub(crate) mod driver;
pub(crate) mod eager;
pub(crate) mod expire;
pub(crate) mod fresh;
pub(crate) mod handle;
pub mod hooks;
pub(crate) mod model;
pub(crate) mod noted;
pub(crate) mod parts;
pub(crate) mod priced;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod runner;
pub mod save;
mod scripts;
pub(crate) mod start_error;
pub(crate) mod stream;
pub(crate) mod sub_call;
pub(crate) mod taint;
pub(crate) mod take_over;
pub(crate) mod tool;
pub(crate) mod unchanged;
