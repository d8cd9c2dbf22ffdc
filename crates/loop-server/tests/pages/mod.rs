//! Pages: that they are inert whatever a run holds, and that a page at an event shows what was known then.

mod hostile;
mod inert;
mod lists;
mod moments;
mod runs;
#[cfg(feature = "http")]
mod served;
