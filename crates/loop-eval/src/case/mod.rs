//! Cases of an eval: a JSON file with what is run, the model, the tools, and what is expected.
//!
//! The guide is `docs/how-to/evals.md`, and the schema is `docs/schema/case.schema.json`. The smallest case has an id,
//! a goal, mocked tools and expectations. A case can also name a domain or contain the settings of one, and give a work
//! item, replies or a model, the answers of people, and expectations of the document, the answer, the output, the
//! evidence and the cost.

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
