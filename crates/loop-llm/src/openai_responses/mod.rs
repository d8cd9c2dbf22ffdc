//! OpenAI's Responses.

use crate::codec::{Encoded, Protocol, Target};
use crate::error::{LlmError, LlmErrorKind};
use crate::request::ModelRequest;

pub(crate) fn encode(_: &ModelRequest, _: &Target<'_>) -> Result<Encoded, LlmError> {
    Err(LlmError::unsendable(LlmErrorKind::Unsupported, "not there yet"))
}

pub(crate) fn protocol(request: &ModelRequest, target: &Target<'_>) -> Box<dyn Protocol> {
    crate::openai_chat::protocol(request, target)
}
