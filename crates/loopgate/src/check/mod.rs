//! The commands that check a domain.

mod domain;
mod eval;
mod plan;
mod policy;
mod redteam;
mod schema;

pub(crate) use domain::{DomainCommand, domain};
pub(crate) use eval::{EvalArgs, eval};
pub(crate) use plan::{PlanArgs, plan};
pub(crate) use policy::{PolicyCommand, policy};
pub(crate) use redteam::{RedteamArgs, redteam};
pub(crate) use schema::{SchemaArgs, schema};
