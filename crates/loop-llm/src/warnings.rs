//! Collects what an encoder leaves out of a request or changes in it, or refuses the request.

use std::sync::Arc;

use loop_core::types::FailureKind;

use crate::codec::Turn;
use crate::error::LlmError;
use crate::options::{Caching, Strictness, Unsupported};

#[derive(Debug)]
pub(crate) struct Warnings {
    policy: Unsupported,
    list: Vec<Arc<str>>,
}

impl Warnings {
    /// With the warnings of the turns.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where a turn contains what the model does not support, and the policy refuses that.
    pub(crate) fn of(policy: Unsupported, turns: &[Turn]) -> Result<Self, LlmError> {
        let mut warnings = Self { policy, list: Vec::new() };
        turns.iter().flat_map(|turn| &turn.changed).try_for_each(|name| warnings.change(name))?;
        Ok(warnings)
    }

    /// Adds a warning, once.
    pub(crate) fn warn(&mut self, warning: impl Into<Arc<str>>) {
        let warning = warning.into();
        if !self.list.contains(&warning) {
            self.list.push(warning);
        }
    }

    /// An option that the model does not support is left out, with `param_dropped(name)`.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where the policy refuses that.
    pub(crate) fn leave_out(&mut self, name: &str) -> Result<(), LlmError> {
        self.lessen(format!("param_dropped({name})"), name)
    }

    /// An option is sent as the nearest supported value, with `param_changed(name)`.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where the policy refuses that.
    pub(crate) fn change(&mut self, name: &str) -> Result<(), LlmError> {
        self.lessen(format!("param_changed({name})"), name)
    }

    /// An option that the model does not support is left out, where it `is_given`.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where the policy refuses that.
    pub(crate) fn leave_out_if(&mut self, is_given: bool, name: &str) -> Result<(), LlmError> {
        if is_given { self.leave_out(name) } else { Ok(()) }
    }

    /// What was to be bound to a schema is not, with `schema_not_strict(name)` where it was only preferred. `what` it is
    /// is in the error.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where it is required.
    pub(crate) fn unbound(&mut self, wanted: Strictness, what: &str, name: &str) -> Result<(), LlmError> {
        match wanted {
            Strictness::Off => {}
            Strictness::Prefer => self.warn(format!("schema_not_strict({name})")),
            Strictness::Require => {
                let message = format!("the schema {what}{name} cannot be made binding for this model");
                return Err(LlmError::unsendable(FailureKind::Unsupported, message));
            }
        }
        Ok(())
    }

    /// Only `max` of the `given` stop sequences are sent.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where the policy refuses that.
    pub(crate) fn fewer_stops(&mut self, given: usize, max: usize) -> Result<(), LlmError> {
        match max {
            max if given <= max => Ok(()),
            0 => self.leave_out("stop"),
            _ => self.change("stop"),
        }
    }

    /// The cache key is left out, which changes no reply: a warning if the caller chose the key, and never an error.
    pub(crate) fn leave_out_key(&mut self, cache: &Caching) {
        if cache.key.is_some() && !cache.off && !cache.is_hint {
            self.warn("param_dropped(prompt_cache_key)");
        }
    }

    /// The option `name` is supported only in part, with `code`.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] where the policy refuses that.
    pub(crate) fn lessen(&mut self, code: impl Into<Arc<str>>, name: &str) -> Result<(), LlmError> {
        match self.policy {
            Unsupported::Degrade => {
                self.warn(code);
                Ok(())
            }
            Unsupported::Reject => {
                let message = format!("this model does not take {name} as it is given");
                Err(LlmError::unsendable(FailureKind::Unsupported, message))
            }
        }
    }

    pub(crate) fn finish(self) -> Vec<Arc<str>> {
        self.list
    }
}
