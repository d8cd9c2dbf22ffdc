//! Cases: what is run, with which model and tools, and what is expected.
//!
//! A case is a JSON file (`docs/how-to/evals.md`, `docs/schema/case.schema.json`). S4's fixture is one without a
//! change: an id, a goal, tools with the results of their calls, and what is expected (S4-56). What else a whole
//! trajectory needs can be added: a domain or the tree of a `loopgate.toml`, a work item, replies or a model, people,
//! expectations of the document, the answer, the output, the evidence, the cost.

mod check;
mod error;
mod expected;
mod find;
mod form;
mod mocked;
mod ordered;
mod record;
mod schema;

pub(crate) use check::{STATUSES, escaped, reasons, unknown_reason};
pub use error::CaseError;
pub use expected::{ActionCheck, Counts, EvidenceCheck, Expected, Names, OutputCheck, TextCheck};
pub use find::find;
pub use form::{AnswerKind, Case, CaseRecording, PersonLine, StopAt};
pub use mocked::{MockStatus, MockedOutcome};
pub use ordered::OrderedMembers;
pub use record::{CaseRecordError, case_of_run};
pub use schema::schema;

/// The version of the format that this crate reads and writes.
pub const CASE_VERSION: u32 = 1;
