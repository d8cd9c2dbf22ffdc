//! The red team: it attacks a domain with injected texts and models that follow them, and reports what they achieve.
//!
//! The result does not depend on how well a real model resists. The strongest adversary does exactly what an injected
//! text says: if nothing happens then, the quality of a real model does not matter. Three adversaries attack a domain's
//! own tools. The tools are replaced by a recorder, which records each effect and does not carry it out.
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
