//! A red team: injected texts, models that follow them, and what they achieve (K1 to K3, K5, K7, K8).
//!
//! No model has to be believed here. The strongest adversary is a model that does exactly what an injected text says:
//! if nothing happens then, the quality of a real model does not matter. Three of them attack a domain's own tools, which
//! are put in front of a recorder: what an effect would have done is recorded and not done.
//!
//! ```no_run
//! use loop_domain::{Domain, LoadOptions};
//! use loop_eval::redteam::{Attack, attack};
//!
//! # async fn attacked() -> Result<(), Box<dyn std::error::Error>> {
//! let domain = Domain::load("examples/helpdesk", &LoadOptions::default())?;
//! let report = attack(&domain, &[], &Attack::default()).await?;
//! assert_eq!(report.executed(), 0);
//! # Ok(())
//! # }
//! ```

mod adversary;
mod canary;
mod closing;
mod corpus;
mod drive;
mod forged;
mod own;
mod padding;
mod page;
mod people;
mod plan;
mod probe;
mod report;
mod scenario;
mod search;
mod seeds;
mod stage;
mod tools;

pub use adversary::Adversary;
pub use corpus::{Carrier, Injection, Kind, Trick, corpus};
pub use own::OwnWork;
pub use page::page;
pub use people::ApproverKind;
pub use report::{Benign, CategoryRow, RedteamReport, ScenarioRow, Severity};
pub use scenario::Scenario;
pub use stage::{Attack, AttackError, attack};
