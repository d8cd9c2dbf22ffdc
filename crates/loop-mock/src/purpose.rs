//! What a request is for, of one that does not say: it was received over the wire, or built by hand.

use std::borrow::Cow;

use loop_llm::ModelRequest;
use loop_llm::scripted::{RequestPurpose, has_tools};
use loop_prompts::anchors::{EVIDENCE, FILTER, OPINION, REPAIR, SELECTION};

/// The request with its purpose, as a model that plays a part has to know it. What its caller says counts; else a request
/// with native tools, or with their results, is a turn of a conversation, and any other is what the rules of its system
/// prompt are about. Evidence there is ignored: untrusted text does not decide the purpose.
pub fn with_purpose(request: &ModelRequest) -> Cow<'_, ModelRequest> {
    if request.meta.purpose.is_some() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.meta.purpose = Some(of_prompt(&request));
    Cow::Owned(request)
}

/// What the prompt is about.
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
