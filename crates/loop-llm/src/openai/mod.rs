//! What OpenAI's two protocols share: what its models take, schemas that bind, choices of tools, and how tokens are counted.

mod models;
mod options;
mod schema;
mod usage;

pub(crate) use models::Abilities;
pub(crate) use options::{ERROR_PREFIX, choose, effort, known, shape, strict};
pub(crate) use usage::Counts;
