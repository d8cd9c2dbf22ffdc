//! Authenticates requests by a token or a session.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use loop_runtime::budget::{SharedBudget, Span};
use loop_runtime::journal::audit::{AuditAction, AuditEntry, AuditResult};

use super::admission::AuthVia;
use super::form;
use super::guard::DoorState;
use super::identity::{Identity, unknown};
use super::listen::Peer;
use super::refusal::{Refusal, malformed, refused, unauthorized};
use super::sessions::{Holder, csrf_of};
use super::tokens::{LOCAL, Token};
use super::watched::TokenMatch;
use crate::caller::{Caller, Role};
use crate::problem::HttpProblem;

/// An authenticated sender.
pub(super) struct Sender {
    pub(super) identity: Identity,
    pub(super) by: AuthVia,
    /// The id of their session. `None`: they sent a token.
    pub(super) session: Option<Arc<str>>,
}

impl DoorState {
    /// The address of the client: the peer's, or the one that a trusted proxy reports last.
    pub(super) fn from(&self, request: &Request) -> IpAddr {
        let peer = request.extensions().get::<Peer>().map(|Peer(peer)| peer.ip().to_canonical());
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        if !self.config.proxies.contains(&peer) {
            return peer;
        }
        let named = request.headers().get_all("x-forwarded-for").iter().next_back();
        let named = named.and_then(|named| named.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        named.unwrap_or(peer)
    }

    /// Authenticates a request by its headers. A failed login is recorded.
    pub(super) async fn identify(&self, headers: &HeaderMap, from: IpAddr) -> Result<Sender, Refusal> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (Some(given), None) => {
                let given = given.to_str().ok().and_then(|given| given.split_once(' '));
                let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                let (_, token) = given.ok_or_else(|| {
                    unauthorized("send the token as `Authorization: Bearer TOKEN`; no other scheme is known")
                })?;
                let token = self.token(token.trim(), from).await?;
                Ok(Sender { identity: of_token(&token, from), by: AuthVia::Token(token.hash), session: None })
            }
            (Some(_), Some(_)) => Err(malformed(
                StatusCode::BAD_REQUEST,
                "the request has several headers Authorization; send one",
            )),
            (None, _) => self.of_session(headers, from),
        }
    }

    /// The sender of a request, for an audit entry about it. `None`: unknown.
    pub(super) fn recognised(&self, headers: &HeaderMap, from: IpAddr) -> Option<Identity> {
        match headers.get(header::AUTHORIZATION) {
            Some(given) => {
                let (scheme, token) = given.to_str().ok()?.split_once(' ')?;
                let tokens = self.config.tokens.as_ref().filter(|_| scheme.eq_ignore_ascii_case("bearer"))?;
                match tokens.find(token.trim()) {
                    TokenMatch::Valid(token) => Some(of_token(&token, from)),
                    TokenMatch::Expired(_) | TokenMatch::Unknown => None,
                }
            }
            None => self.of_session(headers, from).ok().map(|known| known.identity),
        }
    }

    /// The token, if it is valid.
    pub(super) async fn token(&self, given: &str, from: IpAddr) -> Result<Token, Refusal> {
        let found = self.config.tokens.as_ref().map_or(TokenMatch::Unknown, |tokens| tokens.find(given));
        match found {
            TokenMatch::Valid(token) => Ok(*token),
            TokenMatch::Expired(name) => {
                let entry = AuditEntry {
                    who: Arc::clone(&name),
                    account: format!("token {name}").into(),
                    detail: Some("the token has expired".into()),
                    ..unknown(from, AuditAction::Login, AuditResult::Refused)
                };
                self.fail(entry, from).await?;
                Err(unauthorized("the token has expired; ask the operator for another one"))
            }
            TokenMatch::Unknown => {
                let entry = AuditEntry {
                    detail: Some("the token is not known".into()),
                    ..unknown(from, AuditAction::Login, AuditResult::Refused)
                };
                self.fail(entry, from).await?;
                Err(unauthorized(
                    "the token is not known: it is mistyped or was removed; ask the operator for one",
                ))
            }
        }
    }

    /// Records a failed login. After too many, they are refused without an entry.
    pub(super) async fn fail(&self, entry: AuditEntry, from: IpAddr) -> Result<(), Refusal> {
        self.attempts.fail(from).map_err(|seconds| {
            let detail = "too many logins were refused; wait, and send a valid token";
            HttpProblem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many-logins",
                "Too many refused logins",
                detail,
            )
            .retry_after(seconds)
        })?;
        self.note(entry).await
    }

    /// Writes an audit entry. If that fails, the login is refused.
    pub(super) async fn note(&self, entry: AuditEntry) -> Result<(), Refusal> {
        self.config.audit.note(entry).await.map_err(|_| {
            let detail = "the audit log cannot be written, so nothing is opened; the operator has to look at the journal";
            refused(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available", detail)
        })
    }

    fn of_session(&self, headers: &HeaderMap, from: IpAddr) -> Result<Sender, Refusal> {
        let [plain, secure] = &self.cookie;
        let session = form::cookie(headers, secure).or_else(|| form::cookie(headers, plain));
        let missing = || match self.config.tokens {
            Some(_) => unauthorized(
                "no token was sent; send it as `Authorization: Bearer TOKEN`, or log in at /login",
            ),
            None => unauthorized(
                "no session; start the program again (`loopgate view` or `loopgate serve`) and open the address that it prints",
            ),
        };
        let session = session.ok_or_else(missing)?;
        let identity = match self.sessions.find(session) {
            Some(Holder::Local) => self.local(from),
            Some(Holder::Token(hash)) => {
                match self.config.tokens.as_ref().map_or(TokenMatch::Unknown, |tokens| tokens.again(&hash)) {
                    TokenMatch::Valid(token) => of_token(&token, from),
                    TokenMatch::Expired(_) | TokenMatch::Unknown => {
                        self.sessions.end(session);
                        return Err(missing());
                    }
                }
            }
            None => return Err(missing()),
        };
        let identity = Identity { csrf: Some(csrf_of(session)), ..identity };
        let session: Arc<str> = session.into();
        Ok(Sender { identity, by: AuthVia::Session(Arc::clone(&session)), session: Some(session) })
    }

    /// The person at this machine.
    pub(super) fn local(&self, from: IpAddr) -> Identity {
        let caller = Caller { name: LOCAL.into(), roles: [Role::Admin].into(), domains: None };
        Identity { caller, has_token: false, from, budget: None, csrf: None }
    }
}

pub(super) fn of_token(token: &Token, from: IpAddr) -> Identity {
    let of = || Arc::clone(&token.name);
    let budget = token.day_limit.map(|limit| SharedBudget { span: Span::TokenDay, of: of(), limit });
    Identity { caller: token.caller(), has_token: true, from, budget, csrf: None }
}
