//! Checks for what no provider accepts, before a request is encoded.

use std::sync::Arc;

use super::turns::invalid;
use crate::error::LlmError;
use crate::options::ToolChoice;
use crate::request::{Image, Message, ModelRequest};

/// Checks that the settings of a request are within their documented ranges, and that its tool choice names its tools.
///
/// # Errors
/// [`FailureKind::InvalidRequest`](loop_core::types::FailureKind::InvalidRequest) in phase
/// [`ErrorPhase::Encode`](crate::ErrorPhase::Encode), for the first that is not.
pub(super) fn settings(request: &ModelRequest) -> Result<(), LlmError> {
    if request.max_output_tokens == Some(0) {
        return Err(invalid("max_output_tokens has to be above 0"));
    }
    for (name, value, max) in [("temperature", request.temperature, 2.0), ("top_p", request.top_p, 1.0)] {
        if value.is_some_and(|value| !(0.0..=max).contains(&value)) {
            return Err(invalid(format!("{name} has to be from 0 to {max}")));
        }
    }
    match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Prefer => Ok(()),
        ToolChoice::Required if request.tools.is_empty() => {
            Err(invalid("the tool choice is required, and there is no tool"))
        }
        ToolChoice::Required => Ok(()),
        ToolChoice::Named(name) => chosen(request, std::slice::from_ref(name)),
        ToolChoice::AnyOf(names) if names.is_empty() => {
            Err(invalid("the tool choice any_of names no tool; none is the choice of none"))
        }
        ToolChoice::AnyOf(names) => chosen(request, names),
    }
}

fn chosen(request: &ModelRequest, names: &[Arc<str>]) -> Result<(), LlmError> {
    match names.iter().find(|name| !request.tools.iter().any(|tool| tool.name == **name)) {
        Some(name) => Err(invalid(format!("the tool choice names {name:?}, and there is no such tool"))),
        None => Ok(()),
    }
}

/// Checks the images of a turn.
///
/// # Errors
/// [`FailureKind::InvalidRequest`](loop_core::types::FailureKind::InvalidRequest) for an image whose media type is not one of an
/// image, or whose data is not Base64.
pub(super) fn pictures(message: &Message) -> Result<(), LlmError> {
    match message {
        Message::User { images, .. } => images.iter().try_for_each(picture),
        Message::Tool { results } => results.iter().flat_map(|result| &result.images).try_for_each(picture),
        Message::Assistant(_) | Message::Operator { .. } => Ok(()),
    }
}

fn picture(image: &Image) -> Result<(), LlmError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    let kind = image.media_type.strip_prefix("image/");
    if !kind.is_some_and(|kind| !kind.is_empty() && kind.bytes().all(is_word)) {
        return Err(invalid(format!(
            "a picture of the media type {:?}, which is not image/…",
            image.media_type
        )));
    }
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = image.base64.trim_end_matches('=');
    let is_padded = image.base64.len() - digits.len() <= 2;
    if digits.is_empty() || !is_padded || !digits.bytes().all(is_digit) {
        return Err(invalid("a picture whose bytes are not in Base64"));
    }
    Ok(())
}
