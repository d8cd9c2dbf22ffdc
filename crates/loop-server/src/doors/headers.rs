//! Security headers of every response.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// The content security policy: a page loads its own script, style and pictures, and sends forms and requests only to
/// its own server.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                   form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const FIXED: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=()"),
];

/// Sets them. A route can say how long its response may be cached. Otherwise it must not be stored.
pub(super) fn set(headers: &mut HeaderMap) {
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // No other origin reads a response.
    headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
