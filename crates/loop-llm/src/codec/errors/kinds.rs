//! Classifies an error response: by its code, or else by its message, or else by its status.

use loop_core::types::FailureKind as Kind;

use super::head;
use super::overflow::is_overflow;
use super::reported::ReportedError;
use crate::error::RequestChange;

/// The parts of a response that are classified.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) reported: &'a ReportedError,
    pub(super) status: u16,
    /// Whether a header requests a delay.
    pub(super) has_delay: bool,
    /// The beginning of the message, in lower case.
    pub(super) text: String,
}

impl<'a> Case<'a> {
    pub(super) fn new(reported: &'a ReportedError, status: u16, has_delay: bool) -> Self {
        let text = head(&reported.message, super::MAX_JUDGED).to_ascii_lowercase();
        Self { reported, status, has_delay, text }
    }

    fn has(&self, words: &[&str]) -> bool {
        self.reported.has(words)
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// The kind of error. More specific checks come first.
    pub(super) fn kind(&self) -> Kind {
        let is_fault = matches!(self.status, 400 | 422);
        match self.status {
            300..=399 => Kind::BadResponse,
            _ if self.is_overflow() => Kind::ContextTooLong,
            _ if let Some(kind) = self.listed() => kind,
            413 => Kind::RequestTooLarge,
            _ if self.has(&["request_too_large"]) => Kind::RequestTooLarge,
            _ if self.is_out_of_quota() => Kind::QuotaExhausted,
            _ if self.is_unpaid() => Kind::Billing,
            _ if self.has(&["invalid_encrypted_content"]) => Kind::StaleReasoning,
            _ if is_fault && self.is_stale() => Kind::StaleReasoning,
            _ if self.has(&["previous_response_not_found"]) => Kind::StateLost,
            _ if self.is_filtered() => Kind::ContentFilter,
            _ if self.has(&["tool_use_failed"]) => Kind::MalformedToolCall,
            _ if self.wants_other_api() => Kind::InvalidRequest,
            _ if self.has(&NO_MODEL) || (is_fault && self.says(&NO_MODEL_STATED)) => Kind::ModelNotFound,
            _ if self.has(&NO_KEY) || (is_fault && self.says(&["api key not valid"])) => Kind::Auth,
            429 if self.says(&["request too large"]) => Kind::RequestTooLarge,
            _ if self.has(&OVERLOADED) || self.is_loading() => Kind::Overloaded,
            _ if self.has(&RATE_LIMITED) => Kind::RateLimited,
            _ if self.has(&LATE) => Kind::Timeout,
            _ if self.has(&NOT_ALLOWED) => Kind::Permission,
            401 => Kind::Auth,
            403 => Kind::Permission,
            404 if self.says(&["model"]) || self.has(&["not_found_error", "not_found"]) => {
                Kind::ModelNotFound
            }
            408 | 504 => Kind::Timeout,
            402 | 429 => Kind::RateLimited,
            498 | 503 | 529 => Kind::Overloaded,
            499 => Kind::Cancelled,
            500.. if self.says(&TEMPLATE) || self.refused().is_some() => Kind::InvalidRequest,
            // A conflict is temporary, like a server error.
            409 | 500.. => Kind::ServerError,
            200..300 => Kind::BadResponse,
            _ => Kind::InvalidRequest,
        }
    }

    fn is_overflow(&self) -> bool {
        self.has(&["context_length_exceeded", "exceed_context_size_error"])
            // Words of a rate limit are like those of a window.
            || (matches!(self.status, 400..=428 | 430..=599) && is_overflow(&self.text))
    }

    /// The kind of an error that a provider names by a code of its own.
    fn listed(&self) -> Option<Kind> {
        let is_it = |(code, _): &&(&str, Kind)| self.reported.has(&[code]);
        REFUSED_BY_CODE.iter().find(is_it).map(|(_, kind)| *kind)
    }

    fn is_out_of_quota(&self) -> bool {
        let is_daily =
            || self.reported.quotas.iter().any(|quota| quota.contains("perday") || quota.contains("daily"));
        // A limit of zero does not pass by waiting.
        let is_nothing = || {
            self.text.match_indices("limit: 0").any(|(at, found)| {
                let next = self.text.get(at + found.len()..).and_then(|rest| rest.chars().next());
                next.is_none_or(|c| !c.is_ascii_digit() && c != '.')
            })
        };
        self.has(&OUT_OF_QUOTA)
            || self.text.starts_with("you have reached your specified api usage limits")
            || (self.has(&["resource_exhausted"]) && (is_daily() || is_nothing()))
    }

    fn is_unpaid(&self) -> bool {
        let is_waited_for = self.status == 402 && self.has_delay;
        let is_fault = matches!(self.status, 400 | 402 | 403);
        !is_waited_for
            && (self.status == 402
                || self.has(&["billing_error", "billing_disabled", "payment_required"])
                || (is_fault && self.says(&["credit balance is too low"])))
    }

    /// Whether reasoning of an earlier turn was refused, or its signature was missing.
    fn is_stale(&self) -> bool {
        let is_sealed = self.says(&["encrypted content", "encrypted_content"])
            && self.says(&["verif", "decrypt", "invalid", "parsed"]);
        let is_thought = self.says(&["thinking"])
            && self.says(&["signature", "cannot be modified", "bound to", "binding"]);
        is_sealed
            || is_thought
            || self.says(&["thought signature", "thought_signature", "thoughtsignature"])
            || self.says(&["without its required", "items are not persisted when"])
    }

    fn is_filtered(&self) -> bool {
        self.has(&FILTERED)
            || (self.status == 403 && !self.reported.filters.is_empty())
            || (matches!(self.status, 400 | 403)
                && self.says(&["content filtering policy", "content violates usage guidelines"]))
    }

    /// Whether the model supports the request only on the provider's other API.
    pub(super) fn wants_other_api(&self) -> bool {
        let is_effort = self.reported.param == "reasoning_effort" || self.says(&["reasoning_effort"]);
        (self.status == 400 && is_effort && self.says(&["tool"]))
            || (matches!(self.status, 400 | 404) && self.says(&["v1/responses"]))
    }

    /// The change by which a request can do without what the server refuses by name.
    pub(super) fn refused(&self) -> Option<RequestChange> {
        let names = |words: &[&str]| {
            let is_param = words.iter().any(|word| self.reported.param.starts_with(word));
            is_param || (self.reported.param.is_empty() && self.says(words))
        };
        match self.status {
            400 | 404 | 422 | 500 | 501 if names(&TOOL_CHOICE) => Some(RequestChange::LeaveToolChoice),
            400 | 404 | 422 | 500 | 501 if names(&ONE_CALL) => Some(RequestChange::LeaveOneCall),
            400 | 404 | 422 | 500 | 501
                if self.says(&TEMPLATE)
                    || self.says(&LATE_SYSTEM)
                    || (self.reported.param.starts_with("messages")
                        && self.reported.param.ends_with("role")) =>
            {
                Some(RequestChange::InstructAsUser)
            }
            400 | 422 if self.names_nothing() => Some(RequestChange::LeaveNew),
            _ => None,
        }
    }

    /// Whether a request is refused without a word of why.
    fn names_nothing(&self) -> bool {
        let said = self.text.trim().trim_end_matches('.');
        let said = said.strip_prefix("an html page in place of json: ").unwrap_or(said);
        let said = said.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let is_nothing = said.is_empty() || !said.contains('|') && NOTHING.contains(&format!("|{said}|"));
        is_nothing && self.reported.param.is_empty()
    }

    /// What a person can set so that the server takes the request.
    pub(super) fn hint(&self) -> Option<&'static str> {
        if self.status == 407 {
            return Some(PROXY);
        }
        let is_fault = matches!(self.status, 400 | 422 | 500) && self.says(&["reasoning_content"]);
        HINTS.iter().find(|(words, _)| is_fault && self.says(words)).map(|(_, hint)| *hint)
    }

    /// Whether the server is still loading the model.
    pub(super) fn is_loading(&self) -> bool {
        self.status >= 500 && self.says(&["loading model", "model is loading", "currently loading"])
    }
}

/// What is said of reasoning in earlier turns, and the setting that changes whether it is sent.
const HINTS: [(&[&str], &str); 2] = [
    (
        &["missing", "must be passed", "must be provided", "is required", "required field"],
        "set `reasoning_back = \"with_tool_calls\"` in `[providers.NAME]` of this provider",
    ),
    (
        &[
            "unknown",
            "unexpected",
            "not permitted",
            "not allowed",
            "not supported",
            "unsupported",
            "unrecognized",
            "extra",
        ],
        "set `reasoning_back = \"never\"` in `[providers.NAME]` of this provider",
    ),
];
/// What a proxy of unencrypted calls wants.
const PROXY: &str = "the proxy of `HTTP_PROXY` wants a user and a password: http://USER:PASSWORD@HOST:PORT";
/// Codes of single providers, in lower case, which say more than their status. A number is one only where its provider
/// writes it: in `base_resp`, or alone beside its message. Others have numbers of their own.
const REFUSED_BY_CODE: [(&str, Kind); 27] = [
    // MiniMax.
    ("base_resp 1002", Kind::RateLimited),
    ("base_resp 1004", Kind::Auth),
    ("base_resp 1008", Kind::Billing),
    ("base_resp 1026", Kind::ContentFilter),
    ("base_resp 1027", Kind::ContentFilter),
    ("base_resp 1039", Kind::RateLimited),
    ("base_resp 2013", Kind::InvalidRequest),
    ("base_resp 2049", Kind::Auth),
    // Zhipu.
    ("lone 1113", Kind::Billing),
    ("lone 1211", Kind::ModelNotFound),
    ("lone 1261", Kind::ContextTooLong),
    ("lone 1301", Kind::ContentFilter),
    ("lone 1302", Kind::RateLimited),
    ("lone 1303", Kind::RateLimited),
    ("lone 1305", Kind::Overloaded),
    // Alibaba.
    ("throttling", Kind::RateLimited),
    ("throttling.ratequota", Kind::RateLimited),
    ("throttling.allocationquota", Kind::RateLimited),
    ("arrearage", Kind::Billing),
    ("datainspectionfailed", Kind::ContentFilter),
    ("invalidapikey", Kind::Auth),
    // Moonshot.
    ("exceeded_current_quota_error", Kind::QuotaExhausted),
    ("engine_overloaded_error", Kind::Overloaded),
    ("rate_limit_reached_error", Kind::RateLimited),
    ("invalid_authentication_error", Kind::Auth),
    // Amazon.
    ("throttlingexception", Kind::RateLimited),
    ("modelnotreadyexception", Kind::Overloaded),
];
/// Codes of temporary errors.
pub(super) const RATE_LIMITED: [&str; 5] =
    ["rate_limit_exceeded", "rate_limit_error", "rate_limited", "resource_exhausted", "too_many_requests"];
pub(super) const OVERLOADED: [&str; 8] = [
    "slow_down",
    "server_is_overloaded",
    "overloaded_error",
    "provider_overloaded",
    "unavailable_error",
    "unavailable",
    "service_unavailable",
    "insufficient_system_resource",
];
/// Types of errors that recur with the same request, and their usual statuses.
pub(super) const REFUSALS: [(&str, u16); 9] = [
    ("authentication_error", 401),
    ("unauthenticated", 401),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("not_found_error", 404),
    ("not_found", 404),
    ("invalid_request_error", 400),
    ("invalid_argument", 400),
    ("failed_precondition", 400),
];
const OUT_OF_QUOTA: [&str; 7] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "billing_hard_limit_reached",
    "enforced_spend_limit_reached",
];
const FILTERED: [&str; 6] = [
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "bio_policy",
    "responsibleaipolicyviolation",
    "refusal",
];
const NO_MODEL: [&str; 4] =
    ["model_not_found", "deploymentnotfound", "invalid_model", "model_decommissioned"];
const NO_MODEL_STATED: [&str; 2] = ["is not a valid model id", "model not exist"];
const NO_KEY: [&str; 4] = ["invalid_api_key", "authentication_error", "api_key_invalid", "unauthenticated"];
const LATE: [&str; 3] = ["timeout", "timeout_error", "deadline_exceeded"];
const NOT_ALLOWED: [&str; 3] = ["permission_error", "permission_denied", "failed_precondition"];
/// Names of the choice of tools, in all protocols.
const TOOL_CHOICE: [&str; 5] =
    ["tool_choice", "toolchoice", "tool choice", "function_calling_config", "functioncallingconfig"];
/// Names of the limit of one call at a time.
const ONE_CALL: [&str; 2] = ["parallel_tool_calls", "disable_parallel_tool_use"];
/// How servers name a message in the role of the rules behind the first one.
const LATE_SYSTEM: [&str; 12] = [
    "system message",
    "system prompt",
    "system role",
    "role system",
    "role: system",
    "role 'system'",
    "role \"system\"",
    "developer message",
    "role 'developer'",
    "roles are supported",
    // A user's message after results.
    "after role 'tool'",
    "after role \"tool\"",
];
/// Messages that say only that a request is refused.
const NOTHING: &str = "|error|bad request|invalid request|invalid_request|invalid_request_error|request contains an \
    invalid argument|unprocessable entity|unprocessable content|provider returned error|";
/// Error messages of a chat template that cannot render the turns.
const TEMPLATE: [&str; 4] = ["raise_exception", "roles must alternate", "chat template", "jinja"];
