//! Test fixtures for this workspace: set up a run in one line, and drive it in virtual time with the core's invariants checked.
//!
//! **What it is not.** It is a dev-dependency only: `cargo xtask layers` refuses it outside `[dev-dependencies]`, and it is not
//! published. Mock models are elsewhere: `loop_llm::Scripted` replies from a list, `loop_mock` has servers that misbehave, and
//! `loop_tools::Registry` makes tools with fixed results. Unit tests inside `loop-core` cannot use this crate, since they are
//! compiled into another copy of the core with other types.
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
//! | to | use |
//! |---|---|
//! | begin with a small help desk | [`run`], [`conversation`], [`output`], [`reflected`] |
//! | begin with an empty spec | [`Setup::document`], [`Setup::conversation`], [`Setup::output`] |
//! | change a spec, an item or facts | the methods of [`Setup`], or its fields |
//! | declare a tool or a model | [`read`], [`tool`], [`model`] |
//! | write a reply | [`draft`], [`bare_draft`], [`text`], [`calls`], [`call`] |
//! | write a tool result | [`found`], [`observed`], [`STATUSES`] |
//! | write a document and evidence for its values | [`findings`], [`evidence`] |
//! | drive a run | [`World`]: each method checks the core's invariants |
//! | drive many random runs | [`random_setup`], [`random_run`] |
//! | record that another version continued a run, or compare entries without times | [`continued_by`], [`timeless`] |
//! | try a share of many cases, and all with `LOOPGATE_TESTS=full` | [`share`], [`places`], [`is_full`] |
//!
//! | module | what you find there |
//! |---|---|
//! | [`sim`] | the hostile simulator: runs in which a seed draws everything |
//! | [`fuzz`] | fuzz targets: functions of bytes, with seeded mutations |
//! | [`page`] | parses an HTML page and asserts that it is inert |
//! | `drivers` (feature `drivers`) | the conformance suite that every driver of a run has to pass |
//! | `lies` (feature `lies`) | misbehaviours of the mock server that only tests use |
//! | `llm` (feature `llm`) | a model of fixed events, a reply with all parts, results of calls |
//! | `postgres` (feature `postgres`) | a temporary PostgreSQL server for one test |
//!
//! Fixtures of a single crate are in its `tests/common`: rendered prompts, tests in paused time, a journal that fails.

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
