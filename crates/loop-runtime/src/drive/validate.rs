//! One validation of an output: the schema of its tool first, then whatever else the program wants checked.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use loop_core::EventKind;
use loop_core::run::{Validate, Validation};
use loop_tools::{Registry, apart};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::drive::model::Settled;
use crate::watch::steps::panic_text;

/// The second layer of validation (S2-4): what a schema cannot say.
#[async_trait]
pub trait Validator: Send + Sync {
    /// Its name, for the model and for reports of why an output was rejected.
    fn name(&self) -> &str;

    /// What is wrong with the output, which fits its schema: one text for the model, by which it can be repaired.
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

/// What an output is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    pub(crate) registry: Registry,
    pub(crate) tool: Arc<str>,
    pub(crate) validators: Arc<[Arc<dyn Validator>]>,
}

/// Validates and says how it ended, within its time.
pub(crate) async fn validate(checks: Checks, command: Validate, cancel: CancellationToken) -> Settled {
    let limit = Duration::from_millis(command.timeout_ms);
    let mut at = SCHEMA.to_owned();
    let checking = AssertUnwindSafe(check(&checks, &command.output, &mut at)).catch_unwind();
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => Err("the run stopped".to_owned()),
        ended = tokio::time::timeout(limit, checking) => match ended {
            Ok(ended) => ended.unwrap_or_else(|panic| Err(panicked(&*panic))),
            Err(_) => Err(format!("timeout after {} ms", command.timeout_ms)),
        },
    };
    let result =
        ended.unwrap_or_else(|message| Validation::Broken { by: at.into(), message: message.into() });
    Settled::of(EventKind::Validated { key: command.key, attempt: command.attempt, result })
}

/// The value that the text of an output is; no text at all is an empty object.
pub(crate) fn value_of(output: &str) -> serde_json::Result<Value> {
    serde_json::from_str(if output.trim().is_empty() { "{}" } else { output })
}

/// Layer after layer; `at` names the one that is asked. An error where one of them broke.
async fn check(checks: &Checks, output: &str, at: &mut String) -> Result<Validation, String> {
    let invalid =
        |by: &str, message: String| Ok(Validation::Invalid { by: by.into(), message: message.into() });
    let value = match value_of(output) {
        Ok(value) => Arc::new(value),
        Err(error) => return invalid(SCHEMA, format!("the arguments are not JSON: {error}")),
    };
    if let Some(schema_violations) = checks.registry.schema_violations(&checks.tool, &value) {
        return invalid(SCHEMA, schema_violations);
    }
    for validator in checks.validators.iter() {
        *at = validator.name().to_owned();
        if let Err(message) = requested(Arc::clone(validator), Arc::clone(&value)).await? {
            return invalid(at, message);
        }
    }
    Ok(Validation::Valid)
}

/// What one validator says, or how it broke. Dropping it drops the validation.
async fn requested(validator: Arc<dyn Validator>, output: Arc<Value>) -> Result<Result<(), String>, String> {
    let ended = apart(async move { validator.validate(&output).await }).await;
    ended.ok_or_else(|| "the run stopped".to_owned())?.map_err(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("the validator panicked: {}", panic_text(panic))
}

/// The name of the first layer.
pub(crate) const SCHEMA: &str = "schema";
