//! One validation of an output: the schema of its tool first, then whatever else the program wants checked.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use loop_core::{Fact, Validate, Validation};
use loop_tools::Registry;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::callbacks::panic_text;
use crate::model::Settled;

/// The second layer of validation (S2-4): what a schema cannot say.
#[async_trait]
pub trait Validator: Send + Sync {
    /// Its name, for the model and for whoever asks why an output was rejected.
    fn name(&self) -> &str;

    /// What is wrong with the output, which fits its schema: one text for the model, by which it can be mended.
    ///
    /// # Errors
    /// What is wrong.
    async fn validate(&self, output: &Value) -> Result<(), String>;
}

impl fmt::Debug for dyn Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Validator({})", self.name())
    }
}

/// What an output is held against.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    pub(crate) registry: Registry,
    pub(crate) tool: Arc<str>,
    pub(crate) validators: Arc<[Arc<dyn Validator>]>,
}

/// Validates and says how it ended, within its time.
pub(crate) async fn validate(checks: Checks, wish: Validate, cancel: CancellationToken) -> Settled {
    let limit = Duration::from_millis(wish.timeout_ms);
    let mut at = SCHEMA.to_owned();
    let checking = AssertUnwindSafe(check(&checks, &wish.output, &mut at)).catch_unwind();
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err("the run stopped".to_owned()),
        ended = tokio::time::timeout(limit, checking) => match ended {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => Err(format!("the validator panicked: {}", panic_text(&*panic))),
            Err(_) => Err(format!("timeout after {} ms", wish.timeout_ms)),
        },
    };
    let result =
        ended.unwrap_or_else(|message| Validation::Broken { by: at.into(), message: message.into() });
    Settled::of(Fact::Validated { key: wish.key, attempt: wish.attempt, result })
}

/// Layer after layer; `at` names the one that is asked.
async fn check(checks: &Checks, output: &str, at: &mut String) -> Validation {
    let invalid = |by: &str, message: String| Validation::Invalid { by: by.into(), message: message.into() };
    let value: Value = match serde_json::from_str(if output.trim().is_empty() { "{}" } else { output }) {
        Ok(value) => value,
        Err(error) => return invalid(SCHEMA, format!("the arguments are not JSON: {error}")),
    };
    if let Some(misfits) = checks.registry.misfits(&checks.tool, &value) {
        return invalid(SCHEMA, misfits);
    }
    for validator in checks.validators.iter() {
        *at = validator.name().to_owned();
        if let Err(message) = validator.validate(&value).await {
            return invalid(at, message);
        }
    }
    Validation::Valid
}

/// The name of the first layer.
pub(crate) const SCHEMA: &str = "schema";
