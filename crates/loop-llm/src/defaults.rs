//! Default options for all requests to a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::options::Effort;
use crate::request::ModelRequest;

/// Options for requests that do not set their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// The reasoning effort.
    pub effort: Option<Effort>,
    /// From 0 to 2.
    pub temperature: Option<f64>,
    /// From 0 to 1.
    pub top_p: Option<f64>,
    /// The seed for reproducible sampling, without a guarantee.
    pub seed: Option<i64>,
    /// Members of the provider's own request body.
    pub extra: Map<String, Value>,
}

impl Defaults {
    /// The request with the defaults. `None` if there are none.
    pub(crate) fn fill(&self, request: &ModelRequest) -> Option<ModelRequest> {
        if *self == Self::default() {
            return None;
        }
        let mut filled = request.clone();
        filled.effort = request.effort.or(self.effort);
        filled.temperature = request.temperature.or(self.temperature);
        filled.top_p = request.top_p.or(self.top_p);
        filled.seed = request.seed.or(self.seed);
        for (key, value) in &self.extra {
            filled.extra.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Some(filled)
    }
}
