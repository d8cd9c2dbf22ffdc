//! The options of a request body while they are written.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::Target;
use super::json::Members;
use crate::error::LlmError;
use crate::request::ModelRequest;
use crate::warnings::Warnings;

/// The options of one request. `A` are the abilities of its model, as its protocol knows them.
#[derive(Debug)]
pub(crate) struct Draft<'a, A> {
    pub(crate) request: &'a ModelRequest,
    pub(crate) target: Target<'a>,
    pub(crate) abilities: A,
    pub(crate) members: Members<'a>,
    pub(crate) warnings: Warnings,
}

impl<A> Draft<'_, A> {
    /// An option that is sent as `member` where the model `takes` it, and left out otherwise.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`](loop_core::types::FailureKind::Unsupported) where the policy refuses to leave it out.
    pub(crate) fn offer(
        &mut self,
        member: &str,
        value: Option<impl Serialize>,
        takes: bool,
    ) -> Result<(), LlmError> {
        match value {
            Some(value) if takes => self.members.add(member, &value),
            Some(_) => self.warnings.leave_out(member)?,
            None => {}
        }
        Ok(())
    }

    /// The tokens that the model may think with: the `wanted` ones, within `bounds` and so that enough of `max_output` is
    /// left for a reply. A requested budget is reduced as little as possible. `None` where there is no room.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`](loop_core::types::FailureKind::Unsupported) where the policy refuses another budget than the
    /// requested one.
    pub(crate) fn thinking_budget(
        &mut self,
        wanted: u64,
        bounds: RangeInclusive<u64>,
        max_output: Option<u64>,
    ) -> Result<Option<u64>, LlmError> {
        let is_chosen = self.request.reasoning_tokens.is_some();
        let name = if is_chosen { "reasoning_tokens" } else { "reasoning_effort" };
        let (least, max) = bounds.into_inner();
        let room = match max_output {
            Some(all) if is_chosen => all.saturating_sub(1),
            Some(all) => all - all / 4,
            None => max,
        };
        if room < least {
            self.warnings.leave_out(name)?;
            return Ok(None);
        }
        let within = wanted.clamp(least, max.min(room));
        if within != wanted && (is_chosen || wanted == 0) {
            self.warnings.change(name)?;
        }
        Ok(Some(within))
    }
}
