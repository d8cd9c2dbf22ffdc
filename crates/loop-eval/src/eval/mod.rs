//! Running cases, and holding what happened against what was expected.
//!
//! [`run_case`] runs one: its domain or spec is made, mocked tools take the places of real ones, its model replies, its
//! people answer. Nothing in the world is changed: a tool that would change something is mocked, or says that it was done
//! without doing it. Afterwards the run's journal is replayed, and every decision has to come out as it was recorded.
//! A [`Suite`] runs many in parallel; [`ablate`] runs them again and again with one guard less each time.

mod ablate;
mod build;
mod drive;
mod expect;
mod guards;
mod metrics;
mod mock;
mod result;
mod suite;
mod verify;

pub(crate) use build::own_work;
pub(crate) use mock::Beyond;

pub use ablate::{Ablation, Broken, Changed, GuardLine, ablate};
pub use guards::{AblationGuard, GUARDS};
pub use metrics::{Metrics, Share};
pub use result::{ActionCounts, CaseResult};
pub use suite::{Suite, run_case};
pub use verify::{VerifyError, verify};
