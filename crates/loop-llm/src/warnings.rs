//! What is left out of a request or changed in it, said once, or refused.

use std::sync::Arc;

use crate::codec::Turn;
use crate::error::{LlmError, LlmErrorKind};
use crate::options::{Caching, Unsupported};

/// The warnings of one encoding.
#[derive(Debug)]
pub(crate) struct Warnings {
    policy: Unsupported,
    list: Vec<Arc<str>>,
}

impl Warnings {
    /// With those of the turns.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where a turn has what the model does not take and that may not be.
    pub(crate) fn of(policy: Unsupported, turns: &[Turn]) -> Result<Self, LlmError> {
        let mut warnings = Self { policy, list: Vec::new() };
        turns.iter().flat_map(|turn| &turn.changed).try_for_each(|name| warnings.change(name))?;
        Ok(warnings)
    }

    /// Says something, once.
    pub(crate) fn warn(&mut self, warning: impl Into<Arc<str>>) {
        let warning = warning.into();
        if !self.list.contains(&warning) {
            self.list.push(warning);
        }
    }

    /// An option that the model does not take is left out, `param_dropped(name)`.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where that may not be.
    pub(crate) fn leave_out(&mut self, name: &str) -> Result<(), LlmError> {
        self.bear("param_dropped", name)
    }

    /// An option is sent as the nearest that the model takes, `param_changed(name)`.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where that may not be.
    pub(crate) fn change(&mut self, name: &str) -> Result<(), LlmError> {
        self.bear("param_changed", name)
    }

    /// At most `max` texts at which a reply ends are taken, of which `given` were wanted.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where fewer may not be.
    pub(crate) fn fewer_stops(&mut self, given: usize, max: usize) -> Result<(), LlmError> {
        match max {
            max if given <= max => Ok(()),
            0 => self.leave_out("stop"),
            _ => self.change("stop"),
        }
    }

    /// The key of a cache is left out, which changes no reply: a warning where the caller chose it, and never more.
    pub(crate) fn leave_out_key(&mut self, cache: &Caching) {
        if cache.key.is_some() && !cache.off && !cache.is_hint {
            self.warn("param_dropped(prompt_cache_key)");
        }
    }

    /// Something is done in a lesser way, `code(name)`.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where that may not be.
    pub(crate) fn bear(&mut self, code: &str, name: &str) -> Result<(), LlmError> {
        match self.policy {
            Unsupported::Degrade => {
                self.warn(format!("{code}({name})"));
                Ok(())
            }
            Unsupported::Reject => Err(refused(name)),
        }
    }

    /// The option `name` is done in a lesser way, `code`.
    ///
    /// # Errors
    /// [`LlmErrorKind::Unsupported`] where that may not be.
    pub(crate) fn lessen(&mut self, code: &str, name: &str) -> Result<(), LlmError> {
        match self.policy {
            Unsupported::Degrade => {
                self.warn(code);
                Ok(())
            }
            Unsupported::Reject => Err(refused(name)),
        }
    }

    pub(crate) fn finish(self) -> Vec<Arc<str>> {
        self.list
    }
}

fn refused(name: &str) -> LlmError {
    LlmError::unsendable(LlmErrorKind::Unsupported, format!("this model does not take {name} as it is given"))
}
