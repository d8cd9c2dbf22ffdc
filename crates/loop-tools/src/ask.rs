//! One question to a model about a tool's own result: granted by the core, rendered and paid for by the
//! runtime.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loop_core::types::{Receipt, SubCallUse, Usage};

/// A model that chooses among candidates.
///
/// An implementation renders the prompt, calls the auxiliary model within the granted budget and returns the raw reply.
#[async_trait]
pub trait AskModel: Send + Sync {
    /// The model's raw reply, or why there is none.
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError>;
}

/// The candidates that a model is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceRequest {
    /// The work item in one line.
    pub title: String,
    /// What the action searches for. `None`: it does not say.
    pub target: Option<String>,
    /// What makes a candidate relevant, in the words of the tool's author. `None`: nothing beyond the title and the
    /// target.
    pub instruction: Option<String>,
    /// The candidates, one line each. A reply names them by position, counted from 0.
    pub candidates: Vec<String>,
}

/// The reply of a sub-call's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubCallReply {
    /// The text of the reply.
    pub text: String,
    /// Tokens as reported. `None`: not reported.
    pub usage: Option<Usage>,
    /// What was received of the reply.
    pub received: Receipt,
    /// The model that served, as the provider reports it. `None`: not reported.
    pub served_model: Option<Arc<str>>,
}

impl SubCallReply {
    /// What the call used, and whether its answer was.
    pub(crate) fn used(&self, answered: bool) -> SubCallUse {
        let (usage, received, served_model) = (self.usage, self.received, self.served_model.clone());
        SubCallUse { answered, usage, received, served_model }
    }
}

/// Why a sub-call returned no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AskError {
    /// The reason, as one line for people.
    pub message: String,
    /// Tokens that the failed call used. `None`: not known.
    pub usage: Option<Usage>,
    /// What was received before the failure.
    pub received: Receipt,
    /// The model that served, as the provider reports it. `None`: not reported.
    pub served_model: Option<Arc<str>>,
}

impl AskError {
    /// What the call used.
    pub(crate) fn used(&self) -> SubCallUse {
        let (usage, received, served_model) = (self.usage, self.received, self.served_model.clone());
        SubCallUse { answered: false, usage, received, served_model }
    }
}

/// The model that a tool is given: it admits one question, and keeps what was used even if the tool does not
/// live to tell.
pub(crate) struct MeteredModel {
    model: Arc<dyn AskModel>,
    used: Mutex<Option<SubCallUse>>,
}

impl MeteredModel {
    pub(crate) fn new(model: Arc<dyn AskModel>) -> Self {
        Self { model, used: Mutex::new(None) }
    }

    /// What the question used, if it was asked. Whether its answer was any good only the tool can say.
    pub(crate) fn used(&self) -> Option<SubCallUse> {
        self.meter().clone()
    }

    fn meter(&self) -> MutexGuard<'_, Option<SubCallUse>> {
        // A tool that panics while it holds the lock leaves a value that is whole.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AskModel for MeteredModel {
    async fn choose(&self, request: &ChoiceRequest) -> Result<SubCallReply, AskError> {
        {
            let mut used = self.meter();
            if used.is_some() {
                return Err(AskError {
                    message: "one sub-call was granted and it was made".to_owned(),
                    usage: None,
                    received: Receipt::default(),
                    served_model: None,
                });
            }
            *used = Some(SubCallUse::new(false, None));
        }
        let reply = self.model.choose(request).await;
        *self.meter() = Some(match &reply {
            Ok(answer) => answer.used(false),
            Err(error) => error.used(),
        });
        reply
    }
}
