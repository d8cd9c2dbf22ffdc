//! Pages: what a run did and why, for people.
//!
//! A page is a function from data to HTML: [`run`] of a [`RunPage`]. It reads no file and no request, so that one function
//! writes the page of `loopgate show RUN --html` and the page of the server. Every text from outside goes through one
//! function that leaves no markup in it and spells what is not seen.

mod run;
mod shell;
mod span;
mod text;

pub use run::{RunPage, RunView, run};
pub use shell::{Place, SCRIPT, SERVER_POLICY, STYLE};
pub use span::Span;
pub use text::CutText;
