//! Fixtures for the tests of this workspace: a run is set up in one line and driven in virtual time.
//!
//! It is a dev-dependency and nothing else: `cargo xtask layers` refuses it outside `[dev-dependencies]`, and it is not
//! published.
//!
//! # A test
//!
//! ```
//! use loop_core::{StopReason, Verdict};
//! use loop_core::spec::SectionSpec;
//! use loop_testkit::{Setup, bare_draft, read, target};
//!
//! // A document of one section, a tool that reads, and three passes.
//! let setup = Setup::document("workshop")
//!     .section(SectionSpec::new("situation", "Situation").required())
//!     .tool(read("fetch_bike"))
//!     .limits(|limits| limits.passes = 3);
//! // The model asks for the tool, reads what it found, and is sure.
//! let world = setup
//!     .start()
//!     .replied(&bare_draft("low").asks("fetch_bike", target("FR-0042")))
//!     .all_finished()
//!     .replied(&bare_draft("high").section("Situation", "The chain slips."))
//!     .ends(StopReason::Confident);
//! assert_eq!(world.run.actions()[0].verdict, Verdict::Run);
//! ```
//!
//! # What is in it
//!
//! | to | use |
//! |---|---|
//! | begin with a small help desk | [`run`], [`conversation`], [`output`], [`reflected`] |
//! | begin with nothing | [`Setup::document`], [`Setup::conversation`], [`Setup::output`] |
//! | change a spec, an item or facts | the methods of [`Setup`], or its fields |
//! | declare a tool or a model | [`read`], [`tool`], [`model`] |
//! | write a reply | [`draft`], [`bare_draft`], [`text`], [`calls`], [`call`] |
//! | write what a tool returned | [`found`], [`observed`], [`STATUSES`] |
//! | write a document and evidence for its values | [`findings`], [`evidence`] |
//! | drive a run | [`World`]: each method checks the invariants of the core after it |
//! | drive many runs of every kind | [`random_setup`], [`random_run`] |
//! | record that another version continued a run, or compare entries without times | [`continued_by`], [`timeless`] |
//! | try a share of many cases, and all with `LOOPGATE_TESTS=full` | [`share`], [`places`], [`is_full`] |
//! | check an HTML page | [`page::inert`] |
//! | try a function of bytes on any bytes | [`fuzz::check`] |
//! | simulate runs in which everything is drawn from a seed | [`sim::simulate`] |
//!
//! With the feature `lies`, the module `lies` has misbehaviours of the mock server that only tests serve.
//!
//! With the feature `llm`, the module `llm` has a model of fixed events, a reply that has everything, and results of calls.
//! With the feature `drivers`, the module `drivers` has the suite that every driver of a run has to pass.
//! With the feature `postgres`, the module `postgres` has a server of its own for tests.
//!
//! # What is elsewhere
//!
//! A model that replies from a list is public: `loop_llm::Scripted`. Servers that misbehave are `loop_mock`, and tools that
//! return fixed results are made with `loop_tools::Registry`. What one crate alone uses is in the `tests/common` of
//! that crate: rendered prompts, plays in paused time, a journal that fails.
//!
//! Unit tests inside `loop-core` cannot use it: they are compiled into another copy of the core, with other types.

mod claims;
#[cfg(feature = "drivers")]
pub mod drivers;
mod facts;
pub mod fuzz;
mod helpdesk;
#[cfg(feature = "lies")]
pub mod lies;
#[cfg(feature = "llm")]
pub mod llm;
pub mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
mod random;
mod recorded;
mod reply;
mod setup;
mod share;
pub mod sim;
mod sound;
mod spec;
mod world;

pub use claims::{evidence, findings};
pub use facts::{
    NONCE, PROMPT, STATUSES, announced, broken, digest, facts, failure, found, history, item, key, observed,
    refused, rejected, reread, saved_at, used,
};
pub use helpdesk::{conversation, output, reflected, run};
pub use random::{Numbers, random_run, random_setup};
pub use recorded::{continued_by, newer, older, timeless};
pub use reply::{DraftReply, bare_draft, call, calls, draft, target, text};
pub use setup::Setup;
pub use share::{is_full, places, share};
pub use sound::is_sound;
pub use spec::{model, read, takes, tool};
pub use world::World;
