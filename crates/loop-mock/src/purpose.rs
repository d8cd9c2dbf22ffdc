//! Infers the purpose of a request that does not state it, since it was received over HTTP or built by hand.

use std::borrow::Cow;

use loop_llm::ModelRequest;
use loop_llm::scripted::{RequestPurpose, has_tools};
use loop_prompts::anchors::{EVIDENCE, FILTER, OPINION, REPAIR, SELECTION};

/// The request with its purpose, which a model that plays a role depends on. A stated purpose stays. Otherwise a
/// request with native tools or their results is a turn of a conversation, and the system prompt decides about any
/// other. Evidence is ignored, since untrusted text must not decide the purpose.
pub fn with_purpose(request: &ModelRequest) -> Cow<'_, ModelRequest> {
    if request.meta.purpose.is_some() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.meta.purpose = Some(of_prompt(&request));
    Cow::Owned(request)
}

/// The purpose of a system prompt.
pub(crate) fn of_prompt(request: &ModelRequest) -> RequestPurpose {
    let rules = request.system.split(&format!("\n{EVIDENCE}\n")).next().unwrap_or_default();
    let about = [
        (SELECTION, RequestPurpose::Select),
        (FILTER, RequestPurpose::Filter),
        (REPAIR, RequestPurpose::Repair),
        (OPINION, RequestPurpose::Opinion),
    ];
    let found = about.into_iter().find(|(anchor, _)| rules.contains(anchor));
    found.filter(|_| !has_tools(request)).map_or(RequestPurpose::Main, |(_, purpose)| purpose)
}
