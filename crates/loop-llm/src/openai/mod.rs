//! Shared by OpenAI's two protocols: abilities of models, strict schemas, tool choice and token counts.

mod models;
mod options;
mod schema;
mod usage;

pub(crate) use models::Abilities;
pub(crate) use options::{before_result, choose, draft, effort, sampling, service, shape, strict};
pub(crate) use usage::Report;
