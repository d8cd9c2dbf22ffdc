//! Pages: that they are inert whatever a run holds, and that a page at an event shows what was known then.

#[cfg(feature = "http")]
mod act;
#[cfg(feature = "http")]
mod begin;
mod claims;
mod hostile;
#[cfg(feature = "http")]
mod known;
#[cfg(feature = "http")]
mod labels;
mod lists;
#[cfg(feature = "http")]
mod moments;
mod runs;
#[cfg(feature = "http")]
mod search;
#[cfg(feature = "http")]
mod served;

pub(crate) use loop_testkit::page::Node;

/// A page as a tree, which is inert and has no style or script but its own.
#[track_caller]
fn inert(html: &str) -> Node {
    loop_testkit::page::inert(html, &[loop_server::pages::STYLE, loop_server::pages::SCRIPT])
}
